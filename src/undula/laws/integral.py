"""A law given by its rate, such as the angle of a wheel of given speed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float, ScalarLike

from undula.core.arrays import Array
from undula.laws.law import Law, as_law

PANELS = 32
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


class Integral(Law):
    """The law that is zero at t = 0 and whose rate is another law.

    Its rate and acceleration come exactly from `rate`. The value is a quadrature (32 panels of 8 Gauss nodes from 0 to
    t), accurate to rounding as long as `rate` is smooth and completes no more than about 30 cycles.

    **Arguments:**

    - `rate`: a law (or a number, or an array), in the unit of the value per s.
    """

    rate: Law

    def __init__(self, rate: Any):
        self.rate = as_law(rate)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rate.shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return _area(self.rate, jnp.asarray(t, dtype=float))


def _quadrature(rate: Law, t: Array) -> Array:
    places = ((np.arange(PANELS)[:, None] + (NODES + 1) / 2) / PANELS).reshape(-1)
    values = jax.vmap(rate.value)(t * places)
    return t * jnp.tensordot(np.tile(WEIGHTS / (2 * PANELS), PANELS), values, axes=1)


@jax.custom_jvp
def _area(rate: Law, t: Array) -> Array:
    return _quadrature(rate, t)


def _area_jvp(primals, tangents):
    (rate, t), (d_rate, dt) = primals, tangents
    leaves, structure = jax.tree.flatten(rate)
    moved = jax.tree.leaves(d_rate, is_leaf=_is_zero)
    found = [] if _is_zero(dt) else [rate.value(t) * dt]
    if all(_is_zero(x) for x in moved):  # the usual case: the rate then needs no quadrature
        value = _area(rate, t)
    else:
        moved = [jnp.zeros_like(x) if _is_zero(d) else d for x, d in zip(leaves, moved)]
        value, by_law = jax.jvp(lambda rate: _quadrature(rate, t), (rate,), (jax.tree.unflatten(structure, moved),))
        found.append(by_law)
    return value, sum(found, jnp.zeros_like(value))


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


_area.defjvp(_area_jvp, symbolic_zeros=True)
