"""The rows of a system stacked: A u + (known part) = 0, evaluated group by group.

All rows of one form are evaluated together. Each sees only its own sites, so a small local Jacobian is found by automatic
differentiation and mapped to the coordinates by the screws of the joints: the cost is linear in rows times coordinates
(document 000, (3.42): A_row = w Ad, B_row = w Ad A_k on the path to the body).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.views import coordinates_of, memory_of, views
from undula.core.arrays import Array
from undula.elements.element import state_rate
from undula.elements.row import RowModel, along_rods, velocities
from undula.elements.view import View, each, site_rate
from undula.lie.se3 import push_wrench
from undula.model.packing import Group
from undula.model.prepare import Prepared
from undula.numerics.pick import pick
from undula.tree.sites import Seen, carry_rows, over_strains, see
from undula.tree.snapshot import Snapshot


class Rows(NamedTuple):
    """The stacked rows at one instant: A u + `driven` = 0 (k,), with A (k, 6 + nv) over (base twist, coordinates).

    `driven`: velocities imposed by laws of time inside row models; `gap`: the position residuals, zero for other rows.
    """

    A: Float[Array, "k n"]
    driven: Float[Array, "k"]
    gap: Float[Array, "k"]


def row_count(groups: Any) -> int:
    """Number of rows of the groups."""
    return sum(len(places) for group in groups for places in group.rows)


def has_gaps(groups: Any) -> bool:
    """Whether some rows are rates of gaps."""
    return any(group.gaps for group in groups)


def in_order(groups: list[Group], parts: list[Array]) -> Array:
    """Values of the groups, in the order of the rows."""
    places = np.concatenate([np.array(group.rows).reshape(-1) for group in groups])
    joined, order = jnp.concatenate(parts), np.argsort(places)
    return joined if np.array_equal(order, np.arange(len(order))) else pick(joined, order)


def rows_of(prepared: Prepared, snap: Snapshot, kind: str = "ideal") -> Rows:
    """All rows of a kind, in order. They depend on the configuration and time only.

    Rows that are switched off are zero.
    """
    found = prepared.grouped(kind)
    n = 6 + prepared.system.nv
    if not found:
        return Rows(jnp.zeros((0, n)), *(jnp.zeros(0),) * 2)
    A, driven, gap = [], [], []
    for group, places in found:
        seen = see(prepared, snap, group, places, memory_of(group, snap.state), still=True)
        at = views(snap, group, seen, still=True)
        parts = each(lambda form, at, found=group.found: _local(form, at, found), group.form, at)
        driven.append(parts[0].reshape(-1))
        gap.append(parts[1].reshape(-1))
        A.append(_over_velocities(prepared, snap, group, seen, *parts[2:]))
    groups = [group for group, _ in found]
    rows = Rows(*(in_order(groups, x) for x in (A, driven, gap)))
    mask = prepared.system.mask
    if kind == "ideal" and mask is not None:
        rows = Rows(mask[:, None] * rows.A, mask * rows.driven, mask * rows.gap)
    return rows


def _local(form: RowModel, at: View, found: tuple[int, ...]) -> tuple[Any, ...]:
    """One row model at rest: imposed velocities, gaps, and local Jacobians over twists, strain rates and rates."""
    on_rods = [k for k, s in enumerate(at.sites) if s.X is not None]

    def of_velocities(twists, strains, v):
        moved = [s._replace(V=x[:3], W=x[3:]) for s, x in zip(at.sites, twists)]
        for k, x in zip(on_rods, strains):
            moved[k] = moved[k]._replace(dxi=x)
        return velocities(form, at._replace(sites=tuple(moved), v=v), found)

    zero = jnp.zeros((len(at.sites), 6)), jnp.zeros((len(on_rods), 6)), jnp.zeros_like(at.v)
    driven = of_velocities(*zero)
    by_twist, by_strain, by_rate = jax.jacfwd(of_velocities, (0, 1, 2))(*zero)
    gap = form.gap(at)
    return driven, jnp.concatenate([gap, jnp.zeros(driven.shape[0] - gap.shape[0])]), by_twist, by_strain, by_rate


def local_rows(prepared: Prepared, snap: Snapshot) -> tuple[Float[Array, "k 6"], np.ndarray]:
    """Rows of constraints between one body and the world, over the twist of its link in the link's frame; and the links."""
    parts, links = [jnp.zeros((0, 6))], [np.zeros(0, dtype=int)]
    for group, places in prepared.grouped("ideal"):
        if len(group.sites) != 1 or group.sites[0].section is not None:
            continue
        seen = see(prepared, snap, group, places, memory_of(group, snap.state), still=True)
        at = views(snap, group, seen, still=True)
        by_twist = each(lambda form, at, found=group.found: _local(form, at, found), group.form, at)[2][:, :, 0]
        R = jnp.tile(jnp.eye(3), (group.size, 1, 1)) if places[0].rotation is None else places[0].rotation
        p = jnp.zeros((group.size, 3)) if places[0].position is None else places[0].position
        on_link = jax.vmap(lambda R, p, w: jax.vmap(lambda w: push_wrench(R, p, w))(w))(R, p, by_twist)
        parts.append(on_link.reshape(-1, 6))
        links.append(np.repeat(np.asarray(seen[0].links), by_twist.shape[1]))
    return jnp.concatenate(parts), np.concatenate(links)


