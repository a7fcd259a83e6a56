"""Linearisation about a state: the state matrix of a constrained or free system, and its eigenvalues."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from undula.balance.internal import internal_rates
from undula.balance.look import hold, moved
from undula.balance.reduced import reduced_accelerations
from undula.balance.rows import row_count
from undula.core.errors import UndulaError, names_of
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import State, bracket, displaced
from undula.model.system import System
from undula.numerics.pick import spread
from undula.numerics.programs import quickly_compiled
from undula.numerics.row_space import TOLERANCE

BASE = ("base.x", "base.y", "base.z", "base.rx", "base.ry", "base.rz")
CLOSED = 1e-6  # relative tolerance on the influence of the other deviations on those that are kept


class Linearised(NamedTuple):
    """x' = matrix x for small deviations x; `names` of the components of x if coordinates were chosen, otherwise empty."""

    matrix: np.ndarray
    eigenvalues: np.ndarray
    names: tuple[str, ...]


@checked
def linearise(system: System, state: State, t: float = 0.0, keep: Sequence[str] | None = None) -> Linearised:
    """Linearises the motion about a state at time t [s], normally an equilibrium or a steady motion.

    Deviations of the configuration are measured in the moving frame of the nominal motion, so that steady motions (a
    rolling bicycle) give a constant matrix. Only deviations that the constraints allow are kept: configurations in the
    kernel of the gaps, velocities in the kernel of the rows. Internal states of elements, e.g. of a controller, come last.

    **Arguments:**

    - `keep`: names of coordinates, or base.x ... base.rz, whose deviations and rates form a closed subsystem (e.g. lean and
      steer of a bicycle, which do not depend on its position). By default everything is kept.

    **Returns:**

    The state matrix and its eigenvalues, sorted by real part; with `keep`, over (deviations, their rates).
    """
    which = system.topology.unknown
    n = len(which)
    keep = None if keep is None else names_of(keep, "keep")
    gaps, A, F, D, Dz = (np.asarray(x) for x in _derivatives(system, state, np.asarray(float(t))))
    T, H, m = _kernel(gaps), _kernel(A), Dz.shape[1]
    # admissible deviations: T of the configuration, with the velocities that follow from it, H of the velocities, all of z
    B = np.zeros((2 * n + m, T.shape[1] + H.shape[1] + m))
    B[:n, : T.shape[1]], B[n : 2 * n, : T.shape[1]] = T, D @ T
    B[n : 2 * n, T.shape[1] : B.shape[1] - m] = H
    B[n : 2 * n, B.shape[1] - m :], B[2 * n :, B.shape[1] - m :] = Dz, np.eye(m)
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
        C = np.vstack([np.eye(2 * n + m)[at], F[at]])
        matrix = C @ F @ B @ np.linalg.pinv(C @ B)
        left = np.abs(matrix @ C @ B - C @ F @ B).max()
        if left > CLOSED * (1 + np.abs(C @ F @ B).max()):
            raise UndulaError(f"{', '.join(keep)} do not form a system of their own: other deviations act on them.")
        names = (*keep, *(f"{name}'" for name in keep))
    found = np.linalg.eigvals(matrix)
    return Linearised(matrix, found[np.lexsort((found.imag, found.real))], names)


@quickly_compiled
def _derivatives(system: System, state: State, t):
    prepared, which = prepare(system), system.topology.unknown
    n = len(which)
    start = hold(prepared, t, state)
    at0 = start.snap.state
    u0 = at0.velocity
    inner0, as_inner = ravel_pytree(at0.z)

    def flow(x):
        moved_by, gain = (spread(part, which, jnp.zeros(6 + system.nv)) for part in (x[:n], x[n : 2 * n]))
        at = displaced(system.topology, at0, moved_by).replace(z=as_inner(inner0 + x[2 * n :]))
        held = hold(prepared, t, at.with_velocity(at.velocity + gain))
        snap = moved(prepared, held)
        acceleration = reduced_accelerations(prepared, held, snap)
        u = held.snap.state.velocity
        # g = g0 exp(x): x' = u - u0 + [x, u0] to first order
        rates = (u - u0 + bracket(system.topology, moved_by, u0))[which]
        inner = ravel_pytree(internal_rates(prepared, snap))[0] if at0.z else jnp.zeros(0)
        return jnp.concatenate([rates, acceleration.whole[which], inner]), u[which]

    F, U = jax.jacfwd(flow)(jnp.zeros(2 * n + inner0.shape[0]))
    A = start.rows.A[:, which]
    gaps = A * jnp.asarray(_is_gap(system), dtype=float)[:, None] if system.ideal else A
    return gaps, A, F, U[:, :n], U[:, 2 * n :]


def _is_gap(system: System) -> np.ndarray:
    """Which rows are rates of gaps."""
    out = np.zeros(row_count(system.ideal), bool)
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
