"""Motion laws through samples: splines, and motions read from a CSV file."""

import csv
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Float64, ScalarLike

from undula.core.errors import UndulaError, is_traced
from undula.laws.law import Law, hold, horner, number_array

NumpyArray = np.ndarray


class _Spline(Law):
    """Pieces of polynomials; piece i is Σ coefficients[i, k] (t - breaks[i])ᵏ for t from breaks[i] on."""

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
        return horner(self.coefficients[piece], inside - self.breaks[piece])


class CubicSpline(_Spline):
    """The cubic spline through samples: value, rate and acceleration are continuous between the ends.

    Before the first time and after the last it holds the value of that end, at rest: its rate jumps there
    unless the samples end at rest. A periodic one repeats for ever. Without periodicity the ends are
    "not-a-knot"; 2 samples give a straight line, 3 a parabola.

    The leaves are the coefficients of the pieces, so to optimise a motion differentiate with respect to
    the samples: build the law from `values` inside the function that `jax.grad` sees.

    **Arguments:**

    - `times`: the samples' times [s], (m,), increasing; m at least 2, or 3 if periodic.
    - `values`: (m,) for a scalar law or (m, n) for a vector law.
    - `periodic`: whether the motion repeats after times[-1] - times[0]; then the last sample must equal
      the first (inside `jax.grad` it is taken to).
    """

    def __init__(self, times: Any, values: Any, periodic: bool = False):
        from scipy import interpolate  # heavy: only who makes a spline waits for it

        owner = type(self).__name__
        knots, samples = _samples(owner, times, values, at_least=3 if periodic else 2)
        ends = "periodic" if periodic else "not-a-knot"
        if periodic:
            samples = _closed(owner, samples)

        def solve(y: NumpyArray) -> NumpyArray:
            descending = interpolate.CubicSpline(knots, y, bc_type=ends).c
            return np.swapaxes(descending[::-1], 0, 1)

        self.breaks = jnp.asarray(knots)
        self.coefficients = _coefficients(solve, samples, periodic)
        self.periodic = periodic


class QuinticSpline(_Spline):
    """The spline of degree 5 through samples: four derivatives are continuous between the ends.

    Before the first time and after the last it holds the value of that end, at rest: its rate jumps there
    unless the samples end at rest. The ends are "not-a-knot". The leaves are the coefficients of the
    pieces; see `CubicSpline`.

    **Arguments:**

    - `times`: the samples' times [s], (m,), increasing; m at least 6.
    - `values`: (m,) for a scalar law or (m, n) for a vector law.
    """

    def __init__(self, times: Any, values: Any):
        from scipy import interpolate  # heavy: only who makes a spline waits for it

        knots, samples = _samples("QuinticSpline", times, values, at_least=6)

        def solve(y: NumpyArray) -> NumpyArray:
            spline = interpolate.make_interp_spline(knots, y, k=5)
            return np.stack([spline(knots[:-1], nu=k) / math.factorial(k) for k in range(6)], axis=1)

        self.breaks = jnp.asarray(knots)
        self.coefficients = _coefficients(solve, samples, periodic=False)
        self.periodic = False


