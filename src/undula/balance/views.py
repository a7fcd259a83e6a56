"""Views of the elements of a group in a snapshot, stacked over its members."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array
from undula.elements.view import View, Whole
from undula.model.packing import Group
from undula.model.state import State
from undula.numerics.pick import pick, sum_into
from undula.tree.sites import Seen
from undula.tree.snapshot import Snapshot


def memory_of(group: Group, state: State) -> Any:
    """The internal states of the elements of a group, stacked."""
    return state.z[group.memory] if group.remembers else ()


def coordinates_of(group: Group) -> np.ndarray:
    """(members, c): indices of the coordinates of the elements."""
    return np.array(group.coordinates, dtype=int).reshape(group.size, -1)


def views(snap: Snapshot, group: Group, seen: tuple[Seen, ...], t: Any = None, still: bool = False) -> View:
    """Stacked views of the elements of a group, for `each`; `t`: another time for laws [s]; `still`: without velocities."""
    where = coordinates_of(group)
    x, v = pick(snap.x, where), pick(snap.state.v, where)
    time = jnp.asarray(snap.t if t is None else t, dtype=float)
    whole = _whole(snap, still) if group.form.wants_whole else None
    sites = tuple(s.view for s in seen)
    return View(time, sites, x, v * 0 if still else v, memory_of(group, snap.state), whole)


def _whole(snap: Snapshot, still: bool) -> Whole:
    """The state of the whole system, the same for every member."""
    state = snap.state.at_rest() if still else snap.state
    return Whole(state.base.rotation, state.base.position, state.base_twist, snap.x, state.v)


def on_coordinates(group: Group, values: Array, size: int) -> Array:
    """Values (members, c) on the coordinates of the elements, summed on each coordinate (size,)."""
    return sum_into(values.reshape(-1), coordinates_of(group).reshape(-1), size)
