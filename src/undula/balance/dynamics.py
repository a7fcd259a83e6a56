"""Dynamics of a system at a state: the public functions. All can be jitted, vmapped and differentiated.

Generalised velocities are ordered as (base directions, coordinates): the components of the base twist that are free in
the group of a free base (none for a fixed or driven base), then the internal coordinates.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.assemble import Forces, assemble, field_of, wants_sites
from undula.balance.balance import Balance, base_inertia, inertia_over
from undula.balance.unconstrained import solve_dynamics
from undula.core.arrays import Array
from undula.lie.se3 import push_wrench
from undula.model.arguments import checked
from undula.model.inertia import Rigid
from undula.model.links import body_inertias, joints_in_bodies
from undula.model.prepare import Prepared, prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.pick import pick
from undula.numerics.programs import quickly_compiled
from undula.numerics.small import matmul
from undula.tree.inverse import newton_euler, proper
from undula.tree.relative import Relative, bias_of, link_rates, relative_of
from undula.tree.snapshot import Snapshot, move, place


class Efforts(NamedTuple):
    """Efforts required by a motion.

    - `base`: (6,) wrench that the world must exert on the reference body, in its frame [N, N m].
    - `v`: (nv,) effort of each coordinate's actuator [N m or N]; springs and dampers are already taken into account.
    - `wrenches`: (bodies, 6) wrench exerted on each body by its parent, in the body's frame [N, N m].
    """

    base: Float[Array, "6"]
    v: Float[Array, "nv"]
    wrenches: Float[Array, "bodies 6"]


def _motion(prepared: Prepared, t: Any, state: State, acceleration: Acceleration, external: Array | None) -> Balance:
    """The balance of a given motion."""
    sited = wants_sites(prepared)
    snap = place(prepared, t, state, acceleration, frames=sited, screws=False)
    balance = Balance.of(prepared, move(prepared, snap, field_of(prepared, t)))
    return balance.pushed(_on_links(prepared, external))


def _on_links(prepared: Prepared, external: Array | None) -> Array | None:
    """Wrenches on bodies, summed on their links."""
    top = prepared.system.topology
    if external is None or not top.fixed_levels:
        return external
    links = prepared.links
    pushed = jax.vmap(push_wrench)(links.body_rotation, links.body_position, external)
    # no scatter: the first body of each link, and a product with a 0-1 matrix for the others
    first = np.unique(top.link_of_body, return_index=True)[1]
    rest = np.setdiff1d(np.arange(top.body_count), first)
    belongs = top.link_of_body[rest] == np.arange(len(first))[:, None]
    return pick(pushed, first) + matmul(jnp.asarray(belongs, dtype=float), pick(pushed, rest))


@checked
@quickly_compiled(nameless=True)
def inverse_dynamics(
    system: System,
    state: State,
    acceleration: Acceleration,
    wrenches: Float[Array, "bodies 6"] | None = None,
    t: Any = 0.0,
) -> Efforts:
    """Efforts required by a given motion, whatever the roles (document 000, section 3.2).

    **Arguments:**

    - `state`, `acceleration`: the motion; `acceleration.base` is the derivative of the components of the base twist.
    - `wrenches`: (bodies, 6) on the bodies, in their frames [N, N m], in addition to those of the model's force models.
    - `t`: time [s], for force models that depend on it.
    """
    prepared = prepare(system)
    balance = _motion(prepared, t, state, acceleration, wrenches)
    F = balance.link_wrenches()
    needed = balance.needed(F)
    if system.topology.fixed_levels:
        F = _body_wrenches(prepared, balance, wrenches)
    return Efforts(needed[:6], needed[6:], F)


def _body_wrenches(prepared: Prepared, balance: Balance, external: Array | None) -> Array:
    """Wrenches between bodies, fixed joints included: the same recursion over bodies instead of links.

    Forces of force models on a link, and weightless inertia, are assigned to the link's first body.
    """
    system, snap = prepared.system, balance.snap
    top, state, acceleration = system.topology, snap.state, snap.known
    inside = joints_in_bodies(system)
    moving = relative_of(system, inside, state.q)
    bias = bias_of(system, inside, moving, state.q, state.v)
    n, j = len(top.parents), top.moving

    def spread_out(x):
        return jnp.zeros((n, 6)).at[j].set(x)

    rel = Relative(
        system.joint_rotation.at[j].set(moving.R),
        system.joint_position.at[j].set(moving.p),
        jnp.zeros((n, 6, top.columns)).at[j].set(moving.S),
    )
    rate, gain = (spread_out(link_rates(system, moving, x)) for x in (state.v, acceleration.v))
    gain = gain if bias is None else gain + spread_out(bias)
    deta0 = proper(state.base.rotation, snap.field, acceleration.base)
    first = np.unique(top.link_of_body, return_index=True)[1]
    inertia = body_inertias(system)
    if prepared.added is not None:
        whole = jax.vmap(Rigid.blocks)(inertia)
        inertia = jax.tree.map(lambda a, b: a.at[first].add(b), whole, prepared.added)
    on_bodies = external
    links_only = balance.forces.on_links
    own = _on_links(prepared, external)
    if links_only is not None:
        rest = links_only if own is None else links_only - own
        extra = jnp.zeros((top.body_count, 6)).at[first].set(rest)
        on_bodies = extra if external is None else external + extra
    return newton_euler(top.body_slots, inertia, rel, state.base_twist, deta0, rate, gain, on_bodies)


@checked
@quickly_compiled(nameless=True)
def bias(
    system: System, state: State, wrenches: Float[Array, "bodies 6"] | None = None, t: Any = 0.0
) -> Float[Array, "n"]:
    """Generalised efforts at zero acceleration: Coriolis, centrifugal, gravity, springs and dampers [N m or N]."""
    prepared = prepare(system)
    needed = _motion(prepared, t, state, Acceleration.zero(system.nv), wrenches).needed()
    return jnp.concatenate([needed[_directions(system)], needed[6:]])


@checked
@quickly_compiled(nameless=True)
def gravity_efforts(system: System, state: State, t: Any = 0.0) -> Float[Array, "n"]:
    """Generalised efforts that hold the system still against gravity alone [N m or N]."""
    needed = weights(prepare(system), t, state)
    return jnp.concatenate([needed[_directions(system)], needed[6:]])


def weights(prepared: Prepared, t: Any, state: State) -> Float[Array, "n"]:
    """The same over all velocities (6 + nv,), for a prepared system."""
    still = state.at_rest()
    weightless = prepared.added is not None
    snap = place(prepared, t, still, Acceleration.zero(len(state.v)), frames=weightless, screws=False)
    snap = move(prepared, snap, field_of(prepared, t))
    none = assemble(_without_forces(prepared), snap) if weightless else Forces(None, None, None)
    return Balance(prepared, snap, none).needed()


def _without_forces(prepared: Prepared) -> Prepared:
    """The same system without force models; inertia is kept."""
    from undula.elements.element import changed

    return changed(prepared, system=changed(prepared.system, groups=()), sites=())


def _directions(system: System) -> np.ndarray:
    return np.array(system.topology.base_directions, dtype=int)


@checked
@quickly_compiled(nameless=True)
def mass_matrix(system: System, state: State, t: Any = 0.0) -> Float[Array, "n n"]:
    """Mass matrix over (base directions, coordinates) [kg, kg m, kg m^2]."""
    which = np.concatenate([_directions(system), 6 + np.arange(system.nv)])
    return inertia_over(*_placed(system, state, t), which)


def _placed(system: System, state: State, t: Any) -> tuple[Prepared, Snapshot]:
    """A prepared system and the snapshot of its configuration."""
    prepared = prepare(system)
    return prepared, place(prepared, t, state, Acceleration.zero(system.nv), frames=False, screws=False)


@checked
@quickly_compiled(nameless=True)
def locomotion_inertia(system: System, state: State, t: Any = 0.0) -> tuple[Float[Array, "6 6"], Float[Array, "6 nv"]]:
    """Locked inertia M_o+ and coupling oM_r: momentum in the base's frame = M_o+ eta_o + oM_r v (3.31)."""
    return base_inertia(*_placed(system, state, t))


