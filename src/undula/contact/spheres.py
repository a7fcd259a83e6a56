"""Places of bodies that may touch something: gaps, and rows over the velocities (document 003, sections III-B and IV-A)."""

import functools
import operator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.balance.rows import Tree, joints_above, over_velocities
from undula.contact.laws import ContactLaw
from undula.contact.surfaces import Surface
from undula.core.errors import ModelError, UndulaError
from undula.model.system import State, System
from undula.numerics.pick import pick
from undula.numerics.small import cross, matvec, outer, tmatvec


class Candidates(eqx.Module):
    """Spheres on bodies that may touch surfaces, or spheres of other bodies, all of one form: their numbers stacked.

    - `centre` (m, 3) [m], `radius` (m,) [m]: of the spheres, in their bodies; radius 0: a point.
    - `surface`: what they may touch, or None: then the spheres `other_centre`, `other_radius` of the bodies `others`.
    """

    centre: Float[Array, "m 3"]
    radius: Float[Array, "m"]
    law: ContactLaw
    surface: Surface | None
    other_centre: Float[Array, "m 3"]
    other_radius: Float[Array, "m"]
    bodies: tuple[int, ...] = eqx.field(static=True)
    others: tuple[int, ...] = eqx.field(static=True)

    @property
    def rows(self) -> int:
        """Number of rows of a contact: the normal one and those of its law."""
        return 1 + self.law.rows


class Touch(NamedTuple):
    """Contacts of one form at an instant, open or closed, the contacts along the last axis.

    - `gap` (m,) [m]; `point` (3, m) [m]: where, in the world.
    - `ways` (6, k, m): what the k rows, the normal one first, say of (relative velocity of the point, relative angular
      velocity), in the world; `rows` (6, k, m): the same of the twist of a frame at the base's origin, in its axes.
    """

    gap: Array
    point: Array
    ways: Array
    rows: Array


def gaps(c: Candidates, tree: Tree) -> tuple[Float[Array, "m"], Float[Array, "m 3"], Float[Array, "m 3"]]:
    """Gap [m], normal, and the point of the body that is nearest, in the world."""
    bodies = np.array(c.bodies)
    R, p = pick(tree.R, bodies), pick(tree.p, bodies)
    centre = p + jax.vmap(matvec)(R, c.centre)
    if c.surface is not None:
        distance = jax.vmap(lambda s, x: s.distance(x))(c.surface, centre)
        normal = jax.vmap(lambda s, x: s.normal(x))(c.surface, centre)
    else:
        others = np.array(c.others)
        away = centre - pick(tree.p, others) - jax.vmap(matvec)(pick(tree.R, others), c.other_centre)
        length = jnp.sqrt((away * away).sum(1))
        distance, normal = length - c.other_radius, away / length[:, None]
    return distance - c.radius, normal, centre - c.radius[:, None] * normal


def touch(c: Candidates, system: System, state: State, tree: Tree, velocity: Float[Array, "n"]) -> Touch:
    """The contacts in a configuration; `velocity` (6 + nv,): at the start of the step, for laws that depend on it."""
    gap, normal, point = gaps(c, tree)
    R0, p0 = state.base.rotation, state.base.position

    def to_base(ways):
        """Rows over (velocity of a point, angular velocity) in the world become rows over the twist at the base."""
        f, couple = (_turned(R0, x) for x in (ways[:3], ways[3:]))
        r = _turned(R0, (point - p0).T)[:, None]
        moment = [r[1] * f[2] - r[2] * f[1], r[2] * f[0] - r[0] * f[2], r[0] * f[1] - r[1] * f[0]]
        return jnp.concatenate([f, couple + jnp.stack(moment)])

    slip = jnp.zeros_like(normal)
    if c.law.feels_slip:
        axes = jnp.broadcast_to(jnp.eye(6, 3)[:, :, None], (6, 3, len(c.bodies)))
        JT = over_unknowns(c, system, tree, to_base(axes), None)
        v = tmatvec(JT, velocity).reshape(3, -1).T
        slip = v - normal * (v * normal).sum(1, keepdims=True)
    ways = jax.vmap(lambda law, n, R, r, s: law.directions(n, R, r, s).T, out_axes=-1)(
        c.law, normal, pick(tree.R, np.array(c.bodies)), c.radius, slip
    )
    upright = jnp.concatenate([normal.T, jnp.zeros_like(normal.T)])[:, None]
    ways = jnp.concatenate([upright, ways], axis=1)
    return Touch(gap, point.T, ways, to_base(ways))


def _turned(R: Float[Array, "3 3"], x: Float[Array, "3 *n"]) -> Float[Array, "3 *n"]:
    """R^T x, the components along the first axis."""
    return jnp.stack([R[0, j] * x[0] + R[1, j] * x[1] + R[2, j] * x[2] for j in range(3)])


def over_unknowns(
    c: Candidates, system: System, tree: Tree, rows: Float[Array, "6 k m"], chosen: Float[Array, "few m"] | None
) -> Float[Array, "n columns"]:
    """Rows over all velocities (6 + nv), as columns: the k rows of each contact, contacts running fastest.

    `chosen`: ones that say which contacts are meant, one a line; all of them without it.
    """
    sides = [(np.array(c.bodies), 1.0)] + ([(np.array(c.others), -1.0)] if c.surface is None else [])
    if system.rods or system.topology.mimics:
        by_contact = jnp.moveaxis(rows, (0, 1, 2), (2, 1, 0))
        J = sum(sign * over_velocities(system, tree, bodies, by_contact) for bodies, sign in sides)
        J = jnp.moveaxis(J, (0, 1, 2), (2, 1, 0))
        J = J if chosen is None else (J[:, :, None] * chosen).sum(-1)
        return J.reshape(6 + system.nv, -1)
    above = [joints_above(system)[bodies].T * sign for bodies, sign in sides]  # (rates, m)
    carries = jnp.asarray(np.sum(above, axis=0), dtype=float)
    base = float(c.surface is not None)  # both bodies of a pair move with the base
    if chosen is not None:
        rows, carries = (rows[:, :, None] * chosen).sum(-1), (carries[:, None] * chosen).sum(-1)
    lines = rows.reshape(6, -1)
    joints = functools.reduce(operator.add, [outer(tree.S[:, i], lines[i]) for i in range(6)])
    joints = joints * jnp.tile(carries, (1, rows.shape[1]))
    return jnp.concatenate([base * lines, joints])


