"""How well the nodes of a rod resolve its shape, by integrating the same strains over pieces of half the length."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.joints.rod.group import Pieces, RodGroup
from undula.joints.rod.pieces import refuse_overwound
from undula.model.arguments import checked
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled


class SpatialError(NamedTuple):
    """Estimated error of the tip's position [m] and direction [rad] with respect to the root, for given strains."""

    position: float
    angle: float


@quickly_compiled
def _tips(group: RodGroup, q):
    """Poses of the tips, from the pieces as they are and from their halves."""
    own = group.own(q)
    halves = Pieces(
        group.half_shapes,
        group.half_reference,
        jnp.repeat(group.steps / 2, 2, axis=1),
        group.strains,
        group.present,
        group.coordinates,
        group.total,
    )

    def tip(g):
        R, p = g.poses(g.bend(own))

        def follow(carry, x):
            A, a = carry
            return (A @ x[0], a + A @ x[1]), None

        start = jnp.eye(3), jnp.zeros(3)
        return jax.vmap(lambda R, p: jax.lax.scan(follow, start, (R, p))[0])(R, p)

    return tip(group), tip(halves)


@checked
def spatial_error(system: System, state: State) -> dict[str, SpatialError]:
    """For each rod, the error of integration in the pose of its tip in a state, estimated by halving the pieces.

    It says nothing about the basis: whether the modes can represent the shape.
    """
    refuse_overwound(system.rods, system.labels.rods, state.q, "the state cannot be represented")
    out = {}
    for group in system.rods:
        (R, p), (R2, p2) = jax.tree.map(np.asarray, _tips(group, state.q))
        order = 4 if group.shapes.shape[1] == 2 else 6
        share = 2**order / (2**order - 1)  # Richardson
        for k, rod in enumerate(group.rods):
            turn = np.arccos(np.clip((np.trace(R[k].T @ R2[k]) - 1) / 2, -1, 1))
            out[system.labels.rods[rod]] = SpatialError(
                float(share * np.linalg.norm(p2[k] - p[k])), float(share * turn)
            )
    return out
