"""The two small linear problems of a constrained system, with their derivatives written out.

Differentiating through the loops of an elimination would work, but costs far more than differentiating the solution:
once the solution is known, its derivative solves the same problem with another right-hand side.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.numerics.dense import eliminate
from undula.numerics.row_space import RowSpace
from undula.numerics.small import matmul, matvec, tmatvec


@jax.custom_jvp
def shortest(space: RowSpace, A: Float[Array, "k n"], b: Float[Array, "k"]) -> Float[Array, "n"]:
    """The minimum-norm x with A x = b; `space`: row space of A, ignored in derivatives."""
    return space.solve(b)


@shortest.defjvp
def _shortest_jvp(primals, tangents):
    space = primals[0]
    _, dA, db = tangents
    x = shortest(*primals)
    # derivative of the pseudo-inverse (Golub and Pereyra, 1973), for a compatible b
    multiplier = tmatvec(space.W, matvec(space.Q, x))
    return x, space.solve(db - matvec(dA, x)) + space.without(tmatvec(dA, multiplier))


@jax.custom_jvp
def balance(
    space: RowSpace,
    A: Float[Array, "k n"],
    M: Float[Array, "n n"],
    force: Float[Array, "n"],
    rate: Float[Array, "k"],
) -> Float[Array, "n"]:
    """The x with A x = rate and M x = force + A^T lambda: accelerations of a constrained system."""
    found = eliminate(M, jnp.concatenate([force[:, None], space.Q.T], axis=1))
    free, Y = found[:, 0], found[:, 1:]
    if not space.Q.shape[0]:
        return free
    G = matmul(space.Q, Y) + jnp.diag(1 - space.active)
    mu = eliminate(G, (matvec(space.W, rate) - matvec(space.Q, free))[:, None])[:, 0]
    return free + matvec(Y, mu)


@balance.defjvp
def _balance_jvp(primals, tangents):
    space, _, M, force, _ = primals
    _, dA, dM, dforce, drate = tangents
    x = balance(*primals)
    lambdas = tmatvec(space.W, matvec(space.Q, matvec(M, x) - force))
    # M dx = dforce - dM x + dA^T lambda + A^T dlambda and A dx = drate - dA x, by matrices applied to the tangents
    inverse = eliminate(M, jnp.eye(M.shape[0]))
    free = matvec(inverse, dforce - matvec(dM, x) + tmatvec(dA, lambdas))
    if not space.Q.shape[0]:
        return x, free
    Y = matmul(inverse, space.Q.T)
    G = matmul(space.Q, Y) + jnp.diag(1 - space.active)
    lift = matmul(Y, eliminate(G, jnp.eye(G.shape[0])))
    return x, free + matvec(lift, matvec(space.W, drate - matvec(dA, x)) - matvec(space.Q, free))
