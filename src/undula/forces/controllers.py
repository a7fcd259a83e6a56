"""Controllers: efforts of forced coordinates as functions of time and of their own motion."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import UndulaError, is_traced
from undula.laws.law import Law, as_law


class ProportionalDerivative(eqx.Module):
    """Effort = -kp (x - reference) - kd (v - reference rate), coordinate by coordinate.

    **Arguments:**

    - `kp` [N m/rad or N/m], `kd` [N m s/rad or N s/m]: a number, or one a coordinate.
    - `reference`: a law, or constant coordinates [rad or m].

    Any callable (t, positions, velocities) -> efforts can stand in its place; a pytree, if it has parameters.
    """

    kp: Array
    kd: Array
    reference: Law

    def __init__(self, kp: Any, kd: Any, reference: Any):
        for name, gain in (("kp", kp), ("kd", kd)):
            if not is_traced(gain) and not np.all(np.isfinite(gain)):
                raise UndulaError(f"ProportionalDerivative: {name} = {gain} is not allowed; it must be finite.")
        self.kp, self.kd = jnp.asarray(kp, dtype=float), jnp.asarray(kd, dtype=float)
        self.reference = as_law(reference)

    def __call__(self, t: Any, position: Float[Array, "n"], velocity: Float[Array, "n"]) -> Float[Array, "n"]:
        wanted, rate, _ = self.reference(t)
        return -self.kp * (position - wanted) - self.kd * (velocity - rate)
