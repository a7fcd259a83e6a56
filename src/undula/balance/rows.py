"""The constraints of a system stacked: A u + (known part) = 0, evaluated group by group.

All constraints of one kind are evaluated together. Each sees only its own bodies, so that its small Jacobian is found by
differentiation there and carried to the coordinates by the screws of the joints: the cost is linear in rows times
coordinates (document 000, (3.42): A_row = w Ad, B_row = w Ad A_k on the path to the body).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError
from undula.elements.row import WORLD, At, BodyMotion, Constraint, motion_of, velocities
from undula.joints.kind import Relative
from undula.joints.rod.group import RodGroup, scatter
from undula.model.links import Links, link_rates, relative_of
from undula.model.system import Acceleration, State, System, reported_position
from undula.numerics.pick import pick
from undula.numerics.small import cross, hat, matmul, matvec, tmatvec
from undula.tree.frames import link_frames
from undula.tree.inverse import link_motion


class Group(eqx.Module):
    """Constraints of one kind and form: their numbers stacked, their bodies and coordinates as indices (static).

    - `rows`: places of their rows in the system's list (m, k); `gaps`: how many of the k rows are rates of gaps.
    """

    form: Constraint
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    rows: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    gaps: int = eqx.field(static=True)
    law: Any = None  # a slip law: its multipliers are given by it, instead of being unknown


class Tree(NamedTuple):
    """Where the bodies are: all that rows need of a configuration (the last entry of the bodies is the world).

    - `rel`: relative motion across the joints, `v`: rates as padded rows; `link_R`, `link_p`: the links seen from the base.
    - `R`, `p`: (bodies + 1, ...) in the world; `Rb`, `pb`: seen from the base.
    - `S`: (rates, 6) screws of the joint rates about the base's origin; `bends`: those of the rods' coordinates.
    """

    rel: Relative
    link_R: Array
    link_p: Array
    R: Array
    p: Array
    Rb: Array
    pb: Array
    S: Array
    bends: tuple[Array, ...]


class Moves(NamedTuple):
    """Twists (V, W) of the bodies and their rates at known accelerations, each (bodies + 1, 3)."""

    V: Array
    W: Array
    dV: Array
    dW: Array


def tree_of(system: System, links: Links, state: State, rel: Relative | None = None) -> Tree:
    """The tree in its configuration; velocities enter `rel` alone, which may be known before."""
    top = system.topology
    rel = relative_of(system, links.joints, state.q, state.v) if rel is None else rel
    link_R, link_p = link_frames(top, rel, jnp.eye(3), jnp.zeros(3))

    def screws(R, p, S):
        W = matmul(R, S[3:])
        return jnp.concatenate([matmul(R, S[:3]) + matmul(hat(p), W), W])

    S = jax.vmap(screws)(link_R[1:], link_p[1:], rel.S)
    whole = top.columns == 1 and len(top.rate_link) == len(S)
    S = S.reshape(-1, 6) if whole else S[top.rate_link - 1, :, top.rate_column]
    bends = tuple(_bends(g, bent, link_R, link_p) for g, bent in zip(system.rods, rel.bent))
    Rb, pb = link_R, link_p
    if top.fixed_levels:
        l = top.link_of_body
        pb = pb[l] + jax.vmap(matvec)(Rb[l], links.body_position)
        Rb = jax.vmap(matmul)(Rb[l], links.body_rotation)
    R = jax.vmap(lambda x: matmul(state.base.rotation, x))(Rb)
    p = state.base.position + jax.vmap(lambda x: matvec(state.base.rotation, x))(pb)
    zero, one = jnp.zeros((1, 3)), jnp.eye(3)[None]
    return Tree(
        rel, link_R, link_p, *(jnp.concatenate(x) for x in ((R, one), (p, zero), (Rb, one), (pb, zero))), S, bends
    )


def _bends(g: RodGroup, bent: Any, link_R: Array, link_p: Array) -> Float[Array, "rods nodes modes 6"]:
    """Screws, in the base's frame, of unit rates of the rods' coordinates across each piece."""
    links = np.array(g.links)
    units = jnp.broadcast_to(jnp.eye(g.shapes.shape[-1])[:, None], (g.shapes.shape[-1], *g.stiffness.shape[:2]))
    S = jax.vmap(lambda x: g.twists(bent, x))(units)  # (modes, rods, nodes, 6)
    R, p = link_R[links], link_p[links]
    W = jnp.einsum("rnij,mrnj->rnmi", R, S[..., 3:])
    V = jnp.einsum("rnij,mrnj->rnmi", R, S[..., :3]) + jnp.cross(p[:, :, None], W)
    return jnp.concatenate([V, W], axis=-1)


def with_rates(system: System, links: Links, tree: Tree, state: State) -> Tree:
    """The same tree with other velocities."""
    if not {"universal", "planar", "segment"} & set(system.topology.link_kinds):
        return tree  # S' v is zero for every other kind
    return tree._replace(rel=relative_of(system, links.joints, state.q, state.v))


def moves_of(system: System, links: Links, tree: Tree, state: State, known: Acceleration) -> Moves:
    """Twists and accelerations of the bodies, for accelerations `known` (zero where they are unknown)."""
    top = system.topology
    rate, gain = link_rates(system, tree.rel, state.v), link_rates(system, tree.rel, known.v)
    parts = tuple(link_motion(top.slots, tree.rel, state.base_twist, known.base, rate, gain))
    if top.fixed_levels:
        l = top.link_of_body

        def pull(R, p, V, W):
            return tmatvec(R, V + cross(W, p)), tmatvec(R, W)

        at = links.body_rotation, links.body_position
        parts = (*jax.vmap(pull)(*at, parts[0][l], parts[1][l]), *jax.vmap(pull)(*at, parts[2][l], parts[3][l]))
    return Moves(*(jnp.concatenate([x, jnp.zeros((1, 3))]) for x in parts))


class Rows(NamedTuple):
    """The stacked rows at one instant: A u + `driven` = 0 (k,), with A (k, 6 + nv) over (base twist, coordinates).

    `driven` is what laws of time inside constraints impose; `gap`: the position residuals, zero for other rows.
    """

    A: Float[Array, "k n"]
    driven: Float[Array, "k"]
    gap: Float[Array, "k"]


def _indices(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Bodies and coordinates of the constraints of a group, one row a constraint."""
    m = len(group.rows)
    return np.array(group.bodies, dtype=int).reshape(m, -1), np.array(group.coordinates, dtype=int).reshape(m, -1)


