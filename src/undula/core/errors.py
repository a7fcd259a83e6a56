"""Errors and input checks; a message is one sentence that names the invalid item, its value and what is allowed.

JAX and NumPy are imported by the checks that need them: the command refuses bad input without them.
"""

import sys
from typing import Any


class UndulaError(ValueError):
    """Invalid input to undula; the message is one sentence for the user."""


class ModelError(UndulaError):
    """A model that cannot be built."""


class OutputError(UndulaError):
    """Valid output that could not be written, e.g. because of a full disk or a closed pipe."""


def is_traced(value: Any) -> bool:
    """Whether JAX is tracing a value, to differentiate or compile, so that it cannot be checked."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def positive(value: Any, what: str, unit: str = "") -> None:
    """Raises a `ModelError` unless a number is finite and positive; a traced one is not checked."""
    if is_traced(value):
        return
    import numpy as np

    try:
        good = bool(np.isfinite(value) and value > 0)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ModelError(f"{what} = {value}{' ' if unit else ''}{unit}; it must be positive.")


def positive_or_nan(value: Any, what: str, unit: str = "") -> Any:
    """The number, checked to be positive; a traced one that is not becomes NaN, since a power would lose its sign."""
    positive(value, what, unit)
    if not is_traced(value):
        return value
    import jax.numpy as jnp

    return jnp.where(value > 0, value, jnp.nan)


def as_vector(value: Any, size: int, what: str) -> Any:
    """value as an array of `size` finite numbers (0: a scalar); the entries of a traced value are not checked."""
    import numpy as np

    leaves = value if isinstance(value, list | tuple) else [value]
    if any(is_traced(x) for x in leaves):
        import jax.numpy as jnp

        out: Any = jnp.asarray(value, dtype=float)
    else:
        try:
            out = np.array(value, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{what} = {value!r} is not numeric.") from None
        if not np.all(np.isfinite(out)):
            raise ModelError(f"{what} = {np.asarray(value).tolist()} is not finite.")
    if out.shape != ((size,) if size else ()):
        wanted = f"{size} numbers" if size else "one number"
        raise ModelError(f"{what} has the shape {out.shape}; it must be {wanted}.")
    return out
