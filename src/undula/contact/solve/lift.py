"""Displacements that remove penetration, paid for with the energy that contacts dissipate."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Float

from undula.contact.solve.problem import Problem
from undula.core.arrays import Array
from undula.numerics import dense

LIFTED = 0.2  # fraction of the drift removed per step: gradually, so that contacts stay closed
PAID = 0.25  # fraction of the kinetic energy that a step may use to remove penetration


def lifted(
    problem: Problem,
    U: Float[Array, "n n"],
    late: Float[Array, "n"],
    drift: Float[Array, "contacts"],
    pushed: Float[Array, "n"],
    ahead: Float[Array, "n"],
    lost: Float[Array, ""],
    dt: Any,
    slows: bool,
) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """U^-1 `pushed`, the change of the velocities, and a displacement that removes penetration without adding energy.

    `late`: U times the displacement that the impulses would have caused had they acted at the instants of impact. Motion along
    a curved surface also drifts into it: a fraction of such depths (`drift`) is removed in each step, along the gradient of
    their sum of squares. The work is taken from the energy that the contacts dissipate (`lost`, which includes what the bodies
    gained while penetrating), then from the motion, if it may be slowed down (`slows`); a body at rest stays where it is.
    `ahead`: the velocities at the end without forces and impulses.
    """
    N, scale = problem.normals(problem.Z), problem.normals(problem.metric())
    y = jnp.dot(N, drift / scale)
    reach = jnp.dot(y, N)
    y = late + LIFTED * y * jnp.minimum(ratio((reach * drift).sum(), (reach * reach).sum()), 1.0)
    work = jnp.maximum(-(problem.w * y).sum() / dt, 0.0)
    gain, lift = dense.back_substituted(U, jnp.stack([pushed, y], axis=1)).T
    after = ahead + gain
    if not slows:
        budget, slower = lost, jnp.ones(())
    else:
        moving = U @ after
        kinetic = (moving * moving).sum() / 2
        budget = lost + PAID * kinetic
        slower = jnp.sqrt(1 - ratio(jnp.maximum(jnp.minimum(work, budget) - lost, 0.0), kinetic))
    part = jnp.where(work > budget, ratio(budget, work), 1.0)
    return slower * after - ahead, part * lift


def ratio(a: Float[Array, ""], b: Float[Array, ""]) -> Float[Array, ""]:
    """a / b, or 0 where b is 0."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 0.0)
