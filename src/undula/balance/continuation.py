"""Families of equilibria: load paths, buckling, snap-through."""

from collections.abc import Callable, Sequence

from undula.balance.equilibrium import Equilibrium, equilibrium
from undula.core.errors import UndulaError, function_of, shown
from undula.model.state import State
from undula.model.system import System


def continuation(
    family: Callable[[float], System], values: Sequence[float], state: State | None = None, tolerance: float = 1e-10
) -> list[Equilibrium]:
    """Equilibria of the systems `family(value)`, each found from the previous one: load paths, buckling, snap-through.

    If an equilibrium is not `stable`, the path has passed a critical load.
    """
    function_of(family, ("value",), "family")
    if not isinstance(values, list | tuple | range) and getattr(values, "ndim", 0) != 1:
        raise UndulaError(f"values = {shown(values)}; it must be a sequence of numbers.")
    out: list[Equilibrium] = []
    for value in values:
        guess = out[-1].state if out else state
        out.append(equilibrium(family(value), guess, tolerance=tolerance))
    return out
