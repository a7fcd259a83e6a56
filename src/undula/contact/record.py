"""What is remembered of contacts: by the next step, and by the next sample."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from undula.contact.solve.solvers import Solved
from undula.contact.spheres import Touch
from undula.model.system import System


class Since(NamedTuple):
    """What happened since the sample before: sums over all steps, so that nothing falls between two samples.

    - `time` [s]; `impulses` (3, contacts) [N s]: on the bodies, in the world; `impacts` (contacts,): how many.
    - `work` [J]: of all contacts, by the mean of the velocities before and behind each step.
    - `worst` (2,): the largest residual of the laws, relative to the impulses, and the largest penetration [m]; `unsolved`: the
      steps that did not reach the tolerance; `closings`: the sum of the closed contacts.
    """

    time: Float[Array, ""]
    impulses: Float[Array, "3 contacts"]
    impacts: Float[Array, "contacts"]
    work: Float[Array, ""]
    worst: Float[Array, "2"]
    unsolved: Int[Array, ""]
    closings: Int[Array, ""]


class ContactMemory(NamedTuple):
    """What is remembered of the last step.

    - `impulses` (rows,) [N s, N m s]: of all contacts, those of open ones as they were when last closed.
    - `earlier` (rows,): those of the step before, 0 for open contacts: while contacts move, impulses go on as they changed.
    - `forces` (rows,) [N, N m]: impulses of the closed contacts, over the step.
    - `step`: what the solver remembers; `acceleration` (6 + nv,): change of the velocities over the step.
    - `iterations`: of the solver; `closed`: number of closed contacts; `since`: sums over the steps since `rested` was called.
    """

    impulses: Float[Array, "rows"]
    earlier: Float[Array, "rows"]
    forces: Float[Array, "rows"]
    step: Float[Array, ""]
    acceleration: Float[Array, "n"]
    iterations: Int[Array, ""]
    closed: Int[Array, ""]
    since: Since

    def rested(self) -> "ContactMemory":
        """The same, with the sums over several steps begun anew."""
        return self._replace(since=jax.tree.map(jnp.zeros_like, self.since))


class Step(NamedTuple):
    """What a step reports of its contacts: their solution, which of them were hit (1 or 0), and their work [J]."""

    found: Solved
    hits: Float[Array, "contacts"]
    work: Float[Array, ""]


def nothing_yet(system: System) -> ContactMemory:
    """What is remembered at the start of a run."""
    count = sum(len(c.bodies) for c in system.contacts)
    none, zero, whole = (
        jnp.zeros(sum(len(c.bodies) * c.rows for c in system.contacts)),
        jnp.zeros(()),
        jnp.zeros((), int),
    )
    since = Since(zero, jnp.zeros((3, count)), jnp.zeros(count), zero, jnp.zeros(2), whole, whole)
    return ContactMemory(none, none, none, jnp.ones(()), jnp.zeros(6 + system.nv), whole, whole, since)


def added(
    system: System,
    since: Since,
    step: Step,
    touches: list[Touch],
    closed: Int[Array, ""],
    dt: Any,
    tolerance: float,
) -> Since:
    """The sums with one more step; `closed`: number of closed contacts, `tolerance`: of the solver."""
    if not touches:
        return since
    parts, at = [], 0
    for c, x in zip(system.contacts, touches):
        size = len(c.bodies) * c.rows
        own = step.found.P[at : at + size].reshape(c.rows, -1)
        parts.append((own * x.ways[:3]).sum(1))
        at += size
    depth = jnp.concatenate([-x.gap for x in touches]).max()
    return jax.lax.stop_gradient(  # a report, not part of the motion
        Since(
            since.time + dt,
            since.impulses + jnp.concatenate(parts, axis=1),
            since.impacts + step.hits,
            since.work + step.work,
            jnp.maximum(since.worst, jnp.stack([step.found.residual, depth])),
            since.unsolved + (step.found.residual > tolerance),
            since.closings + closed,
        )
    )
