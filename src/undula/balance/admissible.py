"""Putting a system onto its constraints before it moves: closing the gaps, finding admissible velocities."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.balance.reduced import hold, settle
from undula.core.errors import UndulaError
from undula.model.links import links_of
from undula.model.system import State, System, displaced
from undula.numerics.quick import quickly_compiled

CLOSED = 1e-11  # what remains of a gap that is closed [m or rad]
COMPATIBLE = 1e-7  # what may remain of a row when the driven motion is compatible [m/s or rad/s]
NEARBY = 1e-4  # how far from a singular start its limit is looked for [s]


@quickly_compiled
def _gaps(system: System, state: State, t: Any):
    held = hold(system, links_of(system), t, state)
    left = held.rows.A @ jnp.concatenate([held.state.base_twist, held.state.v]) + held.rows.driven
    return held.state, held.rows.gap, left, held.space.rank, held.space.left


@quickly_compiled
def _ahead(system: System, state: State, moved: State, t: Any, ahead: Any):
    """Velocities and rank after a time `ahead` of moving as `moved` does."""
    at = displaced(system.topology, state, ahead * moved.base_twist, ahead * moved.v)
    held = hold(system, links_of(system), t + ahead, State(at.base, at.q, moved.base_twist, moved.v))
    return held.state, held.space.rank


@quickly_compiled
def _closer(system: System, state: State, t: Any) -> State:
    return settle(system, links_of(system), t, state)


def assemble(system: System, state: State, t: float = 0.0, iterations: int = 60) -> State:
    """The state with the gaps of its constraints closed by moving what is not driven (Newton's method, from a rough guess).

    Driven coordinates are put where their laws say at time t [s]. Raises `UndulaError` with what remains if it does not close.
    """
    time = jnp.asarray(float(t))
    if not any(group.gaps for group in system.ideal):
        return state
    best, size = state, np.inf
    for _ in range(iterations):
        _, gap, _, _, _ = _gaps(system, state, time)
        gap = np.abs(np.asarray(gap))
        if not np.all(np.isfinite(gap)):
            break
        if gap.max() < size:
            best, size = state, gap.max()
        if gap.max() < CLOSED:
            return state
        state = _closer(system, state, time)
    if size < 1e-9:
        return best
    _, gap, _, _, kernel = _gaps(system, best, time)
    raise UndulaError(f"the system '{system.name}' cannot be assembled: {_worst(system, gap, kernel)} remain open.")


def _worst(system: System, left: Any, kernel: Any) -> str:
    """The rows that are violated most, by how much, and those that they contradict (rows of the left kernel)."""
    left, kernel = np.asarray(left), np.asarray(kernel)
    order = [k for k in np.argsort(-np.abs(left))[:4] if abs(left[k]) > 1e-12]
    words = [f"{system.row_names[k]} by {abs(left[k]):.3g}" for k in order]
    others = np.abs(kernel[order]).max(0, initial=0.0) > 1e-6
    against = [system.row_names[k] for k in np.flatnonzero(others) if k not in order]
    return ", ".join(words) + (f" (against {', '.join(against)})" if against else "")


def admissible(system: System, state: State, t: float = 0.0) -> State:
    """The state with gaps closed and velocities that satisfy the constraints, the driven ones as their laws say.

    If the start is singular, so that the rows leave open what they give an instant later, the limit is taken. A driven
    motion that the rows do not allow is refused, unless the system was built for least squares.
    """
    if not system.ideal:
        return state
    state = assemble(system, state, t)
    held, _, left, rank, kernel = _gaps(system, state, jnp.asarray(float(t)))
    worst = np.abs(np.asarray(left)).max()
    scale = 1 + np.abs(np.asarray(held.v)).max(initial=0.0) + np.abs(np.asarray(held.base_twist)).max()
    if worst > COMPATIBLE * scale and not system.least_squares:
        raise UndulaError(
            f"the driven motion of '{system.name}' violates its constraints at t = {t:g} s: {_worst(system, left, kernel)} "
            "(m/s or rad/s) cannot be removed; change the motion, free a coordinate, or build with least_squares=True."
        )
    ahead = [_limit(system, held, t, k * NEARBY) for k in (1, 2)]
    if int(rank) < min(int(r) for _, r in ahead):
        twist, v = (2 * getattr(ahead[0][0], x) - getattr(ahead[1][0], x) for x in ("base_twist", "v"))
        held = State(held.base, held.q, twist, v)
    return held


def _limit(system: System, state: State, t: float, ahead: float) -> tuple[State, Any]:
    """Velocities a moment later, and the rank there."""
    moved, rank = state, 0
    for _ in range(4):
        moved, rank = _ahead(system, state, moved, jnp.asarray(float(t)), jnp.asarray(ahead))
    return moved, rank
