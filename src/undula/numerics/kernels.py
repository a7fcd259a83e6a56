"""Small linear systems as single GPU kernels: one program per matrix, which stays in registers until it is done.

In XLA's own kernels, every row of a factorisation reads all rows above it from memory. Arrays in a kernel have
power-of-two sizes and cannot be sliced, so the matrix and its right-hand sides, side by side, form a list of square
tiles.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array

OLDEST = 8.0  # lowest compute capability that Triton supports
MAX_NUMBERS = 12288  # numbers that fit into the registers of a program
WARP, MAX_WARPS = 1536, 8  # numbers per warp, at least; warps per program, at most
SMALLEST = 16  # rows of a tile, at least
FEW = 8  # right-hand sides that are substituted column by column, at most


def available() -> bool:
    """Whether JAX runs on a GPU that supports these kernels."""
    if jax.default_backend() != "gpu":
        return False
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))  # a number on NVIDIA GPUs only
    return capability.replace(".", "").isdigit() and float(capability) >= OLDEST


def power_of_two(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << (n - 1).bit_length()


def warps(numbers: int) -> int:
    """Number of warps of a program that holds this many numbers."""
    return min(power_of_two(numbers // WARP + 1) // 2, MAX_WARPS) or 1


def places(rows: int, columns: int) -> tuple[Array, Array]:
    """Row and column indices of all entries of a matrix."""
    row, column = (jax.lax.broadcasted_iota(jnp.int32, (rows, columns), i) for i in (0, 1))
    return row, column


def factors(H: Array, B: Array) -> bool:
    """Whether `factor` can be used: its working arrays must fit into registers."""
    n, m = B.shape
    return B.size > 0 and H.dtype == B.dtype and _tiles(n, m) * _tile(n) ** 2 <= MAX_NUMBERS


def substitutes(U: Array, B: Array) -> bool:
    """Whether `back_substituted` can be used."""
    return B.size > 0 and U.dtype == B.dtype and B.shape[1] <= FEW


def factor(
    H: Float[Array, "n n"], B: Float[Array, "n m"], interpret: bool = False
) -> tuple[Float[Array, "n n"], Float[Array, "n m"]]:
    """The same as `undula.numerics.dense.factor`, if `factors(H, B)`. `interpret`: run without a GPU, slowly."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n, m = B.shape
    size, count = _tile(n), _tiles(n, m)

    def kernel(H, B, U, X):
        row, column = places(size, size)
        lane = jax.lax.iota(jnp.int32, size)
        tiles = []
        for first in range(0, count * size, size):
            right = jnp.where(first + column >= n, first + column - n, m)  # m: outside B
            tile = triton.load(B.at[row, right], mask=(row < n) & (right < m), other=0.0)
            if first == 0:
                tile = jnp.where(
                    column < n, triton.load(H.at[row, column], mask=(row < n) & (column < n), other=0.0), tile
                )
            tiles.append(tile)

        def iterate(k, tiles):
            done = [jnp.where(row == k, x, 0.0).sum(0) for x in tiles]
            root = jax.lax.rsqrt(jnp.where(lane == k, done[0], 0.0).sum())
            done = [root * x for x in done]
            # the column below the pivot, by symmetry of H
            below = jnp.where((lane > k) & (lane < n), done[0], 0.0)[:, None]
            return [jnp.where(row == k, x[None], tile - below * x[None]) for x, tile in zip(done, tiles)]

        tiles = jax.lax.fori_loop(0, n, iterate, tiles)
        triton.store(U.at[row, column], jnp.where(column >= row, tiles[0], 0.0), mask=(row < n) & (column < n))
        for first, tile in zip(range(0, count * size, size), tiles):
            right = jnp.where(first + column >= n, first + column - n, m)
            triton.store(X.at[row, right], tile, mask=(row < n) & (right < m))

    return pl.pallas_call(
        kernel,
        grid=(1,),
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (H, B)],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=warps(count * size**2)),
    )(H, B)


def back_substituted(U: Float[Array, "n n"], B: Float[Array, "n m"], interpret: bool = False) -> Float[Array, "n m"]:
    """The same as `undula.numerics.dense.back_substituted`, if `substitutes(U, B)`."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    n, m = B.shape

    def kernel(U, B, X):
        lane = jax.lax.iota(jnp.int32, power_of_two(n))

        def column(k):
            return lane, jnp.full_like(lane, k)

        def iterate(i, right):
            k = n - 1 - i
            above = triton.load(U.at[column(k)], mask=lane <= k, other=0.0)
            pivot = jnp.where(lane == k, above, 0.0).sum()
            found = [jnp.where(lane == k, x, 0.0).sum() / pivot for x in right]
            return [jnp.where(lane == k, f, x - above * f) for f, x in zip(found, right)]

        right = [triton.load(B.at[column(j)], mask=lane < n, other=0.0) for j in range(m)]
        for j, x in enumerate(jax.lax.fori_loop(0, n, iterate, right)):
            triton.store(X.at[column(j)], x, mask=lane < n)

    return pl.pallas_call(
        kernel,
        grid=(1,),
        out_shape=jax.ShapeDtypeStruct(B.shape, B.dtype),
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=1),
    )(U, B)


def _tile(n: int) -> int:
    return max(power_of_two(n), SMALLEST)


def _tiles(n: int, m: int) -> int:
    return -(-(n + m) // _tile(n))
