"""Snapshots: poses and motion of the links at an instant, computed once and used everywhere."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.joints.rod.group import RodGroup
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, reported_position
from undula.numerics.small import matmul, matvec, tmatvec
from undula.tree.frames import link_frames, screws_about_base
from undula.tree.inverse import LinkMotion, link_motion, proper, wrenches_inward
from undula.tree.relative import Relative, bias_of, link_efforts, link_rates, relative_of


class Snapshot(NamedTuple):
    """One instant of a motion. Fields that were not requested are None.

    - `t`, `state`; `known`: given accelerations, zero elsewhere; `x`: reported coordinates (nv,).
    - `rel`: motion across the joints; `R`, `p`: poses of the links seen from the base; `Rw`, `pw`: in the world.
    - `S`: (rates, 6) screws of the joint rates about the base's origin, in its axes; `bends`: those of the rods' coordinates.
    - `motion`: twists (V, W) of the links in their own frames and their derivatives at `known`, less the field.
    - `field`: uniform acceleration of everything that has weight, in the world, or None.
    """

    t: Any
    state: State
    known: Acceleration
    x: Float[Array, "nv"]
    rel: Relative
    R: Array | None = None
    p: Array | None = None
    Rw: Array | None = None
    pw: Array | None = None
    S: Array | None = None
    bends: tuple[Array, ...] = ()
    motion: LinkMotion | None = None
    field: Array | None = None


def place(
    prepared: Prepared, t: Any, state: State, known: Acceleration, frames: bool = True, screws: bool = True
) -> Snapshot:
    """The configuration of an instant: joints, and on request the frames of the links and the screws of the coordinates."""
    system = prepared.system
    top = system.topology
    snap = Snapshot(t, state, known, reported_position(top, state.q), relative_of(system, prepared.links, state.q))
    if not (frames or screws):
        return snap
    R, p = link_frames(top, snap.rel, jnp.eye(3), jnp.zeros(3))
    snap = snap._replace(R=R, p=p)
    if frames:
        R0, p0 = state.base.rotation, state.base.position
        Rw = jax.vmap(lambda x: matmul(R0, x))(R)
        snap = snap._replace(Rw=Rw, pw=p0 + jax.vmap(lambda x: matvec(R0, x))(p))
    if screws:
        bends = tuple(_bends(g, bent, R, p) for g, bent in zip(system.rods, snap.rel.bent))
        snap = snap._replace(S=screws_about_base(top, snap.rel, R, p), bends=bends)
    return snap


def _bends(g: RodGroup, bent: Any, link_R: Array, link_p: Array) -> Float[Array, "rods nodes modes 6"]:
    """Screws, in the base's frame, of unit rates of the rods' coordinates across each piece."""
    links = np.array(g.links)
    modes = g.shapes.shape[-1]
    units = jnp.broadcast_to(jnp.eye(modes)[:, None], (modes, len(g.links), modes))
    S = jax.vmap(lambda x: g.twists(bent, x))(units)  # (modes, rods, nodes, 6)
    R, p = link_R[links], link_p[links]
    W = jnp.einsum("rnij,mrnj->rnmi", R, S[..., 3:])
    V = jnp.einsum("rnij,mrnj->rnmi", R, S[..., :3]) + jnp.cross(p[:, :, None], W)
    return jnp.concatenate([V, W], axis=-1)


def move(prepared: Prepared, snap: Snapshot, field: Float[Array, "3"] | None) -> Snapshot:
    """The snapshot with the twists of the links, and their derivatives at the known accelerations, less the field."""
    system, state, known = prepared.system, snap.state, snap.known
    rate, gain = link_rates(system, snap.rel, state.v), link_rates(system, snap.rel, known.v)
    bias = bias_of(system, prepared.links, snap.rel, state.q, state.v)
    deta0 = proper(state.base.rotation, field, known.base)
    gain = gain if bias is None else gain + bias
    motion = link_motion(system.topology.slots, snap.rel, state.base_twist, deta0, rate, gain)
    return snap._replace(motion=motion, field=field)


def stand(prepared: Prepared, snap: Snapshot, field: Float[Array, "3"] | None) -> Snapshot:
    """The same for a system at rest: all accelerations are minus the field. Requires frames in the world."""
    assert snap.Rw is not None
    zero = jnp.zeros((snap.Rw.shape[0], 3))
    up = zero if field is None else -jax.vmap(lambda R: tmatvec(R, field))(snap.Rw)
    return snap._replace(motion=LinkMotion(zero, zero, up, zero), field=field)


def needed_wrenches(
    prepared: Prepared, snap: Snapshot, on_links: Float[Array, "links 6"] | None
) -> Float[Array, "links 6"]:
    """Wrench that its parent exerts on each link, in the link's frame, for the motion of the snapshot."""
    assert snap.motion is not None
    return wrenches_inward(prepared.system.topology.slots, prepared.inertia, snap.rel, snap.motion, on_links)


def generalised(prepared: Prepared, snap: Snapshot, F: Float[Array, "links 6"], dv: Any = None) -> Float[Array, "n"]:
    """Generalised forces (6 + nv,) of wrenches between the links; given accelerations dv, with those of armatures."""
    tau = link_efforts(prepared.system, snap.rel, F[1:])
    if dv is not None and prepared.system.armature is not None:
        tau = tau + prepared.system.armature * dv
    return jnp.concatenate([F[0], tau])
