"""Tracing of small functions."""

from functools import partial

import jax

# Traced once per shape instead of at each of the thousands of calls in a program. Inlined, so that the program is the
# same: as calls, they would make XLA try to compile loops that contain LAPACK calls as a whole, and fail.
traced_once = partial(jax.jit, inline=True)
