"""The joint with six degrees of freedom."""

from dataclasses import dataclass

import jax.numpy as jnp

from undula.core.arrays import namespace
from undula.joints.joint import Joint
from undula.joints.kind import Chart, Kind, Relative
from undula.lie import se3, so3
from undula.numerics.small import matvec, tmatvec


def _relative(axis, second, q):
    return Relative(so3.to_matrix(q[3:]), q[:3], jnp.eye(6))


def _advance(q, u):
    g = se3.Pose(q[:3], q[3:]) @ se3.exp(u)
    return jnp.concatenate([g.position, so3.normalise(g.quaternion)])


def _rate(q):
    o = jnp.zeros((3, 3))
    return jnp.block([[so3.to_matrix(q[3:]), o], [o, so3.dexp_inverse(so3.log(q[3:]))]])


def _velocity(x, dx):
    R = so3.to_matrix(so3.exp(x[3:]))
    return jnp.concatenate([tmatvec(R, dx[:3]), matvec(so3.dexp(x[3:]), dx[3:])])


# Also used for driven bases: position and rotation vector
CHART = Chart(
    advance=_advance,
    to_x=lambda q: jnp.concatenate([q[:3], so3.log(q[3:])]),
    from_x=lambda x: namespace(x).concatenate([x[:3], so3.exp(x[3:])]),
    rate=_rate,
    velocity=_velocity,
    bracket=se3.bracket,
)
FREE = Kind(
    "free",
    ("x", "y", "z", "rx", "ry", "rz"),
    ("m", "m", "m", "rad", "rad", "rad"),
    _relative,
    neutral=(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
    chart=CHART,
)


@dataclass(frozen=True, kw_only=True)
class Free(Joint):
    """Six degrees of freedom: position and quaternion; its rates are the body twist."""

    @property
    def kind(self) -> Kind:
        return FREE
