"""What an integrator is, what it is given, and how states move along increments."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.balance.dynamics import efforts_at_rest, efforts_of, passive_efforts, relative
from undula.balance.reduced import (
    drifts,
    held_imbalance,
    hold,
    reduced_accelerations,
    settle,
    struck,
    unknown_velocities,
)
from undula.balance.rows import tree_of
from undula.model.links import Links, links_of
from undula.model.system import Acceleration, State, System, displaced
from undula.model.topology import Topology
from undula.numerics.pick import pick
from undula.tree.driven import driven_motion, given_efforts, on_bodies, tree_dynamics

# Wrenches of the surroundings: (t, system, state) -> (bodies, 6), each in its body's frame [N, N m]
External = Callable[[Any, System, State], Float[Array, "bodies 6"]]
# The right-hand side of the motion: (t, state) -> (state with driven entries filled in, acceleration)
Flow = Callable[[Any, State], tuple[State, Acceleration]]


class Motion(NamedTuple):
    """The equations of motion of a system, as integrators use them.

    `prepared`: the links, computed once for a whole loop; None where they may not be needed, as at the start of a run.
    """

    system: System
    prepared: Links | None
    external: External | None

    @staticmethod
    def of(system: System, external: External | None = None) -> "Motion":
        return Motion(system, links_of(system), external)

    @property
    def links(self) -> Links:
        return links_of(self.system) if self.prepared is None else self.prepared

    def _wrenches(self, t: Any, state: State) -> Array | None:
        return None if self.external is None else self.external(t, self.system, state)

    def flow(self, t: Any, state: State) -> tuple[State, Acceleration]:
        """The state with driven entries filled in, and its acceleration."""
        system, links = self.system, self.links
        wrenches = None if self.external is None else self._wrenches(t, driven_motion(system, t, state)[0])
        if not system.constrained:
            return tree_dynamics(system, t, state, wrenches, links)[:2]
        held = hold(system, links, t, state)
        return held.state, reduced_accelerations(system, links, t, held, wrenches)

    def ready(self, t: Any, state: State) -> State:
        """What a step begins with: the drift of the last one is removed, where there can be any."""
        return settle(self.system, self.links, t, state) if drifts(self.system) else state

    def struck(self, t: Any, state: State) -> State:
        """What a step ends with: the nearest state that satisfies the constraints."""
        return struck(self.system, self.links, t, state) if self.system.constrained else state

    def imbalance(
        self, t: Any, state: State, acceleration: Acceleration, weight: Any
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """Efforts that a motion takes beyond those given (3.8), over the unknown velocities, and the size of the largest.

        Under constraints they count up to reactions, and the velocity that violates the rows is added, times `weight`.
        """
        system, links = self.system, self.links
        wrenches = on_bodies(system, links, t, state, self._wrenches(t, state))
        rel = relative(system, links, state)
        wrench, needed = efforts_of(system, links, rel, state, acceleration, wrenches)
        efforts, size = self._difference(state, wrench, needed, given_efforts(system, t, state))
        if not system.constrained:
            return pick(efforts, unknown_velocities(system)), size
        tree = tree_of(system, links, state, rel)
        return held_imbalance(system, t, state, tree, efforts, weight), size

    def imbalance_at_rest(self, t: Any, state: State) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """The efforts (6 + nv,) for a state without any motion, reactions among them."""
        wrenches = on_bodies(self.system, self.links, t, state, self._wrenches(t, state))
        wrench, needed = efforts_at_rest(self.system, self.links, state, wrenches)
        return self._difference(state, wrench, needed, given_efforts(self.system, t, state))

    def _difference(self, state: State, wrench: Array, needed: Array, given: Array) -> tuple[Array, Array]:
        parts = needed, given, passive_efforts(self.system, state)
        size = jnp.stack([jnp.abs(x).max(initial=0.0) for x in parts]).max()
        return jnp.concatenate([wrench, needed - given]), size


class Integrator(eqx.Module):
    """A one-step method with a fixed step. An explicit one defines `step`; an implicit one `begin` and `advance`."""

    order: eqx.AbstractClassVar[int]

    @abc.abstractmethod
    def step(self, top: Topology, flow: Flow, t: Any, state: State, dt: Any) -> State:
        """The state at t + dt [s]."""

    def begin(self, motion: Motion, t: Any, state: State, found: tuple[State, Acceleration] | None = None) -> Any:
        """What the method remembers from step to step, at the start: nothing, for most. `found`: the flow there, if known."""
        return ()

    def advance(
        self, motion: Motion, t: Any, state: State, memory: Any, dt: Any, careful: bool = False
    ) -> tuple[State, Any]:
        """State and memory at t + dt [s]. `careful`: what fails may be tried again; not to be differentiated in reverse."""
        return self.step(motion.system.topology, motion.flow, t, motion.ready(t, state), dt), memory


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
