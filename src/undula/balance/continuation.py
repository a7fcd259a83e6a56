"""Families of equilibria: load paths, buckling, snap-through."""

from collections.abc import Callable, Sequence

from undula.balance.equilibrium import Equilibrium, equilibrium
from undula.model.state import State
from undula.model.system import System


def continuation(
    family: Callable[[float], System], values: Sequence[float], state: State | None = None, tolerance: float = 1e-10
) -> list[Equilibrium]:
    """Equilibria of the systems `family(value)`, each found from the previous one: load paths, buckling, snap-through.

    If an equilibrium is not `stable`, the path has passed a critical load.
    """
    out: list[Equilibrium] = []
    for value in values:
        guess = out[-1].state if out else state
        out.append(equilibrium(family(value), guess, tolerance=tolerance))
    return out
