"""Sparsity of the tangent: which efforts depend on which coordinates; different branches of a tree are independent."""

import numpy as np

from undula.model.packing import Group
from undula.model.sites import MovingSection, PackedSite
from undula.model.system import System
from undula.numerics.pattern import Pattern, dense_pattern, pattern_of


def pattern(system: System) -> Pattern:
    """Pattern over the unknown velocities. Constraints, mimics, and elements that see the whole state couple all of them."""
    which = system.topology.unknown
    n = len(which)
    seeing = any(g.form.wants_whole or g.form.wants_plant for g in system.forces)
    if system.constrained or system.topology.mimics or seeing:
        return dense_pattern(n)
    moves = _moves(system)
    below = moves[:, which].astype(float)  # (links, n)
    couples = (below.T @ below) > 0  # both move some link
    for group in system.forces:
        for k in range(group.size):
            own = np.flatnonzero(_seen(system, group, k, moves)[which])
            couples[np.ix_(own, own)] = True  # an element's efforts may depend on everything it sees
    return pattern_of(couples)


def _seen(system: System, group: Group, k: int, moves: np.ndarray) -> np.ndarray:
    """(6 + nv,) booleans: the velocities that move an element's sites, and those of its coordinates."""
    out = np.zeros(6 + system.nv, bool)
    out[6 + np.array(group.coordinates[k], dtype=int)] = True
    for site in group.sites:
        out |= _at_site(system, site, k, moves)
    if group.along:
        g, m = group.rods[k]
        rods = system.rods[g]
        out |= moves[np.array(rods.links[m])].any(0)
    return out


def _at_site(system: System, site: PackedSite, k: int, moves: np.ndarray) -> np.ndarray:
    top = system.topology
    body = site.bodies[k]
    out = moves[top.link_of_body[body]].copy() if body < top.body_count else np.zeros(6 + system.nv, bool)
    if site.section is not None:
        own = site.section if isinstance(site.section, MovingSection) else site.section.pieces
        out[6 + system.nv - own.total + np.array(own.coordinates[k])] = True
    return out


def _moves(system: System) -> np.ndarray:
    """(links, 6 + nv) booleans: whether a velocity moves a link."""
    top = system.topology
    own = np.zeros((top.link_count, 6 + top.nv), bool)
    own[0, :6] = True
    first = top.nv - top.strain_count
    rates, coordinates = top.terms
    own[top.rate_link[rates], 6 + coordinates] = True
    for g in system.rods:
        for nodes, places in zip(g.links, g.coordinates):
            own[np.ix_(np.array(nodes), 6 + first + np.array(places))] = True
    for l, parent in enumerate(top.link_parents, start=1):
        own[l] |= own[parent]
    return own
