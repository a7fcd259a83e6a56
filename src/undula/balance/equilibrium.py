"""Equilibrium of a system: Newton's method with line search, continuation of the load, stability and natural modes.

With constraints A u = 0, the efforts balance up to reactions: r = A^T lambda. lambda is the one that leaves least of r; the
stiffness is that of the Lagrangian (efforts less the reactions, which stay as they are), in the directions Z that the
constraints allow. Steps are a part in the rows that closes the gaps, and one in Z that balances.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.dynamics import inertia_over_base, passive_efforts, relative
from undula.balance.reduced import unknown_velocities
from undula.balance.rows import rows_of, tree_of
from undula.core.errors import UndulaError
from undula.integrate.method import Motion
from undula.joints.rod.pieces import refuse_overwound
from undula.model.links import links_of
from undula.model.system import State, System, displaced
from undula.numerics.newton import columns_of
from undula.numerics.quick import quickly_compiled
from undula.numerics.row_space import TOLERANCE
from undula.tree.driven import driven_motion

# What counts as the size of the efforts where hardly any are left: this part of those of a large displacement. With the default
# tolerance, a residual of 1e-14 of them then passes, which is what rounding leaves.
STRESS_FREE = 1e-4
SMALLEST = 1e-3  # part of the load below which a continuation gives up


class Equilibrium(NamedTuple):
    """A state at rest in which all efforts balance.

    - `residual`: what is left of the balance, relative to the efforts, or of the gaps [m or rad], whichever is larger;
      `iterations`: of Newton's method. If there are hardly any efforts, as in a loop without stress, it is relative to 1e-4
      of those that a displacement by a radian, or by the length of the system, would take.
    - `stiffness` (m, m): tangent stiffness in the directions that can move; symmetric for dead loads.
    - `lowest`: smallest eigenvalue of its symmetric part; it is stable if that is positive.
    - `directions` (n, m): these directions, as columns over the unknown (base directions, coordinates); the identity
      without constraints.
    - `reactions` (rows,): of the constraints [N or N m], the shortest if they are not unique.
    """

    state: State
    residual: float
    iterations: int
    stiffness: np.ndarray
    lowest: float
    directions: np.ndarray
    reactions: np.ndarray

    @property
    def stable(self) -> bool:
        return self.lowest > 0


class Modes(NamedTuple):
    """Natural frequencies [rad/s], lowest first (negative: grows at that rate, not an oscillation), and shapes (n, m), as
    columns over the unknown (base directions, coordinates), of unit modal mass."""

    frequencies: np.ndarray
    shapes: np.ndarray


@quickly_compiled
def _balance(system: System, state: State, t: Any, part: Any):
    """Residual, its tangent, size of the efforts, rows, gaps, reactions; `part` of the loads acts, all of the elasticity."""
    motion, which = Motion.of(system), unknown_velocities(system)

    def at(x):
        u = jnp.zeros(6 + system.nv).at[which].set(x)
        moved = displaced(system.topology, state, u[:6], u[6:])
        return State(moved.base, moved.q, jnp.zeros(6), jnp.zeros(system.nv))

    def needed(x):
        efforts, size = motion.imbalance_at_rest(t, at(x))
        elastic = -jnp.concatenate([jnp.zeros(6), passive_efforts(system, at(x))])
        tree = tree_of(system, motion.links, at(x)) if system.ideal else None
        rows = rows_of(system.ideal, system, at(x), tree, t)
        return (part * efforts + (1 - part) * elastic)[which], rows.A[:, which], (size, rows.gap)

    n = len(which)
    (r, A, (size, gap)), linear = jax.linearize(needed, jnp.zeros(n))
    reactions = jnp.linalg.lstsq(A.T, r, rcond=TOLERANCE)[0] if A.size else jnp.zeros(len(A))

    def column(u):
        dr, dA, _ = linear(u)
        return dr - reactions @ dA

    return r - reactions @ A, columns_of(column, n), size, A, gap, reactions


@quickly_compiled
def _moved(system: System, state: State, x: Any) -> State:
    u = jnp.zeros(6 + system.nv).at[unknown_velocities(system)].set(x)
    return displaced(system.topology, state, u[:6], u[6:])


def equilibrium(
    system: System, state: State | None = None, t: float = 0.0, tolerance: float = 1e-10, most: int = 100
) -> Equilibrium:
    """The equilibrium that Newton's method finds from a state; loads and laws as they are at time t [s].

    Driven coordinates are where their laws put them; loops close, and wheels stay on the line along which they roll. Without a
    given state, the load is increased from nothing, in steps as small as needed. If that, or Newton's method from the given
    state, fails or finds an equilibrium that is not stable, a descent of the energy is tried, and then the other. Raises
    `UndulaError` with what remains if all fail.
    """
    time = jnp.asarray(float(t))
    start = system.state() if state is None else state
    start = driven_motion(system, time, start)[0]
    refuse_overwound(system, start.q, f"the start of the equilibrium of '{system.name}' cannot be represented")
    start = State(start.base, start.q, jnp.zeros(6), jnp.zeros(system.nv))
    tries = [
        lambda: _newton(system, start, time, 1.0, tolerance, most),
        lambda: _newton(system, start, time, 1.0, tolerance, 4 * most, descend=True),
        lambda: _increase(system, time, tolerance),
    ]
    if state is None:
        tries = tries[::-1]
    found: list[Equilibrium] = []
    for attempt in tries:
        found.append(attempt())
        if found[-1].residual <= tolerance and found[-1].stable:
            break
    total, balanced = sum(x.iterations for x in found), [x for x in found if x.residual <= tolerance]
    if balanced:
        best = max(balanced, key=lambda x: x.stable)._replace(iterations=total)
        refuse_overwound(system, best.state.q, f"the equilibrium of '{system.name}' cannot be represented")
        return best
    raise UndulaError(
        f"no equilibrium of '{system.name}' was found: {min(x.residual for x in found):.3g} of the efforts remains "
        f"(tolerance {tolerance:g}), also when the load is increased step by step; start closer to the equilibrium, or use "
        "more modes or nodes."
    )


def _increase(system: System, time: Any, tolerance: float) -> Equilibrium:
    """The equilibrium that a load leads to which grows from nothing, in steps as small as needed."""
    bare = driven_motion(system, time, system.state())[0]
    at, done, step, count = bare, 0.0, 0.02, 0
    while True:
        part = min(1.0, done + step)
        tried = _newton(system, at, time, part, tolerance, 8)  # more would mean a jump
        count += tried.iterations
        if tried.residual <= tolerance:
            at, done, step = tried.state, part, 2 * step
        else:
            step /= 3
        if done >= 1 or step < SMALLEST:
            return tried._replace(iterations=count)


def _newton(
    system: System, state: State, t: Any, part: float, tolerance: float, most: int, descend: bool = False
) -> Equilibrium:
    """Newton's method with a line search on the residual; with `descend`, away from equilibria that are not stable."""

    ranges = _ranges(system)

    def look(state):
        r, K, size, A, gap, reactions = (np.asarray(x) for x in _balance(system, state, t, jnp.asarray(part)))
        size = max(size, STRESS_FREE * (np.abs(K) @ ranges).max(initial=0.0)) or 1.0
        left = max(np.abs(r).max(initial=0.0) / size, np.abs(gap).max(initial=0.0))
        return _Point(state, left if np.isfinite(left) else np.inf, r, K, A, gap, reactions)

    at, count = look(state), 0
    while tolerance < at.left < np.inf and count < most:
        closing, Z = _directions(at.A, at.gap)
        force, K = Z.T @ (at.r + at.K @ closing), Z.T @ at.K @ Z
        w, V = np.linalg.eigh((K + K.T) / 2) if K.size else (np.zeros(0), K)
        downhill = descend and w.min(initial=0.0) < 0
        if downhill:  # every direction with the sign of a descent, and not too far
            along = -V @ (V.T @ force / np.maximum(np.abs(w), 1e-3 * np.abs(w).max()))
        else:
            along = -np.linalg.lstsq(K, force, rcond=1e-13)[0]
        step = closing + Z @ along
        fraction = 1.0
        while fraction > 1e-3:
            new = look(_moved(system, at.state, jnp.asarray(fraction * step)))
            if new.left < np.inf:
                slope, before = new.r @ (Z @ along), force @ along
                if (slope <= 0.5 * abs(before)) if downhill else (new.left < (1 - 1e-4 * fraction) * at.left):
                    break
            fraction /= 2
        count += 1
        if fraction <= 1e-3:
            break
        at = new
    _, Z = _directions(at.A, at.gap)
    K = Z.T @ at.K @ Z
    lowest = float(np.linalg.eigvalsh((K + K.T) / 2)[0]) if K.size and np.all(np.isfinite(K)) else np.inf
    return Equilibrium(at.state, at.left, count, K, lowest, Z, at.reactions)


