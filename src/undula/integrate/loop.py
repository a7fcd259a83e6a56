"""The time loop: pure, compiled, differentiable."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.internal import updated
from undula.balance.latches import latched, refuse_conditions
from undula.balance.reduced import least_impulse
from undula.core.arrays import Array
from undula.core.errors import real, whole
from undula.elements.element import changed
from undula.integrate.method import Integrator, Report, merged
from undula.integrate.midpoint import ImplicitMidpoint
from undula.integrate.moreau import Moreau
from undula.integrate.runge_kutta import RungeKutta4
from undula.model.arguments import checked
from undula.model.prepare import Prepared, prepare
from undula.model.state import State
from undula.model.system import System
from undula.numerics.checkpoint import SOLUTION
from undula.numerics.programs import compiled
from undula.tree.driven import driven_motion


def usual_integrator(system: System) -> Integrator:
    """The default integrator of a system: Moreau's rule with contacts, the implicit midpoint rule with elastic rods."""
    if system.contacts:
        return Moreau()
    return ImplicitMidpoint() if any(g.elastic for g in system.rods) else RungeKutta4()


def one_step(
    method: Integrator, prepared: Prepared, t: Any, state: State, carry: Any, dt: Any, careful: bool = False
) -> tuple[State, Any, Report]:
    """A step of a method, followed by the update of sampled internal states."""
    if prepared.system.switches:
        prepared, state = followed(prepared, t, state, dt)
    new, carry, report = method.step(prepared, t, state, carry, dt, careful)
    return updated(prepared, t + dt, new, dt), carry, report


def _begun(prepared: Prepared, t0: Any, state: State) -> State:
    """The state with which a motion begins: driven coordinates at their laws, active constraints latched where they are."""
    state = driven_motion(prepared.system, t0, state)[0]
    state = latched(prepared, t0, state, prepared.system.at_time(t0).on)
    return updated(prepared, t0, state, 0.0)


def followed(prepared: Prepared, t: Any, state: State, dt: Any) -> tuple[Prepared, State]:
    """The system and the state with rows switched by their schedules: those of the middle of the step at t [s].

    Where rows are switched on, the velocities at the start of the step change by the least impulse. A run finds the instants.
    """
    system = prepared.system
    now, before = (system.at_time(t + x * dt) for x in (0.5, -0.5))
    prepared = changed(prepared, system=now)
    engaged = jnp.maximum(now.on - before.on, 0.0)

    def jump(state):
        return least_impulse(prepared, t, latched(prepared, t, state, engaged)).state

    return prepared, jax.lax.cond(engaged.any(), jump, lambda state: state, state)


def steps_from(
    method: Integrator, prepared: Prepared, state: State, carry: Any, first: Any, steps: Any, dt: Any, t0: Any = 0.0
) -> tuple[State, Any, Report]:
    """State, memory and report after a number of steps (may be traced) from step `first`.

    Time is t0 + step * dt, so that it does not drift. Cannot be differentiated in reverse mode.
    """

    def body(k, now):
        state, carry, report = now
        state, carry, new = one_step(method, prepared, t0 + (first + k) * dt, state, carry, dt, careful=True)
        return state, carry, merged(report, new)

    return jax.lax.fori_loop(0, steps, body, (state, carry, Report.make()))


@checked
def advance(
    system: System,
    state: State,
    dt: Any,
    steps: Any,
    t0: Any = 0.0,
    integrator: Integrator | None = None,
    carry: Any = None,
) -> tuple[State, Any, Report]:
    """The state after a number of steps, the integrator's memory, and a report on the steps: for custom loops.

    **Arguments:**

    - `state`: the state at t0 [s]; `dt` [s]; `steps`: their number; may be traced. Rows follow their schedules step by step.
    - `integrator`: as in `run`; `carry`: its memory at the end of the last call, None at first.

    It cannot be differentiated in reverse mode: see `simulate`.
    """
    method = usual_integrator(system) if integrator is None else integrator
    refuse_conditions(system, "advance")
    steps = whole(steps, "steps")
    real(dt, "dt", above=0.0, unit="s")
    steps = np.asarray(steps) if isinstance(steps, int) else steps
    return _advanced(system, state, dt, steps, t0, method, carry)


@compiled(nameless=True)
def _advanced(
    system: System, state: State, dt: Any, steps: Any, t0: Any, method: Integrator, carry: Any
) -> tuple[State, Any, Report]:
    prepared = prepare(system)
    if carry is None:
        state = _begun(prepared, t0, state)
        carry = method.init(system, t0, state)
    return steps_from(method, prepared, state, carry, 0, steps, dt, t0)


@checked
def simulate(
    system: System,
    state: State,
    dt: Any,
    steps: int,
    t0: Any = 0.0,
    integrator: Integrator | None = None,
) -> State:
    """The motion as a pure function of the system and its initial state: for `jax.jit`, `jax.vmap` and `jax.grad`.

    **Arguments:**

    - `state`: the state at t0 [s]; `dt` [s], `steps`: fixed. Rows follow their schedules step by step; for derivatives by the
      instant of a switch, simulate the parts before and after `un.switch`.
    - `integrator`: as in `run`.

    **Returns:**

    The states at t0, t0 + dt, ...: every array with a leading axis of steps + 1. Use `sample` for efforts and energies.
    """
    method = usual_integrator(system) if integrator is None else integrator
    refuse_conditions(system, "simulate")
    steps = whole(steps, "steps")
    real(dt, "dt", above=0.0, unit="s")
    return _simulated(system, state, dt, steps, t0, method)


@compiled(nameless=True)
def _simulated(system: System, state: State, dt: Array, steps: int, t0: Array, method: Integrator) -> State:
    prepared = prepare(system)

    # Reverse mode keeps the states and the accelerations and recomputes the rest of each step: its loop then stays small
    # enough to be compiled whole, and memory grows only with the motion.
    keep = jax.checkpoint_policies.save_only_these_names(SOLUTION)

    @partial(jax.checkpoint, prevent_cse=False, policy=keep)
    def body(now, k):
        state, carry = now
        new, carry, _ = one_step(method, prepared, t0 + k * dt, state, carry, dt)
        return (new, carry), new

    start = _begun(prepared, t0, state)
    _, states = jax.lax.scan(body, (start, method.init(system, t0, start)), jnp.arange(steps))
    times = t0 + dt * jnp.arange(1, steps + 1)
    if system.motions or system.base_motion is not None:
        states = jax.vmap(lambda t, s: driven_motion(system, t, s)[0])(times, states)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