def _sights(group: Group, system: System, state: State, tree: Tree, moves: Moves | None, t: Any) -> At:
    """What the constraints of a group see, batched over them; without `moves`, everything at rest."""
    bodies, coordinates = _indices(group)

    def body(b):
        R, p = pick(tree.R, bodies[:, b]), pick(tree.p, bodies[:, b])
        V, W = (p * 0, p * 0) if moves is None else (pick(moves.V, bodies[:, b]), pick(moves.W, bodies[:, b]))
        return BodyMotion(R, p, V, W)

    seen = tuple(body(b) for b in range(bodies.shape[1]))
    x = reported_position(system.topology, state.q) if coordinates.size else state.v
    v = pick(state.v, coordinates)
    t = jnp.broadcast_to(jnp.asarray(t, dtype=float), (len(group.rows),))
    return At(t, seen, pick(x, coordinates), v * 0 if moves is None else v)


def _ordered(groups: tuple[Group, ...], parts: list[Array]) -> Array:
    """Values of the groups in the order of the rows."""
    places = np.concatenate([np.array(group.rows).reshape(-1) for group in groups])
    joined, order = jnp.concatenate(parts), np.argsort(places)
    return joined if np.array_equal(order, np.arange(len(order))) else pick(joined, order)


def rows_of(groups: tuple[Group, ...], system: System, state: State, tree: Tree | None, t: Any) -> Rows:
    """All rows of some groups, in the order of their places. They depend on the configuration and time alone.

    Without groups no tree is needed.
    """
    if not groups or tree is None:
        return Rows(jnp.zeros((0, 6 + system.nv)), *(jnp.zeros(0),) * 2)
    A, driven, gap = [], [], []
    for group in groups:
        parts = jax.vmap(_local)(group.form, _sights(group, system, state, tree, None, t))
        driven.append(parts[0].reshape(-1))
        gap.append(parts[1].reshape(-1))
        A.append(_carry(group, system, tree, parts[2], parts[3]))
    return Rows(*(_ordered(groups, x) for x in (A, driven, gap)))