def wrenches(
    system: System, tree: Tree, touches: list[Touch], impulses: Float[Array, "rows"]
) -> tuple[Float[Array, "contacts 3"], Float[Array, "bodies 6"]]:
    """Force of each contact on its body in the world [N]; wrenches of all of them on the bodies, in their frames [N, N m]."""
    n = len(system.body_names)
    forces, total, at = [], jnp.zeros((n, 6)), 0
    for c, x in zip(system.contacts, touches):
        m, k = len(c.bodies), c.rows
        both = (impulses[at : at + m * k].reshape(k, m) * x.ways).sum(1).T
        at += m * k
        forces.append(both[:, :3])
        sides = [(c.bodies, 1.0)] + ([(c.others, -1.0)] if c.surface is None else [])
        for bodies, sign in sides:
            index = np.array(bodies)
            R, p = tree.R[index], tree.p[index]

            def inside(R, p, point, wrench):
                f = tmatvec(R, wrench[:3])
                return jnp.concatenate([f, tmatvec(R, wrench[3:]) + cross(tmatvec(R, point - p), f)])

            total = total.at[index].add(sign * jax.vmap(inside)(R, p, x.point.T, both))
    return jnp.concatenate(forces), total


def surroundings(system: System, positions: Float[np.ndarray, "times bodies 3"]) -> list[dict[str, Any]]:
    """What the surfaces look like (see `Surface.looks`), each once, around all that was touched from these positions [m]."""
    out: list[dict[str, Any]] = []
    if not len(positions):
        return out
    for c in system.contacts:
        if c.surface is None:
            continue
        reach = float((np.linalg.norm(c.centre, axis=1) + np.asarray(c.radius)).max())
        own = positions[:, np.array(c.bodies)]
        low, high = own.min((0, 1)) - reach, own.max((0, 1)) + reach
        margin = 0.2 * float((high - low).max()) * np.array([1.0, 1.0, 0.0])
        low, high = low - margin, high + margin
        leaves = [np.asarray(x).reshape(len(c.bodies), -1) for x in jax.tree.leaves(c.surface)]
        numbers = np.concatenate([np.zeros((len(c.bodies), 1)), *leaves], axis=1)
        for k in np.sort(np.unique(numbers, axis=0, return_index=True)[1]):
            found = jax.tree.map(lambda x, k=k: x[k], c.surface).looks(low, high)
            out += [x for x in found if x not in out]
    return out


# Building


class Authored(NamedTuple):
    """A contact as it was written down."""

    name: str
    body: str
    other: Surface | str
    law: ContactLaw
    centre: Any
    radius: Any
    other_centre: Any
    other_radius: Any


def refuse_unsound(groups: tuple[Candidates, ...], names: tuple[str, ...]) -> None:
    """Refuses laws with numbers that are not allowed, which came in behind their constructors."""
    good = [np.asarray(jax.vmap(lambda law: law.sound())(c.law)) for c in groups]
    bad = np.flatnonzero(~np.concatenate([*good, np.ones(0, bool)]))
    if len(bad):
        raise UndulaError(
            f"the law of the contact '{names[bad[0]]}' has a number that is not allowed: coefficients must not be negative, "
            "and restitution must lie between 0 and 1."
        )


def group_candidates(
    contacts: list[Authored], bodies: tuple[str, ...]
) -> tuple[tuple[Candidates, ...], tuple[str, ...]]:
    """Checks names and packs contacts of one form together; returns the groups and the names, in the groups' order."""
    packed: dict[Any, list[Authored]] = {}
    for c in contacts:
        for body in [c.body] + ([c.other] if isinstance(c.other, str) else []):
            if body not in bodies:
                raise ModelError(
                    f"the contact '{c.name}' is on the body '{body}', which does not exist; the bodies are {', '.join(bodies)}."
                )
        surface = None if isinstance(c.other, str) else c.other
        key = jax.tree.structure((c.law, surface)), tuple(np.shape(x) for x in jax.tree.leaves((c.law, surface)))
        packed.setdefault(key, []).append(c)
    groups, names = [], []
    for members in packed.values():
        surfaces = [None if isinstance(c.other, str) else c.other for c in members]
        law, surface = jax.tree.map(
            lambda *x: jnp.stack([jnp.asarray(y, dtype=float) for y in x]),
            *[(c.law, s) for c, s in zip(members, surfaces)],
        )
        vectors = [jnp.stack([jnp.asarray(x) for x in column]) for column in zip(*[c[4:] for c in members])]
        others = tuple(bodies.index(c.other) if isinstance(c.other, str) else -1 for c in members)
        own = tuple(bodies.index(c.body) for c in members)
        groups.append(Candidates(vectors[0], vectors[1], law, surface, vectors[2], vectors[3], own, others))
        names += [c.name for c in members]
    return tuple(groups), tuple(names)
