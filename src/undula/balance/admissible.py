"""Making a state satisfy its constraints before a run: closing the gaps, finding admissible velocities."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from undula.balance.look import closing_step, hold
from undula.balance.rows import has_gaps
from undula.core.arrays import Array, known
from undula.core.errors import UndulaError, whole
from undula.model.arguments import checked, refuse_infinite_state
from undula.model.prepare import prepare
from undula.model.state import State, displaced
from undula.model.system import System
from undula.numerics.programs import quickly_compiled

CLOSED = 1e-11  # a gap below this is closed [m or rad]
COMPATIBLE = 1e-7  # tolerance on the rows for a compatible driven motion [m/s or rad/s]
GOOD = 1e-9  # a gap that is accepted if it cannot be reduced any further [m or rad]
RETRIES = 4  # other starts
SHAKE = 0.1  # by how much they differ [m or rad]
SHORT = 0.3  # largest step from them [m or rad]: near a singular state, a full one would turn joints several times
FAR = 1e300  # no limit
TURNS = ("rx", "ry", "rz", "tilt_x", "tilt_y", "square")  # rows of constraints that measure rotations
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
def _instant(system: System, state: State, moved: State, t: Any, ahead: Any, short: Any) -> Instant:
    """The instant that follows a state in a time `ahead` [s] with the velocities of `moved`; `short`: the largest step of a
    coordinate that closes gaps [m or rad]."""
    prepared = prepare(system)
    at = displaced(system.topology, state, ahead * moved.velocity)
    held = hold(prepared, t + ahead, at.with_velocity(moved.velocity))
    at, rows = held.snap.state, held.rows
    left = rows.A @ at.velocity + rows.driven
    closer = at
    if has_gaps(system.ideal):
        step = closing_step(prepared, held)
        far = jnp.abs(step[6:]).max(initial=0.0)
        closer = displaced(system.topology, at, step * jnp.where(far > short, short / jnp.maximum(far, short), 1.0))
    return Instant(at, rows.A, rows.driven, rows.gap, left, held.space.rank, held.space.left, closer)


def instant(system: System, state: State, t: float, short: float = np.inf) -> Instant:
    """A state at time t [s]. All questions about it are answered by one program."""
    return _instant(system, state, state, np.asarray(float(t)), np.zeros(()), np.asarray(min(short, FAR)))


@checked
def assemble(system: System, state: State, t: float = 0.0, iterations: int = 60) -> State:
    """The state with the gaps of its constraints closed by moving undriven coordinates (Newton's method, from a rough guess).

    Driven coordinates are set by their laws at time t [s]. Raises `UndulaError` with the remaining gaps if they do not close.
    """
    if not has_gaps(system.ideal):
        return state
    refuse_infinite_state(state, "the initial")
    whole(iterations, "iterations", at_least=1)
    best, size = _assembled(system, state, t, iterations)
    for k in range(RETRIES):  # a singular start, such as a straight chain, may be a dead end of Newton's method
        if size < GOOD:
            return best
        other, left = _assembled(system, _shaken(system, state, k), t, iterations, SHORT)
        best, size = (other, left) if left < GOOD else (best, size)
    if size < GOOD:
        return best
    here = instant(system, best, t)
    raise UndulaError(
        f"the system '{system.name}' cannot be assembled: {_worst(system, here.gap, here.kernel)} (m or rad) remain open, also "
        f"from {RETRIES} other starts nearby; {_remedy(system, here.gap)}."
    )


def _assembled(system: System, state: State, t: float, iterations: int, short: float = np.inf) -> tuple[State, float]:
    """The best state that Newton's method finds with steps of at most `short` in each coordinate, and its largest gap."""
    best, size = state, np.inf
    for _ in range(iterations):
        here = instant(system, state, t, short)
        gap = np.abs(np.asarray(here.gap))
        if not np.all(np.isfinite(gap)):
            break
        if gap.max() < size:
            best, size = state, float(gap.max())
        if size < CLOSED:
            break
        state = here.closer
    return best, size


def _shaken(system: System, state: State, k: int) -> State:
    """The state with its undriven coordinates moved a little, always in the same way."""
    which = system.topology.unknown[system.topology.unknown >= 6]
    step = np.zeros(6 + system.nv)
    step[which] = SHAKE * (k + 1) * np.random.default_rng(k).uniform(-1, 1, len(which))
    return _moved(system, state, step)


@quickly_compiled(nameless=True)
def _moved(system: System, state: State, step: Any) -> State:
    return displaced(system.topology, state, step)


def _remedy(system: System, gap: Any) -> str:
    """What would help to close the gaps that remain open."""
    left = np.abs(np.asarray(gap))
    worst = [system.row_names[k] for k in np.flatnonzero(left > 1e-6)]
    turned = list(dict.fromkeys(x.rpartition(".")[0] for x in worst if x.rpartition(".")[2] in TURNS))
    if turned:
        return (
            f"the frames of {', '.join(turned)} are turned against each other: give their mounting as `rotation` and "
            "`other_rotation` of the constraint, or a `kind` that leaves the rotation free"
        )
    return "give a state that nearly closes them, and check the lengths, and the points that are joined"


def violated_rows(system: System, state: State, t: Any) -> str:
    """The rows that a state violates most, in position or velocity, and by how much."""
    here = instant(system, state, float(t))
    gap, left = np.asarray(here.gap), np.asarray(here.left)
    return _worst(system, np.where(np.abs(gap) > np.abs(left), gap, left), here.kernel)


def _worst(system: System, left: Any, kernel: Any) -> str:
    """The rows with the largest violations, the violations, and the rows they contradict (from the left kernel)."""
    left, kernel = np.asarray(left), np.asarray(kernel)
    order = [k for k in np.argsort(-np.abs(left))[:4] if abs(left[k]) > 1e-12]
    words = [f"{system.row_names[k]} by {abs(left[k]):.3g}" for k in order]
    others = np.abs(kernel[order]).max(0, initial=0.0) > 1e-6
    against = [system.row_names[k] for k in np.flatnonzero(others) if k not in order]
    return ", ".join(words) + (f" (against {', '.join(against)})" if against else "")


@checked
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
        found = _instant(system, state, moved, np.asarray(float(t)), np.asarray(ahead), np.asarray(FAR))
        moved, rank = found.state, found.rank
    return moved, rank
