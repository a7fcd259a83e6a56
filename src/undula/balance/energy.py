"""Energies and powers of a snapshot, summed over bodies and force models by account."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.balance.along import of_each, sections_of, stored_energy
from undula.balance.assemble import Exerted, exert, member_powers
from undula.balance.views import memory_of, views
from undula.core.arrays import Array
from undula.elements.view import each
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared
from undula.model.state import displaced
from undula.numerics.small import matvec
from undula.tree.driven import driven_motion
from undula.tree.sites import Seen, see
from undula.tree.snapshot import Snapshot, place


def kinetic_energy_of(prepared: Prepared, snap: Snapshot) -> Float[Array, ""]:
    """Kinetic energy [J], including that of armatures and of weightless inertia."""
    V, W = snap.motion.V, snap.motion.W  # type: ignore[union-attr]
    p, h = jax.vmap(lambda I, V, W: I.momentum(V, W))(prepared.inertia, V, W)
    total = ((p * V).sum() + (h * W).sum()) / 2
    own = prepared.system.armature
    return total if own is None else total + (own * snap.state.v**2).sum() / 2


def first_moment(prepared: Prepared, snap: Snapshot) -> Float[Array, "3"]:
    """Mass times centre of mass in the world [kg m]."""
    m, s = prepared.rigid.mass, prepared.rigid.moment
    assert snap.pw is not None
    return (m[:, None] * snap.pw + jax.vmap(matvec)(snap.Rw, s)).sum(0)


def linear_momentum(prepared: Prepared, snap: Snapshot) -> Float[Array, "3"]:
    """Rate of `first_moment`: the momentum of all mass that has weight, in the world [kg m/s]."""

    def of_link(I, R, V, W):
        return matvec(R, I.momentum(V, W)[0])

    V, W = snap.motion.V, snap.motion.W  # type: ignore[union-attr]
    return jax.vmap(of_link)(prepared.rigid, snap.Rw, V, W).sum(0)


class Energies(NamedTuple):
    """Kinetic energy; potential energy of all force models; `stored`: kinetic energy plus the conservative part of the
    potential energy, a sum that only the power of non-conservative models changes [J]."""

    kinetic: Float[Array, ""]
    potential: Float[Array, ""]
    stored: Float[Array, ""]


def energies_of(prepared: Prepared, snap: Snapshot) -> Energies:
    """The energies of a snapshot."""
    kinetic, conservative, others = kinetic_energy_of(prepared, snap), jnp.zeros(()), jnp.zeros(())
    for group, places in prepared.grouped("force"):
        part = _stored(prepared, snap, group, places)
        if part is not None and group.form.account == "conservative":
            conservative = conservative + part
        elif part is not None:
            others = others + part
    return Energies(kinetic, conservative + others, kinetic + conservative)


def _stored(
    prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]
) -> Float[Array, ""] | None:
    """Energy of a group, including that of a conservative uniform field; None if it has none."""
    total = None
    if "field" in group.does and group.form.account == "conservative":
        g = group.call("field", snap.t).sum(0)
        total = -(first_moment(prepared, snap) * g).sum()
    if "energy" in group.does:
        own = group_energy(prepared, snap, group, places)
        total = own if total is None else total + own
    return total


def potential_energy_of(prepared: Prepared, snap: Snapshot) -> Float[Array, ""]:
    """Energy of all force models that have one, and of conservative uniform fields [J]."""
    return energies_of(prepared, snap).potential


def group_energy(prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]) -> Float[Array, ""]:
    """Energy of the elements of one group [J]."""
    if group.along:
        sections = sections_of(prepared, snap, group, still=True)
        if "energy_density" in group.does:
            return stored_energy(group, sections).sum()
        return of_each(lambda form, at: form.energy(at), group.form, sections.whole).sum()
    seen = see(prepared, snap, group, places, memory_of(group, snap.state), still=True)
    at = views(snap, group, seen, still=True)
    return each(lambda form, at: form.energy(at), group.form, at).sum()


class Powers(NamedTuple):
    """Powers of force models that are not accounted for in their energies [W]: of actuators at sites (those on coordinates are
    part of the efforts), and of all others."""

    actuators: Float[Array, ""]
    others: Float[Array, ""]


class Acting(NamedTuple):
    """A group of force models in a snapshot: the views of its sites, its forces, and their powers [W]."""

    group: Group
    places: tuple[PlacedSite, ...]
    seen: tuple[Seen, ...]
    exerted: Exerted
    sited: Float[Array, "m"]
    on_coordinates: Float[Array, "m"]


def acting_in(prepared: Prepared, snap: Snapshot) -> list[Acting]:
    """Forces and powers [W] in a snapshot of all force models that are recorded or non-conservative."""
    out = []
    for group, places in prepared.grouped("force"):
        acts = {"wrench", "effort", "pull", "stress"} & set(group.does)
        if acts and (group.form.recorded or group.form.account != "conservative"):
            seen = see(prepared, snap, group, places, memory_of(group, snap.state))
            exerted = exert(prepared, snap, group, seen)
            powers = member_powers(prepared, snap, group, seen, exerted)
            out.append(Acting(group, places, seen, exerted, *powers))
    return out


def powers_of(prepared: Prepared, snap: Snapshot, acting: list[Acting]) -> Powers:
    """Powers of all non-conservative force models."""
    actuators, others = jnp.zeros(()), jnp.zeros(())
    for x in acting:
        if x.group.form.account == "conservative":
            continue
        actuator = x.group.form.account == "actuator"
        total = x.sited.sum() if actuator else (x.sited + x.on_coordinates).sum()
        if "energy" in x.group.does:
            total = total + _energy_rate(prepared, snap, x.group, x.places)
        actuators, others = (actuators + total, others) if actuator else (actuators, others + total)
    for group, _ in prepared.grouped("force"):
        if "field" in group.does and group.form.account != "conservative":
            g = group.call("field", snap.t).sum(0)
            others = others + (linear_momentum(prepared, snap) * g).sum()
    return Powers(actuators, others)


def _energy_rate(prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]) -> Float[Array, ""]:
    """Rate of the energy of a group's elements along the motion, laws of time included [W]."""
    state, top = snap.state, prepared.system.topology
    u = state.velocity if top.base_role == "free" else jnp.concatenate([jnp.zeros(6), state.v])

    def energy(s):
        at = displaced(top, state, s * u)
        if top.base_role == "driven":
            at = at.replace(base=driven_motion(prepared.system, snap.t + s, at)[0].base)
        moved = place(prepared, snap.t + s, at, snap.known, screws=False)
        return group_energy(prepared, moved, group, places)

    return jax.jvp(energy, (jnp.zeros(()),), (jnp.ones(()),))[1]
