"""Shapes that several vehicles of the gallery are drawn with."""

from collections.abc import Sequence

import numpy as np

from undula.core.shapes import ALONG_X, ALONG_Y, Shape

__all__ = ["ALONG_X", "ALONG_Y", "axle", "bar", "wheel"]

Point = Sequence[float] | np.ndarray
TYRE = (0.16, 0.16, 0.18)
HUB = (0.85, 0.85, 0.87)


def wheel(radius: float, x: float = 0.0, y: float = 0.0, width: float | None = None) -> list[Shape]:
    """A wheel that rolls along x and stands on the ground at (x, y) [m]."""
    width = 0.4 * radius if width is None else width
    return [
        Shape("cylinder", (radius, width), (x, y, radius), ALONG_Y, TYRE),
        Shape("cylinder", (0.5 * radius, 1.1 * width), (x, y, radius), ALONG_Y, HUB),
    ]


def axle(radius: float, track: float, x: float = 0.0, width: float | None = None) -> list[Shape]:
    """Two wheels that roll along x, and the bar between them [m]."""
    bar = Shape("cylinder", (0.15 * radius, track), (x, 0, radius), ALONG_Y, HUB)
    return [bar, *wheel(radius, x, track / 2, width), *wheel(radius, x, -track / 2, width)]


def bar(
    a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, colour: tuple[float, ...], radius: float = 0.02
) -> Shape:
    """A capsule between two points [m]."""
    start, way = np.asarray(a, dtype=float), np.subtract(b, a)
    length = float(np.linalg.norm(way))
    turn = np.array([length + way[2], -way[1], way[0], 0.0])  # from z to the bar, by the shortest way
    if length + way[2] < 1e-9 * length:
        turn = np.array([0.0, 1.0, 0.0, 0.0])  # straight down
    return Shape("capsule", (radius, length), tuple(start + way / 2), tuple(turn / np.linalg.norm(turn)), colour)
