"""Small convex quadratic programs, by a primal-dual interior-point method (Mehrotra, 1992), with their derivatives."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics.dense import eliminate, solve
from undula.numerics.small import matmul, matvec, tmatvec

ITERATIONS = 60
CLOSE = 1e-11  # complementarity and violation at which the iteration ends, for x around 1
BALANCED = 1e-8  # and residual of the balance, relative to the multipliers, which rounding limits
SOFT = 1e-12  # compliance of active constraints in the last step: keeps it regular if they depend on each other
INSIDE = 0.995  # fraction of the way to the boundary


class _Point(NamedTuple):
    x: Array
    slack: Array
    dual: Array
    iterations: Array
    done: Array


def minimise(
    P: Float[Array, "n n"], q: Float[Array, "n"], G: Float[Array, "b n"], h: Float[Array, "b"]
) -> Float[Array, "n"]:
    """The x with the least x . P x / 2 + q . x among those with G x <= h; P positive definite, and some G x < h.

    Differentiable once; the derivative is that of the constraints active at the solution.
    """
    # tolerances are relative to the data: rows of G get unit length; x and P are scaled to numbers around 1
    length = jnp.sqrt((G * G).sum(1))
    length = jnp.where(length > 0, length, 1.0)
    G, h = G / length[:, None], h / length
    free = eliminate(*jax.lax.stop_gradient((P, -q[:, None])))[:, 0]
    size = jnp.abs(free).max() + jax.lax.stop_gradient(jnp.maximum(matvec(G, free) - h, 0.0).max(initial=0.0))
    size = jnp.where(size > 0, size, 1.0)
    unit = jax.lax.stop_gradient(jnp.exp(jnp.log(jnp.diag(P)).mean()))
    return size * _minimum(P / unit, q / (unit * size), G, h / size, free / size)


@jax.custom_jvp
def _minimum(P: Array, q: Array, G: Array, h: Array, free: Array) -> Array:
    return _solve(P, q, G, h, free).x


@_minimum.defjvp
def _minimum_jvp(primals, tangents):
    P, q, G, h, free = primals
    dP, dq, dG, dh, _ = tangents
    found = _solve(P, q, G, h, free)
    active = found.active
    balance = matvec(dP, found.x) + dq + tmatvec(dG, found.dual * active)
    right = jnp.concatenate([-balance, active * (dh - matvec(dG, found.x))])
    return found.x, solve(_conditions(P, G, active), right, symmetric=True)[: len(q)]


def _conditions(P: Array, G: Array, active: Array) -> Array:
    """The matrix of the conditions of optimality (n + b, n + b), for the constraints that are active (1 in `active`)."""
    A = active[:, None] * G
    return jnp.block([[P, A.T], [A, -jnp.diag(jnp.where(active > 0, SOFT, 1.0))]])


class _Found(NamedTuple):
    """The solution, its multipliers, and which constraints are active."""

    x: Array
    dual: Array
    active: Array


def _solve(P: Array, q: Array, G: Array, h: Array, free: Array) -> _Found:
    """The iteration, and a last step on the constraints that it finds active, which removes what rounding has left."""
    found = _iterated(P, q, G, h, free)
    n = len(q)
    active = jnp.where(found.dual > found.slack, 1.0, 0.0)
    right = jnp.concatenate([-q, active * (h - SOFT * found.dual)])
    exact = eliminate(_conditions(P, G, active), right[:, None])[:, 0]
    x, dual = exact[:n], exact[n:]
    unit = 1.0 + jnp.abs(q).max()
    better = (matvec(G, x) <= h + 1e-9).all() & (dual >= -1e-7 * unit).all()  # not if some are only just active
    return _Found(jnp.where(better, x, found.x), jnp.where(better, dual, found.dual), active)


def _iterated(P: Array, q: Array, G: Array, h: Array, free: Array) -> _Point:
    """The interior-point iteration; `free`: the minimum without constraints, where it starts."""
    b = len(h)
    unit = 1.0 + jnp.abs(q).max(initial=0.0)

    def residuals(p: _Point) -> tuple[Array, Array, Array]:
        return matvec(P, p.x) + q + tmatvec(G, p.dual), matvec(G, p.x) + p.slack - h, (p.slack * p.dual).sum() / b

    def step(p: _Point) -> _Point:
        stationary, feasible, mu = residuals(p)
        D = p.dual / p.slack

        def towards(centre):
            right = -stationary - tmatvec(G, D * feasible - (p.dual - centre / p.slack))
            dx = eliminate(P + matmul(G.T * D, G), right[:, None])[:, 0]
            ds = -feasible - matvec(G, dx)
            return dx, ds, -p.dual + centre / p.slack - D * ds

        _, ds, dl = towards(jnp.zeros(b))  # the affine direction
        ahead = ((p.slack + _reach(p.slack, ds) * ds) * (p.dual + _reach(p.dual, dl) * dl)).sum() / b
        centre = (ahead / mu) ** 3 * mu - ds * dl
        dx, ds, dl = towards(centre)
        part = INSIDE * jnp.minimum(_reach(p.slack, ds), _reach(p.dual, dl))
        new = _Point(p.x + part * dx, p.slack + part * ds, p.dual + part * dl, p.iterations + 1, p.done)
        stationary, feasible, mu = residuals(new)
        left = jnp.maximum(jnp.abs(stationary).max() / unit * (CLOSE / BALANCED), jnp.abs(feasible).max())
        good = jnp.all(jnp.isfinite(new.x)) & jnp.all(jnp.isfinite(new.dual))
        new = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, p)  # ends where rounding takes over
        return new._replace(iterations=p.iterations + 1, done=~good | (jnp.maximum(mu, left) < CLOSE))

    gap = h - matvec(G, free)
    scale = jnp.maximum(jnp.abs(gap).max(initial=0.0), 1e-3 * unit)
    slack = jnp.maximum(gap, scale)
    start = _Point(free, slack, jnp.full(b, unit), jnp.zeros((), int), jnp.zeros((), bool))
    return jax.lax.while_loop(lambda p: ~p.done & (p.iterations < ITERATIONS), step, start)


def _reach(x: Array, dx: Array) -> Array:
    """How far one can go along dx, at most 1, so that x stays positive."""
    return jnp.minimum(1.0, jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, -1.0), jnp.inf).min(initial=1.0))
