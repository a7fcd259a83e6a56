"""The recorded quantities at an instant: one snapshot, one balance, then the observables of every element."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.along import of_each, sections_of
from undula.balance.assemble import field_of
from undula.balance.balance import Balance
from undula.balance.controlled import each_seeing
from undula.balance.energy import Acting, acting_in, energies_of, powers_of
from undula.balance.kinematics import body_frames, mass_centre, momentum_about_origin
from undula.balance.look import Held, hold, moved
from undula.balance.reduced import reduced_accelerations
from undula.balance.rows import rows_of
from undula.balance.solution import Solution, unconstrained_solution, with_efforts
from undula.balance.unconstrained import tree_dynamics
from undula.balance.views import coordinates_of, memory_of, views
from undula.contact.carried import push, slipping, touch
from undula.contact.record import ContactMemory
from undula.core.arrays import Array
from undula.lie import se3, so3
from undula.lie.se3 import push_wrench
from undula.model.arguments import checked
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared, prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.pick import pick
from undula.numerics.programs import quickly_compiled
from undula.numerics.row_space import decompose
from undula.numerics.small import matmul, tmatvec
from undula.tree.driven import driven_motion
from undula.tree.relative import placed_all
from undula.tree.sites import see
from undula.tree.snapshot import Snapshot, move, place


class RodSample(NamedTuple):
    """Fields of a group of rods at their sections: positions [m], strains [1, 1/m], internal wrenches [N, N m]."""

    position: Float[Array, "rods sections 3"]
    strain: Float[Array, "rods sections 6"]
    stress: Float[Array, "rods sections 6"]


class ContactSample(NamedTuple):
    """Contacts, all in the world: the mean force on each body [N] over the step that ends at the sample, the gap [m] there.

    Since the previous sample: the impulse on each body [N s], the mean force [N], and the number of impacts. `slips`: 1 for
    closed contacts whose friction was at its limit in the step that ends at the sample.
    """

    force: Float[Array, "contacts 3"]
    gap: Float[Array, "contacts"]
    impulse: Float[Array, "contacts 3"]
    mean_force: Float[Array, "contacts 3"]
    impacts: Float[Array, "contacts"]
    slips: Float[Array, "contacts"]


class Sample(NamedTuple):
    """Everything recorded at one instant; batched over time in a trajectory.

    - `energy_stored`: kinetic energy plus that of conservative force models, which only the power of others changes [J].
    - `elements`: for each group of elements, their observed values by name.
    """

    t: Array
    state: State
    acceleration: Acceleration
    efforts: Array
    base_wrench: Array
    position: Array
    bodies: se3.Pose
    mass_centre: Array
    momentum: Array
    energy_kinetic: Array
    energy_potential: Array
    energy_stored: Array
    power_actuators: Array
    power_external: Array
    reactions: Array
    residual: Array
    rank: Array
    excess: Array
    rods: tuple[RodSample, ...]
    elements: tuple[dict[str, Array], ...]
    contacts: ContactSample | None


@checked
@quickly_compiled(nameless=True)
def sample(system: System, state: State, t: Any = 0.0) -> Sample:
    """Motion, efforts, energies and powers at time t [s]; without contact forces, which only a run provides."""
    return sampled(prepare(system), t, state)


def sampled(prepared: Prepared, t: Any, state: State, last: ContactMemory | None = None) -> Sample:
    """The same for a prepared system; `last`: contact data of the steps before."""
    system = prepared.system
    contacts, F = None, None
    if system.contacts and last is not None:
        found, balance, F, contacts = _with_contacts(prepared, t, state, last)
    else:
        found, balance, F = _solved(prepared, t, state)
    snap, at = balance.snap, found.state
    acting = acting_in(prepared, snap)
    powers = powers_of(prepared, snap, acting)
    actuators = found.power_efforts + found.power_rows + powers.actuators
    if system.topology.base_role == "driven":
        actuators = actuators + (found.base_wrench * at.base_twist).sum()
    external = powers.others + found.power_slip
    if contacts is not None and last is not None:
        # mean contact force times the velocity after the step would make an impact a source of energy
        external = external + _per_second(last.since.work, last.since.time)
    R, p = body_frames(prepared, snap)
    return Sample(
        jnp.asarray(t, dtype=float),
        at,
        found.acceleration,
        found.efforts,
        found.base_wrench,
        snap.x,
        se3.Pose(p, jax.vmap(so3.from_matrix)(R)),
        mass_centre(prepared, snap),
        momentum_about_origin(prepared, snap),
        *energies_of(prepared, snap),
        actuators,
        external,
        found.reactions,
        found.residual,
        found.rank,
        found.excess,
        () if F is None else rod_fields(prepared, snap, F),
        observed(prepared, snap, acting, found),
        contacts,
    )


def _solved(prepared: Prepared, t: Any, state: State) -> tuple[Solution, Balance, Float[Array, "links 6"] | None]:
    """The solution of an instant, its balance, and the wrenches between the links, if rods are sampled."""
    if prepared.system.constrained:
        held = hold(prepared, t, state)
        snap = moved(prepared, held)
        return with_efforts(prepared, held, snap, reduced_accelerations(prepared, held, snap))
    tree = tree_dynamics(prepared, t, state)
    found = unconstrained_solution(tree.snap.state, tree.acceleration, tree.efforts, tree.wrench)
    snap = place(prepared, t, found.state, found.acceleration, screws=False)
    snap = move(prepared, snap, field_of(prepared, t))
    balance = Balance(prepared, snap, tree.forces)
    return found, balance, balance.link_wrenches() if prepared.system.rods else None


def _with_contacts(
    prepared: Prepared, t: Any, state: State, last: ContactMemory
) -> tuple[Solution, Balance, Float[Array, "links 6"], ContactSample]:
    """The solution for the motion that a run has computed, with contact forces."""
    system = prepared.system
    held = hold(prepared, t, state) if system.constrained else _unheld(prepared, t, state)
    snap = moved(prepared, held)
    u = held.snap.state.velocity
    touches = [touch(prepared, snap, g, places, u) for g, places in prepared.grouped("unilateral")]
    pushed = push(prepared, snap, touches, last.forces)
    acceleration = Acceleration(last.acceleration[:6], last.acceleration[6:])
    found, balance, F = with_efforts(prepared, held, snap, acceleration, pushed.on_links, pushed.efforts)
    impulse = last.since.impulses.T
    mean = _per_second(impulse, last.since.time)
    gap = jnp.concatenate([x.gap for *_, x in touches])
    slips = slipping(prepared.system, last.forces)
    return found, balance, F, ContactSample(pushed.forces, gap, impulse, mean, last.since.impacts, slips)


def _unheld(prepared: Prepared, t: Any, state: State) -> Held:
    """A snapshot of a system without constraints."""
    at, known = driven_motion(prepared.system, t, state)
    snap = place(prepared, t, at, known)
    rows = rows_of(prepared, snap)
    A = rows.A[:, prepared.system.topology.unknown]
    return Held(snap, rows, A, decompose(A), jnp.zeros(()))


def _per_second(x: Array, time: Float[Array, ""]) -> Array:
    """x / time, or 0 where the time is 0."""
    return jnp.where(time > 0, x / jnp.where(time > 0, time, 1.0), 0.0)


def rod_fields(prepared: Prepared, snap: Snapshot, F: Float[Array, "links 6"]) -> tuple[RodSample, ...]:
    """Positions, strains and internal wrenches at the root and the nodes of the rods; `F`: wrenches between the links.

    The wrench is that of the piece that ends at the section (at the root: begins there), in the section's frame and positive
    as a tension is: what the far side exerts on the near side.
    """
    system, out = prepared.system, []
    R, p = snap.Rw, snap.pw
    assert R is not None and p is not None
    for g, (rotation, position) in zip(system.rods, prepared.links.pieces):
        nodes = np.array(g.links)
        first = nodes[:, 0]
        parents = np.asarray(system.topology.link_parents)[first - 1]
        own = (x.reshape(*nodes.shape, *x.shape[1:])[:, 0] for x in (rotation, position))
        root_R, root_p = placed_all(R[parents], p[parents], *own)
        # from the first node back to the root, in whose frame the piece begins
        back_R = jax.vmap(lambda A, B: matmul(A.T, B))(root_R, R[first])
        back_p = jax.vmap(lambda A, x: tmatvec(A, x))(root_R, p[first] - root_p)
        root = jax.vmap(push_wrench)(back_R, back_p, F[first])
        sections = jnp.concatenate([root_p[:, None], p[nodes]], axis=1)
        stress = -jnp.concatenate([root[:, None], F[nodes]], axis=1)
        out.append(RodSample(sections, g.section_strains(g.own(snap.state.q)), stress))
    return tuple(out)


def observed(prepared: Prepared, snap: Snapshot, acting: list[Acting], found: Solution) -> tuple[dict[str, Array], ...]:
    """Observed values of each group of elements: their own observables, wrenches and powers, internal states."""
    exerted = {id(x.group): x for x in acting}
    return tuple(
        _observed(prepared, snap, g, places, exerted.get(id(g)), found)
        for g, places in zip(prepared.system.groups, prepared.sites)
    )


def _observed(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    places: tuple[PlacedSite, ...],
    acting: Acting | None,
    found: Solution,
) -> dict[str, Array]:
    out: dict[str, Array] = {}
    if group.form.observables:
        if group.along:
            whole = sections_of(prepared, snap, group).whole
            out |= of_each(lambda form, at: form.observe(at), group.form, whole)
        else:
            seen = see(prepared, snap, group, places, memory_of(group, snap.state))
            at = views(snap, group, seen)
            if group.kind in ("ideal", "slip"):
                at = at._replace(reaction=_reactions(prepared.system, group, found), effort=_efforts(group, found))
            out |= each_seeing(prepared, snap, group, seen, lambda form, at: form.observe(at), at)
    if acting is not None and group.form.recorded:
        for name, wrench in acting.exerted.wrenches.items():
            out[f"{name}_wrench" if name else "wrench"] = wrench[:, 0] if wrench.shape[1] == 1 else wrench
        out["power"] = acting.sited + acting.on_coordinates
    leaves = jax.tree.leaves(memory_of(group, snap.state))
    for k, z in enumerate(leaves):
        out["state" if len(leaves) == 1 else f"state{k + 1}"] = z
    return out


def _reactions(system: System, group: Group, found: Solution) -> Float[Array, "m rows"]:
    """Multipliers of the rows of each element, or forces of its slip law, which come after all rows that hold."""
    first = len(system.reaction_weights) if group.kind == "slip" else 0
    return pick(found.reactions, first + np.array(group.rows))


def _efforts(group: Group, found: Solution) -> Float[Array, "m c"]:
    """Efforts of the actuators of each element's coordinates."""
    return pick(found.efforts, coordinates_of(group))
