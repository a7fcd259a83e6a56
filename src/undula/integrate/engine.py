"""The engine of a run: compiled chunks of steps, samples and checks between them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from undula.balance.classes import Classes
from undula.balance.internal import updated
from undula.core.callbacks import collected
from undula.core.errors import UndulaError
from undula.core.phases import phase
from undula.integrate.accuracy import Mark, Programs, Repetition
from undula.integrate.chunks import OPTIMISED, QUICK, SAMPLES, Moments, Now, shaped
from undula.integrate.events import Event, Watch
from undula.integrate.extent import scales_of
from undula.integrate.judge import (
    Records,
    Verdict,
    conclude,
    energy_error,
    fault,
    is_off,
    step_advice,
    warn_of_limits,
    warn_of_remarks,
)
from undula.integrate.method import Integrator, Report
from undula.integrate.passage import passage
from undula.integrate.progress import AIM, OnSamples, Pace, samples_from
from undula.integrate.quality import Evidence, Goal, Judged, Quality, concluded, quality, warn_of_error
from undula.integrate.start import Steps
from undula.integrate.tiers import Tiers
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled, side_by_side
from undula.record.attributes import attributes_of
from undula.record.dataset import integrates, to_dataset

if TYPE_CHECKING:
    import xarray as xr

CHUNK = 64  # samples: larger ones bring little, and a size that follows from the run would compile anew
TELLING = 4  # samples: the duration of a smaller chunk says little about that of the run
CHUNK_BYTES = 300_000  # XLA compiles a loop whole only while its buffers are small (see `core.startup`)
UNFINISHED = "these are the samples of an unfinished run, which is still going on or was killed."


class Stop(Exception):
    """A run cannot go on, for the reason given; its samples are kept."""


class Outcome(NamedTuple):
    """Samples, status, message, final state, number and length [s] of the steps, estimated error."""

    data: "xr.Dataset"
    status: str
    message: str
    state: State
    steps: int
    dt: float
    error: float


class Again(NamedTuple):
    """A run should be repeated with its step divided by a whole number, because `why`, and the estimated error."""

    divisor: int
    why: str
    error: float = np.inf


class Engine:
    """A run that may be restarted with other steps."""

    def __init__(
        self,
        system: System,
        method: Integrator,
        state: State,
        t_end: float,
        progress: Callable[[float], None] | None,
        on_samples: OnSamples | None,
        watch: Watch,
        t0: float,
        reproducible: bool = False,
    ):
        self.system, self.method, self.start, self.t_end = system, method, state, t_end
        self.progress, self.on_samples, self.watch = progress, on_samples, watch
        self.reproducible = reproducible
        self.bare = system.bare()  # names and drawings are static: with them, any change of a name would recompile
        self.compile_s = self.wall_s = 0.0
        self.events: list[Event] = []
        self.marks: list[Mark] = []
        self.errors: list[str] = []  # of Python functions that the compiled steps call
        self.classes = Classes(system, state, t0)

    def go(self, steps: Steps, done: str, goal: Goal) -> Outcome | Again:
        """The run with the given steps; how to do it better, if it is not good enough and may be repeated."""
        with collected() as self.errors:
            return self._go(steps, done, goal)

    def _go(self, steps: Steps, done: str, goal: Goal) -> Outcome | Again:
        count = -(-steps.count // steps.stride) + 1
        size = max(1, min(CHUNK, CHUNK_BYTES // _sample_bytes(self.system)))
        began = time.perf_counter()
        self.begin(steps, size)
        self.compile_s += time.perf_counter() - began
        began = time.perf_counter()
        parts: list[Any] = []
        pace = Pace(size)
        kept, verdict, ended = 0, Verdict("ok", done), ""
        try:
            while kept < count and verdict.status == "ok" and not ended:
                at = time.perf_counter()
                self.marks.append(Mark(self.bare, self.now, kept))
                try:
                    moments, new, ended = self.chunk(steps, kept, min(pace.samples, count - kept))
                except Stop as why:
                    if not parts:  # nothing to keep
                        raise UndulaError(str(why)) from None
                    verdict = Verdict("failed", str(why))
                    break
                if not new:
                    continue
                samples = self.look_at_samples(self.bare, moments.t, moments.state, moments.contacts, np.asarray(new))
                records = Records(moments.shown, moments.report, self.mask(size))
                samples, records = jax.tree.map(lambda x, n=new: np.asarray(x)[:n], (samples, records))
                spent = time.perf_counter() - at
                pace.learn(spent)
                if new >= TELLING or spent > AIM / 10:
                    self.tiers.consider(spent / new * (count - kept - new))
                if kept + len(samples.t) == count and not ended:  # a multiple of dt may differ from it by rounding
                    samples = samples._replace(t=np.append(samples.t[:-1], self.t_end))
                found = fault(self.system, self.method, samples, records, steps, lambda: self._advice(steps.dt))
                if found is not None and goal.bold and goal.divisions > 1 and kept + found.sample and not self.errors:
                    self.wall_s += time.perf_counter() - began
                    return Again(min(4, goal.divisions), "the motion could not be computed")
                if found is not None:
                    verdict = Verdict("failed", self.errors[0] if self.errors else found.message)
                    samples, records = jax.tree.map(lambda x, n=found.sample: x[:n], (samples, records))
                parts.append((samples, records))
                kept += len(samples.t)
                if goal.divisions > 1 and self._is_off(parts):
                    self.wall_s += time.perf_counter() - began
                    return Again(2, "the energy balance was off")
                if self.progress is not None:
                    self.progress(1.0 if ended else min(1.0, kept / count))
                if self.on_samples is not None and kept:

                    def samples_since(k: int, n: int = kept) -> "xr.Dataset":
                        return self._unfinished(parts, steps, n, k)

                    self.on_samples(kept, samples_since)
        except KeyboardInterrupt as stop:
            if not parts:
                raise
            source = str(stop) or "the user"
            verdict = Verdict("interrupted", f"stopped by {source} after t = {parts[-1][0].t[-1]:.6g} s.")
        self.wall_s += time.perf_counter() - began
        whole: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        judged = self._judged(whole, steps, verdict.status == "ok")
        good = judged.quality
        divisor = goal.divisor(good, self.method.order) if verdict.status == "ok" else 1
        if divisor > 1:
            return Again(divisor, "the estimated error was", good.error)
        if verdict.status == "ok":
            verdict = Verdict("ok", self.remarks(ended or verdict.message))
        with phase("report"):
            return self._ended(whole, steps, verdict, kept, judged, goal)

    def begin(self, steps: Steps, size: int) -> None:
        """Compiles the functions of a chunk and sets the progress of the run to its start."""
        t0 = np.asarray(steps.t0, dtype=float)
        self.events, self.marks = [], []
        zeros: Any = np.zeros
        still = Acceleration(zeros(6), zeros(self.system.nv))
        begun = self._samples_states()
        state, carry = _begun(self.bare, t0, self.start, self.method, still, begun)
        report: Any = Report(*map(np.asarray, (True, 0.0, 0, 0.0, 0, 0.0, 0.0)))  # type: ignore[arg-type]
        now = Now(state, carry, report, np.asarray(0))
        look = (self.bare, *shaped(self.method, now, np.asarray(0.0), size), np.asarray(size))
        kept = SAMPLES.find(*look)
        samples = kept or SAMPLES.make(*look)
        self.tiers = self.loop(now, size)
        with phase("load" if self.tiers.kept and kept is not None else "compile"):
            found = side_by_side([self.tiers.prepare, samples, _import_early])
        self.tiers.begin(found[0])
        self.look_at_samples = found[1]
        if self.method.wants_start():
            # accelerations at the start, from the function that is compiled for samples anyway
            t, states = jax.tree.map(lambda x: np.broadcast_to(x, (size, *np.shape(x))), (t0, state))
            contacts = self.method.contacts(carry)
            at = jax.tree.map(
                lambda x: np.asarray(x)[0], self.look_at_samples(self.bare, t, states, contacts, np.asarray(1))
            )
            carry = _begun(self.bare, t0, at.state, self.method, at.acceleration, False)[1]
            now = now._replace(carry=carry)
        self.now, self.size = now, size

    def loop(self, now: Now, size: int) -> Tiers:
        """The compiled loop of a chunk."""
        numbers = tuple(np.asarray(x) for x in (0, 0.0, 0))
        args = (self.bare, now, *numbers, size, self.method, np.asarray(0.0))
        return Tiers(OPTIMISED, QUICK, args, self.reproducible)

    def chunk(self, steps: Steps, kept: int, wanted: int) -> tuple[Moments, int, str]:
        """The next moments of the run, how many of them are new, and why the run ends with them ("": it does not)."""
        numbers = (
            np.asarray(min(steps.count, (kept + wanted) * steps.stride)),
            np.asarray(steps.dt),
            np.asarray(steps.stride),
        )
        self.now, moments = self.tiers.call(
            self.bare, self.now, *numbers, self.size, self.method, np.asarray(float(steps.t0))
        )
        return moments, wanted, ""

    def repeat(self, system: System, now: Now, last: int, dt: float, t0: float) -> Now:
        """The progress at the end of step `last`, from that of another moment of the run and with steps of another length."""
        # a single stride of the compiled loop makes all steps; the others find nothing left to do
        numbers = np.asarray(last), np.asarray(dt), np.asarray(last - int(now.step))
        return self.tiers.call(system, now, *numbers, self.size, self.method, np.asarray(float(t0)))[0]

    def mask(self, size: int) -> Any:
        """Which rows are on, for each of the samples of a chunk; None if none are switched."""
        return None

    def remarks(self, message: str) -> str:
        """The message about a run that has ended, and what it should add."""
        return message

    def _samples_states(self) -> bool:
        return any(g.remembers and "update" in g.does for g in self.system.groups)

    def _jumps(self) -> list[tuple[float, float]]:
        return [(e.t, e.energy) for e in self.events]

    def _is_off(self, parts: list[Any]) -> bool:
        samples, records = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        return is_off(energy_error(self.system, self.method, samples, records.report, self._jumps()))

    def _advice(self, dt: float) -> str:
        return step_advice(self.system, self.method, self.start, dt)

    def _unfinished(self, parts: list[Any], steps: Steps, count: int, first: int) -> "xr.Dataset":
        """The samples from number `first` up to `count` of a run that goes on."""
        whole = integrates(self.system)  # integrals over time need all samples
        data = self._labelled(samples_from(parts, count, 0 if whole else first), steps, "incomplete", UNFINISHED)
        return data.isel(time=slice(first, None)) if whole else data

    def _labelled(self, part: Any, steps: Steps, status: str, message: str) -> "xr.Dataset":
        samples, records = part
        index, legend = self.classes.along(samples, records.mask)
        more = attributes_of(
            self.system, samples.bodies.position, steps.dt, type(self.method).__name__, status, message
        )
        kinds = {"class": self.classes.generic, "class_legend": legend}
        events = None if self.watch.idle else self.events
        shown = self.method.observables, records.shown
        return to_dataset(self.system, samples, kinds | more, *shown, index, records.mask, events)

    def _judged(self, whole: Any, steps: Steps, ended: bool) -> Judged:
        """What is known about the error of a run; of one that has not `ended`, nothing."""
        samples, records = whole
        if not ended or len(samples.t) < 2:
            return Judged(Evidence(np.nan, np.nan, None, 0.0, None), None, Quality(np.nan, ""))
        scales = scales_of(self.system, samples)
        programs = Programs(self.repeat, self.look_at_samples, self.size, self.method)
        events = np.array([e.t for e in self.events])
        repetition = Repetition(self.system, programs, self.marks, samples, steps, events, scales)
        evidence = Evidence(
            *repetition.errors(),
            energy_error(self.system, self.method, samples, records.report, self._jumps()),
            float(records.report.penetration.max()) if self.system.contacts else 0.0,
            passage(self.system, samples, steps.dt),
        )
        return Judged(evidence, scales, quality(evidence, scales))

    def _ended(self, whole: Any, steps: Steps, verdict: Verdict, kept: int, judged: Judged, goal: Goal) -> Outcome:
        samples, records = whole
        done = round((float(samples.t[-1]) - steps.t0) / steps.dt) if kept else 0
        warn_of_limits(self.system, samples)
        warn_of_remarks(self.system, samples)
        verdict = conclude(verdict, self.system, self.method, samples, records, done, self._jumps())
        verdict = concluded(verdict, judged, self.method, steps.dt, goal)
        warn_of_error(verdict.status, judged.quality)
        state = jax.tree.map(lambda x: x[-1], samples.state) if kept else self.start
        data = self._labelled(whole, steps, *verdict)
        error = judged.quality.error
        if np.isfinite(error):
            data.attrs["error_estimate"] = error
        return Outcome(data, *verdict, state, done, steps.dt, error)


@quickly_compiled
def _begun(
    system: System, t: Any, state: State, method: Integrator, found: Acceleration, samples_states: bool
) -> tuple[State, Any]:
    """The state at the start, with sampled internal states, and the memory of the method."""
    if samples_states:
        state = updated(prepare(system), t, state, 0.0)
    return state, method.init(system, t, state, found)


def _import_early() -> None:
    """What the end of a run needs and takes a quarter of a second to import, beside the compilation."""
    import xarray  # noqa: F401


def _sample_bytes(system: System) -> int:
    return 8 * (60 + 5 * system.nv + 7 * len(system.body_names) + len(system.row_names))
