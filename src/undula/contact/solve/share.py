"""Load sharing between contacts where rigid contact does not determine it: as between supports of equal stiffness.

A flat robot on many spheres is statically indeterminate. Of all normal impulses with the same effect on the motion, those with
the least sum of squares are taken (each weighted with the contact's own mass), and friction in proportion: a rule that does not
depend on the history. It acts on the initial guess of the solver, and only while contacts move: at rest, impulses that already
balance everything are left alone.
"""

import jax.numpy as jnp
from jaxtyping import Bool, Float

from undula.contact.solve.problem import Problem
from undula.core.arrays import Array
from undula.numerics import dense

STILL = 1e-3  # contacts with velocities below this fraction of what the forces of a step would add are at rest


def at_rest(problem: Problem) -> Bool[Array, ""]:
    """Whether the contacts move only by what the forces of the step add."""
    push, moves = (
        jnp.abs(problem.closed * x).max(initial=0.0) for x in (jnp.dot(problem.w, problem.Z), problem.offset)
    )
    return moves <= STILL * push


def shared(problem: Problem, guess: Float[Array, "rows"]) -> Float[Array, "rows"]:
    """The guess with evenly shared normal impulses; if it is zero, those that balance the load on the contacts."""
    guess = problem.closed * guess
    if sum(b.count for b in problem.blocks) < 2:
        return guess
    push = problem.closed * jnp.dot(problem.w, problem.Z)
    N, before = problem.normals(problem.closed * problem.Z), problem.normals(guess)
    G = jnp.dot(N.T, N)
    soft = jnp.finfo(G.dtype).eps ** 0.5  # compliance of the supports relative to that of the bodies
    cold = before.max() <= 0
    wanted = jnp.where(cold, -problem.normals(push + problem.closed * problem.offset), jnp.dot(G, before))
    U, y = dense.factor(G + jnp.diag(soft * problem.normals(problem.metric())), wanted[:, None])
    after = jnp.maximum(dense.back_substituted(U, y)[:, 0], 0.0)
    parts, at = [], 0
    for b in problem.blocks:
        own, new = b.take(guess), after[at : at + b.count]
        ratio = new / jnp.where(own[0] > 0, own[0], 1.0)
        parts += [new, (own[1:] * ratio).reshape(-1)]
        at += b.count
    return jnp.where(at_rest(problem) & ~cold, guess, problem.closed * jnp.concatenate(parts))
