"""Motion laws for the front wheels of a car whose wheels must not slip (Ali 2011, section 4.4).

A car steers by the angle beta of a wheel that one imagines in the middle of its front axle. A front wheel at the distance y
to the left of it needs tan beta = (1 - (y / wheelbase) tan beta) tan beta_wheel. The document prints its relation without
the last tan beta; with that, the wheels would slip sideways.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Float, ScalarLike

import undula as un
from undula.core.arrays import Array, as_array


class FrontAngle(un.laws.Law):
    """Angle [rad] of a front wheel. `beta`: law of the steering [rad]; `offset`: y / wheelbase."""

    beta: un.laws.Law
    offset: Array

    def __init__(self, beta: un.laws.Law, offset: Any):
        self.beta = beta
        self.offset = as_array(offset)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def value(self, t: ScalarLike) -> Float[Array, ""]:
        beta = self.beta.value(t)
        return jnp.arctan2(jnp.sin(beta), jnp.cos(beta) - self.offset * jnp.sin(beta))


class FrontSpeed(un.laws.Law):
    """Speed of a front wheel along its own heading, over that of the middle of the rear axle (4.22). Arguments likewise."""

    beta: un.laws.Law
    offset: Array

    def __init__(self, beta: un.laws.Law, offset: Any):
        self.beta = beta
        self.offset = as_array(offset)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def value(self, t: ScalarLike) -> Float[Array, ""]:
        slope = jnp.tan(self.beta.value(t))
        return jnp.hypot(1 - self.offset * slope, slope)
