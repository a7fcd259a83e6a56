"""Cross sections: area and second moments, for which a rod's stiffness and inertia follow from its material."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from undula.model.errors import ModelError, is_traced


def _positive(value: Any, what: str) -> None:
    if not is_traced(value) and not (
        np.all(np.isfinite(np.asarray(value, dtype=float))) and np.all(np.asarray(value) > 0)
    ):
        raise ModelError(f"{what} = {value}; it must be positive.")


class Section:
    """A section about its centre: y and z are its principal axes, x is along the rod."""

    @property
    def area(self) -> Any:
        """[m^2]"""
        raise NotImplementedError

    @property
    def moments(self) -> tuple[Any, Any]:
        """Second moments of area about y and z [m^4]."""
        raise NotImplementedError

    @property
    def torsion(self) -> Any:
        """Constant of torsion [m^4]: the polar moment, as in (2.10), unless a section knows better."""
        Iy, Iz = self.moments
        return Iy + Iz

    @property
    def corners(self) -> bool:
        """Whether it fills the rectangle of its outline, and not the ellipse."""
        return False

    @property
    def outline(self) -> tuple[float, float]:
        """Half widths along y and z [m]: for drawings, and to see whether a tendon lies inside."""
        raise NotImplementedError


@dataclass(frozen=True)
class Circle(Section):
    """A full circle of a `diameter` [m]."""

    diameter: Any

    def __post_init__(self):
        _positive(self.diameter, "diameter of the section")

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


@dataclass(frozen=True)
class Annulus(Section):
    """A tube of an outer `diameter` and an `inner` one [m]."""

    diameter: Any
    inner: Any

    def __post_init__(self):
        _positive(self.diameter, "diameter of the section")
        _positive(self.inner, "inner diameter of the section")
        if not (is_traced(self.inner) or is_traced(self.diameter)) and self.inner >= self.diameter:
            raise ModelError(f"inner diameter of the section = {self.inner} m; it must be less than {self.diameter} m.")

    @property
    def area(self):
        return math.pi * (self.diameter**2 - self.inner**2) / 4

    @property
    def moments(self):
        I = math.pi * (self.diameter**4 - self.inner**4) / 64
        return I, I

    @property
    def outline(self):
        return self.diameter / 2, self.diameter / 2


@dataclass(frozen=True)
class Rectangle(Section):
    """A rectangle of a `width` along y and a `height` along z [m]; Saint-Venant's constant of torsion."""

    width: Any
    height: Any

    def __post_init__(self):
        _positive(self.width, "width of the section")
        _positive(self.height, "height of the section")

    @property
    def area(self):
        return self.width * self.height

    @property
    def moments(self):
        return self.width * self.height**3 / 12, self.width**3 * self.height / 12

    @property
    def torsion(self):
        if is_traced(self.width) or is_traced(self.height):
            import jax.numpy as xp
        else:
            xp = np
        a, b = xp.maximum(self.width, self.height), xp.minimum(self.width, self.height)
        # 1/3 - (64 b / pi^5 a) sum tanh(n pi a / 2 b) / n^5, over odd n
        tail = sum(xp.tanh(n * math.pi * a / (2 * b)) / n**5 for n in range(1, 12, 2))
        return a * b**3 * (1 / 3 - 64 * b / (math.pi**5 * a) * tail)

    @property
    def corners(self):
        return True

    @property
    def outline(self):
        return self.width / 2, self.height / 2


@dataclass(frozen=True)
class Ellipse(Section):
    """An ellipse of a `width` along y and a `height` along z (full axes) [m]; Saint-Venant's constant of torsion."""

    width: Any
    height: Any

    def __post_init__(self):
        _positive(self.width, "width of the section")
        _positive(self.height, "height of the section")

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

    @property
    def outline(self):
        return self.width / 2, self.height / 2


@dataclass(frozen=True)
class GivenSection(Section):
    """A section by its numbers: `A` [m^2], `Iy`, `Iz` and `J` (torsion) [m^4]; `size`: half widths [m] to draw."""

    A: Any
    Iy: Any
    Iz: Any
    J: Any
    size: tuple[float, float] = (0.01, 0.01)

    def __post_init__(self):
        for what in ("A", "Iy", "Iz", "J"):
            _positive(getattr(self, what), f"{what} of the section")

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
