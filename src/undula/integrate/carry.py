"""Carrying a state over from one system to another that has the same bodies on other joints or constraints."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.kinematics import body_poses, body_twists
from undula.core.arrays import Array, as_array, known, with_entry, zeros
from undula.core.errors import UndulaError
from undula.integrate.events import jump_onto
from undula.lie import se3, so3
from undula.lie.se3 import Pose
from undula.model.arguments import checked
from undula.model.state import State, displaced, reported_position
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.numerics.small import hat
from undula.tree.driven import driven_state

ITERATIONS = 50
PLACED = 1e-7  # a body may be this far from where it was [m or rad]


@checked
def carry_over(state: State, old: System, new: System, t: float = 0.0) -> State:
    """The state of a system with other joints or constraints, in which every body is where it was.

    **Arguments:**

    - `state`: of the system `old`; `new`: a system with bodies of the same names; coordinates of joints that both have are
      copied, all others follow from the poses of the bodies. Driven coordinates are set by their laws at time t [s].

    **Returns:**

    The state of `new`. Its velocities are those of the bodies as far as the new joints and constraints admit them; the rest
    is lost as in a perfectly inelastic impact, by the least change in the kinetic metric, which conserves momentum where
    nothing is held. Internal states are copied by the names of their elements. Raises `UndulaError` if a body cannot be where
    it was.
    """
    common = [name for name in new.body_names if name in old.body_names]
    if not common:
        raise UndulaError(
            f"the systems '{old.name}' and '{new.name}' have no body in common; bodies are matched by name."
        )
    at = (np.array([s.body(name) for name in common]) for s in (old, new))
    here, there = at
    poses, twists = known((_poses(old.bare(), state), _twists(old.bare(), state)))
    goal = Pose(poses.position[here], poses.quaternion[here])
    shared = {name: k for k, name in enumerate(old.coordinate_names) if name in new.coordinate_names}
    state = known(state)
    x = known(_positions(old.bare(), state))
    first = new.state({name: x[k] for name, k in shared.items()}, {name: state.v[k] for name, k in shared.items()})
    if new.body_names[0] in common and new.topology.base_role == "free":
        k = common.index(new.body_names[0])
        first = first.replace(base=Pose(goal.position[k], goal.quaternion[k]))
    first = first.replace(z=_memories(state, old, first, new))
    bare = new.bare()
    time: Any = np.asarray(float(t))
    placed = _placed(bare, first, goal, there, time)
    off = np.asarray(_off(bare, placed, goal, there)).reshape(-1, 6)
    worst = int(np.argmax(np.abs(off).max(1)))
    if np.abs(off[worst]).max() > PLACED:
        raise UndulaError(
            f"the body '{common[worst]}' cannot stay where it is in '{new.name}': {np.abs(off[worst]).max():.3g} (m or rad) "
            "are missing; check the positions of its joint."
        )
    moving = _with_momentum(bare, placed, twists[here], there, time)
    return jump_onto(bare, time, moving, zeros(len(new.reaction_weights))).state if new.ideal else moving


@quickly_compiled
def _poses(system: System, state: State) -> Pose:
    return body_poses(system, state)


@quickly_compiled
def _twists(system: System, state: State) -> Array:
    return body_twists(system, state)


@quickly_compiled
def _positions(system: System, state: State) -> Array:
    return reported_position(system.topology, state.q)


def _memories(state: State, old: System, first: State, new: System) -> tuple[Any, ...]:
    """Internal states by the names of the elements; those that `old` does not have begin anew."""
    had = {
        name: jax.tree.map(lambda x, k=k: x[k], state.z[g.memory])
        for g, (_, names) in zip(old.groups, old.labels.elements)
        if g.remembers
        for k, name in enumerate(names)
    }
    z = list(first.z)
    for g, (_, names) in zip(new.groups, new.labels.elements):
        if not g.remembers:
            continue
        for k, name in enumerate(names):
            own = jax.tree.map(lambda x, k=k: x[k], z[g.memory])
            if name in had and jax.tree.map(np.shape, own) == jax.tree.map(np.shape, had[name]):
                z[g.memory] = jax.tree.map(lambda x, y, k=k: with_entry(x, k, y), z[g.memory], had[name])
    return tuple(z)


@quickly_compiled
def _off(system: System, state: State, goal: Pose, there: Any) -> Array:
    return _apart(system, state, goal, there)


def _apart(system: System, state: State, goal: Pose, there: Any) -> Array:
    """Positions and attitudes of the bodies relative to the goal (bodies * 6,) [m, rad]."""
    at = body_poses(system, state)
    p = at.position[there] - goal.position
    back = goal.quaternion * jnp.array([1.0, -1.0, -1.0, -1.0])
    turn = jax.vmap(lambda a, b: so3.log(so3.multiply(b, a)))(at.quaternion[there], back)
    return jnp.concatenate([p, turn], axis=1).reshape(-1)


@quickly_compiled
def _slope(system: System, state: State, goal: Pose, there: Any) -> tuple[Array, Array]:
    def off(u):
        return _apart(system, displaced(system.topology, state, u), goal, there)

    zero = jnp.zeros(6 + system.nv)
    return off(zero), jax.jacfwd(off)(zero)


def _placed(system: System, state: State, goal: Pose, there: np.ndarray, t: Array) -> State:
    """The state moved so that the bodies are at their goal, as far as it can (Gauss and Newton)."""
    which = system.topology.unknown
    state = driven_state(system, t, state)
    for _ in range(ITERATIONS):
        off, J = (np.asarray(x) for x in _slope(system, state, goal, there))
        if np.abs(off).max() < PLACED**2:
            break
        u = np.zeros(6 + system.nv)
        u[which] = np.linalg.lstsq(J[:, which], -off, rcond=1e-10)[0]
        if np.abs(u).max(initial=0.0) < 1e-15:
            break
        state = _displaced(system, state, u)
    return state


@quickly_compiled
def _displaced(system: System, state: State, u: Any) -> State:
    return displaced(system.topology, state, u)


@quickly_compiled
def _masses(system: System, state: State) -> tuple[Array, Array]:
    """Spatial inertia of each body about its origin (bodies, 6, 6), and the Jacobian of the twists (bodies, 6, n)."""

    def spatial(m, c, I):
        return se3.spatial_inertia(m, m * c, I - m * hat(c) @ hat(c))

    M = jax.vmap(spatial)(system.mass, system.com, system.inertia)
    J = jax.jacfwd(lambda u: body_twists(system, state.with_velocity(u)))(jnp.zeros(6 + system.nv))
    return M, J


def _with_momentum(system: System, state: State, twists: Array, there: np.ndarray, t: Array) -> State:
    """The state with the velocities nearest to the given twists of the bodies, in the kinetic metric."""
    which = system.topology.unknown
    state = driven_state(system, t, state)
    M, J = (np.asarray(x)[there] for x in _masses(system, state))
    u = np.array(state.velocity)
    u[which] = 0.0
    missing = np.asarray(twists) - J @ u
    # sums of squares of (square root of the inertia) times (twist): a least-squares problem, also without mass
    values, vectors = np.linalg.eigh(M)
    root = np.sqrt(np.maximum(values, 0.0))[:, :, None] * np.swapaxes(vectors, 1, 2)
    left = (root @ J[:, :, which]).reshape(-1, len(which))
    u[which] = np.linalg.lstsq(left, (root @ missing[:, :, None]).reshape(-1), rcond=1e-12)[0]
    return state.with_velocity(as_array(u))
