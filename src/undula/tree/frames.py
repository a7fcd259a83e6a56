"""Frames of the links seen from the base, and inertias and screws expressed in the base's axes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.inertia import Blocks, Rigid
from undula.model.topology import Topology
from undula.numerics.small import hat, matmul, matvec
from undula.tree.relative import Relative
from undula.tree.scan import outward


class Aligned(NamedTuple):
    """The tree with every vector in the base's axes, each link about its own origin: only translations remain.

    Moving a 6x6 inertia from a link to its parent then needs no rotation, which halves the work of a recursion.
    """

    R: Float[Array, "links 3 3"]
    offset: Float[Array, "joints 3"]  # from the parent's origin to the link's
    S: Float[Array, "joints 6 columns"]
    c: Float[Array, "joints 6"] | None
    inertia: Rigid | Blocks


def link_frames(top: Topology, rel: Relative, R0: Array, p0: Array) -> tuple[Array, Array]:
    """Rotations (links, 3, 3) and origins (links, 3) of all the links, from those of the base (3.7)."""

    def step(parent, x):
        R, p = parent
        state = matmul(R, x[0]), p + matvec(R, x[1])
        return state, state

    R, p = outward(step, (R0, p0), (rel.R, rel.p), top.slots)
    return jnp.concatenate([R0[None], R]), jnp.concatenate([p0[None], p])


def align(top: Topology, inertia: Rigid | Blocks, rel: Relative, bias: Float[Array, "joints 6"] | None) -> Aligned:
    """Joints and inertias in the base's axes."""

    def step(R, x):
        new = matmul(R, x[0])
        return new, (new, matvec(R, x[1]))

    Rj, offset = outward(step, jnp.eye(3), (rel.R, rel.p), top.slots)
    R = jnp.concatenate([jnp.eye(3)[None], Rj])

    def screws(R, S):
        return jnp.concatenate([matmul(R, S[:3]), matmul(R, S[3:])])

    S = jax.vmap(screws)(Rj, rel.S)
    c = None if bias is None else jax.vmap(screws)(Rj, bias[..., None])[..., 0]
    return Aligned(R, offset, S, c, jax.vmap(lambda I, R: I.turned(R))(inertia, R))


def screws_about_base(top: Topology, rel: Relative, R: Array, p: Array) -> Float[Array, "rates 6"]:
    """Screws of the joint rates about the base's origin, in its axes; (R, p): the links seen from the base."""

    def screws(R, p, S):
        W = matmul(R, S[3:])
        return jnp.concatenate([matmul(R, S[:3]) + matmul(hat(p), W), W])

    S = jax.vmap(screws)(R[1:], p[1:], rel.S)
    whole = top.columns == 1 and len(top.rate_link) == len(S)
    return S.reshape(-1, 6) if whole else S[top.rate_link - 1, :, top.rate_column]
