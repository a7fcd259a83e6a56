"""Splines through samples as motion laws."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Float, ScalarLike

from undula.core.arrays import Array
from undula.core.errors import UndulaError, flag, is_traced
from undula.laws.law import Law, hold, horner, number_array

NumpyArray = np.ndarray


class _Spline(Law):
    """Piecewise polynomials; piece i is Σ coefficients[i, k] (t - breaks[i])ᵏ for t from breaks[i] on."""

    breaks: Float[Array, " pieces+1"]
    coefficients: Float[Array, "pieces order ..."]
    periodic: bool = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.coefficients.shape[2:]

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        first, last = self.breaks[0], self.breaks[-1]
        if self.periodic:
            inside = t - (last - first) * jnp.floor((t - first) / (last - first))
        else:
            inside = hold(t, first, last)
        # Unrolled, since a search in a loop would be dispatched step by step.
        found = jnp.searchsorted(self.breaks, stop_gradient(inside), side="right", method="scan_unrolled")
        piece = jnp.clip(found - 1, 0, len(self.coefficients) - 1)
        coefficients, breaks = jnp.asarray(self.coefficients), jnp.asarray(self.breaks)  # NumPy takes no traced index
        return horner(coefficients[piece], inside - breaks[piece])


class CubicSpline(_Spline):
    """The cubic spline through samples: value, rate and acceleration are continuous between the ends.

    Before the first and after the last time it holds the value of that end, at rest: its rate jumps there
    unless the samples end at rest. A periodic spline repeats forever. Otherwise the end conditions are
    "not-a-knot"; 2 samples give a straight line, 3 a parabola.

    The leaves are the coefficients of the pieces, so to optimise a motion, differentiate with respect
    to the samples: build the law from `values` inside the function that `jax.grad` sees.

    **Arguments:**

    - `times`: the samples' times [s], (m,), increasing; m at least 2, or 3 if periodic.
    - `values`: (m,) for a scalar law or (m, n) for a vector law.
    - `periodic`: whether the motion repeats after times[-1] - times[0]; then the last sample must equal
      the first (inside `jax.grad` it is assumed to).
    """

    def __init__(self, times: Any, values: Any, periodic: bool = False):
        from scipy import interpolate  # slow to import, and needed only here

        owner = type(self).__name__
        flag(periodic, f"{owner}: periodic")
        knots, samples = _samples(owner, times, values, at_least=3 if periodic else 2)
        ends = "periodic" if periodic else "not-a-knot"
        if periodic:
            samples = _closed(owner, samples)

        def solve(y: NumpyArray) -> NumpyArray:
            descending = interpolate.CubicSpline(knots, y, bc_type=ends).c
            return np.swapaxes(descending[::-1], 0, 1)

        self.breaks = knots
        self.coefficients = _coefficients(solve, samples, periodic)
        self.periodic = periodic


class QuinticSpline(_Spline):
    """The spline of degree 5 through samples: four derivatives are continuous between the ends.

    Before the first and after the last time it holds the value of that end, at rest: its rate jumps there
    unless the samples end at rest. The end conditions are "not-a-knot". The leaves are the coefficients of the
    pieces; see `CubicSpline`.

    **Arguments:**

    - `times`: the samples' times [s], (m,), increasing; m at least 6.
    - `values`: (m,) for a scalar law or (m, n) for a vector law.
    """

    def __init__(self, times: Any, values: Any):
        from scipy import interpolate  # slow to import, and needed only here

        knots, samples = _samples("QuinticSpline", times, values, at_least=6)

        def solve(y: NumpyArray) -> NumpyArray:
            spline = interpolate.make_interp_spline(knots, y, k=5)
            return np.stack([spline(knots[:-1], nu=k) / math.factorial(k) for k in range(6)], axis=1)

        self.breaks = knots
        self.coefficients = _coefficients(solve, samples, periodic=False)
        self.periodic = False


def _samples(owner: str, times: Any, values: Any, at_least: int) -> tuple[Any, Any]:
    """Times and values, checked; the values may be traced."""
    knots = number_array(times, f"{owner}: times", ranks=(1,))
    samples = number_array(values, f"{owner}: values", ranks=(1, 2))
    if is_traced(knots):
        raise UndulaError(f"{owner}: times are traced by JAX; they must be plain numbers (values may be traced).")
    if len(knots) < at_least:
        raise UndulaError(f"{owner}: {len(knots)} times were given; at least {at_least} are needed.")
    if len(samples) != len(knots):
        raise UndulaError(f"{owner}: values has {len(samples)} rows; it must be {len(knots)}, one per time.")
    late = np.flatnonzero(np.diff(knots) <= 0)
    if late.size:
        k = late[0] + 1
        raise UndulaError(
            f"{owner}: times[{k}] = {knots[k]} s does not come after times[{k - 1}] = {knots[k - 1]} s; "
            "times must increase."
        )
    return knots, samples


def _closed(owner: str, samples: Any) -> Any:
    """Samples of a periodic motion, with the last one exactly equal to the first."""
    if is_traced(samples):
        return samples
    if not np.allclose(samples[0], samples[-1], rtol=1e-12, atol=1e-12):
        raise UndulaError(
            f"{owner}: values[-1] = {samples[-1].tolist()} is not values[0] = {samples[0].tolist()}; "
            "a periodic motion must end where it starts."
        )
    return np.concatenate([samples[:-1], samples[:1]])


def _coefficients(solve: Callable[[NumpyArray], Any], samples: Any, periodic: bool) -> Float[Array, "pieces order ..."]:
    """The coefficients of the pieces, from SciPy.

    SciPy cannot take traced samples, but the coefficients are linear in them: they are then the samples
    times the coefficients of the splines through the unit vectors.
    """
    if not is_traced(samples):
        return solve(samples)
    count = len(samples)
    if not periodic:
        return jnp.tensordot(solve(np.eye(count)), samples, axes=1)
    unit = np.eye(count - 1)
    return jnp.tensordot(solve(np.concatenate([unit, unit[:1]])), samples[:-1], axes=1)
