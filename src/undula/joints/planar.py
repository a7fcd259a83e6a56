"""The planar joint."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from undula.joints.joint import Joint
from undula.joints.kind import Kind, Relative, columns
from undula.lie import so3
from undula.numerics.small import cross, tmatvec

Z = np.array([0.0, 0.0, 1.0])


def _relative(axis, second, q):
    R, o, z = so3.about_axis(jnp.asarray(Z), q[2]), jnp.zeros(3), jnp.asarray(Z)
    return Relative(R, jnp.concatenate([q[:2], jnp.zeros(1)]), columns((R[0], o), (R[1], o), (o, z)))


def _bias(axis, second, q, v):
    rate = tmatvec(so3.about_axis(jnp.asarray(Z), q[2]), jnp.concatenate([v[:2], jnp.zeros(1)]))
    return jnp.concatenate([-v[2] * cross(jnp.asarray(Z), rate), jnp.zeros(3)])


PLANAR = Kind("planar", ("x", "y", "angle"), ("m", "m", "rad"), _relative, _bias)


@dataclass(frozen=True, kw_only=True)
class Planar(Joint):
    """Motion in the x-y plane of the joint frame: x, y, and the angle about z."""

    @property
    def kind(self) -> Kind:
        return PLANAR
