"""The spherical joint."""

from dataclasses import dataclass

import jax.numpy as jnp

from undula.joints.joint import Joint
from undula.joints.kind import Chart, Kind, Relative
from undula.lie import so3
from undula.numerics.small import cross, matvec


def _relative(axis, second, q):
    return Relative(so3.to_matrix(q), jnp.zeros(3), jnp.concatenate([jnp.zeros((3, 3)), jnp.eye(3)]))


CHART = Chart(
    advance=lambda q, u: so3.normalise(so3.multiply(q, so3.exp(u))),
    to_x=so3.log,
    from_x=so3.exp,
    rate=lambda q: so3.dexp_inverse(so3.log(q)),
    velocity=lambda x, dx: matvec(so3.dexp(x), dx),
    bracket=cross,
)
SPHERICAL = Kind(
    "spherical", ("rx", "ry", "rz"), ("rad", "rad", "rad"), _relative, neutral=(1.0, 0.0, 0.0, 0.0), chart=CHART
)


@dataclass(frozen=True, kw_only=True)
class Spherical(Joint):
    """Ball joint. Its configuration is a quaternion, its rates the body angular velocity; there is no singularity."""

    @property
    def kind(self) -> Kind:
        return SPHERICAL
