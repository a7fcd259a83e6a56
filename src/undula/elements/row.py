"""What a constraint is: functions of the motion of a few bodies that must vanish.

A constraint gives position residuals (`gap`, holonomic), velocity residuals (`rows`, non-holonomic and linear in the
velocities), or both. Everything else, Jacobians, their rates, ranks and reactions, the library finds by differentiating them.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.numerics.small import cross, hat, matmul, matvec

WORLD = "world"  # the name that stands for the inertial frame where a constraint asks for a body


class BodyMotion(NamedTuple):
    """Pose (R, p) of a body in the world and its twist (V, W) in its own frame [m, m/s, rad/s]."""

    R: Float[Array, "3 3"]
    p: Float[Array, "3"]
    V: Float[Array, "3"]
    W: Float[Array, "3"]

    def point(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """World position of a point of the body [m]."""
        return self.p + matvec(self.R, x)

    def velocity(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """World velocity of the body's material point that is at x in its frame [m/s]."""
        return matvec(self.R, self.V + cross(self.W, x))

    def direction(self, a: Float[Array, "3"]) -> Float[Array, "3"]:
        """A vector of the body in world axes."""
        return matvec(self.R, a)

    @property
    def spin(self) -> Float[Array, "3"]:
        """Angular velocity in world axes [rad/s]."""
        return matvec(self.R, self.W)


class At(NamedTuple):
    """What a constraint sees: time, the bodies it named, and values `x` and rates `v` of the coordinates it named."""

    t: Any
    bodies: tuple[BodyMotion, ...]
    x: Float[Array, "c"]
    v: Float[Array, "c"]


class Constraint(eqx.Module):
    """Base class. A new kind defines `gap`, `rows` or both; it may define `labels`, else rows are numbered.

    - `name`: how results and errors call it.
    - `bodies`, `coordinates`: names of the bodies ("world" is the inertial frame) and of the coordinates it sees.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True)

    def gap(self, at: At) -> Float[Array, "g"]:
        """Position residuals that must vanish [m or rad]; the velocities in `at` must not be used."""
        return jnp.zeros(0)

    def rows(self, at: At) -> Float[Array, "r"]:
        """Velocity residuals that must vanish, linear in the velocities [m/s or rad/s]."""
        return jnp.zeros(0)

    def undefined(self, at: At) -> str:
        """Why the constraint has no meaning in these poses, as a clause that its name is put before; "" where it has one.

        Asked when a run fails, outside compiled functions; there are no velocities and coordinates in `at`.
        """
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Short names of the rows, those of `gap` first; "" for a single row. Empty: the rows are numbered."""
        return ()


def motion_of(at: At) -> At:
    """The rate of everything that a position residual may depend on: a tangent of `at` without accelerations."""
    zero = jnp.zeros(3)
    moved = tuple(BodyMotion(matmul(b.R, hat(b.W)), matvec(b.R, b.V), zero, zero) for b in at.bodies)
    return At(jnp.ones(()), moved, at.v, jnp.zeros_like(at.v))


def velocities(constraint: Constraint, at: At) -> Float[Array, "k"]:
    """All the velocity residuals of a constraint: the rates of its gaps, then its rows."""
    at = at._replace(t=jnp.asarray(at.t, dtype=float))
    rate = jax.jvp(constraint.gap, (at,), (motion_of(at),))[1]
    return jnp.concatenate([rate, constraint.rows(at)])