def _over_velocities(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    seen: tuple[Seen, ...],
    by_twist: Any,
    by_strain: Any,
    by_rate: Any,
) -> Float[Array, "rows n"]:
    """Rows over (base twist, coordinates), from the local Jacobians of the members."""
    system = prepared.system
    m, k = by_rate.shape[:2]
    coordinates = coordinates_of(group)
    out = jnp.zeros((m, k, 6 + system.nv))
    strained = 0
    for s, (site, here) in enumerate(zip(group.sites, seen)):
        out = out + carry_rows(prepared, snap, site, here, by_twist[:, :, s])
        if here.pieces is not None:
            assert here.end_shapes is not None
            whole = by_strain[:, :, strained]
            own = jnp.stack([whole[..., c] for c in here.pieces.strains], -1)
            out = out + over_strains(system, here.pieces, (own[..., None] * here.end_shapes[:, None]).sum(2))
            strained += 1
    out = out.reshape(m * k, -1)
    base, joints = out[:, :6], out[:, 6:]
    for c in range(coordinates.shape[1]):
        joints = joints + (by_rate[:, :, c, None] * np.eye(system.nv)[coordinates[:, c]][:, None]).reshape(m * k, -1)
    return jnp.concatenate([base, joints], axis=1)


def rates_of(prepared: Prepared, snap: Snapshot) -> Float[Array, "k"]:
    """Rates of the ideal rows at the known accelerations: A u' + rates = 0 for the unknown accelerations u'."""
    parts, groups = [], []
    for group, places in prepared.grouped("ideal"):
        seen = see(prepared, snap, group, places, memory_of(group, snap.state), gains=True)
        at = views(snap, group, seen)
        more = tuple((s.gain, s.ddxi, s.ddX) for s in seen)
        gains = pick(snap.known.v, coordinates_of(group))
        rates = each(
            lambda form, at, more, dv, found=group.found: _rate(form, at, more, dv, found), group.form, at, more, gains
        )
        parts.append(rates.reshape(-1))
        groups.append(group)
    out = in_order(groups, parts) if groups else jnp.zeros(0)
    mask = prepared.system.mask
    return out if mask is None else mask * out


def _rate(form: RowModel, at: View, more: tuple[Any, ...], dv: Array, found: tuple[int, ...]) -> Array:
    """Rate of one row model's velocity residuals along the motion."""
    sites = tuple(
        site_rate(s, dX, gain[:3], gain[3:], ddxi, ddX)
        for s, dX, (gain, ddxi, ddX) in zip(at.sites, along_rods(form, at, found), more)
    )
    still = jax.tree.map(jnp.zeros_like, at.whole)
    moved = View(jnp.ones(()), sites, at.v, dv, state_rate(form, at), still)
    return jax.jvp(lambda at: velocities(form, at, found), (at,), (moved,))[1]
