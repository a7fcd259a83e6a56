"""Given forces and couples on bodies and along rods: dead (fixed in the world) or following (fixed in the body)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.laws.law import Law
from undula.lie import so3
from undula.numerics.pick import pick, spread
from undula.numerics.small import cross, matmul, matvec, tmatvec


class Load(eqx.Module):
    """A force and a couple at a point of some bodies, with a weight each.

    - `force` [N], `couple` [N m]: laws of time, vectors (3,); for a load along a rod, per length.
    - `point` (3,): where the force acts, in the body's frame [m].
    - `follows`: whether the components are those in the body's frame (a following load), or in the world (a dead one).
    """

    force: Law
    couple: Law
    point: Float[Array, "3"]
    weights: Float[Array, "m"]
    bodies: tuple[int, ...] = eqx.field(static=True)
    follows: bool = eqx.field(static=True)

    def wrenches(self, t: Any, R: Float[Array, "m 3 3"]) -> Float[Array, "m 6"]:
        """Wrenches on the bodies, in their frames; R are their rotations in the world."""
        f, c = self.force.value(t), self.couple.value(t)

        def one(R, weight):
            force, couple = (f, c) if self.follows else (tmatvec(R, f), tmatvec(R, c))
            return weight * jnp.concatenate([force, couple + cross(self.point, force)])

        return jax.vmap(one)(R, self.weights)


class Follower(eqx.Module):
    """A spring and a damper that pull a body along a given motion of its frame: a thruster or a hand that is controlled.

    - `motion`: position [m] and rotation vector [rad] in the world, a law (6,).
    - `stiffness` (6,) [N/m, N m/rad], `damping` (6,) [N s/m, N m s/rad]: on (linear, angular) errors in the body's frame.
    """

    motion: Law
    stiffness: Float[Array, "6"]
    damping: Float[Array, "6"]
    body: int = eqx.field(static=True)

    def wrench(self, t: Any, R: Array, p: Array, twist: Array) -> Float[Array, "6"]:
        """The wrench on the body, in its frame."""
        x, dx, _ = self.motion(t)
        wanted = so3.to_matrix(so3.exp(x[3:]))
        relative = matmul(R.T, wanted)
        away = jnp.concatenate([tmatvec(R, x[:3] - p), so3.log(so3.from_matrix(relative))])
        # e = Ad(g^-1 g_d) eta_d - eta of (3.66): the linear part is the difference of the velocities of the two origins
        spin = matvec(relative, matvec(so3.dexp(x[3:]), dx[3:]))
        slower = jnp.concatenate([tmatvec(R, dx[:3]), spin]) - twist
        return self.stiffness * away + self.damping * slower


def total(loads: tuple[Load, ...], t: Any, R: Float[Array, "bodies 3 3"]) -> Float[Array, "bodies 6"]:
    """Wrenches of all the loads on all the bodies, in their frames."""
    out = jnp.zeros((R.shape[0], 6))
    for load in loads:
        which = np.array(load.bodies)
        part = load.wrenches(t, pick(R, which))
        out = out + spread(part, which, jnp.zeros((R.shape[0], 6)))
    return out
