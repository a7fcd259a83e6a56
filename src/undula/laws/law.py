"""Motion laws: prescribed functions of time, with their rates and accelerations.

A law only defines its value; the base class differentiates it, so that rates are always consistent with
values. Laws are pytrees whose leaves are their parameters: they pass through `jax.jit`,
`jax.vmap` and `jax.grad`.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, ScalarLike

from undula.core.arrays import Array
from undula.core.errors import ModelError, UndulaError, is_traced, reason, shown
from undula.numerics.programs import quickly_compiled

RANKS = {0: "one number", 1: "a vector", 2: "a matrix"}


def number_array(value: Any, what: str, ranks: tuple[int, ...] = (0, 1)) -> Any:
    """value as float64, finite and of one of the given ranks; a traced value is checked for its rank only.

    The result is a NumPy array unless traced, so that it can be compared while JAX traces the code around it.
    """
    if any(is_traced(leaf) for leaf in jax.tree.leaves(value)):
        out: Any = jnp.asarray(value, dtype=float)
    else:
        try:
            out = np.asarray(value)
        except ValueError:  # rows of unequal length
            raise UndulaError(f"{what} = {shown(value)} is not a rectangular array.") from None
        if out.dtype.kind not in "iuf":
            raise UndulaError(f"{what} = {shown(value)} is not numeric.")
        out = out.astype(float)  # a copy
        if not np.all(np.isfinite(out)):
            raise UndulaError(f"{what} = {shown(out)} is not finite.")
    if out.ndim not in ranks:
        wanted = " or ".join(RANKS[rank] for rank in ranks)
        raise UndulaError(f"{what} has the shape {out.shape}; it must be {wanted}.")
    return out


def common_shape(owner: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The only shape other than () among the named ones; stricter than NumPy, which broadcasts (1,) to (n,)."""
    distinct = set(shapes.values()) - {()}
    if len(distinct) > 1:
        listed = ", ".join(f"{name} has {shape}" for name, shape in shapes.items() if shape != ())
        raise UndulaError(f"{owner}: the shapes differ ({listed}); each must be () or the same (n,).")
    return distinct.pop() if distinct else ()


def parameters(owner: str, shape: tuple[int, ...] = (), **values: Any) -> list[Array]:
    """Scalars and vectors of one length (that of the law's shape, if given) as arrays, in the order given."""
    arrays = {name: number_array(value, f"{owner}: {name}") for name, value in values.items()}
    common_shape(owner, {"the law": shape} | {name: array.shape for name, array in arrays.items()})
    return list(arrays.values())


def time_parameter(value: Any, what: str) -> Any:
    """A finite scalar, NumPy or traced like `number_array`."""
    return number_array(value, what, ranks=(0,))


def horner(coefficients: Float[Array, "order *n"], s: ScalarLike) -> Float[Array, "*n"]:
    """The polynomial c[0] + c[1] s + c[2] s² + ..."""
    return functools.reduce(lambda total, c: total * s + c, coefficients[::-1])


def hold(t: Any, low: Any, high: Any) -> Float[Array, ""]:
    """t clamped to [low, high]; at the ends the slope is that of the interior.

    Not `jnp.clip`: JAX gives it the slope 1/2 at the ends, and any acceleration there would be wrong.
    """
    return jnp.where(t < low, low, jnp.where(t > high, high, t))


class Law(eqx.Module):
    """A motion law: a number or a vector as a function of time.

    `law(t)` gives value, rate and acceleration. Laws add, subtract and multiply with each other and with
    numbers and arrays; a scalar law combines with any vector law. To define a law of your own, subclass
    `Law`, keep its parameters in array fields, and define `value` and `shape`.
    """

    def __repr__(self) -> str:  # in one line, for error messages
        return eqx.tree_pformat(self, width=10_000)

    __array_ufunc__ = None  # so that NumPy leaves `array * law` to the law instead of multiplying element by element

    def __check_init__(self):
        """Refuses a law of the user whose value has another shape than it says, or cannot be traced."""
        if type(self).value.__module__.startswith("undula."):
            return  # checked by the library's own tests
        _check_value(self, type(self).__name__, "value")

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The value's shape: () or (n,)."""

    @abc.abstractmethod
    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        """The value at the time t [s]; must consist of operations that JAX can differentiate twice."""

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
        return _combine().Sum(self, other)

    def __radd__(self, other: Any) -> "Law":
        return _combine().Sum(other, self)

    def __sub__(self, other: Any) -> "Law":
        return _combine().Sum(self, _combine().Negative(other))

    def __rsub__(self, other: Any) -> "Law":
        return _combine().Sum(other, _combine().Negative(self))

    def __mul__(self, other: Any) -> "Law":
        return _combine().Product(self, other)

    def __rmul__(self, other: Any) -> "Law":
        return _combine().Product(other, self)

    def __neg__(self) -> "Law":
        return _combine().Negative(self)


