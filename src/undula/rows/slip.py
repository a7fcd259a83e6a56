"""Slip laws for wheels: rows whose forces follow from the slip velocity instead of enforcing the constraint."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, as_array
from undula.core.errors import ModelError, as_vector, is_traced, numbers, shown


class Viscous(eqx.Module):
    """Force = - coefficient [N s/m] times the slip velocity; one coefficient, or one per row.

    A negative coefficient is refused; if it is traced, the force is NaN.
    """

    coefficient: Array

    def __init__(self, coefficient: Any):
        self.coefficient = _checked(coefficient, "coefficient of a viscous slip law", "at least 0", lambda x: x >= 0)

    def force(self, slip: Float[Array, "k"]) -> Float[Array, "k"]:
        return -jnp.where(self.coefficient >= 0, self.coefficient, jnp.nan) * slip


class RegularisedCoulomb(eqx.Module):
    """Force = - friction times normal times tanh(slip / speed), row by row [N]; tends to Coulomb friction as speed -> 0.

    `friction` (coefficient), `normal` [N] and `speed` [m/s] must be positive; if one is traced and is not, the force is NaN.
    """

    friction: Array
    normal: Array
    speed: Array

    def __init__(self, friction: Any, normal: Any, speed: Any = 1e-3):
        self.friction, self.normal, self.speed = (
            _checked(as_vector(x, 0, name), f"{name} of a Coulomb slip law", "positive", lambda x: x > 0)
            for name, x in (("friction", friction), ("normal", normal), ("speed", speed))
        )

    def force(self, slip: Float[Array, "k"]) -> Float[Array, "k"]:
        good = (self.friction > 0) & (self.normal > 0) & (self.speed > 0)
        return -jnp.where(good, self.friction * self.normal, jnp.nan) * jnp.tanh(slip / self.speed)


def _checked(value: Any, what: str, allowed: str, good: Callable[[Any], Any]) -> Array:
    """The value as an array, refused if it is out of range; traced values are not checked."""
    if not is_traced(value) and not np.all(good(numbers(value, what))):
        raise ModelError(f"{what} = {shown(value)}; it must be {allowed}.")
    return as_array(value)
