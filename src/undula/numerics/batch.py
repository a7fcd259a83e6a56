"""A function over a batch, in the way that suits the device."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.errors import UndulaError, reason, shown


def batch(f: Callable[..., Any], axes: Any = 0) -> Callable[..., Any]:
    """f over a batch: one instance after the other on a CPU, all at once on an accelerator.

    The same results as `jax.vmap(f, in_axes=axes)`, to rounding. On a CPU `jax.vmap` makes every small array of a step
    larger, which keeps loops from being compiled whole: `jax.lax.map`, which is used there, is several times faster.
    Can be used inside `jax.jit`, and differentiated.

    **Arguments:**

    - `axes`: which axis of the arrays of each argument runs over the batch, as `in_axes` of `jax.vmap`: a number for all,
      or a tuple with one entry per argument, None for an argument that all instances share. Entries may be trees like the
      argument, e.g. a `System` of numbers and None.

    **Returns:**

    A function of the same arguments; every array of its result has a leading axis over the batch.
    """
    if not callable(f):
        raise UndulaError(f"batch: f = {shown(f)}; it must be a function.")

    @functools.wraps(f)
    def batched(*args: Any) -> Any:
        if jax.default_backend() != "cpu":
            return jax.vmap(f, in_axes=axes)(*args)
        leaves, structure = jax.tree.flatten(args)
        where = _axes_of(axes, args)
        over = [k for k, axis in enumerate(where) if axis is not None]
        _check_sizes(leaves, where)
        moved = tuple(jnp.moveaxis(jnp.asarray(leaves[k]), where[k], 0) for k in over)

        def one(parts: Any) -> Any:
            own = dict(zip(over, parts))
            return f(*jax.tree.unflatten(structure, [own.get(k, x) for k, x in enumerate(leaves)]))

        try:
            return jax.lax.map(one, moved)
        except UndulaError:
            raise
        except TypeError as error:  # JAX's own, too
            raise UndulaError(f"batch: f = {shown(f)} cannot be computed: {reason(error)}.") from error

    return batched


def _axes_of(axes: Any, args: tuple[Any, ...]) -> list[Any]:
    """One axis or None for each leaf of the arguments, from a prefix of their tree."""
    given = tuple(axes) if isinstance(axes, list | tuple) else (axes,) * len(args)
    if len(given) != len(args):
        raise UndulaError(
            f"batch: axes = {axes!r} has {len(given)} entries; it must have one per argument, {len(args)}."
        )
    out: list[Any] = []

    def spread(axis: Any, part: Any) -> None:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int | np.integer)):
            raise UndulaError(f"batch: axes contains {shown(axis)}; its entries must be whole numbers, or None.")
        out.extend([axis] * len(jax.tree.leaves(part)))

    try:
        jax.tree.map(spread, given, args, is_leaf=lambda x: x is None)
    except (ValueError, TypeError) as error:
        if isinstance(error, UndulaError):
            raise
        raise UndulaError(f"batch: axes = {axes!r} is no tree like the arguments.") from error
    return out


def _check_sizes(leaves: list[Any], where: list[Any]) -> None:
    sizes = {}
    for x, axis in zip(leaves, where):
        if axis is None:
            continue
        if not -np.ndim(x) <= axis < np.ndim(x):
            raise UndulaError(f"batch: an array of the shape {np.shape(x)} has no axis {axis} to run over.")
        sizes[np.shape(x)[axis]] = np.shape(x)
    if len(sizes) != 1:
        words = ", ".join(str(x) for x in sizes.values()) or "none"
        raise UndulaError(
            f"batch: the arrays must have the same number of instances, at least one array; they are {words}."
        )
