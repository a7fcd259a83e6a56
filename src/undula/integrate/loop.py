"""The time loop: pure, compiled, differentiable."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.balance.dynamics import link_wrenches, relative
from undula.balance.reduced import efforts_of_motion, hybrid_dynamics
from undula.balance.rows import tree_of
from undula.contact.record import ContactMemory
from undula.contact.spheres import touch, wrenches as contact_wrenches
from undula.integrate.implicit import ImplicitMidpoint
from undula.integrate.method import External, Integrator, Motion
from undula.integrate.moreau import Moreau
from undula.integrate.runge_kutta import RungeKutta4
from undula.lie import se3
from undula.lie.se3 import push_wrench
from undula.model.links import links_of, place_all
from undula.model.system import Acceleration, State, System, reported_position
from undula.numerics.small import matmul, tmatvec
from undula.tree.driven import actuated_rods, driven_motion, on_bodies
from undula.tree.frames import link_frames
from undula.tree.kinematics import body_twists, observe
from undula.tree.problem import SOLUTION


class RodSample(NamedTuple):
    """Fields of a group of rods at their sections: positions [m], strains [1, 1/m], internal wrenches [N, N m]."""

    position: Float[Array, "rods sections 3"]
    strain: Float[Array, "rods sections 6"]
    stress: Float[Array, "rods sections 6"]


class ContactSample(NamedTuple):
    """Contacts, all in the world: the force on each body [N] over the step that ends at the sample, the gap [m] there.

    Since the sample before: the impulse on each body [N s], its mean force [N], and the number of impacts.
    """

    force: Float[Array, "contacts 3"]
    gap: Float[Array, "contacts"]
    impulse: Float[Array, "contacts 3"]
    mean_force: Float[Array, "contacts 3"]
    impacts: Float[Array, "contacts"]


class Sample(NamedTuple):
    """Everything that is recorded of one instant; batched over time in a trajectory."""

    t: Array
    state: State
    acceleration: Acceleration
    efforts: Array
    base_wrench: Array
    position: Array
    bodies: se3.Pose
    energy_kinetic: Array
    energy_potential: Array
    power_actuators: Array
    power_external: Array
    reactions: Array
    residual: Array
    rank: Array
    rods: tuple[RodSample, ...]
    along: tuple[Array, Array]
    contacts: ContactSample | None


def sample(
    system: System, t: Any, state: State, external: External | None = None, last: ContactMemory | None = None
) -> Sample:
    """Motion, efforts, energies and powers at one instant [s]; `last`: the steps before it, for contacts."""
    at = driven_motion(system, t, state)[0]
    wrenches = None if external is None else external(t, system, at)
    contacts, pushed = None, jnp.zeros(())
    if system.contacts and last is not None:
        contacts, pushed = _contacts(system, at, last)
        wrenches = pushed if wrenches is None else wrenches + pushed
        acceleration = Acceleration(last.acceleration[:6], last.acceleration[6:])
        found = efforts_of_motion(system, t, at, acceleration, wrenches)
    else:
        found = hybrid_dynamics(system, t, state, wrenches)
    at = found.state
    seen = observe(system, at)
    power_external = -(system.damping * at.v**2).sum() - sum(g.dissipated(g.own(at.v)) for g in system.rods)
    wrenches = on_bodies(system, links_of(system), t, at, wrenches)
    if wrenches is not None:
        power_external = power_external + ((wrenches - pushed) * body_twists(system, at)).sum()
    if contacts is not None and last is not None:
        # a force over a step with the velocity behind it would make an impact a source of energy
        power_external = power_external + _per_second(last.since.work, last.since.time)
    driven_base = (found.base_wrench * at.base_twist).sum() if system.topology.base_role == "driven" else 0.0
    return Sample(
        jnp.asarray(t, dtype=float),
        at,
        found.acceleration,
        found.efforts,
        found.base_wrench,
        reported_position(system.topology, at.q),
        *seen,
        (found.efforts * at.v).sum() + driven_base + found.power_rows,
        power_external + found.power_slip,
        found.reactions,
        found.residual,
        found.rank,
        rod_fields(system, at, found.acceleration, wrenches),
        actuated_rods(system, t, at)[1:],
        contacts,
    )


def _contacts(system: System, state: State, last: ContactMemory) -> tuple[ContactSample, Float[Array, "bodies 6"]]:
    """What is recorded of the contacts, and their wrenches on the bodies."""
    links = links_of(system)
    tree = tree_of(system, links, state)
    u = jnp.concatenate([state.base_twist, state.v])
    touches = [touch(c, system, state, tree, u) for c in system.contacts]
    force, pushed = contact_wrenches(system, tree, touches, last.forces)
    impulse = last.since.impulses.T
    mean = _per_second(impulse, last.since.time)
    return ContactSample(force, jnp.concatenate([x.gap for x in touches]), impulse, mean, last.since.impacts), pushed


def _per_second(x: Array, time: Float[Array, ""]) -> Array:
    """x over a time, 0 where there was none."""
    return jnp.where(time > 0, x / jnp.where(time > 0, time, 1.0), 0.0)


def rod_fields(
    system: System, state: State, acceleration: Acceleration, external: Float[Array, "bodies 6"] | None
) -> tuple[RodSample, ...]:
    """Positions, strains and internal wrenches at the root and the nodes of the rods.

    The wrench is that across the piece that ends at the section (begins there, at the root), in the section's frame, in the
    convention of a tension: what the far side exerts on the near side.
    """
    if not system.rods:
        return ()
    links = links_of(system)
    rel = relative(system, links, state)
    F = link_wrenches(system, links, rel, state, acceleration, external)
    R, p = link_frames(system.topology, rel, state.base.rotation, state.base.position)
    out = []
    for g in system.rods:
        nodes = np.array(g.links)
        first = nodes[:, 0]
        parents = np.asarray(system.topology.link_parents)[first - 1]
        own = links.joints.rotation[first - 1], links.joints.position[first - 1]
        root_R, root_p = place_all(R[parents], p[parents], *own)
        # from the first node back to the root, whose frame the piece begins in
        back_R = jax.vmap(lambda A, B: matmul(A.T, B))(root_R, R[first])
        back_p = jax.vmap(lambda A, x: tmatvec(A, x))(root_R, p[first] - root_p)
        root = jax.vmap(push_wrench)(back_R, back_p, F[first])
        position = jnp.concatenate([root_p[:, None], p[nodes]], axis=1)
        stress = -jnp.concatenate([root[:, None], F[nodes]], axis=1)
        out.append(RodSample(position, g.section_strains(g.own(state.q)), stress))
    return tuple(out)


def usual_integrator(system: System) -> Integrator:
    """What a system is integrated with if nothing is said: Moreau's rule with contacts, implicit steps with elastic rods."""
    if system.contacts:
        return Moreau()
    elastic = system.rods and any(role != "driven" for role in system.topology.roles[-system.topology.strain_count :])
    return ImplicitMidpoint() if elastic else RungeKutta4()


