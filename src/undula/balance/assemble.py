"""The sum of all force models in a snapshot: wrenches on links, efforts on coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.balance.along import densities, is_material, on_nodes, on_strains, sections_of, strain_forces, strain_powers
from undula.balance.controlled import each_seeing
from undula.balance.views import coordinates_of, memory_of, on_coordinates, views
from undula.core.arrays import Array
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared
from undula.model.state import State, chart_force, reported_position
from undula.numerics.pick import pick
from undula.numerics.small import tmatvec
from undula.tree.sites import Seen, carry_wrench, see
from undula.tree.snapshot import Snapshot


class Forces(NamedTuple):
    """Total forces of the force models; None where there are none.

    - `on_links` (links, 6): wrenches in the links' frames; `efforts` (nv,): on coordinates, without those of actuators.
    - `actuators` (nv,): efforts of actuators, on coordinates that are not driven.
    - `power` [W] of all non-conservative models, driven coordinates excluded; None if there are none or if it was not
      requested.
    """

    on_links: Float[Array, "links 6"] | None
    efforts: Float[Array, "nv"] | None
    actuators: Float[Array, "nv"] | None
    power: Float[Array, ""] | None = None


class Exerted(NamedTuple):
    """Forces of the elements of one group.

    - `wrenches`: by component, (members, sites, 6) at sites, or (members, nodes, 6) at the nodes of rods, integrated.
    - `pulls`, `efforts`: (members, c) on their coordinates, from the elements' own `pull` and `effort`; `strains`: (members,
      gauss, strains, nodes) on the strains of their rods, integrated, from their `stress`.
    """

    wrenches: dict[str, Array]
    pulls: Array | None
    efforts: Array | None
    strains: Array | None


def field_of(prepared: Prepared, t: Any) -> Float[Array, "3"] | None:
    """Sum of the uniform fields of force models [m/s^2]; None if there are none."""
    parts = [group.call("field", t).sum(0) for group in prepared.system.forces if "field" in group.does]
    return sum(parts[1:], parts[0]) if parts else None


def wants_sites(prepared: Prepared) -> bool:
    """Whether forces need the frames and twists of links: forces at sites, and those of weightless inertia."""
    seen = {"wrench", "effort", "pull"}
    sited = any((g.sites and seen & set(g.does)) or (g.along and "wrench" in g.does) for g in prepared.system.forces)
    return sited or prepared.added is not None


def assemble(
    prepared: Prepared, snap: Snapshot, t_actuators: Any = None, still: bool = False, power: bool = False
) -> Forces:
    """Sums the forces of all force models in a snapshot.

    `t_actuators`: another time for the laws of actuators [s]; `still`: velocities count as zero; `power`: also sums the power
    of non-conservative models.
    """
    system = prepared.system
    on_links = efforts = actuators = pulls = supplied = None
    for group, places in prepared.grouped("force"):
        if not {"wrench", "effort", "pull", "stress"} & set(group.does):
            continue
        actuator = group.form.account == "actuator"
        seen = see(prepared, snap, group, places, memory_of(group, snap.state), still=still)
        out = exert(prepared, snap, group, seen, t_actuators if actuator else None, still)
        if out.wrenches:
            links, strains = _carried(prepared, snap, group, places, seen, out.wrenches)
            on_links = links if on_links is None else on_links + links
            if strains is not None:
                efforts = strains if efforts is None else efforts + strains
        if out.pulls is not None:
            part = on_coordinates(group, out.pulls, system.nv)
            pulls = part if pulls is None else pulls + part
        if power and group.form.account != "conservative":
            part = _power(prepared, snap, group, seen, out)
            supplied = part if supplied is None else supplied + part
        parts = [] if out.efforts is None else [on_coordinates(group, out.efforts, system.nv)]
        if out.strains is not None:
            parts.append(on_strains(prepared, group, out.strains))
        for part in parts:
            if actuator:
                actuators = part if actuators is None else actuators + part
            else:
                efforts = part if efforts is None else efforts + part
    if pulls is not None:
        pulls = chart_force(system.topology, snap.state.q, pulls)
        efforts = pulls if efforts is None else efforts + pulls
    if actuators is not None and system.topology.driven.any():
        actuators = jnp.where(system.topology.driven, 0.0, actuators)  # part of the driving effort, which is solved for
    weight = _weightless(prepared, snap)
    if weight is not None:
        on_links = weight if on_links is None else on_links + weight
    return Forces(on_links, efforts, actuators, supplied)


def _power(
    prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...], out: "Exerted"
) -> Float[Array, ""]:
    """Power of the elements of a group [W]; that of actuators on driven coordinates is left out."""
    sited, on_coordinates = member_powers(prepared, snap, group, seen, out)
    return sited.sum() + on_coordinates.sum()


def member_powers(
    prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...], out: "Exerted"
) -> tuple[Float[Array, "m"], Float[Array, "m"]]:
    """Power of each element of a group [W]: of its wrenches, and of its efforts on coordinates and strains.

    That of actuators on driven coordinates is left out: it is part of the power of the driving efforts.
    """
    sited = on_coordinates = jnp.zeros(group.size)
    if out.wrenches:
        total: Any = sum(list(out.wrenches.values())[1:], next(iter(out.wrenches.values())))
        sited = (total * _twists(prepared, snap, group, seen)).sum((1, 2))
    v = snap.state.v
    if group.form.account == "actuator" and prepared.system.topology.driven.any():
        v = jnp.where(prepared.system.topology.driven, 0.0, v)
    if out.efforts is not None:
        on_coordinates = on_coordinates + (out.efforts * pick(v, coordinates_of(group))).sum(1)
    if out.pulls is not None:
        on_coordinates = on_coordinates + _pull_power(prepared, snap, group, out.pulls)
    if out.strains is not None:
        on_coordinates = on_coordinates + strain_powers(prepared, group, out.strains, v)
    return sited, on_coordinates


def _twists(prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...]) -> Float[Array, "m s 6"]:
    """Twists of the sites of a group, or of the nodes of its rods."""
    if group.along:
        at = sections_of(prepared, snap, group).nodes.section
        return jnp.concatenate([at.V, at.W], axis=-1)
    return jnp.stack([jnp.concatenate([s.view.V, s.view.W], axis=-1) for s in seen], 1)


def _pull_power(prepared: Prepared, snap: Snapshot, group: Group, pulls: Array) -> Float[Array, "m"]:
    """Power of efforts conjugate to the reported coordinates, from the rates of these."""
    where = coordinates_of(group)
    top = prepared.system.topology
    if top.adds:
        return (pulls * pick(snap.state.v, where)).sum(1)
    each = [jnp.zeros(top.nv).at[where[k]].set(pulls[k]) for k in range(group.size)]
    return jnp.stack([(chart_force(top, snap.state.q, x) * snap.state.v).sum() for x in each])


def passive_efforts(prepared: Prepared, t: Any, state: State) -> Float[Array, "nv"]:
    """Efforts (nv,) of springs and dampers of coordinates, and of the elasticity and viscosity of rods."""
    system = prepared.system
    snap = Snapshot(t, state, None, reported_position(system.topology, state.q), None)  # type: ignore[arg-type]
    total = jnp.zeros(system.nv)
    for group, _ in prepared.grouped("force"):
        if is_material(group):
            strains = exert(prepared, snap, group, ()).strains
            assert strains is not None
            total = total + on_strains(prepared, group, strains)
        elif "linear" in group.does and group.form.account != "actuator":
            out = exert(prepared, snap, group, ())
            for part in (out.pulls, out.efforts):
                total = total if part is None else total + on_coordinates(group, part, system.nv)
    return total


def exert(
    prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...], t: Any = None, still: bool = False
) -> Exerted:
    """Forces of the elements of a group in a snapshot."""
    if group.along:
        return _exert_along(prepared, snap, group, t, still)
    at = views(snap, group, seen, t, still)
    here = prepared, snap, group, seen
    found: dict[str, Array] = {}
    if "wrench" in group.does:
        found = named(each_seeing(*here, lambda form, at: form.wrench(at), at), (group.size, len(seen), 6))
    pulls, efforts = (
        each_seeing(*here, lambda form, at, what=what: getattr(form, what)(at), at) if what in group.does else None
        for what in ("pull", "effort")
    )
    return Exerted(found, pulls, efforts, None)


def _exert_along(prepared: Prepared, snap: Snapshot, group: Group, t: Any, still: bool) -> Exerted:
    seen = sections_of(prepared, snap, group, t, still)
    weights = seen.rods.weights
    found: dict[str, Array] = {}
    if "wrench" in group.does:
        by_name = named(densities(group, seen), (*weights.shape, 6))
        found = {name: weights[..., None] * x for name, x in by_name.items()}
    return Exerted(found, None, None, strain_forces(group, seen) if "stress" in group.does else None)


def named(wrench: Any, shape: tuple[int, ...]) -> dict[str, Array]:
    """Components of a wrench by name; a single one is called ""."""
    parts = wrench if isinstance(wrench, dict) else {"": wrench}
    return {name: jnp.asarray(x).reshape(shape) for name, x in parts.items()}


def _carried(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    places: tuple[PlacedSite, ...],
    seen: tuple[Seen, ...],
    wrenches: dict[str, Array],
) -> tuple[Array, Array | None]:
    """The sum of the components, on links and on the strains of rods."""
    total = sum(list(wrenches.values())[1:], next(iter(wrenches.values())))
    if group.along:
        return on_nodes(prepared, group, total), None
    links: Any = None
    strains: Any = None
    for s, (site, place, here) in enumerate(zip(group.sites, places, seen)):
        part, own = carry_wrench(prepared, snap, site, place, here, total[:, s])
        links = part if links is None else links + part
        if own is not None:
            strains = own if strains is None else strains + own
    return links, strains


def _weightless(prepared: Prepared, snap: Snapshot) -> Float[Array, "links 6"] | None:
    """Wrenches that cancel the weight of weightless inertia: the field is subtracted from the snapshot's accelerations."""
    if prepared.added is None or snap.field is None:
        return None

    def back(I, R):
        return jnp.concatenate(I.momentum(tmatvec(R, snap.field), jnp.zeros(3)))

    return -jax.vmap(back)(prepared.added, snap.Rw)
