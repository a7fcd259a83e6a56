"""Errors and input checks; a message is one sentence that names the invalid item, its value and what is allowed.

JAX and NumPy are imported by the checks that need them: the command refuses bad input without them. Values that JAX is
tracing cannot be checked, and are not.
"""

import inspect
import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any


class UndulaError(ValueError):
    """Invalid input to undula; the message is one sentence for the user."""


class ModelError(UndulaError):
    """A model that cannot be built."""


class OutputError(UndulaError):
    """Valid output that could not be written, e.g. because of a full disk or a closed pipe."""


def is_traced(value: Any) -> bool:
    """Whether JAX is tracing a value, to differentiate or compile, so that it cannot be checked."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def shown(value: Any) -> str:
    """A value in a message: one line, not too long."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', value)}"
    if is_traced(value):
        return f"a traced array of the shape {value.shape}"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # an array or number of NumPy or JAX
        text = repr(value.tolist()) if value.size <= 36 else f"an array of the shape {value.shape}"
    else:
        text = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(value).split()))
    return text if len(text) <= 200 else f"{text[:200]}..."


def reason(error: Exception) -> str:
    """Why a function of the user failed, in one line, with a remedy where JAX could not trace it."""
    text = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    import jax

    if isinstance(error, jax.errors.TracerBoolConversionError):
        return "JAX cannot trace it: use jnp.where instead of `if`, `and`, `or` and comparisons of values"
    if isinstance(error, jax.errors.JAXTypeError):
        return "JAX cannot trace it: use jax.numpy instead of numpy, math and float()"
    if isinstance(error, LookupError):  # its text is the key alone
        text = f"{type(error).__name__} {text}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def instance(value: Any, kind: Any, what: str, wanted: str) -> Any:
    """The value, refused if it is not of a kind; `wanted`: what it must be, in words."""
    if not isinstance(value, kind):
        raise UndulaError(f"{what} = {shown(value)}; it must be {wanted}.")
    return value


def one_of(value: Any, allowed: Iterable[str], what: str) -> Any:
    """The word, refused if it is not among the allowed ones."""
    if not isinstance(value, str) or value not in allowed:
        raise ModelError(f"{what} = {shown(value)}; it must be one of {', '.join(allowed)}.")
    return value


def a_name(value: Any, what: str) -> str:
    """A name, refused if it is not a word."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{what} = {shown(value)}; it must be a name.")
    return value


def a_path(value: Any, what: str) -> Any:
    """The path of a file, refused if it is something else: numbers would be open files."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise UndulaError(f"{what} = {shown(value)}; it must be the path of a file.")
    return value


def a_dataset(value: Any, what: str) -> Any:
    """The samples of a run, refused if they are something else."""
    if not hasattr(value, "data_vars"):
        remedy = "; give the `data` of the run" if hasattr(value, "data") and hasattr(value, "status") else ""
        raise UndulaError(
            f"{what} is of the type {type(value).__name__}; it must be a dataset, as a run records it{remedy}."
        )
    return value


def _is_single(value: Any) -> bool:
    """Whether a value may be one number."""
    return not isinstance(value, bool | str | bytes | list | tuple) and not getattr(value, "ndim", 0)


def whole(value: Any, what: str, at_least: int = 0, at_most: int = 2**31 - 1) -> Any:
    """A whole number; a traced one is returned as it is."""
    if is_traced(value):
        return value
    try:
        good = _is_single(value) and float(value) == int(value) and at_least <= int(value) <= at_most
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        high = isinstance(value, int | float) and value > at_most
        wanted = f"of at most {at_most}" if high else f"of at least {at_least}"
        raise UndulaError(f"{what} = {shown(value)} is not allowed; it must be a whole number {wanted}.")
    return int(value)


def flag(value: Any, what: str) -> bool:
    """True or False."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":  # nor NumPy's
        raise ModelError(f"{what} = {shown(value)}; it must be True or False.")
    return bool(value)


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """One name, or several, as a tuple."""
    several = value if isinstance(value, list | tuple) else (value,)
    if not several:
        raise ModelError(f"{what} = {shown(value)}; at least one name must be given.")
    return tuple(a_name(x, what) for x in several)


def real(
    value: Any, what: str, low: float = -math.inf, high: float = math.inf, unit: str = "", above: float | None = None
) -> Any:
    """A finite number from `low` to `high`, greater than `above`."""
    if is_traced(value):
        return value
    try:
        # first a number of Python: where JAX traces something else, comparisons of its arrays are traced, too
        x = float(value) if _is_single(value) else math.nan
        good = math.isfinite(x) and low <= x <= high and (above is None or x > above)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        wanted = "a finite number"
        if above is not None:
            wanted += f" greater than {above:g}" + (f" and at most {high:g}" if high < math.inf else "")
        elif low > -math.inf:
            wanted += f" between {low:g} and {high:g}" if high < math.inf else f" of at least {low:g}"
        raise UndulaError(f"{what} = {shown(value)}{' ' if unit else ''}{unit} is not allowed; it must be {wanted}.")
    return value


def function_of(value: Any, names: Sequence[str], what: str, otherwise: str = "") -> Any:
    """A function, refused if it cannot be called with the named arguments; `otherwise`: a remedy."""
    wanted = f"it must be a function of ({', '.join(names)})" + otherwise
    if not callable(value) or isinstance(value, type):
        raise ModelError(f"{what} = {shown(value)}; {wanted}.")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of some built-in functions
        return value
    try:
        signature.bind(*names)
    except TypeError:
        raise ModelError(f"{what} is a function of {signature}; {wanted}.") from None
    return value


def positive(value: Any, what: str, unit: str = "") -> None:
    """Raises a `ModelError` unless a number is finite and positive; a traced one is not checked."""
    if is_traced(value):
        return
    try:
        x = float(value) if _is_single(value) else math.nan
        good = math.isfinite(x) and x > 0
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise ModelError(f"{what} = {shown(value)}{' ' if unit else ''}{unit}; it must be positive.")


def positive_or_nan(value: Any, what: str, unit: str = "") -> Any:
    """The number, checked to be positive; a traced one that is not becomes NaN, since a power would lose its sign."""
    positive(value, what, unit)
    if not is_traced(value):
        return value
    import jax.numpy as jnp

    return jnp.where(value > 0, value, jnp.nan)


def numbers(value: Any, what: str) -> Any:
    """A new array of NumPy, of finite floats, from a value that is not traced."""
    import numpy as np

    try:
        out = np.asarray(value)
        if out.dtype.kind not in "iufO":
            raise TypeError
        out = out.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} = {shown(value)} is not numeric.") from None
    if not np.all(np.isfinite(out)):
        raise ModelError(f"{what} = {shown(out)} is not finite.")
    return out


def as_vector(value: Any, size: int, what: str) -> Any:
    """value as an array of `size` finite numbers (0: a scalar); the entries of a traced value are not checked."""
    leaves = value if isinstance(value, list | tuple) else [value]
    if any(is_traced(x) for x in leaves):
        import jax.numpy as jnp

        out: Any = jnp.asarray(value, dtype=float)
    else:
        out = numbers(value, what)
    if out.shape != ((size,) if size else ()):
        wanted = f"{size} numbers" if size else "one number"
        raise ModelError(f"{what} has the shape {out.shape}; it must be {wanted}.")
    return out


def not_negative(value: Any, what: str) -> Any:
    """Numbers, refused if one is not finite or negative; a traced value is returned as it is."""
    if not is_traced(value) and (numbers(value, what) < 0).any():
        raise ModelError(f"{what} = {shown(value)} is not allowed; it must not be negative.")
    return value
