"""Products of 3-vectors and 3x3 matrices as sums of products.

XLA turns `jnp.dot` into a library call that costs more than these products and prevents a loop from being compiled
as a whole, so the recursions use the functions of this file. All take single vectors; use `jax.vmap` for batches.
"""

import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics.tracing import traced_once

Vec3 = Float[Array, "3"]
Mat3 = Float[Array, "3 3"]


@traced_once
def cross(a: Vec3, b: Vec3) -> Vec3:
    """Cross product a x b."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@traced_once
def hat(a: Vec3) -> Mat3:
    """The skew-symmetric matrix of a: hat(a) b = a x b."""
    o = jnp.zeros_like(a[0])
    return jnp.stack([jnp.stack([o, -a[2], a[1]]), jnp.stack([a[2], o, -a[0]]), jnp.stack([-a[1], a[0], o])])


@traced_once
def matvec(A: Float[Array, "m n"], u: Float[Array, "n"]) -> Float[Array, "m"]:
    """A u."""
    return (A * u[None]).sum(1)


@traced_once
def tmatvec(A: Float[Array, "m n"], u: Float[Array, "m"]) -> Float[Array, "n"]:
    """A^T u."""
    return (A * u[:, None]).sum(0)


@traced_once
def matmul(A: Float[Array, "m n"], B: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """A B."""
    return (A[:, :, None] * B[None]).sum(1)


@traced_once
def outer(a: Float[Array, "m"], b: Float[Array, "n"]) -> Float[Array, "m n"]:
    """a b^T."""
    return a[:, None] * b[None]


@traced_once
def inverse3(A: Mat3) -> Mat3:
    """Inverse of a 3x3 matrix by cross products of its rows."""
    c0, c1, c2 = cross(A[1], A[2]), cross(A[2], A[0]), cross(A[0], A[1])
    return jnp.stack([c0, c1, c2], axis=1) / (A[0] * c0).sum()


@traced_once
def solve_spd(D: Float[Array, "k k"], B: Float[Array, "k *c"]) -> Float[Array, "k *c"]:
    """D^-1 B for a symmetric positive definite D of size 1, 2, 3 or 6, in closed form (no pivots, no loops)."""
    k = D.shape[0]
    if B.ndim == 1:
        return solve_spd(D, B[:, None])[:, 0]
    if k == 1:
        return B / D[0, 0]
    if k == 2:
        adjugate = jnp.stack([jnp.stack([D[1, 1], -D[0, 1]]), jnp.stack([-D[1, 0], D[0, 0]])])
        return matmul(adjugate, B) / (D[0, 0] * D[1, 1] - D[0, 1] * D[1, 0])
    if k == 3:
        return matmul(inverse3(D), B)
    P, Q, S = D[:3, :3], D[:3, 3:], D[3:, 3:]  # 6: eliminate the first half, solve the second
    Pi = inverse3(P)
    PiQ = matmul(Pi, Q)
    low = matmul(inverse3(S - matmul(Q.T, PiQ)), B[3:] - matmul(PiQ.T, B[:3]))
    return jnp.concatenate([matmul(Pi, B[:3]) - matmul(PiQ, low), low])
