"""Derivatives of the impulses, at the solution: what a solver did to find it is not differentiated.

The solution is a fixed point, P = project(P - g(P) / D): its derivative is that of the equation, contact by contact what the
law says there (sticks: no change of the velocity; slides: friction turns with the slip and grows with the normal impulse; open:
nothing). Where that leaves something open, because the contacts share a load that rigid bodies do not distribute, the rule of
their shares decides, whose derivative is exact as long as the impulses follow it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from undula.contact.solve.share import shared
from undula.contact.solve.solvers import ContactSolver, Problem, Solved
from undula.tree.problem import SOLUTION

SHARES = 1e-3  # weight of the rule of the shares: it decides where the laws do not
LOOSE = 1e-12  # what neither decides does not change


@eqx.filter_custom_jvp
def solved(problem: Problem, guess: Float[Array, "rows"], memory: Float[Array, ""], solver: ContactSolver) -> Solved:
    """What the solver finds; see `ContactSolver.solve`."""
    return solver.solve(problem, guess, memory)


@solved.def_jvp
def _solved_jvp(primals, tangents):
    problem, guess, memory, solver = primals
    found = solved(problem, guess, memory, solver)
    P = checkpoint_name(found.P, SOLUTION)
    found = found._replace(P=P)
    D = problem.metric()

    def update(problem: Problem, P: Array) -> Array:
        g = jnp.dot(problem.w + jnp.dot(problem.Z, P), problem.Z) + problem.offset
        return problem.project(P - g / D)

    numbers, rest = eqx.partition(problem, eqx.is_inexact_array)
    changes = jax.tree.map(lambda x, d: jnp.zeros_like(x) if d is None else d, numbers, tangents[0])

    def at_fixed_impulses(numbers):
        problem = eqx.combine(numbers, rest)
        return update(problem, P), shared(problem, P)

    direct, shares = jax.jvp(at_fixed_impulses, (numbers,), (changes,))[1]
    # in the metric of the solver, so that no unit counts more than another
    root = jnp.sqrt(D)

    def without(function):  # rows that say: no change beyond that of the function
        return jnp.eye(len(D)) - jax.jacfwd(lambda x: root * function(x / root))(root * P)

    K, L = without(lambda x: update(problem, x)), SHARES * without(lambda x: shared(problem, x))
    right = K.T @ (root * direct) + L.T @ (SHARES * root * shares)
    step = jnp.linalg.solve(K.T @ K + L.T @ L + LOOSE * jnp.eye(len(D)), right)
    zero = jnp.zeros(())
    return found, Solved(step / root, zero, None, zero)
