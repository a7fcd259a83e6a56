"""The frozen, validated model that everything computes with."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import UndulaError, is_traced
from undula.core.shapes import Shape
from undula.joints.kind import KINDS
from undula.joints.rod.group import RodGroup
from undula.joints.rod.pieces import refuse_overwound
from undula.lie import se3, so3
from undula.model.topology import Topology
from undula.numerics.small import tmatvec


class State(eqx.Module):
    """Where a system is and how it moves.

    - `base`: pose of the reference body in the world.
    - `q`: (nq,) internal configuration: one number a coordinate [rad or m], but a quaternion for a spherical joint,
      position and quaternion for a free one.
    - `base_twist`: (6,) body twist (V, Omega) of the reference body [m/s, rad/s].
    - `v`: (nv,) internal velocities [rad/s or m/s]; body angular velocity or twist for spherical and free joints.
    """

    base: se3.Pose
    q: Float[Array, "*batch nq"]
    base_twist: Float[Array, "*batch 6"]
    v: Float[Array, "*batch nv"]


class Acceleration(eqx.Module):
    """Time derivatives of the components of a `State`'s velocities: `base` (6,) and `v` (nv,)."""

    base: Float[Array, "*batch 6"]
    v: Float[Array, "*batch nv"]


class Drive(eqx.Module):
    """A law, a vector over some coordinates (indices `which`), that gives motions or efforts."""

    law: Any
    which: tuple[int, ...] = eqx.field(static=True)


