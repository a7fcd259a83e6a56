"""Sums, products and stacks of laws."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, ScalarLike

from undula.core.arrays import Array, stacked
from undula.core.errors import UndulaError, instance
from undula.laws.law import Law, as_law, common_shape
from undula.numerics.pick import pick


class _Combination(Law):
    """Several laws joined by one operation; scalar laws combine with vector laws of any length."""

    laws: tuple[Law, ...]

    def __init__(self, *laws: Any):
        owner = type(self).__name__
        if not laws:
            raise UndulaError(f"{owner}: no law was given; at least one is needed.")
        self.laws = tuple(as_law(law) for law in laws)
        common_shape(owner, {f"law {k} ({type(law).__name__})": law.shape for k, law in enumerate(self.laws)})

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(law.shape for law in self.laws))


class Sum(_Combination):
    """The sum of laws, numbers and arrays; the result of `+` between laws."""

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return functools.reduce(operator.add, [law.value(t) for law in self.laws])


class Product(_Combination):
    """The product of laws, numbers and arrays, element by element; the result of `*` between laws."""

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return functools.reduce(operator.mul, [law.value(t) for law in self.laws])


class Negative(Law):
    """The negative of a law; not a product with -1, which would be one more parameter to differentiate."""

    law: Law

    def __init__(self, law: Any):
        self.law = as_law(law)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.law.shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return -self.law.value(t)


class Stack(Law):
    """Scalar laws side by side, with laws of the same kind evaluated as one batch; made by `stack`."""

    batches: tuple[Law, ...]  # each a law whose leaves have one more axis in front
    sizes: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)  # index of each element in the joined batches

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.places),)

    def value(self, t: ScalarLike) -> Float[Array, " n"]:
        # The range is unused: it tells vmap the size of a batch of laws without leaves, such as `Function`.
        evaluate = jax.vmap(lambda law, _: law.value(t))
        parts = [evaluate(batch, np.arange(size)) for batch, size in zip(self.batches, self.sizes)]
        joined = jnp.concatenate(parts)
        return joined if len(parts) == 1 else pick(joined, np.array(self.places))


def stack(laws: Sequence[Any]) -> Law:
    """Scalar laws (or numbers) joined into one vector law of shape (len(laws),), in the order given.

    Laws of the same kind, with parameters of the same shapes, are evaluated together: a thousand
    `Sinusoid`s compile to one sine of a thousand numbers.
    """
    scalars = [as_law(law) for law in instance(laws, list | tuple | np.ndarray, "stack: laws", "a sequence of laws")]
    if not scalars:
        raise UndulaError("stack: no law was given; at least one is needed.")
    groups: dict[Any, list[int]] = {}
    for k, law in enumerate(scalars):
        if law.shape != ():
            raise UndulaError(f"stack: law {k} ({type(law).__name__}) has the shape {law.shape}; it must be ().")
        leaves, structure = jax.tree.flatten(law)
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(k)
    batches = tuple(jax.tree.map(lambda *x: stacked(x), *[scalars[k] for k in members]) for members in groups.values())
    order = [k for members in groups.values() for k in members]
    sizes = tuple(len(members) for members in groups.values())
    return Stack(batches, sizes, tuple(np.argsort(order).tolist()))
