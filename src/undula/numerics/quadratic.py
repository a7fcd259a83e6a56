"""Small convex quadratic programs, by a primal-dual interior-point method (Mehrotra, 1992), with their derivatives."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from undula.numerics.dense import eliminate
from undula.numerics.small import matmul, matvec, tmatvec

ITERATIONS = 60
CLOSE = 1e-12  # complementarity and residuals, relative to the data, at which the iteration ends
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

    Rows of G are scaled to unit length. Differentiable once; the derivative is that of the constraints active at the solution.
    """
    size = jnp.sqrt((G * G).sum(1))
    scale = 1 / jnp.where(size > 0, size, 1.0)
    return _minimum(P, q, G * scale[:, None], h * scale)


@jax.custom_jvp
def _minimum(P: Array, q: Array, G: Array, h: Array) -> Array:
    return _solve(P, q, G, h).x


@_minimum.defjvp
def _minimum_jvp(primals, tangents):
    P, q, G, h = primals
    dP, dq, dG, dh = tangents
    found = _solve(P, q, G, h)
    D = found.dual / found.slack
    right = matvec(dP, found.x) + dq + tmatvec(dG, found.dual) + tmatvec(G, D * (matvec(dG, found.x) - dh))
    return found.x, -_condensed(P, G, D, right)


def _condensed(P: Array, G: Array, D: Array, right: Array) -> Array:
    return eliminate(P + matmul(G.T * D, G), right[:, None])[:, 0]


def _solve(P: Array, q: Array, G: Array, h: Array) -> _Point:
    b = len(h)
    unit = 1.0 + jnp.abs(q).max(initial=0.0)

    def residuals(p: _Point) -> tuple[Array, Array, Array]:
        return matvec(P, p.x) + q + tmatvec(G, p.dual), matvec(G, p.x) + p.slack - h, (p.slack * p.dual).sum() / b

    def step(p: _Point) -> _Point:
        stationary, feasible, mu = residuals(p)
        D = p.dual / p.slack

        def towards(centre):
            right = -stationary - tmatvec(G, D * feasible - (p.dual - centre / p.slack))
            dx = _condensed(P, G, D, right)
            ds = -feasible - matvec(G, dx)
            return dx, ds, -p.dual + centre / p.slack - D * ds

        _, ds, dl = towards(jnp.zeros(b))  # the affine direction
        ahead = ((p.slack + _reach(p.slack, ds) * ds) * (p.dual + _reach(p.dual, dl) * dl)).sum() / b
        centre = (ahead / mu) ** 3 * mu - ds * dl
        dx, ds, dl = towards(centre)
        part = INSIDE * jnp.minimum(_reach(p.slack, ds), _reach(p.dual, dl))
        new = _Point(p.x + part * dx, p.slack + part * ds, p.dual + part * dl, p.iterations + 1, p.done)
        stationary, feasible, mu = residuals(new)
        left = jnp.maximum(jnp.abs(stationary).max(), jnp.abs(feasible).max())
        good = jnp.all(jnp.isfinite(new.x)) & jnp.all(jnp.isfinite(new.dual))
        new = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, p)  # ends where rounding takes over
        return new._replace(iterations=p.iterations + 1, done=~good | (jnp.maximum(mu, left) < CLOSE * unit))

    x = eliminate(P, -q[:, None])[:, 0]
    gap = h - matvec(G, x)
    scale = jnp.maximum(jnp.abs(gap).max(initial=0.0), 1e-3 * unit)
    slack = jnp.maximum(gap, scale)
    start = _Point(x, slack, jnp.full(b, unit), jnp.zeros((), int), jnp.zeros((), bool))
    return jax.lax.while_loop(lambda p: ~p.done & (p.iterations < ITERATIONS), step, start)


def _reach(x: Array, dx: Array) -> Array:
    """How far one can go along dx, at most 1, so that x stays positive."""
    return jnp.minimum(1.0, jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, -1.0), jnp.inf).min(initial=1.0))
