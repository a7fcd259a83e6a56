"""Shapes that viewers draw for bodies."""

import math
from dataclasses import dataclass
from typing import Any

from undula.core.errors import UndulaError, one_of, shown

ALONG_X = (0.5**0.5, 0.0, 0.5**0.5, 0.0)  # rotates a cylinder's axis from z to x
ALONG_Y = (0.5**0.5, -(0.5**0.5), 0.0, 0.0)  # ... and to y


@dataclass(frozen=True)
class Shape:
    """A shape that a viewer draws for a body; it plays no part in the dynamics.

    `kind`: "box" (size = 3 edges), "cylinder" or "capsule" (size = radius, length; axis z), "sphere" (size = radius),
    "ellipsoid" (3 semi-axes) [m]; `position` [m] and `quaternion` in the body frame; `colour` (r, g, b) in 0..1.
    """

    kind: str
    size: tuple[float, ...]
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    colour: tuple[float, ...] | None = None

    def __post_init__(self):
        count = SHAPE_SIZES[one_of(self.kind, SHAPE_SIZES, "shape")]
        what = f"of the {self.kind}"
        for name, n in (("size", count), ("position", 3), ("quaternion", 4), ("colour", 3)):
            value = getattr(self, name)
            if value is not None or name != "colour":
                value = tuple(_finite(value, n, f"{name} {what}"))
            object.__setattr__(self, name, value)
        if min(self.size) <= 0:
            raise UndulaError(f"size {what} = {self.size} m; all must be positive.")
        if not any(self.quaternion):
            raise UndulaError(f"quaternion {what} = {self.quaternion} is zero; it must be a rotation.")
        if self.colour is not None and not all(0 <= x <= 1 for x in self.colour):
            raise UndulaError(f"colour {what} = {self.colour}; its parts must be between 0 and 1.")


def _finite(value: Any, count: int, what: str) -> list[float]:
    """A list of `count` finite numbers."""
    try:
        found = [float(x) for x in value]
    except (TypeError, ValueError):
        found = []
    if len(found) != count or isinstance(value, str) or not all(map(math.isfinite, found)):
        raise UndulaError(f"{what} = {shown(value)}; it must be {count} finite number{'s' * (count > 1)}.")
    return found


SHAPE_SIZES = {"box": 3, "cylinder": 2, "capsule": 2, "sphere": 1, "ellipsoid": 3}
