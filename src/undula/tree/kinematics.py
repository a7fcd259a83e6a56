"""Where the bodies are and how they move: poses, twists, accelerations, Jacobians, momentum, energy, power."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.balance.dynamics import relative
from undula.core.errors import UndulaError
from undula.lie import se3, so3
from undula.model.links import Links, entries, link_rates, links_of
from undula.model.system import Acceleration, State, System, reported_position
from undula.numerics.small import cross, matmul, matvec, tmatvec
from undula.tree.frames import link_frames
from undula.tree.inverse import LinkMotion, link_motion


def _frames(system: System, links: Links, state: State) -> tuple[Array, Array]:
    """World rotations and origins of the bodies."""
    rel = relative(system, links, state)
    R, p = link_frames(system.topology, rel, state.base.rotation, state.base.position)
    if not system.topology.fixed_levels:
        return R, p
    l = system.topology.link_of_body
    turn, shift = links.body_rotation, links.body_position
    R, p = entries(system.topology, R, l), entries(system.topology, p, l)
    return jax.vmap(matmul)(R, turn), p + jax.vmap(matvec)(R, shift)


def body_frames(
    system: System, links: Links, state: State
) -> tuple[Float[Array, "bodies 3 3"], Float[Array, "bodies 3"]]:
    """Rotation matrices and origins of the bodies in the world."""
    return _frames(system, links, state)


def body_motion(system: System, links: Links, state: State) -> Float[Array, "bodies 6"]:
    """Body twists of the bodies."""
    motion = _motion(system, links, state, _at_rest(system))
    return jnp.concatenate([motion.V, motion.W], axis=1)


def _motion(system: System, links: Links, state: State, acceleration: Acceleration) -> LinkMotion:
    """Body twists of the bodies and their derivatives."""
    top = system.topology
    rel = relative(system, links, state)
    rate, gain = link_rates(system, rel, state.v), link_rates(system, rel, acceleration.v)
    motion = link_motion(top.slots, rel, state.base_twist, acceleration.base, rate, gain)
    if not top.fixed_levels:
        return motion
    l = top.link_of_body

    def pull(R, p, V, W):
        return tmatvec(R, V + cross(W, p)), tmatvec(R, W)

    place = links.body_rotation, links.body_position
    V, W, dV, dW = (entries(top, x, l) for x in motion)
    V, W = jax.vmap(pull)(*place, V, W)
    dV, dW = jax.vmap(pull)(*place, dV, dW)
    return LinkMotion(V, W, dV, dW)


def _at_rest(system: System) -> Acceleration:
    return Acceleration(jnp.zeros(6), jnp.zeros(system.nv))


def body_poses(system: System, state: State) -> se3.Pose:
    """Poses of all the bodies in the world: positions (bodies, 3) [m], quaternions (bodies, 4)."""
    R, p = _frames(system, links_of(system), state)
    return se3.Pose(p, jax.vmap(so3.from_matrix)(R))


def body_twists(system: System, state: State) -> Float[Array, "bodies 6"]:
    """Body twists (V, Omega) of all the bodies, each in its own frame [m/s, rad/s]."""
    return body_motion(system, links_of(system), state)


def body_accelerations(system: System, state: State, acceleration: Acceleration) -> Float[Array, "bodies 6"]:
    """Time derivatives of the components of the body twists [m/s^2, rad/s^2]."""
    motion = _motion(system, links_of(system), state, acceleration)
    return jnp.concatenate([motion.dV, motion.dW], axis=1)


def body_jacobian(system: System, state: State, body: str) -> Float[Array, "6 n"]:
    """J with twist of the body (its own frame) = J (base twist, v); n = 6 + nv."""
    k = system.body(body)

    def twist(x):
        moved = State(state.base, state.q, x[:6], x[6:])
        return body_twists(system, moved)[k]

    return jax.jacfwd(twist)(jnp.zeros(6 + system.nv))


def point_jacobian(system: System, state: State, body: str, point: Float[Array, "3"]) -> Float[Array, "3 n"]:
    """J with velocity [m/s], in the world, of a point fixed in the body (body coordinates [m]) = J (base twist, v)."""
    R = _frames(system, links_of(system), state)[0][system.body(body)]
    J = body_jacobian(system, state, body)
    return R @ (J[:3] - jnp.cross(jnp.asarray(point, dtype=float)[:, None], J[3:], axis=0))


def point_position(system: System, state: State, body: str, point: Float[Array, "3"]) -> Float[Array, "3"]:
    """World position [m] of a point given in a body's frame [m]."""
    R, p = _frames(system, links_of(system), state)
    k = system.body(body)
    return p[k] + matvec(R[k], jnp.asarray(point, dtype=float))