class Sampled(CubicSpline):
    """A measured motion: the cubic spline through named columns of samples, usually from a CSV file.

    **Arguments:**

    - `times`, `values`, `periodic`: as in `CubicSpline`.
    - `names`: the names of the elements of the value, one per column (one for a scalar law).
    """

    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, times: Any, values: Any, names: Sequence[str], periodic: bool = False):
        super().__init__(times, values, periodic)
        self.names = tuple(names)
        columns = math.prod(self.shape)
        if len(self.names) != columns:
            raise UndulaError(f"Sampled: {len(self.names)} names were given; it must be {columns}, one per column.")

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        columns: str | Sequence[str] | None = None,
        time: str | None = None,
        periodic: bool = False,
    ) -> "Sampled":
        """Read a motion from a CSV file whose first row names the columns.

        **Arguments:**

        - `path`: the file; cells are separated by commas, empty lines are skipped.
        - `columns`: names of the value columns, in the order wanted; a single string gives a scalar law,
          a list a vector law. By default all columns but that of the time, as a vector law.
        - `time`: name of the column of the time [s]; by default the first column.
        - `periodic`: as in `CubicSpline`.
        """
        header, rows = _read(path)
        clock = header[0] if time is None else time
        names = [name for name in header if name != clock] if columns is None else columns
        wanted = [names] if isinstance(names, str) else list(names)
        if not wanted:
            raise UndulaError(f"{path}: there is no column of values beside the time column {clock!r}.")
        for name in [clock, *wanted]:
            if name not in header:
                raise UndulaError(f"{path} has no column {name!r}; its columns are {', '.join(header)}.")
        at_least = 3 if periodic else 2
        if len(rows) < at_least:
            raise UndulaError(f"{path}: there are {len(rows)} rows of samples; at least {at_least} are needed.")
        times = _column(path, header, rows, clock)
        late = np.flatnonzero(np.diff(times) <= 0)
        if late.size:
            k = late[0]
            raise UndulaError(
                f"{path}, line {rows[k + 1][0]}: {clock} = {times[k + 1]} s does not come after "
                f"{times[k]} s in the row before; times must increase."
            )
        table = np.stack([_column(path, header, rows, name) for name in wanted], axis=1)
        return cls(times, table[:, 0] if isinstance(names, str) else table, wanted, periodic)


def _samples(owner: str, times: Any, values: Any, at_least: int) -> tuple[NumpyArray, Any]:
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
    """Samples of a periodic motion, the last one exactly the first."""
    if is_traced(samples):
        return samples
    if not np.allclose(samples[0], samples[-1], rtol=1e-12, atol=1e-12):
        raise UndulaError(
            f"{owner}: values[-1] = {samples[-1].tolist()} is not values[0] = {samples[0].tolist()}; "
            "a periodic motion must end where it starts."
        )
    return np.concatenate([samples[:-1], samples[:1]])


def _coefficients(
    solve: Callable[[NumpyArray], NumpyArray], samples: Any, periodic: bool
) -> Float[Array, "pieces order ..."]:
    """The coefficients of the pieces, from SciPy.

    SciPy cannot take traced samples, but the coefficients are linear in them: they are then the samples
    times the coefficients of the splines through the unit vectors.
    """
    if not is_traced(samples):
        return jnp.asarray(solve(samples))
    count = len(samples)
    if not periodic:
        return jnp.tensordot(solve(np.eye(count)), samples, axes=1)
    unit = np.eye(count - 1)
    return jnp.tensordot(solve(np.concatenate([unit, unit[:1]])), samples[:-1], axes=1)


def _read(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header of a CSV file, and its rows as (line number, cells)."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets write a mark first
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        raise UndulaError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UndulaError(f"{path} cannot be read as a CSV file: {error}.") from None
    if not rows:
        raise UndulaError(f"{path} is empty; its first row must name the columns.")
    header = [cell.strip() for cell in rows[0][1]]
    if any(_is_number(name) for name in header):
        raise UndulaError(f"{path}: the first row is {', '.join(header)}; it must name the columns.")
    for name in header:
        if header.count(name) > 1:
            raise UndulaError(f"{path}: the column {name!r} occurs {header.count(name)} times; names must differ.")
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise UndulaError(
                f"{path}, line {line}: there are {len(row)} cells; it must be {len(header)}, one per column."
            )
    return header, rows[1:]


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _column(
    path: str | os.PathLike[str], header: list[str], rows: list[tuple[int, list[str]]], name: str
) -> Float64[NumpyArray, " m"]:
    """One column as numbers."""
    k = header.index(name)
    for line, row in rows:
        if not _is_number(row[k]):
            raise UndulaError(f"{path}, line {line}, column {name!r}: {row[k]!r} is not a finite number.")
    return np.array([float(row[k]) for _, row in rows])
