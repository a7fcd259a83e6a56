"""Equilibrium of a system: Newton's method with line search, load continuation, stability and natural modes.

With constraints A u = 0, the efforts balance up to reactions: r = A^T lambda, with lambda by least squares. The stiffness is
that of the Lagrangian (efforts less the reactions, at constant lambda), in the directions Z that the constraints allow. A step
has one part in the row space, which closes the gaps, and one in Z, which balances the efforts.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.assemble import field_of, passive_efforts
from undula.balance.balance import Balance
from undula.balance.implicit_equilibrium import (
    Terms,
    TracedEquilibrium,
    differentiable,
    is_differentiated,
    searched,
    without_derivative,
)
from undula.balance.rows import rows_of
from undula.core.arrays import known, namespace
from undula.core.errors import UndulaError
from undula.joints.rod.pieces import refuse_overwound
from undula.model.arguments import checked, refuse_infinite_state
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State, displaced
from undula.model.system import System
from undula.numerics.newton import columns_of
from undula.numerics.programs import compiled, quickly_compiled
from undula.numerics.row_space import TOLERANCE
from undula.tree.driven import driven_motion, driven_state
from undula.tree.snapshot import place, stand

# Scale of the efforts where they nearly vanish: this fraction of those of a large displacement. With the default tolerance, a
# residual of 1e-14 of the latter then passes, which is the rounding error.
STRESS_FREE = 1e-4
SMALLEST = 1e-3  # load increment, relative to the full load, below which a continuation gives up


class Equilibrium(NamedTuple):
    """A state at rest in which all efforts balance.

    - `residual`: imbalance relative to the efforts, or gap [m or rad], whichever is larger. If the efforts nearly vanish, as
      in a stress-free loop, it is relative to 1e-4 of those required for a displacement by a radian, or by the length of the
      system. `iterations`: of Newton's method.
    - `stiffness` (m, m): tangent stiffness in the directions that can move; symmetric for dead loads.
    - `lowest`: smallest eigenvalue of its symmetric part; the equilibrium is stable if it is positive.
    - `directions` (n, m): these directions, as columns over the unknown (base directions, coordinates); the identity
      without constraints.
    - `reactions` (rows,) of the constraints [N or N m], those of least norm if they are not unique.
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


def terms(system: System, state: State, t: Any, part: Any) -> Terms:
    """Imbalance of a state at rest, under the fraction `part` of the loads, with full elasticity; rows and gaps."""
    prepared, which = prepare(system), system.topology.unknown
    still = Acceleration.zero(system.nv)
    snap = stand(prepared, place(prepared, t, state, still, screws=bool(system.ideal)), field_of(prepared, t))
    balance = Balance.of(prepared, snap, still=True)
    efforts = balance.imbalance()
    elastic = -jnp.concatenate([jnp.zeros(6), passive_efforts(prepared, t, state)])
    rows = rows_of(prepared, snap)
    r = (part * efforts + (1 - part) * elastic)[which]
    return Terms(r, rows.A[:, which], balance.size(efforts), rows.gap)


@quickly_compiled
def _balance(system: System, state: State, t: Any, part: Any):
    """Residual, its tangent, size of the efforts, rows, gaps, reactions."""
    n = len(system.topology.unknown)
    here, linear = jax.linearize(lambda x: terms(system, _displaced(system, state, x), t, part), jnp.zeros(n))
    A = here.A
    reactions = jnp.linalg.lstsq(A.T, here.r, rcond=TOLERANCE)[0] if A.size else jnp.zeros(len(A))

    def column(u):
        change = linear(u)
        return change.r - reactions @ change.A

    return here.r - reactions @ A, columns_of(column, n), here.size, A, here.gap, reactions


def _displaced(system: System, state: State, x: Any) -> State:
    zero = jnp.zeros(6 + system.nv)
    return displaced(system.topology, state, zero.at[system.topology.unknown].set(x)).at_rest()


