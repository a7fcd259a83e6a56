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

from undula.constraints.constraint import WORLD, At, BodyMotion, Constraint, motion_of, velocities
from undula.dynamics.frames import link_frames
from undula.dynamics.inverse import link_motion
from undula.joints.kinds import Relative
from undula.lie.small import cross, matmul, matvec, tmatvec
from undula.model.errors import ModelError
from undula.model.links import Links, by_link, joint_configuration, joint_rates, relative_motion
from undula.model.system import Acceleration, State, System, reported_position


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
    """Everything that rows need of a tree: bodies in the world (the last entry is the world), screws of the joints.

    - `R`, `p`, `V`, `W`, `dV`, `dW`: (bodies + 1, ...); accelerations are those of known accelerations alone.
    - `Rb`, `pb`: the bodies seen from the base; `S`: (rates, 6) screws of the joint rates about the base's origin.
    """

    R: Array
    p: Array
    V: Array
    W: Array
    dV: Array
    dW: Array
    Rb: Array
    pb: Array
    S: Array


def tree_of(system: System, links: Links, state: State, known: Acceleration) -> Tree:
    """Poses, twists and accelerations of the bodies, for accelerations `known` (zero where they are unknown)."""
    top = system.topology
    rates = joint_rates(system, state.v)
    rel: Relative = relative_motion(top, links.joints, joint_configuration(system, state.q), rates)
    Rb, pb = link_frames(top, rel, jnp.eye(3), jnp.zeros(3))
    motion = link_motion(
        top.slots, rel, state.base_twist, known.base, by_link(top, rates), by_link(top, joint_rates(system, known.v))
    )

    def screws(R, p, S):
        W = matmul(R, S[3:])
        return jnp.concatenate([matmul(R, S[:3]) + jax.vmap(lambda w: cross(p, w), 1, 1)(W), W])

    S = jax.vmap(screws)(Rb[1:], pb[1:], rel.S)
    S = S.reshape(-1, 6) if top.columns == 1 else S[top.rate_link - 1, :, top.rate_column]
    parts = motion.V, motion.W, motion.dV, motion.dW
    if top.fixed_levels:
        l = top.link_of_body

        def pull(R, p, V, W):
            return tmatvec(R, V + cross(W, p)), tmatvec(R, W)

        at = links.body_rotation, links.body_position
        parts = (*jax.vmap(pull)(*at, parts[0][l], parts[1][l]), *jax.vmap(pull)(*at, parts[2][l], parts[3][l]))
        pb = pb[l] + jax.vmap(matvec)(Rb[l], at[1])
        Rb = jax.vmap(matmul)(Rb[l], at[0])
    R = jax.vmap(lambda x: matmul(state.base.rotation, x))(Rb)
    p = state.base.position + jax.vmap(lambda x: matvec(state.base.rotation, x))(pb)
    zero, one = jnp.zeros((1, 3)), jnp.eye(3)[None]
    V, W, dV, dW = (jnp.concatenate([x, zero]) for x in parts)
    return Tree(
        jnp.concatenate([R, one]), jnp.concatenate([p, zero]), V, W, dV, dW,
        jnp.concatenate([Rb, one]), jnp.concatenate([pb, zero]), S,
    )  # fmt: skip


def pick(x: Array, index: np.ndarray) -> Array:
    """x[index] for a static index, without a gather where it is few or evenly spaced: gathers are slow in loops."""
    flat = np.asarray(index).reshape(-1)
    if len(flat) == 0:
        return jnp.zeros((*np.shape(index), *x.shape[1:]))
    steps = np.unique(np.diff(flat))
    if len(flat) > 1 and len(steps) == 1 and steps[0] > 0:
        out = x[flat[0] : flat[-1] + 1 : steps[0]]
    elif len(flat) <= 24:
        out = jnp.stack([x[i] for i in flat])
    else:
        out = x[flat]
    return out.reshape(*np.shape(index), *x.shape[1:])


class Rows(NamedTuple):
    """The stacked rows at one instant: `value` = A u + known part (k,); A (k, 6 + nv) over (base twist, coordinates)."""

    A: Float[Array, "k n"]
    value: Float[Array, "k"]
    rate: Float[Array, "k"]
    gap: Float[Array, "k"]


def _sights(group: Group, system: System, state: State, tree: Tree, t: Any) -> At:
    """What the constraints of a group see, batched over them."""
    bodies = np.array(group.bodies, dtype=int).reshape(len(group.rows), -1)
    coordinates = np.array(group.coordinates, dtype=int).reshape(len(group.rows), -1)
    seen = tuple(
        BodyMotion(*(pick(x, bodies[:, b]) for x in (tree.R, tree.p, tree.V, tree.W))) for b in range(bodies.shape[1])
    )
    x = reported_position(system.topology, state.q) if coordinates.size else state.v
    t = jnp.broadcast_to(jnp.asarray(t, dtype=float), (len(group.rows),))
    return At(t, seen, pick(x, coordinates), pick(state.v, coordinates))


