"""Which efforts change with which coordinates: on different branches of a tree they do not, and differences can share a
residual (Curtis, Powell and Reid, 1974)."""

from typing import NamedTuple

import numpy as np

from undula.constraints.reduction import unknown_velocities
from undula.model.system import System


class Pattern(NamedTuple):
    """`couples` (n, n): the row's effort changes with the column's unknown; `colours` (n,): unknowns of one colour change no
    effort in common; `count`: of the colours."""

    couples: np.ndarray
    colours: np.ndarray
    count: int


def pattern(system: System, separable: bool = True) -> Pattern:
    """Of the unknown velocities of a system. Constraints, or efforts of any dependence (not `separable`), couple all."""
    which = unknown_velocities(system)
    n = len(which)
    if system.constrained or not separable or system.topology.mimics:
        return Pattern(np.ones((n, n), bool), np.arange(n), n)
    on_path = _moves(system)[:, which]  # (links, n)
    below = on_path.astype(float)
    couples = (below.T @ below) > 0  # some link is moved by both
    shared = (couples.astype(float).T @ couples.astype(float)) > 0  # some effort changes with both
    colours = np.full(n, -1)
    for j in range(n):
        taken = set(colours[:j][shared[j, :j]])
        colours[j] = next(c for c in range(n) if c not in taken)
    return Pattern(couples, colours, int(colours.max(initial=-1)) + 1)


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
