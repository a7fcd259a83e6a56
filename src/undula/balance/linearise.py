"""Small motions about a state: the state matrix of a constrained or free system, and its eigenvalues."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.reduced import hold, reduced_accelerations, unknown_velocities
from undula.core.errors import UndulaError
from undula.lie import se3
from undula.model.links import links_of
from undula.model.system import State, System, bracket, displaced
from undula.numerics.pick import spread
from undula.numerics.quick import quickly_compiled
from undula.numerics.row_space import TOLERANCE

BASE = ("base.x", "base.y", "base.z", "base.rx", "base.ry", "base.rz")
CLOSED = 1e-6  # what the rest may contribute to the rates of coordinates that are kept alone, relative


class Linearised(NamedTuple):
    """x' = matrix x for small deviations x; `names` says what x is where coordinates were chosen, else it is empty."""

    matrix: np.ndarray
    eigenvalues: np.ndarray
    names: tuple[str, ...]


def linearise(system: System, state: State, t: float = 0.0, keep: Sequence[str] | None = None) -> Linearised:
    """Linearises the motion about a state at time t [s], normally an equilibrium or a steady motion.

    Deviations of the configuration are measured in the moving frame of the nominal motion, so that steady motions (a
    rolling bicycle) give a constant matrix. Only deviations that the constraints allow are kept: configurations in the
    kernel of the gaps, velocities in the kernel of the rows.

    **Arguments:**

    - `keep`: names of coordinates, or base.x ... base.rz, whose deviations and rates form a system of their own (e.g. the lean
      and the steer of a bicycle, which do not depend on where it is). By default everything is kept.

    **Returns:**

    The state matrix and its eigenvalues, sorted by real part; with `keep`, over (deviations, their rates).
    """
    which = unknown_velocities(system)
    n = len(which)
    gaps, A, F, D = (np.asarray(x) for x in _derivatives(system, state, jnp.asarray(float(t))))
    T, H = _kernel(gaps), _kernel(A)
    # deviations that the constraints allow: T of the configuration, with the velocities that follow from it, and H
    B = np.block([[T, np.zeros((n, H.shape[1]))], [D @ T, H]])
    names: tuple[str, ...] = ()
    if keep is None:
        matrix = np.linalg.pinv(B) @ F @ B
    else:
        labels = [*BASE, *system.coordinate_names]
        for name in keep:
            if name not in labels or labels.index(name) not in which:
                free = ", ".join(labels[i] for i in which)
                raise UndulaError(f"keep = {name!r} is not a coordinate that moves; those are {free}.")
        at = [int(np.flatnonzero(which == labels.index(name))[0]) for name in keep]
        C = np.vstack([np.eye(2 * n)[at], F[at]])
        matrix = C @ F @ B @ np.linalg.pinv(C @ B)
        left = np.abs(matrix @ C @ B - C @ F @ B).max()
        if left > CLOSED * (1 + np.abs(C @ F @ B).max()):
            raise UndulaError(f"{', '.join(keep)} do not form a system of their own: other deviations act on them.")
        names = (*keep, *(f"{name}'" for name in keep))
    found = np.linalg.eigvals(matrix)
    return Linearised(matrix, found[np.lexsort((found.imag, found.real))], names)


@quickly_compiled
def _derivatives(system: System, state: State, t):
    links, which = links_of(system), unknown_velocities(system)
    n = len(which)
    start = hold(system, links, t, state)
    u0 = jnp.concatenate([start.state.base_twist, start.state.v])

    def flow(z):
        moved, gain = (spread(x, which, jnp.zeros(6 + system.nv)) for x in (z[:n], z[n:]))
        at = displaced(system.topology, start.state, moved[:6], moved[6:])
        at = State(at.base, at.q, at.base_twist + gain[:6], at.v + gain[6:])
        held = hold(system, links, t, at)
        acceleration = reduced_accelerations(system, links, t, held, None)
        u = jnp.concatenate([held.state.base_twist, held.state.v])
        # g = g0 exp(x): x' = u - u0 + [x, u0] to first order
        turned = jnp.concatenate([se3.bracket(moved[:6], u0[:6]), bracket(system.topology, moved[6:], u0[6:])])
        rates = (u - u0 + turned)[which]
        return jnp.concatenate([rates, jnp.concatenate([acceleration.base, acceleration.v])[which]]), u[which]

    F, U = jax.jacfwd(flow)(jnp.zeros(2 * n))
    A = start.rows.A[:, which]
    gaps = A * jnp.asarray(_is_gap(system), dtype=float)[:, None] if system.ideal else A
    return gaps, A, F, U[:, :n]


def _is_gap(system: System) -> np.ndarray:
    """Which rows are rates of gaps."""
    out = np.zeros(sum(len(places) for group in system.ideal for places in group.rows), bool)
    for group in system.ideal:
        for places in group.rows:
            out[list(places[: group.gaps])] = True
    return out


def _kernel(A: np.ndarray) -> np.ndarray:
    """Orthonormal basis, as columns, of the kernel of A."""
    n = A.shape[1]
    if not A.size:
        return np.eye(n)
    _, s, Vt = np.linalg.svd(A)
    return Vt[int((s > TOLERANCE * max(s[0], 1e-300)).sum()) :].T
