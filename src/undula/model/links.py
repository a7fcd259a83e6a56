"""The numbers that the recursions run on: one entry a link (bodies rigidly fixed together), origin at its joint."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.joints.kind import KINDS, Relative, place
from undula.joints.rod.group import scatter
from undula.model.system import System
from undula.model.topology import Topology
from undula.numerics.pick import pick, spread
from undula.numerics.small import hat, matmul, matvec, tmatvec


class Placement(NamedTuple):
    """The joints that move, as placed in their parents."""

    position: Float[Array, "joints 3"]
    rotation: Float[Array, "joints 3 3"]
    axis: Float[Array, "joints 3"]
    second: Float[Array, "joints 3"]
    turn: Float[Array, "joints 2 3 3"]  # rotation @ (axis^, axis^ axis^): then a screw's rotation needs no product


class Links(NamedTuple):
    """Inertias of the links 0..n about their own origins, the joints of the links 1..n, and the bodies in their links."""

    mass: Float[Array, "links"]
    moment: Float[Array, "links 3"]
    inertia: Float[Array, "links 3 3"]
    joints: Placement
    body_position: Float[Array, "bodies 3"]
    body_rotation: Float[Array, "bodies 3 3"]


def links_of(system: System) -> Links:
    """Merges the bodies that fixed joints hold together. Done once, outside time loops."""
    top = system.topology
    position, rotation = _bodies_in_links(system)

    def about_link(m, com, I, p, R):
        c = p + matvec(R, com)
        K = hat(c)
        return m * c, matmul(matmul(R, I), R.T) - m * matmul(K, K)

    mass = system.mass
    symmetric = (system.inertia + jnp.swapaxes(system.inertia, 1, 2)) / 2  # so that any change of it is allowed
    moment, inertia = jax.vmap(about_link)(mass, system.com, symmetric, position, rotation)
    if top.fixed_levels:
        n = len(top.link_parents) + 1
        mass, moment, inertia = (
            jnp.zeros((n, *x.shape[1:])).at[top.link_of_body].add(x) for x in (mass, moment, inertia)
        )
    j = top.moving
    parents = np.asarray(top.parents, dtype=int)[j]
    p0, R0 = system.joint_position[j], system.joint_rotation[j]
    if top.fixed_levels:
        p0 = position[parents] + jax.vmap(matvec)(rotation[parents], p0)
        R0 = jax.vmap(matmul)(rotation[parents], R0)
    return Links(mass, moment, inertia, _placement(system, p0, R0), position, rotation)


def placement_in_bodies(system: System) -> Placement:
    """The joints that move, placed in their parent bodies instead of links."""
    j = system.topology.moving
    return _placement(system, system.joint_position[j], system.joint_rotation[j])


def _placement(system: System, position: Array, rotation: Array) -> Placement:
    def turns(R, a):
        K = hat(a)
        RK = matmul(R, K)
        return jnp.stack([RK, matmul(RK, K)])

    j = system.topology.moving
    # unit vectors whatever an optimiser did to them; in other kinds than universal, `second` has a meaningful length
    axis, second = _unit(system.axis[j]), system.second[j]
    two_axes = np.array([kind == "universal" for kind in system.topology.link_kinds], dtype=bool)
    if two_axes.any():
        second = jnp.where(two_axes[:, None], _unit(second), second)
    return Placement(position, rotation, axis, second, jax.vmap(turns)(rotation, axis))


def _unit(axes: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    square = (axes * axes).sum(1, keepdims=True)
    return axes * jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _bodies_in_links(system: System) -> tuple[Array, Array]:
    n = len(system.body_names)
    position, rotation = jnp.zeros((n, 3)), jnp.tile(jnp.eye(3), (n, 1, 1))
    for bodies in system.topology.fixed_levels:
        joints = bodies - 1
        parents = np.asarray(system.topology.parents)[joints]
        p, R = system.joint_position[joints], system.joint_rotation[joints]
        position = position.at[bodies].set(position[parents] + jax.vmap(matvec)(rotation[parents], p))
        rotation = rotation.at[bodies].set(jax.vmap(matmul)(rotation[parents], R))
    return position, rotation


def joint_configuration(system: System, q: Float[Array, "nq"]) -> Array:
    """Configurations of all the joints, mimics included."""
    top = system.topology
    if not top.mimics:
        return q[: q.shape[0] - top.strain_count]
    source, places = top.mimic_sources
    # a product with a constant matrix: gathers would stop loops from compiling whole
    picked = jnp.asarray(np.eye(len(q))[source])
    rates = np.asarray(top.mimics)
    scale, offset = jnp.ones(len(source)), jnp.zeros(len(source))
    scale, offset = scale.at[places].set(system.mimic_scale[rates]), offset.at[places].set(system.mimic_offset[rates])
    return scale * matvec(picked, q) + offset


def _leading(top: Topology) -> Array:
    """(rates, nv) matrix that picks the coordinate of each joint rate."""
    return jnp.asarray(np.eye(top.nv)[np.asarray(top.leaders)])


def joint_rates(system: System, v: Float[Array, "nv"]) -> Float[Array, "rates"]:
    """Rates (or accelerations) of all the joints, mimics included, rods excluded."""
    top = system.topology
    return v[: len(top.leaders)] if not top.mimics else system.mimic_scale * matvec(_leading(top), v)


def coordinate_efforts(system: System, tau: Float[Array, "rates"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the coordinates, from those conjugate to the joint rates (the transpose of `joint_rates`)."""
    top = system.topology
    if top.mimics:
        return tmatvec(_leading(top), system.mimic_scale * tau)
    return jnp.concatenate([tau, jnp.zeros(top.strain_count)]) if top.strain_count else tau


