"""Gaps of a state, and a state moved so far that nothing penetrates."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.balance.dynamics import inertia_over_base
from undula.balance.reduced import unknown_velocities
from undula.balance.rows import tree_of
from undula.contact.spheres import gaps, over_unknowns, touch
from undula.core.errors import UndulaError
from undula.model.links import links_of
from undula.model.system import State, System, displaced
from undula.numerics.quick import quickly_compiled

FARTHEST = 0.1  # that a coordinate is moved at a time [m, rad]


@quickly_compiled
def contact_gaps(system: System, state: State) -> Any:
    """Gap [m] of each contact, in the order of `contact_names`; negative: it penetrates."""
    tree = tree_of(system, links_of(system), state)
    return jnp.concatenate([gaps(c, tree)[0] for c in system.contacts])


@quickly_compiled
def _look(system: System, state: State) -> Any:
    """Gaps, normal rows over the unknown velocities, and inertia."""
    links, which = links_of(system), unknown_velocities(system)
    tree = tree_of(system, links, state)
    seen = [touch(c, system, state, tree, jnp.zeros(6 + system.nv)) for c in system.contacts]
    parts = [over_unknowns(c, system, tree, x.rows[:, :1], None) for c, x in zip(system.contacts, seen)]
    J = jnp.concatenate(parts, axis=1).T[:, which]
    M = inertia_over_base(system, links, tree.rel, None, tuple(range(6)), which)
    return jnp.concatenate([x.gap for x in seen]), J, M


@quickly_compiled
def _moved(system: System, state: State, x: Any) -> State:
    u = jnp.zeros(6 + system.nv).at[unknown_velocities(system)].set(x)
    return displaced(system.topology, state, u[:6], u[6:])


def separated(system: System, state: State, most: int = 50) -> State:
    """The state moved as little as needed, in the metric of the inertia, until no contact penetrates; velocities stay.

    Raises `UndulaError` with what remains if that cannot be done.
    """
    from scipy.optimize import nnls

    for _ in range(most):
        gap, J, M = (np.asarray(x) for x in _look(system, state))
        if gap.min(initial=0.0) >= -1e-12:
            return state
        deep = gap < 1e-9
        # least x^T M x with J x >= -gap: the multipliers are a problem of least squares that are not negative
        U = np.linalg.cholesky(M).T
        Z = np.linalg.solve(U.T, J[deep].T)
        A = np.vstack([Z, -gap[deep]])
        y = nnls(A, np.append(np.zeros(len(Z)), 1.0))[0]
        left = A @ y - np.append(np.zeros(len(Z)), 1.0)
        if abs(left[-1]) < 1e-14:
            break
        move = np.linalg.solve(U, -left[:-1] / left[-1])
        move *= min(1.0, FARTHEST / np.abs(move).max())  # beyond, the gaps are not what they are taken for
        state = _moved(system, state, jnp.asarray(move))
    raise UndulaError(f"'{system.name}' cannot be separated: a contact stays {-gap.min():.3g} m deep.")
