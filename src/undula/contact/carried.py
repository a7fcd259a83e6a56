"""Contacts in a snapshot: gaps and their rows over the velocities (document 003, sections III-B and IV-A)."""

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import UndulaError
from undula.elements.row import Touching
from undula.elements.view import View, each
from undula.model.packing import Group, member
from undula.model.prepare import PlacedSite, Prepared
from undula.model.sites import PackedSite
from undula.model.system import System
from undula.numerics.small import cross, outer, tmatvec
from undula.tree.sites import Seen, carry_wrench, over_strains, over_velocities, pushed, see
from undula.tree.snapshot import Snapshot

LIMIT = 1e-4  # friction within this fraction of its limit slips; the solver is more accurate


class Touch(NamedTuple):
    """Contacts of one form at an instant, open or closed; the last axis runs over the contacts.

    - `gap` (m,) [m]; `point` (3, m) [m]: contact point in the world.
    - `directions` (6, k, m): the k rows, the normal one first, over (relative velocity of the point, relative angular
      velocity) in the world; `rows` (6, k, m): the same rows over the twist of a frame at the base's origin, in its axes.
    """

    gap: Array
    point: Array
    directions: Array
    rows: Array


# A group of contacts with its placed sites, their views, and the contact points
Touched = tuple[Group, tuple[PlacedSite, ...], tuple[Seen, ...], Touch]


def contact_count(group: Group) -> int:
    """Number of contacts of a group."""
    return group.size * group.form.slots


def contact_rows(group: Group) -> int:
    """Number of rows per contact: the normal one and those of its law."""
    return 1 + group.form.law.rows


def look_at_contacts(
    prepared: Prepared, snap: Snapshot, group: Group, places: tuple[PlacedSite, ...]
) -> tuple[tuple[Seen, ...], Touching]:
    """The sites of a group of contacts, and its contact points as arrays over (members, slots)."""
    seen = see(prepared, snap, group, places, still=True)
    nothing = jnp.zeros((group.size, 0))
    at = View(jnp.asarray(snap.t, dtype=float), tuple(s.view for s in seen), nothing, nothing)
    return seen, each(lambda form, at: form.touch(at), group.form, at)


def gaps(prepared: Prepared, snap: Snapshot) -> Float[Array, "contacts"]:
    """Gaps of all contacts [m]."""
    parts = [look_at_contacts(prepared, snap, g, s)[1].gap.reshape(-1) for g, s in prepared.grouped("unilateral")]
    return jnp.concatenate([jnp.zeros(0), *parts])


def touch(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    places: tuple[PlacedSite, ...],
    velocity: Float[Array, "n"],
) -> Touched:
    """The contacts of a group; `velocity` (6 + nv,) at the start of the step, for laws that depend on it."""
    seen, found = look_at_contacts(prepared, snap, group, places)
    k = group.form.slots
    gap, normal, point, radius = (x.reshape(-1, *x.shape[2:]) for x in found)
    law = group.form.law if k == 1 else jax.tree.map(lambda x: jnp.repeat(x, k, axis=0), group.form.law)
    R = seen[0].view.R if k == 1 else jnp.repeat(seen[0].view.R, k, axis=0)
    R0, p0 = snap.state.base.rotation, snap.state.base.position

    def to_base(directions):
        """Rows over the twist at the base, from rows over (velocity of a point, angular velocity) in the world."""
        f, couple = (_turned(R0, x) for x in (directions[:3], directions[3:]))
        r = _turned(R0, (point - p0).T)[:, None]
        moment = [r[1] * f[2] - r[2] * f[1], r[2] * f[0] - r[0] * f[2], r[0] * f[1] - r[1] * f[0]]
        return jnp.concatenate([f, couple + jnp.stack(moment)])

    slip = jnp.zeros_like(normal)
    if law.feels_slip:
        axes = jnp.broadcast_to(jnp.eye(6, 3)[:, :, None], (6, 3, len(gap)))
        JT = over_unknowns(prepared, snap, group, seen, to_base(axes), None)
        v = tmatvec(JT, velocity).reshape(3, -1).T
        slip = v - normal * (v * normal).sum(1, keepdims=True)
    directions = jax.vmap(lambda law, n, R, r, s: law.directions(n, R, r, s).T, out_axes=-1)(
        law, normal, R, radius, slip
    )
    upright = jnp.concatenate([normal.T, jnp.zeros_like(normal.T)])[:, None]
    directions = jnp.concatenate([upright, directions], axis=1)
    return group, places, seen, Touch(gap, point.T, directions, to_base(directions))


