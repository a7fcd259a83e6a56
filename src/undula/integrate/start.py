"""Checks of the arguments of a run before anything is computed."""

import jax
import numpy as np

from undula.balance.classes import classify
from undula.balance.separate import contact_gaps
from undula.core.errors import UndulaError
from undula.core.steps import Steps as Steps, check_times as check_times, check_tolerance as check_tolerance
from undula.joints.rod.pieces import refuse_overwound
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS

DEEP = 1e-6  # a contact that starts deeper is refused [m]


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
