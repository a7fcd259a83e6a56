"""Linear systems of any size inside hot loops.

Small ones are eliminated here: a call to LAPACK costs 1.5 us and stops XLA from compiling a loop whole. From about 16
unknowns on LAPACK is quicker.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.lie.loops import unrolled
from undula.lie.small import matvec

LARGE = 16
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