_moved = quickly_compiled(_displaced)


@checked
def equilibrium(
    system: System, state: State | None = None, t: Any = 0.0, tolerance: float = 1e-10, max_iterations: int = 100
) -> Any:
    """The equilibrium that Newton's method finds from a state, with loads and laws at time t [s].

    Driven coordinates are set by their laws; loops close, and wheels stay on the line along which they roll. Without a given
    state, the load is increased from zero in adaptive steps. If that, or Newton's method from the given state, fails or finds
    an unstable equilibrium, energy descent is tried, and then the other of the two. Raises `UndulaError` with the remaining
    imbalance if all fail.

    It can be differentiated. Inside functions that JAX transforms, it returns a `TracedEquilibrium`: state, residual,
    iterations and reactions. Under `jax.jit` or `jax.vmap`, energy descent is not tried, and if no equilibrium is found all
    of it is NaN.
    """
    if is_differentiated((system, state, t)):
        return _traced(system, state, t, tolerance, max_iterations)  # type: ignore[return-value]
    return _found(system, state, t, tolerance, max_iterations)


def _traced(system: System, state: State | None, t: Any, tolerance: float, max_iterations: int) -> TracedEquilibrium:
    def find(inputs):
        system, state, t = inputs
        if is_differentiated(inputs):
            out = _searched(system, state, t, tolerance, max_iterations)
        else:  # JAX differentiates step by step: the numbers are known
            found = _found(system, state, t, tolerance, max_iterations)
            out = found.state, jnp.asarray(found.residual), jnp.asarray(found.iterations)
        return out[0], out[1], out[2].astype(float)

    time = jnp.asarray(t, dtype=float)
    found, residual, iterations = without_derivative(find, (system, state, time))
    start = system.state() if state is None else state
    at, reactions = _differentiable(system, start, found, time)
    return TracedEquilibrium(at, residual, iterations.astype(int), reactions)


@compiled
def _searched(system: System, state: State | None, t: Any, tolerance: Any, max_iterations: int):
    bare = driven_motion(system, t, system.state())[0].at_rest()
    start = None if state is None else driven_motion(system, t, state)[0].at_rest()
    ranges = _ranges(system)

    def measure(here: Terms, K: Any):
        scale = jnp.maximum(here.size, STRESS_FREE * (jnp.abs(K) @ ranges).max(initial=0.0))
        left = jnp.abs(here.r).max(initial=0.0) / jnp.where(scale > 0, scale, 1.0)
        return jnp.maximum(left, jnp.abs(here.gap).max(initial=0.0))

    return searched(terms, measure, system, bare, start, t, tolerance, max_iterations)


@compiled
def _differentiable(system: System, start: State, found: State, t: Any):
    return differentiable(terms, system, start, found, t)