def _turned(R: Float[Array, "3 3"], x: Float[Array, "3 *n"]) -> Float[Array, "3 *n"]:
    """R^T x, with the components of x along the first axis."""
    return jnp.stack([R[0, j] * x[0] + R[1, j] * x[1] + R[2, j] * x[2] for j in range(3)])


def _sides(seen: tuple[Seen, ...]) -> list[tuple[Seen, float]]:
    """The touching bodies and the signs of the force on them: + on the first, - on the second, if there is one."""
    return [(seen[0], 1.0), *((s, -1.0) for s in seen[1:2])]


def _repeated(links: Any, slots: int) -> Any:
    return links if slots == 1 else np.repeat(links, slots, axis=0)


def over_unknowns(
    prepared: Prepared,
    snap: Snapshot,
    group: Group,
    seen: tuple[Seen, ...],
    rows: Float[Array, "6 k m"],
    chosen: Float[Array, "few m"] | None,
) -> Float[Array, "n columns"]:
    """Rows over all velocities (6 + nv), as columns: the k rows of each contact, the contact index running fastest.

    `chosen`: one-hot lines that select contacts; None selects all.
    """
    system = prepared.system
    top, slots = system.topology, group.form.slots
    sides = _sides(seen)
    if system.rods or top.mimics:
        by_contact = jnp.moveaxis(rows, (0, 1, 2), (2, 1, 0))
        parts = [
            s * _through_rods(prepared, snap, group.sites[k], x, slots, by_contact) for k, (x, s) in enumerate(sides)
        ]
        J = functools.reduce(operator.add, parts)
        J = jnp.moveaxis(J, (0, 1, 2), (2, 1, 0))
        J = J if chosen is None else (J[:, :, None] * chosen).sum(-1)
        return J.reshape(6 + system.nv, -1)
    above = np.concatenate([top.ancestors[:, top.rate_link], np.zeros((1, len(top.rate_link)), bool)])
    parts = [above[_repeated(side.links, slots)].T * sign for side, sign in sides]  # (rates, m)
    carries = jnp.asarray(np.sum(parts, axis=0), dtype=float)
    # both bodies of a pair move with the base, and their contributions cancel
    base = np.sum([(_repeated(side.links, slots) < top.link_count) * sign for side, sign in sides], axis=0)
    same = bool((base == base[0]).all()) if len(base) else True
    moves = float(base[0]) if same and len(base) else jnp.asarray(base, dtype=float)
    if chosen is not None:
        rows, carries = (rows[:, :, None] * chosen).sum(-1), (carries[:, None] * chosen).sum(-1)
        moves = moves if same else (moves * chosen).sum(-1)
    lines = rows.reshape(6, -1)
    joints = functools.reduce(operator.add, [outer(snap.S[:, i], lines[i]) for i in range(6)])  # type: ignore[index]
    joints = joints * jnp.tile(carries, (1, rows.shape[1]))
    return jnp.concatenate([(moves if same else jnp.tile(moves, rows.shape[1])) * lines, joints])


def _through_rods(
    prepared: Prepared, snap: Snapshot, site: PackedSite, side: Seen, slots: int, rows: Float[Array, "m k 6"]
) -> Array:
    """Rows over all velocities (m, k, n), for bodies and rod sections, from rows over the twist at the base."""
    out = over_velocities(prepared.system, snap, _repeated(side.links, slots), rows)
    pieces = side.pieces
    if pieces is None:
        return out
    if slots > 1:
        raise UndulaError("contacts with several places cannot be on the section of a rod between its nodes.")

    def inside(R, p, w):  # the row over the site's own twist, in its own frame
        f, c = w[:3], w[3:] - cross(p, w[:3])
        return jnp.concatenate([tmatvec(R, f), tmatvec(R, c)])

    own = jax.vmap(lambda R, p, w: jax.vmap(lambda w: inside(R, p, w))(w))(side.R, side.p, rows)
    at_section = jax.vmap(lambda w: pushed(site, w), 1, 1)(own)
    across = jax.vmap(lambda w: pieces.project(side.bent, w[:, None]), 1, 1)(at_section)
    return out + over_strains(prepared.system, pieces, across)


class Pushed(NamedTuple):
    """Contact forces: each on its body, in the world [N]; their sums on the links, in the links' frames [N, N m], and on the
    coordinates of rods touched between their nodes (None if there are none)."""

    forces: Float[Array, "contacts 3"]
    on_links: Float[Array, "links 6"]
    efforts: Float[Array, "nv"] | None


