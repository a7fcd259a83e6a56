"""Composite bodies: the inertia of each link with everything beyond it frozen, and what follows (section 3.4.1).

All inertias are taken about the base's origin in the base's axes, where composing is adding.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.joints.kind import Relative
from undula.lie import se3
from undula.model.links import Links
from undula.model.topology import Topology
from undula.numerics.small import cross, hat, matmul, matvec, outer
from undula.tree.frames import link_frames
from undula.tree.scan import inward


class Composite(NamedTuple):
    """Composite inertias of the links about the base's origin, and the screws there."""

    mass: Float[Array, "links"]
    moment: Float[Array, "links 3"]
    inertia: Float[Array, "links 3 3"]
    S: Float[Array, "joints 6 columns"]


def composites(top: Topology, links: Links, rel: Relative, frames: tuple[Array, Array] | None = None) -> Composite:
    """M_j+ of (3.27) for every link; entry 0 is the locked inertia M_o+ of the whole system.

    `frames`: rotations and origins of the links seen from the base, if they are known.
    """
    R, p = link_frames(top, rel, jnp.eye(3), jnp.zeros(3)) if frames is None else frames

    def carry(R, p, m, ms, I):
        turned, K = matvec(R, ms), hat(p)
        T = matmul(K, hat(turned))
        return m * p + turned, matmul(matmul(R, I), R.T) - m * matmul(K, K) - T - T.T

    moment, inertia = jax.vmap(carry)(R, p, links.mass, links.moment, links.inertia)

    def step(beyond, own):
        total = jax.tree.map(jnp.add, beyond, own)
        return total, total

    zero = jnp.zeros(()), jnp.zeros(3), jnp.zeros((3, 3))
    own = links.mass, moment, inertia
    root, rest = inward(step, zero, jax.tree.map(lambda x: x[1:], own), top.slots)
    mass, moment, inertia = (jnp.concatenate([(r + o[0])[None], x]) for r, o, x in zip(root, own, rest))

    def screws(R, p, S):
        W = matmul(R, S[3:])
        return jnp.concatenate([matmul(R, S[:3]) + matmul(hat(p), W), W])

    return Composite(mass, moment, inertia, jax.vmap(screws)(R[1:], p[1:], rel.S))


def locked_inertia(composite: Composite) -> Float[Array, "6 6"]:
    """M_o+, the inertia of the whole system frozen in its shape, about the base's origin."""
    return se3.spatial_inertia(composite.mass[0], composite.moment[0], composite.inertia[0])


def coupling(top: Topology, composite: Composite) -> tuple[Float[Array, "rates 6"], Float[Array, "rates 6"]]:
    """Screws (rates, 6) of the joint rates about the base's origin, and the momenta (rates, 6) of unit rates.

    The second is the transpose of oM_r of (3.31).
    """
    l, k = top.rate_link, top.rate_column
    S = composite.S.reshape(-1, 6) if top.columns == 1 else composite.S[l - 1, :, k]

    def unit_momentum(m, ms, I, s):
        V, W = s[:3], s[3:]
        return jnp.concatenate([m * V + cross(W, ms), matvec(I, W) + cross(ms, V)])

    if top.columns == 1:
        inertias = composite.mass[1:], composite.moment[1:], composite.inertia[1:]
    else:
        inertias = composite.mass[l], composite.moment[l], composite.inertia[l]
    return S, jax.vmap(unit_momentum)(*inertias, S)


def inertia_of_columns(above: np.ndarray, S: Float[Array, "n 6"], P: Float[Array, "n 6"]) -> Float[Array, "n n"]:
    """Mass matrix of columns with screws S and unit momenta P, `above[i, j]` where column i carries column j.

    Its entry is S_i . P_j there, and by symmetry S_j . P_i where j carries i. Sums of outer products compile into one
    loop; a product of matrices and a transposition would not.
    """
    carries = jnp.asarray(above, dtype=S.dtype)
    carried = jnp.asarray(above.T & ~above, dtype=S.dtype)
    forward = sum(outer(S[:, k], P[:, k]) for k in range(6))
    backward = sum(outer(P[:, k], S[:, k]) for k in range(6))
    return carries * forward + carried * backward
