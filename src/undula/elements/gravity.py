"""Gravity: a uniform field."""

from typing import Any, ClassVar

from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import as_vector
from undula.elements.force import ForceModel


class Gravity(ForceModel):
    """Gravity with the acceleration `g` (3,) [m/s^2] in the world; the energy is zero at the world's origin."""

    g: Float[Array, "3"]

    account: ClassVar[str] = "conservative"
    recorded: ClassVar[bool] = False

    def __init__(self, g: Any = (0.0, 0.0, -9.81), name: str = "gravity"):
        self.name, self.sites, self.coordinates = name, (), ()
        self.g = as_vector(g, 3, "gravity")

    def field(self, t):
        return self.g
