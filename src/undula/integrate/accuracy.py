"""The error that the steps of a run make: parts of the run are repeated with half the step.

Two half steps have 2^-p of the error of one step of a method of order p, so that the difference of both is 1 - 2^-p of that
error. The compiled steps of the run are used again, because their length is an argument. There are two ways to add up errors:

- Windows spread over the run begin at its own states, and their differences are added: the error that the method makes, even
  where the motion is unstable or chaotic. Errors that cancel, or that the motion forgets, are counted nevertheless.
- The whole run is repeated: the differences are the errors that are left, but they grow where the motion is chaotic.

The second costs twice the run, so that it is left out where the first is small enough.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from undula.core.steps import Steps
from undula.integrate.chunks import Now
from undula.integrate.extent import Scales
from undula.model.system import System
from undula.record.sample import Sample

WINDOWS = 12  # parts of a run that are repeated
SHARE = 0.05  # part of the steps of a run that is repeated at least,
SMOOTH, ROUGH = (
    5_000,
    500_000,
)  # and steps times velocities; impacts (rough) are rare, so that few windows would miss them
LARGE = 1e-3  # if the windows add up to more than this, the whole run is repeated,
AFFORDABLE = 500_000  # unless it has more steps times velocities than this


class Mark(NamedTuple):
    """An instant from which a run can be repeated: its system (with the rows that were on), its progress, its sample."""

    system: Any
    now: Now
    sample: int


class Programs(NamedTuple):
    """How steps of a run are repeated (`Engine.repeat`), the compiled function of its samples, their number, the method."""

    repeat: Any
    look_at_samples: Any
    size: int
    method: Any


class _Window(NamedTuple):
    """A part of a run: from a mark to a sample."""

    mark: Mark
    last: int


class Repetition:
    """A run that has ended, and what repeating parts of it needs."""

    def __init__(
        self,
        system: System,
        programs: Programs,
        marks: list[Mark],
        samples: Sample,
        steps: Steps,
        events: np.ndarray,
        scales: Scales,
    ):
        self.velocities, self.rough = 6 + system.nv, bool(system.contacts)
        self.programs, self.samples, self.steps, self.events, self.scales = programs, samples, steps, events, scales
        self.times = np.asarray(samples.t)
        n = len(self.times) - 1  # the last sample is no beginning; between samples there are no marks
        repeatable = all(g.form.repeatable for g in system.groups)
        self.marks = [m for m in marks if repeatable and m.sample < n and self._is_at(m.sample, int(m.now.step))]
        order = 2.0**programs.method.order
        self.factor = order / (order - 1)

    def errors(self) -> tuple[float, float]:
        """The errors that the steps make, and what becomes of them by the end; nan where nothing was repeated."""
        if not self.marks:
            return np.nan, np.nan
        count = self.steps.count
        budget = max(SHARE * count, (ROUGH if self.rough else SMOOTH) / self.velocities)
        made = self.in_windows(int(budget / WINDOWS))
        small = made <= LARGE or count * self.velocities > AFFORDABLE
        return made, np.nan if small else self.from_start()

    def windows(self, limit: int) -> list[_Window]:
        """Windows spread over the run, of at most `limit` steps (at least one sample); none with an event."""
        times = self.times
        wanted = times[0] + (times[-1] - times[0]) * np.arange(WINDOWS) / WINDOWS
        begins = np.array([times[m.sample] for m in self.marks])
        chosen = np.unique(np.searchsorted(begins, wanted + 1e-9 * self.steps.dt, side="right") - 1)
        ends = [self.marks[k].sample for k in chosen[1:]] + [len(times) - 1]
        out = []
        for k, end in zip(chosen, ends):
            mark = self.marks[k]
            last = min(end, mark.sample + max(1, limit // self.steps.stride))
            at_step = self._is_at(last, self._step(last))  # a condition may end a run between steps
            if at_step and not ((self.events >= times[mark.sample]) & (self.events <= times[last])).any():
                out.append(_Window(mark, last))
        return out

    def in_windows(self, limit: int) -> float:
        """The sum of the errors of windows that begin at the run's own states, as a rate over the whole run."""
        windows = self.windows(limit)
        if not windows:
            return np.nan
        found = [self._reached(w.mark, _halved(w.mark.now), w.last)[1] for w in windows]
        places, energies = self._differences([w.mark.system for w in windows], found, [w.last for w in windows])
        lengths = [self.times[w.last] - self.times[w.mark.sample] for w in windows]
        whole = (self.times[-1] - self.times[0]) / sum(lengths)
        # at impacts velocities jump, and their instants differ a little: such differences do not add up
        return float(max(whole * places.sum(), np.median(energies) if self.rough else whole * energies.sum()))

    def from_start(self) -> float:
        """The largest error at some instants of a run that is repeated as a whole."""
        mark, count = self.marks[0], len(self.times) - 1
        instants = np.unique(np.linspace(0, count, WINDOWS + 1).round().astype(int))[1:]
        at = [int(k) for k in instants if self._is_at(k, self._step(k))]
        if not at or mark.sample != 0 or len(self.events):
            return np.nan
        found, now = [], _halved(mark.now)
        for k in at:
            now, moment = self._reached(mark, now, k)
            found.append(moment)
        places, energies = self._differences([mark.system] * len(found), found, at)
        return float(max(places.max(), np.median(energies) if self.rough else energies.max()))

    def _step(self, sample: Any) -> int:
        return round((float(self.times[sample]) - self.steps.t0) / self.steps.dt)

    def _is_at(self, sample: Any, step: int) -> bool:
        """Whether a sample is at the beginning of a step."""
        return bool(abs(self.times[sample] - self.steps.t0 - step * self.steps.dt) < 1e-6 * self.steps.dt)

    def _reached(self, mark: Mark, now: Now, sample: int) -> tuple[Now, tuple[Any, ...]]:
        """The progress at the instant of a sample, reached with half steps; time, state and contact data there."""
        repeat, _, _, method = self.programs
        last = 2 * self._step(sample)
        now = repeat(mark.system, now, last, self.steps.dt / 2, self.steps.t0)
        if int(now.step) != last:  # an event that the run did not have there
            now = now._replace(state=jax.tree.map(lambda x: np.nan * np.asarray(x), now.state), step=np.asarray(last))
        return now, (np.asarray(self.times[sample]), now.state, method.contacts(now.carry))

    def _differences(
        self, systems: list[Any], moments: list[tuple[Any, ...]], at: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The relative errors of places and energies at some samples, from moments of the repetition."""
        _, look_at_samples, size, _ = self.programs
        rows, k = [], 0
        while k < len(moments):
            n = 1
            while n < min(size, len(moments) - k) and systems[k + n] is systems[k]:
                n += 1
            some = moments[k : k + n]
            full = some + [some[-1]] * (size - n)
            t, state, contacts = jax.tree.map(lambda *x: np.stack(x), *full)
            seen = look_at_samples(systems[k], t, state, contacts, np.asarray(n))
            rows.append(jax.tree.map(lambda x, n=n: np.asarray(x)[:n], seen))
            k += n
        again = jax.tree.map(lambda *x: np.concatenate(x), *rows)
        own = jax.tree.map(lambda x: np.asarray(x)[np.array(at)], self.samples)
        places, energies = self.scales.differences(own, again)
        return self.factor * places, self.factor * energies


def _halved(now: Now) -> Now:
    """The progress of a run as that of one with half the step."""
    nothing = jax.tree.map(np.zeros_like, now.report)._replace(good=np.asarray(True))
    return now._replace(step=np.asarray(2 * int(now.step)), report=nothing)