def evaluate(groups: tuple[Group, ...], system: System, state: State, tree: Tree, known: Acceleration, t: Any) -> Rows:
    """All rows of some groups, in the order of their places."""
    A, value, rate, gap, places = [], [], [], [], []
    for group in groups:
        at = _sights(group, system, state, tree, t)
        bodies = np.array(group.bodies, dtype=int).reshape(len(group.rows), -1)
        coordinates = np.array(group.coordinates, dtype=int).reshape(len(group.rows), -1)
        dV = tuple((pick(tree.dV, bodies[:, b]), pick(tree.dW, bodies[:, b])) for b in range(bodies.shape[1]))
        parts = jax.vmap(_local)(group.form, at, dV, pick(known.v, coordinates))
        value.append(parts[0].reshape(-1))
        rate.append(parts[1].reshape(-1))
        gap.append(parts[2].reshape(-1))
        A.append(_carry(group, system, tree, parts[3], parts[4]))
        places.append(np.array(group.rows).reshape(-1))
    if not groups:
        return Rows(jnp.zeros((0, 6 + system.nv)), *(jnp.zeros(0),) * 3)
    order = np.argsort(np.concatenate(places))
    joined = [jnp.concatenate(x) for x in (A, value, rate, gap)]
    if not np.array_equal(order, np.arange(len(order))):
        joined = [pick(x, order) for x in joined]
    return Rows(*joined)


def _local(form: Constraint, at: At, gains: tuple[tuple[Array, Array], ...], dv: Array):
    """Of one constraint: velocity residuals, their rates at known accelerations, gaps, small Jacobians."""
    value, rate = jax.jvp(lambda at: velocities(form, at), (at,), (_with_gains(at, gains, dv),))
    gap = form.gap(at)
    gap = jnp.concatenate([gap, jnp.zeros(value.shape[0] - gap.shape[0])])

    def of_velocities(twists, v):
        moved = tuple(b._replace(V=x[:3], W=x[3:]) for b, x in zip(at.bodies, twists))
        return velocities(form, at._replace(bodies=moved, v=v))

    zero = jnp.zeros((len(at.bodies), 6)), jnp.zeros_like(at.v)
    by_twist, by_rate = jax.jacfwd(of_velocities, (0, 1))(*zero)
    return value, rate, gap, by_twist, by_rate


def _with_gains(at: At, gains: tuple[tuple[Array, Array], ...], dv: Array) -> At:
    """The tangent of `at` along the motion, accelerations included."""
    moved = motion_of(at)
    bodies = tuple(b._replace(V=dV, W=dW) for b, (dV, dW) in zip(moved.bodies, gains))
    return moved._replace(bodies=bodies, v=dv)


def _carry(group: Group, system: System, tree: Tree, by_twist: Array, by_rate: Array) -> Array:
    """Rows over (base twist, coordinates), from rows over the twists of the bodies and the rates of the coordinates."""
    top = system.topology
    m, k = by_rate.shape[:2]
    bodies = np.array(group.bodies, dtype=int).reshape(m, -1)
    coordinates = np.array(group.coordinates, dtype=int).reshape(m, -1)
    nb, nc = bodies.shape[1], coordinates.shape[1]
    base, joints = jnp.zeros((m, k, 6)), jnp.zeros((m, k, tree.S.shape[0]))
    above = np.concatenate([_paths(system), np.zeros((1, tree.S.shape[0]), bool)])
    for b in range(nb):

        def to_base(R, p, w):  # a row over the body's twist becomes one over the twist of the frame at the base
            f, c = matvec(R, w[:3]), matvec(R, w[3:])
            return jnp.concatenate([f, c + cross(p, f)])

        R, p = pick(tree.Rb, bodies[:, b]), pick(tree.pb, bodies[:, b])
        row = jax.vmap(lambda R, p, w: jax.vmap(lambda w: to_base(R, p, w))(w))(R, p, by_twist[:, :, b])
        moves = (bodies[:, b] < len(system.body_names)).astype(float)  # the world does not move with the base
        row = row * moves[:, None, None]
        base = base + row
        joints = joints + (row[:, :, None] * tree.S).sum(-1) * above[bodies[:, b]][:, None]
    base, joints = base.reshape(m * k, 6), joints.reshape(m * k, -1)
    if top.mimics:
        leading = np.eye(top.nv)[np.asarray(top.leaders)]
        joints = matmul(joints * system.mimic_scale, jnp.asarray(leading))
    for c in range(nc):
        joints = joints + (by_rate[:, :, c, None] * np.eye(top.nv)[coordinates[:, c]][:, None]).reshape(m * k, -1)
    return jnp.concatenate([base, joints], axis=1)


def _paths(system: System) -> np.ndarray:
    """(bodies, rates) booleans: the joint rate moves the body."""
    top = system.topology
    n = len(top.link_parents) + 1
    above = np.zeros((n, n), bool)
    for l, parent in enumerate(top.link_parents, start=1):
        above[l] = above[parent]
        above[l, l] = True
    return above[np.asarray(top.link_of_body)][:, top.rate_link]


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
        if len(c.labels) != count:
            raise ModelError(f"{what} has {count} rows but {len(c.labels)} labels.")
        places = tuple(range(len(names), len(names) + count))
        names += [f"{c.name}.{label}" if label else c.name for label in c.labels]
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
