"""Gaps of a state, and removal of penetration."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.balance.balance import inertia_over
from undula.contact.carried import gaps, over_unknowns, touch
from undula.core.errors import UndulaError
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State, displaced
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.tree.snapshot import place

FARTHEST = 0.1  # largest change of a coordinate per iteration [m, rad]


def _placed(system: System, state: State) -> Any:
    prepared = prepare(system)
    return prepared, place(prepared, 0.0, state, Acceleration.zero(system.nv))


@checked
@quickly_compiled
def contact_gaps(system: System, state: State) -> Any:
    """Gap [m] of each contact, in the order of `contact_names`; negative: penetration."""
    return gaps(*_placed(system, state))


@quickly_compiled
def _look(system: System, state: State) -> Any:
    """Gaps, normal rows over the unknown velocities, and inertia."""
    prepared, snap = _placed(system, state)
    which, still = system.topology.unknown, jnp.zeros(6 + system.nv)
    seen = [touch(prepared, snap, g, places, still) for g, places in prepared.grouped("unilateral")]
    parts = [over_unknowns(prepared, snap, g, sites, x.rows[:, :1], None) for g, _, sites, x in seen]
    J = jnp.concatenate(parts, axis=1).T[:, which]
    return jnp.concatenate([x.gap for *_, x in seen]), J, inertia_over(prepared, snap, which)


@quickly_compiled
def _moved(system: System, state: State, x: Any) -> State:
    return displaced(system.topology, state, jnp.zeros(6 + system.nv).at[system.topology.unknown].set(x))


@checked
def separated(system: System, state: State, max_iterations: int = 50) -> State:
    """The nearest state, in the metric of the inertia, in which no contact penetrates; velocities are kept.

    Raises `UndulaError` with the remaining penetration if there is none.
    """
    from scipy.optimize import nnls

    for _ in range(max_iterations):
        gap, J, M = (np.asarray(x) for x in _look(system, state))
        if gap.min(initial=0.0) >= -1e-12:
            return state
        deep = gap < 1e-9
        # least x^T M x with J x >= -gap: the multipliers follow from non-negative least squares
        U = np.linalg.cholesky(M).T
        Z = np.linalg.solve(U.T, J[deep].T)
        A = np.vstack([Z, -gap[deep]])
        y = nnls(A, np.append(np.zeros(len(Z)), 1.0))[0]
        left = A @ y - np.append(np.zeros(len(Z)), 1.0)
        if abs(left[-1]) < 1e-14:
            break
        move = np.linalg.solve(U, -left[:-1] / left[-1])
        move *= min(1.0, FARTHEST / np.abs(move).max())  # beyond, the linearised gaps are inaccurate
        state = _moved(system, state, move)
    raise UndulaError(f"'{system.name}' cannot be separated: a contact stays {-gap.min():.3g} m deep.")
