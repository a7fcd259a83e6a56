"""The reduced torque recursion of document 000, (3.73) to (3.85), as printed, for comparison with the document.

With H the orthonormal admissible motions of a wheeled body, the reduced wrench (3.83) is that of the ordinary inward recursion
projected on them, body by body: H F_r = H H^T (own + sum of those of the children). (3.81) takes H F_r for the wrench itself,
which loses the lateral reaction that a wheeled body transmits to its parent.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.balance import Balance
from undula.balance.rows import local_rows
from undula.core.arrays import Array
from undula.numerics.row_space import decompose
from undula.numerics.small import cross, matmul, matvec
from undula.tree.inverse import inertial_wrench
from undula.tree.relative import link_efforts
from undula.tree.scan import inward


def projected_efforts(balance: Balance) -> Float[Array, "nv"]:
    """Efforts (3.85) for the motion of the balance's snapshot."""
    prepared, snap = balance.prepared, balance.snap
    system = prepared.system
    assert snap.motion is not None
    f, c = jax.vmap(inertial_wrench)(prepared.inertia, snap.motion)
    own = jnp.concatenate([f, c], axis=1)
    if balance.forces.on_links is not None:
        own = own - balance.forces.on_links

    def step(children, x):
        R, p, own, P = x
        F = matvec(P, own + children)  # H F_r of (3.83)
        force = matvec(R, F[:3])
        return jnp.concatenate([force, matvec(R, F[3:]) + cross(p, force)]), F

    xs = snap.rel.R, snap.rel.p, own[1:], _projectors(balance)[1:]
    _, F = inward(step, jnp.zeros(6), xs, system.topology.slots)
    efforts = link_efforts(system, snap.rel, F)
    return efforts if balance.forces.efforts is None else efforts - balance.forces.efforts


def _projectors(balance: Balance) -> Float[Array, "links 6 6"]:
    """H H^T of each link: what its own constraints to the world admit; the identity without constraints."""
    n = balance.prepared.system.topology.link_count
    rows, links = local_rows(balance.prepared, balance.snap)
    counts = np.bincount(links, minlength=n)
    index = np.full((n, max(int(counts.max(initial=0)), 1)), len(links))  # the last row is zero
    filled = np.zeros(n, dtype=int)
    for k, link in enumerate(links):
        index[link, filled[link]] = k
        filled[link] += 1
    padded = jnp.concatenate([rows, jnp.zeros((1, 6))])[index]

    def projector(A):
        Q = decompose(A).Q
        return jnp.eye(6) - matmul(Q.T, Q)

    return jax.vmap(projector)(padded)
