"""Linear springs and dampers of coordinates: those of joints, and the elasticity and viscosity of rods."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.force import ForceModel
from undula.numerics.small import matvec


class Springs(ForceModel):
    """Springs that pull coordinates to their rest values; the energy is (x - rest)^T K (x - rest) / 2 (2.38).

    - `stiffness` K: one number per coordinate, or a matrix (c, c) [N m/rad or N/m]; `rest` (c,) [rad or m].
    """

    stiffness: Array
    rest: Float[Array, "c"]

    account: ClassVar[str] = "conservative"
    recorded: ClassVar[bool] = False

    def __init__(self, coordinates: tuple[str, ...], stiffness: Any, rest: Any, name: str):
        self.name, self.sites, self.coordinates = name, (), tuple(coordinates)
        self.stiffness, self.rest = stiffness, rest

    def pull(self, at):
        return -_times(self.stiffness, at.x - self.rest)

    def energy(self, at):
        stretch = at.x - self.rest
        return (stretch * _times(self.stiffness, stretch)).sum() / 2

    def linear(self):
        return self.stiffness, np.zeros(self.stiffness.shape)


class Dampers(ForceModel):
    """Dampers of coordinates: efforts -D v (2.39).

    - `damping` D: one number per coordinate, or a matrix (c, c) [N m s/rad or N s/m].
    """

    damping: Array

    account: ClassVar[str] = "dissipative"
    recorded: ClassVar[bool] = False

    def __init__(self, coordinates: tuple[str, ...], damping: Any, name: str):
        self.name, self.sites, self.coordinates = name, (), tuple(coordinates)
        self.damping = damping

    def effort(self, at):
        return -_times(self.damping, at.v)

    def linear(self):
        return np.zeros(self.damping.shape), self.damping


def _times(matrix: Array, x: Float[Array, "c"]) -> Float[Array, "c"]:
    return matrix * x if matrix.ndim == 1 else matvec(matrix, x)
