"""Solvers of the contact problem: impulses P and velocities g = Z^T (w + Z P) + offset with -g in N_C(P), contact by contact.

Z comes out of the factorisation of the inertia (H = U^T U, Z = U^-T J^T), so that the matrix G = Z^T Z of the problem is never
formed. P solves it exactly if it is the projection on C of P - r g for any r > 0 (document 003, (77)-(79)).
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from undula.contact.laws import ContactLaw
from undula.lie.small import matvec, tmatvec

RELAX = 0.98  # the step of the accelerated solver grows by this factor from one time step to the next
PATIENCE, FAR = 200, 1e-3  # iterations after which a larger residual means that the solver turns in circles
LONG = 1000  # iterations after which any residual does


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


class _Turn(NamedTuple):
    P: Array
    ZP: Array
    Y: Array  # P and its velocity, carried on by the momentum
    ZY: Array
    theta: Array
    step: Array
    count: Int[Array, ""]
    residual: Array
    done: Bool[Array, ""]


class AcceleratedProx(ContactSolver):
    """Nesterov's accelerated projection with restarts, without the matrix G: the quickest here for a few dozen contacts.

    Its step is found on the way: a factor on the diagonal of G, raised where the curvature shows that it is too small.
    Coulomb's friction is no potential: where it is strongly coupled with the normal impulses, what accelerates may turn in
    circles. If the residual does not fall, the step is made shorter.
    """

    def solve(self, problem, guess, memory):
        D, Z, w = problem.metric(), problem.Z, problem.w
        inverse = 1 / D
        enough = float(
            len(D)
        )  # the trace: no curvature is larger; measured ones may be, of changes as small as rounding

        def turn(s: _Turn) -> _Turn:
            g = jnp.dot(w + s.ZY, Z) + problem.offset
            P = problem.project(s.Y - g * (inverse / s.step))
            ZP = jnp.dot(Z, P)  # of this size quicker than a sum of products
            change, moved = P - s.Y, ZP - s.ZY
            curvature, bound = (moved * moved).sum(), (D * change * change).sum()
            fits = (curvature <= s.step * bound * (1 + 1e-9)) | (s.step >= enough)
            ratio = curvature / jnp.where(bound > 0, bound, 1.0)
            step = jnp.where(fits, s.step, jnp.minimum(jnp.maximum(1.05 * ratio, 1.2 * s.step), enough))
            # momentum, forgotten where it points uphill
            uphill = ((s.Y - P) * D * (P - s.P)).sum() > 0
            residual = s.step * jnp.abs(change).max(initial=0.0)
            size = problem.scale(P)
            left = residual / jnp.where(size > 0, size, 1.0)
            count = s.count + 1
            stuck = (count % PATIENCE == 0) & ((left > FAR) | (count >= LONG))
            step = jnp.where(stuck, jnp.minimum(4 * step, enough), step)
            anew = uphill | stuck
            theta = jnp.where(anew, 1.0, (1 + jnp.sqrt(1 + 4 * s.theta**2)) / 2)
            beta = jnp.where(anew, 0.0, (s.theta - 1) / theta)
            done = fits & (residual <= self.tolerance * size)
            out = P, ZP, P + beta * (P - s.P), ZP + beta * (ZP - s.ZP), theta
            kept = s.P, s.ZP, s.Y, s.ZY, s.theta
            new = (jnp.where(fits, a, b) for a, b in zip(out, kept))
            return _Turn(*new, step, count, left, done | (count >= self.most))

        start = problem.closed * guess
        one, zero = jnp.ones(()), jnp.zeros(())
        v = jnp.dot(Z, start)
        none = problem.closed.sum() == 0
        first = _Turn(start, v, start, v, one, jnp.minimum(memory, enough), jnp.zeros((), int), zero, none)
        out = jax.lax.while_loop(lambda s: ~s.done, turn, first)
        # what is at rest keeps its step
        return Solved(out.P, jnp.where(out.count > 1, RELAX * out.step, out.step), out.count, out.residual)


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
