"""Kinematics of bodies and sites: poses, twists, accelerations, Jacobians; momentum and energy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.energy import first_moment, kinetic_energy_of, potential_energy_of
from undula.core.arrays import Array
from undula.core.errors import UndulaError, as_vector, one_of
from undula.elements.site import WORLD, Found, Site, as_site
from undula.elements.view import SiteView
from undula.lie import se3, so3
from undula.model.arguments import checked
from undula.model.prepare import Prepared, prepare
from undula.model.sections import section_name
from undula.model.sites import MovingSection, PackedSite
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.numerics.small import cross, matmul, matvec, tmatvec
from undula.tree import driven
from undula.tree.inverse import LinkMotion
from undula.tree.relative import entries
from undula.tree.sites import see_site
from undula.tree.snapshot import Snapshot, move, place


def snapshot(
    system: System, state: State, acceleration: Acceleration | None = None, t: Any = 0.0
) -> tuple[Prepared, Snapshot]:
    """A prepared system and the snapshot of a given motion, without uniform fields."""
    prepared = prepare(system)
    known = Acceleration.zero(system.nv) if acceleration is None else acceleration
    return prepared, move(prepared, place(prepared, t, state, known, screws=False), None)


def body_frames(prepared: Prepared, snap: Snapshot) -> tuple[Float[Array, "bodies 3 3"], Float[Array, "bodies 3"]]:
    """Rotation matrices and origins of the bodies in the world."""
    top, links = prepared.system.topology, prepared.links
    R, p = snap.Rw, snap.pw
    assert R is not None and p is not None
    if not top.fixed_levels:
        return R, p
    R, p = entries(top, R, top.link_of_body), entries(top, p, top.link_of_body)
    return jax.vmap(matmul)(R, links.body_rotation), p + jax.vmap(matvec)(R, links.body_position)


def body_motion(prepared: Prepared, snap: Snapshot) -> LinkMotion:
    """Body twists of the bodies and their derivatives (minus the snapshot's field)."""
    top, links, motion = prepared.system.topology, prepared.links, snap.motion
    assert motion is not None
    if not top.fixed_levels:
        return motion

    def pull(R, p, V, W):
        return tmatvec(R, V + cross(W, p)), tmatvec(R, W)

    at = links.body_rotation, links.body_position
    V, W, dV, dW = (entries(top, x, top.link_of_body) for x in motion)
    return LinkMotion(*jax.vmap(pull)(*at, V, W), *jax.vmap(pull)(*at, dV, dW))


@checked
@quickly_compiled(nameless=True)
def driven_motion(system: System, state: State, t: Any = 0.0) -> tuple[State, Acceleration]:
    """The state with driven coordinates, and a driven base, set by their laws at time t [s], and their accelerations."""
    return driven.driven_motion(system, t, state)


@checked
@quickly_compiled(nameless=True)
def body_poses(system: System, state: State, t: Any = 0.0) -> se3.Pose:
    """Poses of all bodies in the world: positions (bodies, 3) [m], quaternions (bodies, 4)."""
    prepared = prepare(system)
    R, p = body_frames(prepared, place(prepared, t, state, Acceleration.zero(system.nv), screws=False))
    return se3.Pose(p, jax.vmap(so3.from_matrix)(R))


@checked
@quickly_compiled(nameless=True)
def body_twists(system: System, state: State, t: Any = 0.0) -> Float[Array, "bodies 6"]:
    """Body twists (V, Omega) of all bodies, each in its own frame [m/s, rad/s]."""
    motion = body_motion(*snapshot(system, state, t=t))
    return jnp.concatenate([motion.V, motion.W], axis=1)


@checked
@quickly_compiled(nameless=True)
def body_accelerations(
    system: System, state: State, acceleration: Acceleration, t: Any = 0.0
) -> Float[Array, "bodies 6"]:
    """Time derivatives of the components of the body twists [m/s^2, rad/s^2]."""
    motion = body_motion(*snapshot(system, state, acceleration, t))
    return jnp.concatenate([motion.dV, motion.dW], axis=1)


@checked
def body_jacobian(system: System, state: State, body: str, t: Any = 0.0) -> Float[Array, "6 n"]:
    """J in: twist of the body (in its own frame) = J (base twist, v); n = 6 + nv."""
    return _body_jacobian(system, state, np.asarray(system.body(body)), t)


@checked
def point_jacobian(
    system: System, state: State, body: str, point: Float[Array, "3"], t: Any = 0.0
) -> Float[Array, "3 n"]:
    """J in: world velocity [m/s] of a point fixed in the body (given in the body's frame [m]) = J (base twist, v)."""
    return _point_jacobian(system, state, np.asarray(system.body(body)), as_vector(point, 3, "point"), t)


@checked
def point_position(
    system: System, state: State, body: str, point: Float[Array, "3"], t: Any = 0.0
) -> Float[Array, "3"]:
    """World position [m] of a point given in a body's frame [m]."""
    return _point_position(system, state, np.asarray(system.body(body)), as_vector(point, 3, "point"), t)


@quickly_compiled(nameless=True)
def _body_jacobian(system: System, state: State, k: Any, t: Any) -> Float[Array, "6 n"]:
    return jax.jacfwd(lambda u: body_twists(system, state.with_velocity(u), t)[k])(jnp.zeros(6 + system.nv))


@quickly_compiled(nameless=True)
def _point_jacobian(system: System, state: State, k: Any, point: Any, t: Any) -> Float[Array, "3 n"]:
    R = so3.to_matrix(body_poses(system, state, t).quaternion[k])
    J = _body_jacobian(system, state, k, t)
    return R @ (J[:3] - jnp.cross(point[:, None], J[3:], axis=0))


@quickly_compiled(nameless=True)
def _point_position(system: System, state: State, k: Any, point: Any, t: Any) -> Float[Array, "3"]:
    poses = body_poses(system, state, t)
    return poses.position[k] + matvec(so3.to_matrix(poses.quaternion[k]), point)


@checked
@quickly_compiled(nameless=True)
def centre_of_mass(system: System, state: State, t: Any = 0.0) -> Float[Array, "3"]:
    """Centre of mass of the whole system in the world [m]."""
    return mass_centre(*snapshot(system, state, t=t))


def mass_centre(prepared: Prepared, snap: Snapshot) -> Float[Array, "3"]:
    """Centre of all mass that has weight [m]."""
    return first_moment(prepared, snap) / prepared.system.mass.sum()


def momentum_about_origin(prepared: Prepared, snap: Snapshot) -> Float[Array, "6"]:
    """Momentum (linear, angular) in world axes about the world's origin, including that of weightless inertia."""
    V, W = snap.motion.V, snap.motion.W  # type: ignore[union-attr]

    def of_link(I, R, r, V, W):
        p, h = (matvec(R, x) for x in I.momentum(V, W))
        return jnp.concatenate([p, h + cross(r, p)])

    return jax.vmap(of_link)(prepared.inertia, snap.Rw, snap.pw, V, W).sum(0)


@checked
@quickly_compiled(nameless=True)
def momentum(system: System, state: State, frame: str = "base", t: Any = 0.0) -> Float[Array, "6"]:
    """Momentum (linear, angular) of the whole system [kg m/s, kg m^2/s].

    `frame`: "base" (base axes, about the base's origin), "world" (world axes, about the world's origin) or "centre" (world
    axes, about the centre of mass: the centroidal momentum).
    """
    one_of(frame, ("base", "world", "centre"), "frame")
    prepared, snap = snapshot(system, state, t=t)
    total = momentum_about_origin(prepared, snap)
    if frame == "world":
        return total
    p = total[:3]
    if frame == "centre":
        return jnp.concatenate([p, total[3:] - cross(mass_centre(prepared, snap), p)])
    R, about = state.base.rotation, state.base.position
    return jnp.concatenate([tmatvec(R, p), tmatvec(R, total[3:] - cross(about, p))])


@checked
@quickly_compiled(nameless=True)
def kinetic_energy(system: System, state: State, t: Any = 0.0) -> Float[Array, ""]:
    """Kinetic energy [J]."""
    return kinetic_energy_of(*snapshot(system, state, t=t))


@checked
@quickly_compiled(nameless=True)
def potential_energy(system: System, state: State, t: Any = 0.0) -> Float[Array, ""]:
    """Potential energy of gravity (zero at the world's origin), springs, rods and other conservative force models [J]."""
    return potential_energy_of(*snapshot(system, state, t=t))


@checked
def site_view(system: System, state: State, site: Site | str, t: Any = 0.0) -> SiteView:
    """Pose and twist of a site and, on a rod, its abscissa, strain and strain rate.

    `R` (3, 3), `p` (3,) [m] in the world; `V`, `W` (3,) in its own frame [m/s, rad/s]; `X` [m], `xi`, `dxi` (6,) [1, 1/m;
    per s]. The tangent of a rod, the derivative of `p` with respect to X, is `R @ xi[:3]`.
    """
    return _site_view(system, state, packed_site(system, as_site(site, "the site")), t)


@quickly_compiled(nameless=True)
def _site_view(system: System, state: State, packed: PackedSite, t: Any) -> SiteView:
    prepared, snap = snapshot(system, state, t=t)
    seen = see_site(prepared, snap, packed)
    return jax.tree.map(lambda x: x[0], seen.view._replace(dX=None, slide=None))


@checked
def site_jacobian(system: System, state: State, site: Site | str, t: Any = 0.0) -> Float[Array, "6 n"]:
    """J in: twist of the site (in its own frame) = J (base twist, v); n = 6 + nv."""
    return _site_jacobian(system, state, packed_site(system, as_site(site, "the site")), t)


@quickly_compiled(nameless=True)
def _site_jacobian(system: System, state: State, packed: PackedSite, t: Any) -> Float[Array, "6 n"]:
    def twist(u):
        return _site_view(system, state.with_velocity(u), packed, t).twist

    return jax.jacfwd(twist)(jnp.zeros(6 + system.nv))


def packed_site(system: System, site: Site) -> PackedSite:
    """One site of a built system, with names replaced by indices; the part of a rod before it is evaluated on use."""
    position, rotation = jnp.asarray(site.position)[None], jnp.asarray(site.rotation)[None]
    if site.abscissa is None:
        body = len(system.body_names) if site.body == WORLD else system.body(site.body)
        return PackedSite(position, rotation, None, (body,), (-1,))
    names = system.labels.rods
    if site.body not in names:
        if isinstance(site.abscissa, np.ndarray) and section_name(site) in system.body_names:  # of a flexible body
            return PackedSite(position, rotation, None, (system.body(section_name(site)),), (-1,))
        known = ", ".join([*names, *(x for x in system.body_names if "@" in x)]) or "(none)"
        raise UndulaError(
            f"there is no rod '{site.body}', nor a section of a flexible body that was a site before the system was built at "
            f"that abscissa; there are {known}."
        )
    if isinstance(site.abscissa, Found):
        raise UndulaError(f"the abscissa of a site on '{site.body}' is found by an element; give a number or a law.")
    number = names.index(site.body)
    group, k = next((g, g.rods.index(number)) for g in system.rods if number in g.rods)
    nodes, top = system.topology.rods[number], system.topology
    X = site.abscissa
    section = MovingSection(
        length=group.length[k : k + 1],
        starts=group.starts[k : k + 1],
        constant=group.constant[k : k + 1],
        X=jax.tree.map(lambda x: jnp.asarray(x)[None], X),
        gauss=group.gauss,
        bases=group.bases[k],
        points=group.points[k],
        function=group.functions[k],
        strains=group.strains,
        present=group.present,
        coordinates=(group.coordinates[k],),
        total=group.total,
        frames=((top.parents[nodes[0] - 1], *nodes[:-1]),),
        joints=(nodes[0] - 1,),
    )
    return PackedSite(position, rotation, section, (top.parents[nodes[0] - 1],), (nodes[0] - 1,))
