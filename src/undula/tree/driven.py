"""Motion given by laws: driven coordinates and a driven base."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array
from undula.joints.free import CHART
from undula.lie import se3
from undula.model.state import Acceleration, State, chart_motion, reported_position
from undula.model.system import System
from undula.model.topology import GROUPS
from undula.numerics.pick import spread
from undula.numerics.programs import quickly_compiled


def driven_motion(system: System, t: Any, state: State) -> tuple[State, Acceleration]:
    """The state with driven coordinates and base as given by their laws at time t [s], and their accelerations.

    Accelerations of everything that is not driven are zero.
    """
    top = system.topology
    q, v, dv = state.q, state.v, jnp.zeros(system.nv)
    if system.motions:
        which = np.concatenate([drive.which for drive in system.motions])
        # a scalar law applies to all of its coordinates
        parts = [[jnp.broadcast_to(x, (len(drive.which),)) for x in drive.law(t)] for drive in system.motions]
        value, rate, gain = (jnp.concatenate([part[k] for part in parts]) for k in range(3))
        x = spread(value, which, reported_position(top, q))
        zero = jnp.zeros(system.nv)
        q_law, v_law, dv_law = chart_motion(top, x, spread(rate, which, zero), spread(gain, which, zero))
        q = jnp.where(configurations_of(system), q_law, q)
        v, dv = jnp.where(top.driven, v_law, v), jnp.where(top.driven, dv_law, dv)
    base, eta, deta = _driven_base(system, t, state)
    return state.replace(base=base, q=q, base_twist=eta, v=v), Acceleration(deta, dv)


def driven_state(system: System, t: Any, state: State) -> State:
    """The state with driven coordinates and base as given by their laws, for use outside compiled functions."""
    moves = system.motions or system.base_motion is not None
    return _driven_state(system, t, state) if moves else state


@quickly_compiled
def _driven_state(system: System, t: Any, state: State) -> State:
    return driven_motion(system, t, state)[0]


def configurations_of(system: System) -> np.ndarray:
    """Which entries of the configuration belong to driven coordinates."""
    top = system.topology
    vq, vv = top.vector_places
    out = np.zeros(top.nq, bool)
    out[vq] = top.driven[vv]
    for _, iq, iv in top.curved:
        out[iq] = top.driven[iv][:, :1]
    return out


def _driven_base(system: System, t: Any, state: State) -> tuple[se3.Pose, Array, Array]:
    if system.base_motion is None:
        return state.base, state.base_twist, jnp.zeros(6)
    i = np.array(GROUPS[system.topology.base_group])
    x, dx, ddx = (jnp.zeros(6).at[i].set(part) for part in system.base_motion(t))
    eta, deta = jax.jvp(CHART.velocity, (x, dx), (dx, ddx))
    g = CHART.from_x(x)
    return system.base_pose @ se3.Pose(g[:3], g[3:]), eta, deta
