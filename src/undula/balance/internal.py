"""Internal states of elements: rates, updates after steps, drift corrections."""

from typing import Any

import jax
import jax.numpy as jnp

from undula.balance.controlled import each_seeing
from undula.balance.views import memory_of, views
from undula.elements.element import state_rate
from undula.model.packing import Group
from undula.model.prepare import PlacedSite, Prepared
from undula.model.state import Acceleration, State
from undula.tree.driven import driven_motion
from undula.tree.inverse import LinkMotion, link_twists
from undula.tree.relative import link_rates
from undula.tree.sites import see
from undula.tree.snapshot import Snapshot, place


def remembering(prepared: Prepared) -> list[tuple[Group, tuple[PlacedSite, ...]]]:
    """The groups whose elements have internal states, with their placed sites."""
    return [(g, s) for g, s in zip(prepared.system.groups, prepared.sites) if g.remembers]


def internal_rates(prepared: Prepared, snap: Snapshot) -> tuple[Any, ...]:
    """Rates of all internal states in a snapshot, structured like `State.z`."""
    out = []
    for group, places in remembering(prepared):
        seen = see(prepared, snap, group, places, memory_of(group, snap.state))
        out.append(each_seeing(prepared, snap, group, seen, state_rate, views(snap, group, seen)))
    return tuple(out)


def _twisted(prepared: Prepared, t: Any, state: State) -> Snapshot:
    """Frames and twists of the links at time t [s]."""
    at, known = driven_motion(prepared.system, t, state)
    snap = place(prepared, t, at, Acceleration(known.base, known.v), screws=False)
    rate = link_rates(prepared.system, snap.rel, at.v)
    V, W = link_twists(prepared.system.topology.slots, snap.rel, at.base_twist, rate)
    return snap._replace(motion=LinkMotion(V, W, None, None))  # type: ignore[arg-type]


def updated(prepared: Prepared, t: Any, state: State, dt: Any) -> State:
    """The state with internal states updated after a step of dt [s] that ended at t (dt = 0: at the start of a run)."""
    return _applied(prepared, t, state, "update", dt)


def settled(prepared: Prepared, t: Any, state: State) -> State:
    """The state with the drift of internal states corrected."""
    return _applied(prepared, t, state, "settle")


def _applied(prepared: Prepared, t: Any, state: State, what: str, *more: Any) -> State:
    if not any(what in group.does for group, _ in remembering(prepared)):
        return state
    snap = _twisted(prepared, t, state)
    z = list(state.z)
    for group, places in remembering(prepared):
        if what in group.does:
            seen = see(prepared, snap, group, places, memory_of(group, state))
            at = views(snap, group, seen)
            z[group.memory] = each_seeing(
                prepared, snap, group, seen, lambda form, at: getattr(form, what)(at, *more), at
            )
    return state.replace(z=tuple(z))


def advanced_states(z: tuple[Any, ...], rates: tuple[Any, ...], dt: Any) -> tuple[Any, ...]:
    """z + dt z'."""
    return jax.tree.map(lambda a, b: a + dt * jnp.asarray(b), z, rates)
