"""Constraints between frames: joints that close loops, anchors, imposed motions of frames.

Rotations are measured by their logarithm (document 002, (3.33)), which vanishes for equal frames alone; sines of the angle
also vanish for frames that are turned by pi.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError, as_vector, is_traced
from undula.elements.row import WORLD, At, Constraint
from undula.laws.law import Law
from undula.lie import so3
from undula.numerics.pick import pick, spread
from undula.numerics.small import matmul, tmatvec

# What a joint holds of the relative pose of two frames: the position x, y, z; the rotation vector rx, ry, rz; or, where a
# turn about z is free, the tilt of one z axis against the other
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


class Closure(Constraint):
    """A joint that closes a loop, between a frame of `body` and a frame of `other` (the world by default).

    **Arguments:**

    - `kind`: "fixed" (the default), "revolute", "prismatic", "cylindrical", "helical", "universal", "spherical", "planar",
      "line" (a point on a line) or "plane" (a point on a plane); axes are the z axis of the frames (universal: z of `body`'s
      frame and x of `other`'s). Or `holds`: a subset of x, y, z [m] and rx, ry, rz, the components of the position and of the
      rotation vector [rad] of `body`'s frame in the frame of `other`.
    - `position` [m], `rotation` (quaternion) of the frame in `body`; `other_position`, `other_rotation` in `other`.
    - `pitch` [m/rad] of a helical joint, which is held within one turn: its angle is taken between -pi and pi.

    Gaps of rotations are angles, at most pi, that vanish for equal frames (or axes) alone. At pi itself the way back is not
    unique, and one of the directions is taken.
    """

    position: Array
    rotation: Array
    other_position: Array
    other_rotation: Array
    pitch: Array
    holds: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        body: str,
        other: str = WORLD,
        kind: str | None = None,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = (1.0, 0.0, 0.0, 0.0),
        other_position: Any = (0.0, 0.0, 0.0),
        other_rotation: Any = (1.0, 0.0, 0.0, 0.0),
        holds: tuple[str, ...] | None = None,
        pitch: float = 0.0,
    ):
        self.name, self.bodies, self.coordinates = name, (body, other), ()
        if kind is not None and holds is not None:
            raise ModelError(f"the constraint '{name}' has the kind {kind!r} and holds {holds!r}; give one of them.")
        kind = "fixed" if kind is None else kind
        if kind not in HOLDS:
            raise ModelError(f"kind of the constraint '{name}' = {kind!r}; it must be one of {', '.join(HOLDS)}.")
        for c in holds or ():
            if c not in COMPONENTS:
                raise ModelError(f"the constraint '{name}' holds {c!r}; it must be among {', '.join(COMPONENTS)}.")
        self.holds = HOLDS[kind] if holds is None else tuple(holds)
        self.position, self.other_position = (
            jnp.asarray(as_vector(x, 3, f"position of the constraint '{name}'")) for x in (position, other_position)
        )
        self.rotation, self.other_rotation = (
            jnp.asarray(_matrix(x, f"rotation of the constraint '{name}'")) for x in (rotation, other_rotation)
        )
        turns = as_vector(pitch, 0, f"pitch of the constraint '{name}'")
        if "thread" not in self.holds and (is_traced(turns) or turns != 0):
            raise ModelError(f"the constraint '{name}' has the pitch {pitch}; only helical ones have a pitch.")
        self.pitch = jnp.asarray(turns)

    def gap(self, at: At) -> Float[Array, "g"]:
        b, other = at.bodies
        Ra, Rb = matmul(other.R, self.other_rotation), matmul(b.R, self.rotation)
        x = tmatvec(Ra, b.point(self.position) - other.point(self.other_position))
        R = matmul(Ra.T, Rb)
        parts = {"x": x[0], "y": x[1], "z": x[2]}
        if {"rx", "ry", "rz"} & set(self.holds):
            parts |= dict(zip(("rx", "ry", "rz"), so3.log_of_matrix(R)))
        if "tilt_x" in self.holds:
            parts |= dict(zip(("tilt_x", "tilt_y"), so3.tilt(R[:, 2])))
        if "square" in self.holds:
            parts["square"] = R[0, 2]  # either side is the same joint: it gets from one to the other
        if "thread" in self.holds:
            parts["thread"] = x[2] - self.pitch * jnp.arctan2(R[1, 0], R[0, 0])
        return jnp.stack([parts[c] for c in self.holds])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds if len(self.holds) > 1 else ("",)


def Anchor(
    name: str,
    body: str,
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = (1.0, 0.0, 0.0, 0.0),
    holds: tuple[str, ...] | None = None,
    point: Any = (0.0, 0.0, 0.0),
) -> Closure:
    """Holds a body in the world: its axes and one of its points, or the components `holds` of them (see `Closure`).

    **Arguments:**

    - `position` [m] and `rotation` (quaternion) in the world, where they are held.
    - `point` [m]: the point of the body, in the body's frame, that is held there; the body's origin by default.
    """
    return Closure(name, body, position=point, other_position=position, other_rotation=rotation, holds=holds)


class PrescribedFrame(Constraint):
    """Imposes the motion of a body's frame in the world: a law of position [m] and rotation vector [rad].

    `holds`: which components (x, y, z, rx, ry, rz) are imposed, one component of the law each, in this order; the others
    count as zero where the rotation needs them.
    """

    law: Law
    holds: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, name: str, body: str, law: Law, holds: tuple[str, ...] = COMPONENTS):
        self.name, self.bodies, self.coordinates = name, (body,), ()
        self.holds = tuple(holds)
        for c in self.holds:
            if c not in COMPONENTS:
                raise ModelError(f"the constraint '{name}' holds {c!r}; it must be among {', '.join(COMPONENTS)}.")
        if law.shape != (len(self.holds),):
            raise ModelError(
                f"the law of the constraint '{name}' has the shape {law.shape}; it must be ({len(self.holds)},)."
            )
        self.law = law

    def gap(self, at: At) -> Float[Array, "g"]:
        (b,) = at.bodies
        which = np.array([COMPONENTS.index(c) for c in self.holds])
        wanted = spread(self.law.value(at.t), which, jnp.zeros(6))
        R = matmul(so3.to_matrix(so3.exp(wanted[3:])).T, b.R)
        return pick(jnp.concatenate([b.p - wanted[:3], so3.log_of_matrix(R)]), which)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds if len(self.holds) > 1 else ("",)


def _matrix(rotation: Any, what: str) -> Array:
    x = jnp.asarray(rotation, dtype=float)
    if x.shape == (3, 3):
        return x
    if x.shape != (4,):
        raise ModelError(f"{what} has the shape {x.shape}; it must be a quaternion or a 3x3 matrix.")
    return so3.to_matrix(so3.normalise(x))
