"""The fundamental problem of a tree: with every coordinate in its role, find the accelerations and the efforts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.balance.dynamics import solve_dynamics
from undula.forces.loads import total
from undula.forces.tendons import actuation
from undula.joints.kind import KINDS
from undula.laws.law import Law
from undula.lie import se3
from undula.model.links import Links
from undula.model.system import Acceleration, State, System, chart_motion, reported_position
from undula.model.topology import GROUPS
from undula.numerics.pick import pick, spread
from undula.tree.kinematics import body_frames, body_motion


def driven_motion(system: System, t: Any, state: State) -> tuple[State, Acceleration]:
    """The state with driven coordinates and base as their laws say at time t [s], and their accelerations.

    Accelerations of everything that is not driven are zero.
    """
    top = system.topology
    q, v, dv = state.q, state.v, jnp.zeros(system.nv)
    if system.motions:
        which = np.concatenate([drive.which for drive in system.motions])
        # a scalar law serves all the coordinates it was given to
        parts = [[jnp.broadcast_to(x, (len(drive.which),)) for x in drive.law(t)] for drive in system.motions]
        value, rate, gain = (jnp.concatenate([part[k] for part in parts]) for k in range(3))
        driven = np.zeros(system.nv, bool)
        driven[which] = True
        x = spread(value, which, reported_position(top, q))
        zero = jnp.zeros(system.nv)
        q_law, v_law, dv_law = chart_motion(top, x, spread(rate, which, zero), spread(gain, which, zero))
        q = jnp.where(_configurations(system, driven), q_law, q)
        v, dv = jnp.where(driven, v_law, v), jnp.where(driven, dv_law, dv)
    base, eta, deta = _driven_base(system, t, state)
    return State(base, q, eta, v), Acceleration(deta, dv)


def _configurations(system: System, driven: np.ndarray) -> np.ndarray:
    """Which entries of the configuration belong to driven coordinates."""
    out = np.zeros(system.topology.nq, bool)
    for _, iq, iv in system.topology.coordinate_groups:
        out[iq] = driven[iv][:, :1] if iq.shape != iv.shape else driven[iv]
    return out


def _driven_base(system: System, t: Any, state: State) -> tuple[se3.Pose, Array, Array]:
    if system.base_motion is None:
        return state.base, state.base_twist, jnp.zeros(6)
    i = np.array(GROUPS[system.topology.base_group])
    x, dx, ddx = (jnp.zeros(6).at[i].set(part) for part in system.base_motion(t))
    chart = KINDS["free"]
    eta, deta = jax.jvp(chart.from_chart_rate, (x, dx), (dx, ddx))
    g = chart.from_chart(x)
    return system.base_pose @ se3.Pose(g[:3], g[3:]), eta, deta


def given_efforts(system: System, t: Any, state: State) -> Float[Array, "nv"]:
    """Efforts of the forced coordinates, and of tendons and chambers, at time t [N m or N]; zero elsewhere."""
    zero = actuated_rods(system, t, state)[0]
    if not system.efforts:
        return zero
    x = reported_position(system.topology, state.q)
    parts = []
    for drive in system.efforts:
        i, law = np.array(drive.which), drive.law
        effort = law.value(t) if isinstance(law, Law) else law(t, pick(x, i), pick(state.v, i))
        parts.append(jnp.broadcast_to(effort, i.shape))
    which = np.concatenate([drive.which for drive in system.efforts])
    return zero + spread(jnp.concatenate(parts), which, jnp.zeros(system.nv))


def actuated_rods(system: System, t: Any, state: State) -> tuple[Array, Array, Array]:
    """Efforts (nv,) of tendons and chambers; their tensions and pressures; their lengths and volumes."""
    if not system.along:
        return jnp.zeros(system.nv), jnp.zeros(0), jnp.zeros(0)
    efforts, sizes, measures = actuation(system.rods, system.along, state.q, t, system.nv)
    given = np.array([role != "driven" for role in system.topology.roles])
    return jnp.where(given, efforts, 0.0), sizes, measures


def on_bodies(system: System, links: Links, t: Any, state: State, external: Array | None) -> Array | None:
    """Wrenches on the bodies: those given, and those of the system's loads."""
    if not (system.loads or system.followers):
        return external
    R, p = body_frames(system, links, state)
    found = total(system.loads, t, R)
    if system.followers:
        twists = body_motion(system, links, state)
        for f in system.followers:
            k = f.body
            found = found + np.eye(len(system.body_names))[k][:, None] * f.wrench(t, R[k], p[k], twists[k])
    return found if external is None else found + external


def tree_dynamics(
    system: System, t: Any, state: State, external: Float[Array, "bodies 6"] | None, links: Links
) -> tuple[State, Acceleration, Float[Array, "nv"], Float[Array, "6"]]:
    """State, accelerations, efforts and base wrench at time t [s] of a system without constraints."""
    top = system.topology
    state, known = driven_motion(system, t, state)
    unknown = np.array([role != "driven" for role in top.roles], dtype=bool)
    efforts = given_efforts(system, t, state)
    external = on_bodies(system, links, t, state, external)
    return state, *solve_dynamics(system, links, state, known, efforts, unknown, top.base_directions, external)
