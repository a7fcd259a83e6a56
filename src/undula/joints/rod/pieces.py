"""Limit of what the pieces of a rod can represent: a rotation of at most pi between two nodes.

The exponential of a piece is a power series in its squared angle, accurate to rounding up to about 2 rad and to 1e-9 at
pi; beyond that, the error grows without limit. These checks work on numbers, outside compiled functions.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from undula.core.errors import UndulaError, is_traced
from undula.joints.rod import magnus
from undula.joints.rod.group import RodGroup

MAX_TURN = math.pi  # of a piece [rad]


def piece_turns(group: RodGroup, q: np.ndarray) -> np.ndarray:
    """(..., rods, pieces): rotation angles of the pieces [rad] in configurations (..., nq)."""
    own = q[..., q.shape[-1] - group.total :][..., np.array(group.coordinates)]
    field = np.einsum("rgsnm,...rm->...rgsn", np.asarray(group.shapes), own)
    reference = np.asarray(group.reference)
    points = []
    for g in range(reference.shape[1]):
        bends = {c: reference[:, g, c] for c in group.present if c >= 3}
        for k, c in enumerate(group.strains):
            if c >= 3:
                bends[c] = bends[c] + field[..., g, k, :]
        points.append(bends)
    psi = magnus.increment(points, np.asarray(group.steps))
    shape = (*q.shape[:-1], *group.steps.shape)
    return np.sqrt(sum((np.broadcast_to(psi[c], shape) ** 2 for c in (3, 4, 5) if c in psi), np.zeros(shape)))


def overwound(groups: Sequence[RodGroup], names: Sequence[str], q: np.ndarray) -> tuple[int, str] | None:
    """The first of the configurations (samples, nq) in which a piece of a rod turns too far, with a description; else
    None.

    `names`: of the rods, in the order in which they were defined.
    """
    found = None
    for group in groups:
        turns = piece_turns(group, q)
        beyond = np.asarray((turns > MAX_TURN).any(axis=(1, 2)))
        k = int(np.argmax(beyond))
        if beyond[k] and (found is None or k < found[0]):
            rod, piece = np.unravel_index(int(np.argmax(turns[k])), turns.shape[1:])
            X = np.asarray(group.abscissae)[rod]
            found = (
                k,
                (
                    f"piece {piece + 1} of {turns.shape[2]} of the rod '{names[group.rods[rod]]}', between X = "
                    f"{X[piece]:.4g} and {X[piece + 1]:.4g} m, turns by {turns[k, rod, piece]:.4g} rad"
                ),
            )
    return found


def refuse_overwound(
    groups: Sequence[RodGroup], names: Sequence[str], q: Any, what: str, error: type[UndulaError] = UndulaError
) -> None:
    """Rejects a configuration in which a piece of a rod turns by more than pi; a traced one is not checked."""
    if not groups or is_traced(q) or any(is_traced(x) for x in jax.tree.leaves(groups)):
        return
    found = overwound(groups, names, np.asarray(q)[None])
    if found is not None:
        raise error(f"{what}: {found[1]}; a piece can turn by at most pi: use more nodes, or a smaller strain.")
