"""Laws with a soft start, a delay or another pace."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Float, ScalarLike

from undula.core.arrays import Array
from undula.core.errors import UndulaError, is_traced
from undula.laws.law import Law, as_law, common_shape, hold, parameters, time_parameter


class SoftStart(Law):
    """A factor that rises from 0 at t0 to 1 at t0 + duration, and stays there: `SoftStart(2.0) * law`.

    With s = (t - t0) / duration it is 10 s³ - 15 s⁴ + 6 s⁵: value, rate and acceleration are continuous.

    **Arguments:**

    - `duration`: [s], positive.
    - `t0`: [s].
    """

    duration: Float[Array, ""]
    t0: Float[Array, ""]

    def __init__(self, duration: Any, t0: Any = 0.0):
        length = time_parameter(duration, "SoftStart: duration")
        if not is_traced(length) and length <= 0:
            raise UndulaError(f"SoftStart: duration = {length} s is not positive.")
        self.duration, self.t0 = length, time_parameter(t0, "SoftStart: t0")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def value(self, t: ScalarLike) -> Float[Array, ""]:
        s = hold((t - self.t0) / self.duration, 0.0, 1.0)
        return s**3 * (10 - 15 * s + 6 * s**2)


class Delayed(Law):
    """A law that is zero until a given time, which may differ between components, and unchanged from then on.

    **Arguments:**

    - `law`: the law from then on; `until`: a time [s], or one per component.
    """

    law: Law
    until: Array

    def __init__(self, law: Any, until: Any):
        self.law = as_law(law)
        (self.until,) = parameters("Delayed", self.law.shape, until=until)

    @property
    def shape(self) -> tuple[int, ...]:
        return common_shape("Delayed", {"law": self.law.shape, "until": self.until.shape})

    def value(self, t: ScalarLike) -> Float[Array, "*n"]:
        return jnp.where(t < self.until, 0.0, self.law.value(t))


class Retimed(Law):
    """A law at another pace: its value at the time s(t).

    `Retimed(law, Polynomial([-d, 1.0]))` is the law delayed by d seconds.

    **Arguments:**

    - `law`: any law.
    - `pace`: a scalar law, the time s [s] at which `law` is evaluated.
    """

    law: Law
    pace: Law

    def __init__(self, law: Any, pace: Any):
        self.law, self.pace = as_law(law), as_law(pace)
        if self.pace.shape != ():
            raise UndulaError(f"Retimed: pace has the shape {self.pace.shape}; it must be a scalar law.")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.law.shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return self.law.value(self.pace.value(t))
