"""The fundamental problem with constraints: velocities, accelerations, efforts and reactions.

The unknown velocities are u = (base twist in its free directions, undriven coordinates): eta+ of document 001.
With the rows A u + B r'_a = 0, u = J r'_a + H eta_r+ (001, eq. 11): the part J r'_a follows from the rows (the row space of
A), the part in the kernel H from the dynamics. Where the kernel is empty, kinematics is sufficient.
Reactions are the exact multipliers of M u' + h = tau + A^T lambda, never those of a reduced recursion.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.balance import Balance, inertia_over
from undula.balance.look import Held, constant
from undula.balance.rows import rates_of, rows_of
from undula.core.arrays import Array
from undula.model.prepare import Prepared
from undula.model.state import Acceleration, State, displaced
from undula.numerics.held import balance as balanced, shortest
from undula.numerics.pick import pick, spread
from undula.numerics.row_space import decompose
from undula.numerics.small import matvec, tmatvec
from undula.tree.snapshot import Snapshot, place


def slip_forces(prepared: Prepared, snap: Snapshot) -> tuple[Array, Array]:
    """Generalised forces (6 + nv,) of the rows that slip, and the forces on these rows."""
    groups = prepared.system.slipping
    if not groups:
        return jnp.zeros(6 + prepared.system.nv), jnp.zeros(0)
    rows = rows_of(prepared, snap, "slip")
    slips = matvec(rows.A, snap.state.velocity) + rows.driven
    parts = [
        jax.vmap(lambda form, slip: form.law.force(slip))(group.form, pick(slips, np.array(group.rows))).reshape(-1)
        for group in groups
    ]
    places = np.concatenate([np.array(group.rows).reshape(-1) for group in groups])
    forces = pick(jnp.concatenate(parts), np.argsort(places))
    return tmatvec(rows.A, forces), forces


def reduced_accelerations(prepared: Prepared, held: Held, snap: Snapshot) -> Acceleration:
    """Accelerations that satisfy the rows and, in their kernel, the force balance; `snap`: `held` with its link motion."""
    which = prepared.system.topology.unknown
    space, known = held.still, snap.known
    rate = -rates_of(prepared, snap)

    def by_kinematics():
        return shortest(space, held.A, rate)

    def by_dynamics():
        balance = Balance.of(prepared, snap)
        push, _ = slip_forces(prepared, snap)
        force = push - balance.imbalance()
        return balanced(space, held.A, balance.inertia(which), pick(force, which), rate)

    r, size = space.Q.shape
    if size == 0:
        found = jnp.zeros(0)
    elif r < size:
        found = by_dynamics()
    else:
        found = jax.lax.cond(space.rank == size, by_kinematics, by_dynamics)
    whole = spread(found, which, known.whole)
    return Acceleration(whole[:6], whole[6:])


class AfterImpulse(NamedTuple):
    """A state after an impact, and the impulses (rows,) [N s or N m s] of the impact: where they are not unique, those of the
    least norm, with the weights of the reactions."""

    state: State
    impulses: Array


def least_impulse(prepared: Prepared, t: Any, state: State) -> AfterImpulse:
    """The nearest state, in the kinetic metric, that satisfies the constraints: as after an impact by their reactions.

    One step of Newton's method closes the gaps.
    """
    system = prepared.system
    which = system.topology.unknown
    snap = place(prepared, t, state, Acceleration.zero(system.nv))
    rows = rows_of(prepared, snap)
    A = pick(rows.A.T, which).T
    space = decompose(A, least_squares=system.least_squares)
    M = inertia_over(prepared, snap, which)
    u = state.velocity

    def without(excess):
        found = balanced(constant(space), A, M, jnp.zeros(len(which)), -excess)
        return found, spread(found, which, jnp.zeros(6 + system.nv))

    _, step = without(rows.gap)
    change, gain = without(matvec(rows.A, u) + rows.driven)
    impulses = space.multipliers(matvec(M, change), system.reaction_weights, jnp.zeros(len(rows.gap)))
    moved = displaced(system.topology, state, step)
    return AfterImpulse(moved.with_velocity(u + gain), impulses)


def held_imbalance(
    balance: Balance, imbalance: Float[Array, "n"], weight: Array
) -> tuple[Float[Array, "m"], Float[Array, "n"]]:
    """Residual of a motion under constraints, over the unknown velocities: zero if efforts balance and rows hold;
    and the generalised forces of the reactions, over all velocities.

    Efforts count up to reactions, that is, without their part in the row space; that part is replaced by the shortest velocity
    correction that the rows require, times `weight`, which scales velocities to efforts.
    """
    prepared, snap = balance.prepared, balance.snap
    which = prepared.system.topology.unknown
    rows = rows_of(prepared, snap)
    A = pick(rows.A.T, which).T
    space = constant(decompose(A, least_squares=prepared.system.least_squares))
    efforts = pick(imbalance - slip_forces(prepared, snap)[0], which)
    # constant reactions make the derivatives at a solution exact, although the row space is taken as constant
    reactions = jax.lax.stop_gradient(tmatvec(space.W, matvec(space.Q, efforts)))
    excess = matvec(rows.A, snap.state.velocity) + rows.driven
    found = space.without(efforts - tmatvec(A, reactions)) + weight * space.solve(excess)
    return found, tmatvec(rows.A, reactions)
