"""Gears and linkages between coordinates."""

from typing import Any

from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import as_vector
from undula.elements.row import RowModel
from undula.elements.view import View
from undula.rows.vectors import dot


class Coupling(RowModel):
    """A gear or linkage between coordinates: sum of coefficients times coordinates = `offset` [rad or m]."""

    coefficients: Array
    offset: Array

    def __init__(self, name: str, coordinates: tuple[str, ...], coefficients: Any, offset: float = 0.0):
        self.name, self.sites, self.coordinates = name, (), tuple(coordinates)
        self.coefficients = as_vector(coefficients, len(self.coordinates), f"coefficients of the coupling '{name}'")
        self.offset = as_vector(offset, 0, f"offset of the coupling '{name}'")

    def gap(self, at: View) -> Float[Array, "1"]:
        return (dot(self.coefficients, at.x) - self.offset)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("",)
