"""Inverse dynamics: the Newton-Euler recursion of Luh and Walker with any base motion (document 000, section 3.2).

Accelerations are time derivatives of the components of the twists (form A): with eta_rel = S v,

    eta'_j = Ad(T_j^-1) eta'_i + ad(eta_j) eta_rel + S v' + S' v            (3.9)

Gravity enters as an acceleration of the base: a uniform field is the same for every body.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.joints.kind import Relative
from undula.model.topology import SlotPlan
from undula.numerics.small import cross, matvec, tmatvec
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
    """Outward recursion (3.8), (3.9) from the base's twist and its derivative; `rate` = S v and `gain` = S v', a joint each."""
    gain = gain + rel.c

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


def inertial_wrench(mass: Array, moment: Array, inertia: Array, motion: LinkMotion) -> tuple[Array, Array]:
    """M eta' - ad(eta)^T M eta of one link: force and couple that its motion takes (minus F_gyr of 3.13)."""
    V, W, dV, dW = motion
    p = mass * V + cross(W, moment)
    h = matvec(inertia, W) + cross(moment, V)
    f = mass * dV + cross(dW, moment) + cross(W, p)
    c = matvec(inertia, dW) + cross(moment, dV) + cross(W, h) + cross(V, p)
    return f, c


def newton_euler(
    slots: SlotPlan,
    mass: Float[Array, "links"],
    moment: Float[Array, "links 3"],
    inertia: Float[Array, "links 3 3"],
    rel: Relative,
    eta0: Float[Array, "6"],
    deta0: Float[Array, "6"],
    rate: Float[Array, "joints 6"],
    gain: Float[Array, "joints 6"],
    external: Float[Array, "links 6"] | None,
) -> Float[Array, "links 6"]:
    """Wrench that its parent exerts on each link (the world, on link 0), in the link's frame (3.11).

    `deta0` must already contain minus gravity; `external` are the other wrenches on the links.
    """
    motion = link_motion(slots, rel, eta0, deta0, rate, gain)
    f, c = jax.vmap(inertial_wrench)(mass, moment, inertia, motion)
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


def gravity_as_acceleration(rotation: Array, gravity: Array) -> Float[Array, "6"]:
    """Minus gravity, as a base acceleration in the base's frame."""
    return jnp.concatenate([-tmatvec(rotation, gravity), jnp.zeros(3)])
