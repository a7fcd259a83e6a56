"""Explicit Runge-Kutta method of order 4 on Lie groups (Munthe-Kaas, 1998)."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.integrate.method import Integrator, Report, flow_and_power, imposes, ready, shifted
from undula.lie import se3
from undula.model.prepare import Prepared
from undula.model.state import State, bracket, displaced
from undula.model.topology import Topology
from undula.tree.driven import driven_motion

STAGES = np.array([0.0, 0.5, 0.5, 1.0]), np.array([1.0, 2.0, 2.0, 1.0]) / 6  # instants and weights


class RungeKutta4(Integrator):
    """The classical method of order 4, on the algebra of the configuration group.

    Poses are g0 exp(u); with g' = g eta^ the increment obeys u' = dexp^-1(u) eta, whose series is truncated after the second
    bracket: the error is of order 5. Explicit, so stiff springs limit the step.
    """

    order: ClassVar[int] = 4

    def accounts(self, system):
        return not imposes(system)

    def step(self, prepared: Prepared, t: Any, state: State, carry: Any, dt: Any, careful: bool = False):
        if not len(prepared.system.topology.unknown) and not state.z:
            return driven_motion(prepared.system, t + dt, state)[0], carry, Report.make()  # laws alone move it
        state = ready(prepared, t, state)
        accounted = careful and self.accounts(prepared.system)

        def stage(before, x):
            # the four stages are a loop, so that the dynamics is compiled once
            (u, w, z), total = before
            reach, weight = x
            at, a, power = flow_and_power(
                prepared,
                t + reach * dt,
                shifted(prepared, state, reach * dt * u, reach * dt * w, z, reach * dt),
                accounted,
            )
            k = _pulled_back(prepared.system.topology, reach * dt * u, at.velocity), a.whole, a.z
            done = (*k, power) if accounted else k
            return (k, jax.tree.map(lambda a, b: a + weight * dt * b, total, done)), None

        zero = 0.0 * state.velocity
        still = jax.tree.map(lambda x: 0.0 * x, state.z)
        start = zero, zero, still
        total = (*start, jnp.zeros(())) if accounted else start
        (_, (u, w, z, *work)), _ = jax.lax.scan(stage, (start, total), STAGES)
        return shifted(prepared, state, u, w, z, 1.0), carry, Report.make(work=work[0] if work else 0.0)


def _pulled_back(top: Topology, u: Float[Array, "n"], eta: Float[Array, "n"]) -> Array:
    """u' = eta + [u, eta]/2 + [u, [u, eta]]/12 for the base and, where it is not zero, for the joints."""
    if top.base_role != "free" and top.adds:
        return eta
    if top.adds:
        once = se3.bracket(u[:6], eta[:6])
        base = eta[:6] + once / 2 + se3.bracket(u[:6], once) / 12
        return jnp.concatenate([base, eta[6:]])
    once = bracket(top, u, eta)
    return eta + once / 2 + bracket(top, u, once) / 12


def runge_kutta_increment(
    top: Topology, velocity: Callable[[Any, State], Float[Array, "n"]], t: Any, state: State, dt: Any
) -> Float[Array, "n"]:
    """Increment of the configuration over a step, where `velocity` (t, state) alone determines the motion."""

    def stage(before, x):
        u, total = before
        reach, weight = x
        eta = velocity(t + reach * dt, displaced(top, state, reach * dt * u))
        k = _pulled_back(top, reach * dt * u, eta)
        return (k, total + weight * dt * k), None

    zero = 0.0 * state.velocity
    return jax.lax.scan(stage, (zero, zero), STAGES)[0][1]
