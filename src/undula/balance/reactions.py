"""Reactions and efforts where the balance of forces leaves them open: hyperstatic rows, led coordinates.

The rows' multipliers lambda satisfy A^T lambda = force over the unknown velocities. A led coordinate has an actuator of its
own, so that its line only determines the effort: tau = force - A^T lambda. What is left open is chosen by the rule.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.laws.law import Law
from undula.model.prepare import Prepared
from undula.model.reactions import Choice
from undula.numerics import quadratic
from undula.numerics.dense import solve
from undula.numerics.pick import pick
from undula.numerics.row_space import RowSpace, decompose
from undula.numerics.small import matmul, matvec, tmatvec

FAINT = 1e-9  # weight of reactions that a rule leaves out, relative to the others: makes the choice unique
DEAR = 1e4  # price of a violated limit, or of the ratio to the margin, relative to that of reactions


class Chosen(NamedTuple):
    """Reactions (rows,), and the largest violation of a limit of the rule [N or N m]."""

    reactions: Float[Array, "rows"]
    excess: Float[Array, ""]


def supporting(prepared: Prepared, A: Float[Array, "rows n"], space: RowSpace) -> tuple[np.ndarray, RowSpace]:
    """The unknown velocities whose balance only reactions can meet (all but those of led coordinates), and the row space of A
    over them. Arguments as for `choose`."""
    top = prepared.system.topology
    if not top.led.any():
        return top.unknown, space
    own = top.unknown[~np.isin(top.unknown, 6 + np.flatnonzero(top.led))]
    return own, decompose(pick(A.T, own).T)


def choose(
    prepared: Prepared, A: Float[Array, "rows n"], space: RowSpace, force: Float[Array, "n"], v: Any, t: Any
) -> Chosen:
    """The reactions with A^T lambda = force over the unknown velocities, led coordinates excepted.

    `A` and `force`: over all velocities (n = 6 + nv); `space`: row space of A over the unknown velocities; `v` (nv,).
    """
    system = prepared.system
    top = system.topology
    choice = system.choice
    weights, wanted = system.reaction_weights, system.static_reactions
    if not top.led.any() and (choice is None or choice.projected):
        return Chosen(space.multipliers(pick(force, top.unknown), weights, wanted), jnp.zeros(()))
    own, space = supporting(prepared, A, space)
    if choice is not None and choice.wanted is not None:
        wanted = choice.wanted.value(t) if isinstance(choice.wanted, Law) else choice.wanted
    found = tmatvec(space.W, matvec(space.Q, pick(force, own)))
    H, g = jnp.diag(weights), weights * wanted
    if choice is not None:
        held = np.flatnonzero(top.driven | top.led)
        B, c = pick(A.T, 6 + held), pick(force, 6 + held)
        rho = pick(choice.efforts, held) + choice.power * pick(v, held) ** 2
        more = matmul(B.T * rho, B)
        size = jnp.trace(more) / len(weights)
        H, g = H + more, g + tmatvec(B, rho * c)
        most = jnp.maximum(size, weights.max())
        H = H + jnp.where(most > 0, FAINT * most, 1.0) * jnp.eye(len(weights))  # powers have no weight at rest
    left = space.left
    unused = jnp.where((left**2).sum(1) > 0, 0.0, 1.0)
    gram = matmul(matmul(left, H), left.T) + jnp.diag(unused)
    right = matvec(left, g - matvec(H, found))
    if choice is None or (choice.G is None and choice.margin is None):
        z = solve(gram, right, symmetric=True)
        return Chosen(found + tmatvec(left, z), jnp.zeros(()))
    return _limited(choice, left, found, gram, right)


def _limited(choice: Choice, left: Array, found: Array, gram: Array, right: Array) -> Chosen:
    """With limits: G (found + left^T z) <= h + excess; with a margin: |reactions| <= ratio margin, the ratio least of all.

    The variables are (z, excess, ratio times the largest margin). The last two have prices above what the reactions can gain,
    so that they are exactly the least possible.
    """
    k = len(found)
    weight = jnp.trace(gram) / k
    size = 1e-12 + jnp.abs(found).max() + jnp.abs(right).max() / weight
    prices = weight * jnp.array([DEAR if choice.margin is None else 100 * DEAR, DEAR])
    P = jnp.zeros((k + 2, k + 2)).at[:k, :k].set(gram).at[[k, k + 1], [k, k + 1]].set(prices)
    q = jnp.concatenate([-right, size * prices])
    lines = [jnp.zeros((2, k + 2)).at[0, k].set(-1.0).at[1, k + 1].set(-1.0)]  # both >= 0
    ends = [jnp.zeros(2)]
    if choice.G is not None and choice.h is not None:
        b = len(choice.h)
        over = jnp.concatenate([matmul(choice.G, left.T), -jnp.ones((b, 1)), jnp.zeros((b, 1))], axis=1)
        lines.append(over)
        ends.append(choice.h - matvec(choice.G, found))
    if choice.margin is not None:
        some = jnp.isfinite(choice.margin)
        limit = jnp.where(some, choice.margin, 0.0)
        for sign in (1.0, -1.0):
            own = jnp.where(some, sign, 0.0)
            over = jnp.concatenate([own[:, None] * left.T, jnp.zeros((k, 1)), -(limit / limit.max())[:, None]], axis=1)
            lines.append(jnp.where(some[:, None], over, jnp.zeros(k + 2).at[k + 1].set(-1.0)))
            ends.append(-own * found)
    x = quadratic.minimise(P, q, jnp.concatenate(lines), jnp.concatenate(ends))
    lambdas = found + tmatvec(left, x[:k])
    excess = jnp.zeros(())
    if choice.G is not None and choice.h is not None:
        excess = jnp.maximum(matvec(choice.G, lambdas) - choice.h, 0.0).max(initial=0.0)
    return Chosen(lambdas, excess)
