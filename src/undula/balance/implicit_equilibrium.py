"""Equilibria inside functions that JAX transforms: found in one compiled loop, differentiated implicitly.

At an equilibrium r(x, s) = A^T lambda and the gaps vanish, for any numbers s of the system. The derivative of x is that of this
root (implicit function theorem), whatever method found it: one linear system with the tangent stiffness, bordered by the rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from undula.balance.look import constant
from undula.core.arrays import Array
from undula.model.state import State, displaced
from undula.model.system import System
from undula.numerics.held import shortest
from undula.numerics.newton import columns_of
from undula.numerics.pick import spread
from undula.numerics.row_space import RowSpace, decompose
from undula.tree.driven import configurations_of, driven_motion

FIRST, FEW = 0.02, 8  # first load increment, and the iterations of a level: more would mean a jump to another branch
SMALLEST = 1e-3  # load increment, relative to the full load, below which the search gives up
SINGULAR = 1e-13  # ratio of singular values of a scaled tangent below which it has no inverse


class TracedEquilibrium(NamedTuple):
    """An equilibrium inside a traced function: `state` and `reactions` can be differentiated; all are NaN if none was found.

    Derivatives are NaN where the equilibrium is not isolated: at a critical load, or if the system can move freely.
    The other fields of `Equilibrium` have shapes that depend on the rank of the constraints, so they do not exist here.
    """

    state: State
    residual: Float[Array, ""]
    iterations: Int[Array, ""]
    reactions: Float[Array, "rows"]


class Terms(NamedTuple):
    """At a configuration: imbalance over the unknowns, rows over them, size of the efforts, gaps."""

    r: Float[Array, "n"]
    A: Float[Array, "rows n"]
    size: Float[Array, ""]
    gap: Float[Array, "rows"]


# The terms of a system at a state, at time t, under a fraction of the loads
TermsOf = Callable[[System, State, Any, Any], Terms]


class _Search(NamedTuple):
    """Iteration state: the current point, the step from it and the fraction of it to be tried; the load `part`, the last one
    that was balanced, `done`, in the state `saved`, and the increment. `fresh`: the trial must be taken, as the first one at
    its load; `limit`: of `tried`, the iterations at this load."""

    at: State
    left: Array
    step: Array
    fraction: Array
    saved: State
    part: Array
    done: Array
    increment: Array
    fresh: Bool[Array, ""]
    tried: Int[Array, ""]
    limit: Int[Array, ""]
    total: Int[Array, ""]
    ended: Bool[Array, ""]
    good: Bool[Array, ""]


def searched(
    terms: TermsOf,
    measure: Any,
    system: System,
    bare: State,
    start: State | None,
    t: Any,
    tolerance: Any,
    max_iterations: int,
) -> tuple[State, Array, Array]:
    """The equilibrium (state, residual, iterations) that Newton's method finds from `start`; if it fails, or without a start,
    by increasing the load from zero. NaN if both fail. `measure` (Terms, K) -> the relative residual."""
    which = system.topology.unknown
    n = len(which)
    zero, no = jnp.zeros(()), jnp.zeros((), bool)

    def look(state, part):
        def near(x):
            return terms(system, _displaced(system, state, x), t, part)

        here, linear = jax.linearize(near, jnp.zeros(n))
        space = decompose(here.A)
        reactions = space.W.T @ (space.Q @ here.r)

        def column(u):
            change = linear(u)
            return change.r - reactions @ change.A

        K = columns_of(column, n)
        balanced = here._replace(r=here.r - reactions @ here.A)
        right = jnp.concatenate([-balanced.r, -space.W @ here.gap])
        step = jnp.linalg.lstsq(_bordered(K, space), right, rcond=1e-13)[0][:n]
        left = measure(balanced, K)
        return jnp.where(jnp.isfinite(left), left, jnp.inf), jnp.where(jnp.isfinite(step), step, 0.0)

    def iterate(s: _Search) -> _Search:
        trial = _displaced(system, s.at, s.fraction * s.step)
        left, step = look(trial, s.part)
        taken = (s.fresh | (left < (1 - 1e-4 * s.fraction) * s.left)) & (left < jnp.inf)
        at, left = _either(taken, trial, s.at), jnp.where(taken, left, s.left)
        tried, fraction = s.tried + (taken & ~s.fresh), jnp.where(taken, 1.0, s.fraction / 2)
        balanced = taken & (left <= tolerance)
        stuck = ~balanced & ((fraction <= 1e-3) | (tried >= s.limit) | ~taken & s.fresh)
        level = balanced | stuck
        saved, done = _either(balanced, at, s.saved), jnp.where(balanced, s.part, s.done)
        smaller = jnp.where(s.limit > FEW, FIRST, s.increment / 3)
        increment = jnp.where(balanced, 2 * s.increment, jnp.where(stuck, smaller, s.increment))
        good = balanced & (s.part >= 1)
        return _Search(
            at=_either(level & ~good, saved, at),
            left=left,
            step=jnp.where(level, 0.0, jnp.where(taken, step, s.step)),
            fraction=jnp.where(level, 1.0, fraction),
            saved=saved,
            part=jnp.where(level & ~good, jnp.minimum(1.0, done + increment), s.part),
            done=done,
            increment=increment,
            fresh=level,
            tried=jnp.where(level, 0, tried),
            limit=jnp.where(level, FEW, s.limit),
            total=s.total + (taken & ~s.fresh),
            ended=good | (stuck & (increment < SMALLEST)),
            good=good,
        )

    part = jnp.asarray(FIRST if start is None else 1.0)
    limit = jnp.asarray(FEW if start is None else max(max_iterations, FEW + 1))
    none, first = jnp.asarray(0), bare if start is None else start
    begin = _Search(
        first, zero + jnp.inf, jnp.zeros(n), zero + 1.0, bare, part, zero, part, ~no, none, limit, none, no, no
    )
    out = jax.lax.while_loop(lambda s: ~s.ended, iterate, begin)
    nothing = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), out.at)
    return _either(out.good, out.at, nothing), jnp.where(out.good, out.left, jnp.nan), out.total


def differentiable(terms: TermsOf, system: System, start: State, found: State, t: Any) -> tuple[State, Array]:
    """The equilibrium `found` and its reactions, as functions of the system, of what is given in `start`, and of t."""
    which, ideal = system.topology.unknown, bool(system.ideal)
    n = len(which)
    near = _given(system, start, found, t)
    still = jax.lax.stop_gradient(terms(system, near, t, 1.0))
    space = constant(decompose(still.A))
    rows = len(space.active)
    reactions = space.W.T @ (space.Q @ still.r)
    rolling = jnp.asarray(_without_gap(system))

    def imbalance(y):
        x, more = y[:n], y[n:]
        here = terms(system, _displaced(system, near, x), t, 1.0)
        if not ideal:
            return here.r
        closed = here.gap + rolling * (still.A @ x)
        r = here.r - (reactions + space.W.T @ more) @ here.A
        return jnp.concatenate([r, space.W @ closed + (1 - space.active) * more])

    def solved(linear, right):
        matrix = columns_of(linear, n + rows)
        return jnp.linalg.solve(matrix, right) * jnp.where(_is_singular(matrix), jnp.nan, 1.0)

    # the root is zero; it must seem to depend on the balance, as its derivative does: in `grad` of `vmap` of `jit`, JAX gives a
    # result the batch axis of its derivative only after it has traced everything that follows
    y = jax.lax.custom_root(imbalance, jnp.zeros(n + rows), lambda f, y: 0 * f(y), solved)
    state = _displaced(system, near, y[:n])
    if not ideal:
        return state, jnp.zeros(0)
    here = terms(system, state, t, 1.0)
    return state, shortest(constant(decompose(here.A.T)), here.A.T, here.r)


def _given(system: System, start: State, found: State, t: Any) -> State:
    """The state found, as a constant, in what is unknown; driven coordinates and a given base follow the system."""
    given = driven_motion(system, t, start)[0].at_rest()
    moved = jax.lax.stop_gradient(given.base.inverse() @ found.base)
    q = jnp.where(configurations_of(system), given.q, jax.lax.stop_gradient(found.q))
    return given.replace(base=given.base @ moved, q=q)


def _without_gap(system: System) -> np.ndarray:
    """1 for the rows over velocities alone, which are kept by moving along them, 0 for those that are rates of gaps."""
    out = np.ones(sum(len(places) for group in system.ideal for places in group.rows))
    for group in system.ideal:
        for places in group.rows:
            out[list(places[: group.gaps])] = 0.0
    return out


def _is_singular(matrix: Float[Array, "m m"]) -> Bool[Array, ""]:
    """Whether a matrix is singular to rounding, with its rows and columns scaled: the equilibrium is not isolated."""
    if not matrix.size:
        return jnp.zeros((), bool)
    scaled = jax.lax.stop_gradient(matrix)
    for axis in (1, 0):
        size = jnp.abs(scaled).max(axis, keepdims=True)
        scaled = scaled / jnp.where(size > 0, size, 1.0)
    values = jnp.linalg.svd(scaled, compute_uv=False)
    return ~(values[-1] > SINGULAR * values[0])


def _bordered(K: Float[Array, "n n"], space: RowSpace) -> Float[Array, "m m"]:
    return jnp.block([[K, space.Q.T], [space.Q, jnp.diag(1 - space.active)]])


def _displaced(system: System, state: State, x: Float[Array, "n"]) -> State:
    zero = jnp.zeros(6 + system.nv)
    return displaced(system.topology, state, spread(x, system.topology.unknown, zero)).at_rest()


def _either(condition: Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def is_differentiated(tree: Any) -> bool:
    """Whether JAX is tracing any number of a tree."""
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(tree))


def without_derivative(find: Callable[[Any], Any], inputs: Any) -> Any:
    """find(inputs), with zero derivatives.

    Where JAX differentiates outside compiled functions, `find` gets plain numbers.
    """
    numbers, rest = eqx.partition(inputs, eqx.is_inexact_array)

    @jax.custom_jvp
    def found(numbers):
        return find(eqx.combine(numbers, rest))

    @found.defjvp
    def _(primals, tangents):
        out = found(*primals)
        return out, jax.tree.map(jnp.zeros_like, out)

    return found(numbers)