def advance_steps(
    system: System,
    state: State,
    memory: Any,
    first: Any,
    steps: Any,
    dt: Any,
    t0: Any = 0.0,
    integrator: Integrator | None = None,
    external: External | None = None,
) -> tuple[State, Any]:
    """The state, and the integrator's memory, after a number of steps (may be traced) from step `first`.

    Time is t0 + step * dt, so that it does not drift.
    """
    motion, method = Motion.of(system, external), usual_integrator(system) if integrator is None else integrator

    def body(k, carry):
        return method.advance(motion, t0 + (first + k) * dt, *carry, dt, careful=True)

    return jax.lax.fori_loop(0, steps, body, (state, memory))


def simulate(
    system: System,
    state: State,
    dt: Any,
    steps: int,
    t0: Any = 0.0,
    integrator: Integrator | None = None,
    external: External | None = None,
) -> State:
    """The motion as a pure function of the system and its initial state: for `jax.jit`, `jax.vmap` and `jax.grad`.

    **Arguments:**

    - `state`: the state at t0 [s]; `dt` [s], `steps`: fixed.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods; `external`: wrenches of the surroundings.

    **Returns:**

    The states at t0, t0 + dt, ...: every array with a leading axis of steps + 1. Use `sample` for efforts and energies.
    """
    method = usual_integrator(system) if integrator is None else integrator
    return _simulated(
        system, state, jnp.asarray(dt, dtype=float), steps, jnp.asarray(t0, dtype=float), method, external
    )


@eqx.filter_jit  # called by itself it would compile its operations one by one, and anew each time
def _simulated(
    system: System, state: State, dt: Array, steps: int, t0: Array, method: Integrator, external: External | None
) -> State:
    motion = Motion.of(system, external)

    # Reverse mode keeps the states and the accelerations, and computes the rest of each step again: its loop then stays
    # small enough to be compiled whole, and memory grows with the motion alone.
    keep = jax.checkpoint_policies.save_only_these_names(SOLUTION)

    @partial(jax.checkpoint, prevent_cse=False, policy=keep)
    def body(carry, k):
        new, memory = method.advance(motion, t0 + k * dt, *carry, dt)
        return (new, memory), new

    start = driven_motion(system, t0, state)[0]
    _, states = jax.lax.scan(body, (start, method.begin(motion, t0, start)), jnp.arange(steps))
    times = t0 + dt * jnp.arange(1, steps + 1)
    if system.motions or system.base_motion is not None:
        states = jax.vmap(lambda t, s: driven_motion(system, t, s)[0])(times, states)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
