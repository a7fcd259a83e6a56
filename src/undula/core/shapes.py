"""Shapes that viewers draw for bodies."""

from dataclasses import dataclass

from undula.core.errors import UndulaError

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
        count = SHAPE_SIZES.get(self.kind)
        if count is None:
            raise UndulaError(f"shape = {self.kind!r}; it must be one of {', '.join(SHAPE_SIZES)}.")
        if len(self.size) != count:
            raise UndulaError(f"size of the {self.kind} = {self.size}; it must be {count} numbers.")
        for name in ("size", "position", "quaternion", "colour"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(float(x) for x in value))


SHAPE_SIZES = {"box": 3, "cylinder": 2, "capsule": 2, "sphere": 1, "ellipsoid": 3}
