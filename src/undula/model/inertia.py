"""Inertias of links: those of rigid bodies, or any symmetric 6x6 matrix in blocks. The methods act on one link.

Vectors are (linear, angular); momentum is (p, h) about the frame's origin.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.lie import se3
from undula.numerics.small import cross, hat, matmul, matvec, tmatvec


class Rigid(NamedTuple):
    """Mass [kg], first moments [kg m] and inertia [kg m^2] about the origin of a frame."""

    mass: Float[Array, "*links"]
    moment: Float[Array, "*links 3"]
    inertia: Float[Array, "*links 3 3"]

    def momentum(self, V: Array, W: Array) -> tuple[Array, Array]:
        """M (V, W)."""
        return self.mass * V + cross(W, self.moment), matvec(self.inertia, W) + cross(self.moment, V)

    def turned(self, R: Array) -> "Rigid":
        """The same inertia about the same origin, in outer axes."""
        return Rigid(self.mass, matvec(R, self.moment), matmul(matmul(R, self.inertia), R.T))

    def carried(self, R: Array, p: Array) -> "Rigid":
        """The same inertia about an outer origin and in outer axes, where the frame has the pose (R, p)."""
        turned, K = matvec(R, self.moment), hat(p)
        T = matmul(K, hat(turned))
        inertia = matmul(matmul(R, self.inertia), R.T) - self.mass * matmul(K, K) - T - T.T
        return Rigid(self.mass, self.mass * p + turned, inertia)

    def blocks(self) -> "Blocks":
        return Blocks(self.mass * jnp.eye(3), -hat(self.moment), self.inertia)

    def matrix(self) -> Float[Array, "6 6"]:
        return se3.spatial_inertia(self.mass, self.moment, self.inertia)


class Blocks(NamedTuple):
    """A symmetric matrix [[A, B], [B^T, C]]: the inertia of a body and all that moves with it, weightless or not."""

    A: Float[Array, "*links 3 3"]
    B: Float[Array, "*links 3 3"]
    C: Float[Array, "*links 3 3"]

    def momentum(self, V: Array, W: Array) -> tuple[Array, Array]:
        """M (V, W)."""
        return matvec(self.A, V) + matvec(self.B, W), tmatvec(self.B, V) + matvec(self.C, W)

    def turned(self, R: Array) -> "Blocks":
        """The same inertia about the same origin, in outer axes."""
        return Blocks(*(matmul(matmul(R, x), R.T) for x in self))

    def carried(self, R: Array, p: Array) -> "Blocks":
        """The same inertia about an outer origin and in outer axes, where the frame has the pose (R, p)."""
        A, B, C = self.turned(R)
        K = hat(p)
        T = matmul(K, B)
        return Blocks(A, B - matmul(A, K), C + T + T.T - matmul(matmul(K, A), K))

    def blocks(self) -> "Blocks":
        return self

    def matrix(self) -> Float[Array, "6 6"]:
        return jnp.block([[self.A, self.B], [self.B.T, self.C]])

    @staticmethod
    def of(matrix: Float[Array, "6 6"]) -> "Blocks":
        """The blocks of a matrix, its symmetric part."""
        M = (matrix + matrix.T) / 2
        return Blocks(M[:3, :3], M[:3, 3:], M[3:, 3:])
