"""Semi-implicit (symplectic) Euler method on Lie groups."""

from typing import Any, ClassVar

from undula.integrate.method import Flow, Integrator, move
from undula.model.system import State
from undula.model.topology import Topology


class SemiImplicitEuler(Integrator):
    """Velocities first, then poses with the new velocities: order 1, one evaluation a step, bounded energy error."""

    order: ClassVar[int] = 1

    def step(self, top: Topology, flow: Flow, t: Any, state: State, dt: Any) -> State:
        at, acceleration = flow(t, state)
        base_gain, gain = dt * acceleration.base, dt * acceleration.v
        return move(top, at, dt * (at.base_twist + base_gain), dt * (at.v + gain), base_gain, gain)