# Joints and rods together


def relative_of(system: System, joints: Placement, q: Float[Array, "nq"], v: Float[Array, "nv"] | None) -> Relative:
    """Relative motion across all the joints and pieces of rods, for joints placed in links or in bodies.

    Without velocities, everything is at rest, and there is less to compute.
    """
    top = system.topology
    rates = jnp.zeros(len(top.leaders)) if v is None else joint_rates(system, v)
    rel = relative_motion(top, joints, joint_configuration(system, q), rates)
    if not system.rods:
        return rel
    bent = tuple(g.bend(g.own(q)) for g in system.rods)
    inside = [
        place_all(
            pick(joints.rotation, ids), pick(joints.position, ids), *(y.reshape(-1, *y.shape[2:]) for y in g.poses(x))
        )
        for g, x, ids in zip(system.rods, bent, _pieces(system))
    ]
    R, p = _on_links(system, [x[0] for x in inside], rel.R), _on_links(system, [x[1] for x in inside], rel.p)
    if v is None:
        return Relative(R, p, rel.S, rel.c, bent)
    c = [g.biases(x, g.own(v)).reshape(-1, 6) for g, x in zip(system.rods, bent)]
    return Relative(R, p, rel.S, _on_links(system, c, rel.c), bent)


def place_all(R0: Array, p0: Array, R: Array, p: Array) -> tuple[Array, Array]:
    """Poses (R, p) in frames that have the poses (R0, p0)."""
    return jax.vmap(matmul)(R0, R), p0 + jax.vmap(matvec)(R0, p)


def _pieces(system: System) -> list[np.ndarray]:
    """For each group of rods, its links - 1."""
    return [np.array(g.links).reshape(-1) - 1 for g in system.rods]


def _on_links(system: System, parts: list[Array], rest: Array) -> Array:
    """`rest`, one entry a link 1, 2, ..., with the entries of the rods' pieces replaced."""
    return spread(jnp.concatenate(parts), np.concatenate(_pieces(system)), rest)


