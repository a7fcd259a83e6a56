"""What an integrator is, and how states move along increments."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from undula.model.system import Acceleration, State, displaced
from undula.model.topology import Topology

# The right-hand side of the motion: (t, state) -> (state with driven entries filled in, acceleration)
Flow = Callable[[Any, State], tuple[State, Acceleration]]


class Integrator(eqx.Module):
    """A one-step method with a fixed step."""

    order: eqx.AbstractClassVar[int]

    @abc.abstractmethod
    def step(self, top: Topology, flow: Flow, t: Any, state: State, dt: Any) -> State:
        """The state at t + dt [s]."""


def move(
    top: Topology,
    state: State,
    base: Float[Array, "6"],
    q: Float[Array, "nv"],
    base_gain: Float[Array, "6"],
    gain: Float[Array, "nv"],
) -> State:
    """The state displaced by increments of the algebra (base, q) and of the velocities (base_gain, gain)."""
    at = displaced(top, state, base, q)
    return State(at.base, at.q, state.base_twist + base_gain, state.v + gain)
