"""Which efforts change with which coordinates: on different branches of a tree they do not, and differences can share a
residual (Curtis, Powell and Reid, 1974)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from undula.balance.reduced import unknown_velocities
from undula.model.system import System
from undula.numerics.pick import pick


class Pattern(NamedTuple):
    """What is independent of what among n unknowns and as many efforts.

    - `blocks` (b, m): the unknowns, a row for each set that shares no effort with the others; one row of all of them unless
      these sets are equally many.
    - `couples` (b, m, m): in a block, the row's effort changes with the column's unknown.
    - `colours` (b, m): unknowns of one colour change no effort in common; `count`: of the colours.
    """

    blocks: np.ndarray
    couples: np.ndarray
    colours: np.ndarray
    count: int

    def split(self, x: Float[Array, "n"]) -> Float[Array, "b m"]:
        """A vector over the unknowns, block by block."""
        return pick(x, self.blocks)

    def join(self, x: Float[Array, "b m"]) -> Float[Array, "n"]:
        """The inverse of `split`."""
        return pick(x.reshape(-1), np.argsort(self.blocks.reshape(-1)))


def pattern(system: System, separable: bool = True) -> Pattern:
    """Of the unknown velocities of a system. Constraints, or efforts of any dependence (not `separable`), couple all."""
    which = unknown_velocities(system)
    n = len(which)
    if system.constrained or not separable or system.topology.mimics:
        return Pattern(np.arange(n)[None], np.ones((1, n, n), bool), np.arange(n)[None], n)
    on_path = _moves(system)[:, which]  # (links, n)
    below = on_path.astype(float)
    couples = (below.T @ below) > 0  # some link is moved by both
    for drive in system.efforts:  # a controller may use all the coordinates that it was given
        own = np.flatnonzero(np.isin(which, 6 + np.array(drive.which)))
        couples[np.ix_(own, own)] = True
    shared = (couples.astype(float).T @ couples.astype(float)) > 0  # some effort changes with both
    colours = np.full(n, -1)
    for j in range(n):
        taken = set(colours[:j][shared[j, :j]])
        colours[j] = next(c for c in range(n) if c not in taken)
    blocks = _components(couples)
    within = np.stack([couples[np.ix_(b, b)] for b in blocks])
    return Pattern(blocks, within, colours[blocks], int(colours.max(initial=-1)) + 1)


def _components(couples: np.ndarray) -> np.ndarray:
    """The unknowns by what they are coupled to, directly or not, one row a set; a single row if the sets differ in size."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(couples, directed=False)
    sets = [np.flatnonzero(label == k) for k in range(count)]
    return np.stack(sets) if len({len(x) for x in sets}) == 1 else np.arange(len(couples))[None]


def _moves(system: System) -> np.ndarray:
    """(links, 6 + nv) booleans: the velocity moves the link."""
    top = system.topology
    links = len(top.link_parents) + 1
    own = np.zeros((links, 6 + top.nv), bool)
    own[0, :6] = True
    first = top.nv - top.strain_count
    own[top.rate_link, 6 + np.arange(len(top.rate_link))] = True
    for g in system.rods:
        for nodes, places in zip(g.links, g.coordinates):
            own[np.ix_(nodes, 6 + first + np.array(places))] = True
    for l, parent in enumerate(top.link_parents, start=1):
        own[l] |= own[parent]
    return own
