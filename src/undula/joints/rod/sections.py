"""Cross sections: area and second moments, which with the material give a rod's stiffness and inertia.

Shear factors are those of G. R. Cowper, The shear coefficient in Timoshenko's beam theory, Journal of Applied Mechanics 33,
1966.
"""

import abc
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, as_vector, is_traced, positive, positive_or_nan


class Section(abc.ABC):
    """A section about its centre: y and z are its principal axes, x is along the rod.

    Sizes that are not positive are rejected; traced ones become NaN.
    """

    @property
    @abc.abstractmethod
    def area(self) -> Any:
        """Area [m^2]."""

    @property
    @abc.abstractmethod
    def moments(self) -> tuple[Any, Any]:
        """Second moments of area about y and z [m^4]."""

    @property
    @abc.abstractmethod
    def outline(self) -> tuple[Any, Any]:
        """Half widths along y and z [m]: for drawings, and to check that tendons lie inside."""

    @property
    def torsion(self) -> Any:
        """Torsion constant [m^4]: the polar moment, as in (2.10), unless a section overrides it."""
        Iy, Iz = self.moments
        return Iy + Iz

    def shear_factors(self, nu: Any) -> tuple[Any, Any]:
        """Shear factors along y and z of a material of Poisson's ratio `nu`, by Cowper's formula for the shape."""
        raise ModelError(f"there is no formula for the shear factor of a {type(self).__name__}: give a number.")

    @property
    def corners(self) -> bool:
        """Whether it fills the rectangle of its outline rather than the ellipse."""
        return False


def _keep(section: Section, field: str, value: Any) -> None:
    """Sets a field of a frozen section during its construction."""
    object.__setattr__(section, field, value)


@dataclass(frozen=True)
class Circle(Section):
    """A solid circle of given `diameter` [m]."""

    diameter: Any

    def __post_init__(self):
        _keep(self, "diameter", positive_or_nan(self.diameter, "diameter of the section", "m"))

    @property
    def area(self):
        return math.pi * self.diameter**2 / 4

    @property
    def moments(self):
        I = math.pi * self.diameter**4 / 64
        return I, I

    @property
    def outline(self):
        return self.diameter / 2, self.diameter / 2

    def shear_factors(self, nu):
        k = 6 * (1 + nu) / (7 + 6 * nu)
        return k, k


@dataclass(frozen=True)
class Annulus(Circle):
    """A tube of given outer `diameter` and `inner` diameter [m]."""

    inner: Any

    def __post_init__(self):
        super().__post_init__()
        _keep(self, "inner", positive_or_nan(self.inner, "inner diameter of the section", "m"))
        if is_traced(self.inner) or is_traced(self.diameter):
            _keep(self, "inner", jnp.where(self.inner < self.diameter, self.inner, jnp.nan))
        elif self.inner >= self.diameter:
            raise ModelError(f"inner diameter of the section = {self.inner} m; it must be less than {self.diameter} m.")

    @property
    def area(self):
        return super().area - Circle(self.inner).area

    @property
    def moments(self):
        I = super().moments[0] - Circle(self.inner).moments[0]
        return I, I

    def shear_factors(self, nu):
        m = (self.inner / self.diameter) ** 2
        k = 6 * (1 + nu) * (1 + m) ** 2 / ((7 + 6 * nu) * (1 + m) ** 2 + (20 + 12 * nu) * m)
        return k, k


@dataclass(frozen=True)
class _Oblong(Section):
    """A section with a `width` along y and a `height` along z [m]."""

    width: Any
    height: Any

    def __post_init__(self):
        _keep(self, "width", positive_or_nan(self.width, "width of the section", "m"))
        _keep(self, "height", positive_or_nan(self.height, "height of the section", "m"))

    @property
    def outline(self):
        return self.width / 2, self.height / 2


class Rectangle(_Oblong):
    """A rectangle of `width` along y and `height` along z [m]; Saint-Venant's torsion constant."""

    @property
    def area(self):
        return self.width * self.height

    @property
    def moments(self):
        return self.width * self.height**3 / 12, self.width**3 * self.height / 12

    @property
    def torsion(self):
        xp = jnp if is_traced(self.width) or is_traced(self.height) else np
        a, b = xp.maximum(self.width, self.height), xp.minimum(self.width, self.height)
        # 1/3 - (64 b / pi^5 a) sum tanh(n pi a / 2 b) / n^5, over odd n
        tail = sum(xp.tanh(n * math.pi * a / (2 * b)) / n**5 for n in range(1, 12, 2))
        return a * b**3 * (1 / 3 - 64 * b / (math.pi**5 * a) * tail)

    def shear_factors(self, nu):
        k = 10 * (1 + nu) / (12 + 11 * nu)
        return k, k

    @property
    def corners(self):
        return True


class Ellipse(_Oblong):
    """An ellipse of `width` along y and `height` along z (full axes) [m]; Saint-Venant's torsion constant."""

    @property
    def area(self):
        return math.pi * self.width * self.height / 4

    @property
    def moments(self):
        return math.pi * self.width * self.height**3 / 64, math.pi * self.width**3 * self.height / 64

    @property
    def torsion(self):
        a, b = self.width / 2, self.height / 2
        return math.pi * a**3 * b**3 / (a**2 + b**2)


@dataclass(frozen=True)
class GivenSection(Section):
    """A section by its properties: `A` [m^2], `Iy`, `Iz` and `J` (torsion) [m^4]; `size`: half widths [m] to draw."""

    A: Any
    Iy: Any
    Iz: Any
    J: Any
    size: tuple[float, float] = (0.01, 0.01)

    def __post_init__(self):
        for what, unit in (("A", "m^2"), ("Iy", "m^4"), ("Iz", "m^4"), ("J", "m^4")):
            positive(getattr(self, what), f"{what} of the section", unit)
        for x in as_vector(self.size, 2, "size of the section"):
            positive(x, "size of the section", "m")

    @property
    def area(self):
        return self.A

    @property
    def moments(self):
        return self.Iy, self.Iz

    @property
    def torsion(self):
        return self.J

    @property
    def outline(self):
        return self.size
