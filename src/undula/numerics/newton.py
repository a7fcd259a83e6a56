"""Newton's method for the balance of a time step, with the exact tangent or a matrix that is reused and updated."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from undula.core.arrays import Array
from undula.numerics import dense
from undula.numerics.loops import unrolled
from undula.numerics.pattern import Pattern
from undula.numerics.small import matvec, outer, tmatvec

# x -> (residual, size of the efforts that it is the difference of, supplied power)
Balance = Callable[[Float[Array, "n"]], tuple[Float[Array, "n"], Float[Array, ""], Float[Array, ""]]]

POOR = 0.7  # a reused matrix that does not reduce the residual by this factor is recomputed
STILL = 1e-13  # relative change of x below which the iteration has stalled


class Options(NamedTuple):
    """Tolerance of the residual relative to the efforts, limit of iterations, whether to use the exact tangent."""

    tolerance: float
    max_iterations: int
    full: bool


def columns_of(linear: Callable[[Array], Array], n: int) -> Float[Array, "m n"]:
    """Matrix of a linear function: all columns at once on a GPU, one after the other on a CPU."""
    each = jax.vmap if unrolled(2) > 1 else lambda f: lambda x: jax.lax.map(f, x)
    return each(linear)(jnp.eye(n)).T


class _Search(NamedTuple):
    """Iteration state. `phase`: -2 before the first residual, -1 at a Newton point, 0.. at the columns of a colour."""

    x: Array
    residual: Array
    size: Array
    scale: Array
    power: Array
    at: Array  # where the balance is evaluated next
    inverse: Array
    matrix: Array
    phase: Int[Array, ""]
    iterations: Int[Array, ""]
    fresh: Bool[Array, ""]  # whether the matrix was computed at the last point
    done: Bool[Array, ""]
    good: Bool[Array, ""]


def newton(
    balance: Balance,
    guess: Array,
    inverse: Array,
    made_for: Any,
    dt: Any,
    width: Any,
    sparse: Pattern,
    options: Options,
):
    """Returns (x, (inverse, the step length that it was computed for, size of the efforts, iterations, relative
    residual,
    whether it converged, power)).

    `inverse` (b, m, m): of an earlier matrix, for steps of length `made_for` [s] (0: none); `width`: a typical size of
    x; `sparse`: which residuals depend on which unknowns, and the blocks.
    """
    if options.full:
        out = _full(balance, guess, inverse, sparse, options)
    else:
        out = _modified(balance, guess, inverse, jnp.abs(made_for - dt) > 1e-9 * dt, width, sparse, options)
    left = out.size / jnp.where(out.scale > 0, out.scale, 1.0)
    # floats, as required of the auxiliary output of a differentiated root
    return out.x, (
        out.inverse,
        jnp.asarray(dt, dtype=float),
        out.scale,
        out.iterations.astype(float),
        left,
        out.good.astype(float),
        out.power,
    )


def _begin(guess: Array, inverse: Array) -> _Search:
    zero, no = jnp.zeros(()), jnp.zeros((), bool)
    start = jnp.asarray(-2), jnp.asarray(0)
    return _Search(guess, 0 * guess, zero, zero, zero, guess, inverse, 0 * inverse, *start, no, no, no)


def _full(balance: Balance, guess: Array, inverse: Array, sparse: Pattern, options: Options) -> _Search:
    n = guess.shape[0]
    index = sparse.blocks

    def iterate(s: _Search) -> _Search:
        (r, scale, power), linear = jax.linearize(balance, s.at)
        size = jnp.abs(r).max()
        matrix = columns_of(lambda u: linear(u)[0], n)
        inverse = jax.vmap(dense.inverse)(matrix[index[:, :, None], index[:, None]])
        step = sparse.join(jax.vmap(matvec)(inverse, sparse.split(r)))
        still = jnp.abs(s.at - s.x).max() <= STILL * jnp.abs(s.at).max()
        good = (size <= options.tolerance * scale) | (still & (s.iterations > 0))
        done = good | (s.iterations >= options.max_iterations) | ~jnp.isfinite(size)
        iterations = s.iterations + ~done
        at = jnp.where(done, s.at, s.at - step)
        return s._replace(
            x=s.at, residual=r, size=size, scale=scale, power=power, at=at, inverse=inverse, iterations=iterations,
            done=done, good=good,
        )  # fmt: skip

    return jax.lax.while_loop(lambda s: ~s.done, iterate, _begin(guess, inverse))


def _modified(
    balance: Balance, guess: Array, inverse: Array, old: Any, width: Any, sparse: Pattern, options: Options
) -> _Search:
    """Evaluates one residual per iteration, whatever it is for, so that it is compiled only once."""
    colours, couples = jnp.asarray(sparse.colours), jnp.asarray(sparse.couples)
    split, join = sparse.split, sparse.join
    nudge = 1e-7 * (width + jnp.abs(guess).max())

    def iterate(s: _Search) -> _Search:
        y, scale, power = balance(s.at)
        size = jnp.abs(y).max()

        # finite differences d residual / d x_k, for all k of a colour
        column = split((y - s.residual) / nudge)
        matrix = jnp.where((colours == s.phase)[:, None] & couples, column[:, :, None], s.matrix)
        complete = s.phase == sparse.colour_count - 1

        # a Newton point: accepted unless it is worse and the matrix is an old one
        newton_point = s.phase == -1
        better = size < s.size
        taken = (s.phase == -2) | (newton_point & (better | s.fresh) & jnp.isfinite(size))
        x, r = jnp.where(taken, s.at, s.x), jnp.where(taken, y, s.residual)
        now, scale = jnp.where(taken, size, s.size), jnp.where(taken, scale, s.scale)
        power = jnp.where(taken, power, s.power)
        # an old matrix is recomputed, for one residual per colour, if at its pace more iterations would be needed
        pace = jnp.log(size / s.size)
        slow = ~(pace < jnp.log(POOR)) | (jnp.log(options.tolerance * scale / size) < (sparse.colour_count + 2) * pace)
        poor = newton_point & slow & ~s.fresh
        wild = newton_point & s.fresh & ~(size < 10 * s.size)  # also if not finite: try half of the step

        # Broyden's update of the inverse, from the last step and the change of the residual
        step, change = split(s.at - s.x), split(y - s.residual)
        seen = newton_point & jnp.isfinite(size)
        inverse = jax.vmap(lambda J, dx, dy: _corrected(J, dx, dy, seen))(s.inverse, step, change)
        inverse = jax.lax.cond(complete, lambda: jax.vmap(dense.inverse)(matrix), lambda: inverse)

        iterations = s.iterations + newton_point
        moved = jnp.abs(step).max() > STILL * jnp.abs(s.at).max()
        good = (s.phase < 0) & ((now <= options.tolerance * scale) | (newton_point & taken & ~moved))
        done = good | (iterations >= options.max_iterations) | ((s.phase == -2) & ~jnp.isfinite(size))
        start_columns = ((s.phase == -2) & old) | poor
        phase = jnp.where(start_columns, 0, jnp.where((s.phase >= 0) & ~complete, s.phase + 1, -1))
        to_newton = x - join(jax.vmap(matvec)(inverse, split(r)))
        at = jnp.where(phase >= 0, x + nudge * join((colours == phase).astype(x.dtype)), to_newton)
        at = jnp.where(wild, (s.x + s.at) / 2, at)
        before = s.x, s.residual, s.size, s.scale, s.power
        x, r, now, scale, power = (jnp.where(wild, a, b) for a, b in zip(before, (x, r, now, scale, power)))
        fresh = complete | wild
        return _Search(x, r, now, scale, power, at, inverse, matrix, phase, iterations, fresh, done, good)

    return jax.lax.while_loop(lambda s: ~s.done, iterate, _begin(guess, inverse))


def _corrected(inverse: Float[Array, "m m"], step: Array, change: Array, seen: Any) -> Float[Array, "m m"]:
    """The inverse of the nearest matrix that maps `step` to `change` (Broyden); unchanged if ill-conditioned."""
    back = matvec(inverse, change)
    denominator = (step * back).sum()
    usable = seen & (jnp.abs(denominator) > 1e-3 * (step * step).sum())
    gain = outer((step - back) / jnp.where(usable, denominator, 1.0), tmatvec(inverse, step))
    return jnp.where(usable, inverse + gain, inverse)
