"""Frames of the links seen from the base, and inertias and screws carried into the base's axes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.joints.kind import Relative
from undula.model.links import Links
from undula.model.topology import Topology
from undula.numerics.small import matmul, matvec
from undula.tree.scan import outward


class Aligned(NamedTuple):
    """The tree with every vector in the base's axes, each link about its own origin: only translations remain.

    Carrying a 6x6 inertia from a link to its parent then needs no rotation, which halves the work of a recursion.
    """

    R: Float[Array, "links 3 3"]
    offset: Float[Array, "joints 3"]  # from the parent's origin to the link's
    S: Float[Array, "joints 6 columns"]
    c: Float[Array, "joints 6"]
    moment: Float[Array, "links 3"]
    inertia: Float[Array, "links 3 3"]


def link_frames(top: Topology, rel: Relative, R0: Array, p0: Array) -> tuple[Array, Array]:
    """Rotations (links, 3, 3) and origins (links, 3) of all the links, from those of the base (3.7)."""

    def step(parent, x):
        R, p = parent
        state = matmul(R, x[0]), p + matvec(R, x[1])
        return state, state

    R, p = outward(step, (R0, p0), (rel.R, rel.p), top.slots)
    return jnp.concatenate([R0[None], R]), jnp.concatenate([p0[None], p])


def align(top: Topology, links: Links, rel: Relative) -> Aligned:
    """Carries joints and inertias into the base's axes."""

    def step(R, x):
        new = matmul(R, x[0])
        return new, (new, matvec(R, x[1]))

    Rj, offset = outward(step, jnp.eye(3), (rel.R, rel.p), top.slots)
    R = jnp.concatenate([jnp.eye(3)[None], Rj])

    def screws(R, S):
        return jnp.concatenate([matmul(R, S[:3]), matmul(R, S[3:])])

    def turn(R, moment, inertia):
        return matvec(R, moment), matmul(matmul(R, inertia), R.T)

    S = jax.vmap(screws)(Rj, rel.S)
    c = jax.vmap(screws)(Rj, rel.c[..., None])[..., 0]
    moment, inertia = jax.vmap(turn)(R, links.moment, links.inertia)
    return Aligned(R, offset, S, c, moment, inertia)
