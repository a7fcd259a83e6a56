"""Solvers of the contact problem."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from undula.contact.solve import kernel
from undula.contact.solve.accelerated import accelerated
from undula.contact.solve.problem import Block, Problem
from undula.core.arrays import Array
from undula.core.errors import real, whole
from undula.numerics import kernels
from undula.numerics.small import matvec, tmatvec


class Solved(NamedTuple):
    """Impulses [N s, N m s]; the solver's memory; iterations; residual of the laws, relative to the impulses."""

    P: Float[Array, "rows"]
    memory: Float[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]


class ContactSolver(eqx.Module):
    """A solver of the contact problem. A custom solver defines `solve`.

    - `tolerance` on the residual of the laws P - projection(P - g / diag G), relative to the largest impulse;
      `max_iterations`: limit on the number of iterations.
    """

    tolerance: float = eqx.field(static=True, default=1e-5, kw_only=True)
    max_iterations: int = eqx.field(static=True, default=2000, kw_only=True)

    def __check_init__(self):
        real(self.tolerance, "tolerance of a contact solver", above=0.0, high=1.0)
        whole(self.max_iterations, "max_iterations of a contact solver", at_least=1)

    @abc.abstractmethod
    def solve(self, problem: Problem, guess: Float[Array, "rows"], memory: Float[Array, ""]) -> Solved:
        """Impulses, from a guess and the memory of the last time step (1 at the start)."""


class AcceleratedProx(ContactSolver):
    """Nesterov's accelerated projection with restarts, without forming G: the fastest one here for a few dozen contacts.

    The step size is found adaptively: a factor on the diagonal of G, raised where the measured curvature exceeds it. Coulomb
    friction does not derive from a potential: where it is strongly coupled with the normal impulses, the accelerated iteration
    may cycle. If the residual does not fall, the step is shortened.
    """

    def solve(self, problem, guess, memory):
        given = problem, problem.metric(), guess, memory, self.tolerance, self.max_iterations
        if kernels.available() and kernel.takes(problem):
            # a computation moved to another device uses the loop
            found = jax.lax.platform_dependent(cuda=lambda: kernel.solve(*given), default=lambda: accelerated(*given))
        else:
            found = accelerated(*given)
        return Solved(*found)


class GaussSeidel(ContactSolver):
    """Contact-by-contact sweeps with the latest impulses of the others: the classical reference."""

    def solve(self, problem, guess, memory):
        D, Z, w = problem.metric(), problem.Z, problem.w

        def sweep(s):
            P, count, _, _ = s
            before, v = P, w + matvec(Z, P)
            for b in problem.blocks:
                P, v = jax.lax.fori_loop(0, b.count, self._one(problem, b, D), (P, v))
            residual, size = jnp.abs(P - before).max(initial=0.0), problem.scale(P)
            left = residual / jnp.where(size > 0, size, 1.0)
            done = (left <= self.tolerance) | (count + 1 >= self.max_iterations)
            return P, count + 1, left, done

        start = problem.closed * guess, jnp.zeros((), int), jnp.zeros(()), problem.closed.sum() == 0
        P, count, residual, _ = jax.lax.while_loop(lambda s: ~s[3], sweep, start)
        return Solved(P, memory, count, residual)

    def _one(self, problem: Problem, b: Block, D: Array) -> Any:
        """The update of one contact of a block, and of the velocities."""
        k = b.rows

        def update(i, carry):
            P, v = carry
            at = b.first + i + b.count * jnp.arange(k)
            Zi = problem.Z[:, at]
            own, offset, d, closed = (x[at] for x in (P, problem.offset, D, problem.closed))
            x = own - (tmatvec(Zi, v) + offset) / d
            law = jax.tree.map(lambda x: x[i], b.law)
            normal = jnp.maximum(x[:1], 0.0)
            new = closed * jnp.concatenate([normal, law.project(x[1:], normal[0])])
            return P.at[at].set(new), v + matvec(Zi, new - own)

        return update
