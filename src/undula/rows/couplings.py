"""Gears and linkages between coordinates."""

from typing import Any

import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, as_vector, is_traced, names_of
from undula.elements.row import RowModel
from undula.elements.view import View
from undula.rows.vectors import dot


class Coupling(RowModel):
    """A gear or linkage between coordinates: sum of coefficients times coordinates = `offset` [rad or m]."""

    coefficients: Array
    offset: Array

    def __init__(self, name: str, coordinates: tuple[str, ...], coefficients: Any, offset: float = 0.0):
        self.name, self.sites = name, ()
        self.coordinates = names_of(coordinates, f"coordinates of the coupling '{name}'")
        if len({*self.coordinates}) < len(self.coordinates):
            raise ModelError(
                f"the coupling '{name}' has the coordinates {', '.join(self.coordinates)}; name each only once."
            )
        self.coefficients = as_vector(coefficients, len(self.coordinates), f"coefficients of the coupling '{name}'")
        if not is_traced(self.coefficients) and not np.any(self.coefficients):
            raise ModelError(f"the coefficients of the coupling '{name}' are all zero; at least one must not be.")
        self.offset = as_vector(offset, 0, f"offset of the coupling '{name}'")

    def gap(self, at: View) -> Float[Array, "1"]:
        return (dot(self.coefficients, at.x) - self.offset)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("",)
