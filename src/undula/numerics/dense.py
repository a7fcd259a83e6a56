"""Linear systems of any size inside hot loops.

Small systems are eliminated here: a LAPACK call costs 1.5 us and prevents XLA from compiling a loop as a whole. For a
single system of more than about 16 unknowns LAPACK is faster; inside the time-stepping loop of a robot, however, the
overhead around the call costs more than the call itself, several times more if other work keeps the cores busy.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics import kernels
from undula.numerics.loops import unrolled
from undula.numerics.small import matvec

LARGE = 16
ROWS, LANES = 9, 8  # rows per block in `factor`, and the multiple that its width is padded to
LARGE_FACTOR = 256  # beyond this, LAPACK is faster even inside a loop; programs grow with the number of blocks
LARGE_ON_GPU = 40  # there, LAPACK's counterpart handles what does not fit into one kernel
LARGE_INVERSE = 48  # up to this, the surrounding loop matters more than the inverse itself


def eliminate(A: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """A^-1 B by Gauss-Jordan elimination with pivoting, one row per iteration; do not differentiate it, use `solve`."""
    n = A.shape[0]
    index = jnp.arange(n)

    def iterate(k, T):
        size = jnp.where(index >= k, jnp.abs(T[:, 0]), -1.0)
        is_pivot, is_k = index == jnp.argmax(size), index == k
        first = (T * is_pivot[:, None]).sum(0)  # sums of masked rows: gathers would cost more
        other = (T * is_k[:, None]).sum(0)
        T = jnp.where(is_pivot[:, None], other, T)
        first = first / first[0]
        T = jnp.where(is_k[:, None], first, T - T[:, :1] * first)
        return jnp.concatenate([T[:, 1:], T[:, :1]], axis=1)  # the finished column moves to the end

    start = jnp.concatenate([A, B], axis=1)
    return jax.lax.fori_loop(0, n, iterate, start, unroll=unrolled(n))[:, : B.shape[1]]


def inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A^-1, for repeated use; do not differentiate it."""
    n = A.shape[0]
    return eliminate(A, jnp.eye(n)) if n <= LARGE_INVERSE else jnp.linalg.inv(A)


def solve(A: Float[Array, "n n"], b: Float[Array, "n"], symmetric: bool = False) -> Float[Array, "n"]:
    """A^-1 b, differentiable to any order."""
    if b.shape[0] > LARGE:
        return jnp.linalg.solve(A, b)
    return jax.lax.custom_linear_solve(
        lambda x: matvec(A, x),
        b,
        lambda _, b: eliminate(A, b[:, None])[:, 0],
        lambda _, b: eliminate(A.T, b[:, None])[:, 0],
        symmetric=symmetric,
    )


def _large(n: int) -> bool:
    """Whether the factorisation and the substitutions are left to LAPACK."""
    return n > (LARGE_ON_GPU if jax.default_backend() == "gpu" else LARGE_FACTOR)


def factor(H: Float[Array, "n n"], B: Float[Array, "n m"]) -> tuple[Float[Array, "n n"], Float[Array, "n m"]]:
    """(U, U^-T B) with H = U^T U, U upper triangular, for a symmetric positive definite H: row-wise Cholesky.

    Rows are processed in blocks: the contribution of the blocks above is one matrix product. Large matrices are left to
    LAPACK; on a GPU, all rows are done in one kernel if they fit. Entries of U below the diagonal are zero to rounding.
    """
    if _large(H.shape[0]):
        L = jnp.linalg.cholesky(H)
        return L.T, solve_triangular(L, B, lower=True)
    if kernels.available() and kernels.factors(H, B):
        return _factor_on_gpu(H, B)
    return _factor_by_rows(H, B)


def _factor_by_rows(H: Array, B: Array) -> tuple[Array, Array]:
    n, m = B.shape
    width = -(-(n + m) // LANES) * LANES  # no remainders in vector loops
    whole = jnp.concatenate([H, B, jnp.zeros((n, width - n - m))], axis=1)
    done = whole[:0]
    for first in range(0, n, ROWS):
        rows = min(ROWS, n - first)
        rest = whole[first : first + rows] - jnp.dot(done[:, first : first + rows].T, done)  # less the blocks above

        def iterate(k, own, first=first, rows=rows, rest=rest):  # rows of the block that are not yet computed are zero
            above = jax.lax.dynamic_slice(own, (0, first + k), (rows, 1))
            row = jax.lax.dynamic_slice(rest, (k, 0), (1, width))[0] - (above * own).sum(0)
            pivot = jax.lax.dynamic_slice(row, (first + k,), (1,))
            return jax.lax.dynamic_update_slice(own, (row * jax.lax.rsqrt(pivot))[None], (k, 0))

        own = jax.lax.fori_loop(0, rows, iterate, jnp.zeros((rows, width)), unroll=unrolled(rows))
        done = jnp.concatenate([done, own])
    return done[:, :n], done[:, n : n + m]


def forward_substituted(U: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """U^-T B, for an upper triangular U."""
    n = U.shape[0]
    if _large(n):
        return solve_triangular(U, B, trans=1)

    def iterate(k, X):
        return X.at[k].set((B[k] - (U[:, k][:, None] * X).sum(0)) / U[k, k])

    return jax.lax.fori_loop(0, n, iterate, jnp.zeros_like(B), unroll=unrolled(n))


def back_substituted(U: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """U^-1 B, for an upper triangular U."""
    if _large(U.shape[0]):
        return solve_triangular(U, B)
    if kernels.available() and kernels.substitutes(U, B):
        return _substitute_on_gpu(U, B)
    return _substitute_by_rows(U, B)


def _substitute_by_rows(U: Array, B: Array) -> Array:
    n = U.shape[0]

    def iterate(i, X):
        k = n - 1 - i
        return X.at[k].set((B[k] - (U[k][:, None] * X).sum(0)) / U[k, k])

    return jax.lax.fori_loop(0, n, iterate, jnp.zeros_like(B), unroll=unrolled(n))


def _on_gpu(kernel: Callable, plain: Callable) -> Callable:
    """The kernel on CUDA devices, the plain function on others; derivatives are those of the plain function."""

    @jax.custom_jvp
    def computed(*args):
        return jax.lax.platform_dependent(*args, cuda=kernel, default=plain)

    computed.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return computed


_factor_on_gpu = _on_gpu(kernels.factor, _factor_by_rows)
_substitute_on_gpu = _on_gpu(kernels.back_substituted, _substitute_by_rows)
