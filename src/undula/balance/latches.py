"""Constraints that are switched on: where they latch, and which rules a plain loop can follow."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.look import look
from undula.balance.views import memory_of, views
from undula.core.arrays import Array
from undula.core.errors import UndulaError
from undula.elements.switching import Schedule
from undula.elements.view import each
from undula.model.prepare import Prepared
from undula.model.state import State
from undula.model.system import System
from undula.tree.sites import see


def latched(prepared: Prepared, t: Any, state: State, engaged: Float[Array, "rows"]) -> State:
    """The state with the internal states of constraints that are switched on (1 in `engaged`) set to where they latch."""
    groups = [(g, s) for g, s in prepared.grouped("ideal") if "latch" in g.does]
    if not groups:
        return state
    snap = look(prepared, t, state)
    z = list(state.z)
    for group, places in groups:
        at = views(snap, group, see(prepared, snap, group, places, memory_of(group, state)))
        new = each(lambda form, at: form.latch(at), group.form, at)
        on = engaged[np.array(group.rows)[:, 0]] > 0
        old = z[group.memory]
        z[group.memory] = jax.tree.map(
            lambda a, b, on=on: jnp.where(on.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old
        )
    return state.replace(z=tuple(z))


def refuse_conditions(system: System, what: str) -> None:
    """Refuses rows that switch by conditions where only schedules are followed."""
    for x in system.switches:
        if not isinstance(x.rule, Schedule):
            names = system.row_names
            row = f"'{names[x.rows[0]]}'" if names else "a constraint"
            raise UndulaError(
                f"{what} cannot follow the condition that switches {row}; use run, or un.switch between parts of the motion."
            )
