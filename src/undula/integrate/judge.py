"""Judging a run by the reports of its steps and samples: when it must stop, and its status at the end.

A run is "ok", "doubtful" (it reached its end, but the results should not be trusted), "failed" (it stopped where it could not
continue) or "interrupted". All thresholds are in this file.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.admissible import violated_rows
from undula.balance.limits import stiffness_limit
from undula.core.arrays import Array
from undula.core.startup import UndulaWarning
from undula.elements.element import changed
from undula.elements.view import SiteView, View
from undula.integrate.method import Integrator, Report, passive
from undula.integrate.start import Steps
from undula.joints.rod.pieces import overwound
from undula.laws.law import Law
from undula.lie import so3
from undula.model.packing import member
from undula.model.sites import MovingSection, PackedSite
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled
from undula.record.sample import Sample

BLOW_UP = 1e9  # a velocity or coordinate beyond this is a failure [SI units]
VIOLATED = 1e-5  # a larger violation of a constraint is a failure [m, rad or per s]
UNSOLVED = 1e-2  # a contact problem with a larger residual, relative to the impulses, is a failure
# Gallery entries miss the tolerance of the contact solver in at most 9 of 60000 steps, with a residual of 1e-3
MISSED = 0.02  # a run is doubtful if more than this fraction of its steps miss the tolerance
FINE = 1e-5  # with a worst residual above this (a tolerance tighter than the default may be missed),
COARSE = 5e-3  # or if a single step has a residual above this
EXCESS = 1e-6  # a violation of limits on reactions beyond this, relative to the largest one, is mentioned
ENERGY = 0.05  # a run is doubtful if this fraction of the energy that it exchanges appears from nowhere or disappears


Jumps = Sequence[tuple[float, float]]  # instants [s] of impulses, and the changes of the stored energy [J]


class Verdict(NamedTuple):
    """Status of a run, and a sentence about it."""

    status: str
    message: str


class Fault(NamedTuple):
    """The first sample that cannot be kept, and why."""

    sample: int
    message: str


class Records(NamedTuple):
    """Records at each sample: observables of the method, reports since the previous sample; `mask` (rows,): which rows were on,
    None if none are switched."""

    shown: dict[str, np.ndarray]
    report: Report
    mask: np.ndarray | None = None


def fault(
    system: System, method: Integrator, samples: Sample, records: Records, steps: Steps, advice: Callable[[], str]
) -> Fault | None:
    """The reason why a run cannot continue after a chunk of samples; None if it can.

    `advice`: a remedy if the motion becomes infinite.
    """
    bad = _first_bad(samples)
    report = records.report
    names = system.labels.rods
    wound = overwound(system.rods, names, np.asarray(samples.state.q)) if system.rods else None
    if wound is not None and (bad is None or wound[0] <= bad):
        when = samples.t[wound[0]]
        return Fault(
            wound[0], f"{wound[1]} at t = {when:.6g} s; a piece can represent a turn of at most pi: use more nodes."
        )
    gone = _off_rods(system, samples)
    if gone is not None and (bad is None or gone.sample <= bad):
        return gone
    if not report.good.all():
        k = int(np.argmin(report.good))
        if bad is None or k <= bad:
            return Fault(k, method.refusal(report, k, ENERGY))
    if bad is not None:
        return Fault(bad, _infinite(system, samples, bad, steps, advice))
    if system.contacts and (report.residual > UNSOLVED).any():
        k = int(np.argmax(report.residual > UNSOLVED))
        return Fault(
            k,
            f"the contact problem was not solved {_between(samples, k, steps)}: {report.residual[k]:.3g} of the largest "
            "impulse remains; more iterations (`max_iterations` of its solver) or a smaller dt may help.",
        )
    if not system.least_squares and (samples.residual > VIOLATED).any():
        k = int(np.argmax(samples.residual > VIOLATED))
        return Fault(k, undefined(system, samples, k) or _violated(system, samples, records.mask, k))
    return None


def _off_rods(system: System, samples: Sample) -> Fault | None:
    """The first sample at which a site that moves along a rod is beyond one of its ends."""
    sliding = [
        (g, k, group, site.section)
        for g, group in enumerate(system.groups)
        for k, site in enumerate(group.sites)
        if isinstance(site.section, MovingSection)
    ]
    first: Fault | None = None
    for g, k, group, section in sliding:
        if isinstance(section.X, Law):
            X = np.asarray(_at_times(section.X, samples.t))
        elif k in group.found:
            X = np.asarray(jax.tree.leaves(samples.state.z[group.memory])[group.found.index(k)])
        else:
            continue
        length = np.asarray(section.length)
        out = (X < -1e-9 * length) | (X > (1 + 1e-9) * length)
        if out.any() and (first is None or int(np.argmax(out.any(1))) < first.sample):
            i = int(np.argmax(out.any(1)))
            m = int(np.argmax(out[i]))
            family, names = system.labels.elements[g]
            first = Fault(
                i,
                f"at t = {samples.t[i]:.6g} s the {family.replace('_', ' ')} '{names[m]}' had left its rod: X = {X[i, m]:.6g} "
                f"m, the length is {length[m]:.6g} m.",
            )
    return first


@quickly_compiled
def _at_times(laws: Law, t: Array) -> Array:
    """Values (times, members) of stacked laws."""
    return jax.vmap(lambda t: jax.vmap(lambda law: law.value(t))(laws))(t)


def conclude(
    verdict: Verdict,
    system: System,
    method: Integrator,
    samples: Sample,
    records: Records,
    steps: int,
    jumps: Jumps = (),
) -> Verdict:
    """The verdict on a run that has ended, from all its samples; `steps`: number of steps done."""
    status, message = verdict
    wrong = energy_complaint(system, method, samples, records.report, jumps)
    if status == "failed":
        return Verdict(status, f"{message.rstrip('.')}; before, {wrong}" if wrong else message)
    changes = rank_changes(samples) if records.mask is None else []
    if changes:
        message = f"{message.rstrip('.')}; the rank of the constraints changed {'; '.join(changes[:5])}."
    if np.max(samples.excess, initial=0.0) > EXCESS * (1 + np.abs(samples.reactions).max(initial=0.0)):
        k = int(np.argmax(samples.excess))
        message = (
            f"{message.rstrip('.')}; the limits on the reactions cannot all be met: the motion takes {samples.excess[k]:.3g} N "
            f"(or N m) more at t = {samples.t[k]:.6g} s."
        )
    report = records.report
    if report.unsolved.sum():
        missed, worst = int(report.unsolved.sum()), float(report.residual.max())
        message = (
            f"{message.rstrip('.')}; the contact problem was not solved to the tolerance in {missed} of {steps} steps, "
            f"{worst:.2g} of the largest impulse remained at worst"
        )
        if (missed > MISSED * steps and worst > FINE) or worst > COARSE:
            status = "doubtful" if status == "ok" else status
            message += (
                f", where at most {MISSED:.0%} of the steps and {COARSE:g} of the impulse may: forces and motion are doubtful; "
                "a smaller dt, fewer contacts that share a load, or more iterations (`max_iterations` of the solver) may help"
            )
        message += "."
    if wrong:
        status = "doubtful" if status == "ok" else status
        message = f"{message.rstrip('.')}; {wrong}"
    return Verdict(status, message)


ROUNDING = 1e-12  # of the stored energy


class EnergyError(NamedTuple):
    """Largest energy that a run had created by any sample [J] (negative: lost), the energy it exchanged [J], and when [s].

    `dissipated` [J]: what a method with numerical dissipation has taken, which is not counted as an error.
    """

    created: float
    exchanged: float
    t: float
    dissipated: float = 0.0


def energy_error(
    system: System, method: Integrator, samples: Sample, report: Report, jumps: Jumps = ()
) -> EnergyError | None:
    """Error of a run's energy balance; None where it cannot be determined. `jumps`: changes of the energy by impulses.

    Where the method accounts for work, its own work is summed over the steps. Where laws drive something, the power of their
    actuators is known only at samples: a spline through them is integrated, and its error, estimated by leaving out every
    second sample, is not counted. With contacts, a system without energy supply must not gain any.
    """
    t, E = np.asarray(samples.t), np.asarray(samples.energy_stored)
    if len(t) < 2 or not np.all(np.isfinite(E)):
        return None
    kinetic = np.asarray(samples.energy_kinetic)
    slack: Any = 0.0
    if system.contacts:
        if not passive(system):
            return None
        work = np.minimum(E - E[0], 0.0)  # lost energy is dissipated
        supplied = 0.0
    elif method.accounts(system):
        work = np.cumsum(report.work) - report.work[0]
        supplied = float(np.abs(report.work[1:]).sum())
    else:
        power = np.asarray(samples.power_actuators) + np.asarray(samples.power_external)
        if len(t) < 9 or not np.all(np.isfinite(power)):
            return None
        work, slack = _integrated(t, power)
        for when, change in jumps:
            work = work + np.where(t >= when, change, 0.0)
            k = int(np.searchsorted(t, when))  # between these samples the power may jump, too
            if 0 < k < len(t):
                slack[k:] += abs(power[k] - power[k - 1]) * (t[k] - t[k - 1])
        E = kinetic + np.asarray(samples.energy_potential)  # the powers exclude everything accounted for in energies
        supplied = float(np.abs(np.diff(work)).sum())
    off = E - E[0] - work
    slack = slack + ROUNDING * float(np.abs(E).max())  # at rest, rounding is all there is
    dissipated = 0.0
    if method.dissipates:
        dissipated = 0.0 if system.contacts else float(np.maximum(-off - slack, 0.0).max())
        off = np.maximum(off, 0.0)
    off = np.sign(off) * np.maximum(np.abs(off) - slack, 0.0)
    k = int(np.argmax(np.abs(off)))
    exchanged = float(kinetic.max() + np.ptp(E - kinetic) + supplied)
    return EnergyError(float(off[k]), exchanged, float(t[k]), dissipated)


def _integrated(t: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integral of a power since the first sample, and its uncertainty."""
    from scipy.interpolate import CubicSpline

    fine = CubicSpline(t, power).antiderivative()(t)
    some = np.unique(np.append(np.arange(0, len(t), 2), len(t) - 1))
    coarse = CubicSpline(t[some], power[some]).antiderivative()(t)
    return fine, np.maximum.accumulate(np.abs(fine - coarse))


