"""How well the nodes of a rod resolve its shape: the same strains integrated over pieces of half the length."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.joints.rod.group import RodGroup
from undula.joints.rod.pieces import refuse_overwound
from undula.model.system import State, System
from undula.numerics.quick import quickly_compiled


class SpatialError(NamedTuple):
    """Estimated error of the tip's place [m] and direction [rad] with respect to the root, for given strains."""

    position: float
    angle: float


@quickly_compiled
def _tips(group: RodGroup, q):
    """Poses of the tips, from the pieces as they are and from their halves."""
    own = group.own(q)
    halves = RodGroup(
        **{k: getattr(group, k) for k in group.__dataclass_fields__}
        | dict(shapes=group.half_shapes, reference=group.half_reference, steps=jnp.repeat(group.steps / 2, 2, axis=1))
    )

    def tip(g):
        R, p = g.poses(g.bend(own))

        def follow(carry, x):
            A, a = carry
            return (A @ x[0], a + A @ x[1]), None

        start = jnp.eye(3), jnp.zeros(3)
        return jax.vmap(lambda R, p: jax.lax.scan(follow, start, (R, p))[0])(R, p)

    return tip(group), tip(halves)


def spatial_error(system: System, state: State) -> dict[str, SpatialError]:
    """For each rod, what the integration over its nodes does to the pose of its tip in a state: by comparing with half pieces.

    It says nothing about the basis: whether the modes can describe the shape.
    """
    names = {links[0]: name for name, links in system.rod_links.items()}
    refuse_overwound(system, state.q, "the state cannot be represented")
    out = {}
    for group in system.rods:
        (R, p), (R2, p2) = jax.tree.map(np.asarray, _tips(group, state.q))
        order = 4 if group.shapes.shape[1] == 2 else 6
        share = 2**order / (2**order - 1)  # Richardson
        for k, links in enumerate(group.links):
            turn = np.arccos(np.clip((np.trace(R[k].T @ R2[k]) - 1) / 2, -1, 1))
            out[names[links[0]]] = SpatialError(float(share * np.linalg.norm(p2[k] - p[k])), float(share * turn))
    return out
