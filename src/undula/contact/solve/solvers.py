"""Solvers of the contact problem: impulses P and velocities g = Z^T (w + Z P) + offset with -g in N_C(P), contact by contact.

Z comes out of the factorisation of the inertia (H = U^T U, Z = U^-T J^T), so that the matrix G = Z^T Z of the problem is never
formed. P solves it exactly if it is the projection on C of P - r g for any r > 0 (document 003, (77)-(79)).
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from undula.contact.laws import ContactLaw
from undula.contact.solve import kernel
from undula.contact.solve.accelerated import accelerated
from undula.numerics import kernels
from undula.numerics.small import matvec, tmatvec


class Block(NamedTuple):
    """Contacts of one law in the vector of rows: `count` of them, from the row `first` on, all normals first."""

    law: ContactLaw
    first: int
    count: int

    @property
    def rows(self) -> int:
        return 1 + self.law.rows

    def take(self, x: Array) -> Float[Array, "rows count"]:
        """Their part of a vector over all rows."""
        return x[self.first : self.first + self.count * self.rows].reshape(self.rows, self.count)


def over_rows(blocks: tuple[Block, ...], x: Float[Array, "contacts"]) -> Float[Array, "rows"]:
    """A number for each contact, repeated for each of its rows."""
    parts, at = [jnp.zeros(0)], 0
    for b in blocks:
        parts.append(jnp.tile(x[at : at + b.count], b.rows))
        at += b.count
    return jnp.concatenate(parts)


class Problem(NamedTuple):
    """What a solver is given. `closed` (rows,): 1 for rows of closed contacts, 0 for those whose impulse is zero."""

    Z: Float[Array, "n rows"]
    w: Float[Array, "n"]
    offset: Float[Array, "rows"]
    closed: Float[Array, "rows"]
    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.Z.shape[1]

    def effect(self, P: Float[Array, "rows"]) -> Float[Array, "n"]:
        """Z P."""
        return jnp.dot(self.Z, P)  # of this size quicker than a sum of products

    def velocities(self, y: Float[Array, "n"]) -> Float[Array, "rows"]:
        """Z^T y + offset."""
        return jnp.dot(y, self.Z) + self.offset

    def project(self, x: Float[Array, "rows"]) -> Float[Array, "rows"]:
        """The nearest allowed impulses: the normal ones first, which the others depend on."""
        parts = []
        for b in self.blocks:
            own = b.take(x)
            normal = jnp.maximum(own[0], 0.0)
            rest = jax.vmap(lambda law, p, n: law.project(p, n), (0, -1, 0), -1)(b.law, own[1:], normal)
            parts.append(jnp.concatenate([normal, rest.reshape(-1)]))
        return self.closed * (parts[0] if len(parts) == 1 else jnp.concatenate(parts))

    def normals(self, x: Float[Array, "*n rows"]) -> Float[Array, "*n contacts"]:
        """The numbers of the normal rows."""
        return jnp.concatenate([x[..., b.first : b.first + b.count] for b in self.blocks], axis=-1)

    def metric(self) -> Float[Array, "rows"]:
        """Diagonal of G, its mean for rows that are projected together: the same however these are turned."""
        diagonal = (self.Z * self.Z).sum(0)
        parts = []
        for b in self.blocks:
            own, columns, at = b.take(diagonal), [], 0
            for size in (1, *b.law.blocks):
                columns += [own[at : at + size].mean(0)] * size
                at += size
            parts.append(jnp.concatenate(columns))
        whole = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return jnp.where(whole > 0, whole, 1.0)

    def scale(self, P: Float[Array, "rows"]) -> Float[Array, ""]:
        """Size of the largest impulse."""
        return jnp.abs(P).max(initial=0.0)


class Solved(NamedTuple):
    """Impulses [N s, N m s]; what the solver wants to remember; iterations; residual of the laws, relative to the impulses."""

    P: Float[Array, "rows"]
    memory: Float[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]


class ContactSolver(eqx.Module):
    """A solver of the contact problem. One of your own defines `solve`.

    - `tolerance`: of the laws' residual P - projection(P - g / diag G), relative to the largest impulse; `most`: iterations.
    """

    tolerance: float = eqx.field(static=True, default=1e-5, kw_only=True)
    most: int = eqx.field(static=True, default=2000, kw_only=True)

    @abc.abstractmethod
    def solve(self, problem: Problem, guess: Float[Array, "rows"], memory: Float[Array, ""]) -> Solved:
        """Impulses, from a guess and what the last time step remembered (1 at the start)."""


class AcceleratedProx(ContactSolver):
    """Nesterov's accelerated projection with restarts, without the matrix G: the quickest here for a few dozen contacts.

    Its step is found on the way: a factor on the diagonal of G, raised where the curvature shows that it is too small.
    Coulomb's friction is no potential: where it is strongly coupled with the normal impulses, what accelerates may turn in
    circles. If the residual does not fall, the step is made shorter.
    """

    def solve(self, problem, guess, memory):
        given = problem, problem.metric(), guess, memory, self.tolerance, self.most
        if kernels.available() and kernel.takes(problem):
            # what is moved to another device is solved there as a loop
            found = jax.lax.platform_dependent(cuda=lambda: kernel.solve(*given), default=lambda: accelerated(*given))
        else:
            found = accelerated(*given)
        return Solved(*found)


class GaussSeidel(ContactSolver):
    """One contact after the other, each with the impulses that the others have by then: the classical reference."""

    def solve(self, problem, guess, memory):
        D, Z, w = problem.metric(), problem.Z, problem.w

        def sweep(s):
            P, count, _, _ = s
            before, v = P, w + matvec(Z, P)
            for b in problem.blocks:
                P, v = jax.lax.fori_loop(0, b.count, self._one(problem, b, D), (P, v))
            residual, size = jnp.abs(P - before).max(initial=0.0), problem.scale(P)
            left = residual / jnp.where(size > 0, size, 1.0)
            done = (left <= self.tolerance) | (count + 1 >= self.most)
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