def is_off(error: EnergyError | None) -> bool:
    """Whether the error of an energy balance exceeds the threshold."""
    return error is not None and abs(error.created) > ENERGY * error.exchanged + 1e-12


def energy_complaint(system: System, method: Integrator, samples: Sample, report: Report, jumps: Jumps = ()) -> str:
    """A sentence on an energy balance that is off; "" if it is not."""
    error = energy_error(system, method, samples, report, jumps)
    if error is None or not is_off(error):
        return ""
    what = "appeared from nowhere" if error.created > 0 else "disappeared"
    return (
        f"{abs(error.created):.3g} J {what} by t = {error.t:.6g} s, of {error.exchanged:.3g} J that were exchanged, where at "
        f"most {ENERGY:.0%} may: the motion is doubtful; a smaller dt will help."
    )


def _first_bad(samples: Sample) -> int | None:
    checked = (
        samples.state.base.position,
        samples.state.base_twist,
        samples.state.q,
        samples.state.v,
        samples.efforts,
    )
    good = np.ones(len(samples.t), bool)
    for x in checked:
        with np.errstate(invalid="ignore"):
            good &= (np.abs(x) < BLOW_UP).all(axis=1)  # False for NaN too
    return None if good.all() else int(np.argmin(good))


def _between(samples: Sample, k: int, steps: Steps) -> str:
    """The time between the previous sample and this one, in words."""
    when = float(samples.t[k])
    return f"between t = {max(when - steps.stride * steps.dt, steps.t0):.6g} s and t = {when:.6g} s"


