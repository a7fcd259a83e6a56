"""Inverse dynamics: the Newton-Euler recursion of Luh and Walker with any base motion (document 000, section 3.2).

Accelerations are time derivatives of the components of the twists (form A): with eta_rel = S v,

    eta'_j = Ad(T_j^-1) eta'_i + ad(eta_j) eta_rel + S v' + S' v            (3.9)

Gravity enters as an acceleration of the base: a uniform field is the same for every body.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.inertia import Blocks, Rigid
from undula.model.slots import SlotPlan
from undula.numerics.small import cross, matvec, tmatvec
from undula.tree.relative import Relative
from undula.tree.scan import inward, outward


class LinkMotion(NamedTuple):
    """Body twists of the links and their component derivatives, each (links, 3)."""

    V: Array
    W: Array
    dV: Array
    dW: Array


def span(S: Float[Array, "joints 6 columns"], x: Float[Array, "joints columns"]) -> Float[Array, "joints 6"]:
    """S x, joint by joint."""
    return (S * x[:, None, :]).sum(-1)


def project(S: Float[Array, "joints 6 columns"], F: Float[Array, "joints 6"]) -> Float[Array, "joints columns"]:
    """S^T F, joint by joint."""
    return (S * F[:, :, None]).sum(1)


def link_motion(slots: SlotPlan, rel: Relative, eta0: Array, deta0: Array, rate: Array, gain: Array) -> LinkMotion:
    """Outward recursion (3.8), (3.9) from the base's twist and its derivative.

    `rate` = S v and `gain` = S v' + S' v, one per joint.
    """

    def step(parent, x):
        V, W, dV, dW = parent
        R, p, s, a = x
        V = tmatvec(R, V + cross(W, p))
        W = tmatvec(R, W)
        dV = tmatvec(R, dV + cross(dW, p)) + cross(V, s[3:]) + cross(W, s[:3]) + a[:3]
        dW = tmatvec(R, dW) + cross(W, s[3:]) + a[3:]
        # ad(eta_j) eta_rel = ad(Ad eta_i) eta_rel, because ad(eta_rel) eta_rel = 0
        state = LinkMotion(V + s[:3], W + s[3:], dV, dW)
        return state, state

    root = LinkMotion(eta0[:3], eta0[3:], deta0[:3], deta0[3:])
    moved = outward(step, root, (rel.R, rel.p, rate, gain), slots)
    return LinkMotion(*(jnp.concatenate([r[None], m]) for r, m in zip(root, moved)))


def link_twists(slots: SlotPlan, rel: Relative, eta0: Array, rate: Array) -> tuple[Array, Array]:
    """The twists (V, W) alone (3.8)."""

    def step(parent, x):
        V, W = parent
        R, p, s = x
        state = tmatvec(R, V + cross(W, p)) + s[:3], tmatvec(R, W) + s[3:]
        return state, state

    root = eta0[:3], eta0[3:]
    V, W = outward(step, root, (rel.R, rel.p, rate), slots)
    return jnp.concatenate([root[0][None], V]), jnp.concatenate([root[1][None], W])


def inertial_wrench(inertia: Rigid | Blocks, motion: LinkMotion) -> tuple[Array, Array]:
    """M eta' - ad(eta)^T M eta of one link: force and couple that its motion requires (minus F_gyr of 3.13)."""
    V, W, dV, dW = motion
    p, h = inertia.momentum(V, W)
    f, c = inertia.momentum(dV, dW)
    return f + cross(W, p), c + cross(W, h) + cross(V, p)


def wrenches_inward(
    slots: SlotPlan,
    inertia: Rigid | Blocks,
    rel: Relative,
    motion: LinkMotion,
    external: Float[Array, "links 6"] | None,
) -> Float[Array, "links 6"]:
    """Wrench that its parent exerts on each link (the world, on link 0), in the link's frame (3.11).

    Accelerations in `motion` must already contain minus gravity; `external` are the other wrenches on the links.
    """
    f, c = jax.vmap(inertial_wrench)(inertia, motion)
    if external is not None:
        f, c = f - external[:, :3], c - external[:, 3:]

    def step(children, x):
        R, p, f, c = x
        f, c = f + children[0], c + children[1]
        force = matvec(R, f)
        return (force, matvec(R, c) + cross(p, force)), (f, c)

    zero = (jnp.zeros(3), jnp.zeros(3))
    (f0, c0), (F, C) = inward(step, zero, (rel.R, rel.p, f[1:], c[1:]), slots)
    root = jnp.concatenate([f[0] + f0, c[0] + c0])
    return jnp.concatenate([root[None], jnp.concatenate([F, C], axis=1)])


def newton_euler(
    slots: SlotPlan,
    inertia: Rigid | Blocks,
    rel: Relative,
    eta0: Float[Array, "6"],
    deta0: Float[Array, "6"],
    rate: Float[Array, "joints 6"],
    gain: Float[Array, "joints 6"],
    external: Float[Array, "links 6"] | None,
) -> Float[Array, "links 6"]:
    """Both recursions: see `link_motion` and `wrenches_inward`."""
    return wrenches_inward(slots, inertia, rel, link_motion(slots, rel, eta0, deta0, rate, gain), external)


def proper(rotation: Array, field: Array | None, base: Float[Array, "6"]) -> Float[Array, "6"]:
    """The base's acceleration less a uniform field (world), in the base's frame: then nothing else needs a weight."""
    return base if field is None else base - jnp.concatenate([tmatvec(rotation, field), jnp.zeros(3)])