def _local(form: Constraint, at: At):
    """Of one constraint at rest: what it imposes, its gaps, and its small Jacobians."""

    def of_velocities(twists, v):
        moved = tuple(b._replace(V=x[:3], W=x[3:]) for b, x in zip(at.bodies, twists))
        return velocities(form, at._replace(bodies=moved, v=v))

    zero = jnp.zeros((len(at.bodies), 6)), jnp.zeros_like(at.v)
    driven = of_velocities(*zero)
    by_twist, by_rate = jax.jacfwd(of_velocities, (0, 1))(*zero)
    gap = form.gap(at)
    return driven, jnp.concatenate([gap, jnp.zeros(driven.shape[0] - gap.shape[0])]), by_twist, by_rate


def rates_of(
    groups: tuple[Group, ...], system: System, state: State, tree: Tree, moves: Moves, known: Acceleration, t: Any
) -> Float[Array, "k"]:
    """Rates of the rows at known accelerations: A u' + rates = 0 for the unknown accelerations u'."""
    parts = []
    for group in groups:
        at = _sights(group, system, state, tree, moves, t)
        bodies, coordinates = _indices(group)
        gains = tuple((pick(moves.dV, bodies[:, b]), pick(moves.dW, bodies[:, b])) for b in range(bodies.shape[1]))
        rate = jax.vmap(_rate)(group.form, at, gains, pick(known.v, coordinates))
        parts.append(rate.reshape(-1))
    return _ordered(groups, parts) if groups else jnp.zeros(0)


def _rate(form: Constraint, at: At, gains: tuple[tuple[Array, Array], ...], dv: Array) -> Array:
    """Rate of one constraint's velocity residuals along the motion."""
    moved = motion_of(at)
    bodies = tuple(b._replace(V=dV, W=dW) for b, (dV, dW) in zip(moved.bodies, gains))
    return jax.jvp(lambda at: velocities(form, at), (at,), (moved._replace(bodies=bodies, v=dv),))[1]


def _carry(group: Group, system: System, tree: Tree, by_twist: Array, by_rate: Array) -> Array:
    """Rows over (base twist, coordinates), from rows over the twists of the bodies and the rates of the coordinates."""
    m, k = by_rate.shape[:2]
    bodies, coordinates = _indices(group)
    out = jnp.zeros((m, k, 6 + system.nv))
    for b in range(bodies.shape[1]):

        def to_base(R, p, w):  # a row over the body's twist becomes one over the twist of the frame at the base
            f, c = matvec(R, w[:3]), matvec(R, w[3:])
            return jnp.concatenate([f, c + cross(p, f)])

        R, p = pick(tree.Rb, bodies[:, b]), pick(tree.pb, bodies[:, b])
        row = jax.vmap(lambda R, p, w: jax.vmap(lambda w: to_base(R, p, w))(w))(R, p, by_twist[:, :, b])
        out = out + over_velocities(system, tree, bodies[:, b], row)
    out = out.reshape(m * k, -1)
    base, joints = out[:, :6], out[:, 6:]
    for c in range(coordinates.shape[1]):
        joints = joints + (by_rate[:, :, c, None] * np.eye(system.nv)[coordinates[:, c]][:, None]).reshape(m * k, -1)
    return jnp.concatenate([base, joints], axis=1)


def over_velocities(
    system: System, tree: Tree, bodies: np.ndarray, row: Float[Array, "m k 6"]
) -> Float[Array, "m k n"]:
    """Rows over (base twist, coordinates), from rows over the twists of `bodies` (m,), in the base's frame, at its origin."""
    top = system.topology
    m, k = row.shape[:2]
    above = np.concatenate([joints_above(system), np.zeros((1, tree.S.shape[0]), bool)])
    moves = (bodies < len(system.body_names)).astype(float)  # the world does not move with the base
    row = row * moves[:, None, None]
    joints = ((row[:, :, None] * tree.S).sum(-1) * above[bodies][:, None]).reshape(m * k, -1)
    if top.mimics:
        leading = np.eye(top.nv)[np.asarray(top.leaders)]
        joints = matmul(joints * system.mimic_scale, jnp.asarray(leading))
    elif system.rods:
        joints = jnp.concatenate([joints, jnp.zeros((m * k, top.strain_count))], axis=1)
    if system.rods:
        links = np.append(top.link_of_body, 0)  # the world moves with no rod, as the base does not
        paths = _ancestors(system)[links[bodies]]
        flat = [_on_rods(x, g, row, paths).reshape(m * k, -1) for x, g in zip(tree.bends, system.rods)]
        joints = joints + jax.vmap(lambda *x: scatter(system.rods, list(x), top.nv))(*flat)
    return jnp.concatenate([row, joints.reshape(m, k, -1)], axis=2)


