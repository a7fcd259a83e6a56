"""Joints with one screw: revolute, prismatic and helical."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.errors import as_vector
from undula.joints.joint import Joint, Vector, unit_vector
from undula.joints.kind import Kind, Relative, columns
from undula.lie import so3
from undula.numerics.small import hat, matmul, matvec


def _relative(axis, second, q):
    # revolute: (axis, 0); prismatic: (0, axis); helical: (axis, pitch * axis): one screw, constant in the child
    return Relative(so3.about_axis(axis, q[0]), second * q[0], columns((second, axis)))


def _constants(R0, axis, second):
    """R0 (axis^, axis^ axis^) and R0 second, so that the pose needs no matrix product."""
    K = hat(axis)
    RK = matmul(R0, K)
    return RK, matmul(RK, K), matvec(R0, second)


def _placed(R0, p0, axis, second, constants, q):
    """All joints of the kind at once, because it is by far the most frequent one."""
    once, twice, slide = constants
    s, c = jnp.sin(q)[..., None], jnp.cos(q)[..., None]
    R = R0 + s * once + (1 - c) * twice
    return Relative(R, p0 + slide * q, jnp.concatenate([second, axis], axis=1)[..., None])


SCREW = Kind("screw", ("",), ("rad or m",), _relative, constants=_constants, placed=_placed)


@dataclass(frozen=True)
class Revolute(Joint):
    """Rotation about `axis` (in the joint frame)."""

    axis: Vector = (0.0, 0.0, 1.0)

    @property
    def kind(self) -> Kind:
        return SCREW

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
        return SCREW

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
        return SCREW

    @property
    def units(self) -> tuple[str, ...]:
        return ("rad",)

    def vectors(self, owner):
        axis = unit_vector(self.axis, f"axis of {owner}")
        return axis, as_vector(self.pitch, 0, f"pitch of {owner}") * axis
