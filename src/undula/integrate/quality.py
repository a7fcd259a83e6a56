"""How good a run is: one number for its error, what is said about it, and the step that a tolerance asks for."""

import warnings
from typing import NamedTuple

import numpy as np

from undula.core.startup import UndulaWarning
from undula.integrate.extent import Scales
from undula.integrate.judge import EnergyError, Verdict
from undula.integrate.method import Integrator
from undula.integrate.passage import Passage

NOTABLE = 0.01  # a run with a larger error warns
MEANINGLESS = 0.2  # a run with a larger error is doubtful
SAFETY = 0.8  # a step is chosen so that the estimate comes out at this part of the tolerance
BOLD = 16  # largest divisor of a step at once: far from the limit, the order of a method says little


class Evidence(NamedTuple):
    """What is known about the errors of a run: of its `steps` (see `accuracy`; nan: unknown), of its energy, its largest
    penetration [m], and the first body that passes through another."""

    steps: float
    energy: EnergyError | None
    penetration: float
    passage: Passage | None


class Quality(NamedTuple):
    """The estimated error of a run, relative to sizes and energies (nan: unknown), and what most of it is."""

    error: float
    what: str


class Goal(NamedTuple):
    """What a run may do about its error: repeat itself with smaller steps while it is beyond `limit` and still decreases.

    - `divisions`: the largest number by which the step may still be divided; 1: the run is what it is.
    - `before`: the error of the last attempt.
    - `tolerance`: the one that the run was asked for, None if it was not; `bold`: the first step was chosen for it.
    """

    limit: float = MEANINGLESS
    divisions: int = 1
    before: float = np.inf
    tolerance: float | None = None
    bold: bool = False

    def divisor(self, found: Quality, order: int) -> int:
        """By what the step should be divided; 1 if the run is good enough or does not get better."""
        if not found.error > self.limit or self.divisions == 1 or found.error > 0.7 * self.before:
            return 1
        wanted = np.ceil((min(found.error, 1e6) / (SAFETY * self.limit)) ** (1 / order))
        return int(np.clip(wanted, 2, min(BOLD, self.divisions)))


def quality(found: Evidence, scales: Scales) -> Quality:
    """The largest of the errors of a run."""
    parts = []
    if np.isfinite(found.steps):
        parts.append(Quality(found.steps, "of places and energies, found with half the step"))
    if found.energy is not None and found.energy.exchanged > 0:
        parts.append(Quality(abs(found.energy.created) / found.energy.exchanged, "of the energy balance"))
    if scales.size > 0 and found.penetration > 0:
        part = Quality(found.penetration / scales.size, f"a penetration of {found.penetration:.3g} m")
        parts.append(part)
    if found.passage is not None:
        parts.append(Quality(max(1.0, found.passage.way / found.passage.thickness), "an impact that may be missed"))
    return max(parts, key=lambda x: x.error, default=Quality(np.nan, ""))


def concluded(verdict: Verdict, found: Evidence, good: Quality, method: Integrator, dt: float, goal: Goal) -> Verdict:
    """The verdict on a run with what its error adds to it."""
    status, message = verdict
    words = []
    if found.passage is not None:
        p = found.passage
        words.append(
            f"the contact '{p.name}' may have been passed through after t = {p.t:.6g} s: {p.way:.3g} m per step, where both shapes "
            f"together are {p.thickness:.3g} m thick; dt must be below {dt * p.thickness / (2 * p.way):.2g} s"
        )
    elif good.error > NOTABLE:
        much = good.error > MEANINGLESS
        size = "more than 100 %" if good.error > 1 else f"{100 * good.error:.2g} %"
        smaller = dt * (NOTABLE / good.error) ** (1 / method.order)
        advice = "a much smaller dt is needed" if much else f"a dt of about {smaller:.1g} s would bring it below 1 %"
        words.append(f"the estimated error is {size} ({good.what}); {advice}")
    if found.energy is not None and found.energy.dissipated > NOTABLE * found.energy.exchanged:
        part = found.energy.dissipated / found.energy.exchanged
        words.append(f"the method dissipated {100 * part:.2g} % of the energy that was exchanged")
    if goal.tolerance is not None and good.error > goal.tolerance:
        words.append(f"the tolerance of {goal.tolerance:g} was not reached: the estimated error is {good.error:.2g}")
    if good.error > MEANINGLESS and status == "ok":
        status = "doubtful"
    return Verdict(status, "; ".join([message.rstrip("."), *words]) + "." if words else message)


def warn_of_error(status: str, good: Quality) -> None:
    """A warning about a run that is good enough to be used, but not good."""
    if status == "ok" and good.error > NOTABLE:
        text = f"the estimated error of the run is {100 * good.error:.2g} % ({good.what}); a smaller dt would help."
        warnings.warn(text, UndulaWarning, stacklevel=3)
