"""Contact data carried over to the next step and to the next sample."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from undula.contact.carried import Touch, contact_count, contact_rows
from undula.contact.solve.solvers import Solved
from undula.core.arrays import Array, ones, zeros
from undula.model.system import System


class Since(NamedTuple):
    """Sums over all steps since the previous sample, so that no event between two samples is lost.

    - `time` [s]; `impulses` (3, contacts) [N s] on the bodies, in the world; `impacts` (contacts,): their number.
    - `work` [J] of all contacts, from the mean of the velocities before and after each step.
    - `closings`: number of closed contacts, summed over the steps.
    """

    time: Float[Array, ""]
    impulses: Float[Array, "3 contacts"]
    impacts: Float[Array, "contacts"]
    work: Float[Array, ""]
    closings: Int[Array, ""]


class ContactMemory(NamedTuple):
    """Contact data of the last step.

    - `impulses` (rows,) [N s, N m s] of all contacts; those of open contacts are as they were when last closed.
    - `earlier` (rows,): those of the step before, 0 for open contacts: while contacts move, the warm start
      extrapolates the last two impulses.
    - `forces` (rows,) [N, N m]: impulses of the closed contacts, divided by the step.
    - `step`: the solver's memory; `acceleration` (6 + nv,): mean over the step.
    - `closed`: number of closed contacts; `since`: sums over the steps since `rested` was called.
    """

    impulses: Float[Array, "rows"]
    earlier: Float[Array, "rows"]
    forces: Float[Array, "rows"]
    step: Float[Array, ""]
    acceleration: Float[Array, "n"]
    closed: Int[Array, ""]
    since: Since

    def rested(self) -> "ContactMemory":
        """The same, with the sums over steps reset to zero."""
        return self._replace(since=jax.tree.map(jnp.zeros_like, self.since))


class Step(NamedTuple):
    """A step's report on its contacts: their solution, which of them had an impact (1 or 0), and their work [J]."""

    found: Solved
    hits: Float[Array, "contacts"]
    work: Float[Array, ""]


def nothing_yet(system: System) -> ContactMemory:
    """The memory at the start of a run."""
    count = sum(contact_count(g) for g in system.contacts)
    none = zeros(sum(contact_count(g) * contact_rows(g) for g in system.contacts))
    zero, whole = zeros(()), zeros((), int)
    since = Since(zero, zeros((3, count)), zeros(count), zero, whole)
    return ContactMemory(none, none, none, ones(()), zeros(6 + system.nv), whole, since)


def added(
    system: System,
    since: Since,
    step: Step,
    touches: list[Touch],
    closed: Int[Array, ""],
    dt: Any,
) -> Since:
    """The sums with one more step added; `closed`: number of closed contacts."""
    if not touches:
        return since
    parts, at = [], 0
    for group, x in zip(system.contacts, touches):
        size = contact_count(group) * contact_rows(group)
        own = step.found.P[at : at + size].reshape(contact_rows(group), -1)
        parts.append((own * x.directions[:3]).sum(1))
        at += size
    return jax.lax.stop_gradient(  # a report, not part of the motion
        Since(
            since.time + dt,
            since.impulses + jnp.concatenate(parts, axis=1),
            since.impacts + step.hits,
            since.work + step.work,
            since.closings + closed,
        )
    )
