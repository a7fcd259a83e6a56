"""What several entries with rods share."""

import numpy as np

import undula as un
from undula.scenario.scenario import Parameter

UP = np.stack([(0, 0, 1.0), (0, 1, 0), (-1, 0, 0)], 1)  # a rod along z
DOWN = np.stack([(0, 0, -1.0), (1, 0, 0), (0, -1, 0)], 1)  # a rod along -z that bends in the x-z plane about its own z
RUBBER, STEEL, CLAMP = (0.16, 0.45, 0.70), (0.45, 0.48, 0.52), (0.35, 0.35, 0.38)


def soft(p: dict, strains: str, **more) -> un.Rod:
    """A rod of a circular section with the parameters of `material`."""
    return un.Rod(
        length=p["length"],
        section=un.rods.Circle(p["diameter"]),
        E=p["E"],
        density=p["density"],
        damping=p["damping"],
        strains=strains,
        **dict(modes=p["modes"], nodes=p["nodes"], colour=RUBBER) | more,
    )


def material(length: float, diameter: float, E: float, density: float, damping: float = 0.0) -> tuple[Parameter, ...]:
    """What a rod is made of."""
    return (
        Parameter("length", length, "m", "length of the rod", low=0, open_low=True),
        Parameter("diameter", diameter, "m", "diameter of its section", low=0, open_low=True),
        Parameter("E", E, "Pa", "Young's modulus", low=0, open_low=True),
        Parameter("density", density, "kg/m^3", "density", low=0, open_low=True),
        Parameter("damping", damping, "s", "Kelvin-Voigt damping: viscosity over elasticity", low=0),
    )


def modes(count: int, strains: str = "each strain", basis: str = "Legendre") -> Parameter:
    """How many functions of the basis."""
    return Parameter("modes", count, "", f"{basis} polynomials of {strains}", low=1, high=40)


def nodes(count: int) -> Parameter:
    """How many nodes."""
    return Parameter("nodes", count, "", "nodes of the spatial integration", low=1, high=400)


def tip(data, body: str = "tip", sample: int = -1) -> np.ndarray:
    """Position [m] of a body at a sample."""
    return data.body_position.sel(body=body).values[sample]
