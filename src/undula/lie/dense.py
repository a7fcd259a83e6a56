"""Linear systems of any size inside hot loops.

Small ones are eliminated here: a call to LAPACK costs 1.5 us and stops XLA from compiling a loop whole. From about 16
unknowns on LAPACK is quicker.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from undula.lie import kernels
from undula.lie.loops import unrolled
from undula.lie.small import matvec

LARGE = 16
ROWS, LANES = 9, 8  # rows of a block in `factor`, and what its width is a multiple of
LARGE_FACTOR = 40  # where LAPACK factors and substitutes quicker
LARGE_INVERSE = 48  # where the loop around it matters more than the inverse itself


def eliminate(A: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """A^-1 B by Gauss-Jordan elimination with pivots, one row a turn; not to be differentiated: see `solve`."""
    n = A.shape[0]
    index = jnp.arange(n)

    def turn(k, T):
        size = jnp.where(index >= k, jnp.abs(T[:, 0]), -1.0)
        is_pivot, is_k = index == jnp.argmax(size), index == k
        first = (T * is_pivot[:, None]).sum(0)  # sums of masked rows: gathers would cost more
        other = (T * is_k[:, None]).sum(0)
        T = jnp.where(is_pivot[:, None], other, T)
        first = first / first[0]
        T = jnp.where(is_k[:, None], first, T - T[:, :1] * first)
        return jnp.concatenate([T[:, 1:], T[:, :1]], axis=1)  # the finished column leaves

    start = jnp.concatenate([A, B], axis=1)
    return jax.lax.fori_loop(0, n, turn, start, unroll=unrolled(n))[:, : B.shape[1]]


def inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A^-1, to be used many times; not to be differentiated."""
    n = A.shape[0]
    return eliminate(A, jnp.eye(n)) if n <= LARGE_INVERSE else jnp.linalg.inv(A)


def solve(A: Float[Array, "n n"], b: Float[Array, "n"], symmetric: bool = False) -> Float[Array, "n"]:
    """A^-1 b, with derivatives of every order."""
    if b.shape[0] > LARGE:
        return jnp.linalg.solve(A, b)
    return jax.lax.custom_linear_solve(
        lambda x: matvec(A, x),
        b,
        lambda _, b: eliminate(A, b[:, None])[:, 0],
        lambda _, b: eliminate(A.T, b[:, None])[:, 0],
        symmetric=symmetric,
    )


def factor(H: Float[Array, "n n"], B: Float[Array, "n m"]) -> tuple[Float[Array, "n n"], Float[Array, "n m"]]:
    """(U, U^-T B) with H = U^T U, U upper triangular, for a symmetric positive definite H: Cholesky, one row a turn.

    The rows are done in a few blocks, because the first ones need not look at all that is still zero. Large ones by LAPACK;
    on a GPU all rows in one kernel. Entries of U below the diagonal are zero to rounding.
    """
    if H.shape[0] > LARGE_FACTOR:
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
        last = min(first + ROWS, n)

        def turn(k, done, last=last):  # rows that are not yet done are zero
            above = jax.lax.dynamic_slice(done, (0, k), (last, 1))
            row = jax.lax.dynamic_slice(whole, (k, 0), (1, width))[0] - (above * done).sum(0)
            pivot = jax.lax.dynamic_slice(row, (k,), (1,))
            return jax.lax.dynamic_update_slice(done, (row * jax.lax.rsqrt(pivot))[None], (k, 0))

        done = jnp.concatenate([done, jnp.zeros((last - first, width))])
        done = jax.lax.fori_loop(first, last, turn, done, unroll=unrolled(last - first))
    return done[:, :n], done[:, n : n + m]


def forward_substituted(U: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """U^-T B, for an upper triangular U."""
    n = U.shape[0]
    if n > LARGE_FACTOR:
        return solve_triangular(U, B, trans=1)

    def turn(k, X):
        return X.at[k].set((B[k] - (U[:, k][:, None] * X).sum(0)) / U[k, k])

    return jax.lax.fori_loop(0, n, turn, jnp.zeros_like(B), unroll=unrolled(n))


def back_substituted(U: Float[Array, "n n"], B: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """U^-1 B, for an upper triangular U."""
    if U.shape[0] > LARGE_FACTOR:
        return solve_triangular(U, B)
    if kernels.available() and kernels.substitutes(U, B):
        return _substitute_on_gpu(U, B)
    return _substitute_by_rows(U, B)


def _substitute_by_rows(U: Array, B: Array) -> Array:
    n = U.shape[0]

    def turn(i, X):
        k = n - 1 - i
        return X.at[k].set((B[k] - (U[k][:, None] * X).sum(0)) / U[k, k])

    return jax.lax.fori_loop(0, n, turn, jnp.zeros_like(B), unroll=unrolled(n))


def _on_gpu(kernel: Callable, plain: Callable) -> Callable:
    """The kernel, with the derivatives of the plain function; what is moved to another device is computed by that too."""

    @jax.custom_jvp
    def computed(*args):
        return jax.lax.platform_dependent(*args, cuda=kernel, default=plain)

    computed.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return computed


_factor_on_gpu = _on_gpu(kernels.factor, _factor_by_rows)
_substitute_on_gpu = _on_gpu(kernels.back_substituted, _substitute_by_rows)
