"""Unrolling of short loops."""

import jax

UNROLL_ON_GPU = 64  # iterations, at most


def unrolled(n: int) -> int:
    """By how much to unroll a loop of n iterations: not at all on the CPU, where loops are compiled as a whole;
    completely on a GPU if n is small, because every iteration costs kernel launches."""
    return n if jax.default_backend() == "gpu" and 0 < n <= UNROLL_ON_GPU else 1