def _infinite(system: System, samples: Sample, k: int, steps: Steps, advice: Callable[[], str]) -> str:
    if samples.t[k] == steps.t0:
        return (
            f"{_not_finite(system, samples)} at the start, t = {samples.t[k]:g} s; some mass, inertia, length, stiffness or "
            "law of the model is too small, too large or not finite."
        )
    if k > 0 and (why := undefined(system, samples, k - 1)):
        return why
    return f"the motion became infinite or not a number {_between(samples, k, steps)}; {advice()}"


def _not_finite(system: System, samples: Sample) -> str:
    """The first quantity of the first sample that is infinite or not a number, in words."""
    base = ("vx", "vy", "vz", "wx", "wy", "wz")
    for what, values, names in (
        ("position", samples.state.q, system.coordinate_names),
        ("velocity", samples.state.v, system.coordinate_names),
        ("acceleration", samples.acceleration.v, system.coordinate_names),
        ("acceleration", samples.acceleration.base, [f"base.{x}" for x in base]),
        ("effort", samples.efforts, system.coordinate_names),
    ):
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~(np.abs(values[0]) < BLOW_UP))
        if len(bad):
            return f"the {what} of '{names[bad[0]]}' is {values[0][bad[0]]:g}"
    return "the motion is not finite"


def _violated(system: System, samples: Sample, mask: np.ndarray | None, k: int) -> str:
    driven = system.motions or system.base_motion is not None
    there = system if mask is None else changed(system, mask=jnp.asarray(mask[k]))
    rows = violated_rows(there, jax.tree.map(lambda x: x[k], samples.state), samples.t[k])
    why = "the driven motion is not compatible with them" if driven else "they became singular"
    return (
        f"the constraints cannot be satisfied at t = {samples.t[k]:.6g} s: {samples.residual[k]:.3g} remains (m, rad, m/s or "
        f"rad/s), of {rows}; {why}, or dt is too large."
    )


