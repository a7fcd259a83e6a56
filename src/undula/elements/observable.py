"""Quantities of an element that a run can record."""

from typing import NamedTuple


class Observable(NamedTuple):
    """A quantity: its name, unit, dimensions of its values besides time and elements, and meaning.

    Dimensions with predefined labels are "axis" (3), "quat" (4), "twist" (6), "wrench" (6) and "strain" (6).

    `integral`: the observable whose integral over time it is. Where `observe` does not return it, a run integrates it from its
    first sample on, through a spline of the samples.
    """

    name: str
    unit: str
    dims: tuple[str, ...] = ()
    long_name: str = ""
    integral: str = ""
