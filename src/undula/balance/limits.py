"""Limits on the time step: references too fast for it, and stiffness too high for explicit methods."""

from typing import Any

import jax
import numpy as np

from undula.balance.balance import inertia_over
from undula.balance.look import look
from undula.balance.stiffness import stiffness_of
from undula.core.errors import UndulaError
from undula.model.prepare import prepare
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled

LARGEST = 1e9  # magnitude allowed for a reference [SI units]
INSTANTS = 1000  # number of times at which references are checked


@quickly_compiled
def _references(forms: Any, times: Any) -> Any:
    """(value, rate, acceleration) of the laws followed by the members of each group, at each time."""
    return [
        jax.vmap(lambda t, f=form: jax.vmap(lambda x: [law(t) for law in x.followed()])(f))(times) for form in forms
    ]


def check_references(system: System, steps: int, dt: float, t0: float = 0.0) -> None:
    """Refuses references of controllers that become infinite or that reverse within a step.

    A sample of the steps is checked, in short runs all of them: at the start of the step and somewhere inside it, since a wave
    with a period of one step looks constant from step to step.
    """
    which = [k for k, g in enumerate(system.groups) if "followed" in g.does]
    if not which:
        return
    starts = np.unique(np.linspace(0, steps, INSTANTS // 2).astype(int)) if steps > INSTANTS else np.arange(steps + 1)
    starts = np.resize(starts, INSTANTS)  # always the same number, to avoid recompilation
    times = t0 + dt * np.concatenate([starts, np.minimum(starts + 0.618 * np.arange(INSTANTS) % 1, steps)])
    found = _references([system.groups[k].form for k in which], times)
    for k, laws in zip(which, found):
        for m in range(system.groups[k].size):
            for law in laws:
                _check_reference(system, k, m, [np.asarray(x)[:, m] for x in law], times, dt)


def _check_reference(system: System, k: int, m: int, law: list[np.ndarray], times: np.ndarray, dt: float) -> None:
    """Refuses one reference (times, components) of member m of group k."""
    names = [system.coordinate_names[c] for c in system.groups[k].coordinates[m]] or [system.labels.elements[k][1][m]]
    value, rate, acceleration = (x.reshape(len(times), -1).T for x in law)
    for i in range(max(len(value), len(names) if len(value) == 1 else 0)):
        name = f"the reference of the controller of '{names[i] if i < len(names) else names[0]}'"
        i = min(i, len(value) - 1)
        for what, x in (("", value[i]), ("the rate of ", rate[i])):
            bad = np.flatnonzero(~(np.abs(x) < LARGEST))
            if len(bad):
                first = bad[np.argmin(times[bad])]
                raise UndulaError(
                    f"{what}{name} is {x[first]:g} at t = {times[first]:.6g} s; it must be finite, and below {LARGEST:g}."
                )
        changing, usual = (np.sqrt(np.mean(x[i, INSTANTS:] ** 2)) for x in (acceleration, rate))
        pace = changing / max(usual, 1e-300)
        if pace * dt > 1:  # for a sine, pace is its angular frequency
            raise UndulaError(
                f"{name} is too fast for dt = {dt:g} s, within which its rate changes by more than itself; dt must be at "
                f"most {1 / pace:.2g} s."
            )


@quickly_compiled
def _matrices(system: System, state: State) -> Any:
    """Inertia, stiffness and damping over the unknown velocities."""
    prepared = prepare(system)
    which = system.topology.unknown
    snap = look(prepared, 0.0, state)
    stiffness = stiffness_of(prepared, snap)
    inertia = inertia_over(prepared, snap, which)
    return inertia, stiffness.over(1.0, 0.0, which), stiffness.over(0.0, 1.0, which)


def stiffness_limit(system: System, state: State) -> float:
    """The largest stable step [s] of an explicit integrator, given the springs, dampers and controllers at a state."""
    M, K, D = (np.asarray(x) for x in _matrices(system, state))
    n = len(M)
    try:
        rates = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(M, np.hstack([K, D]))]])
        fastest = np.abs(np.linalg.eigvals(rates)).max(initial=0.0)
    except np.linalg.LinAlgError:  # singular or infinite inertia: no limit is known
        return np.inf
    return 2 / max(fastest, 1e-300)
