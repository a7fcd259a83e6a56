"""Tracing of small functions."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax

# Traced once per shape instead of at each of the thousands of calls in a program. Inlined, so that the program is the
# same: as calls, they would make XLA try to compile loops that contain LAPACK calls as a whole, and fail.
traced_once = partial(jax.jit, inline=True)


def traced_once_or_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function of one argument that NumPy evaluates, in building, if it is no array of JAX."""
    traced = traced_once(function)

    @wraps(function)
    def call(x: Any) -> Any:
        return traced(x) if isinstance(x, jax.Array) else function(x)

    return call
