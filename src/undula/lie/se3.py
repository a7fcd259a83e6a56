"""Poses, twists and wrenches. Twist eta = (V, Omega), wrench F = (force, couple): linear first, body frame."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.lie import so3
from undula.numerics.small import Mat3, Vec3, cross, hat, matmul, matvec, tmatvec
from undula.numerics.tracing import traced_once

Vec6 = Float[Array, "6"]
Mat6 = Float[Array, "6 6"]


class Pose(eqx.Module):
    """A frame's pose: `position` [m] of its origin and `quaternion` (w, x, y, z) in the outer frame.

    Leading axes are batch axes: over bodies, instants, or both. All methods broadcast over them.
    """

    position: Float[Array, "*batch 3"]
    quaternion: Float[Array, "*batch 4"]

    @staticmethod
    def identity() -> "Pose":
        return Pose(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0]))

    @property
    def rotation(self) -> Float[Array, "*batch 3 3"]:
        """Rotation matrix R: its columns are the frame's axes in the outer frame."""
        return _each("(4)->(3,3)", so3.to_matrix, self.quaternion)

    def __matmul__(self, other: "Pose") -> "Pose":
        """Composition: the pose, in self's outer frame, of a frame whose pose in self is `other`."""

        def compose(p, q, position, quaternion):
            return p + matvec(so3.to_matrix(q), position), so3.multiply(q, quaternion)

        parts = self.position, self.quaternion, other.position, other.quaternion
        return Pose(*_each("(3),(4),(3),(4)->(3),(4)", compose, *parts))

    def inverse(self) -> "Pose":
        """Pose of the outer frame in this one."""

        def invert(p, q):
            return -tmatvec(so3.to_matrix(q), p), q * jnp.array([1.0, -1.0, -1.0, -1.0])

        return Pose(*_each("(3),(4)->(3),(4)", invert, self.position, self.quaternion))

    def apply(self, point: Float[Array, "*points 3"]) -> Float[Array, "*all 3"]:
        """Outer coordinates of a point, or of a batch of points, given in this frame."""

        def place(p, q, x):
            return p + matvec(so3.to_matrix(q), x)

        return _each("(3),(4),(3)->(3)", place, self.position, self.quaternion, point)


def _each(signature: str, function: Callable[..., Any], *arrays: Any) -> Any:
    """Applies a function of single poses to arrays that may have leading axes; without any, just calls the function."""
    if all(jnp.ndim(x) == 1 for x in arrays):
        return function(*arrays)
    return jnp.vectorize(function, signature=signature)(*arrays)


def exp(xi: Vec6) -> Pose:
    """Exponential of a twist: the pose reached in unit time at the constant body twist xi."""
    v, phi = xi[:3], xi[3:]
    x, w = (phi * phi).sum(), cross(phi, v)
    return Pose(v + so3.cosc(x) * w + so3.sincc(x) * cross(phi, w), so3.exp(phi))


def log(g: Pose) -> Float[Array, "*batch 6"]:
    """Twist whose exponential is g, with an angle of at most pi."""

    def one(p, q):
        phi = so3.log(q)
        w = cross(phi, p)
        return jnp.concatenate([p - w / 2 + so3.cotc((phi * phi).sum()) * cross(phi, w), phi])

    return _each("(3),(4)->(6)", one, g.position, g.quaternion)


def adjoint(g: Pose) -> Float[Array, "*batch 6 6"]:
    """Ad_g = [[R, p^ R], [0, R]]: outer components of a twist given in the frame g."""

    def one(p, q):
        R = so3.to_matrix(q)
        return jnp.block([[R, matmul(hat(p), R)], [jnp.zeros((3, 3)), R]])

    return _each("(3),(4)->(6,6)", one, g.position, g.quaternion)


def ad(eta: Vec6) -> Mat6:
    """ad_eta = [[Omega^, V^], [0, Omega^]] (document 000, B.8)."""
    W = hat(eta[3:])
    return jnp.block([[W, hat(eta[:3])], [jnp.zeros((3, 3)), W]])


@traced_once
def bracket(a: Vec6, b: Vec6) -> Vec6:
    """ad_a b."""
    return jnp.concatenate([cross(a[3:], b[:3]) + cross(a[:3], b[3:]), cross(a[3:], b[3:])])


@traced_once
def cobracket(eta: Vec6, F: Vec6) -> Vec6:
    """ad_eta^T F."""
    return jnp.concatenate([cross(F[:3], eta[3:]), cross(F[:3], eta[:3]) + cross(F[3:], eta[3:])])


@traced_once
def pull_back(R: Mat3, p: Vec3, eta: Vec6) -> Vec6:
    """Ad(g^-1) eta for g = (R, p): components, in the frame g, of a twist of the outer frame (3.8)."""
    return jnp.concatenate([tmatvec(R, eta[:3] + cross(eta[3:], p)), tmatvec(R, eta[3:])])


@traced_once
def push_wrench(R: Mat3, p: Vec3, F: Vec6) -> Vec6:
    """Ad(g^-1)^T F for g = (R, p): outer components, about the outer origin, of a wrench of the frame g (3.11)."""
    f = matvec(R, F[:3])
    return jnp.concatenate([f, matvec(R, F[3:]) + cross(p, f)])


def spatial_inertia(mass: Float[Array, ""], moment: Vec3, inertia: Mat3) -> Mat6:
    """6x6 inertia of a body from its mass [kg], first moments [kg m] and inertia about the origin [kg m^2] (3.5)."""
    S = hat(moment)
    return jnp.block([[mass * jnp.eye(3), -S], [S, inertia]])


@traced_once
def momentum(mass: Float[Array, ""], moment: Vec3, inertia: Mat3, eta: Vec6) -> Vec6:
    """M eta without forming the 6x6 matrix."""
    V, W = eta[:3], eta[3:]
    return jnp.concatenate([mass * V + cross(W, moment), matvec(inertia, W) + cross(moment, V)])
