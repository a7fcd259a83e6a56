"""Sinusoids, travelling waves and polynomials of time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, ScalarLike

from undula.core.arrays import Array, namespace
from undula.core.errors import UndulaError, is_traced, whole
from undula.laws.law import Law, hold, horner, number_array, parameters, time_parameter


class Sinusoid(Law):
    """offset + amplitude sin(rate t + phase); every argument is a number or a vector (n,).

    **Arguments:**

    - `amplitude`: in the unit of the value.
    - `rate`: angular rate [rad/s].
    - `phase`: [rad].
    - `offset`: in the unit of the value.
    """

    amplitude: Float[Array, "..."]
    rate: Float[Array, "..."]
    phase: Float[Array, "..."]
    offset: Float[Array, "..."]

    def __init__(self, amplitude: Any, rate: Any, phase: Any = 0.0, offset: Any = 0.0):
        self.amplitude, self.rate, self.phase, self.offset = parameters(
            "Sinusoid", amplitude=amplitude, rate=rate, phase=phase, offset=offset
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(leaf.shape for leaf in jax.tree.leaves(self)))

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return self.offset + self.amplitude * namespace(self, t).sin(self.rate * t + self.phase)


class TravellingWave(Law):
    """A wave along a row of joints: joint k = 0 .. count-1 lags behind the joint before it by a phase `lag`.

    The value (count,) is offset + amplitude sin(rate t - lag k + phase): for a positive lag and rate the
    wave travels towards larger k.

    **Arguments:**

    - `count`: number of joints.
    - `amplitude`: in the unit of the value; like all the following, a number or (count,).
    - `rate`: angular rate [rad/s].
    - `lag`: phase lag per joint [rad].
    - `phase`: [rad].
    - `offset`: in the unit of the value.
    """

    count: int = eqx.field(static=True)
    amplitude: Float[Array, "..."]
    rate: Float[Array, "..."]
    lag: Float[Array, "..."]
    phase: Float[Array, "..."]
    offset: Float[Array, "..."]

    def __init__(self, count: Any, amplitude: Any, rate: Any, lag: Any, phase: Any = 0.0, offset: Any = 0.0):
        self.count = whole(count, "TravellingWave: count", at_least=1)
        self.amplitude, self.rate, self.lag, self.phase, self.offset = parameters(
            "TravellingWave",
            shape=self.shape,
            amplitude=amplitude,
            rate=rate,
            lag=lag,
            phase=phase,
            offset=offset,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,)

    def value(self, t: ScalarLike) -> Float[Array, " count"]:
        angle = self.rate * t - self.lag * np.arange(self.count) + self.phase
        return self.offset + self.amplitude * namespace(angle, self.offset, self.amplitude).sin(angle)


class Polynomial(Law):
    """c0 + c1 t + c2 t² + ..., of degree at most 5.

    **Arguments:**

    - `coefficients`: c0 first, (degree+1,) for a scalar law or (degree+1, n) for a vector law;
      coefficient k in the unit of the value per sᵏ.
    """

    coefficients: Float[Array, "order ..."]

    def __init__(self, coefficients: Any):
        array = number_array(coefficients, "Polynomial: coefficients", ranks=(1, 2))
        if not 1 <= len(array) <= 6:
            raise UndulaError(f"Polynomial: {len(array)} coefficients were given; 1 to 6 are allowed (degree 0 to 5).")
        self.coefficients = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.coefficients.shape[1:]

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return horner(self.coefficients, t)


class Quintic(Law):
    """The polynomial of degree 5 from `start` at t0 to `end` at t1; from rest to rest by default.

    Before t0 and after t1 the law continues at the constant rate of that end: it holds the end's value if
    that rate is zero. Value and rate are therefore always continuous, the acceleration only where the given
    end accelerations are zero; at exactly t0 and t1 it is the given one.

    **Arguments:**

    - `start`, `end`: values, numbers or vectors (n,), as are rates and accelerations.
    - `t0`, `t1`: times [s], t0 < t1.
    - `start_rate`, `end_rate`: rates [1/s].
    - `start_acceleration`, `end_acceleration`: accelerations [1/s²].
    """

    start: Float[Array, "..."]
    end: Float[Array, "..."]
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    start_rate: Float[Array, "..."]
    end_rate: Float[Array, "..."]
    start_acceleration: Float[Array, "..."]
    end_acceleration: Float[Array, "..."]

    def __init__(
        self,
        start: Any,
        end: Any,
        t0: Any,
        t1: Any,
        *,
        start_rate: Any = 0.0,
        end_rate: Any = 0.0,
        start_acceleration: Any = 0.0,
        end_acceleration: Any = 0.0,
    ):
        first, last = time_parameter(t0, "Quintic: t0"), time_parameter(t1, "Quintic: t1")
        if not (is_traced(first) or is_traced(last)) and first >= last:
            raise UndulaError(f"Quintic: t1 = {last} s does not come after t0 = {first} s.")
        self.t0, self.t1 = first, last
        ends = parameters(
            "Quintic",
            start=start,
            end=end,
            start_rate=start_rate,
            end_rate=end_rate,
            start_acceleration=start_acceleration,
            end_acceleration=end_acceleration,
        )
        self.start, self.end, self.start_rate, self.end_rate = ends[:4]
        self.start_acceleration, self.end_acceleration = ends[4:]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(leaf.shape for leaf in jax.tree.leaves(self)))

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        span = self.t1 - self.t0
        s = (hold(t, self.t0, self.t1) - self.t0) / span
        # With the time s = 0..1, rates are multiplied by the span and accelerations by its square.
        step = self.end - self.start
        v0, v1 = self.start_rate * span, self.end_rate * span
        a0, a1 = self.start_acceleration * span**2 / 2, self.end_acceleration * span**2 / 2
        c3 = 10 * step - 6 * v0 - 4 * v1 - 3 * a0 + a1
        c4 = -15 * step + 8 * v0 + 7 * v1 + 3 * a0 - 2 * a1
        c5 = 6 * step - 3 * v0 - 3 * v1 - a0 + a1
        inside = self.start + s * (v0 + s * (a0 + s * (c3 + s * (c4 + s * c5))))
        before, after = jnp.where(t < self.t0, t - self.t0, 0.0), jnp.where(t > self.t1, t - self.t1, 0.0)
        return inside + self.start_rate * before + self.end_rate * after
