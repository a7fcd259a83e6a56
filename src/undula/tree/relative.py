"""Relative motion across joints and pieces of rods: the only place where rods and mimics enter the recursions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.joints.kind import Relative as JointMotion, place
from undula.joints.rod.group import scatter
from undula.model.links import Links
from undula.model.system import System
from undula.model.topology import Topology
from undula.numerics.pick import pick, spread
from undula.numerics.small import matmul, matvec, tmatvec


class Relative(NamedTuple):
    """Across the joints of the links 1, 2, ...: poses (R, p) in their parents and screws S (joints, 6, columns), padded with
    zeros; `bent`: configuration of each group of rods, from which the twists of its pieces follow."""

    R: Float[Array, "joints 3 3"]
    p: Float[Array, "joints 3"]
    S: Float[Array, "joints 6 columns"]
    bent: tuple[Any, ...] = ()


# Mimics


def joint_configuration(system: System, q: Float[Array, "nq"]) -> Array:
    """Configurations of all the joints, mimics included, rods excluded."""
    top = system.topology
    if not top.mimics:
        return q[: q.shape[0] - top.strain_count]
    sums = top.mimic_sources
    # a product with a constant matrix: gathers would prevent loops from being compiled as a whole
    picked = jnp.asarray(np.eye(len(q))[sums.source])
    rates = np.asarray(top.mimics)
    scale, offset = jnp.ones(len(sums.source)), jnp.zeros(sums.entries)
    scale = scale.at[sums.scaled].set(system.mimic_scale[np.flatnonzero(np.isin(top.terms[0], rates))])
    offset = offset.at[sums.places].set(system.mimic_offset[rates])
    return _summed(scale * matvec(picked, q), sums.entry, sums.entries) + offset


def _leading(top: Topology) -> Array:
    """(terms, nv) matrix that picks the coordinate of each term of the joint rates."""
    return jnp.asarray(np.eye(top.nv)[top.terms[1]])


def _summed(terms: Array, places: np.ndarray, count: int) -> Array:
    """The sums of the terms that have the same place; there is at least one for each of `count` places."""
    return terms if len(places) == count else tmatvec(jnp.asarray(np.eye(count)[places]), terms)


def _shared(top: Topology, rates: Array) -> Array:
    """Values of the joint rates (..., rates), one per term: the transpose of the sum over terms."""
    places = top.terms[0]
    if len(places) == len(top.leaders):
        return rates
    return (rates[..., None, :] * jnp.asarray(np.eye(len(top.leaders))[places])).sum(-1)


def joint_rates(system: System, v: Float[Array, "nv"]) -> Float[Array, "rates"]:
    """Rates (or accelerations) of all the joints, mimics included, rods excluded."""
    top = system.topology
    if not top.mimics:
        return v[: len(top.leaders)]
    return _summed(system.mimic_scale * matvec(_leading(top), v), top.terms[0], len(top.leaders))


def coordinate_efforts(system: System, tau: Float[Array, "rates"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the coordinates, from those conjugate to the joint rates (the transpose of `joint_rates`)."""
    top = system.topology
    if top.mimics:
        return tmatvec(_leading(top), system.mimic_scale * _shared(top, tau))
    return jnp.concatenate([tau, jnp.zeros(top.strain_count)]) if top.strain_count else tau


def coordinate_columns(system: System, columns: Float[Array, "k rates"]) -> Float[Array, "k nv"]:
    """Columns over the coordinates, from those over the joint rates; zero for rods."""
    top = system.topology
    if top.mimics:
        return matmul(_shared(top, columns) * system.mimic_scale, _leading(top))
    if top.strain_count:
        return jnp.concatenate([columns, jnp.zeros((len(columns), top.strain_count))], axis=1)
    return columns


# Joints and rods together


def relative_motion(top: Topology, joints: Any, q: Array) -> Relative:
    """Relative poses and screw columns of the joints of a system without rods; q: of all joints, mimics included.

    All joints of one kind are evaluated together.
    """
    parts = [_of_kind(top, group, numbers, q) for group, numbers in zip(top.joints, joints)]
    return _in_order(top, parts, [group.ids for group in top.joints])


def relative_of(system: System, links: Links, q: Float[Array, "nq"]) -> Relative:
    """Relative poses and screw columns of joints and pieces of rods, placed in links (or in bodies)."""
    top = system.topology
    if not system.rods:
        return relative_motion(top, links.joints, joint_configuration(system, q))
    config = joint_configuration(system, q)
    parts = [_of_kind(top, group, numbers, config) for group, numbers in zip(top.joints, links.joints)]
    bent = tuple(g.bend(g.own(q)) for g in system.rods)
    for g, b, (R0, p0) in zip(system.rods, bent, links.pieces):
        R, p = (x.reshape(-1, *x.shape[2:]) for x in g.poses(b))
        parts.append(JointMotion(*placed_all(R0, p0, R, p), jnp.zeros((len(R0), 6, top.columns))))
    ids = [group.ids for group in top.joints] + [np.array(g.links).reshape(-1) - 1 for g in system.rods]
    return _in_order(top, parts, ids)._replace(bent=bent)


