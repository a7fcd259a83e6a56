"""The base class of integrators, the reports of steps, and what methods share."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from undula.balance.internal import advanced_states, internal_rates, settled
from undula.balance.look import drifts, hold, moved, settle
from undula.balance.reduced import reduced_accelerations
from undula.balance.unconstrained import tree_dynamics
from undula.core.arrays import Array
from undula.elements.observable import Observable
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, displaced
from undula.model.system import System


class Report(NamedTuple):
    """Outcome of a step, or of several: see `merged`.

    - `good`: whether all steps succeeded; if one fails, the state stays as it was, and `failed_at` [s] is its start.
    - `iterations` of the last step; `residual`: the largest one, relative; `unsolved`: number of steps with a residual above
      the method's tolerance; `penetration`: the largest one [m].
    - `work` [J] of all non-conservative forces, by the method's own quadrature.
    """

    good: Bool[Array, ""]
    failed_at: Float[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]
    unsolved: Int[Array, ""]
    penetration: Float[Array, ""]
    work: Float[Array, ""]

    @staticmethod
    def make(
        good: Any = True,
        failed_at: Any = 0.0,
        iterations: Any = 0,
        residual: Any = 0.0,
        unsolved: Any = 0,
        penetration: Any = 0.0,
        work: Any = 0.0,
    ) -> "Report":
        """A report from Python numbers or arrays."""
        numbers = (jnp.asarray(x, dtype=float) for x in (failed_at, residual, penetration, work))
        when, left, deep, done = numbers
        counts = jnp.asarray(iterations, dtype=int), jnp.asarray(unsolved, dtype=int)
        return Report(jnp.asarray(good, dtype=bool), when, counts[0], left, counts[1], deep, done)


def merged(first: Report, then: Report) -> Report:
    """The report of some steps and the steps after them."""
    return Report(
        first.good & then.good,
        jnp.where(first.good, then.failed_at, first.failed_at),
        then.iterations,
        jnp.maximum(first.residual, then.residual),
        first.unsolved + then.unsolved,
        jnp.maximum(first.penetration, then.penetration),
        first.work + then.work,
    )


class Integrator(eqx.Module):
    """A one-step method with a fixed step. A custom method defines `step` and, if it has a memory, `init`.

    - `takes`: capabilities: "unilateral" (contacts), "stiff" (springs and dampers do not limit its step).
    - `dissipates`: whether it has numerical dissipation, so that only a gain of energy is an error.
    """

    order: eqx.AbstractClassVar[int]
    takes: ClassVar[frozenset[str]] = frozenset()
    dissipates: ClassVar[bool] = False
    observables: ClassVar[tuple[Observable, ...]] = ()

    def init(self, system: System, t: Any, state: State, found: Acceleration | None = None) -> Any:
        """The method's memory at the start; empty for most. `found`: the accelerations at the start, if known."""
        return ()

    @abc.abstractmethod
    def step(
        self, prepared: Prepared, t: Any, state: State, carry: Any, dt: Any, careful: bool = False
    ) -> tuple[State, Any, Report]:
        """State and memory at t + dt [s], and a report.

        `careful`: a step of a run: its report contains the work, it may be retried in parts if it fails, and it is not
        differentiated in reverse mode.
        """

    def wants_start(self) -> bool:
        """Whether `init` needs the accelerations at the start."""
        return False

    def accounts(self, system: System) -> bool:
        """Whether reports contain the work done on a system."""
        return False

    def rested(self, carry: Any) -> Any:
        """The memory with the sums since the last sample reset."""
        return carry

    def contacts(self, carry: Any) -> Any:
        """Its contact data (`contact.record.ContactMemory`), or None."""
        return None

    def observe(self, carry: Any, report: Report) -> dict[str, Array]:
        """Values of the `observables`, which a run records about the method itself."""
        return {}

    def refusal(self, report: Report, k: int, tolerance: float) -> str:
        """Why a run cannot continue at sample k, from the reports at its samples; called if `good` is False there."""
        return "a step could not be made."


def flow(prepared: Prepared, t: Any, state: State) -> tuple[State, Acceleration]:
    """The state with driven coordinates filled in and velocities projected onto the rows, and its accelerations."""
    at, acceleration, _ = flow_and_power(prepared, t, state, False)
    return at, acceleration


def flow_and_power(
    prepared: Prepared, t: Any, state: State, power: bool = True
) -> tuple[State, Acceleration, Float[Array, ""]]:
    """The same, and the power of non-conservative force models [W]; zero under constraints, or if not requested."""
    supplied = None
    if not prepared.system.constrained:
        snap, acceleration, _, _, forces = tree_dynamics(prepared, t, state, power)
        supplied = forces.power
    else:
        held = hold(prepared, t, state)
        snap = moved(prepared, held)
        acceleration = reduced_accelerations(prepared, held, snap)
    if state.z:
        acceleration = Acceleration(acceleration.base, acceleration.v, internal_rates(prepared, snap))
    return snap.state, acceleration, jnp.zeros(()) if supplied is None else supplied


def ready(prepared: Prepared, t: Any, state: State) -> State:
    """The state at the start of a step, with the drift of the last step removed."""
    state = settled(prepared, t, state)
    return settle(prepared, t, state) if drifts(prepared) else state


def shifted(
    prepared: Prepared,
    state: State,
    increment: Float[Array, "n"],
    gain: Float[Array, "n"],
    z: Any = None,
    dt: Any = 0.0,
) -> State:
    """The state displaced by an increment (6 + nv,) of its configuration and a gain (6 + nv,) of its velocities.

    With `z`, the rates of the internal states, these are advanced by dt [s], too.
    """
    at = displaced(prepared.system.topology, state, increment)
    out = at.with_velocity(state.velocity + gain)
    return out.replace(z=advanced_states(state.z, z, dt)) if z else out


def imposes(system: System) -> bool:
    """Whether laws or constraints may do work, which only efforts and reactions determine."""
    return bool(system.motions or system.base_motion is not None or system.constrained)


def passive(system: System) -> bool:
    """Whether nothing can supply energy: no actuators, no external forces, no driven motion."""
    models = all(g.form.account in ("conservative", "dissipative") for g in system.forces)
    laws = system.motions or system.base_motion is not None
    return (
        models and not laws and not any("field" in g.does and g.form.account != "conservative" for g in system.forces)
    )
