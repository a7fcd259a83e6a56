"""Stiffness and damping of force models, for methods that treat them implicitly.

Models that are linear in coordinates provide them (`linear`). Among the others, those on coordinates, those at one site of a
body and the materials of rods are differentiated locally: with respect to their own coordinates, to the pose and twist of their
site, or to the strain and its rate.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.along import is_material, of_each, sections_of
from undula.balance.controlled import displaced_view, each_seeing
from undula.balance.views import coordinates_of, memory_of, on_coordinates, views
from undula.core.arrays import Array
from undula.elements.along import SectionView
from undula.elements.view import View, each
from undula.model.inertia import Blocks, Rigid
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared
from undula.numerics.pick import pick
from undula.numerics.small import hat, matmul, matvec
from undula.tree.sites import see
from undula.tree.snapshot import Snapshot


class Stiffness(NamedTuple):
    """Symmetric stiffness and damping: over the coordinates, diagonals (nv,) and, for models that are not diagonal, matrices
    (nv, nv); over the twists of links, (links, 6, 6) in their frames. None where there are none."""

    k: Float[Array, "nv"]
    d: Float[Array, "nv"]
    K: Float[Array, "nv nv"] | None
    D: Float[Array, "nv nv"] | None
    K_links: Float[Array, "links 6 6"] | None
    D_links: Float[Array, "links 6 6"] | None

    def over(self, by_k: Any, by_d: Any, which: np.ndarray) -> Float[Array, "m m"]:
        """by_k K + by_d D of the coordinates, over the entries `which` of (base twist, coordinates)."""
        diagonal = jnp.concatenate([jnp.zeros(6), by_k * self.k + by_d * self.d])
        out = jnp.diag(pick(diagonal, which))
        if self.K is None or self.D is None:
            return out
        whole = jnp.zeros((6 + len(self.k),) * 2).at[6:, 6:].set(by_k * self.K + by_d * self.D)
        return out + whole[which][:, which]

    def pulled(self, v: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """K v of the coordinates."""
        return self.k * v if self.K is None else self.k * v + matvec(self.K, v)

    def stiffer(self, inertia: Rigid | Blocks, by_k: Any, by_d: Any) -> Rigid | Blocks:
        """Inertias of links with by_k K + by_d D of the links added."""
        if self.K_links is None or self.D_links is None:
            return inertia
        more = jax.vmap(Blocks.of)(by_k * self.K_links + by_d * self.D_links)
        return jax.tree.map(jnp.add, jax.vmap(lambda I: I.blocks())(inertia), more)


def stiffness_of(prepared: Prepared, snap: Snapshot | None = None) -> Stiffness:
    """The sum over all force models; without a snapshot, over the linear ones."""
    system = prepared.system
    nv = system.nv
    k = d = jnp.zeros(nv)
    K: Array | None = None
    D: Array | None = None
    K_links: Array | None = None
    D_links: Array | None = None
    for group, places in prepared.grouped("force"):
        if "linear" in group.does:
            own = group.call("linear")
            if own[0].ndim == 2:
                k, d = k + on_coordinates(group, own[0], nv), d + on_coordinates(group, own[1], nv)
                continue
        elif snap is None or not group.form.stiff:
            continue
        elif {"effort", "pull"} & set(group.does):
            own = _by_coordinates(prepared, snap, group, places)
        elif "wrench" in group.does and len(group.sites) == 1 and group.sites[0].section is None:
            at_links = _by_twist(prepared, snap, group, places)
            K_links, D_links = (x if old is None else old + x for old, x in zip((K_links, D_links), at_links))
            continue
        elif is_material(group):
            K, D = (x if old is None else old + x for old, x in zip((K, D), _by_strain(prepared, snap, group)))
            continue
        else:
            continue
        parts = [_placed(group, x, nv) for x in own]
        K, D = (x if old is None else old + x for old, x in zip((K, D), parts))
    return Stiffness(k, d, K, D, K_links, D_links)


def _placed(group: Group, matrix: Float[Array, "m c c"], nv: int) -> Float[Array, "nv nv"]:
    out = jnp.zeros((nv, nv))
    for j, where in enumerate(coordinates_of(group)):
        out = out.at[np.ix_(where, where)].add(matrix[j])
    return out


def _symmetric(x: Float[Array, "*m n n"]) -> Float[Array, "*m n n"]:
    return (x + jnp.swapaxes(x, -1, -2)) / 2


def _by_coordinates(prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]) -> Any:
    """Stiffness and damping (m, c, c) of a group's efforts in its own coordinates."""
    seen = see(prepared, snap, group, places, memory_of(group, snap.state))

    def efforts(form: Any, at: View, x: Array, v: Array) -> Array:
        here = at._replace(x=x, v=v) if at.plant is None else displaced_view(at, x - at.x, v - at.v)
        parts = [getattr(form, what)(here) for what in ("pull", "effort") if what in group.does]
        return sum(parts[1:], parts[0])

    def one(form, at):
        return jax.jacfwd(lambda x, v: efforts(form, at, x, v), (0, 1))(at.x, at.v)

    found = each_seeing(prepared, snap, group, seen, one, views(snap, group, seen))
    return tuple(_symmetric(-x) for x in found)