def _ranges(system: System) -> np.ndarray:
    """How far the unknown directions may go, in their own units: a radian, the length of the system, a turn along it."""
    lengths = [float(np.linalg.norm(x)) for x in np.asarray(system.joint_position)]
    lengths += [float(x) for g in system.rods for x in np.asarray(g.steps).sum(1)]
    size = max(lengths, default=0.0) or 1.0
    by_unit = {"m": size, "1/m": 1 / size}
    units = ("m",) * 3 + ("rad",) * 3 + system.topology.units
    return np.array([by_unit.get(units[k], 1.0) for k in unknown_velocities(system)])


class _Point(NamedTuple):
    """A configuration on the way: what is left, the balance and its tangent, rows, gaps and reactions."""

    state: State
    left: float
    r: np.ndarray
    K: np.ndarray
    A: np.ndarray
    gap: np.ndarray
    reactions: np.ndarray


def _directions(A: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shortest displacement (n,) that closes the gaps of the rows A (k, n), and what they leave free (n, m)."""
    n = A.shape[1]
    if not A.size or not np.all(np.isfinite(A)):
        return np.zeros(n), np.eye(n)
    U, s, V = np.linalg.svd(A)
    rank = int((s > TOLERANCE * s.max(initial=0.0)).sum())
    return -V[:rank].T @ ((U.T @ gap)[:rank] / s[:rank]), V[rank:].T


def tangent_stiffness(system: System, state: State, t: float = 0.0) -> Equilibrium:
    """The state as it is, balanced or not, with its residual, tangent stiffness and the smallest eigenvalue of that."""
    return _newton(system, state, jnp.asarray(float(t)), 1.0, 1.0, 0)


def continuation(
    family: Callable[[float], System], values: Sequence[float], state: State | None = None, tolerance: float = 1e-10
) -> list[Equilibrium]:
    """Equilibria of the systems `family(value)`, each found from the one before: load paths, buckling, snap-through.

    Where an equilibrium is not stable (`stable`), the path went through a critical load.
    """
    out: list[Equilibrium] = []
    for value in values:
        guess = out[-1].state if out else state
        out.append(equilibrium(family(value), guess, tolerance=tolerance))
    return out


@quickly_compiled
def _inertia(system: System, state: State):
    links = links_of(system)
    rel = relative(system, links, state)
    return inertia_over_base(system, links, rel, None, tuple(range(6)), unknown_velocities(system))


def natural_modes(system: System, at: Equilibrium) -> Modes:
    """Small undamped vibrations about an equilibrium."""
    from scipy.linalg import eigh

    Z = at.directions
    square, shapes = eigh((at.stiffness + at.stiffness.T) / 2, Z.T @ np.asarray(_inertia(system, at.state)) @ Z)
    return Modes(np.sign(square) * np.sqrt(np.abs(square)), Z @ shapes)