def link_rates(system: System, rel: Relative, x: Float[Array, "nv"]) -> Float[Array, "links 6"]:
    """Relative twists across joints and pieces of rods, for rates x; or, for accelerations x, what depends on them."""
    top = system.topology
    own = (rel.S * by_link(top, joint_rates(system, x))[:, None, :]).sum(-1)
    if not system.rods:
        return own
    parts = [g.twists(b, g.own(x)).reshape(-1, 6) for g, b in zip(system.rods, rel.bent)]
    return _on_links(system, parts, own)


def link_efforts(system: System, rel: Relative, F: Float[Array, "links 6"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the coordinates, from the wrenches on the links 1, 2, ...: the transpose of `link_rates`."""
    top = system.topology
    tau = coordinate_efforts(system, by_rate(top, (rel.S * F[:, :, None]).sum(1)))
    if not system.rods:
        return tau
    parts = [
        g.project(b, pick(F, ids).reshape(*g.steps.shape, 6))
        for g, b, ids in zip(system.rods, rel.bent, _pieces(system))
    ]
    return tau + scatter(system.rods, parts, system.nv)


def entries(top: Topology, x: Array, index: np.ndarray) -> Array:
    """x[index]: by slices with rods, whose loops a gather would stop from compiling whole; else by one gather, so that
    programs do not grow with the number of joints."""
    return pick(x, index) if top.strain_count else x[index]


def relative_motion(top: Topology, joints: Placement, q: Array, v: Float[Array, "rates"]) -> Relative:
    """Relative poses, screw columns and S' v of all the joints, in the order of the links.

    All joints of one kind are evaluated together. S is (links, 6, columns), padded with zero columns.
    """
    parts = []
    for name, ids, iq, iv in top.kind_groups:
        kind = KINDS[name]
        if len(top.kind_groups) == 1:  # the indices are all of them, in order: no gathers
            mine, qs, vs = joints, q.reshape(iq.shape), v.reshape(iv.shape)
        else:
            mine = Placement(*(entries(top, x, ids) for x in joints))
            qs, vs = entries(top, q, iq), entries(top, v, iv)
        if name == "screw":
            part = _screws(mine, qs)
        else:
            inside = jax.vmap(kind.relative)(mine.axis, mine.second, qs, vs)
            part = jax.vmap(place)(mine.rotation, mine.position, inside)
        parts.append(part._replace(S=jnp.pad(part.S, ((0, 0), (0, 0), (0, top.columns - kind.dof)))))
    if not parts:
        return Relative(jnp.zeros((0, 3, 3)), jnp.zeros((0, 3)), jnp.zeros((0, 6, 1)), jnp.zeros((0, 6)))
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *x: entries(top, jnp.concatenate(x), top.link_order), *parts)


def _screws(joints: Placement, q: Float[Array, "joints 1"]) -> Relative:
    """The screw kind, already placed: by far the most frequent, so that its constant products are kept in `turn`."""
    s, c = jnp.sin(q)[..., None], jnp.cos(q)[..., None]
    R = joints.rotation + s * joints.turn[:, 0] + (1 - c) * joints.turn[:, 1]
    p = joints.position + jax.vmap(matvec)(joints.rotation, joints.second) * q
    S = jnp.concatenate([joints.second, joints.axis], axis=1)[..., None]
    return Relative(R, p, S, jnp.zeros((q.shape[0], 6)))


def by_link(top: Topology, rates: Float[Array, "rates"]) -> Float[Array, "joints columns"]:
    """Values of the joint rates as a padded row a joint."""
    n, k = len(top.link_parents), top.columns
    if rates.shape[0] == n * k:
        return rates.reshape(n, k)
    if rates.shape[0] == 0:
        return jnp.zeros((n, k))
    return jnp.zeros((n, k)).at[top.rate_link - 1, top.rate_column].set(rates, unique_indices=True)


def by_rate(top: Topology, padded: Float[Array, "joints columns"]) -> Float[Array, "rates"]:
    """The inverse of `by_link`."""
    n, k = padded.shape
    if len(top.rate_link) == n * k:
        return padded.reshape(n * k)
    return padded[top.rate_link - 1, top.rate_column]
