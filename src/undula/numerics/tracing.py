"""How often small functions are traced."""

from functools import partial

import jax

# Traced once per shape instead of at every call, some thousand times in a program. Inlined, so that the program is the same:
# as calls, they would make XLA compile loops whole that contain calls to LAPACK, and fail.
traced_once = partial(jax.jit, inline=True)
