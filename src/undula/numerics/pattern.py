"""Which residuals depend on which unknowns: finite differences can share a residual (Curtis, Powell and Reid, 1974)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics.pick import pick


class Pattern(NamedTuple):
    """The dependence of n residuals on n unknowns.

    - `blocks` (b, m): the unknowns, one row for each set that shares no residual with the others; a single row if these
      sets differ in size.
    - `couples` (b, m, m): in a block, whether the row's residual depends on the column's unknown.
    - `colours` (b, m): unknowns of the same colour have no residual in common; `colour_count`: number of colours.
    """

    blocks: np.ndarray
    couples: np.ndarray
    colours: np.ndarray
    colour_count: int

    def split(self, x: Float[Array, "n"]) -> Float[Array, "b m"]:
        """A vector over the unknowns, block by block."""
        return pick(x, self.blocks)

    def join(self, x: Float[Array, "b m"]) -> Float[Array, "n"]:
        """The inverse of `split`."""
        return pick(x.reshape(-1), np.argsort(self.blocks.reshape(-1)))


def dense_pattern(n: int) -> Pattern:
    """The pattern of a full matrix: every residual depends on every unknown."""
    return Pattern(np.arange(n)[None], np.ones((1, n, n), bool), np.arange(n)[None], n)


def pattern_of(couples: np.ndarray) -> Pattern:
    """The pattern of a matrix (n, n) of booleans: whether the row's residual depends on the column's unknown."""
    n = len(couples)
    shared = (couples.astype(float).T @ couples.astype(float)) > 0  # some residual depends on both
    colours = np.full(n, -1)
    for j in range(n):
        taken = set(colours[:j][shared[j, :j]])
        colours[j] = next(c for c in range(n) if c not in taken)
    blocks = _components(couples)
    within = np.stack([couples[np.ix_(b, b)] for b in blocks])
    return Pattern(blocks, within, colours[blocks], int(colours.max(initial=-1)) + 1)


def _components(couples: np.ndarray) -> np.ndarray:
    """Sets of unknowns that are coupled, directly or not, one row per set; a single row if the sets differ in size."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(couples, directed=False)
    sets = [np.flatnonzero(label == k) for k in range(count)]
    return np.stack(sets) if len({len(x) for x in sets}) == 1 else np.arange(len(couples))[None]
