"""Measured motions, read from a CSV file."""

import csv
import math
import os
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float64

from undula.core.errors import UndulaError, a_path, names_of
from undula.laws.splines import CubicSpline

NumpyArray = np.ndarray


class Sampled(CubicSpline):
    """A measured motion: the cubic spline through named columns of samples, usually from a CSV file.

    **Arguments:**

    - `times`, `values`, `periodic`: as in `CubicSpline`.
    - `names`: the names of the elements of the value, one per column (one for a scalar law).
    """

    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, times: Any, values: Any, names: Sequence[str], periodic: bool = False):
        super().__init__(times, values, periodic)
        self.names = names_of(names, "Sampled: names")
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
          a list a vector law. By default all columns except the time, as a vector law.
        - `time`: name of the time column [s]; by default the first column.
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


def _read(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header of a CSV file, and its rows as (line number, cells)."""
    a_path(path, "path of a CSV file")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets write a byte-order mark
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
