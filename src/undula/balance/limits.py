"""Controllers and the step: references that a step cannot follow, and stiffness that an explicit step cannot bear."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.dynamics import inertia_over_base, relative
from undula.balance.reduced import unknown_velocities
from undula.core.errors import UndulaError
from undula.forces.controllers import ProportionalDerivative
from undula.integrate.moreau import implicit_part
from undula.model.links import links_of
from undula.model.system import State, System
from undula.numerics.quick import quickly_compiled

LARGEST = 1e9  # of a reference [SI units]
INSTANTS = 1000  # at which references are looked at


@quickly_compiled
def _references(laws: Any, times: Any) -> Any:
    """(value, rate, acceleration) of each law at each time."""
    return jax.vmap(lambda t: [law(t) for law in laws])(times)


def check_references(system: System, steps: int, dt: float) -> None:
    """Refuses references of controllers that become infinite, or that turn round within a step.

    They are looked at in some of the steps, all of them in a short run: at their beginning, and somewhere inside, since a wave
    that is as fast as the steps looks constant from step to step.
    """
    drives = [x for x in system.efforts if isinstance(x.law, ProportionalDerivative)]
    if not drives:
        return
    k = np.unique(np.linspace(0, steps, INSTANTS // 2).astype(int)) if steps > INSTANTS else np.arange(steps + 1)
    k = np.resize(k, INSTANTS)  # the same number always, so that nothing compiles anew
    times = dt * np.concatenate([k, np.minimum(k + 0.618 * np.arange(INSTANTS) % 1, steps)])
    for drive, found in zip(drives, _references([x.law.reference for x in drives], jnp.asarray(times))):
        value, rate, acceleration = (np.broadcast_to(np.asarray(x).T, (len(drive.which), len(times))) for x in found)
        for i, coordinate in enumerate(drive.which):
            name = f"the reference of the controller of '{system.coordinate_names[coordinate]}'"
            for what, x in (("", value[i]), ("the rate of ", rate[i])):
                bad = np.flatnonzero(~(np.abs(x) < LARGEST))
                if len(bad):
                    first = bad[np.argmin(times[bad])]
                    raise UndulaError(
                        f"{what}{name} is {x[first]:g} at t = {times[first]:.6g} s; it must be finite, and below {LARGEST:g}."
                    )
            changing, usual = (np.sqrt(np.mean(x[i, INSTANTS:] ** 2)) for x in (acceleration, rate))
            pace = changing / max(usual, 1e-300)
            if pace * dt > 1:  # of a sine: its angular rate
                raise UndulaError(
                    f"{name} is too fast for dt = {dt:g} s, within which its rate changes by more than itself; dt must be at "
                    f"most {1 / pace:.2g} s."
                )


@quickly_compiled
def _matrices(system: System, state: State) -> Any:
    """Inertia over the unknown velocities; stiffness and damping over the coordinates."""
    links = links_of(system)
    rel = relative(system, links, state)
    inertia = inertia_over_base(system, links, rel, None, tuple(range(6)), unknown_velocities(system))
    return inertia, *implicit_part(system)


def stiffness_limit(system: System, state: State) -> float:
    """The largest step [s] that an explicit integrator can take with the springs, dampers and controllers of a state."""
    which = unknown_velocities(system)
    M, K, D = (np.asarray(x) for x in _matrices(system, state))
    K, D = (np.pad(x, (6, 0))[np.ix_(which, which)] for x in (K, D))
    n = len(which)
    try:
        rates = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(M, np.hstack([K, D]))]])
        fastest = np.abs(np.linalg.eigvals(rates)).max(initial=0.0)
    except np.linalg.LinAlgError:  # a singular or infinite inertia: no step is known to be too large
        return np.inf
    return 2 / max(fastest, 1e-300)