def _found(system: System, state: State | None, t: Any, tolerance: float, max_iterations: int) -> Equilibrium:
    time = np.asarray(float(t))
    start = system.state() if state is None else state
    refuse_infinite_state(start, f"the start of the equilibrium of '{system.name}':")
    start = driven_state(system, time, start)
    refuse_overwound(
        system.rods,
        system.labels.rods,
        start.q,
        f"the start of the equilibrium of '{system.name}' cannot be represented",
    )
    start = start.at_rest()
    tries = [
        lambda: _newton(system, start, time, 1.0, tolerance, max_iterations),
        lambda: _newton(system, start, time, 1.0, tolerance, 4 * max_iterations, descend=True),
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
        refuse_overwound(
            system.rods, system.labels.rods, best.state.q, f"the equilibrium of '{system.name}' cannot be represented"
        )
        return best
    raise UndulaError(
        f"no equilibrium of '{system.name}' was found: {min(x.residual for x in found):.3g} of the efforts remains "
        f"(tolerance {tolerance:g}), also when the load is increased step by step; start closer to the equilibrium, or use "
        "more modes or nodes."
    )


def _increase(system: System, time: Any, tolerance: float) -> Equilibrium:
    """The equilibrium reached by increasing the load from zero in adaptive steps."""
    bare = driven_state(system, time, system.state())
    at, done, step, count = bare, 0.0, 0.02, 0
    while True:
        part = min(1.0, done + step)
        tried = _newton(system, at, time, part, tolerance, 8)  # more iterations would mean a jump to another branch
        count += tried.iterations
        if tried.residual <= tolerance:
            at, done, step = tried.state, part, 2 * step
        else:
            step /= 3
        if done >= 1 or step < SMALLEST:
            return tried._replace(iterations=count)


def _newton(
    system: System, state: State, t: Any, part: float, tolerance: float, max_iterations: int, descend: bool = False
) -> Equilibrium:
    """Newton's method with a line search on the residual; with `descend`, away from unstable equilibria."""

    ranges = _ranges(known(system))

    def look(state):
        r, K, size, A, gap, reactions = (np.asarray(x) for x in _balance(system, state, t, np.asarray(part)))
        scale = max(size, STRESS_FREE * (np.abs(K) @ ranges).max(initial=0.0)) or 1.0
        left = max(np.abs(r).max(initial=0.0) / scale, np.abs(gap).max(initial=0.0))
        return _Point(state, left if np.isfinite(left) else np.inf, r, K, A, gap, reactions)

    at, count = look(state), 0
    while tolerance < at.left < np.inf and count < max_iterations:
        closing, Z = _directions(at.A, at.gap)
        force, K = Z.T @ (at.r + at.K @ closing), Z.T @ at.K @ Z
        w, V = np.linalg.eigh((K + K.T) / 2) if K.size else (np.zeros(0), K)
        downhill = descend and w.min(initial=0.0) < 0
        if downhill:  # absolute eigenvalues give a descent direction; the lower bound limits the step
            along = -V @ (V.T @ force / np.maximum(np.abs(w), 1e-3 * np.abs(w).max()))
        else:
            along = -np.linalg.lstsq(K, force, rcond=1e-13)[0]
        step = closing + Z @ along
        fraction = 1.0
        while fraction > 1e-3:
            new = look(_moved(system, at.state, fraction * step))
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


def _ranges(system: System) -> Any:
    """Typical large values of the unknowns, in their own units: a radian, the system's length, or one over that length."""
    xp = namespace(system)
    parts = [xp.zeros(1), xp.linalg.norm(system.joint_position, axis=1)]
    parts += [g.steps.sum(1) for g in system.rods]
    largest = xp.concatenate(parts).max()
    size = xp.where(largest > 0, largest, 1.0)
    by_unit = {"m": size, "1/m": 1 / size}
    units = ("m",) * 3 + ("rad",) * 3 + system.labels.units
    return xp.asarray([by_unit.get(units[k], 1.0) for k in system.topology.unknown])


class _Point(NamedTuple):
    """An iterate: relative residual, imbalance and its tangent, rows, gaps and reactions."""

    state: State
    left: float
    r: np.ndarray
    K: np.ndarray
    A: np.ndarray
    gap: np.ndarray
    reactions: np.ndarray


def _directions(A: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shortest displacement (n,) that closes the gaps of the rows A (k, n), and a basis (n, m) of their kernel."""
    n = A.shape[1]
    if not A.size or not np.all(np.isfinite(A)):
        return np.zeros(n), np.eye(n)
    U, s, V = np.linalg.svd(A)
    rank = int((s > TOLERANCE * s.max(initial=0.0)).sum())
    return -V[:rank].T @ ((U.T @ gap)[:rank] / s[:rank]), V[rank:].T


@checked
def tangent_stiffness(system: System, state: State, t: float = 0.0) -> Equilibrium:
    """The state as given, balanced or not, with its residual, its tangent stiffness and the smallest eigenvalue of that."""
    return _newton(system, state, np.asarray(float(t)), 1.0, 1.0, 0)
