"""The nodes of a rod: where the dynamics and the loads along it are integrated."""

from typing import NamedTuple

import jax

from undula.core.errors import UndulaError
from undula.model.arguments import checked
from undula.model.system import System


class RodNodes(NamedTuple):
    """The nodes of a rod, from its root to its tip.

    - `abscissae` (n,) [m]; `weights` (n,) [m]: those of the quadrature, whose sum is the length of the rod; zero at nodes
      that were added to carry bodies. `bodies`: their names.
    """

    abscissae: jax.Array
    weights: jax.Array
    bodies: tuple[str, ...]


@checked
def nodes(system: System, rod: str) -> RodNodes:
    """The nodes of a rod of a system, by the name of the rod: the integral of f along it is the sum of weights f(abscissae)."""
    names = system.labels.rods
    if rod not in names:
        raise UndulaError(f"'{system.name}' has no rod '{rod}'; its rods are {', '.join(names) or '(none)'}.")
    number = names.index(rod)
    group, k = next((g, g.rods.index(number)) for g in system.rods if number in g.rods)
    bodies = tuple(system.body_names[x] for x in system.topology.rods[number])
    return RodNodes(group.abscissae[k, 1:], group.weights[k], bodies)
