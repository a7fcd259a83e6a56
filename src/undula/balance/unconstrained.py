"""The fundamental problem of a tree: accelerations and efforts, with every coordinate in its role."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.assemble import Forces, assemble, field_of, wants_sites
from undula.balance.balance import Balance
from undula.core.arrays import Array
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, reported_position
from undula.numerics import dense
from undula.numerics.pick import pick, spread
from undula.tree.driven import driven_motion
from undula.tree.inverse import LinkMotion, link_twists, proper
from undula.tree.problem import Inputs, Roles, solve
from undula.tree.relative import coordinate_efforts, joint_configuration, joint_rates, link_rates
from undula.tree.snapshot import Snapshot, move, place


class Tree(NamedTuple):
    """The solution of a tree: a snapshot (as far as needed), accelerations, efforts, base wrench, forces of force models."""

    snap: Snapshot
    acceleration: Acceleration
    efforts: Float[Array, "nv"]
    wrench: Float[Array, "6"]
    forces: Forces


def tree_dynamics(prepared: Prepared, t: Any, state: State, power: bool = False) -> Tree:
    """The solution at time t [s] of a system without constraints; `power`: as in `assemble`."""
    top = prepared.system.topology
    state, known = driven_motion(prepared.system, t, state)
    return solve_dynamics(prepared, t, state, known, None, ~top.driven, top.base_directions, power=power)


def solve_dynamics(
    prepared: Prepared,
    t: Any,
    state: State,
    known: Acceleration,
    efforts: Float[Array, "nv"] | None,
    unknown: np.ndarray,
    base: tuple[int, ...],
    external: Float[Array, "links 6"] | None = None,
    power: bool = False,
) -> Tree:
    """The hybrid problem: accelerations where they are unknown, actuator efforts and the base wrench everywhere.

    `unknown` (static) marks the coordinates whose actuator efforts are given: in `efforts` or, if that is None, by the model's
    actuators; the accelerations of the others, and of the base except in its directions `base`, are given in `known`.
    """
    system = prepared.system
    top = system.topology
    field = field_of(prepared, t)
    followed = [k for rate in top.mimics for k in top.leaders[rate]]
    by_matrix = bool(system.rods) or bool(
        unknown[followed].any()
    )  # the recursion cannot handle mimics that move freely
    snap = _seen(prepared, t, state, known, field, by_matrix)
    forces = assemble(prepared, snap, power=power)
    if external is not None:
        forces = forces._replace(on_links=external if forces.on_links is None else forces.on_links + external)
    given = forces.actuators if efforts is None else efforts
    given = jnp.zeros(system.nv) if given is None else given
    passive = forces.efforts
    if by_matrix:
        return Tree(snap, *_dense(Balance(prepared, snap, forces), given, unknown, base), forces)
    leaders = top.first_leaders  # mimics are driven here, by leaders that are all driven
    total = given if passive is None else given + passive
    inputs = Inputs(
        prepared.links.joints,
        prepared.inertia,
        _rates_of(system, system.armature),
        joint_configuration(system, state.q),
        joint_rates(system, state.v),
        joint_rates(system, jnp.where(unknown, 0.0, known.v)),
        # so only the coordinates' own rates have given efforts
        total[leaders] if top.mimics else total,
        state.base_twist,
        proper(state.base.rotation, field, known.base),
        forces.on_links,
    )
    out = solve(Roles(top, base, tuple(bool(x) for x in unknown[leaders])), inputs)
    down = proper(state.base.rotation, field, jnp.zeros(6))
    acceleration = Acceleration(out.deta0 - down, out.dv[top.own_rates] if top.mimics else out.dv)
    found = coordinate_efforts(system, out.effort)
    return Tree(snap, acceleration, found if passive is None else found - passive, out.wrench, forces)


def _rates_of(system: Any, armature: Array | None) -> Array | None:
    """Armatures of the joint rates; mimics have none of their own."""
    if armature is None:
        return None
    top = system.topology
    if not top.mimics:
        return armature
    own = np.ones(len(top.leaders))
    own[np.asarray(top.mimics)] = 0.0
    return armature[top.first_leaders] * own


def _seen(
    prepared: Prepared, t: Any, state: State, known: Acceleration, field: Array | None, by_matrix: bool
) -> Snapshot:
    """The snapshot as far as forces and solvers need it; links without forces at sites need no frames."""
    sited = wants_sites(prepared)
    if by_matrix:
        return move(prepared, place(prepared, t, state, known, frames=sited, screws=False), field)
    if not sited:
        x = reported_position(prepared.system.topology, state.q)
        return Snapshot(t, state, known, x, None)  # type: ignore[arg-type]
    snap = place(prepared, t, state, known, screws=False)
    rate = link_rates(prepared.system, snap.rel, state.v)
    V, W = link_twists(prepared.system.topology.slots, snap.rel, state.base_twist, rate)
    return snap._replace(motion=LinkMotion(V, W, None, None), field=field)  # type: ignore[arg-type]


def _dense(
    balance: Balance, given: Float[Array, "nv"], unknown: np.ndarray, base: tuple[int, ...]
) -> tuple[Acceleration, Float[Array, "nv"], Float[Array, "6"]]:
    """The hybrid problem by the mass matrix: for mimics of a coordinate that moves freely, and for rods."""
    prepared, snap = balance.prepared, balance.snap
    system = prepared.system
    h = np.array(base, dtype=int)
    known = snap.known
    start = Acceleration(spread(jnp.zeros(len(h)), h, known.base), jnp.where(unknown, 0.0, known.v))
    needed = _at(balance, start).needed()
    f = np.concatenate([h, 6 + np.flatnonzero(unknown)]).astype(int)
    if len(f) == 0:
        return start, needed[6:], needed[:6]
    right = pick(jnp.concatenate([jnp.zeros(6), given]) - needed, f)
    gain = spread(dense.solve(balance.inertia(f), right, symmetric=True), f, jnp.zeros(6 + system.nv))
    acceleration = Acceleration(start.base + gain[:6], start.v + gain[6:])
    needed = _at(balance, acceleration).needed()
    return acceleration, needed[6:], needed[:6]


def _at(balance: Balance, acceleration: Acceleration) -> Balance:
    """The same balance at other accelerations."""
    snap = move(balance.prepared, balance.snap._replace(known=acceleration), balance.snap.field)
    return balance._replace(snap=snap)