@checked
@quickly_compiled(nameless=True)
def locomotion_force(
    system: System,
    state: State,
    dv: Float[Array, "nv"],
    wrenches: Float[Array, "bodies 6"] | None = None,
    t: Any = 0.0,
) -> Float[Array, "6"]:
    """F_o+ of (3.18): the wrench in M_o+ eta_o' = F_o+, for shape accelerations dv."""
    return -_motion(prepare(system), t, state, Acceleration(jnp.zeros(6), dv), wrenches).needed()[:6]


@checked
@quickly_compiled(nameless=True)
def forward_dynamics(
    system: System,
    state: State,
    efforts: Float[Array, "nv"],
    wrenches: Float[Array, "bodies 6"] | None = None,
    t: Any = 0.0,
) -> Acceleration:
    """Accelerations under given actuator efforts [N m or N], with all coordinates free, whatever their roles.

    A free base moves in its group; a fixed or driven base does not accelerate. `wrenches`: (bodies, 6) on the bodies, in their
    frames [N, N m], in addition to those of the model's force models other than actuators.
    """
    prepared = prepare(system)
    unknown = np.ones(system.nv, bool)
    known = Acceleration.zero(system.nv)
    on_links = _on_links(prepared, wrenches)
    directions = system.topology.base_directions
    return solve_dynamics(prepared, t, state, known, efforts, unknown, directions, on_links).acceleration
