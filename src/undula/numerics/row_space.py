"""Rank and inverse of the rows of a constraint system, by row-pivoted orthogonalisation.

It works on the rows themselves rather than on their products, which would lose half of the digits near a singular
configuration, and it still works when the rank drops, where an inverse would divide by zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from undula.core.arrays import Array
from undula.numerics.dense import eliminate
from undula.numerics.loops import unrolled
from undula.numerics.small import matmul, matvec, outer, tmatvec

TOLERANCE = 1e-8  # a row counts as independent if this fraction of its length is linearly independent of the others


class RowSpace(NamedTuple):
    """Q = W A has orthonormal rows that span those of A (k x n); rows beyond the rank are zero.

    - `left`: (k, k), its rows span the left kernel of A: left A = 0; the other rows are zero.
    - `active`: (r,) 1 for the rows of Q up to the rank, 0 beyond.
    """

    Q: Float[Array, "r n"]
    W: Float[Array, "r k"]
    left: Float[Array, "k k"]
    active: Float[Array, "r"]

    @property
    def rank(self) -> Int[Array, ""]:
        return self.active.sum().astype(int)

    def solve(self, b: Float[Array, "k"]) -> Float[Array, "n"]:
        """The minimum-norm x with A x = b if b is compatible, else the one that satisfies the pivot rows."""
        return tmatvec(self.Q, matvec(self.W, b))

    def without(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """x less its component in the row space: its projection on the kernel of A."""
        return x - tmatvec(self.Q, matvec(self.Q, x))

    def multipliers(
        self, force: Float[Array, "n"], weights: Float[Array, "k"], wanted: Float[Array, "k"]
    ) -> Float[Array, "k"]:
        """The lambda with A^T lambda = force (in the row space) and minimal sum of weights (lambda - wanted)^2."""
        found = tmatvec(self.W, matvec(self.Q, force))
        if self.left.shape[0] == 0:
            return found

        def nearest():
            # found + left^T z; unused rows of `left` are zero and get a 1 on the diagonal
            unused = jnp.where((self.left**2).sum(1) > 0, 0.0, 1.0)
            scaled = self.left * weights
            gram = matmul(scaled, self.left.T) + jnp.diag(unused)
            z = eliminate(gram, matvec(scaled, wanted - found)[:, None])[:, 0]
            return found + tmatvec(self.left, z)

        return jax.lax.cond(self.rank < self.left.shape[0], nearest, lambda: found)


def decompose(A: Float[Array, "k n"], tolerance: float = TOLERANCE, least_squares: bool = False) -> RowSpace:
    """Row space of A, with the rank relative to the lengths of its rows.

    With `least_squares`, W also handles incompatible right-hand sides: `solve` then minimises the sum of squares.
    """
    k, n = A.shape
    r = min(k, n)
    if r == 0:
        return RowSpace(jnp.zeros((0, n)), jnp.zeros((0, k)), jnp.eye(k), jnp.zeros(0))
    square = (A**2).sum(1)
    scale = jax.lax.rsqrt(jnp.where(square > 1e-28, square, 1.0))  # derivatives at rows of zeros are finite
    index = jnp.arange(k)

    def iterate(carry, _):
        T, U, Q, W, fresh, spent, j = carry
        norms = (T * T).sum(1) * fresh
        chosen = (index == jnp.argmax(norms)).astype(A.dtype)
        row, how = tmatvec(T, chosen), tmatvec(U, chosen)
        # orthogonalised once more, so that rounding errors are not amplified
        c = matvec(Q, row)
        row, how = row - tmatvec(Q, c), how - tmatvec(W, c)
        square = (row * row).sum()
        counts = (square > tolerance**2).astype(A.dtype)
        inverse = counts * jax.lax.rsqrt(jnp.where(counts > 0, square, 1.0))
        q, w = row * inverse, how * inverse
        c = matvec(T, q)
        T, U = T - outer(c, q), U - outer(c, w)
        at = (jnp.arange(r) == j).astype(A.dtype)
        found = Q + outer(at, q), W + outer(at, w)
        return (T, U, *found, fresh * (1 - chosen), spent + chosen * counts, j + 1), counts

    start = A * scale[:, None], jnp.diag(scale), jnp.zeros((r, n)), jnp.zeros((r, k)), jnp.ones(k), jnp.zeros(k), 0
    (_, left, Q, W, _, spent, _), active = jax.lax.scan(iterate, start, None, length=r, unroll=unrolled(r))
    left = left * (1 - spent)[:, None]  # pivot rows do not belong to the left kernel
    if least_squares:
        L = matmul(A, Q.T)
        W = eliminate(matmul(L.T, L) + jnp.diag(1 - active), L.T)
    return RowSpace(Q, W, left, active)
