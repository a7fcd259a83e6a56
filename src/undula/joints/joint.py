"""Base class of joints; each kind of joint has a file of its own in this folder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from undula.core.errors import ModelError, as_vector, is_traced
from undula.joints.kind import Kind

ROLES = ("free", "driven", "forced", "led")
Vector = Any  # a sequence of numbers, or an array


@dataclass(frozen=True)
class Mimic:
    """Makes a single-coordinate joint follow others: q = sum of multiplier * q_leader + offset; it has no coordinate.

    `leader`: the name of a coordinate, or several (a differential gear); `multiplier`: one number per leader, or one for all.
    """

    leader: str | Sequence[str]
    multiplier: Any = 1.0
    offset: Any = 0.0

    @property
    def leaders(self) -> tuple[str, ...]:
        return (self.leader,) if isinstance(self.leader, str) else tuple(self.leader)


@dataclass(frozen=True, kw_only=True)
class Joint:
    """What all joints have besides their geometry; each entry is one value, or one per coordinate.

    **Arguments:**

    - `role`: `"free"` (its effort is zero, apart from spring and damper), `"forced"` (its effort is given), `"driven"` (its
      motion is given), or `"led"` (its motion follows from constraints while an actuator holds it, whose effort is found).
    - `stiffness` [N m/rad or N/m], `damping` [N m s/rad or N s/m], `rest` [rad or m]: a passive spring and damper.
    - `armature` [kg m^2 or kg]: inertia of a rotor or gear, conjugate to the coordinate; it moves with the coordinate alone.
    - `limits`: (lower, upper) [rad or m]; a run that exceeds them only gives a warning.
    - `motion`: the motion law of a driven joint; `effort`: the effort law or controller of a forced one.
    - `mimic`: makes a single-coordinate joint follow one or several others; it then has no coordinate of its own.
    - `name`: the joint's name; by default the name of the body that it carries.
    """

    name: str | None = None
    role: str | Sequence[str] = "free"
    stiffness: Any = 0.0
    damping: Any = 0.0
    rest: Any = 0.0
    armature: Any = 0.0
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
    """The direction of a 3-vector; raises a `ModelError` if it is zero or not finite."""
    v = as_vector(value, 3, what)
    if is_traced(v):
        return v / (v @ v) ** 0.5
    norm = np.linalg.norm(v)
    if norm < 1e-12:
        raise ModelError(f"{what} = {np.asarray(v).tolist()} is zero; it must be a direction.")
    return v / norm
