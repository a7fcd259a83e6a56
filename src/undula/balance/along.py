"""Force models along rods in a snapshot: the views of the sections and the wrenches exerted there."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.views import views
from undula.core.arrays import Array
from undula.elements.along import SectionView
from undula.elements.view import SiteView
from undula.joints.rod.group import RodGroup
from undula.model.packing import Group
from undula.model.prepare import Prepared
from undula.numerics.pick import pick, sum_into
from undula.tree.snapshot import Snapshot


class Sections(NamedTuple):
    """The rods of the elements of a group, one per member, and the elements' views.

    `gauss`: at the Gauss points, over (members, gauss, nodes); `nodes`: over (members, nodes); `whole`: of the entire rod.
    """

    rods: RodGroup
    gauss: SectionView
    nodes: SectionView
    whole: SectionView


# vmap axes over the members of a group, and over the sections of a member: time and the whole state are shared
_MEMBERS = SectionView(t=None, X=0, section=0, table=0, total=0, x=0, v=0, z=0, whole=None)  # type: ignore[arg-type]
_SECTIONS = SectionView(None, 0, 0, 0, None, None, None, None, None)  # type: ignore[arg-type]


def of_each(function: Callable[..., Any], forms: Any, at: SectionView, axes: int = 0) -> Any:
    """`function` (form, view) for every member of a group and, with `axes` section axes, at every section."""
    for _ in range(axes):
        function = jax.vmap(function, (None, _SECTIONS))
    return jax.vmap(function, (0, _MEMBERS))(forms, at)


def sections_of(prepared: Prepared, snap: Snapshot, group: Group, t: Any = None, still: bool = False) -> Sections:
    """Views of the elements of a group along rods; `t`: another time for laws [s]; `still`: without velocities."""
    packed = prepared.system.rods[group.rods[0][0]]
    members = np.array([m for _, m in group.rods])
    rods = jax.tree.map(lambda x: pick(x, members), packed)
    q, v = packed.own(snap.state.q), packed.own(snap.state.v)
    v = 0 * v if still else v
    at = views(snap, group, (), t, still)
    empty = SiteView(None, None, None, None)  # type: ignore[arg-type]
    whole = SectionView(at.t, None, empty, None, (), at.x, at.v, at.z, at.whole)  # type: ignore[arg-type]

    X = rods.gauss_abscissae
    strains = packed.whole(packed.bent(q)), packed.whole_rates(packed.field(v))  # once per rod, not per element
    xi, dxi = (pick(jnp.moveaxis(x, 2, -1), members) for x in strains)  # (members, gauss, nodes, 6)
    gauss = whole._replace(X=X, section=empty._replace(X=X, xi=xi, dxi=dxi), table=group.gauss_table)
    if "gather" in group.does:
        density = of_each(lambda form, at: form.gather(at), group.form, gauss, 2)
        w = rods.gauss_weights
        total = jax.tree.map(lambda d: (d * w.reshape(*w.shape, *(1,) * (d.ndim - 3))).sum((1, 2)), density)
        whole, gauss = whole._replace(total=total), gauss._replace(total=total)
    nodes = whole._replace(X=rods.abscissae[:, 1:], table=group.node_table)
    if "wrench" in group.does:
        nodes = nodes._replace(section=_at_nodes(snap, packed, members, q, v, still))
    return Sections(rods, gauss, nodes, whole)


def _at_nodes(snap: Snapshot, packed: RodGroup, members: np.ndarray, q: Array, v: Array, still: bool) -> SiteView:
    links = np.array([packed.links[m] for m in members])
    assert snap.Rw is not None and snap.pw is not None
    R, p = pick(snap.Rw, links), pick(snap.pw, links)
    if still or snap.motion is None:
        V = W = 0 * p
    else:
        V, W = pick(snap.motion.V, links), pick(snap.motion.W, links)
    sections = packed.abscissae, packed.section_strains(q), packed.section_strain_rates(v)
    return SiteView(R, p, V, W, *(pick(x[:, 1:], members) for x in sections))


def densities(group: Group, seen: Sections) -> Any:
    """Wrenches per unit length at the nodes (members, nodes, 6), or a dictionary of such arrays."""
    return of_each(lambda form, at: form.wrench(at), group.form, seen.nodes, 1)


def strain_forces(group: Group, seen: Sections) -> Float[Array, "m gauss strains nodes"]:
    """Forces of internal wrenches on the strains at the Gauss points, times their weights: minus wrench . strain."""
    rods = seen.rods
    stress = of_each(lambda form, at: form.stress(at), group.form, seen.gauss, 2) * rods.gauss_weights[..., None]
    return -jnp.stack([stress[..., c] for c in rods.strains], 2)


def stored_energy(group: Group, seen: Sections) -> Float[Array, "m"]:
    """Integral over each rod of the energy density of an element [J]."""
    density = of_each(lambda form, at: form.energy_density(at), group.form, seen.gauss, 2)
    return (density * seen.rods.gauss_weights).sum((1, 2))


def is_material(group: Group) -> bool:
    """Whether elements exert nothing but passive stresses in rods, functions of the strain and its rate: materials."""
    exerts = {"wrench", "effort", "pull", "stress"} & set(group.does)
    return group.along and exerts == {"stress"} and group.form.account in ("conservative", "dissipative")


def on_nodes(prepared: Prepared, group: Group, wrench: Float[Array, "m nodes 6"]) -> Float[Array, "links 6"]:
    """Wrenches at the nodes of rods, summed on each link."""
    rods = prepared.system.rods
    links = np.array([rods[g].links[m] for g, m in group.rods]).reshape(-1)
    return sum_into(wrench.reshape(-1, 6), links, prepared.system.topology.link_count)


def on_strains(prepared: Prepared, group: Group, forces: Float[Array, "m gauss strains nodes"]) -> Float[Array, "nv"]:
    """Efforts on the coordinates of rods of forces on their strains: the integral of (force . strain basis) dX."""
    system = prepared.system
    rods = system.rods[group.rods[0][0]]
    members = np.array([m for _, m in group.rods])
    efforts = rods.cofield(sum_into(forces, members, len(rods.coordinates)))
    return sum_into(efforts.reshape(-1), system.nv - rods.total + np.array(rods.coordinates).reshape(-1), system.nv)


def strain_powers(prepared: Prepared, group: Group, forces: Array, v: Float[Array, "nv"]) -> Float[Array, "m"]:
    """Power of forces on the strains of each element's rod [W]."""
    rods = prepared.system.rods[group.rods[0][0]]
    rates = pick(rods.field(rods.own(v)), np.array([m for _, m in group.rods]))
    return (forces * rates).sum((1, 2, 3))
