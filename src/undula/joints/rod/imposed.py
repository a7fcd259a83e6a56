"""Imposed strain fields: the motion of a rod's coordinates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.laws.law import Law


class StrainField(Law):
    """Values of an imposed strain field at the Gauss points of a rod: the motion of its coordinates."""

    function: Callable[[Any, Any], Any] = eqx.field(static=True)
    places: Float[Array, "points"]
    reference: Float[Array, "points 6"]
    strains: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.places.shape[0] * len(self.strains),)

    def value(self, t: Any) -> Array:
        field = jax.vmap(lambda X: jnp.asarray(self.function(X, t), dtype=float))(self.places) - self.reference
        return jnp.stack([field[:, c] for c in self.strains]).reshape(-1)
