"""Refusals: one sentence with the name of the culprit, its value and what is allowed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class UndulaError(ValueError):
    """Bad input to undula; the message is one sentence for the user."""


class ModelError(UndulaError):
    """A model that cannot be built."""


class OutputError(UndulaError):
    """What was asked for is allowed, but could not be written: a full disk, a closed pipe."""


def is_traced(value: Any) -> bool:
    """Whether a value is being differentiated or compiled, so that it cannot be checked."""
    return isinstance(value, jax.core.Tracer)


def positive(value: Any, what: str, unit: str = "") -> None:
    """Refuses a number that is not finite and positive; a traced one is not checked."""
    if is_traced(value):
        return
    try:
        good = bool(np.isfinite(value) and value > 0)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ModelError(f"{what} = {value}{' ' if unit else ''}{unit}; it must be positive.")


def positive_or_nan(value: Any, what: str, unit: str = "") -> Any:
    """A positive number, refused if it is not; a traced one that is not becomes NaN, as its sign would be lost in a power."""
    positive(value, what, unit)
    return jnp.where(value > 0, value, jnp.nan) if is_traced(value) else value


def as_vector(value: Any, size: int, what: str) -> Any:
    """value as an array of `size` numbers (0: a scalar), finite; left untouched inside if it is traced."""
    leaves = value if isinstance(value, list | tuple) else [value]
    if any(is_traced(x) for x in leaves):
        out = jnp.asarray(value, dtype=float)
    else:
        try:
            out = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"{what} = {value!r} is not numeric.") from None
        if not np.all(np.isfinite(out)):
            raise ModelError(f"{what} = {np.asarray(value).tolist()} is not finite.")
    if out.shape != ((size,) if size else ()):
        wanted = f"{size} numbers" if size else "one number"
        raise ModelError(f"{what} has the shape {out.shape}; it must be {wanted}.")
    return out
