"""Nesterov's accelerated projection with restarts, written independently of how the rows are stored.

Vectors over the rows are trees of arrays: one array, or one per kind of rows. Here they are only combined entry by entry and
summed; whatever depends on single rows is delegated to the problem. So a kernel with its own storage of the problem runs the
same iteration.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int

from undula.core.arrays import Array

RELAX = (
    0.98  # factor on the curvature estimate from one time step to the next, so that the solver's step can grow again
)
PATIENCE, FAR = 200, 1e-3  # iterations after which a larger residual is taken as cycling
LONG = 1000  # iterations after which any residual above the tolerance is

Rows = Any  # a tree of arrays
each = jax.tree.map


class _Iterate(NamedTuple):
    P: Rows
    ZP: Array
    Y: Rows  # P and ZP extrapolated by the momentum
    ZY: Array
    theta: Array
    step: Array
    iterations: Int[Array, ""]
    residual: Array
    done: Bool[Array, ""]


def accelerated(
    problem: Any, D: Rows, guess: Rows, memory: Array, tolerance: float, max_iterations: int
) -> tuple[Rows, Array, Array, Array]:
    """Impulses, the memory for the next time step, iterations and residual.

    - `problem`: has the `w`, `closed`, `size`, `effect`, `velocities` and `project` of `Problem`;
      `D`: its metric.
    """
    w, inverse = problem.w, each(lambda d: 1 / d, D)
    # the trace bounds every curvature; measured ones may exceed it when the changes are as small as rounding errors
    enough = float(problem.size)

    def iterate(s: _Iterate) -> _Iterate:
        g = problem.velocities(w + s.ZY)
        P = problem.project(each(lambda y, g, i: y - g * (i / s.step), s.Y, g, inverse))
        ZP = problem.effect(P)
        change, moved = each(operator.sub, P, s.Y), ZP - s.ZY
        curvature, bound = (moved * moved).sum(), _sum(lambda d, c: d * c * c, D, change)
        fits = (curvature <= s.step * bound * (1 + 1e-9)) | (s.step >= enough)
        ratio = curvature / jnp.where(bound > 0, bound, 1.0)
        step = jnp.where(fits, s.step, jnp.minimum(jnp.maximum(1.05 * ratio, 1.2 * s.step), enough))
        # momentum, reset where it points uphill
        uphill = _sum(lambda y, p, d, q: (y - p) * d * (p - q), s.Y, P, D, s.P) > 0
        residual = s.step * largest(change)
        size = largest(P)
        left = residual / jnp.where(size > 0, size, 1.0)
        count = s.iterations + 1
        stuck = (count % PATIENCE == 0) & ((left > FAR) | (count >= LONG))
        step = jnp.where(stuck, jnp.minimum(4 * step, enough), step)
        anew = uphill | stuck
        theta = jnp.where(anew, 1.0, (1 + jnp.sqrt(1 + 4 * s.theta**2)) / 2)
        beta = jnp.where(anew, 0.0, (s.theta - 1) / theta)
        done = fits & (residual <= tolerance * size)
        further = each(lambda p, q: p + beta * (p - q), (P, ZP), (s.P, s.ZP))
        out = P, ZP, *further, theta
        kept = s.P, s.ZP, s.Y, s.ZY, s.theta
        new: tuple[Any, Any, Any, Any, Any] = each(lambda a, b: jnp.where(fits, a, b), out, kept)
        return _Iterate(*new, step, count, left, done | (count >= max_iterations))

    start = each(operator.mul, problem.closed, guess)
    one, zero = jnp.ones(()), jnp.zeros(())
    v = problem.effect(start)
    none = _sum(lambda x: x, problem.closed) == 0
    first = _Iterate(start, v, start, v, one, jnp.minimum(memory, enough), jnp.zeros((), int), zero, none)
    out = jax.lax.while_loop(lambda s: ~s.done, iterate, first)
    # a system at rest keeps its step
    return out.P, jnp.where(out.iterations > 1, RELAX * out.step, out.step), out.iterations, out.residual


def largest(x: Rows) -> Array:
    """The largest absolute value."""
    return functools.reduce(jnp.maximum, map(jnp.abs, jax.tree.leaves(x))).max(initial=0.0)


def _sum(f: Callable, *vectors: Rows) -> Array:
    """Sum of f over all rows."""
    return functools.reduce(operator.add, jax.tree.leaves(each(f, *vectors))).sum()
