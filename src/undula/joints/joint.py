"""The joints a user writes. Each names a computational kind and its constant vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from undula.core.errors import ModelError, as_vector, is_traced
from undula.joints.kind import KINDS, Kind

ROLES = ("free", "driven", "forced")
Vector = Any  # a sequence of numbers, or an array


@dataclass(frozen=True)
class Mimic:
    """A single-coordinate joint follows another one: q = multiplier * q_leader + offset; it has no coordinate."""

    leader: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Joint:
    """What every joint has besides its geometry; each entry is one value, or one a coordinate.

    **Arguments:**

    - `role`: `"free"` (its effort is zero, apart from spring and damper), `"forced"` (its effort is given) or
      `"driven"` (its motion is given).
    - `stiffness` [N m/rad or N/m], `damping` [N m s/rad or N s/m], `rest` [rad or m]: a passive spring and damper.
    - `limits`: (lower, upper) [rad or m]; a run that leaves them gives a warning, nothing more.
    - `motion`: the motion law of a driven joint; `effort`: the effort law or controller of a forced one.
    - `mimic`: makes a single-coordinate joint follow another; it then has no coordinate of its own.
    - `name`: the joint's name; the name of the body it carries by default.
    """

    name: str | None = None
    role: str | Sequence[str] = "free"
    stiffness: Any = 0.0
    damping: Any = 0.0
    rest: Any = 0.0
    limits: tuple[Any, Any] = (-math.inf, math.inf)
    motion: Any = None
    effort: Any = None
    mimic: Mimic | None = None

    @property
    def kind(self) -> Kind | None:
        raise TypeError("Joint is abstract: use Revolute, Prismatic, ...")

    def vectors(self, owner: str) -> tuple[Any, Any]:
        """The two constant vectors of the kind."""
        return np.zeros(3), np.zeros(3)

    @property
    def units(self) -> tuple[str, ...]:
        return self.kind.units if self.kind else ()


def unit_vector(value: Any, what: str) -> Any:
    """The direction of a 3-vector; refuses a zero or non-finite one."""
    v = as_vector(value, 3, what)
    if is_traced(v):
        return v / (v @ v) ** 0.5
    norm = np.linalg.norm(v)
    if norm < 1e-12:
        raise ModelError(f"{what} = {np.asarray(v).tolist()} is zero; it must be a direction.")
    return v / norm


@dataclass(frozen=True, kw_only=True)
class Fixed(Joint):
    """No relative motion."""

    @property
    def kind(self) -> None:
        return None


@dataclass(frozen=True)
class Revolute(Joint):
    """Rotation about `axis` (in the joint frame)."""

    axis: Vector = (0.0, 0.0, 1.0)

    @property
    def kind(self) -> Kind:
        return KINDS["screw"]

    @property
    def units(self) -> tuple[str, ...]:
        return ("rad",)

    def vectors(self, owner):
        return unit_vector(self.axis, f"axis of {owner}"), np.zeros(3)


@dataclass(frozen=True)
class Prismatic(Joint):
    """Translation along `axis` (in the joint frame)."""

    axis: Vector = (0.0, 0.0, 1.0)

    @property
    def kind(self) -> Kind:
        return KINDS["screw"]

    @property
    def units(self) -> tuple[str, ...]:
        return ("m",)

    def vectors(self, owner):
        return np.zeros(3), unit_vector(self.axis, f"axis of {owner}")


@dataclass(frozen=True)
class Helical(Joint):
    """Rotation about `axis` with a translation of `pitch` [m/rad] along it; the coordinate is the angle."""

    axis: Vector = (0.0, 0.0, 1.0)
    pitch: Any = 0.01

    @property
    def kind(self) -> Kind:
        return KINDS["screw"]

    @property
    def units(self) -> tuple[str, ...]:
        return ("rad",)

    def vectors(self, owner):
        axis = unit_vector(self.axis, f"axis of {owner}")
        return axis, as_vector(self.pitch, 0, f"pitch of {owner}") * axis


@dataclass(frozen=True)
class Cylindrical(Joint):
    """Rotation about `axis` (coordinate `angle`) and translation along it (`slide`), independent."""

    axis: Vector = (0.0, 0.0, 1.0)

    @property
    def kind(self) -> Kind:
        return KINDS["cylindrical"]

    def vectors(self, owner):
        return unit_vector(self.axis, f"axis of {owner}"), np.zeros(3)


@dataclass(frozen=True)
class Universal(Joint):
    """Cardan joint: rotation about `axis` (fixed in the parent), then about `second` (fixed in the child)."""

    axis: Vector = (1.0, 0.0, 0.0)
    second: Vector = (0.0, 1.0, 0.0)

    @property
    def kind(self) -> Kind:
        return KINDS["universal"]

    def vectors(self, owner):
        a = unit_vector(self.axis, f"axis of {owner}")
        b = unit_vector(self.second, f"second axis of {owner}")
        if not (is_traced(a) or is_traced(b)) and np.linalg.norm(np.cross(a, b)) < 1e-9:
            raise ModelError(f"the two axes of {owner} are parallel; a universal joint needs two directions.")
        return a, b


@dataclass(frozen=True, kw_only=True)
class Spherical(Joint):
    """Ball joint. Its configuration is a quaternion, its rates the body angular velocity; no chart is singular."""

    @property
    def kind(self) -> Kind:
        return KINDS["spherical"]


@dataclass(frozen=True, kw_only=True)
class Planar(Joint):
    """Motion in the x-y plane of the joint frame: x, y, and the angle about z."""

    @property
    def kind(self) -> Kind:
        return KINDS["planar"]


@dataclass(frozen=True, kw_only=True)
class Free(Joint):
    """Six degrees of freedom: position and quaternion; its rates are the body twist."""

    @property
    def kind(self) -> Kind:
        return KINDS["free"]
