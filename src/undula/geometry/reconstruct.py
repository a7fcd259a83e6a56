"""Net motion of a system whose whole shape is driven, by kinematics alone: no force is computed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from undula.balance.admissible import COMPATIBLE
from undula.balance.reduced import Held, hold, unknown_velocities
from undula.core.errors import UndulaError, is_traced
from undula.geometry.connection import resting_twist
from undula.integrate.runge_kutta import RungeKutta4
from undula.lie import se3, so3
from undula.model.links import links_of
from undula.model.system import Acceleration, State, System, displaced
from undula.numerics.held import shortest
from undula.numerics.small import matvec
from undula.tree.driven import driven_motion

OPEN = 1e-5  # a gap that the reconstruction does not accept [m or rad]


def reconstruct(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any = 0.0) -> se3.Pose:
    """Poses of the reference body at t0, t0 + dt, ..., for a free base and a shape that is driven in all coordinates.

    With constraints, their rows must give the twist of the base: g' = g eta^ with A eta + B r' = 0, by the Runge-Kutta method
    of order 4. Without, the momentum is zero: g' = g (-A(r) r')^, by Magnus' method of order 4; gravity is left out.

    **Arguments:**

    - `base`: the first pose; `dt` [s], `steps`; `t0` [s].

    **Returns:**

    Poses with a leading axis of steps + 1. Systems whose motion takes forces (slip laws, contacts, loads) are refused, and so
    is a motion for which the rows do not determine the base, or contradict the shape; in a compiled function, the poses are
    NaN from there on.
    """
    top = system.topology
    if any(role != "driven" for role in top.roles):
        names = [n for n, r in zip(system.coordinate_names, top.roles) if r != "driven"]
        raise UndulaError(
            f"a motion can be reconstructed only if the whole shape is driven; {', '.join(names)} is not."
        )
    if top.base_role != "free":
        raise UndulaError(f"system '{system.name}' has a {top.base_role} base; a reconstruction needs a free one.")
    acting = [("slip laws", system.slipping), ("contacts", system.contacts)]
    acting += [] if system.ideal else [("loads", system.loads), ("controllers", system.followers)]
    for what, present in acting:
        if present:
            raise UndulaError(
                f"the motion of '{system.name}' cannot be reconstructed: its {what} take forces; use run."
            )
    return _by_rows(system, base, dt, steps, t0) if system.ideal else _at_rest(system, base, dt, steps, t0)


def _at_rest(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any) -> se3.Pose:
    """The motion without momentum."""
    start = system.state()

    def twist(t):
        state, _ = driven_motion(system, t, start)
        return resting_twist(system, state)

    def step(g, k):
        # the twist depends on time alone, so that two Gauss nodes and one bracket give order 4;
        # g' = g a^ makes the bracket's sign that of a right-multiplied series
        t, c = t0 + k * dt, np.sqrt(3) / 6
        a, b = twist(t + (0.5 - c) * dt), twist(t + (0.5 + c) * dt)
        moved = g @ se3.exp(dt / 2 * (a + b) + np.sqrt(3) / 12 * dt**2 * se3.bracket(a, b))
        g = se3.Pose(moved.position, so3.normalise(moved.quaternion))
        return g, g

    _, poses = jax.lax.scan(step, base, jnp.arange(steps))
    return jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), base, poses)


class _Check(NamedTuple):
    """Whether the rows give the motion at an instant: their rank, what is left of them [m/s or rad/s], the largest gap."""

    rank: Array
    left: Array
    gap: Array


def _by_rows(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any) -> se3.Pose:
    """The motion that the rows of the constraints give."""
    top, which, links = system.topology, unknown_velocities(system), links_of(system)
    n, rows = len(which), sum(len(places) for group in system.ideal for places in group.rows)
    if rows < n:
        raise UndulaError(
            f"the motion of '{system.name}' cannot be reconstructed: {rows} rows do not determine the {n} velocities of its "
            "base, so that it takes forces; use run."
        )
    still = Acceleration(jnp.zeros(6), jnp.zeros(system.nv))

    def checked(held: Held) -> tuple[State, _Check]:
        """The state, with velocities that are NaN if the rows do not give them."""
        x = held.state
        u = jnp.concatenate([x.base_twist, x.v])
        left = jnp.abs(matvec(held.rows.A, u) + held.rows.driven).max() / (1 + jnp.abs(u).max())
        check = _Check(held.space.rank, left * (0.0 if system.least_squares else 1.0), jnp.abs(held.rows.gap).max())
        good = (check.rank == n) & (check.left < COMPATIBLE) & (check.gap < OPEN)
        return State(x.base, x.q, jnp.where(good, x.base_twist, jnp.nan), x.v), check

    def flow(t, state):
        return checked(hold(system, links, t, state))[0], still

    def step(state, k):
        t = t0 + k * dt
        held = hold(system, links, t, state)
        state, check = checked(held)
        if any(group.gaps for group in system.ideal):  # one Newton step, so that gaps do not drift
            closing = jnp.zeros(6).at[which].set(-shortest(held.still, held.A, held.rows.gap))
            state = displaced(top, state, closing, jnp.zeros(system.nv))
        new = RungeKutta4().step(top, flow, t, state, dt)
        return State(new.base, new.q, state.base_twist, state.v), (state.base, check)

    start = system.state()
    first = State(base, start.q, start.base_twist, start.v)
    last, (poses, checks) = jax.lax.scan(step, first, jnp.arange(steps))
    poses = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), poses, last.base)
    if not is_traced(poses.position):
        _refuse_undetermined(system, poses, checks, n, np.asarray(t0 + dt * np.arange(steps + 1)))
    return poses


def _refuse_undetermined(system: System, poses: se3.Pose, checks: _Check, n: int, t: np.ndarray) -> None:
    """Says where, and why, the rows stopped giving the motion."""
    finite = np.isfinite(np.asarray(poses.position)).all(1)
    if finite.all():
        return
    k = max(int(np.argmin(finite)) - 1, 0)  # the step that was bad
    rank, left, gap = (np.asarray(x)[k] for x in checks)
    if gap >= OPEN:
        why = f"a gap of {gap:.3g} (m or rad) is open; start from a pose that assemble gives"
    elif left >= COMPATIBLE:
        why = f"the driven shape violates its constraints by {left:.3g} (m/s or rad/s)"
    else:
        lost = f"the rank of its rows is {rank}" if rank < n else "the rank of its rows drops"
        why = f"{lost}, which does not determine the {n} velocities of its base; use run"
    raise UndulaError(f"the motion of '{system.name}' cannot be reconstructed beyond t = {t[k]:.6g} s: {why}.")
