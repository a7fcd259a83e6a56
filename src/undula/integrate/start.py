"""Checks of the arguments of a run before anything is computed."""

import math
from typing import Any, NamedTuple

import numpy as np

from undula.balance.classes import classify
from undula.balance.limits import stiffness_limit
from undula.balance.separate import contact_gaps
from undula.core.errors import UndulaError, shown, whole
from undula.integrate.method import Integrator
from undula.joints.rod.pieces import refuse_overwound
from undula.model.arguments import refuse_infinite_state, refuse_other_state
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS

EXPLICIT = 1.45  # the limit of Runge-Kutta's method over that of the simplest explicit method
DEEP = 1e-6  # a contact that starts deeper is refused [m]
ROUNDING = 1e-12  # a dt with a multiple this close to t_end, relative to it, is left unchanged


class Steps(NamedTuple):
    """Division of the time of a run: `count` steps of `dt` [s] from t0 [s] on, one sample every `stride` steps."""

    count: int  # type: ignore[assignment]  # hides tuple.count
    dt: float
    stride: int
    t0: float = 0.0

    def halved(self) -> "Steps":
        """The same with steps of half the length, and samples at the same instants."""
        return Steps(2 * self.count, self.dt / 2, 2 * self.stride, self.t0)


def check_times(t_end: float, dt: float, save_every: int | None, t0: float = 0.0) -> Steps:
    """The steps of a run from t0 to `t_end` exactly [s]; raises `UndulaError` for invalid arguments.

    If dt does not divide t_end, all steps are slightly shorter, none longer: samples stay evenly spaced, and the method's
    memory of the last step fits the next.
    """
    t_end, dt, t0 = (_seconds(x, name) for x, name in ((t_end, "t_end"), (dt, "dt"), (t0, "t0")))
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
    return Steps(count, dt, min(whole(save_every, "save_every", at_least=1), count), t0)


def _seconds(value: Any, name: str) -> float:
    """A time as a number, which may still be infinite."""
    if isinstance(value, bool | str | list | tuple | type) or not hasattr(value, "__float__") or np.ndim(value):
        raise UndulaError(f"{name} = {shown(value)} is not allowed; it must be a time [s].")
    try:
        return float(value)
    except (TypeError, OverflowError):  # complex numbers, and whole ones that are too large
        raise UndulaError(f"{name} = {shown(value)} is not allowed; it must be a time [s].") from None


def check_state(system: System, state: State) -> None:
    """Refuses a state of another system, one that is not finite, or whose base moves in a way that its group does not allow."""
    refuse_other_state(system, state)
    if len(state.z) < sum(g.remembers for g in system.groups):
        raise UndulaError(f"the state lacks the internal states of '{system.name}'; take it from system.state().")
    refuse_infinite_state(state, "the initial")
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


def check_stiffness(system: System, state: State, method: Integrator, dt: float) -> None:
    """Refuses an explicit method on rods that are too stiff for its step: it may look stable for a few steps."""
    if "stiff" in method.takes or not any(g.elastic for g in system.rods):
        return
    limit = stiffness_limit(system, state)
    if dt > EXPLICIT * limit:
        raise UndulaError(
            f"the rods of '{system.name}' are too stiff for {type(method).__name__} with dt = {dt:g} s, which must be below "
            f"about {limit:.2g} s; or use ImplicitMidpoint, the default for rods."
        )


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
