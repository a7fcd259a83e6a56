"""Data computed once per compiled function: joints placed in links, merged inertias, sites placed on links."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.model.arguments import checked
from undula.model.inertia import Blocks, Rigid
from undula.model.links import Links, link_inertias, links_of
from undula.model.packing import Group
from undula.model.sites import PackedSite
from undula.model.system import System
from undula.numerics.small import matmul, matvec


class PlacedSite(NamedTuple):
    """Sites on links: `position` (m, 3) and `rotation` (m, 3, 3) in the link's frame, None if zero.

    For sections: of the frame in which the piece begins; the offset after the piece is the packed site's own.
    """

    position: Float[Array, "m 3"] | None
    rotation: Float[Array, "m 3 3"] | None


class Prepared(eqx.Module):
    """A system and everything that stays constant while it moves, as used by hot functions; see `prepare`.

    - `inertia`: of the links about their origins; `rigid`: the part of it that has weight; `added`: the rest, or None.
    - `sites`: for each group of elements, its sites placed on links.
    """

    system: System
    links: Links
    inertia: Rigid | Blocks
    rigid: Rigid
    added: Blocks | None
    sites: tuple[tuple[PlacedSite, ...], ...]

    def grouped(self, kind: str) -> list[tuple[Group, tuple[PlacedSite, ...]]]:
        """The groups of a kind with their placed sites."""
        return [(g, s) for g, s in zip(self.system.groups, self.sites) if g.kind == kind]


@checked
def prepare(system: System) -> Prepared:
    """Merges bodies into links and places everything on them. Done once, outside time loops."""
    links = links_of(system)
    sites = tuple(tuple(placed_site(system, links, s) for s in g.sites) for g in system.groups)
    rigid = link_inertias(system, links)
    added = _added(system, sites)
    if added is None:
        return Prepared(system, links, rigid, rigid, None, sites)
    whole = jax.tree.map(jnp.add, jax.vmap(Rigid.blocks)(rigid), added)
    return Prepared(system, links, whole, rigid, added, sites)


def placed_site(system: System, links: Links, site: PackedSite) -> PlacedSite:
    """Sites placed on links, from where they are on bodies."""
    top = system.topology
    bodies = np.minimum(np.array(site.bodies), top.body_count - 1)  # the entry of the world is not used
    world = np.array(site.bodies) == top.body_count
    position, rotation = site.position, site.rotation
    if site.section is not None:  # the piece begins in the frame of the body, or of the joint that carries the rod
        root = np.array(site.root)
        position = rotation = None
        if (root >= 0).any():
            first = root >= 0
            at = np.maximum(root, 0)
            position = jnp.where(first[:, None], system.joint_position[at], 0.0)
            rotation = jnp.where(first[:, None, None], system.joint_rotation[at], jnp.eye(3))
    if not top.on_fixed_joint[bodies][~world].any():
        return PlacedSite(position, rotation)
    p, R = links.body_position[bodies], links.body_rotation[bodies]
    if world.any():
        p = jnp.where(world[:, None], 0.0, p)
        R = jnp.where(world[:, None, None], jnp.eye(3), R)
    return PlacedSite(
        p if position is None else p + jax.vmap(matvec)(R, position),
        R if rotation is None else jax.vmap(matmul)(R, rotation),
    )


def _added(system: System, sites: tuple[tuple[PlacedSite, ...], ...]) -> Blocks | None:
    """Weightless inertias, summed over the links; None if there are none."""
    total = None
    n = system.topology.link_count
    for group, places in zip(system.groups, sites):
        if "inertia" not in group.does:
            continue
        total = jnp.zeros((n, 6, 6)) if total is None else total
        if group.along:
            own = jax.vmap(lambda form, table: jax.vmap(form.inertia)(table))(group.form, group.node_table)
            for k, (g, m) in enumerate(group.rods):
                rods = system.rods[g]
                total = total.at[np.array(rods.links[m])].add(rods.weights[m][:, None, None] * own[k])
            continue
        own = jnp.asarray(group.call("inertia")).reshape(group.size, -1, 6, 6)
        for s, (site, place) in enumerate(zip(group.sites, places)):
            bodies = np.array(site.bodies)
            there = bodies < system.topology.body_count
            R = jnp.tile(jnp.eye(3), (len(bodies), 1, 1)) if place.rotation is None else place.rotation
            p = jnp.zeros((len(bodies), 3)) if place.position is None else place.position
            on_link = jax.vmap(lambda M, R, p: Blocks.of(M).carried(R, p).matrix())(own[:, s], R, p)
            total = total.at[system.topology.link_of_body[bodies[there]]].add(on_link[there])
    return None if total is None else jax.vmap(Blocks.of)(total)
