"""Correction of impact instants. A fixed step detects an impact up to one step late, after some penetration.

By then the impulses should already have displaced the bodies by the velocity change times the elapsed time, and a body that
rebounds should have done so from its velocity at the impact. Both are corrected to first order in the elapsed time. The work of
the displacement is taken from the energy that the impact dissipates: energy does not grow.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from undula.contact.solve.problem import Problem, over_rows
from undula.core.arrays import Array

WITHIN = 1.01  # time steps back to which the instant of an impact can be reconstructed


class Corrected(NamedTuple):
    """Impulses (rows,) and their effect Z P (n,); `late` (n,): the displacement they should have caused, in the coordinates of
    Z; `drift` (contacts,): other depths, which do not open by themselves [m]."""

    P: Float[Array, "rows"]
    effect: Float[Array, "n"]
    late: Float[Array, "n"]
    drift: Float[Array, "contacts"]


def at_their_instants(
    problem: Problem,
    P: Float[Array, "rows"],
    gaps: Float[Array, "contacts"],
    before: Float[Array, "rows"],
    given: Float[Array, "rows"],
    dt: Any,
    fall: Any,
) -> Corrected:
    """The impulses had the impacts been detected at their instants.

    - `gaps` [m] in the middle of the step; depths below `fall` are ignored.
    - `before`: velocities at the start; `given`: at the end, without forces and impulses.
    """
    N = problem.normals(problem.Z)  # the instants follow from the normal motion
    before, given = problem.normals(before), problem.normals(given)
    free, turned = jnp.dot(problem.w, N), jnp.dot(problem.effect(P), N)
    into, deep = -before, -problem.normals(problem.closed) * gaps
    inside = deep > fall
    fresh = inside & (deep <= WITHIN * dt * into) & (turned > 0)
    since = jnp.where(fresh, deep / jnp.where(fresh, into, 1.0), 0.0)
    # since the impact, forces have accelerated a rebounding body; its velocities are half a step before and after
    e = jnp.concatenate([b.law.restitution for b in problem.blocks])
    ago = since / dt + (1 - e) / (1 + e) / 2
    quicker = jnp.where(fresh & (e > 0), -ago * free / jnp.where(fresh, into, 1.0), 0.0)
    P = P * over_rows(problem.blocks, 1 - jnp.clip(quicker, 0.0, 1.0))
    # part of the impulse balances the forces of the step: that part does not displace the body
    hit = jnp.where(fresh, (given + free + turned - before) / jnp.where(fresh, turned, 1.0), 0.0)
    late = problem.effect(over_rows(problem.blocks, since * hit) * P)
    effect = problem.effect(P)
    end = given + jnp.dot(problem.w + effect, N)
    drift = jnp.where(inside & ~fresh, jnp.maximum(deep - fall - dt * end, 0.0), 0.0)
    return Corrected(P, effect, late, drift)
