"""Articulated-body recursion with roles: forward, hybrid and locomotion dynamics in one O(n) algorithm.

Every joint rate is either unknown (its effort is given) or driven (its acceleration is given). The inertia that a link
presents to its parent is its articulated inertia: unknown rates are eliminated from it, driven ones are not. If all are
driven, it is the composite inertia of document 000, eq. (3.27), and the recursion ends with the locomotion model M_o+
eta_o' = F_o+ (3.18) of the base; if none is, it is Featherstone's. Vectors are in the base's axes, about the links' own
origins; an inertia is kept as its blocks [[A, B], [B^T, C]].
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from undula.core.arrays import Array
from undula.model.inertia import Blocks, Rigid
from undula.model.topology import Topology
from undula.numerics.small import cross, hat, matmul, matvec, outer, solve_spd, tmatvec
from undula.tree.frames import Aligned, align
from undula.tree.inverse import span
from undula.tree.relative import Relative
from undula.tree.scan import inward, outward


class Articulated(NamedTuple):
    """Result of the recursion: base acceleration and wrench, joint accelerations and efforts (one padded row per joint)."""

    deta0: Float[Array, "6"]
    wrench0: Float[Array, "6"]
    dv: Float[Array, "joints columns"]
    effort: Float[Array, "joints columns"]


def _bias(top: Topology, al: Aligned, eta0: Array, v: Array) -> tuple[Array, Array, Array]:
    """Velocity terms: ad(eta_j) eta_rel + S' v of each joint, and the gyroscopic wrench of each link."""
    rate = span(al.S, v)

    def step(parent, x):
        V, W = parent
        d, s = x
        V = V + cross(W, d)
        zeta = jnp.concatenate([cross(V, s[3:]) + cross(W, s[:3]), cross(W, s[3:])])
        state = V + s[:3], W + s[3:]
        return state, (*state, zeta)

    root = eta0[:3], eta0[3:]
    V, W, zeta = outward(step, root, (al.offset, rate), top.slots)
    V, W = jnp.concatenate([root[0][None], V]), jnp.concatenate([root[1][None], W])

    def gyroscopic(I, V, W):
        p, h = I.momentum(V, W)
        return cross(W, p), cross(W, h) + cross(V, p)

    f, c = jax.vmap(gyroscopic)(al.inertia, V, W)
    return zeta if al.c is None else zeta + al.c, f, c


def articulated(
    top: Topology,
    inertia: Rigid | Blocks,
    rel: Relative,
    bias: Float[Array, "joints 6"] | None,
    base: tuple[int, ...],
    eta0: Float[Array, "6"],
    deta0: Float[Array, "6"],
    v: Float[Array, "joints columns"],
    dv: Float[Array, "joints columns"],
    effort: Float[Array, "joints columns"],
    unknown: Bool[Array, "joints columns"],
    external: Float[Array, "links 6"] | None,
    armature: Float[Array, "joints columns"] | None,
) -> Articulated:
    """Accelerations of the unknown rates and base directions, efforts of the driven ones.

    **Arguments:**

    - `base`: components of the base acceleration that are unknown; the others are taken from `deta0`, which must
      contain minus gravity in all its components.
    - `dv`: accelerations of the driven rates (zero elsewhere); `effort`: efforts of the unknown ones.
    - `unknown`: which rates are unknown; padding must be False.
    - `external`: wrenches on the links, in their own frames; `armature`: inertias of the rates themselves.
    """
    al = align(top, inertia, rel, bias)
    zeta, f, c = _bias(top, al, eta0, v)
    zeta = zeta + span(al.S, dv)
    if external is not None:
        f = f - jax.vmap(matvec)(al.R, external[:, :3])
        c = c - jax.vmap(matvec)(al.R, external[:, 3:])
    mask = unknown.astype(eta0.dtype)

    def eliminate(children, x):
        A, B, C, f, c = children
        d, S, z, I, f0, c0, tau, free, *own_inertia = x
        A, B, C = jax.tree.map(jnp.add, (A, B, C), tuple(I.blocks()))
        f, c = f + f0, c + c0
        Sv, Sw = S[:3], S[3:]
        Uf, Uc = matmul(A, Sv) + matmul(B, Sw), matmul(B.T, Sv) + matmul(C, Sw)
        own = tmatvec(Sv, f) + tmatvec(Sw, c)
        D = (matmul(Sv.T, Uf) + matmul(Sw.T, Uc)) * outer(free, free) + jnp.diag(1 - free)
        if own_inertia:
            D = D + jnp.diag(free * own_inertia[0])
        Yf, Yc = Uf * free, Uc * free
        both = solve_spd(D, jnp.concatenate([Yf.T, Yc.T, ((tau - own) * free)[:, None]], axis=1))
        Xf, Xc, u = both[:, :3], both[:, 3:6], both[:, 6]
        A, B, C = A - matmul(Yf, Xf), B - matmul(Yf, Xc), C - matmul(Yc, Xc)
        f = f + matvec(A, z[:3]) + matvec(B, z[3:]) + matvec(Yf, u)
        c = c + tmatvec(B, z[:3]) + matvec(C, z[3:]) + matvec(Yc, u)
        # to the parent's origin
        K = hat(d)
        T = matmul(K, B)
        up = A, B - matmul(A, K), C + T + T.T - matmul(matmul(K, A), K), f, c + cross(d, f)
        return up, (jnp.concatenate([Uf, Uc]), own, jnp.concatenate([Xf, Xc], axis=1), u)

    O, o = jnp.zeros((3, 3)), jnp.zeros(3)
    of_joints = jax.tree.map(lambda x: x[1:], al.inertia)
    more = () if armature is None else (armature,)
    (A, B, C, f0, c0), (U, own, X, u) = inward(
        eliminate,
        (O, O, O, o, o),
        (al.offset, al.S, zeta, of_joints, f[1:], c[1:], effort, mask, *more),
        top.slots,
    )
    root = jax.tree.map(lambda x: x[0], al.inertia).blocks()
    A, B, C = A + root.A, B + root.B, C + root.C
    M, bias = jnp.block([[A, B], [B.T, C]]), jnp.concatenate([f0 + f[0], c0 + c[0]])
    deta0 = solve_base(M, bias, base, deta0)

    def accelerate(parent, x):
        a, w = parent
        d, S, z, X, u = x
        a, w = a + cross(w, d) + z[:3], w + z[3:]
        gain = u - matvec(X[:, :3], a) - matvec(X[:, 3:], w)
        a, w = a + matvec(S[:3], gain), w + matvec(S[3:], gain)
        return (a, w), (gain, jnp.concatenate([a, w]))

    gain, acceleration = outward(accelerate, (deta0[:3], deta0[3:]), (al.offset, al.S, zeta, X, u), top.slots)
    found = (U * acceleration[:, :, None]).sum(1) + own
    if armature is not None:
        found = found + armature * (dv + gain)
    return Articulated(deta0, matvec(M, deta0) + bias, dv + gain, found)


def solve_base(M: Array, bias: Array, base: tuple[int, ...], deta0: Array) -> Float[Array, "6"]:
    """Base acceleration with H^T (M deta0 + bias) = 0 in its unknown directions; M is O-centred, in the base's frame."""
    if not base:
        return deta0
    free = np.zeros(6)
    free[list(base)] = 1.0
    known = deta0 * (1 - free)
    right = -(matvec(M, known) + bias) * free
    # the known directions get an identity block, so that one closed form serves every group
    return known + solve_spd(M * np.outer(free, free) + np.diag(1 - free), right)
