"""Checks of the arguments of a run before anything is computed."""

import numpy as np

from undula.balance.classes import classify
from undula.balance.limits import stiffness_limit
from undula.balance.separate import contact_gaps
from undula.core.errors import UndulaError
from undula.core.steps import Steps as Steps, check_times as check_times, check_tolerance as check_tolerance
from undula.integrate.method import Integrator
from undula.joints.rod.pieces import refuse_overwound
from undula.model.arguments import refuse_infinite_state, refuse_other_state
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS

EXPLICIT = 1.45  # the limit of Runge-Kutta's method over that of the simplest explicit method
DEEP = 1e-6  # a contact that starts deeper is refused [m]


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
