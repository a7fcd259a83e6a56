"""Wheels that slip: the rows of a constraint with given forces instead of unknown ones."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.model.errors import ModelError, as_vector


class Viscous(eqx.Module):
    """Force = - coefficient times the slip velocity [N s/m]; one coefficient, or one a row."""

    coefficient: Array

    def __init__(self, coefficient: Any):
        self.coefficient = jnp.asarray(coefficient, dtype=float)

    def force(self, slip: Float[Array, "k"]) -> Float[Array, "k"]:
        return -self.coefficient * slip


class RegularisedCoulomb(eqx.Module):
    """Force = - friction times normal times tanh(slip / speed), row by row [N]; exact Coulomb friction as speed -> 0."""

    friction: Array
    normal: Array
    speed: Array

    def __init__(self, friction: Any, normal: Any, speed: Any = 1e-3):
        for name, x in (("friction", friction), ("normal", normal), ("speed", speed)):
            if not as_vector(x, 0, name) > 0:
                raise ModelError(f"{name} of a Coulomb slip law = {x}; it must be positive.")
        self.friction, self.normal, self.speed = (jnp.asarray(x, dtype=float) for x in (friction, normal, speed))

    def force(self, slip: Float[Array, "k"]) -> Float[Array, "k"]:
        return -self.friction * self.normal * jnp.tanh(slip / self.speed)
