"""Accelerations, efforts and reactions at an instant, each coordinate in its role."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from undula.balance.balance import Balance
from undula.balance.look import Held, hold, moved
from undula.balance.projected import projected_efforts
from undula.balance.reactions import choose, supporting
from undula.balance.reduced import reduced_accelerations, slip_forces
from undula.balance.rows import rows_of
from undula.balance.unconstrained import solve_dynamics, tree_dynamics
from undula.core.arrays import Array
from undula.model.arguments import checked
from undula.model.prepare import Prepared, prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.pick import pick
from undula.numerics.programs import quickly_compiled
from undula.numerics.row_space import decompose
from undula.numerics.small import matvec, tmatvec
from undula.tree.snapshot import Snapshot, move, place


class Solution(NamedTuple):
    """Accelerations, efforts and reactions.

    - `state`: the state, with driven coordinates set by their laws and velocities that satisfy the constraints.
    - `acceleration`: of the base (6,) and the coordinates (nv,).
    - `efforts`: (nv,) of the actuators: computed for driven and led, given for forced, zero for free coordinates [N m or N].
    - `base_wrench`: (6,) exerted by the world on the reference body, in its frame, besides reactions and given wrenches;
      zero in a free base's directions.
    - `reactions`: (rows,) multipliers of the constraints [N or N m]: the power of lambda is lambda times the row's velocity.
    - `power_efforts`, `power_rows`, `power_slip`: power [W] of the efforts, of the rows that impose a motion (driven wheels),
      and of those that slip.
    - `residual`: largest violation of a constraint, position or velocity; `rank` of the rows over the unknown velocities;
      `excess`: largest violation of a limit on the reactions [N or N m].
    """

    state: State
    acceleration: Acceleration
    efforts: Float[Array, "nv"]
    base_wrench: Float[Array, "6"]
    reactions: Float[Array, "rows"]
    residual: Float[Array, ""]
    rank: Int[Array, ""]
    power_efforts: Float[Array, ""]
    power_rows: Float[Array, ""]
    power_slip: Float[Array, ""]
    excess: Float[Array, ""]


@checked
@quickly_compiled(nameless=True)
def hybrid_dynamics(system: System, state: State, t: Any = 0.0) -> Solution:
    """Accelerations, efforts and reactions of a system at time t [s], each coordinate in its role.

    **Arguments:**

    - `state`: the entries of driven coordinates are replaced by their laws. Velocities are projected onto the rows.
    """
    return solved(prepare(system), t, state)


def solved(prepared: Prepared, t: Any, state: State) -> Solution:
    """The same for a prepared system."""
    if not prepared.system.constrained:
        found = tree_dynamics(prepared, t, state)
        return unconstrained_solution(found.snap.state, found.acceleration, found.efforts, found.wrench)
    held = hold(prepared, t, state)
    snap = moved(prepared, held)
    acceleration = reduced_accelerations(prepared, held, snap)
    return with_efforts(prepared, held, snap, acceleration)[0]


def unconstrained_solution(state: State, acceleration: Acceleration, efforts: Array, wrench: Array) -> Solution:
    """The solution of a system without constraints."""
    zero, power = jnp.zeros(()), (efforts * state.v).sum()
    return Solution(
        state, acceleration, efforts, wrench, jnp.zeros(0), zero, jnp.zeros((), int), power, zero, zero, zero
    )


def with_efforts(
    prepared: Prepared,
    held: Held,
    snap: Snapshot,
    acceleration: Acceleration,
    external: Float[Array, "links 6"] | None = None,
    strained: Float[Array, "nv"] | None = None,
) -> tuple[Solution, Balance, Float[Array, "links 6"]]:
    """Reactions, efforts and powers for given accelerations; the balance; the wrenches between the links.

    `external`: additional wrenches on the links, in their frames, e.g. those of contacts; `strained`: additional efforts.
    """
    top = prepared.system.topology
    snap = move(prepared, snap._replace(known=acceleration), snap.field)
    balance = Balance.of(prepared, snap).pushed(external, strained)
    push, slips = slip_forces(prepared, snap)
    u = snap.state.velocity
    F = balance.link_wrenches()
    whole = balance.needed(F) - push
    given = jnp.concatenate([jnp.zeros(6), balance.given()])
    chosen = choose(prepared, held.rows.A, held.space, whole - given, u[6:], snap.t)
    lambdas = chosen.reactions
    whole = whole - tmatvec(held.rows.A, lambdas)
    base = whole[:6] * ~np.isin(np.arange(6), top.base_directions)
    supplied = top.driven | top.led
    efforts = jnp.where(supplied, whole[6:], given[6:])
    reactions = jnp.concatenate([lambdas, slips])
    powers = (efforts * u[6:]).sum(), (lambdas * matvec(held.rows.A, u)).sum(), (push * u).sum()
    choice = prepared.system.choice
    if choice is not None and choice.projected:
        efforts = jnp.where(supplied, projected_efforts(balance), efforts)
    found = Solution(
        snap.state, acceleration, efforts, base, reactions, held.residual, held.space.rank, *powers, chosen.excess
    )
    return found, balance, F


def accelerated(prepared: Prepared, t: Any, state: State, known: Acceleration) -> Float[Array, "nv"]:
    """Efforts of the driven coordinates for given accelerations `known`, from an admissible state, whatever their laws."""
    top = prepared.system.topology
    if not prepared.system.constrained:
        return solve_dynamics(prepared, t, state, known, None, ~top.driven, top.base_directions).efforts
    snap = place(prepared, t, state, known)
    rows = rows_of(prepared, snap)
    A = pick(rows.A.T, top.unknown).T
    held = Held(snap, rows, A, decompose(A, least_squares=prepared.system.least_squares), jnp.zeros(()))
    snap = moved(prepared, held)
    acceleration = reduced_accelerations(prepared, held, snap)
    balance = Balance.of(prepared, move(prepared, snap._replace(known=acceleration), snap.field))
    whole = balance.needed() - slip_forces(prepared, balance.snap)[0]
    force = whole - jnp.concatenate([jnp.zeros(6), balance.given()])
    lambdas = choose(prepared, rows.A, held.space, force, snap.state.v, t).reactions
    return (whole - tmatvec(rows.A, lambdas))[6:]


@checked
@quickly_compiled(nameless=True)
def reaction_kernel(system: System, state: State, t: Any = 0.0) -> Float[Array, "rows rows"]:
    """Self-stresses: rows that span all lambda without effect on the accelerations (zero rows are padding).

    Adding any of them to the reactions gives another solution; they only stress the system, and change the efforts of driven
    and led coordinates.
    """
    prepared = prepare(system)
    held = hold(prepared, t, state)
    return supporting(prepared, held.rows.A, held.space)[1].left
