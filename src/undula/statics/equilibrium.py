"""Equilibrium of a system: Newton's method with line search, continuation of the load, stability and natural modes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula._quick import quickly_compiled
from undula.constraints.reduction import unknown_velocities
from undula.dynamics.hybrid import driven_motion
from undula.dynamics.model import inertia_over_base, passive_efforts, relative
from undula.integrate.base import Motion
from undula.model.errors import UndulaError
from undula.model.links import links_of
from undula.model.system import Acceleration, State, System, displaced

SMALLEST = 1e-3  # part of the load below which a continuation gives up


class Equilibrium(NamedTuple):
    """A state at rest in which all efforts balance.

    - `residual`: what is left of the balance, relative to the efforts; `iterations`: of Newton's method.
    - `stiffness` (n, n): tangent stiffness over the unknown (base directions, coordinates); symmetric for dead loads.
    - `lowest`: smallest eigenvalue of its symmetric part; it is stable if that is positive.
    """

    state: State
    residual: float
    iterations: int
    stiffness: np.ndarray
    lowest: float

    @property
    def stable(self) -> bool:
        return self.lowest > 0


class Modes(NamedTuple):
    """Natural frequencies [rad/s], lowest first (negative: grows at that rate, not an oscillation), and shapes (n, n), as
    columns over the unknown (base directions, coordinates), of unit modal mass."""

    frequencies: np.ndarray
    shapes: np.ndarray


@quickly_compiled
def _balance(system: System, state: State, t: Any, part: Any):
    """Residual, tangent, size of the efforts; `part` of the loads acts, all of the elasticity."""
    motion, which = Motion.of(system), unknown_velocities(system)
    still = Acceleration(jnp.zeros(6), jnp.zeros(system.nv))

    def residual(x):
        u = jnp.zeros(6 + system.nv).at[which].set(x)
        at = displaced(system.topology, state, u[:6], u[6:])
        at = State(at.base, at.q, jnp.zeros(6), jnp.zeros(system.nv))
        efforts, size = motion.imbalance(t, at, still)
        elastic = -jnp.concatenate([jnp.zeros(6), passive_efforts(system, at)])
        return (part * efforts + (1 - part) * elastic)[which], size

    zero = jnp.zeros(len(which))
    r, size = residual(zero)
    return r, jax.jacfwd(lambda x: residual(x)[0])(zero), size


@quickly_compiled
def _moved(system: System, state: State, x: Any) -> State:
    u = jnp.zeros(6 + system.nv).at[unknown_velocities(system)].set(x)
    return displaced(system.topology, state, u[:6], u[6:])


def equilibrium(
    system: System, state: State | None = None, t: float = 0.0, tolerance: float = 1e-10, most: int = 100
) -> Equilibrium:
    """The equilibrium that Newton's method finds from a state; loads and laws as they are at time t [s].

    Driven coordinates are where their laws put them. If the method fails from the given state, or finds an equilibrium that is
    not stable, the load is increased in steps, as small as needed, from the state without any. Raises `UndulaError` with
    what remains if that fails too.
    """
    if system.constrained:
        raise UndulaError(f"system '{system.name}' has constraints; equilibrium is for systems without.")
    time = jnp.asarray(float(t))
    start = system.state() if state is None else state
    start = driven_motion(system, time, start)[0]
    start = State(start.base, start.q, jnp.zeros(6), jnp.zeros(system.nv))
    found = _newton(system, start, time, 1.0, tolerance, most)
    if found.residual <= tolerance and found.stable:
        return found
    followed = _increase(system, time, tolerance)
    if followed.residual <= tolerance and (followed.stable or found.residual > tolerance):
        return followed._replace(iterations=found.iterations + followed.iterations)
    if found.residual <= tolerance:
        return found
    raise UndulaError(
        f"no equilibrium of '{system.name}' was found: {min(found.residual, followed.residual):.3g} of the efforts remains "
        f"(tolerance {tolerance:g}), also when the load is increased step by step; start closer to the equilibrium, or use "
        "more modes or nodes."
    )


def _increase(system: System, time: Any, tolerance: float) -> Equilibrium:
    """The equilibrium that a load leads to which grows from nothing, in steps as small as needed."""
    bare = driven_motion(system, time, system.state())[0]
    at, done, step, count = bare, 0.0, 0.25, 0
    while True:
        part = min(1.0, done + step)
        tried = _newton(system, at, time, part, tolerance, 30)
        count += tried.iterations
        if tried.residual <= tolerance:
            at, done, step = tried.state, part, 1.5 * step
        else:
            step /= 3
        if done >= 1 or step < SMALLEST:
            return tried._replace(iterations=count)


def _newton(system: System, state: State, t: Any, part: float, tolerance: float, most: int) -> Equilibrium:
    r, K, size = (np.asarray(x) for x in _balance(system, state, t, jnp.asarray(part)))
    count, floor = 0, 0.0
    while True:
        now = np.abs(r).max(initial=0.0)
        scale = size if size > 0 else 1.0
        if now <= tolerance * scale or now <= floor or count >= most or not np.isfinite(now):
            break
        step = -np.linalg.lstsq(K, r, rcond=1e-13)[0]
        fraction = 1.0
        while True:  # until the residual falls
            trial = _moved(system, state, jnp.asarray(fraction * step))
            new = [np.asarray(x) for x in _balance(system, trial, t, jnp.asarray(part))]
            after = np.abs(new[0]).max()
            if np.isfinite(after) and after < (1 - 1e-4 * fraction) * now:
                break
            fraction /= 2
            if fraction < 1e-3:
                break
        count += 1
        if fraction < 1e-3:
            break
        state, (r, K, size) = trial, new
    symmetric = (K + K.T) / 2
    lowest = float(np.linalg.eigvalsh(symmetric)[0]) if K.size and np.all(np.isfinite(K)) else np.inf
    left = float(np.abs(r).max(initial=0.0) / (size if size > 0 else 1.0))
    return Equilibrium(state, left if np.isfinite(left) else np.inf, count, K, lowest)


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

    square, shapes = eigh((at.stiffness + at.stiffness.T) / 2, np.asarray(_inertia(system, at.state)))
    return Modes(np.sign(square) * np.sqrt(np.abs(square)), shapes)
