"""Explicit Runge-Kutta method of order 4 on Lie groups (Munthe-Kaas, 1998)."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from undula.integrate.method import Flow, Integrator, move
from undula.lie import se3
from undula.model.system import State, bracket
from undula.model.topology import Topology


class RungeKutta4(Integrator):
    """The classical method of order 4, on the algebra of the configuration group.

    Poses are g0 exp(u); with g' = g eta^ the increment obeys u' = dexp^-1(u) eta, whose series is cut after the second
    bracket: what is left out is of order 5. Explicit, so that stiff springs limit the step.
    """

    order: ClassVar[int] = 4

    def step(self, top: Topology, flow: Flow, t: Any, state: State, dt: Any) -> State:
        def stage(carry, x):
            # the four stages are a loop, so that the dynamics are compiled once
            (u, w), total = carry
            reach, weight = x
            at, acceleration = flow(t + reach * dt, move(top, state, *_scale(reach * dt, (*u, *w))))
            k = (
                *_pull_back(top, _scale(reach * dt, u), (at.base_twist, at.v)),
                acceleration.base,
                acceleration.v,
            )
            return ((k[:2], k[2:]), _add(total, _scale(weight * dt, k))), None

        zero = 0.0 * state.base_twist, 0.0 * state.v
        stages = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6
        (_, total), _ = jax.lax.scan(stage, ((zero, zero), (*zero, *zero)), stages)
        return move(top, state, *total)


def _pull_back(top: Topology, u: tuple[Array, ...], eta: tuple[Array, Array]) -> tuple[Array, Array]:
    """u' = eta + [u, eta]/2 + [u, [u, eta]]/12 for the base and, where it is not zero, for the joints."""
    base, q = eta
    if top.base_role == "free":
        b1 = se3.bracket(u[0], base)
        base = base + b1 / 2 + se3.bracket(u[0], b1) / 12
    if not top.adds:
        b1 = bracket(top, u[1], q)
        q = q + b1 / 2 + bracket(top, u[1], b1) / 12
    return base, q


def _scale(a: Any, x: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a * part for part in x)


def _add(x: tuple[Array, ...], y: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a + b for a, b in zip(x, y))
