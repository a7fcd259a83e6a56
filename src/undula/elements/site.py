"""Sites, where elements are attached: a frame of a body, or the section of a rod at an abscissa."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, a_name, as_vector, is_traced, shown
from undula.laws.law import Law
from undula.lie.given import as_rotation

WORLD = "world"  # name of the inertial frame, accepted in place of the name of a body


class Found(eqx.Module):
    """An unknown abscissa: an internal state of the element, `start` [m] at the beginning of a run."""

    start: Float[Array, ""]

    def __init__(self, start: Any):
        self.start = as_vector(start, 0, "start of an unknown abscissa")


class Site(eqx.Module):
    """A frame of a body, or of a rod's section; made by `site` and `on`.

    - `body`: name of a body, of a rod, or "world".
    - `position` (3,) [m], `rotation` (3, 3): of the frame in the body's, or in the section's.
    - `abscissa`: None for a body; else X [m] along a rod: a number, a law of time, or `Found`.
    """

    body: str = eqx.field(static=True)
    position: Float[Array, "3"]
    rotation: Float[Array, "3 3"]
    abscissa: Any

    @property
    def words(self) -> str:
        """Description of the site for error messages."""
        return f"the section of the rod '{self.body}'" if self.abscissa is not None else f"the body '{self.body}'"


def site(body: str, position: Any = (0.0, 0.0, 0.0), rotation: Any = None) -> Site:
    """A frame of a body ("world": of the inertial frame).

    `position` [m] and `rotation` (quaternion w, x, y, z or 3x3 matrix) of the frame in the body.
    """
    a_name(body, "body of a site")
    return _site(body, position, rotation, None, f"a site on '{body}'")


def on(rod: str, X: Any, position: Any = (0.0, 0.0, 0.0), rotation: Any = None) -> Site:
    """The section of a rod at the abscissa X [m]: a number, a law of time, or `Found(start)`.

    `position` [m] and `rotation` of the frame in the section, whose x axis is along the rod.
    """
    what = f"a site on the rod '{a_name(rod, 'rod of a site')}'"
    if isinstance(X, Law):
        if X.shape != ():
            raise ModelError(f"the abscissa of {what} has the shape {X.shape}; it must be one number.")
    elif not isinstance(X, Found):
        X = as_vector(X, 0, f"the abscissa of {what}")
    return _site(rod, position, rotation, X, what)


def _site(body: str, position: Any, rotation: Any, abscissa: Any, what: str) -> Site:
    at = as_vector(position, 3, f"position of {what}")
    R: Any = np.eye(3) if rotation is None else as_rotation(rotation, f"rotation of {what}")
    return Site(body, at, R, abscissa)


def as_site(value: str | Site, what: str) -> Site:
    """A site from the name of a body; a site is returned as it is."""
    if isinstance(value, Site):
        return value
    if not isinstance(value, str):
        raise ModelError(f"{what} is attached to {shown(value)}; it must be the name of a body, or a site.")
    return site(value)


def refuse_same(ends: Sequence[Site], what: str) -> None:
    """Refuses two sites on one rigid body, between which nothing moves."""
    a, b = ends
    if a.abscissa is None and b.abscissa is None and a.body == b.body:
        raise ModelError(f"{what} connects {a.words} with itself, where nothing can move; its ends must differ.")


def moved_site(value: str | Site, position: Any, rotation: Any, what: str) -> Site:
    """A site with an additional offset, `position` [m] and `rotation` in its own frame."""
    place = as_site(value, what)
    p = as_vector(position, 3, f"position of {what}")
    R = np.eye(3) if rotation is None else as_rotation(rotation, f"rotation of {what}")
    if not (is_traced(p) or is_traced(R)) and not np.any(p) and np.array_equal(R, np.eye(3)):
        return place
    return Site(place.body, place.position + place.rotation @ p, place.rotation @ R, place.abscissa)
