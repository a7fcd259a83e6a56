"""Implicit derivatives of the impulses at the solution; the iterations of the solver are not differentiated.

The solution is a fixed point, P = project(P - g(P) / D), and its derivative follows from this equation, contact by contact
(sticking: no change of the velocity; sliding: friction turns with the slip and grows with the normal impulse; open: nothing).
Where the equation does not determine it, because rigid contact does not determine how the load is shared, the sharing rule
does; its derivative is exact as long as the impulses follow that rule.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Float

from undula.contact.solve.problem import Problem
from undula.contact.solve.share import shared
from undula.contact.solve.solvers import ContactSolver, Solved
from undula.core.arrays import Array
from undula.numerics.checkpoint import SOLUTION

SHARES = 1e-3  # weight of the sharing rule, which decides where the laws do not
LOOSE = 1e-12  # regularisation: components that neither determines do not change


@eqx.filter_custom_jvp
def solved(problem: Problem, guess: Float[Array, "rows"], memory: Float[Array, ""], solver: ContactSolver) -> Solved:
    """The solver's solution; see `ContactSolver.solve`."""
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
    # in the solver's metric, so that the choice of units does not matter
    root = jnp.sqrt(D)

    def without(function):  # identity minus the Jacobian of the function
        return jnp.eye(len(D)) - jax.jacfwd(lambda x: root * function(x / root))(root * P)

    K, L = without(lambda x: update(problem, x)), SHARES * without(lambda x: shared(problem, x))
    right = K.T @ (root * direct) + L.T @ (SHARES * root * shares)
    step = jnp.linalg.solve(K.T @ K + L.T @ L + LOOSE * jnp.eye(len(D)), right)
    zero = jnp.zeros(())
    return found, Solved(step / root, zero, None, zero)  # type: ignore[arg-type]  # an integer has no tangent
