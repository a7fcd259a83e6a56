"""The cylindrical joint."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from undula.joints.joint import Joint, Vector, unit_vector
from undula.joints.kind import Kind, Relative, columns
from undula.lie import so3


def _relative(axis, second, q):
    o = jnp.zeros(3)
    return Relative(so3.about_axis(axis, q[0]), axis * q[1], columns((o, axis), (axis, o)))


CYLINDRICAL = Kind("cylindrical", ("angle", "slide"), ("rad", "m"), _relative)


@dataclass(frozen=True)
class Cylindrical(Joint):
    """Rotation about `axis` (coordinate `angle`) and translation along it (`slide`), independent."""

    axis: Vector = (0.0, 0.0, 1.0)

    @property
    def kind(self) -> Kind:
        return CYLINDRICAL

    def vectors(self, owner):
        return unit_vector(self.axis, f"axis of {owner}"), np.zeros(3)