def _combine() -> Any:
    """The module of sums and products, which are laws themselves."""
    from undula.laws import combine

    return combine


class Constant(Law):
    """A law with a constant value.

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


class Function(Law):
    """A law from a function of time, written with `jax.numpy`.

    The function is not a parameter: values that it closes over are not differentiated with the law's leaves,
    and two laws are equal only if they hold the same function. For parameters of your own, subclass `Law`.

    **Arguments:**

    - `fn`: takes t [s], a scalar array, and returns an array of the given shape.
    - `shape`: () or (n,).
    """

    fn: Callable[[Array], Any] = eqx.field(static=True)
    fn_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, fn: Any, shape: Sequence[int] = ()):
        if not callable(fn):
            raise UndulaError(f"Function: fn = {shown(fn)}; it must be a function of t [s].")
        if (
            not isinstance(shape, list | tuple)
            or len(shape) > 1
            or any(not isinstance(n, int | np.integer) for n in shape)
        ):
            raise UndulaError(f"Function: shape = {shown(shape)} is not allowed; it must be () or (n,).")
        self.fn, self.fn_shape = fn, tuple(int(n) for n in shape)
        try:
            hash(fn)  # a static part of a pytree must be hashable, or jit fails far from here
        except TypeError as error:
            raise UndulaError(f"Function: fn = {shown(fn)} cannot be hashed, which JAX needs.") from error
        _check_value(self, "Function", f"fn = {getattr(fn, '__name__', shown(fn))}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.fn_shape

    def value(self, t: ScalarLike) -> Float[Array, "..."]:
        return jnp.asarray(self.fn(jnp.asarray(t, dtype=float)), dtype=float)


def _check_value(law: Law, owner: str, what: str) -> None:
    """Refuses a law whose value cannot be traced, or has another shape than the law."""
    try:
        found = jax.eval_shape(lambda t: jnp.asarray(law.value(t), dtype=float), jax.ShapeDtypeStruct((), float)).shape
    except UndulaError:
        raise
    except Exception as error:
        raise UndulaError(f"{owner}: {what} cannot be traced by JAX as a law: {reason(error)}.") from error
    if found != tuple(law.shape):
        raise UndulaError(f"{owner}: {what} returns the shape {found}; it must be {law.shape}, the shape of the law.")


@quickly_compiled
def law_value(law: Law, t: Any) -> Any:
    """The value of a law at a time [s], for use outside compiled functions."""
    return law.value(t)


def as_law(value: Any) -> Law:
    """value itself if it is a law; a number or an array (n,) as a `Constant`."""
    return value if isinstance(value, Law) else Constant(value)


def motion_law(value: Any, shape: tuple[int, ...] | None, what: str) -> Law:
    """A law of the given shape, or of any; anything else is refused with the law to write instead."""
    if not isinstance(value, Law):
        instead = instead_of(value, shape or ()) or "a law, such as un.laws.Sinusoid"
        raise ModelError(f"{what} = {shown(value)} is not a law; it must be {instead}.")
    if shape is not None and value.shape != shape:
        raise ModelError(f"{what} has the shape {value.shape}; it must be {shape or 'one number'}.")
    return value


def instead_of(value: Any, shape: tuple[int, ...]) -> str:
    """The law that stands for a function, a sequence of laws, or numbers; "" for anything else."""
    if callable(value):
        return f"un.laws.Function({getattr(value, '__name__', 'f')}, shape={shape}), with a function of t alone"
    if isinstance(value, list | tuple) and any(isinstance(x, Law) or callable(x) for x in value):
        return "a vector law: un.laws.stack([...]) joins laws and numbers"
    if isinstance(value, int | float | list | tuple | np.ndarray | jax.Array) and not isinstance(value, bool):
        return f"un.laws.Constant({shown(value)}), if it is constant"
    return ""


def law_of(value: Any, shape: tuple[int, ...], what: str, low: float = -np.inf) -> Law:
    """The law given by a user, or a constant law from a number or an array; raises an error if its shape is wrong, or if
    it is constant and less than `low`."""
    if not isinstance(value, Law):
        if callable(value) or (
            isinstance(value, list | tuple) and any(isinstance(x, Law) or callable(x) for x in value)
        ):
            raise UndulaError(f"{what} = {shown(value)} is not numeric; it must be {instead_of(value, shape)}.")
        value = number_array(value, what, (len(shape),))
        if not is_traced(value) and value.size and value.min() < low:
            raise UndulaError(f"{what} = {value.tolist()}; it must be at least {low:g}.")
        value = Constant(value)
    if value.shape != shape:
        raise UndulaError(f"{what} has the shape {value.shape}; it must be {shape or 'one number'}.")
    return value
