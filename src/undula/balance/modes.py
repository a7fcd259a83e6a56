"""Small undamped vibrations about an equilibrium."""

from typing import NamedTuple

import numpy as np

from undula.balance.balance import inertia_over
from undula.balance.equilibrium import Equilibrium
from undula.core.errors import UndulaError
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.tree.snapshot import place


class Modes(NamedTuple):
    """Natural frequencies [rad/s], lowest first (negative: growth at that rate, no oscillation), and mode shapes (n, m) of unit
    modal mass, as columns over the unknown (base directions, coordinates)."""

    frequencies: np.ndarray
    shapes: np.ndarray


@quickly_compiled
def _inertia(system: System, state: State):
    prepared = prepare(system)
    snap = place(prepared, 0.0, state, Acceleration.zero(system.nv), frames=False, screws=False)
    return inertia_over(prepared, snap, system.topology.unknown)


@checked
def natural_modes(system: System, at: Equilibrium) -> Modes:
    """Small undamped vibrations about an equilibrium."""
    from scipy.linalg import eigh

    if not isinstance(at, Equilibrium):
        raise UndulaError(
            f"natural modes about {type(at).__name__}; it must be an equilibrium, as `equilibrium` returns it."
        )
    Z = at.directions
    square, shapes = eigh((at.stiffness + at.stiffness.T) / 2, Z.T @ np.asarray(_inertia(system, at.state)) @ Z)
    return Modes(np.sign(square) * np.sqrt(np.abs(square)), Z @ shapes)