def _by_strain(prepared: Prepared, snap: Snapshot, group: Group) -> tuple[Array, Array]:
    """Stiffness and damping (nv, nv) of a group's stresses along rods."""
    seen = sections_of(prepared, snap, group)

    def one(form: Any, at: SectionView) -> Any:
        def stress(xi, dxi):
            return form.stress(at._replace(section=at.section._replace(xi=xi, dxi=dxi)))

        return jax.jacfwd(stress, (0, 1))(at.section.xi, at.section.dxi)

    rods, nv = seen.rods, prepared.system.nv
    shapes = jnp.moveaxis(rods.shapes, 3, 2)  # (members, gauss, nodes, strains, modes)
    out = []
    for tangent in of_each(one, group.form, seen.gauss, 2):
        weighted = _symmetric(tangent) * rods.gauss_weights[..., None, None]
        own = jnp.stack([jnp.stack([weighted[..., a, b] for b in rods.strains], -1) for a in rods.strains], -2)
        # forces on the strains, then on the coordinates, per unit of each coordinate
        pushed = (own[..., None] * shapes[..., None, :, :]).sum(-2)
        by_modes = (shapes[..., None] * pushed[..., None, :]).sum((1, 2, 3))
        total = jnp.zeros((nv, nv))
        for j, (_, k) in enumerate(group.rods):
            where = nv - rods.total + np.array(rods.coordinates[k])
            total = total.at[np.ix_(where, where)].add(by_modes[j])
        out.append(total)
    return out[0], out[1]


def _by_twist(prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]) -> Any:
    """Stiffness and damping (links, 6, 6) of a group's wrenches at one site, over the links' displacements and twists."""
    seen = see(prepared, snap, group, places, memory_of(group, snap.state))
    at = views(snap, group, seen)

    def one(form, at):
        (s,) = at.sites

        def wrench(shift, twist):
            moved = s._replace(
                R=matmul(s.R, jnp.eye(3) + hat(shift[3:])), p=s.p + matvec(s.R, shift[:3]), V=twist[:3], W=twist[3:]
            )
            out = form.wrench(at._replace(sites=(moved,)))
            return sum(out.values()) if isinstance(out, dict) else out

        return jax.jacfwd(wrench, (0, 1))(jnp.zeros(6), s.twist)

    top, place = prepared.system.topology, places[0]
    bodies = np.array(group.sites[0].bodies)
    there = bodies < top.body_count
    R = jnp.tile(jnp.eye(3), (group.size, 1, 1)) if place.rotation is None else place.rotation
    p = jnp.zeros((group.size, 3)) if place.position is None else place.position
    out = []
    for x in each(one, group.form, at):
        on_link = jax.vmap(lambda M, R, p: Blocks.of(M).carried(R, p).matrix())(_symmetric(-x), R, p)
        total = jnp.zeros((top.link_count, 6, 6)).at[top.link_of_body[bodies[there]]].add(on_link[there])
        out.append(total)
    return tuple(out)
