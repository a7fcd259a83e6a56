"""The universal (cardan) joint."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, is_traced
from undula.joints.joint import Joint, Vector, unit_vector
from undula.joints.kind import Kind, Relative, columns
from undula.lie import so3
from undula.numerics.small import cross, matmul, tmatvec


def _relative(axis, second, q):
    Rb = so3.about_axis(second, q[1])
    o = jnp.zeros(3)
    return Relative(matmul(so3.about_axis(axis, q[0]), Rb), o, columns((o, tmatvec(Rb, axis)), (o, second)))


def _bias(axis, second, q, v):
    first = tmatvec(so3.about_axis(second, q[1]), axis)
    return jnp.concatenate([jnp.zeros(3), cross(first, second) * (v[0] * v[1])])


UNIVERSAL = Kind("universal", ("first", "second"), ("rad", "rad"), _relative, _bias, second_is_axis=True)


@dataclass(frozen=True)
class Universal(Joint):
    """Cardan joint: rotation about `axis` (fixed in the parent), then about `second` (fixed in the child)."""

    axis: Vector = (1.0, 0.0, 0.0)
    second: Vector = (0.0, 1.0, 0.0)

    @property
    def kind(self) -> Kind:
        return UNIVERSAL

    def vectors(self, owner):
        a = unit_vector(self.axis, f"axis of {owner}")
        b = unit_vector(self.second, f"second axis of {owner}")
        if not (is_traced(a) or is_traced(b)) and np.linalg.norm(np.cross(a, b)) < 1e-9:
            raise ModelError(f"the two axes of {owner} are parallel; a universal joint needs two directions.")
        return a, b
