"""Constraints between frames: joints that close loops, anchors, imposed motions of frames.

Rotations are measured by their logarithm (document 002, (3.33)), which vanishes only for equal frames; sines of the angle
also vanish for frames half a turn apart.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, as_vector, instance, is_traced, one_of, shown
from undula.elements.row import RowModel
from undula.elements.site import WORLD, Site, moved_site, refuse_same
from undula.elements.view import View
from undula.lie import so3
from undula.numerics.small import matmul, tmatvec
from undula.rows.vectors import UP, direction, dot

# Components of the relative pose of two frames that each joint constrains: position x, y, z; rotation vector rx, ry, rz; or,
# where rotation about z is free, the tilt of one z axis relative to the other
HOLDS: dict[str, tuple[str, ...]] = {
    "fixed": ("x", "y", "z", "rx", "ry", "rz"),
    "revolute": ("x", "y", "z", "tilt_x", "tilt_y"),
    "prismatic": ("x", "y", "rx", "ry", "rz"),
    "cylindrical": ("x", "y", "tilt_x", "tilt_y"),
    "helical": ("x", "y", "thread", "tilt_x", "tilt_y"),
    "universal": ("x", "y", "z", "square"),
    "spherical": ("x", "y", "z"),
    "planar": ("z", "tilt_x", "tilt_y"),
    "line": ("x", "y"),
    "plane": ("z",),
}
COMPONENTS = ("x", "y", "z", "rx", "ry", "rz")


def components_of(holds: Any, what: str, allowed: Sequence[str] = COMPONENTS) -> tuple[str, ...]:
    """The components that a constraint holds: different ones, at least one."""
    names = (holds,) if isinstance(holds, str) and holds in allowed else holds
    if not isinstance(names, Sequence) or not names or len({*map(str, names)}) < len(names):
        raise ModelError(f"{what} holds {shown(holds)}; it must be some of {', '.join(allowed)}, each once.")
    for c in names:
        if not isinstance(c, str) or c not in allowed:
            raise ModelError(f"{what} holds {shown(c)}; it must be among {', '.join(allowed)}.")
    return tuple(names)


class Closure(RowModel):
    """A joint that closes a loop, between a frame of `body` and a frame of `other` (the world by default).

    **Arguments:**

    - `kind`: "fixed" (the default), "revolute", "prismatic", "cylindrical", "helical", "universal", "spherical", "planar",
      "line" (a point on a line) or "plane" (a point on a plane); the joint axis is the z axis of the frames (universal: z of
      `body`'s frame and x of `other`'s). Or `holds`: a subset of x, y, z [m] and rx, ry, rz, the components of the position and
      of the rotation vector [rad] of `body`'s frame in the frame of `other`.
    - `position` [m], `rotation` (quaternion) of the frame in `body`; `other_position`, `other_rotation` in `other`.
    - `pitch` [m/rad] of a helical joint, which holds within one turn only: its angle is taken between -pi and pi.

    Rotational gaps are angles of at most pi that vanish only for equal frames (or axes). At pi the direction of the error is
    not unique, and one of the two is chosen.
    """

    pitch: Array
    holds: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        body: str | Site,
        other: str | Site = WORLD,
        kind: str | None = None,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = (1.0, 0.0, 0.0, 0.0),
        other_position: Any = (0.0, 0.0, 0.0),
        other_rotation: Any = (1.0, 0.0, 0.0, 0.0),
        holds: tuple[str, ...] | None = None,
        pitch: float = 0.0,
    ):
        self.name, self.coordinates = name, ()
        what = f"the constraint '{name}'"
        self.sites = (
            moved_site(body, position, rotation, what),
            moved_site(other, other_position, other_rotation, what),
        )
        refuse_same(self.sites, what)
        if kind is not None and holds is not None:
            raise ModelError(
                f"the constraint '{name}' has the kind {shown(kind)} and holds {shown(holds)}; give one of them."
            )
        kind = "fixed" if kind is None else kind
        one_of(kind, HOLDS, f"kind of the constraint '{name}'")
        self.holds = HOLDS[kind] if holds is None else components_of(holds, f"the constraint '{name}'")
        turns = as_vector(pitch, 0, f"pitch of the constraint '{name}'")
        if "thread" not in self.holds and (is_traced(turns) or turns != 0):
            raise ModelError(f"the constraint '{name}' has the pitch {pitch}; only helical ones have a pitch.")
        self.pitch = turns

    def gap(self, at: View) -> Float[Array, "g"]:
        b, other = at.sites
        x = tmatvec(other.R, b.p - other.p)
        R = matmul(other.R.T, b.R)
        parts = {"x": x[0], "y": x[1], "z": x[2]}
        if {"rx", "ry", "rz"} & set(self.holds):
            parts |= dict(zip(("rx", "ry", "rz"), so3.log_of_matrix(R)))
        if "tilt_x" in self.holds:
            parts |= dict(zip(("tilt_x", "tilt_y"), so3.tilt(R[:, 2])))
        if "square" in self.holds:
            parts["square"] = R[
                0, 2
            ]  # cosine of the angle between the axes; both signs of the angle are the same joint
        if "thread" in self.holds:
            parts["thread"] = x[2] - self.pitch * jnp.arctan2(R[1, 0], R[0, 0])
        return jnp.stack([parts[c] for c in self.holds])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds if len(self.holds) > 1 else ("",)


def Anchor(
    name: str,
    body: str | Site,
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = (1.0, 0.0, 0.0, 0.0),
    holds: tuple[str, ...] | None = None,
    point: Any = (0.0, 0.0, 0.0),
) -> Closure:
    """Fixes the axes and one point of a body in the world, or only the components `holds` of them (see `Closure`).

    **Arguments:**

    - `position` [m] and `rotation` (quaternion) in the world at which they are fixed.
    - `point` [m]: the fixed point of the body, in the body's frame; the body's origin by default.
    """
    return Closure(name, body, position=point, other_position=position, other_rotation=rotation, holds=holds)


class Latch(RowModel):
    """Holds a body where it is when the rows are switched on: its point, or some components of it, and its attitude.

    **Arguments:** `point` (3,) in the body [m]; `holds`: which of x, y, z [m] and rx, ry, rz [rad] in the world, three
    translations by default; `sees`: bodies or sites that follow its own in the views of its rule, such as another foot.
    """

    holds: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        body: str | Site,
        point: Any = (0.0, 0.0, 0.0),
        holds: tuple[str, ...] = ("x", "y", "z"),
        sees: Sequence[str | Site] = (),
    ):
        self.name, self.coordinates = name, ()
        what = f"the constraint '{name}'"
        instance(sees, list | tuple, f"sees of {what}", "a sequence of bodies or sites")
        self.sites = (moved_site(body, point, None, what), *(moved_site(x, (0.0, 0.0, 0.0), None, what) for x in sees))
        self.holds = components_of(holds, f"the constraint '{name}'")

    def start(self) -> Any:
        return np.zeros(3), np.eye(3)

    def latch(self, at: View) -> Any:
        return at.sites[0].p, at.sites[0].R

    def gap(self, at: View) -> Float[Array, "g"]:
        b, (p, R) = at.sites[0], at.z
        parts = dict(zip(("x", "y", "z"), b.p - p))
        if {"rx", "ry", "rz"} & set(self.holds):
            parts |= dict(zip(("rx", "ry", "rz"), so3.log_of_matrix(matmul(b.R, R.T))))
        return jnp.stack([parts[c] for c in self.holds])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds if len(self.holds) > 1 else ("",)


class PointOnPlane(RowModel):
    """A point of a body stays on a plane of another body (or of the world): 1 row.

    `point` in the body [m]; `normal` and `origin` [m] of the plane in `other`.
    """

    normal: Array

    def __init__(
        self,
        name: str,
        body: str | Site,
        point: Any = (0.0, 0.0, 0.0),
        normal: Any = UP,
        origin: Any = (0.0, 0.0, 0.0),
        other: str | Site = WORLD,
    ):
        self.name, self.coordinates = name, ()
        what = f"the constraint '{name}'"
        self.sites = moved_site(body, point, None, what), moved_site(other, origin, None, what)
        refuse_same(self.sites, what)
        self.normal = direction(normal, f"normal of the constraint '{name}'")

    def gap(self, at: View) -> Float[Array, "1"]:
        b, other = at.sites
        return dot(other.direction(self.normal), b.p - other.p)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("",)
