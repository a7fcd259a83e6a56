"""What several entries with rods share."""

import numpy as np

from undula.gallery.scenario import Parameter

DOWN = np.stack([(0, 0, -1.0), (1, 0, 0), (0, -1, 0)], 1)  # a rod along -z that bends in the x-z plane about its own z
RUBBER, STEEL, CLAMP = (0.16, 0.45, 0.70), (0.45, 0.48, 0.52), (0.35, 0.35, 0.38)


def modes(count: int, strains: str = "each strain") -> Parameter:
    """How many functions of the basis."""
    return Parameter("modes", count, "", f"Legendre polynomials of {strains}", low=1, high=40)


def nodes(count: int) -> Parameter:
    """How many nodes."""
    return Parameter("nodes", count, "", "nodes of the spatial integration", low=1, high=400)


def tip(data, body: str = "tip", sample: int = -1) -> np.ndarray:
    """Position [m] of a body at a sample."""
    return data.body_position.sel(body=body).values[sample]
