"""How short loops are compiled."""

import jax

UNROLL_ON_GPU = 64  # turns


def unrolled(n: int) -> int:
    """How many turns of n a compiled iteration takes: one on the CPU, where loops are compiled whole; all of a few on a
    GPU, where every iteration costs kernel launches."""
    return n if jax.default_backend() == "gpu" and 0 < n <= UNROLL_ON_GPU else 1