def undefined(system: System, samples: Sample, last: int) -> str:
    """Why a constraint is undefined in the poses of the sample `last` or of the one before.

    "" if all constraints are defined.
    """
    for k in range(max(last - 1, 0), last + 1):
        for g, group in enumerate(system.groups):
            if group.kind != "ideal" or "undefined" not in group.does:
                continue
            for i in range(group.size):
                at = tuple(_placed(samples, k, site, i) for site in group.sites)
                form = member(group.form, i)
                why = form.undefined(View(float(samples.t[k]), at, jnp.zeros(0), jnp.zeros(0)))
                if why:
                    return f"at t = {samples.t[k]:.6g} s '{system.labels.elements[g][1][i]}' {why}."
    return ""


def _placed(samples: Sample, k: int, site: PackedSite, member: int) -> SiteView:
    """The pose of a site of a body at a sample, at rest; the index after the last body is the world."""
    zero = jnp.zeros(3)
    body = site.bodies[member]
    if body >= samples.bodies.position.shape[1]:
        return SiteView(jnp.eye(3), zero, zero, zero)
    R = so3.to_matrix(jnp.asarray(samples.bodies.quaternion[k, body]))
    p = jnp.asarray(samples.bodies.position[k, body])
    if site.position is not None:
        p = p + R @ site.position[member]
    if site.rotation is not None:
        R = R @ site.rotation[member]
    return SiteView(R, p, zero, zero)


def step_advice(system: System, method: Integrator, state: State, dt: float) -> str:
    """A remedy for a run that became infinite."""
    limit = np.inf if "stiff" in method.takes else stiffness_limit(system, state)
    if dt <= limit:
        return "a smaller dt may help."
    return (
        f"its springs, dampers and controllers are too stiff for {type(method).__name__} with dt = {dt:g} s: dt must be below "
        f"about {limit:.2g} s, or the integrator implicit."
    )


def warn_of_limits(system: System, samples: Sample) -> None:
    """One warning for all coordinates that left their limits: when, and by how much."""
    x = np.asarray(samples.position)
    if not x.size:
        return
    over = np.maximum(np.asarray(system.labels.lower) - x, x - np.asarray(system.labels.upper))
    found = []
    for k in np.flatnonzero((over > 1e-9).any(0)):
        i = int(np.argmax(over[:, k] > 1e-9))
        found.append(f"{system.coordinate_names[k]} (from t = {samples.t[i]:.4g} s, by up to {over[:, k].max():.3g})")
    if found:
        warnings.warn(f"coordinates beyond their limits: {', '.join(found)}.", UndulaWarning, stacklevel=3)


def warn_of_remarks(system: System, samples: Sample) -> None:
    """One warning with the remarks of all elements on their recorded values."""
    found = []
    for group, (_, names), values in zip(system.groups, system.labels.elements, samples.elements):
        if "remark" not in group.does:
            continue
        for k, name in enumerate(names):
            said = member(group.form, k).remark(
                np.asarray(samples.t), {n: np.asarray(x)[:, k] for n, x in values.items()}
            )
            if said:
                found.append(f"'{name}' {said}")
    if found:
        warnings.warn(f"{'; '.join(found)}.", UndulaWarning, stacklevel=3)


def rank_changes(samples: Sample) -> list[str]:
    """When the rank of the constraints changed between samples, and how."""
    rank = np.asarray(samples.rank)
    return [f"from {rank[k]} to {rank[k + 1]} at t = {samples.t[k + 1]:.6g} s" for k in np.flatnonzero(np.diff(rank))]
