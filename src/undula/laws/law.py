"""Motion laws: prescribed functions of time, with their rates and accelerations.

A law only says its value; the base class differentiates it, so that a rate can never disagree with the
value it belongs to. Laws are pytrees whose leaves are their parameters: they pass through `jax.jit`,
`jax.vmap` and `jax.grad`. Splines and measured motions are in `undula.laws.splines`.
"""

import abc
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, ScalarLike

from undula.core.errors import UndulaError, is_traced
from undula.numerics.pick import pick

RANKS = {0: "one number", 1: "a vector", 2: "a matrix"}


def number_array(value: Any, what: str, ranks: tuple[int, ...] = (0, 1)) -> Any:
    """value as float64, finite and of one of the given ranks; a traced value is checked for its rank only.

    The result is a NumPy array unless traced: comparisons with it work while JAX compiles around it.
    """
    if any(is_traced(leaf) for leaf in jax.tree.leaves(value)):
        out = jnp.asarray(value, dtype=float)
    else:
        try:
            out = np.asarray(value)
        except ValueError:  # rows of unequal length
            raise UndulaError(f"{what} = {value!r} is not a rectangular array.") from None
        if out.dtype.kind not in "iuf":
            raise UndulaError(f"{what} = {value!r} is not numeric.")
        out = out.astype(float)
        if not np.all(np.isfinite(out)):
            raise UndulaError(f"{what} = {out.tolist()} is not finite.")
    if out.ndim not in ranks:
        wanted = " or ".join(RANKS[rank] for rank in ranks)
        raise UndulaError(f"{what} has the shape {out.shape}; it must be {wanted}.")
    return out


