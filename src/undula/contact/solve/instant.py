"""Impacts at their instants. A step finds an impact when it has happened, up to a step late, some way inside.

By then, its impulses should have moved the bodies already, by the time since then times what they change the velocities by; and
what leaves again should have come with the velocity of that instant. Both are put right, to first order in that time. The work
of the displacement is part of what the impact dissipates: energy does not grow.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.contact.solve.solvers import Problem, over_rows

WITHIN = 1.01  # steps within which an impact must have happened for its instant to be known


class Corrected(NamedTuple):
    """Impulses (rows,) and their effect Z P (n,); `late` (n,): what they should have moved the bodies by, in the coordinates of
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
    """The impulses as they should have been.

    - `gaps` [m] in the middle of the step; those above -`fall` are none.
    - `before`: velocities at the start; `given`: at the end, without forces and impulses.
    """
    N = problem.normals(problem.Z)  # what happens along the normals says when
    before, given = problem.normals(before), problem.normals(given)
    free, turned = jnp.dot(problem.w, N), jnp.dot(problem.effect(P), N)
    into, deep = -before, -problem.normals(problem.closed) * gaps
    inside = deep > fall
    fresh = inside & (deep <= WITHIN * dt * into) & (turned > 0)
    since = jnp.where(fresh, deep / jnp.where(fresh, into, 1.0), 0.0)
    # forces have made what leaves again quicker since then; its velocities are those half a step before and behind
    e = jnp.concatenate([b.law.restitution for b in problem.blocks])
    ago = since / dt + (1 - e) / (1 + e) / 2
    quicker = jnp.where(fresh & (e > 0), -ago * free / jnp.where(fresh, into, 1.0), 0.0)
    P = P * over_rows(problem.blocks, 1 - jnp.clip(quicker, 0.0, 1.0))
    # the impulse holds against the forces of the step, too: that part does not move the body
    hit = jnp.where(fresh, (given + free + turned - before) / jnp.where(fresh, turned, 1.0), 0.0)
    late = problem.effect(over_rows(problem.blocks, since * hit) * P)
    effect = problem.effect(P)
    end = given + jnp.dot(problem.w + effect, N)
    drift = jnp.where(inside & ~fresh, jnp.maximum(deep - fall - dt * end, 0.0), 0.0)
    return Corrected(P, effect, late, drift)
