"""The plant of a model-based controller: the library's own dynamics, evaluated from within a force model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError
from undula.elements.element import changed
from undula.elements.plant import Plant
from undula.elements.view import MEMBERS, View, each, site_rate
from undula.model.packing import Group, member
from undula.model.prepare import Prepared, prepare
from undula.model.state import State, chart_motion, reported_position
from undula.numerics.pick import pick, spread
from undula.tree.driven import driven_motion
from undula.tree.sites import Seen, carry_rows
from undula.tree.snapshot import Snapshot, place


class Controlled(Plant):
    """What one element of a group sees of the system that it acts on."""

    prepared: Prepared
    snap: Any
    t: Any
    group: Group
    seen: tuple[Seen, ...]
    which: tuple[int, ...] = eqx.field(static=True)
    number: int = eqx.field(static=True)

    def rates(self, v):
        top = self.prepared.system.topology
        if top.adds:
            return v
        rates = spread(v, np.array(self.which, dtype=int), self.snap.state.v)
        for chart, iq, iv in top.curved:
            new = jax.vmap(lambda q, u, rate=chart.rate: rate(q) @ u)(self.snap.state.q[iq], rates[iv])
            rates = rates.at[iv].set(new)
        return pick(rates, np.array(self.which, dtype=int))

    def efforts(self, acceleration, model=None):
        from undula.balance.solution import accelerated  # sums forces, and so may call this

        which = np.array(self.which, dtype=int)
        _, known = driven_motion(self.prepared.system, self.t, self.snap.state)
        prepared, state = self._of(model)
        gain = spread(self._velocity_rates(acceleration), which, known.v)
        return pick(accelerated(prepared, self.t, state, changed(known, v=gain)), which)

    def weight(self, model=None):
        from undula.balance.dynamics import weights  # likewise

        prepared, state = self._of(model)
        return pick(weights(prepared, self.t, state)[6:], np.array(self.which, dtype=int))

    def jacobian(self, site=0):
        prepared, snap = self.prepared, self.snap
        if snap.S is None or (prepared.system.rods and not snap.bends):
            full = place(prepared, snap.t, snap.state, snap.known, frames=False)
            snap = snap._replace(S=full.S, bends=full.bends)
        units = jnp.broadcast_to(jnp.eye(6), (self.group.size, 6, 6))
        J = carry_rows(prepared, snap, self.group.sites[site], self.seen[site], units)[self.number]
        return pick(J.T, 6 + np.array(self.which, dtype=int)).T

    def _velocity_rates(self, ddx: Float[Array, "c"]) -> Float[Array, "c"]:
        """Derivatives of the velocities for second derivatives of the reported coordinates."""
        top, state = self.prepared.system.topology, self.snap.state
        if top.adds:
            return ddx
        which = np.array(self.which, dtype=int)
        for _, _, iv in top.curved:
            own = np.isin(iv, which)
            if (own.any(axis=1) & ~own.all(axis=1)).any():
                raise ModelError(
                    "a controller tracks a spherical or free joint in some coordinates only; name all of them."
                )
        x = reported_position(top, state.q)
        dx = self.rates(pick(state.v, which))
        zero = jnp.zeros(top.nv)
        _, _, dv = chart_motion(top, x, spread(dx, which, zero), spread(ddx, which, zero))
        return pick(dv, which)

    def _of(self, model: Any) -> tuple[Prepared, State]:
        """The system, or another with its roles, without model-based controllers and with the element's coordinates driven."""
        own, state = self.prepared.system, self.snap.state
        prepared = self.prepared
        if model is not None:
            prepared = prepare(model)
            z = tuple(g.begin for g in model.groups if g.remembers)
            state = state.replace(z=z)
            if model.topology.nq != own.topology.nq:
                raise ModelError(
                    f"the model of a controller has {model.topology.nq} numbers in its configuration; the system that it "
                    f"controls has {own.topology.nq}."
                )
        system = prepared.system
        roles = tuple("driven" if k in self.which else role for k, role in enumerate(own.topology.roles))
        kept = [k for k, g in enumerate(system.groups) if not (g.kind == "force" and g.form.wants_plant)]
        system = changed(
            system,
            topology=replace(system.topology, roles=roles, _hash=[]),
            groups=tuple(system.groups[k] for k in kept),
        )
        return changed(prepared, system=system, sites=tuple(prepared.sites[k] for k in kept)), state


def each_seeing(
    prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...], function: Callable[..., Any], at: View
) -> Any:
    """`function` (form, view) for every member of a group, with their plants if they want them."""
    if not group.form.wants_plant:
        return each(function, group.form, at)
    found = [function(member(group.form, k), seeing(prepared, snap, group, seen, at, k)) for k in range(group.size)]
    return jax.tree.map(lambda *x: jnp.stack(x), *found)


def seeing(prepared: Prepared, snap: Snapshot, group: Group, seen: tuple[Seen, ...], at: View, k: int) -> View:
    """The view of one member of a group, from stacked views, with its plant."""
    which = group.coordinates[k]
    plant = Controlled(len(which), prepared, snap, at.t, group, seen, which, k)
    own = {
        name: getattr(at, name) if axis is None else jax.tree.map(lambda x: x[k], getattr(at, name))
        for name, axis in zip(View._fields, MEMBERS)
    }
    return View(**own)._replace(plant=plant)


def displaced_view(at: View, dx: Float[Array, "c"], dv: Float[Array, "c"]) -> View:
    """A view with its coordinates and velocities displaced, and its sites with them, to first order; the plant stays."""
    assert at.plant is not None
    sites = []
    for k, s in enumerate(at.sites):
        J = at.plant.jacobian(k)
        shift, more = J @ dx, J @ dv
        moved = site_rate(s._replace(V=shift[:3], W=shift[3:]), None)
        sites.append(s._replace(R=s.R + moved.R, p=s.p + moved.p, V=s.V + more[:3], W=s.W + more[3:]))
    return at._replace(x=at.x + dx, v=at.v + dv, sites=tuple(sites))
