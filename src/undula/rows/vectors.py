"""Small vector helpers for row models."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array
from undula.core.errors import ModelError, as_vector

UP = np.array([0.0, 0.0, 1.0])


def dot(a: Any, b: Any) -> Array:
    """a . b"""
    return (a * b).sum()


def unit(a: Any) -> Array:
    """a divided by its norm."""
    return a / jnp.sqrt(dot(a, a))


def positive_number(value: Any, what: str) -> Any:
    """A length [m], refused if it is not positive."""
    out = as_vector(value, 0, what)
    if isinstance(out, np.ndarray | np.floating) and not out > 0:
        raise ModelError(f"{what} = {float(out):g} m; it must be positive.")
    return out


def direction(value: Any, what: str) -> Any:
    """A unit vector, refused if it is zero."""
    a = as_vector(value, 3, what)
    if isinstance(a, np.ndarray):
        if not a.any():
            raise ModelError(f"{what} is zero; it must have a direction.")
        return a / np.linalg.norm(a)
    return unit(a)
