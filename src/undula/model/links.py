"""Joints and bodies as used by the recursions: one entry per link (rigidly fixed bodies), origin at its joint."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.inertia import Rigid
from undula.model.system import System
from undula.numerics.small import hat, matmul, matvec


class JointNumbers(NamedTuple):
    """Joints of one kind, as placed in their parents; `constants`: precomputed by the kind."""

    rotation: Float[Array, "m 3 3"]
    position: Float[Array, "m 3"]
    axis: Float[Array, "m 3"]
    second: Float[Array, "m 3"]
    constants: Any


class Links(NamedTuple):
    """The joints by kind; rotations and positions of the pieces of rods in their parents, by packed group; the bodies in their
    links."""

    joints: tuple[JointNumbers, ...]
    pieces: tuple[tuple[Array, Array], ...]
    body_position: Float[Array, "bodies 3"]
    body_rotation: Float[Array, "bodies 3 3"]


def links_of(system: System) -> Links:
    """Joints placed in links. Done once, outside time loops."""
    top = system.topology
    position, rotation = _bodies_in_links(system)
    j = top.moving
    parents = np.asarray(top.parents, dtype=int)[j]
    p0, R0 = system.joint_position[j], system.joint_rotation[j]
    if top.fixed_levels:
        p0 = position[parents] + jax.vmap(matvec)(rotation[parents], p0)
        R0 = jax.vmap(matmul)(rotation[parents], R0)
    return Links(*_placed(system, p0, R0), position, rotation)


def joints_in_bodies(system: System) -> Links:
    """The same with joints placed in their parent bodies instead of links."""
    j = system.topology.moving
    n = system.topology.body_count
    return Links(
        *_placed(system, system.joint_position[j], system.joint_rotation[j]),
        jnp.zeros((n, 3)),
        jnp.tile(jnp.eye(3), (n, 1, 1)),
    )


def _placed(system: System, position: Array, rotation: Array) -> tuple[tuple[JointNumbers, ...], tuple[Any, ...]]:
    # normalised, because an optimiser may have changed them
    axes, seconds = system.axis[system.topology.moving], system.second[system.topology.moving]
    joints = []
    for kind, ids, _, _ in system.topology.joints:
        R, p = rotation[ids], position[ids]
        axis, second = _unit(axes[ids]), seconds[ids]
        if kind.second_is_axis:
            second = _unit(second)
        constants = jax.vmap(kind.constants)(R, axis, second) if kind.constants is not None else ()
        joints.append(JointNumbers(R, p, axis, second, constants))
    pieces = []
    for g in system.rods:
        at = np.array(g.links).reshape(-1) - 1
        pieces.append((rotation[at], position[at]))
    return tuple(joints), tuple(pieces)


def _unit(axes: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    square = (axes * axes).sum(1, keepdims=True)
    return axes * jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _bodies_in_links(system: System) -> tuple[Array, Array]:
    n = system.topology.body_count
    position, rotation = jnp.zeros((n, 3)), jnp.tile(jnp.eye(3), (n, 1, 1))
    for bodies in system.topology.fixed_levels:
        joints = bodies - 1
        parents = np.asarray(system.topology.parents)[joints]
        p, R = system.joint_position[joints], system.joint_rotation[joints]
        position = position.at[bodies].set(position[parents] + jax.vmap(matvec)(rotation[parents], p))
        rotation = rotation.at[bodies].set(jax.vmap(matmul)(rotation[parents], R))
    return position, rotation


def body_inertias(system: System) -> Rigid:
    """Inertias of the bodies about their own origins."""
    symmetric = (system.inertia + jnp.swapaxes(system.inertia, 1, 2)) / 2  # so that arbitrary perturbations are allowed
    moment = system.mass[:, None] * system.com
    inertia = symmetric - jax.vmap(lambda s, c: matmul(hat(s), hat(c)))(moment, system.com)
    return Rigid(system.mass, moment, inertia)


def link_inertias(system: System, links: Links) -> Rigid:
    """Inertias of the links about their own origins: bodies joined by fixed joints are merged."""
    top = system.topology

    def about_link(m, com, I, p, R):
        c = p + matvec(R, com)
        K = hat(c)
        return m * c, matmul(matmul(R, I), R.T) - m * matmul(K, K)

    mass = system.mass
    symmetric = (system.inertia + jnp.swapaxes(system.inertia, 1, 2)) / 2
    moment, inertia = jax.vmap(about_link)(mass, system.com, symmetric, links.body_position, links.body_rotation)
    if top.fixed_levels:
        mass, moment, inertia = (
            jnp.zeros((top.link_count, *x.shape[1:])).at[top.link_of_body].add(x) for x in (mass, moment, inertia)
        )
    return Rigid(mass, moment, inertia)
