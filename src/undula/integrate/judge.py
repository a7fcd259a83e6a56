"""What the reports of steps and samples say of a run: where it must stop, and what it may call itself at the end.

A run is "ok", "doubtful" (it went to its end, but what it found should not be trusted), "failed" (it stopped where it could not
go on) or "interrupted". All thresholds are in this file.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.limits import stiffness_limit
from undula.contact.record import ContactMemory
from undula.core.startup import UndulaWarning
from undula.elements.row import At, BodyMotion
from undula.integrate.implicit import Implicit
from undula.integrate.loop import Sample
from undula.integrate.method import Integrator
from undula.integrate.moreau import Moreau
from undula.integrate.start import Steps
from undula.joints.rod.pieces import overwound
from undula.lie import so3
from undula.model.system import State, System

BLOW_UP = 1e9  # a velocity or coordinate beyond this is a failure [SI units]
VIOLATED = 1e-5  # a constraint that is missed by more is a failure [m, rad or per s]
UNSOLVED = 1e-2  # a contact problem with a larger residual, relative to the impulses, is a failure
# Gallery entries miss the tolerance of the contact solver in at most 9 of 60000 steps, and leave 1e-3 of the largest impulse
MISSED = 0.02  # a run is doubtful if more of its steps than this share miss it,
FINE = 1e-5  # by more than this (a tighter tolerance than the usual one may be missed),
COARSE = 5e-3  # or if a single step leaves more than this


class Verdict(NamedTuple):
    """Status of a run, and a sentence."""

    status: str
    message: str


class Fault(NamedTuple):
    """The first sample that cannot be kept, and why."""

    sample: int
    message: str


def fault(
    system: System, method: Integrator, samples: Sample, noted: Any, steps: Steps, advice: Callable[[], str]
) -> Fault | None:
    """What makes it impossible to go on after a chunk of samples; None if nothing does.

    `noted`: what the integrator remembered at each sample; `advice`: what may help if the motion becomes infinite.
    """
    bad = _first_bad(samples)
    wound = overwound(system, np.asarray(samples.state.q)) if system.rods else None
    if wound is not None and (bad is None or wound[0] <= bad):
        when = samples.t[wound[0]]
        return Fault(
            wound[0], f"{wound[1]} at t = {when:.6g} s; a piece can represent a turn of at most pi: use more nodes."
        )
    if isinstance(method, Implicit) and noted[2].any():
        k = int(np.argmax(noted[2]))
        if bad is None or k <= bad:
            return Fault(k, _not_converged(method, noted, k))
    if bad is not None:
        return Fault(bad, _infinite(system, samples, bad, steps, advice))
    if isinstance(noted, ContactMemory) and (noted.since.worst[:, 0] > UNSOLVED).any():
        k = int(np.argmax(noted.since.worst[:, 0] > UNSOLVED))
        return Fault(
            k,
            f"the contact problem was not solved {_between(samples, k, steps)}: {noted.since.worst[k, 0]:.3g} of the largest "
            "impulse remains; more iterations (`most` of its solver) or a smaller dt may help.",
        )
    if not system.least_squares and (samples.residual > VIOLATED).any():
        k = int(np.argmax(samples.residual > VIOLATED))
        return Fault(k, undefined(system, samples, k) or _violated(system, samples, k))
    return None


def conclude(verdict: Verdict, samples: Sample, noted: Any, steps: int) -> Verdict:
    """The verdict on a run that has ended, from all its samples; `steps`: done."""
    status, message = verdict
    if status == "failed":
        return verdict
    changes = rank_changes(samples)
    if changes:
        message = f"{message.rstrip('.')}; the rank of the constraints changed {'; '.join(changes[:5])}."
    if isinstance(noted, ContactMemory) and noted.since.unsolved.sum():
        missed, worst = int(noted.since.unsolved.sum()), float(noted.since.worst[:, 0].max())
        message = (
            f"{message.rstrip('.')}; the contact problem was not solved to the tolerance in {missed} of {steps} steps, "
            f"{worst:.2g} of the largest impulse remained at worst"
        )
        if (missed > MISSED * steps and worst > FINE) or worst > COARSE:
            status = "doubtful" if status == "ok" else status
            message += (
                f", where at most {MISSED:.0%} of the steps and {COARSE:g} of the impulse may: forces and motion are doubtful; "
                "a smaller dt, fewer contacts that share a load, or more iterations (`most` of the solver) may help"
            )
        message += "."
    return Verdict(status, message)


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
    """The time between the sample before and this one, in words."""
    when = float(samples.t[k])
    return f"between t = {max(when - steps.stride * steps.dt, 0.0):.6g} s and t = {when:.6g} s"


def _infinite(system: System, samples: Sample, k: int, steps: Steps, advice: Callable[[], str]) -> str:
    if samples.t[k] == 0:
        return (
            f"{_not_finite(system, samples)} at the start, t = 0 s; some mass, inertia, length, stiffness or law of the model "
            "is too small, too large or not finite."
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


def _not_converged(method: Implicit, noted: Any, k: int) -> str:
    return (
        f"Newton's method did not converge in the step from t = {noted[3][k]:.6g} s, nor in {2**method.halvings} "
        f"parts of it: {noted[1][k]:.3g} of the efforts remains (tolerance {method.tolerance:g}); a smaller dt, "
        "softer loads or more damping (GeneralisedAlpha with a smaller rho) may help."
    )


def _violated(system: System, samples: Sample, k: int) -> str:
    driven = system.motions or system.base_motion is not None
    return (
        f"the constraints cannot be satisfied at t = {samples.t[k]:.6g} s: {samples.residual[k]:.3g} remains "
        f"(m, rad, m/s or rad/s); {'the driven motion is not compatible with them' if driven else 'they became singular'}, "
        "or dt is too large."
    )


def undefined(system: System, samples: Sample, last: int) -> str:
    """What happened to a constraint that means nothing in the poses of two samples, `last` and the one before.

    "" if all constraints have a meaning.
    """
    for k in range(max(last - 1, 0), last + 1):
        for group in system.ideal:
            for i, (rows, bodies) in enumerate(zip(group.rows, group.bodies)):
                form = jax.tree.map(lambda x, i=i: jnp.asarray(x)[i], group.form)
                at = tuple(_placed(samples, k, b) for b in bodies)
                why = form.undefined(At(float(samples.t[k]), at, jnp.zeros(0), jnp.zeros(0)))
                if why:
                    name = system.row_names[rows[0]].rsplit(".", 1)[0]
                    return f"at t = {samples.t[k]:.6g} s '{name}' {why}."
    return ""


def _placed(samples: Sample, k: int, body: int) -> BodyMotion:
    """The pose of a body at a sample, at rest; after the last body comes the world."""
    zero = jnp.zeros(3)
    if body >= samples.bodies.position.shape[1]:
        return BodyMotion(jnp.eye(3), zero, zero, zero)
    R = so3.to_matrix(jnp.asarray(samples.bodies.quaternion[k, body]))
    return BodyMotion(R, jnp.asarray(samples.bodies.position[k, body]), zero, zero)


def step_advice(system: System, method: Integrator, state: State, dt: float) -> str:
    """What may help a run that became infinite."""
    limit = np.inf if isinstance(method, Implicit | Moreau) else stiffness_limit(system, state)
    if dt <= limit:
        return "a smaller dt may help."
    return (
        f"its springs, dampers and controllers are too stiff for {type(method).__name__} with dt = {dt:g} s: dt must be below "
        f"about {limit:.2g} s, or the integrator implicit."
    )


def warn_of_limits(system: System, samples: Sample) -> None:
    """One warning for the coordinates that left their limits, with when and how far."""
    x = np.asarray(samples.position)
    if not x.size:
        return
    over = np.maximum(np.asarray(system.lower) - x, x - np.asarray(system.upper))
    found = []
    for k in np.flatnonzero((over > 1e-9).any(0)):
        i = int(np.argmax(over[:, k] > 1e-9))
        found.append(f"{system.coordinate_names[k]} (from t = {samples.t[i]:.4g} s, by up to {over[:, k].max():.3g})")
    if found:
        warnings.warn(f"coordinates beyond their limits: {', '.join(found)}.", UndulaWarning, stacklevel=3)


def rank_changes(samples: Sample) -> list[str]:
    """When the rank of the constraints changed between samples, and how."""
    rank = np.asarray(samples.rank)
    return [f"from {rank[k]} to {rank[k + 1]} at t = {samples.t[k + 1]:.6g} s" for k in np.flatnonzero(np.diff(rank))]
