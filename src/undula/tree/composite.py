"""Composite bodies: the inertia of each link with everything beyond it frozen, and derived quantities (section 3.4.1).

All inertias are taken about the base's origin in the base's axes, where they simply add up.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.inertia import Blocks, Rigid
from undula.model.topology import Topology
from undula.numerics.small import outer
from undula.tree.scan import inward


def composites(
    top: Topology, inertia: Rigid | Blocks, R: Float[Array, "links 3 3"], p: Float[Array, "links 3"]
) -> Rigid | Blocks:
    """M_j+ of (3.27) for every link, about the base's origin; entry 0 is the locked inertia M_o+ of the whole system.

    (R, p): the links seen from the base.
    """
    own = jax.vmap(lambda I, R, p: I.carried(R, p))(inertia, R, p)

    def step(beyond, own):
        total = jax.tree.map(jnp.add, beyond, own)
        return total, total

    zero = jax.tree.map(lambda x: jnp.zeros(x.shape[1:]), own)
    root, rest = inward(step, zero, jax.tree.map(lambda x: x[1:], own), top.slots)
    return jax.tree.map(lambda r, o, x: jnp.concatenate([(r + o[0])[None], x]), root, own, rest)


def locked_inertia(composite: Rigid | Blocks) -> Float[Array, "6 6"]:
    """M_o+, the inertia of the whole system frozen in its shape, about the base's origin."""
    return jax.tree.map(lambda x: x[0], composite).matrix()


def coupling(top: Topology, composite: Rigid | Blocks, S: Float[Array, "rates 6"]) -> Float[Array, "rates 6"]:
    """Momenta of unit joint rates about the base's origin: the transpose of oM_r of (3.31).

    `S`: their screws about the base's origin.
    """

    def unit_momentum(I, s):
        return jnp.concatenate(I.momentum(s[:3], s[3:]))

    l = top.rate_link
    if top.columns == 1 and len(l) == len(top.link_parents):
        moved = jax.tree.map(lambda x: x[1:], composite)
    else:
        moved = jax.tree.map(lambda x: x[l], composite)
    return jax.vmap(unit_momentum)(moved, S)


def inertia_of_columns(above: np.ndarray, S: Float[Array, "n 6"], P: Float[Array, "n 6"]) -> Float[Array, "n n"]:
    """Mass matrix of columns with screws S and unit momenta P, with `above[i, j]` true where column i carries column j.

    Its entry is S_i . P_j there, and by symmetry S_j . P_i where j carries i. Sums of outer products compile into one
    loop; a product of matrices and a transposition would not.
    """
    carries = jnp.asarray(above, dtype=S.dtype)
    carried = jnp.asarray(above.T & ~above, dtype=S.dtype)
    forward = sum(outer(S[:, k], P[:, k]) for k in range(6))
    backward = sum(outer(P[:, k], S[:, k]) for k in range(6))
    return carries * forward + carried * backward