def push(prepared: Prepared, snap: Snapshot, touches: list[Touched], forces: Float[Array, "rows"]) -> Pushed:
    """Forces of the contacts on bodies and rods, from the forces (rows,) along their rows."""
    out: list[Array] = []
    on_links, efforts = jnp.zeros((prepared.system.topology.link_count, 6)), None
    first = 0
    for group, places, seen, x in touches:
        m, k, slots = contact_count(group), contact_rows(group), group.form.slots
        both = (forces[first : first + m * k].reshape(k, m) * x.directions).sum(1).T
        first += m * k
        out.append(both[:, :3])

        def inside(R, p, point, wrench):
            f = tmatvec(R, wrench[:3])
            return jnp.concatenate([f, tmatvec(R, wrench[3:]) + cross(tmatvec(R, point - p), f)])

        at = x.point.T.reshape(group.size, slots, 3), both.reshape(group.size, slots, 6)
        for s, (side, sign) in enumerate(_sides(seen)):
            each = jax.vmap(lambda R, p, pt, w: jax.vmap(lambda q, v: inside(R, p, q, v))(pt, w))
            wrench = sign * each(side.view.R, side.view.p, *at).sum(1)
            links, strains = carry_wrench(prepared, snap, group.sites[s], places[s], side, wrench)
            on_links = on_links + links
            if strains is not None:
                efforts = strains if efforts is None else efforts + strains
    return Pushed(jnp.concatenate(out), on_links, efforts)


def slipping(system: System, forces: Float[Array, "rows"]) -> Float[Array, "contacts"]:
    """1 for contacts whose friction, of the forces (rows,) along their rows, is at its limit; 0 for others and open ones."""
    out: list[Array] = []
    first = 0
    for group in system.contacts:
        m, k, slots = contact_count(group), contact_rows(group), group.form.slots
        own = forces[first : first + m * k].reshape(k, m)
        first += m * k
        law = (
            group.form.law if slots == 1 else jax.tree.map(lambda x, n=slots: jnp.repeat(x, n, axis=0), group.form.law)
        )
        # at the limit, slightly more friction is not admissible
        more = (1 + LIMIT) * own[1:].T
        cut = jnp.abs(jax.vmap(lambda law, x, n: law.project(x, n))(law, more, own[0]) - more)[:, :2]
        out.append(jnp.where((own[0] > 0) & (cut > LIMIT / 2 * own[0][:, None]).any(1), 1.0, 0.0))
    return jnp.concatenate([jnp.zeros(0), *out])


def surroundings(system: System, positions: Float[np.ndarray, "times bodies 3"]) -> list[dict[str, Any]]:
    """Drawings of the surfaces (see `Surface.drawing`), each once, covering the region swept by bodies at `positions` [m]."""
    out: list[dict[str, Any]] = []
    if not len(positions):
        return out
    for group in system.contacts:
        surface = getattr(group.form, "surface", None)
        if surface is None:
            continue
        site = group.sites[0]
        offset = np.zeros((group.size, 3)) if site.position is None else np.asarray(site.position)
        reach = float((np.linalg.norm(offset, axis=1) + np.asarray(group.form.radius)).max())
        own = positions[:, np.array(site.bodies)]
        low, high = own.min((0, 1)) - reach, own.max((0, 1)) + reach
        margin = 0.2 * float((high - low).max()) * np.array([1.0, 1.0, 0.0])
        low, high = low - margin, high + margin
        leaves = [np.asarray(x).reshape(group.size, -1) for x in jax.tree.leaves(surface)]
        numbers = np.concatenate([np.zeros((group.size, 1)), *leaves], axis=1)
        for k in np.sort(np.unique(numbers, axis=0, return_index=True)[1]):
            found = member(surface, int(k)).drawing(low, high)
            out += [x for x in found if x not in out]
    return out


def refuse_unsound(system: System) -> None:
    """Refuses laws with invalid parameters, which were set after construction."""
    names = iter(system.contact_names)
    for group in system.contacts:
        good = [bool(member(group.form.law, k).sound()) for k in range(group.size)]
        for fine in np.repeat(good, group.form.slots):
            name = next(names)
            if not fine:
                raise UndulaError(
                    f"the law of the contact '{name}' has a number that is not allowed: coefficients must not be negative, "
                    "and restitution must lie between 0 and 1."
                )
