"""Entries of an array at fixed places, without gathers: XLA makes a slow loop of each, and they stop loops from fusing."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

MOST_SLICES = 32


def pick(x: Array, index: np.ndarray) -> Array:
    """x[index] for an index that is known when compiling, as few slices as possible."""
    flat = np.asarray(index).reshape(-1)
    if len(flat) == 0:
        return jnp.zeros((*np.shape(index), *x.shape[1:]), x.dtype)
    slices = list(_slices(flat))
    if len(slices) > MOST_SLICES:
        out = x[flat]
    else:
        parts = [x[s] for s in slices]
        out = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    return out.reshape(*np.shape(index), *x.shape[1:])


def _slices(flat: np.ndarray) -> Iterator[slice]:
    """The index cut, greedily, into slices of constant positive step."""
    i = 0
    while i < len(flat):
        j = i + 1
        if j < len(flat) and flat[j] > flat[i]:
            step = int(flat[j] - flat[i])
            while j + 1 < len(flat) and flat[j + 1] - flat[j] == step:
                j += 1
            j += 1
            yield slice(int(flat[i]), int(flat[j - 1]) + 1, step)
        else:
            yield slice(int(flat[i]), int(flat[i]) + 1, 1)
        i = j


def spread(values: Array, which: np.ndarray, rest: Array) -> Array:
    """`rest` with the entries `which` replaced by `values`: a permutation, because scatters are slower still."""
    which = np.asarray(which, dtype=int)
    if np.array_equal(which, np.arange(len(rest))):
        return values
    order = np.arange(len(rest)) + len(which)
    order[which] = np.arange(len(which))
    return pick(jnp.concatenate([values, rest]), order)
