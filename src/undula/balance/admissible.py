"""Making a state satisfy its constraints before a run: closing the gaps, finding admissible velocities."""

from typing import Any, NamedTuple

import numpy as np

from undula.balance.look import closing_step, hold
from undula.balance.rows import has_gaps
from undula.core.arrays import Array, known
from undula.core.errors import UndulaError
from undula.model.prepare import prepare
from undula.model.state import State, displaced
from undula.model.system import System
from undula.numerics.programs import quickly_compiled

CLOSED = 1e-11  # a gap below this is closed [m or rad]
COMPATIBLE = 1e-7  # tolerance on the rows for a compatible driven motion [m/s or rad/s]
NEARBY = 1e-4  # time after a singular start at which its limit is evaluated [s]


class Instant(NamedTuple):
    """A state whose velocities satisfy the rows, and these rows: A u + `driven` = 0, of a rank.

    `gap`: position residuals; `left`: what remains of the rows; `kernel`: left kernel of A; `closer`: the state after one
    Newton step that closes the gaps.
    """

    state: State
    A: Array
    driven: Array
    gap: Array
    left: Array
    rank: Array
    kernel: Array
    closer: State


@quickly_compiled(nameless=True)
def _instant(system: System, state: State, moved: State, t: Any, ahead: Any) -> Instant:
    """The instant that follows a state in a time `ahead` [s] with the velocities of `moved`."""
    prepared = prepare(system)
    at = displaced(system.topology, state, ahead * moved.velocity)
    held = hold(prepared, t + ahead, at.with_velocity(moved.velocity))
    at, rows = held.snap.state, held.rows
    left = rows.A @ at.velocity + rows.driven
    closer = displaced(system.topology, at, closing_step(prepared, held)) if has_gaps(system.ideal) else at
    return Instant(at, rows.A, rows.driven, rows.gap, left, held.space.rank, held.space.left, closer)


def instant(system: System, state: State, t: float) -> Instant:
    """A state at time t [s]. All questions about it are answered by one program."""
    return _instant(system, state, state, np.asarray(float(t)), np.zeros(()))


def assemble(system: System, state: State, t: float = 0.0, iterations: int = 60) -> State:
    """The state with the gaps of its constraints closed by moving undriven coordinates (Newton's method, from a rough guess).

    Driven coordinates are set by their laws at time t [s]. Raises `UndulaError` with the remaining gaps if they do not close.
    """
    if not has_gaps(system.ideal):
        return state
    best, size = state, np.inf
    for _ in range(iterations):
        here = instant(system, state, t)
        gap = np.abs(np.asarray(here.gap))
        if not np.all(np.isfinite(gap)):
            break
        if gap.max() < size:
            best, size = state, gap.max()
        if gap.max() < CLOSED:
            return state
        state = here.closer
    if size < 1e-9:
        return best
    here = instant(system, best, t)
    raise UndulaError(
        f"the system '{system.name}' cannot be assembled: {_worst(system, here.gap, here.kernel)} remain open."
    )


def _worst(system: System, left: Any, kernel: Any) -> str:
    """The rows with the largest violations, the violations, and the rows they contradict (from the left kernel)."""
    left, kernel = np.asarray(left), np.asarray(kernel)
    order = [k for k in np.argsort(-np.abs(left))[:4] if abs(left[k]) > 1e-12]
    words = [f"{system.row_names[k]} by {abs(left[k]):.3g}" for k in order]
    others = np.abs(kernel[order]).max(0, initial=0.0) > 1e-6
    against = [system.row_names[k] for k in np.flatnonzero(others) if k not in order]
    return ", ".join(words) + (f" (against {', '.join(against)})" if against else "")


def admissible(system: System, state: State, t: float = 0.0) -> State:
    """The state with gaps closed and velocities that satisfy the constraints, the driven ones set by their laws.

    At a singular start, where the rows determine less than an instant later, the limit is taken. A driven motion that violates
    the rows is refused, unless the system was built for least squares.
    """
    if not system.ideal:
        return state
    state = assemble(system, state, t)
    here = instant(system, state, t)
    held, left, rank, kernel = here.state, here.left, here.rank, here.kernel
    worst = np.abs(np.asarray(left)).max()
    scale = 1 + np.abs(np.asarray(held.v)).max(initial=0.0) + np.abs(np.asarray(held.base_twist)).max()
    if worst > COMPATIBLE * scale and not system.least_squares:
        raise UndulaError(
            f"the driven motion of '{system.name}' violates its constraints at t = {t:g} s: {_worst(system, left, kernel)} "
            "(m/s or rad/s) cannot be removed; change the motion, free a coordinate, or build with least_squares=True."
        )
    ahead = [_limit(system, held, t, k * NEARBY) for k in (1, 2)]
    if int(rank) < min(int(r) for _, r in ahead):
        held = held.with_velocity(2 * known(ahead[0][0]).velocity - known(ahead[1][0]).velocity)
    return held


def _limit(system: System, state: State, t: float, ahead: float) -> tuple[State, Any]:
    """Velocities a time `ahead` [s] later, and the rank there."""
    moved, rank = state, 0
    for _ in range(4):
        found = _instant(system, state, moved, np.asarray(float(t)), np.asarray(ahead))
        moved, rank = found.state, found.rank
    return moved, rank