class System(eqx.Module):
    """A tree of rigid bodies on a base: numbers that can be differentiated, and a static `topology`.

    Made by `Builder.build()` or `load_urdf`. Arrays over bodies are in the order of `body_names`, over joints in the order
    of `body_names[1:]` (a joint comes with the body it carries), over coordinates in the order of `coordinate_names`.
    """

    mass: Float[Array, "bodies"]
    """[kg]"""
    com: Float[Array, "bodies 3"]
    """Centre of mass in the body frame [m]"""
    inertia: Float[Array, "bodies 3 3"]
    """Inertia about the centre of mass, in the body's axes [kg m^2]"""
    joint_position: Float[Array, "joints 3"]
    """Origin of the joint frame in the parent body [m]"""
    joint_rotation: Float[Array, "joints 3 3"]
    """Axes of the joint frame in the parent body"""
    axis: Float[Array, "joints 3"]
    """Rotation axis of the joint (the first one of a universal joint); zero if it does not rotate about one"""
    second: Float[Array, "joints 3"]
    """Sliding axis (times the pitch of a helical joint), or the second axis of a universal joint"""
    stiffness: Float[Array, "nv"]
    """Spring of each coordinate [N m/rad or N/m]"""
    damping: Float[Array, "nv"]
    """Damper of each coordinate [N m s/rad or N s/m]"""
    rest: Float[Array, "nv"]
    """Where the spring is slack [rad or m]"""
    mimic_scale: Float[Array, "rates"]
    mimic_offset: Float[Array, "rates"]
    gravity: Float[Array, "3"]
    """Acceleration of gravity in the world [m/s^2]"""
    base_pose: se3.Pose
    """Pose of a fixed base in the world; where a free base starts by default; the frame that a driven base moves in"""
    base_motion: Any
    """Law of a driven base (one component a direction of its group), or None"""
    motions: tuple[Drive, ...]
    """Motion laws of the driven coordinates"""
    efforts: tuple[Drive, ...]
    """Effort laws or controllers of the forced coordinates"""
    rods: tuple[RodGroup, ...]
    """Rods, packed by their shape"""
    along: tuple[Any, ...]
    """Tendons and chambers of the rods (`rods.actuators.Along`)"""
    loads: tuple[Any, ...]
    """Given forces and couples (`environment.load.Load`)"""
    followers: tuple[Any, ...]
    """Bodies that are pulled along a motion (`environment.load.Follower`)"""
    ideal: tuple[Any, ...]
    """Constraints, packed by their form (`constraints.rows.Group`)"""
    slipping: tuple[Any, ...]
    """Constraints whose forces are given by a slip law, packed in the same way"""
    contacts: tuple[Any, ...]
    """What may touch (`contact.candidates.Candidates`), packed by its form"""
    reaction_weights: Float[Array, "rows"]
    """Where reactions are not unique, the sum of weights times (reaction - static part)^2 is least"""
    static_reactions: Float[Array, "rows"]
    """The static part that is wanted [N or N m]"""
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)
    row_names: tuple[str, ...] = eqx.field(static=True)
    contact_names: tuple[str, ...] = eqx.field(static=True)
    least_squares: bool = eqx.field(static=True)
    shapes: tuple[tuple[Shape, ...], ...] = eqx.field(static=True)
    topology: Topology = eqx.field(static=True)

    # Names

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.topology.bodies

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.topology.coordinates

    @property
    def nv(self) -> int:
        """Number of independent internal coordinates."""
        return self.topology.nv

    @property
    def constrained(self) -> bool:
        """Whether it has constraints, ideal or slipping."""
        return bool(self.ideal or self.slipping)

    @property
    def rod_links(self) -> dict[str, tuple[int, ...]]:
        """Links of the nodes of each rod, by its name."""
        links = self.topology.link_of_body
        return {name: tuple(int(links[b]) for b in bodies) for name, bodies in self.topology.rods}

    def body(self, name: str) -> int:
        """Index of a body."""
        return _index(self.body_names, name, "body")

    def coordinate(self, name: str) -> int:
        """Index of a coordinate."""
        return _index(self.coordinate_names, name, "coordinate")

    # States

    def state(
        self,
        position: Any = None,
        velocity: Any = None,
        base_position: Any = None,
        base_quaternion: Any = None,
        base_twist: Any = None,
    ) -> State:
        """A state from what is given; the rest is zero, and the base is where the model puts it.

        **Arguments:**

        - `position`, `velocity`: (nv,) or a dict from coordinate names to values [rad or m; per s]. The coordinates of a
          spherical joint are its rotation vector, those of a free joint its position and rotation vector.
        - `base_position` (3,) [m], `base_quaternion` (4,) (w, x, y, z), `base_twist` (6,) body twist [m/s, rad/s].

        Strains that turn a rod by more than pi between two nodes are refused.
        """
        position_0 = self.base_pose.position if base_position is None else base_position
        quaternion_0 = self.base_pose.quaternion if base_quaternion is None else base_quaternion
        q = configuration(self.topology, self._by_name(position, "position"))
        refuse_overwound(self, q, "the state cannot be represented")
        return State(
            base=se3.Pose(_array(position_0, 3, "base_position"), _unit(_array(quaternion_0, 4, "base_quaternion"))),
            q=q,
            base_twist=_array(base_twist, 6, "base_twist"),
            v=self._by_name(velocity, "velocity"),
        )

    def _by_name(self, values: Any, what: str) -> Array:
        if isinstance(values, dict):
            out = jnp.zeros(self.nv)
            for name, value in values.items():
                out = out.at[self.coordinate(name)].set(value)
            return out
        return _array(values, self.nv, what)

    def replace(self, **changes: Any) -> "System":
        """A copy with other parameters, e.g. `system.replace(mass=..., stiffness=...)`; shapes must stay the same."""
        for key, value in changes.items():
            if key not in PARAMETERS:
                raise UndulaError(f"{key} is not a parameter of a system; the parameters are {', '.join(PARAMETERS)}.")
            old, new = getattr(self, key), jnp.asarray(value, dtype=float)
            if new.shape != old.shape:
                raise UndulaError(f"{key} has the shape {new.shape}; it must be {old.shape}.")
            changes[key] = new
        keys = tuple(changes)
        return eqx.tree_at(lambda s: [getattr(s, k) for k in keys], self, [changes[k] for k in keys])


PARAMETERS = (
    "mass",
    "com",
    "inertia",
    "joint_position",
    "joint_rotation",
    "axis",
    "second",
    "stiffness",
    "damping",
    "rest",
    "gravity",
    "reaction_weights",
    "static_reactions",
)


