"""Evaluating an instant: driven coordinates from their laws, joints, velocities that satisfy the rows, link motion."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.balance.assemble import field_of
from undula.balance.rows import Rows, has_gaps, row_count, rows_of
from undula.core.arrays import Array
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, displaced
from undula.numerics.held import shortest
from undula.numerics.pick import pick, spread
from undula.numerics.row_space import RowSpace, decompose
from undula.numerics.small import matvec
from undula.tree.driven import driven_motion
from undula.tree.snapshot import Snapshot, move, place


def look(prepared: Prepared, t: Any, state: State, frames: bool = True, screws: bool = False) -> Snapshot:
    """The snapshot of a motion at time t [s], driven coordinates set by their laws; velocities may violate the rows."""
    state, known = driven_motion(prepared.system, t, state)
    return move(prepared, place(prepared, t, state, known, frames, screws), field_of(prepared, t))


def look_at(
    prepared: Prepared, t: Any, state: State, acceleration: Acceleration, frames: bool = True, screws: bool = False
) -> Snapshot:
    """The snapshot of a motion whose state and accelerations are fully given, regardless of the laws."""
    return move(prepared, place(prepared, t, state, acceleration, frames, screws), field_of(prepared, t))


class Held(NamedTuple):
    """A snapshot (without link motion) whose velocities satisfy the rows, and the intermediate results."""

    snap: Snapshot
    rows: Rows
    A: Array  # the rows over the unknown velocities
    space: RowSpace
    residual: Array

    @property
    def still(self) -> RowSpace:
        """The row space as a constant for differentiation: `shortest` and `balance` have their own derivatives."""
        return constant(self.space)


def constant(space: RowSpace) -> RowSpace:
    """The row space as a constant for differentiation."""
    return jax.tree.map(jax.lax.stop_gradient, space)


def hold(prepared: Prepared, t: Any, state: State) -> Held:
    """Fills in the driven motion and projects the unknown velocities onto the rows."""
    system = prepared.system
    state, known = driven_motion(system, t, state)
    which = system.topology.unknown
    snap = place(prepared, t, state, known)
    rows = rows_of(prepared, snap)
    A = pick(rows.A.T, which).T
    space = decompose(A, least_squares=system.least_squares)
    u = state.velocity
    error = matvec(rows.A, u) + rows.driven
    gain = space.solve(error) if system.least_squares else shortest(constant(space), A, error)
    u = u - spread(gain, which, jnp.zeros(6 + system.nv))
    left = matvec(rows.A, u) + rows.driven
    residual = jnp.abs(jnp.concatenate([left, rows.gap, jnp.zeros(1)])).max()
    return Held(snap._replace(state=state.with_velocity(u)), rows, A, space, residual)


def moved(prepared: Prepared, held: Held) -> Snapshot:
    """The held snapshot with the motion of its links."""
    return move(prepared, held.snap, field_of(prepared, held.snap.t))


def drifts(prepared: Prepared) -> bool:
    """Whether steps must begin with `settle`: if there are gaps, or if the rows alone may determine the motion.

    Otherwise the velocities are integrated, and `hold` corrects them at every stage.
    """
    ideal = prepared.system.ideal
    rows = row_count(ideal)
    return has_gaps(ideal) or rows >= len(prepared.system.topology.unknown) > 0 < rows


def settle(prepared: Prepared, t: Any, state: State) -> State:
    """The state moved onto the constraints: one Newton step for the gaps, and velocities that satisfy the rows."""
    held = hold(prepared, t, state)
    if not has_gaps(prepared.system.ideal):
        return held.snap.state
    closing = closing_step(prepared, held)
    return displaced(prepared.system.topology, held.snap.state, closing)


def closing_step(prepared: Prepared, held: Held) -> Float[Array, "n"]:
    """The shortest displacement (6 + nv,) that closes the gaps, to first order."""
    zero = jnp.zeros(6 + prepared.system.nv)
    return spread(-shortest(held.still, held.A, held.rows.gap), prepared.system.topology.unknown, zero)
