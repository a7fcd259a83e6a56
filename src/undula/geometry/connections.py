"""Connections: the base twist that results from a shape change (document 000, sections 3.4.3 and 3.4.4).

Without external forces and with zero momentum, M_o+ eta_o + oM_r r' = 0 at all times (3.31), so that the net motion is
purely kinematic: eta_o = -A(r) r'. The same holds where the rows of constraints determine the whole motion.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.dynamics import locomotion_inertia
from undula.balance.kinematics import centre_of_mass
from undula.balance.rows import rows_of
from undula.core.arrays import Array
from undula.core.errors import UndulaError, one_of
from undula.lie import se3
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State, advanced
from undula.model.system import System
from undula.model.topology import GROUPS
from undula.numerics.pick import spread
from undula.numerics.row_space import decompose
from undula.numerics.small import cross, matvec, solve_spd
from undula.tree.snapshot import place

FRAMES = ("base", "mass centre")


@checked
def connection(system: System, state: State, at: str = "base", t: Any = 0.0) -> Float[Array, "6 nv"]:
    """A(r) of (3.32): the base twist of a free system at rest is -A(r) r' [m/rad, 1, ...].

    It depends on the shape in `state` alone. Constraints are ignored: see `kinematic_connection`.

    `at`: the frame whose twist it gives. "base": that of the reference body; rows outside its group are zero. "mass centre":
    a frame with the attitude of the reference body and its origin at the mass centre of the system. This origin does not
    move if the base is free in SE3, so that only the rotation has a holonomy.
    """
    one_of(at, FRAMES, "at")
    if system.topology.base_role != "free":
        raise UndulaError(
            f"system '{system.name}' has a {system.topology.base_role} base; a connection needs a free one."
        )
    state = state.at_rest().replace(base=se3.Pose.identity())
    locked, coupled = locomotion_inertia(system, state, t)
    free = np.zeros(6)
    free[list(GROUPS[system.topology.base_group])] = 1.0
    A = solve_spd(locked * np.outer(free, free) + np.diag(1 - free), coupled * free[:, None])
    return A if at == "base" else _at_mass_centre(system, state, A)


def _at_mass_centre(system: System, state: State, A: Float[Array, "6 nv"]) -> Float[Array, "6 nv"]:
    """A connection of the reference body as that of the frame at the mass centre c: V_c = V + Omega x c + c'."""

    def centre(u):
        return centre_of_mass(system, state.replace(q=advanced(system.topology, state.q, u)))

    still = jnp.zeros(system.nv)
    c, moved = centre(still), jax.jacfwd(centre)(still)
    linear = A[:3] + jax.vmap(lambda w: cross(w, c), 1, 1)(A[3:]) - moved
    return jnp.concatenate([linear, A[3:]])


@checked
def kinematic_connection(system: System, state: State, t: Any = 0.0) -> Float[Array, "6 nv"]:
    """A(r) of (3.45): where the rows of the constraints determine the whole motion, the base twist is -A(r) r'.

    Columns of undriven coordinates are zero: their motion follows from the rows as well. Where the rows leave velocities
    undetermined, this is the part J of eta+ = J r' + H eta_r (document 001, eq. 11), with A = -J.
    """
    prepared = prepare(system)
    rows = rows_of(prepared, place(prepared, t, state, Acceleration.zero(system.nv)))
    which = system.topology.unknown
    space = decompose(rows.A[:, which])
    found = jax.vmap(space.solve, 1, 1)(rows.A[:, 6:] * system.topology.driven.astype(float))
    return spread(found, which, jnp.zeros((6 + system.nv, system.nv)))[:6]


@checked
def resting_twist(system: System, state: State, t: Any = 0.0) -> Float[Array, "6"]:
    """Base twist for which the momentum of the whole system vanishes in the base's group, given its shape velocities."""
    return -matvec(connection(system, state, t=t), state.v)