def centre_of_mass(system: System, state: State) -> Float[Array, "3"]:
    """Centre of mass of the whole system in the world [m]."""
    R, p = _frames(system, links_of(system), state)
    centres = p + jax.vmap(matvec)(R, system.com)
    return (system.mass[:, None] * centres).sum(0) / system.mass.sum()


def _body_momenta(system: System, motion: LinkMotion) -> tuple[Array, Array]:
    """Linear momentum, and angular momentum about its own centre of mass, of each body in its own frame."""
    p = system.mass[:, None] * (motion.V + jax.vmap(cross)(motion.W, system.com))
    return p, jax.vmap(matvec)(system.inertia, motion.W)


def momentum(system: System, state: State, frame: str = "base") -> Float[Array, "6"]:
    """Momentum (linear, angular) of the whole system [kg m/s, kg m^2/s].

    `frame`: "base" (base axes, about the base's origin), "world" (world axes, about the world's origin) or "centre" (world
    axes, about the centre of mass: the centroidal momentum).
    """
    links = links_of(system)
    R, origin = _frames(system, links, state)
    p, h = _body_momenta(system, _motion(system, links, state, _at_rest(system)))
    p, h = jax.vmap(matvec)(R, p), jax.vmap(matvec)(R, h)
    centres = origin + jax.vmap(matvec)(R, system.com)
    if frame == "base":
        about = state.base.position
    elif frame == "world":
        about = jnp.zeros(3)
    elif frame == "centre":
        about = (system.mass[:, None] * centres).sum(0) / system.mass.sum()
    else:
        raise UndulaError(f"frame = {frame!r}; it must be 'base', 'world' or 'centre'.")
    total = p.sum(0), (h + jax.vmap(cross)(centres - about, p)).sum(0)
    if frame == "base":
        total = tuple(tmatvec(state.base.rotation, x) for x in total)
    return jnp.concatenate(total)


class Observed(NamedTuple):
    """Poses of the bodies, and the energies of the system [J]."""

    bodies: se3.Pose
    kinetic: Float[Array, ""]
    potential: Float[Array, ""]


def observe(system: System, state: State) -> Observed:
    """Poses and energies together, from one pass over the tree."""
    links = links_of(system)
    R, p = _frames(system, links, state)
    motion = _motion(system, links, state, _at_rest(system))
    linear, angular = _body_momenta(system, motion)
    V = motion.V + jax.vmap(cross)(motion.W, system.com)
    kinetic = ((linear * V).sum() + (angular * motion.W).sum()) / 2
    centres = p + jax.vmap(matvec)(R, system.com)
    stretch = reported_position(system.topology, state.q) - system.rest
    weight = (system.mass[:, None] * centres * system.gravity).sum()
    potential = (system.stiffness * stretch**2).sum() / 2 - weight + sum(g.energy(g.own(state.q)) for g in system.rods)
    return Observed(se3.Pose(p, jax.vmap(so3.from_matrix)(R)), kinetic, potential)


def kinetic_energy(system: System, state: State) -> Float[Array, ""]:
    """Kinetic energy [J]."""
    return observe(system, state).kinetic


def potential_energy(system: System, state: State) -> Float[Array, ""]:
    """Potential energy of gravity (zero at the world's origin) and springs [J]."""
    return observe(system, state).potential
