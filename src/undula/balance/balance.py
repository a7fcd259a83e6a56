"""The force balance at an instant: forces, inertia and rows as operators shared by all solvers.

Generalised velocities are ordered as (base twist, coordinates): n = 6 + nv. With M the inertia, `needed` the forces that the
known accelerations require beyond those of force models, `given` the efforts of actuators and A the rows,

    M u' + needed = given + A^T lambda + (unknown efforts of the driven coordinates)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.assemble import Forces, assemble
from undula.core.arrays import Array
from undula.model.prepare import Prepared
from undula.numerics.pick import pick
from undula.tree.composite import composites, coupling, inertia_of_columns, locked_inertia
from undula.tree.frames import link_frames, screws_about_base
from undula.tree.inverse import newton_euler
from undula.tree.relative import coordinate_columns, link_rates
from undula.tree.snapshot import Snapshot, generalised, needed_wrenches


class Balance(NamedTuple):
    """A snapshot with the sum of its force models."""

    prepared: Prepared
    snap: Snapshot
    forces: Forces

    @staticmethod
    def of(
        prepared: Prepared, snap: Snapshot, t_actuators: Any = None, still: bool = False, power: bool = False
    ) -> "Balance":
        """Assembles the forces of a snapshot; arguments as for `assemble`."""
        return Balance(prepared, snap, assemble(prepared, snap, t_actuators, still, power))

    def pushed(self, on_links: Array | None, efforts: Array | None = None) -> "Balance":
        """The same with additional wrenches on the links, in their frames, and additional efforts."""
        own, more = self.forces.on_links, self.forces.efforts
        if on_links is not None:
            own = on_links if own is None else own + on_links
        if efforts is not None:
            more = efforts if more is None else more + efforts
        return self._replace(forces=self.forces._replace(on_links=own, efforts=more))

    def link_wrenches(self) -> Float[Array, "links 6"]:
        """Wrench exerted on each link by its parent, in the link's frame, for the motion of the snapshot."""
        return needed_wrenches(self.prepared, self.snap, self.forces.on_links)

    def needed(self, F: Float[Array, "links 6"] | None = None) -> Float[Array, "n"]:
        """Generalised forces required by the motion of the snapshot, less those of force models other than actuators.

        `F`: the link wrenches, if known.
        """
        F = self.link_wrenches() if F is None else F
        out = generalised(self.prepared, self.snap, F, self.snap.known.v)
        if self.forces.efforts is None:
            return out
        return jnp.concatenate([out[:6], out[6:] - self.forces.efforts])

    def given(self) -> Float[Array, "nv"]:
        """Efforts of actuators; zero for driven coordinates, whose efforts are solved for."""
        return jnp.zeros(self.prepared.system.nv) if self.forces.actuators is None else self.forces.actuators

    def imbalance(self) -> Float[Array, "n"]:
        """Required minus given forces: over the unknown velocities it is zero, or the reactions (3.8)."""
        needed = self.needed()
        return jnp.concatenate([needed[:6], needed[6:] - self.given()])

    def size(self, imbalance: Float[Array, "n"]) -> Float[Array, ""]:
        """Magnitude of the largest effort in the imbalance."""
        parts = [imbalance[6:] + self.given(), self.given()]
        if self.forces.efforts is not None:
            parts.append(self.forces.efforts)
        return jnp.stack([jnp.abs(x).max(initial=0.0) for x in parts]).max()

    def inertia(self, which: np.ndarray) -> Float[Array, "m m"]:
        """Mass matrix over the entries `which` of (base twist, coordinates), at a cost quadratic in their number."""
        return inertia_over(self.prepared, self.snap, which)


def with_frames(prepared: Prepared, snap: Snapshot) -> Snapshot:
    """The snapshot with the frames of the links relative to the base, and the screws, added if missing."""
    if snap.R is None:
        R, p = link_frames(prepared.system.topology, snap.rel, jnp.eye(3), jnp.zeros(3))
        snap = snap._replace(R=R, p=p)
    if snap.S is None:
        assert snap.R is not None and snap.p is not None
        S = screws_about_base(prepared.system.topology, snap.rel, snap.R, snap.p)
        snap = snap._replace(S=S)
    return snap


def inertia_over(prepared: Prepared, snap: Snapshot, which: np.ndarray) -> Float[Array, "m m"]:
    """Mass matrix over the entries `which` of (base twist, coordinates)."""
    system = prepared.system
    top = system.topology
    if system.rods:
        return _with_armature(prepared, which, _by_columns(prepared, snap, which))
    snap = with_frames(prepared, snap)
    assert snap.R is not None and snap.p is not None and snap.S is not None
    composite = composites(top, prepared.inertia, snap.R, snap.p)
    locked, S = locked_inertia(composite), snap.S
    P = coupling(top, composite, S)
    S, P = jnp.concatenate([jnp.eye(6), S]), jnp.concatenate([locked, P])
    above = np.ones((len(S), len(S)), bool)  # the base carries everything
    above[6:, :6] = False
    above[6:, 6:] = top.ancestry
    if not top.mimics:
        M = inertia_of_columns(above[np.ix_(which, which)], pick(S, which), pick(P, which))
        return _with_armature(prepared, which, M)
    M = inertia_of_columns(above, S, P)

    def leading(M):  # columns over the joint rates become columns over the coordinates
        return jnp.concatenate([M[:, :6], coordinate_columns(system, M[:, 6:])], axis=1)

    M = leading(leading(M).T)
    return _with_armature(prepared, which, pick(pick(M, which).T, which))


def base_inertia(prepared: Prepared, snap: Snapshot) -> tuple[Float[Array, "6 6"], Float[Array, "6 nv"]]:
    """Locked inertia M_o+ and coupling oM_r: momentum in the base's frame = M_o+ eta_o + oM_r v (3.31)."""
    system = prepared.system
    if system.rods:
        M = _by_columns(prepared, snap, np.arange(6), np.arange(6 + system.nv))
        return M[:, :6], M[:, 6:]
    snap = with_frames(prepared, snap)
    assert snap.R is not None and snap.p is not None and snap.S is not None
    composite = composites(system.topology, prepared.inertia, snap.R, snap.p)
    P = coupling(system.topology, composite, snap.S)
    return locked_inertia(composite), coordinate_columns(system, P.T)


def _with_armature(prepared: Prepared, which: np.ndarray, M: Array) -> Array:
    own = prepared.system.armature
    if own is None:
        return M
    return M + jnp.diag(pick(jnp.concatenate([jnp.zeros(6), own]), which))


def _by_columns(
    prepared: Prepared, snap: Snapshot, which: np.ndarray, wanted: np.ndarray | None = None
) -> Float[Array, "m k"]:
    """The same from the efforts of unit accelerations, by linearity; `wanted`: columns, if other than `which`."""
    system, rel = prepared.system, snap.rel
    none = jnp.zeros((len(system.topology.link_parents), 6))

    def column(unit):
        gain = link_rates(system, rel, unit[6:])
        F = newton_euler(system.topology.slots, prepared.inertia, rel, jnp.zeros(6), unit[:6], none, gain, None)
        return pick(generalised(prepared, snap, F), which if wanted is None else wanted)

    return jax.vmap(column)(jnp.asarray(np.eye(6 + system.nv)[which]))
