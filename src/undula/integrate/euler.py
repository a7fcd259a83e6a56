"""Semi-implicit (symplectic) Euler method on Lie groups."""

from typing import Any, ClassVar

from undula.integrate.method import Integrator, Report, flow_and_power, imposes, ready, shifted
from undula.model.prepare import Prepared
from undula.model.state import State


class SemiImplicitEuler(Integrator):
    """Updates velocities, then poses with the new velocities: order 1, one evaluation per step, bounded energy error."""

    order: ClassVar[int] = 1

    def accounts(self, system):
        return not imposes(system)

    def step(self, prepared: Prepared, t: Any, state: State, carry: Any, dt: Any, careful: bool = False):
        accounted = careful and self.accounts(prepared.system)
        at, a, power = flow_and_power(prepared, t, ready(prepared, t, state), accounted)
        gain = dt * a.whole
        new = shifted(prepared, at, dt * (at.velocity + gain), gain, a.z, dt)
        return new, carry, Report.make(work=dt * power)
