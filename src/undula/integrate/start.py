"""Checks of the arguments of a run before anything is computed."""

import math
from typing import NamedTuple

import jax
import numpy as np

from undula.balance.classes import classify
from undula.balance.separate import contact_gaps
from undula.core.errors import UndulaError
from undula.joints.rod.pieces import refuse_overwound
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS

DEEP = 1e-6  # a contact that starts deeper is refused [m]
TIGHTEST, LOOSEST = 1e-10, 0.1  # tolerances allowed
ROUNDING = 1e-12  # a dt with a multiple this close to t_end, relative to it, is left unchanged


class Steps(NamedTuple):
    """Division of the time of a run: `count` steps of `dt` [s] from t0 [s] on, one sample every `stride` steps."""

    count: int  # type: ignore[assignment]  # hides tuple.count
    dt: float
    stride: int
    t0: float = 0.0

    def divided(self, n: int) -> "Steps":
        """The same with n steps in place of one, and samples at the same instants."""
        return Steps(n * self.count, self.dt / n, n * self.stride, self.t0)


def check_times(t_end: float, dt: float, save_every: int | None, t0: float = 0.0) -> Steps:
    """The steps of a run from t0 to `t_end` exactly [s]; raises `UndulaError` for invalid arguments.

    If dt does not divide t_end, all steps are slightly shorter, none longer: samples stay evenly spaced, and the method's
    memory of the last step fits the next.
    """
    if not np.isfinite(t0):
        raise UndulaError(f"t0 = {t0:g} s is not allowed; it must be finite.")
    if t0 and not (np.isfinite(t_end) and t_end > t0):
        raise UndulaError(f"t_end = {t_end:g} s is not allowed; it must be finite, and later than t0 = {t0:g} s.")
    t_end = t_end - t0
    for name, value in (("t_end", t_end), ("dt", dt)):
        if not (np.isfinite(value) and value > 0):
            raise UndulaError(f"{name} = {value:g} s is not allowed; it must be a positive, finite time.")
    if dt > t_end * (1 + 1e-9):
        raise UndulaError(f"dt = {dt:g} s is not allowed; it must not exceed t_end = {t_end:g} s.")
    if t_end / dt > 1e9:
        raise UndulaError(
            f"dt = {dt:g} s is not allowed; t_end = {t_end:g} s would take {t_end / dt:g} steps (at most 1e9)."
        )
    count = max(1, math.ceil(t_end / dt * (1 - 1e-9)))
    if abs(count * dt - t_end) > ROUNDING * t_end:
        dt = t_end / count
    if save_every is None:
        return Steps(count, dt, max(1, count // 500), t0)
    if save_every != int(save_every) or save_every < 1:
        raise UndulaError(f"save_every = {save_every} is not allowed; it must be a whole number of steps, at least 1.")
    return Steps(count, dt, min(int(save_every), count), t0)


def check_tolerance(tolerance: float | None, dt: float | None) -> None:
    """Refuses a tolerance that no step can meet or that means nothing, and one beside a step."""
    if tolerance is None:
        return
    if dt is not None:
        raise UndulaError(
            f"dt = {dt:g} s and tolerance = {tolerance:g} cannot both be given: the tolerance chooses the step."
        )
    if not TIGHTEST <= tolerance <= LOOSEST:
        raise UndulaError(f"tolerance = {tolerance:g} is not allowed; it must be between {TIGHTEST:g} and {LOOSEST:g}.")


def check_state(system: System, state: State) -> None:
    """Refuses a state of another system, one that is not finite, or whose base moves in a way that its group does not allow."""
    own = system.state()
    shapes = [jax.tree.map(np.shape, (x.q, x.v, x.z)) for x in (own, state)]
    if shapes[0] != shapes[1]:
        raise UndulaError(
            f"the state does not belong to the system '{system.name}': it has {len(state.v)} coordinates and "
            f"{len(jax.tree.leaves(state.z))} internal states, the system has {len(own.v)} and {len(jax.tree.leaves(own.z))}; "
            "take it from system.state(), or carry it over (un.carry_over)."
        )
    named = dict(
        zip(
            ("base position", "base quaternion", "position", "base_twist", "velocity"),
            (state.base.position, state.base.quaternion, state.q, state.base_twist, state.v),
        )
    )
    for name, value in named.items():
        if not np.all(np.isfinite(value)):
            raise UndulaError(f"the initial {name} = {np.asarray(value).tolist()} is not finite.")
    refuse_overwound(system.rods, system.labels.rods, state.q, "the initial state cannot be represented")
    top = system.topology
    twist = np.asarray(state.base_twist)
    allowed = GROUPS[top.base_group] if top.base_role != "fixed" else ()
    others = [k for k in range(6) if k not in allowed]
    if top.base_role != "driven" and np.any(twist[others]):
        what = (
            "a fixed base cannot move" if top.base_role == "fixed" else f"the group {top.base_group} does not allow it"
        )
        raise UndulaError(f"the initial base_twist = {twist.tolist()} is not allowed: {what}.")


def check_led(system: System, state: State, t0: float) -> None:
    """Refuses led coordinates that the constraints do not determine."""
    led = [system.coordinate_names[k] for k in np.flatnonzero(system.topology.led)]
    if not led:
        return
    found = classify(system, state, start=t0).kinematic
    loose = [name for name in led if name not in found]
    if loose:
        raise UndulaError(
            f"the coordinate '{loose[0]}' is led, but the constraints of '{system.name}' do not determine its motion: "
            "drive it, or leave it free."
        )


def check_gaps(system: System, state: State) -> None:
    """Refuses a state in which contacts penetrate."""
    if not system.contacts:
        return
    found = np.asarray(contact_gaps(system, state))
    k = int(np.argmin(found))
    if found[k] < -DEEP:
        raise UndulaError(
            f"the contact '{system.contact_names[k]}' starts {-found[k]:.6g} m deep; gaps must not be negative: start higher, "
            "or use separated(system, state)."
        )