def _index(names: tuple[str, ...], name: str, what: str) -> int:
    if name not in names:
        raise UndulaError(f"there is no {what} '{name}'; the names are {', '.join(names) or '(none)'}.")
    return names.index(name)


def _unit(quaternion: Array) -> Array:
    if is_traced(quaternion):
        return so3.normalise(quaternion)
    norm = np.linalg.norm(quaternion)
    if not norm > 0:
        raise UndulaError(f"base_quaternion = {np.asarray(quaternion).tolist()} is zero; it must have a norm.")
    return jnp.asarray(np.asarray(quaternion) / norm)


def _array(value: Any, size: int, what: str) -> Array:
    out = jnp.zeros(size) if value is None else jnp.asarray(value, dtype=float)
    if out.shape != (size,):
        raise UndulaError(f"{what} has the shape {out.shape}; it must be ({size},).")
    return out


# Configurations, from and to the coordinates that are reported, and along increments


def configuration(topology: Topology, chart: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Configuration q of reported coordinates (rotation vectors for spherical and free joints)."""
    if topology.adds:
        return chart
    out = jnp.zeros(topology.nq)
    for name, q, v in topology.coordinate_groups:
        out = out.at[q].set(jax.vmap(KINDS[name].from_chart)(chart[v]))
    return out


def reported_position(topology: Topology, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Reported coordinates of a configuration: the inverse of `configuration`."""
    if topology.adds:
        return q
    out = jnp.zeros(topology.nv)
    for name, iq, iv in topology.coordinate_groups:
        out = out.at[iv].set(jax.vmap(KINDS[name].to_chart)(q[iq]))
    return out


def advance(topology: Topology, q: Float[Array, "nq"], u: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Configuration reached from q along the increment u (an integral of velocities)."""
    if topology.adds:
        return q + u
    out = q
    for name, iq, iv in topology.coordinate_groups:
        out = out.at[iq].set(jax.vmap(KINDS[name].advance)(q[iq], u[iv]))
    return out


def displaced(topology: Topology, state: State, base: Float[Array, "6"], q: Float[Array, "nv"]) -> State:
    """The state with its configuration moved along increments of the algebra.

    Poses move by exponentials and are renormalised, so that they stay in the group to rounding.
    """
    g = state.base
    if topology.base_role == "free":
        moved = g @ se3.exp(base)
        g = se3.Pose(moved.position, so3.normalise(moved.quaternion))
    return State(g, advance(topology, state.q, q), state.base_twist, state.v)


def bracket(topology: Topology, a: Float[Array, "nv"], b: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Lie bracket of two increments, joint by joint; zero where coordinates add."""
    out = jnp.zeros(topology.nv)
    for name, _, iv in topology.coordinate_groups:
        kind = KINDS[name]
        if kind.bracket is not None:
            out = out.at[iv].set(jax.vmap(kind.bracket)(a[iv], b[iv]))
    return out


def chart_motion(topology: Topology, x: Float[Array, "nv"], dx: Float[Array, "nv"], ddx: Float[Array, "nv"]):
    """Configuration (nq), velocities (nv) and accelerations (nv) of reported coordinates and their two derivatives."""
    if topology.adds:
        return x, dx, ddx

    def velocity(x, dx):
        out = dx
        for name, _, iv in topology.coordinate_groups:
            kind = KINDS[name]
            if kind.bracket is not None:
                out = out.at[iv].set(jax.vmap(kind.from_chart_rate)(x[iv], dx[iv]))
        return out

    v, dv = jax.jvp(velocity, (x, dx), (dx, ddx))
    return configuration(topology, x), v, dv


def chart_force(topology: Topology, q: Float[Array, "nq"], force: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the velocities, from forces conjugate to the reported coordinates: N(q)^T force."""
    if topology.adds:
        return force
    out = jnp.zeros(topology.nv)
    for name, iq, iv in topology.coordinate_groups:
        rate = KINDS[name].chart_rate
        out = out.at[iv].set(jax.vmap(lambda q, f, rate=rate: tmatvec(rate(q), f))(q[iq], force[iv]))
    return out
