"""Static indexing without gathers: XLA turns each gather into a slow loop and cannot fuse loops across it."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array

MAX_SLICES = 32


def pick(x: Array, index: np.ndarray) -> Array:
    """x[index] for an index known at compile time, with as few slices as possible."""
    flat = np.asarray(index).reshape(-1)
    if len(flat) == 0:
        return jnp.zeros((*np.shape(index), *x.shape[1:]), x.dtype)
    slices = list(_slices(flat))
    if len(slices) > MAX_SLICES:
        out = x[flat]
    else:
        parts = [x[s] for s in slices]
        out = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    return out.reshape(*np.shape(index), *x.shape[1:])


def _slices(flat: np.ndarray) -> Iterator[slice]:
    """Splits the index greedily into slices of constant positive step."""
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
    """`rest` with the entries `which` replaced by `values`: done by a permutation, because scatters are even slower."""
    which = np.asarray(which, dtype=int)
    if np.array_equal(which, np.arange(len(rest))):
        return values
    order = np.arange(len(rest)) + len(which)
    order[which] = np.arange(len(which))
    return pick(jnp.concatenate([values, rest]), order)


def sum_into(values: Array, places: np.ndarray, size: int) -> Array:
    """(size, ...): values (m, ...) summed at their places (m,), which may repeat; places from `size` on are left out.

    Done in layers in which every place occurs at most once, each of which is a permutation.
    """
    places = np.asarray(places, dtype=int)
    total = None
    left = np.flatnonzero(places < size)
    while len(left):
        _, first = np.unique(places[left], return_index=True)
        layer = left[np.sort(first)]
        part = spread(pick(values, layer), places[layer], jnp.zeros((size, *values.shape[1:]), values.dtype))
        total = part if total is None else total + part
        left = np.setdiff1d(left, layer)
    return jnp.zeros((size, *values.shape[1:]), values.dtype) if total is None else total
