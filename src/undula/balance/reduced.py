"""The fundamental problem with constraints: velocities, accelerations, efforts and reactions.

Unknown are the velocities u = (base twist in its free directions, coordinates that are not driven): eta+ of document 001.
With the rows A u + B r'_a = 0, u = J r'_a + H eta_r+ (001, eq. 11): the part J r'_a follows from the rows (the row space of
A), the part in the kernel H from the dynamics. Where the kernel is empty, kinematics is enough.
Reactions are the exact multipliers of M u' + h = tau + A^T lambda, never those of a reduced recursion.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from undula.balance.dynamics import efforts_of, inertia_over_base
from undula.balance.rows import Rows, Tree, moves_of, rates_of, rows_of, tree_of, with_rates
from undula.model.links import Links, links_of
from undula.model.system import Acceleration, State, System, displaced
from undula.numerics.held import balance, shortest
from undula.numerics.pick import pick, spread
from undula.numerics.row_space import RowSpace, decompose
from undula.numerics.small import matvec, tmatvec
from undula.tree.driven import driven_motion, given_efforts, on_bodies, tree_dynamics


class Solution(NamedTuple):
    """What moves and what it takes.

    - `state`: the state, with the driven coordinates where their laws put them and velocities that satisfy the constraints.
    - `acceleration`: of the base (6,) and the coordinates (nv,).
    - `efforts`: (nv,) of the actuators: found for driven, given for forced, zero for free coordinates [N m or N].
    - `base_wrench`: (6,) exerted by the world on the reference body, in its frame, besides reactions and given wrenches;
      zero in a free base's directions.
    - `reactions`: (rows,) multipliers of the constraints [N or N m]: lambda does the power lambda times the row's velocity.
    - `power_rows`, `power_slip`: power [W] of the rows that impose a motion (driven wheels), and of those that slip.
    - `residual`: largest violation of a constraint, position or velocity; `rank`: of the rows over the unknown velocities.
    """

    state: State
    acceleration: Acceleration
    efforts: Float[Array, "nv"]
    base_wrench: Float[Array, "6"]
    reactions: Float[Array, "rows"]
    residual: Float[Array, ""]
    rank: Int[Array, ""]
    power_rows: Float[Array, ""]
    power_slip: Float[Array, ""]


def unknown_velocities(system: System) -> np.ndarray:
    """Indices, in (base twist, coordinates), of the velocities that are not given by laws."""
    top = system.topology
    free = [6 + k for k, role in enumerate(top.roles) if role != "driven"]
    return np.array([*top.base_directions, *free], dtype=int)


def _stack(base: Array, v: Array) -> Array:
    return jnp.concatenate([base, v])


def _constant(space: RowSpace) -> RowSpace:
    return jax.tree.map(jax.lax.stop_gradient, space)


class Held(NamedTuple):
    """A state whose velocities satisfy the constraints, and what was found on the way."""

    state: State
    known: Acceleration
    tree: Tree
    rows: Rows
    A: Array  # the rows over the unknown velocities
    space: RowSpace
    residual: Array

    @property
    def still(self) -> RowSpace:
        """The row space as derivatives see it: constant, because `shortest` and `balance` know their own."""
        return _constant(self.space)


def hold(system: System, links: Links, t: Any, state: State) -> Held:
    """Fills in the driven motion and removes from the unknown velocities what violates the rows."""
    state, known = driven_motion(system, t, state)
    which = unknown_velocities(system)
    tree = tree_of(system, links, state)
    rows = rows_of(system.ideal, system, state, tree, t)
    A = pick(rows.A.T, which).T
    space = decompose(A, least_squares=system.least_squares)
    u = _stack(state.base_twist, state.v)
    error = matvec(rows.A, u) + rows.driven
    gain = space.solve(error) if system.least_squares else shortest(_constant(space), A, error)
    u = u - spread(gain, which, jnp.zeros(6 + system.nv))
    left = matvec(rows.A, u) + rows.driven
    state = State(state.base, state.q, u[:6], u[6:])
    residual = jnp.abs(jnp.concatenate([left, rows.gap, jnp.zeros(1)])).max()
    return Held(state, known, with_rates(system, links, tree, state), rows, A, space, residual)


def drifts(system: System) -> bool:
    """Whether steps must begin with `settle`: for gaps, and where rows alone may give the motion.

    Elsewhere the velocities are integrated, and `hold` corrects them at every stage.
    """
    rows = sum(len(places) for group in system.ideal for places in group.rows)
    return any(group.gaps for group in system.ideal) or rows >= len(unknown_velocities(system)) > 0 < rows


def settle(system: System, links: Links, t: Any, state: State) -> State:
    """The state moved onto the constraints: one Newton step for the gaps, and velocities that satisfy the rows."""
    held = hold(system, links, t, state)
    if not any(group.gaps for group in system.ideal):
        return held.state
    which = unknown_velocities(system)
    step = spread(-shortest(held.still, held.A, held.rows.gap), which, jnp.zeros(6 + system.nv))
    return displaced(system.topology, held.state, step[:6], step[6:])


def slip_forces(system: System, t: Any, state: State, tree: Tree) -> tuple[Array, Array]:
    """Generalised forces (6 + nv,) of the rows that slip, and the forces on these rows."""
    if not system.slipping:
        return jnp.zeros(6 + system.nv), jnp.zeros(0)
    rows = rows_of(system.slipping, system, state, tree, t)
    slips = matvec(rows.A, _stack(state.base_twist, state.v)) + rows.driven
    parts = [
        jax.vmap(lambda law, slip: law.force(slip))(group.law, pick(slips, np.array(group.rows))).reshape(-1)
        for group in system.slipping
    ]
    places = np.concatenate([np.array(group.rows).reshape(-1) for group in system.slipping])
    forces = pick(jnp.concatenate(parts), np.argsort(places))
    return tmatvec(rows.A, forces), forces


def reduced_accelerations(
    system: System, links: Links, t: Any, held: Held, external: Float[Array, "bodies 6"] | None
) -> Acceleration:
    """Accelerations that satisfy the rows and, in their kernel, the balance of forces."""
    which = unknown_velocities(system)
    state, known, tree, space = held.state, held.known, held.tree, held.still
    moves = moves_of(system, links, tree, state, known)
    rate = -rates_of(system.ideal, system, state, tree, moves, known, t)

    def by_kinematics():
        return shortest(space, held.A, rate)

    def by_dynamics():
        push, _ = slip_forces(system, t, held.state, held.tree)
        given = _stack(jnp.zeros(6), given_efforts(system, t, state))
        force = given + push - _needed(system, links, t, held, known, external)
        M = inertia_over_base(system, links, tree.rel, (tree.link_R, tree.link_p), tuple(range(6)), which)
        return balance(space, held.A, M, pick(force, which), rate)

    r, size = space.Q.shape
    if size == 0:
        found = jnp.zeros(0)
    elif r < size:
        found = by_dynamics()
    else:
        found = jax.lax.cond(space.rank == size, by_kinematics, by_dynamics)
    whole = spread(found, which, _stack(known.base, known.v))
    return Acceleration(whole[:6], whole[6:])


def struck(system: System, links: Links, t: Any, state: State) -> State:
    """The nearest state, in the kinetic metric, that satisfies the constraints: as after a blow by their reactions.

    Gaps are closed by one step of Newton's method.
    """
    which = unknown_velocities(system)
    tree = tree_of(system, links, state)
    rows = rows_of(system.ideal, system, state, tree, t)
    A = pick(rows.A.T, which).T
    space = _constant(decompose(A, least_squares=system.least_squares))
    M = inertia_over_base(system, links, tree.rel, (tree.link_R, tree.link_p), tuple(range(6)), which)
    u = _stack(state.base_twist, state.v)

    def without(excess):
        found = balance(space, A, M, jnp.zeros(len(which)), -excess)
        return spread(found, which, jnp.zeros(6 + system.nv))

    step, u = without(rows.gap), u + without(matvec(rows.A, u) + rows.driven)
    at = displaced(system.topology, state, step[:6], step[6:])
    return State(at.base, at.q, u[:6], u[6:])


def held_imbalance(
    system: System, t: Any, state: State, tree: Tree, efforts: Array, weight: Array
) -> Float[Array, "n"]:
    """What is wrong with a motion under constraints, over the unknown velocities: it vanishes if efforts balance and rows hold.

    Efforts count up to reactions, that is, without their part in the row space; in its place comes the shortest velocity that
    the rows ask to be removed, times `weight`.

    - `efforts`: (6 + nv,) that the motion takes beyond those given. `weight`: of velocities against efforts.
    """
    which = unknown_velocities(system)
    rows = rows_of(system.ideal, system, state, tree, t)
    A = pick(rows.A.T, which).T
    space = _constant(decompose(A, least_squares=system.least_squares))
    efforts = pick(efforts - slip_forces(system, t, state, tree)[0], which)
    # constant reactions: in a solution derivatives are then exact, although the row space is taken as constant
    reactions = jax.lax.stop_gradient(tmatvec(space.W, matvec(space.Q, efforts)))
    excess = matvec(rows.A, _stack(state.base_twist, state.v)) + rows.driven
    return space.without(efforts - tmatvec(A, reactions)) + weight * space.solve(excess)


def _needed(
    system: System, links: Links, t: Any, held: Held, acceleration: Acceleration, external
) -> Float[Array, "n"]:
    """Generalised forces (6 + nv,) that accelerations take, springs, dampers and loads deducted: inverse dynamics."""
    external = on_bodies(system, links, t, held.state, external)
    wrench, efforts = efforts_of(system, links, held.tree.rel, held.state, acceleration, external)
    return _stack(wrench, efforts)


def hybrid_dynamics(
    system: System,
    t: Any,
    state: State,
    external: Float[Array, "bodies 6"] | None = None,
    links: Links | None = None,
) -> Solution:
    """Accelerations, efforts and reactions of a system at time t [s], each coordinate in its role.

    **Arguments:**

    - `state`: the entries of driven coordinates are ignored; their laws replace them. Velocities are moved onto the rows.
    - `external`: (bodies, 6) wrenches of the surroundings on the bodies, in their frames [N, N m].
    - `links`: `links_of(system)`, if it was computed before.
    """
    links = links_of(system) if links is None else links
    if not system.constrained:
        state, acceleration, efforts, wrench = tree_dynamics(system, t, state, external, links)
        return Solution(
            state, acceleration, efforts, wrench, jnp.zeros(0), jnp.zeros(()), jnp.zeros((), int), *(jnp.zeros(()),) * 2
        )
    held = hold(system, links, t, state)
    acceleration = reduced_accelerations(system, links, t, held, external)
    return _with_efforts(system, links, t, held, acceleration, external)


def efforts_of_motion(
    system: System, t: Any, state: State, acceleration: Acceleration, external: Float[Array, "bodies 6"] | None = None
) -> Solution:
    """Efforts and reactions that go with a motion that is known: what an integrator found, contacts among `external`."""
    links = links_of(system)
    return _with_efforts(system, links, t, hold(system, links, t, state), acceleration, external)


def _with_efforts(system, links, t, held, acceleration, external) -> Solution:
    """Reactions, efforts and powers that go with the accelerations."""
    which = unknown_velocities(system)
    state = held.state
    push, slips = slip_forces(system, t, state, held.tree)
    u = _stack(state.base_twist, state.v)
    whole = _needed(system, links, t, held, acceleration, external) - push
    given = _stack(jnp.zeros(6), given_efforts(system, t, state))
    lambdas = held.space.multipliers(pick(whole - given, which), system.reaction_weights, system.static_reactions)
    whole = whole - tmatvec(held.rows.A, lambdas)
    base = whole[:6] * ~np.isin(np.arange(6), system.topology.base_directions)
    roles = np.array([role != "driven" for role in system.topology.roles], dtype=bool)
    efforts = jnp.where(roles, given[6:], whole[6:])
    reactions = jnp.concatenate([lambdas, slips])
    powers = (lambdas * matvec(held.rows.A, u)).sum(), (push * u).sum()
    return Solution(state, acceleration, efforts, base, reactions, held.residual, held.space.rank, *powers)


def reaction_kernel(system: System, state: State, t: Any = 0.0) -> Float[Array, "rows rows"]:
    """Static reactions: rows that span all the lambda that change no acceleration (zero rows are padding).

    Adding any of them to the reactions is as good a solution; they only stress the system.
    """
    return hold(system, links_of(system), t, state).space.left