def _on_rods(bends: Array, g: RodGroup, row: Array, paths: np.ndarray) -> Float[Array, "m k rods modes"]:
    """Rows over the coordinates of rods, from rows (m, k, 6) over the twists of links, in the base's frame.

    `paths` (m, links): which links lie between the base and the one that each row belongs to.
    """
    return jnp.einsum("cki,rnmi,crn->ckrm", row, bends, jnp.asarray(paths[:, np.array(g.links)], dtype=float))


def joints_above(system: System) -> np.ndarray:
    """(bodies, rates) booleans: the joint rate moves the body."""
    top = system.topology
    return _ancestors(system)[np.asarray(top.link_of_body)][:, top.rate_link]


def _ancestors(system: System) -> np.ndarray:
    """(links, links) booleans: the column's link lies between the base and the row's link, or is the same."""
    top = system.topology
    n = len(top.link_parents) + 1
    above = np.zeros((n, n), bool)
    for l, parent in enumerate(top.link_parents, start=1):
        above[l] = above[parent]
        above[l, l] = True
    return above


# Building


def group_constraints(
    constraints: list[tuple[Constraint, Any]], bodies: tuple[str, ...], coordinates: tuple[str, ...]
) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Checks names, finds the rows and packs constraints of one form together; returns the groups and the rows' names."""
    names: list[str] = []
    packed: dict[Any, list[tuple[Constraint, Any, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]]] = {}
    for c, law in constraints:
        what = f"constraint '{c.name}'"
        for body in c.bodies:
            if body not in (*bodies, WORLD):
                raise ModelError(
                    f"{what} acts on the body '{body}', which does not exist; the bodies are {', '.join(bodies)}."
                )
        for x in c.coordinates:
            if x not in coordinates:
                known = ", ".join(coordinates) or "(none)"
                raise ModelError(
                    f"{what} uses the coordinate '{x}', which does not exist; the coordinates are {known}."
                )
        seen = At(
            jnp.zeros(()), (_some_body(),) * len(c.bodies), jnp.zeros(len(c.coordinates)), jnp.zeros(len(c.coordinates))
        )
        gaps = jax.eval_shape(c.gap, seen).shape[0]
        count = gaps + jax.eval_shape(c.rows, seen).shape[0]
        if count == 0:
            raise ModelError(f"{what} has no rows: it must define gap or rows.")
        if law is not None and gaps:
            raise ModelError(
                f"{what} cannot slip: it holds positions, and a slip law gives forces for velocities alone."
            )
        labels = c.labels or (tuple(str(k + 1) for k in range(count)) if count > 1 else ("",))
        if len(labels) != count:
            raise ModelError(f"{what} has {count} rows but {len(labels)} labels: {', '.join(labels)}.")
        places = tuple(range(len(names), len(names) + count))
        names += [f"{c.name}.{label}" if label else c.name for label in labels]
        form = _anonymous(c)
        key = (jax.tree.structure((form, law)), tuple(np.shape(x) for x in jax.tree.leaves((form, law))), gaps, count)
        index = tuple(len(bodies) if b == WORLD else bodies.index(b) for b in c.bodies)
        packed.setdefault(key, []).append(
            (form, law, index, tuple(coordinates.index(x) for x in c.coordinates), places, gaps)
        )
    groups = []
    for members in packed.values():
        stacked, laws = (
            jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y, dtype=float) for y in x]), *(m[i] for m in members))
            for i in (0, 1)
        )
        groups.append(
            Group(
                stacked,
                tuple(m[2] for m in members),
                tuple(m[3] for m in members),
                tuple(m[4] for m in members),
                members[0][5],
                laws,
            )
        )
    return tuple(groups), tuple(names)


def _anonymous(c: Constraint) -> Constraint:
    """The constraint without its names, so that constraints of one form compare equal."""
    out = object.__new__(type(c))
    for field in c.__dataclass_fields__:  # type: ignore[attr-defined]
        value = getattr(c, field)
        if field == "name":
            value = ""
        elif field in ("bodies", "coordinates"):
            value = ("",) * len(value)
        object.__setattr__(out, field, value)
    return out


def _some_body() -> BodyMotion:
    return BodyMotion(jnp.eye(3), jnp.zeros(3), jnp.zeros(3), jnp.zeros(3))
