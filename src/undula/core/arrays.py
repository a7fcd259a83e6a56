"""The arrays that models are made of: NumPy arrays while a model is built, JAX arrays once it is, or where it is traced.

Outside compiled functions every operation of JAX compiles a tiny program of its own, so that the first answer is slow.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.errors import is_traced

if TYPE_CHECKING:
    Array = jax.Array  # the operations that both share
else:
    Array = jax.Array | np.ndarray | np.generic


def namespace(*values: Any) -> Any:
    """`jax.numpy` if a leaf of the values is an array of JAX, otherwise `numpy`: for operations between them."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values)) else np


def any_traced(*values: Any) -> bool:
    """Whether JAX is tracing a leaf of the values."""
    return any(is_traced(leaf) for leaf in jax.tree.leaves(values))


def as_array(value: Any) -> Any:
    """A copy of numbers as an array of floats: of NumPy, unless they are traced."""
    return (jnp if any_traced(value) else np).array(value, dtype=float)


def known(tree: Any) -> Any:
    """The same with NumPy arrays for JAX arrays, unless they are traced."""
    return jax.tree.map(lambda x: x if is_traced(x) else np.asarray(x), tree)


def stacked(values: Sequence[Any]) -> Any:
    """Numbers or arrays of one shape, stacked along a new first axis; by NumPy, unless one is traced."""
    xp = jnp if any_traced(values) else np
    return xp.stack([xp.asarray(x, dtype=float) for x in values])


def joined(*parts: Any) -> Any:
    """Vectors one after the other; by NumPy, unless one is traced."""
    return (jnp if any_traced(parts) else np).concatenate(parts)


def with_entry(array: Any, k: int, value: Any) -> Any:
    """A copy of an array with another entry k; of NumPy, unless it or the value is traced."""
    if any_traced(array, value):
        return jnp.asarray(array).at[k].set(value)
    out = np.array(array)
    out[k] = value
    return out


def on_device(tree: Any) -> Any:
    """The same with JAX arrays for NumPy arrays, in one transfer and without compiling anything."""
    leaves, structure = jax.tree.flatten(tree)
    known = [k for k, x in enumerate(leaves) if isinstance(x, np.ndarray | np.generic)]
    for k, x in zip(known, jax.device_put([leaves[k] for k in known])):
        leaves[k] = x
    return jax.tree.unflatten(structure, leaves)


# constants of NumPy, wherever an `Array` is expected
zeros: Any = np.zeros
ones: Any = np.ones
eye: Any = np.eye
