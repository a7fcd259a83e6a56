"""Nesterov's accelerated projection with restarts: one definition of the iteration, for arrays of any arrangement of the rows.

It only adds, multiplies and sums vectors over the rows; what looks at single rows is asked of the problem. So a kernel that
keeps the problem in a form of its own does the same iteration.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

RELAX = 0.98  # the step of the accelerated solver grows by this factor from one time step to the next
PATIENCE, FAR = 200, 1e-3  # iterations after which a larger residual means that the solver turns in circles
LONG = 1000  # iterations after which any residual does


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


def accelerated(
    problem: Any, D: Array, guess: Array, memory: Array, tolerance: float, most: int
) -> tuple[Array, Array, Array, Array]:
    """Impulses, what is remembered of the step, iterations and residual.

    - `problem`: what `undula.contact.solvers.Problem` offers of `w`, `closed`, `size`, `effect`, `velocities`, `project` and
      `scale`; `D`: its metric.
    """
    w, inverse = problem.w, 1 / D
    enough = float(
        problem.size
    )  # the trace: no curvature is larger; measured ones may be, of changes as small as rounding

    def turn(s: _Turn) -> _Turn:
        g = problem.velocities(w + s.ZY)
        P = problem.project(s.Y - g * (inverse / s.step))
        ZP = problem.effect(P)
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
        done = fits & (residual <= tolerance * size)
        out = P, ZP, P + beta * (P - s.P), ZP + beta * (ZP - s.ZP), theta
        kept = s.P, s.ZP, s.Y, s.ZY, s.theta
        new = (jnp.where(fits, a, b) for a, b in zip(out, kept))
        return _Turn(*new, step, count, left, done | (count >= most))

    start = problem.closed * guess
    one, zero = jnp.ones(()), jnp.zeros(())
    v = problem.effect(start)
    none = problem.closed.sum() == 0
    first = _Turn(start, v, start, v, one, jnp.minimum(memory, enough), jnp.zeros((), int), zero, none)
    out = jax.lax.while_loop(lambda s: ~s.done, turn, first)
    # what is at rest keeps its step
    return out.P, jnp.where(out.count > 1, RELAX * out.step, out.step), out.count, out.residual
