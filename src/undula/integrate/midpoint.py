"""The implicit midpoint rule."""

from typing import ClassVar

import jax.numpy as jnp

from undula.integrate.implicit import Coefficients, Implicit


class ImplicitMidpoint(Implicit):
    """The balance holds in the middle of the step: order 2, symplectic for additive coordinates.

    Of the methods here it conserves energy best when the step is long compared with the fastest vibrations.
    """

    order: ClassVar[int] = 2

    def coefficients(self, v, memory, dt):
        return Coefficients(1 / dt, jnp.zeros_like(v), 2 / dt**2, -2 * v / dt, 0.5)

    def finish(self, v, memory, velocity, acceleration):
        return 2 * velocity - v, acceleration, acceleration

    def work(self, before, power, dt):
        return dt * power
