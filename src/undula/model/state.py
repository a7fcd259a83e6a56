"""States and accelerations; conversion between configurations and reported coordinates, and increments."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, joined, zeros
from undula.elements.element import changed
from undula.lie import se3, so3
from undula.model.topology import Topology
from undula.numerics.small import tmatvec


class State(eqx.Module):
    """Configuration and velocity of a system.

    - `base`: pose of the reference body in the world.
    - `q`: (nq,) internal configuration: one number per coordinate [rad or m], except a quaternion for a spherical
      joint, and position and quaternion for a free one.
    - `base_twist`: (6,) body twist (V, Omega) of the reference body [m/s, rad/s].
    - `v`: (nv,) internal velocities [rad/s or m/s]; body angular velocity or twist for spherical and free joints.
    - `z`: internal states of elements (memories of controllers, unknown abscissae), one entry per group that has any.
    """

    base: se3.Pose
    q: Float[Array, "*batch nq"]
    base_twist: Float[Array, "*batch 6"]
    v: Float[Array, "*batch nv"]
    z: tuple[Any, ...] = ()

    def replace(self, **fields: Any) -> "State":
        """A copy with some fields replaced."""
        return changed(self, **fields)

    @property
    def velocity(self) -> Float[Array, "n"]:
        """(6 + nv,): base twist and internal velocities."""
        return joined(self.base_twist, self.v)

    def with_velocity(self, u: Float[Array, "n"]) -> "State":
        """The same configuration with other velocities (base twist, internal velocities)."""
        return self.replace(base_twist=u[:6], v=u[6:])

    def at_rest(self) -> "State":
        """The same configuration without velocities."""
        return self.replace(base_twist=zeros(6), v=zeros(np.shape(self.v)))


class Acceleration(eqx.Module):
    """Time derivatives of the components of a `State`'s velocities, `base` (6,) and `v` (nv,), and of its internal states."""

    base: Float[Array, "*batch 6"]
    v: Float[Array, "*batch nv"]
    z: tuple[Any, ...] = ()

    @staticmethod
    def zero(nv: int) -> "Acceleration":
        return Acceleration(zeros(6), zeros(nv))

    @property
    def whole(self) -> Float[Array, "n"]:
        """(6 + nv,): of the base and of the coordinates."""
        return joined(self.base, self.v)


def configuration(topology: Topology, x: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Configuration q of reported coordinates (rotation vectors for spherical and free joints)."""
    if topology.adds:
        return x
    q, v = topology.vector_places
    if not isinstance(x, jax.Array):
        known = zeros(topology.nq)
        known[q] = x[v]
        for chart, iq, iv in topology.curved:
            known[iq] = [chart.from_x(own) for own in x[iv]]
        return known
    out = jnp.zeros(topology.nq).at[q].set(x[v])
    for chart, iq, iv in topology.curved:
        out = out.at[iq].set(jax.vmap(chart.from_x)(x[iv]))
    return out


def reported_position(topology: Topology, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Reported coordinates of a configuration: the inverse of `configuration`."""
    if topology.adds:
        return q
    vq, vv = topology.vector_places
    out = jnp.zeros(topology.nv).at[vv].set(q[vq])
    for chart, iq, iv in topology.curved:
        out = out.at[iv].set(jax.vmap(chart.to_x)(q[iq]))
    return out


def advanced(topology: Topology, q: Float[Array, "nq"], u: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Configuration reached from q along the increment u (an integral of velocities)."""
    if topology.adds:
        return q + u
    vq, vv = topology.vector_places
    out = q.at[vq].add(u[vv])
    for chart, iq, iv in topology.curved:
        out = out.at[iq].set(jax.vmap(chart.advance)(q[iq], u[iv]))
    return out


def displaced(topology: Topology, state: State, u: Float[Array, "n"]) -> State:
    """The state with its configuration moved along an increment (6 + nv,) of the algebra.

    Poses move by exponentials and are renormalised, so that they stay in the group to rounding.
    """
    g = state.base
    if topology.base_role == "free":
        moved = g @ se3.exp(u[:6])
        g = se3.Pose(moved.position, so3.normalise(moved.quaternion))
    return state.replace(base=g, q=advanced(topology, state.q, u[6:]))


def bracket(topology: Topology, a: Float[Array, "n"], b: Float[Array, "n"]) -> Float[Array, "n"]:
    """Lie bracket of two increments (6 + nv,), for the base and joint by joint; zero for additive coordinates."""
    base = se3.bracket(a[:6], b[:6]) if topology.base_role == "free" else jnp.zeros(6)
    out = jnp.zeros(topology.nv)
    for chart, _, iv in topology.curved:
        out = out.at[iv].set(jax.vmap(chart.bracket)(a[6:][iv], b[6:][iv]))
    return jnp.concatenate([base, out])


def chart_motion(topology: Topology, x: Float[Array, "nv"], dx: Float[Array, "nv"], ddx: Float[Array, "nv"]):
    """Configuration (nq), velocities (nv) and accelerations (nv) of reported coordinates and their two derivatives."""
    if topology.adds:
        return x, dx, ddx

    def velocity(x, dx):
        out = dx
        for chart, _, iv in topology.curved:
            out = out.at[iv].set(jax.vmap(chart.velocity)(x[iv], dx[iv]))
        return out

    v, dv = jax.jvp(velocity, (x, dx), (dx, ddx))
    return configuration(topology, x), v, dv


def chart_force(topology: Topology, q: Float[Array, "nq"], force: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Efforts conjugate to the velocities, from forces conjugate to the reported coordinates: N(q)^T force."""
    out = force
    for chart, iq, iv in topology.curved:
        rate = chart.rate
        out = out.at[iv].set(jax.vmap(lambda q, f, rate=rate: tmatvec(rate(q), f))(q[iq], force[iv]))
    return out
