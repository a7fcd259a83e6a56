"""Poses, twists and wrenches. Twist eta = (V, Omega), wrench F = (force, couple): linear first, body frame."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.lie import so3
from undula.lie.small import Mat3, Vec3, cross, hat, matmul, matvec, tmatvec

Vec6 = Float[Array, "6"]
Mat6 = Float[Array, "6 6"]


class Pose(eqx.Module):
    """A frame's pose: `position` [m] of its origin and `quaternion` (w, x, y, z) in the outer frame."""

    position: Float[Array, "*batch 3"]
    quaternion: Float[Array, "*batch 4"]

    @staticmethod
    def identity() -> "Pose":
        return Pose(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0]))

    @property
    def rotation(self) -> Mat3:
        """Rotation matrix."""
        return so3.to_matrix(self.quaternion)

    def __matmul__(self, other: "Pose") -> "Pose":
        """Composition: the pose, in self's outer frame, of a frame whose pose in self is `other`."""
        return Pose(
            self.position + matvec(self.rotation, other.position),
            so3.multiply(self.quaternion, other.quaternion),
        )

    def inverse(self) -> "Pose":
        """Pose of the outer frame in this one."""
        conjugate = self.quaternion * jnp.array([1.0, -1.0, -1.0, -1.0])
        return Pose(-tmatvec(self.rotation, self.position), conjugate)

    def apply(self, point: Vec3) -> Vec3:
        """Outer coordinates of a point given in this frame."""
        return self.position + matvec(self.rotation, point)


def exp(xi: Vec6) -> Pose:
    """Exponential of a twist: the pose reached in unit time at the constant body twist xi."""
    v, phi = xi[:3], xi[3:]
    x, w = (phi * phi).sum(), cross(phi, v)
    return Pose(v + so3.cosc(x) * w + so3.sincc(x) * cross(phi, w), so3.exp(phi))


def log(g: Pose) -> Vec6:
    """Twist whose exponential is g, of angle at most pi."""
    phi = so3.log(g.quaternion)
    p = g.position
    w = cross(phi, p)
    return jnp.concatenate([p - w / 2 + so3.cotc((phi * phi).sum()) * cross(phi, w), phi])


def adjoint(g: Pose) -> Mat6:
    """Ad_g = [[R, p^ R], [0, R]]: outer components of a twist given in the frame g."""
    R = g.rotation
    return jnp.block([[R, matmul(hat(g.position), R)], [jnp.zeros((3, 3)), R]])


def ad(eta: Vec6) -> Mat6:
    """ad_eta = [[Omega^, V^], [0, Omega^]] (document 000, B.8)."""
    W = hat(eta[3:])
    return jnp.block([[W, hat(eta[:3])], [jnp.zeros((3, 3)), W]])


@jax.jit
def bracket(a: Vec6, b: Vec6) -> Vec6:
    """ad_a b."""
    return jnp.concatenate([cross(a[3:], b[:3]) + cross(a[:3], b[3:]), cross(a[3:], b[3:])])


@jax.jit
def cobracket(eta: Vec6, F: Vec6) -> Vec6:
    """ad_eta^T F."""
    return jnp.concatenate([cross(F[:3], eta[3:]), cross(F[:3], eta[:3]) + cross(F[3:], eta[3:])])


@jax.jit
def pull_back(R: Mat3, p: Vec3, eta: Vec6) -> Vec6:
    """Ad(g^-1) eta for g = (R, p): components, in the frame g, of a twist of the outer frame (3.8)."""
    return jnp.concatenate([tmatvec(R, eta[:3] + cross(eta[3:], p)), tmatvec(R, eta[3:])])


@jax.jit
def push_wrench(R: Mat3, p: Vec3, F: Vec6) -> Vec6:
    """Ad(g^-1)^T F for g = (R, p): outer components, about the outer origin, of a wrench of the frame g (3.11)."""
    f = matvec(R, F[:3])
    return jnp.concatenate([f, matvec(R, F[3:]) + cross(p, f)])


def spatial_inertia(mass: Float[Array, ""], moment: Vec3, inertia: Mat3) -> Mat6:
    """6x6 inertia of a body from its mass [kg], first moments [kg m] and inertia about the origin [kg m^2] (3.5)."""
    S = hat(moment)
    return jnp.block([[mass * jnp.eye(3), -S], [S, inertia]])


@jax.jit
def momentum(mass: Float[Array, ""], moment: Vec3, inertia: Mat3, eta: Vec6) -> Vec6:
    """M eta without forming the 6x6 matrix."""
    V, W = eta[:3], eta[3:]
    return jnp.concatenate([mass * V + cross(W, moment), matvec(inertia, W) + cross(moment, V)])
