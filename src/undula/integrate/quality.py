"""How good a run is: one number for its error, what is said about it, and the step that a tolerance asks for."""

import warnings
from typing import NamedTuple

import numpy as np

from undula.core.startup import UndulaWarning
from undula.integrate.extent import Scales
from undula.integrate.judge import ENERGY, EnergyError, Verdict
from undula.integrate.method import Integrator
from undula.integrate.passage import Passage

NOTABLE = 0.01  # a run with a larger error warns
MEANINGLESS = ENERGY  # a run with a larger error is doubtful,
GROWN = 0.5  # and one with a notable error that has grown to more than this
DEEP = 0.2  # penetration, relative to the size of a system, that makes contacts meaningless
SAFETY = 0.8  # a step is chosen so that the estimate comes out at this part of the tolerance
BOLD = 16  # largest divisor of a step at once: far from the limit, the order of a method says little


class Evidence(NamedTuple):
    """What is known about the errors of a run: those that its steps `made` and what is `left` of them (see `accuracy`; nan:
    unknown), that of its energy, its largest penetration [m], and the first body that passes through another.

    The smaller of the first two is the error of the method: errors that cancel are no longer there, and those that have grown
    in an unstable or chaotic motion are not the method's.
    """

    made: float
    left: float
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
    if np.isfinite(found.made):
        parts.append(
            Quality(float(np.fmin(found.made, found.left)), "of places and energies, found with half the step")
        )
    if found.energy is not None and found.energy.exchanged > 0:  # rounding of what is at rest is no error
        exchanged = max(found.energy.exchanged, scales.rest)
        parts.append(Quality(abs(found.energy.created) / exchanged, "of the energy balance"))
    if scales.size > 0 and found.penetration > 0:
        deep = found.penetration > DEEP * scales.size  # otherwise it is an error of places like others
        scale = scales.size if deep else scales.way
        parts.append(Quality(found.penetration / scale, f"a penetration of {found.penetration:.3g} m"))
    if found.passage is not None:
        parts.append(Quality(max(1.0, found.passage.way / found.passage.thickness), "an impact that may be missed"))
    return max(parts, key=lambda x: x.error, default=Quality(np.nan, ""))


class Judged(NamedTuple):
    """Everything about the error of a run; `scales` is None if it did not reach its end."""

    evidence: Evidence
    scales: Scales | None
    quality: Quality


def concluded(verdict: Verdict, judged: Judged, method: Integrator, dt: float, goal: Goal) -> Verdict:
    """The verdict on a run with what its error adds to it."""
    status, message = verdict
    found, scales, good = judged
    if scales is None:
        return verdict
    words = []
    # small errors that grow are the nature of the motion; large ones that grow leave nothing that is right
    lost = good.error > MEANINGLESS or (good.error > NOTABLE and found.left > GROWN)
    if found.passage is not None:
        p = found.passage
        words.append(
            f"the contact '{p.name}' may have been missed after t = {p.t:.6g} s: it moves {p.way:.3g} m per step, where both "
            f"shapes together are {p.thickness:.3g} m thick; dt must be below {dt * p.thickness / (2 * p.way):.2g} s"
        )
    elif good.error > NOTABLE:
        smaller = dt * (SAFETY * NOTABLE / good.error) ** (1 / method.order)
        advice = "a much smaller dt is needed" if lost else f"a dt of about {smaller:.1g} s would bring it below 1 %"
        grown = f", and has grown to {_percent(found.left)}" if lost and found.left > good.error else ""
        words.append(f"the estimated error is {_percent(good.error)} ({good.what}){grown}; {advice}")
    if found.penetration > NOTABLE * scales.size > 0:
        part = 100 * found.penetration / scales.size
        words.append(f"contacts penetrate by up to {found.penetration:.3g} m, {part:.2g} % of the size of the system")
    if found.energy is not None and found.energy.dissipated > NOTABLE * max(found.energy.exchanged, scales.rest):
        part = found.energy.dissipated / found.energy.exchanged
        words.append(f"the method dissipated {100 * part:.2g} % of the energy that was exchanged")
    if goal.tolerance is not None and good.error > goal.tolerance:
        words.append(f"the tolerance of {goal.tolerance:g} was not reached: the estimated error is {good.error:.2g}")
    if lost and status == "ok":
        status = "doubtful"
    return Verdict(status, "; ".join([message.rstrip("."), *words]) + "." if words else message)


def _percent(error: float) -> str:
    return "more than 100 %" if error > 1 else f"{100 * error:.2g} %"


def warn_of_error(status: str, good: Quality) -> None:
    """A warning about a run that is good enough to be used, but not good."""
    if status == "ok" and good.error > NOTABLE:
        text = f"the estimated error of the run is {100 * good.error:.2g} % ({good.what}); a smaller dt would help."
        warnings.warn(text, UndulaWarning, stacklevel=3)
