"""Weightless inertia at a site."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, is_traced, numbers
from undula.elements.force import ForceModel
from undula.elements.site import Site, as_site


class AddedInertia(ForceModel):
    """An inertia that moves with a site but has no weight, such as the added mass of the fluid around a body.

    **Arguments:**

    - `site`: the name of a body, or a site; `matrix` (6, 6) over (V, W), symmetric, constant in the site's frame [kg, kg m,
      kg m^2]; or (6,), its diagonal.
    """

    matrix: Float[Array, "6 6"]

    account: ClassVar[str] = "conservative"
    recorded: ClassVar[bool] = False

    def __init__(self, site: str | Site, matrix: Any, name: str | None = None):
        place = as_site(site, "an added inertia")
        self.name, self.sites, self.coordinates = name, (place,), ()
        what = f"matrix of the added inertia on {place.words}"
        M: Any = matrix if is_traced(matrix) else numbers(matrix, what)
        if M.shape == (6,):
            M = M[:, None] * np.eye(6)
        if M.shape != (6, 6):
            raise ModelError(f"{what} has the shape {M.shape}; it must be (6,) or (6, 6).")
        if not is_traced(M):
            if np.abs(M - M.T).max() > 1e-9 * np.abs(M).max(initial=1e-300):
                raise ModelError(f"{what} is not symmetric.")
            least = float(np.linalg.eigvalsh(M)[0])
            if least < -1e-9 * np.abs(M).max(initial=0.0):
                raise ModelError(f"{what} has the eigenvalue {least:.6g}; none may be negative.")
        self.matrix = M

    def inertia(self):
        return self.matrix[None]