def _of_kind(top: Topology, group: Any, numbers: Any, q: Array) -> JointMotion:
    kind = group.kind
    qs = _taken(top, q, group.q)
    R0, p0, axis, second, constants = numbers
    if kind.placed is not None:
        part = kind.placed(R0, p0, axis, second, constants, qs)
    else:
        part = jax.vmap(place)(R0, p0, jax.vmap(kind.relative)(axis, second, qs))
    return part._replace(S=jnp.pad(part.S, ((0, 0), (0, 0), (0, top.columns - kind.dof))))


def _taken(top: Topology, x: Array, index: np.ndarray) -> Array:
    """x[index] of the joints of one kind."""
    if index.size == x.shape[0] and np.array_equal(index.reshape(-1), np.arange(index.size)):
        return x.reshape(index.shape)  # all of them, in order: no gathers
    return entries(top, x, index)


def entries(top: Topology, x: Array, index: np.ndarray) -> Array:
    """x[index]: by slices if there are rods, because a gather would prevent their loops from being compiled as a whole;
    else by one gather, so that programs do not grow with the number of joints."""
    return pick(x, index) if top.strain_count else x[index]


def _in_order(top: Topology, parts: list[JointMotion], ids: list[np.ndarray]) -> Relative:
    """The parts in the order of the links."""
    if not parts:
        return Relative(jnp.zeros((0, 3, 3)), jnp.zeros((0, 3)), jnp.zeros((0, 6, 1)))
    order = np.argsort(np.concatenate(ids))
    if np.array_equal(order, np.arange(len(order))):
        if len(parts) == 1:
            return Relative(*parts[0])
        return Relative(*jax.tree.map(lambda *x: jnp.concatenate(x), *parts))
    return Relative(*jax.tree.map(lambda *x: entries(top, jnp.concatenate(x), order), *parts))


def placed_all(R0: Array, p0: Array, R: Array, p: Array) -> tuple[Array, Array]:
    """Outer poses of frames that have the poses (R, p) in frames of the poses (R0, p0)."""
    return jax.vmap(matmul)(R0, R), p0 + jax.vmap(matvec)(R0, p)


def joint_bias(top: Topology, joints: Any, q: Array, v: Float[Array, "rates"]) -> Float[Array, "joints 6"] | None:
    """S' v of the joints; None if it is zero for all their kinds."""
    found = [
        (group.ids, jax.vmap(group.kind.bias)(x.axis, x.second, _taken(top, q, group.q), _taken(top, v, group.v)))
        for group, x in zip(top.joints, joints)
        if group.kind.bias is not None
    ]
    if not found:
        return None
    return _spread_over(top, [x for _, x in found], [ids for ids, _ in found])


def _spread_over(top: Topology, parts: list[Array], ids: list[np.ndarray]) -> Float[Array, "joints 6"]:
    n, which = len(top.link_parents), np.concatenate(ids)
    joined = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    if len(which) == n:
        order = np.argsort(which)
        return joined if np.array_equal(order, np.arange(n)) else entries(top, joined, order)
    if top.strain_count:
        return spread(joined, which, jnp.zeros((n, 6)))
    return jnp.zeros((n, 6)).at[which].set(joined, unique_indices=True)


def bias_of(
    system: System, links: Links, rel: Relative, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> Float[Array, "joints 6"] | None:
    """S' v across joints and pieces of rods: the part of the relative accelerations that does not contain v'."""
    top = system.topology
    own = joint_bias(top, links.joints, joint_configuration(system, q), joint_rates(system, v))
    if not system.rods:
        return own
    parts = [g.biases(b, g.own(v)).reshape(-1, 6) for g, b in zip(system.rods, rel.bent)]
    return _on_links(system, parts, own)


def _on_links(system: System, parts: list[Array], own: Array | None) -> Array:
    """`own` of the joints, one entry per link 1, 2, ..., with the entries of the rods' pieces replaced."""
    top = system.topology
    ids = np.concatenate([np.array(g.links).reshape(-1) - 1 for g in system.rods])
    joined = jnp.concatenate(parts)
    return spread(joined, ids, jnp.zeros((len(top.link_parents), *joined.shape[1:])) if own is None else own)


def link_rates(system: System, rel: Relative, x: Float[Array, "nv"]) -> Float[Array, "joints 6"]:
    """Relative twists across joints and pieces of rods, for rates x; or the part due to accelerations x."""
    top = system.topology
    own = (rel.S * by_link(top, joint_rates(system, x))[:, None, :]).sum(-1)
    if not system.rods:
        return own
    parts = [g.twists(b, g.own(x)).reshape(-1, 6) for g, b in zip(system.rods, rel.bent)]
    return _on_links(system, parts, own)


def link_efforts(system: System, rel: Relative, F: Float[Array, "joints 6"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the coordinates, from the wrenches on the links 1, 2, ...: the transpose of `link_rates`."""
    top = system.topology
    tau = coordinate_efforts(system, by_rate(top, (rel.S * F[:, :, None]).sum(1)))
    if not system.rods:
        return tau
    parts = []
    for g, b in zip(system.rods, rel.bent):
        ids = np.array(g.links).reshape(-1) - 1
        parts.append(g.project(b, pick(F, ids).reshape(*g.steps.shape, 6)))
    return tau + scatter(system.rods, parts, system.nv)


def by_link(top: Topology, rates: Float[Array, "rates"]) -> Float[Array, "joints columns"]:
    """Values of the joint rates as one padded row per joint."""
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