def common_shape(owner: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The one shape among the named ones that is not (); stricter than NumPy, where (1,) fits (n,)."""
    distinct = set(shapes.values()) - {()}
    if len(distinct) > 1:
        listed = ", ".join(f"{name} has {shape}" for name, shape in shapes.items() if shape != ())
        raise UndulaError(f"{owner}: the shapes differ ({listed}); each must be () or the same (n,).")
    return distinct.pop() if distinct else ()


def parameters(owner: str, shape: tuple[int, ...] = (), **values: Any) -> list[Array]:
    """Scalars and vectors of one length (that of the law's shape, if given) as arrays, in the order given."""
    arrays = {name: number_array(value, f"{owner}: {name}") for name, value in values.items()}
    common_shape(owner, {"the law": shape} | {name: array.shape for name, array in arrays.items()})
    return [jnp.asarray(array) for array in arrays.values()]


def time_parameter(value: Any, what: str) -> Any:
    """A finite scalar, NumPy or traced like `number_array`."""
    return number_array(value, what, ranks=(0,))


def horner(coefficients: Float[Array, "order *n"], s: ScalarLike) -> Float[Array, "*n"]:
    """The polynomial c[0] + c[1] s + c[2] s² + ..."""
    return functools.reduce(lambda total, c: total * s + c, coefficients[::-1])


def hold(t: ScalarLike, low: ScalarLike, high: ScalarLike) -> Float[Array, ""]:
    """t kept within [low, high]; at the ends the slope is that of the inside.

    Not `jnp.clip`: JAX gives it the slope 1/2 at the ends, and any acceleration there would be wrong.
    """
    return jnp.where(t < low, low, jnp.where(t > high, high, t))


class Law(eqx.Module):
    """A motion law: a number or a vector as a function of time.

    `law(t)` gives value, rate and acceleration. Laws add, subtract and multiply with each other and with
    numbers and arrays; a scalar law fits every vector law. A law of your own subclasses `Law`, keeps its
    parameters in fields that are arrays, and says its `value` and `shape`.
    """

    __array_ufunc__ = None  # so that `array * law` comes to the law, not to each element of the array

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The value's shape: () or (n,)."""

    @abc.abstractmethod
    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        """The value at the time t [s]; must be made of operations that JAX can differentiate twice."""

    def __call__(self, t: ArrayLike) -> tuple[Float[Array, "*n"], Float[Array, "*n"], Float[Array, "*n"]]:
        """Value, rate [1/s] and acceleration [1/s²] at the time t [s], each of the law's shape."""
        time = jnp.asarray(t, dtype=float)
        if time.ndim:
            raise UndulaError(
                f"The time t has shape {time.shape}; a law takes one number (for many times use jax.vmap)."
            )
        one = jnp.ones_like(time)

        def value_and_rate(s: Any) -> Any:
            return jax.jvp(self.value, (s,), (one,))

        (value, rate), (_, acceleration) = jax.jvp(value_and_rate, (time,), (one,))
        return value, rate, acceleration

    def __add__(self, other: Any) -> "Law":
        return Sum(self, other)

    def __radd__(self, other: Any) -> "Law":
        return Sum(other, self)

    def __sub__(self, other: Any) -> "Law":
        return Sum(self, Negative(other))

    def __rsub__(self, other: Any) -> "Law":
        return Sum(other, Negative(self))

    def __mul__(self, other: Any) -> "Law":
        return Product(self, other)

    def __rmul__(self, other: Any) -> "Law":
        return Product(other, self)

    def __neg__(self) -> "Law":
        return Negative(self)


class Constant(Law):
    """A law that stays where it is.

    **Arguments:**

    - `value`: a number or a vector (n,).
    """

    level: Float[Array, "..."]  # not `value`: that is the method

    def __init__(self, value: Any):
        (self.level,) = parameters("Constant", value=value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.level.shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return self.level


class Sinusoid(Law):
    """offset + amplitude sin(rate t + phase); every argument a number or a vector (n,).

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
        return self.offset + self.amplitude * jnp.sin(self.rate * t + self.phase)


class TravellingWave(Law):
    """A wave along a row of joints: joint k = 0 .. count-1 follows the joint before it by a phase `lag`.

    The value (count,) is offset + amplitude sin(rate t - lag k + phase): for a positive lag and rate the
    wave runs towards greater k.

    **Arguments:**

    - `count`: number of joints.
    - `amplitude`: in the unit of the value; this and all that follow: a number or (count,).
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
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise UndulaError(f"TravellingWave: count = {count!r} is not a whole number of at least 1.")
        self.count = int(count)
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
        angle = self.rate * t - self.lag * jnp.arange(self.count) + self.phase
        return self.offset + self.amplitude * jnp.sin(angle)


class Polynomial(Law):
    """c0 + c1 t + c2 t² + ..., of degree 5 at most.

    **Arguments:**

    - `coefficients`: c0 first, (degree+1,) for a scalar law or (degree+1, n) for a vector law;
      coefficient k in the unit of the value per sᵏ.
    """

    coefficients: Float[Array, "order ..."]

    def __init__(self, coefficients: Any):
        array = number_array(coefficients, "Polynomial: coefficients", ranks=(1, 2))
        if not 1 <= len(array) <= 6:
            raise UndulaError(f"Polynomial: {len(array)} coefficients were given; 1 to 6 are allowed (degree 0 to 5).")
        self.coefficients = jnp.asarray(array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.coefficients.shape[1:]

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return horner(self.coefficients, t)


class Quintic(Law):
    """The polynomial of degree 5 from `start` at t0 to `end` at t1; from rest to rest unless told otherwise.

    Before t0 and after t1 the law goes on at the constant rate of that end: it holds the end's value where
    that rate is zero. So value and rate are continuous always, the acceleration where the accelerations
    given for the ends are zero; at exactly t0 and t1 it is the one given.

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
        self.t0, self.t1 = jnp.asarray(first), jnp.asarray(last)
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
        # In the time s = 0..1 a rate is multiplied by the span, an acceleration by its square.
        step = self.end - self.start
        v0, v1 = self.start_rate * span, self.end_rate * span
        a0, a1 = self.start_acceleration * span**2 / 2, self.end_acceleration * span**2 / 2
        c3 = 10 * step - 6 * v0 - 4 * v1 - 3 * a0 + a1
        c4 = -15 * step + 8 * v0 + 7 * v1 + 3 * a0 - 2 * a1
        c5 = 6 * step - 3 * v0 - 3 * v1 - a0 + a1
        inside = self.start + s * (v0 + s * (a0 + s * (c3 + s * (c4 + s * c5))))
        before, after = jnp.where(t < self.t0, t - self.t0, 0.0), jnp.where(t > self.t1, t - self.t1, 0.0)
        return inside + self.start_rate * before + self.end_rate * after


class SoftStart(Law):
    """A factor that rises from 0 at t0 to 1 at t0 + duration, and stays: `SoftStart(2.0) * law`.

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
        self.duration = jnp.asarray(length)
        self.t0 = jnp.asarray(time_parameter(t0, "SoftStart: t0"))

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def value(self, t: ScalarLike) -> Float[Array, ""]:
        s = hold((t - self.t0) / self.duration, 0.0, 1.0)
        return s**3 * (10 - 15 * s + 6 * s**2)


class Waiting(Law):
    """A law that is zero until a time, its own for each component, and as given from then on.

    **Arguments:**

    - `law`: what is waited for; `until`: a time [s], or one a component.
    """

    law: Law
    until: Array

    def __init__(self, law: Any, until: Any):
        self.law = as_law(law)
        (self.until,) = parameters("Waiting", self.law.shape, until=until)

    @property
    def shape(self) -> tuple[int, ...]:
        return common_shape("Waiting", {"law": self.law.shape, "until": self.until.shape})

    def value(self, t: ScalarLike) -> Float[Array, "*n"]:
        return jnp.where(t < self.until, 0.0, self.law.value(t))


class Function(Law):
    """A law from a callable of the time, written with `jax.numpy`.

    The callable is no parameter: what it closes over is not differentiated with the law's leaves, and two
    laws are alike only if they hold the same callable. For parameters of your own, subclass `Law`.

    **Arguments:**

    - `fn`: takes t [s], a scalar array, and returns an array of the given shape.
    - `shape`: () or (n,).
    """

    fn: Callable[[Array], Any] = eqx.field(static=True)
    fn_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, fn: Any, shape: Sequence[int] = ()):
        self.fn, self.fn_shape = fn, tuple(shape)
        name = getattr(fn, "__name__", repr(fn))
        if len(self.fn_shape) > 1:
            raise UndulaError(f"Function: shape = {self.fn_shape} is not allowed; it must be () or (n,).")
        try:
            hash(fn)  # a static part of a pytree must have a hash, or jit fails far from here
            found = jax.eval_shape(self.value, jax.ShapeDtypeStruct((), float)).shape
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise UndulaError(f"Function: fn = {name} cannot be traced by JAX as a law: {reason}") from error
        if found != self.fn_shape:
            raise UndulaError(f"Function: fn = {name} gives the shape {found}; shape = {self.fn_shape} was said.")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.fn_shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return jnp.asarray(self.fn(jnp.asarray(t, dtype=float)), dtype=float)


def as_law(value: Any) -> Law:
    """value itself if it is a law; a number or an array (n,) as a `Constant`."""
    return value if isinstance(value, Law) else Constant(value)


def law_of(value: Any, shape: tuple[int, ...], what: str, low: float = -np.inf) -> Law:
    """The law that a user gave, or a constant one of a number or an array; refused if its shape is another, or if it is
    constant and less than `low`."""
    if not isinstance(value, Law):
        value = number_array(value, what, (len(shape),))
        if not is_traced(value) and value.size and value.min() < low:
            raise UndulaError(f"{what} = {value.tolist()}; it must be at least {low:g}.")
        value = Constant(value)
    if value.shape != shape:
        raise UndulaError(f"{what} has the shape {value.shape}; it must be {shape or 'one number'}.")
    return value


class _Combination(Law):
    """Several laws joined by one operation; scalar laws go with vector laws of any length."""

    laws: tuple[Law, ...]

    def __init__(self, *laws: Any):
        owner = type(self).__name__
        if not laws:
            raise UndulaError(f"{owner}: no law was given; at least one is needed.")
        self.laws = tuple(as_law(law) for law in laws)
        common_shape(owner, {f"law {k} ({type(law).__name__})": law.shape for k, law in enumerate(self.laws)})

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(law.shape for law in self.laws))


class Sum(_Combination):
    """The sum of laws, numbers and arrays; what `+` between laws gives."""

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return functools.reduce(operator.add, [law.value(t) for law in self.laws])


class Product(_Combination):
    """The product of laws, numbers and arrays, element by element; what `*` between laws gives."""

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return functools.reduce(operator.mul, [law.value(t) for law in self.laws])


class Negative(Law):
    """Minus a law; not a product with -1, which would be one more parameter to differentiate."""

    law: Law

    def __init__(self, law: Any):
        self.law = as_law(law)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.law.shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return -self.law.value(t)


class Retimed(Law):
    """A law run at another pace: its value at the time s(t).

    `Retimed(law, Polynomial([-d, 1.0]))` is the law delayed by d seconds.

    **Arguments:**

    - `law`: any law.
    - `pace`: a scalar law, the time s [s] at which `law` is taken.
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


class Stack(Law):
    """Scalar laws side by side, laws of a kind as one batch; made by `stack`."""

    batches: tuple[Law, ...]  # each a law whose leaves have one more axis in front
    sizes: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)  # where each element is among the joined batches

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.places),)

    def value(self, t: ScalarLike) -> Float[Array, " n"]:
        # The range is unused: it tells vmap the size of a batch of laws without leaves, as `Function` is.
        evaluate = jax.vmap(lambda law, _: law.value(t))
        parts = [evaluate(batch, np.arange(size)) for batch, size in zip(self.batches, self.sizes)]
        joined = jnp.concatenate(parts)
        return joined if len(parts) == 1 else pick(joined, np.array(self.places))


def _joined(*leaves: Any) -> Array:
    """Leaves along a new first axis; by NumPy where possible, since JAX would compile for each count."""
    if any(is_traced(leaf) for leaf in leaves):
        return jnp.stack(leaves)
    return jnp.asarray(np.stack(leaves))


def stack(laws: Sequence[Any]) -> Law:
    """Scalar laws (or numbers) joined into one vector law of shape (len(laws),), in the order given.

    Laws of the same kind, with parameters of the same shapes, are evaluated together: a thousand
    `Sinusoid`s compile to one sine of a thousand numbers.
    """
    scalars = [as_law(law) for law in laws]
    if not scalars:
        raise UndulaError("stack: no law was given; at least one is needed.")
    groups: dict[Any, list[int]] = {}
    for k, law in enumerate(scalars):
        if law.shape != ():
            raise UndulaError(f"stack: law {k} ({type(law).__name__}) has the shape {law.shape}; it must be ().")
        leaves, structure = jax.tree.flatten(law)
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(k)
    batches = tuple(jax.tree.map(_joined, *[scalars[k] for k in members]) for members in groups.values())
    order = [k for members in groups.values() for k in members]
    sizes = tuple(len(members) for members in groups.values())
    return Stack(batches, sizes, tuple(np.argsort(order).tolist()))
