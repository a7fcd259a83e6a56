"""Net motion of a system whose whole shape is driven, from kinematics alone: no forces are computed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.admissible import COMPATIBLE
from undula.balance.look import Held, hold
from undula.balance.rows import has_gaps, row_count
from undula.core.arrays import Array
from undula.core.errors import UndulaError, instance, is_traced, real, whole
from undula.geometry.connections import resting_twist
from undula.integrate.runge_kutta import runge_kutta_increment
from undula.lie import se3, so3
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import State, displaced
from undula.model.system import System
from undula.numerics.held import shortest
from undula.numerics.small import matvec
from undula.tree.driven import driven_motion

OPEN = 1e-5  # larger gaps are refused [m or rad]


@checked
def reconstruct(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any = 0.0) -> se3.Pose:
    """Poses of the reference body at t0, t0 + dt, ..., for a free base and a shape driven in all coordinates.

    With constraints, their rows must determine the twist of the base: g' = g eta^ with A eta + B r' = 0, by the Runge-Kutta
    method of order 4. Without, the momentum is zero: g' = g (-A(r) r')^, by the Magnus method of order 4; gravity is ignored.

    **Arguments:**

    - `base`: the initial pose; `dt` [s], `steps`; `t0` [s].

    **Returns:**

    Poses with a leading axis of steps + 1. Systems whose motion depends on forces (slip laws, contacts, loads) are refused, and
    so are motions for which the rows do not determine the base or contradict the shape; in a compiled function, the poses
    are NaN from there on.
    """
    top = system.topology
    steps = whole(steps, "steps")
    real(dt, "dt", above=0.0, unit="s")
    instance(base, se3.Pose, "base", "a pose, e.g. un.Pose.identity()")
    if not top.driven.all():
        names = [n for n, driven in zip(system.coordinate_names, top.driven) if not driven]
        raise UndulaError(
            f"a motion can be reconstructed only if the whole shape is driven; {', '.join(names)} is not."
        )
    if top.base_role != "free":
        raise UndulaError(f"system '{system.name}' has a {top.base_role} base; a reconstruction needs a free one.")
    acting: list[tuple[str, Sequence[Any]]] = [("slip laws", system.slipping), ("contacts", system.contacts)]
    if not system.ideal:
        at_sites = [
            family for (family, _), g in zip(system.labels.elements, system.groups) if "wrench" in g.does and g.sites
        ]
        acting += [(", ".join(dict.fromkeys(x.replace("_", " ") + "s" for x in at_sites)), at_sites)]
    for what, present in acting:
        if present:
            raise UndulaError(
                f"the motion of '{system.name}' cannot be reconstructed: its {what} take forces; use run."
            )
    return _by_rows(system, base, dt, steps, t0) if system.ideal else _at_rest(system, base, dt, steps, t0)


def _at_rest(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any) -> se3.Pose:
    """The motion with zero momentum."""
    start = system.state()

    def twist(t):
        state, _ = driven_motion(system, t, start)
        return resting_twist(system, state)

    def step(g, k):
        # the twist depends on time alone, so two Gauss nodes and one bracket give order 4;
        # the sign of the bracket is that for g' = g a^ (multiplication from the right)
        t, c = t0 + k * dt, np.sqrt(3) / 6
        a, b = twist(t + (0.5 - c) * dt), twist(t + (0.5 + c) * dt)
        moved = g @ se3.exp(dt / 2 * (a + b) + np.sqrt(3) / 12 * dt**2 * se3.bracket(a, b))
        g = se3.Pose(moved.position, so3.normalise(moved.quaternion))
        return g, g

    _, poses = jax.lax.scan(step, base, jnp.arange(steps))
    return jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), base, poses)


class _Check(NamedTuple):
    """Whether the rows determine the motion at an instant: their rank, their residual [m/s or rad/s], the largest gap."""

    rank: Array
    left: Array
    gap: Array


def _by_rows(system: System, base: se3.Pose, dt: Any, steps: int, t0: Any) -> se3.Pose:
    """The motion determined by the rows of the constraints."""
    top, which, prepared = system.topology, system.topology.unknown, prepare(system)
    n, rows = len(which), row_count(system.ideal)
    if rows < n:
        raise UndulaError(
            f"the motion of '{system.name}' cannot be reconstructed: {rows} rows do not determine the {n} velocities of its "
            "base, so that it takes forces; use run."
        )

    def checked(held: Held) -> tuple[State, _Check]:
        """The state, with velocities that are NaN if the rows do not determine them."""
        x = held.snap.state
        u = x.velocity
        left = jnp.abs(matvec(held.rows.A, u) + held.rows.driven).max() / (1 + jnp.abs(u).max())
        check = _Check(held.space.rank, left * (0.0 if system.least_squares else 1.0), jnp.abs(held.rows.gap).max())
        good = (check.rank == n) & (check.left < COMPATIBLE) & (check.gap < OPEN)
        return x.replace(base_twist=jnp.where(good, x.base_twist, jnp.nan)), check

    def twist(t, state):
        return checked(hold(prepared, t, state))[0].velocity

    def step(state, k):
        t = t0 + k * dt
        held = hold(prepared, t, state)
        state, check = checked(held)
        if has_gaps(system.ideal):  # one Newton step, so that gaps do not drift
            closing = jnp.zeros(6 + system.nv).at[which].set(-shortest(held.still, held.A, held.rows.gap))
            state = displaced(top, state, closing)
        new = displaced(top, state, runge_kutta_increment(top, twist, t, state, dt))
        return state.replace(base=new.base, q=new.q), (state.base, check)

    start = system.state()
    first = start.replace(base=base)
    last, (poses, checks) = jax.lax.scan(step, first, jnp.arange(steps))
    poses = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), poses, last.base)
    if not is_traced(poses.position):
        _refuse_undetermined(system, poses, checks, n, np.asarray(t0 + dt * np.arange(steps + 1)))
    return poses


def _refuse_undetermined(system: System, poses: se3.Pose, checks: _Check, n: int, t: np.ndarray) -> None:
    """Raises an error that says when and why the rows stopped determining the motion."""
    finite = np.isfinite(np.asarray(poses.position)).all(1)
    if finite.all():
        return
    k = max(int(np.argmin(finite)) - 1, 0)  # the step that failed
    rank, left, gap = (np.asarray(x)[k] for x in checks)
    if gap >= OPEN:
        why = f"a gap of {gap:.3g} (m or rad) is open; start from a pose that assemble gives"
    elif left >= COMPATIBLE:
        why = f"the driven shape violates its constraints by {left:.3g} (m/s or rad/s)"
    else:
        lost = f"the rank of its rows is {rank}" if rank < n else "the rank of its rows drops"
        why = f"{lost}, which does not determine the {n} velocities of its base; use run"
    raise UndulaError(f"the motion of '{system.name}' cannot be reconstructed beyond t = {t[k]:.6g} s: {why}.")
