"""The time loop: pure, compiled, differentiable."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.constraints.reduction import drifts, hold, hybrid_dynamics, reduced_accelerations, settle
from undula.dynamics.hybrid import driven_motion, tree_dynamics
from undula.dynamics.kinematics import body_twists, observe
from undula.dynamics.problem import SOLUTION
from undula.integrate.base import Integrator
from undula.integrate.runge_kutta import RungeKutta4
from undula.lie import se3
from undula.model.links import Links, links_of
from undula.model.system import Acceleration, State, System, reported_position

# Wrenches of the surroundings: (t, system, state) -> (bodies, 6), each in its body's frame [N, N m]
External = Callable[[Any, System, State], Float[Array, "bodies 6"]]


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


def _flow(system: System, links: Links, external: External | None):
    def flow(t, state):
        wrenches = None
        if external is not None:
            wrenches = external(t, system, driven_motion(system, t, state)[0])
        if not system.constrained:
            return tree_dynamics(system, t, state, wrenches, links)[:2]
        held = hold(system, links, t, state)
        return held.state, reduced_accelerations(system, links, t, held, wrenches)

    return flow


def _on_constraints(system: System, links: Links):
    """What a step does first: it removes the drift of the last one, where there can be any."""
    return (lambda t, state: settle(system, links, t, state)) if drifts(system) else lambda t, state: state


def sample(system: System, t: Any, state: State, external: External | None = None) -> Sample:
    """Motion, efforts, energies and powers at one instant [s]."""
    at = driven_motion(system, t, state)[0]
    wrenches = None if external is None else external(t, system, at)
    found = hybrid_dynamics(system, t, state, wrenches)
    at = found.state
    seen = observe(system, at)
    power_external = -(system.damping * at.v**2).sum()
    if wrenches is not None:
        power_external = power_external + (wrenches * body_twists(system, at)).sum()
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
    )


def advance_steps(
    system: System,
    state: State,
    first: Any,
    steps: Any,
    dt: Any,
    t0: Any = 0.0,
    integrator: Integrator | None = None,
    external: External | None = None,
) -> State:
    """The state after a number of steps (may be traced) from step `first`; time is t0 + step * dt, so it does not drift."""
    links = links_of(system)
    flow, ready = _flow(system, links, external), _on_constraints(system, links)
    method = RungeKutta4() if integrator is None else integrator

    def body(k, state):
        t = t0 + (first + k) * dt
        return method.step(system.topology, flow, t, ready(t, state), dt)

    return jax.lax.fori_loop(0, steps, body, state)


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
    - `integrator`: `RungeKutta4()` by default; `external`: wrenches of the surroundings on the bodies.

    **Returns:**

    The states at t0, t0 + dt, ...: every array with a leading axis of steps + 1. Use `sample` for efforts and energies.
    """
    links = links_of(system)
    flow, ready = _flow(system, links, external), _on_constraints(system, links)
    method = RungeKutta4() if integrator is None else integrator

    # Reverse mode keeps the states and the accelerations, and computes the rest of each step again: its loop then stays
    # small enough to be compiled whole, and memory grows with the motion alone.
    keep = jax.checkpoint_policies.save_only_these_names(SOLUTION)

    @partial(jax.checkpoint, prevent_cse=False, policy=keep)
    def body(state, k):
        t = t0 + k * dt
        new = method.step(system.topology, flow, t, ready(t, state), dt)
        return new, new

    start = driven_motion(system, t0, state)[0]
    _, states = jax.lax.scan(body, start, jnp.arange(steps))
    times = t0 + dt * jnp.arange(1, steps + 1)
    if system.motions or system.base_motion is not None:
        states = jax.vmap(lambda t, s: driven_motion(system, t, s)[0])(times, states)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
