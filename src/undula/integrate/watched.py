"""The engine of a run with events: rows that switch, a condition that ends it."""

from typing import Any

import jax
import numpy as np

from undula.core.arrays import known, zeros
from undula.elements.element import changed
from undula.elements.switching import Schedule
from undula.integrate.chunks import Moments, Now, moment
from undula.integrate.engine import Engine, Stop
from undula.integrate.events import (
    AGAIN,
    QUICK_WATCHED,
    SETTLED,
    WATCHED,
    Event,
    Watched,
    jump_onto,
    left_open,
    located,
    short_step,
    watched_values,
)
from undula.integrate.method import Integrator
from undula.integrate.start import Steps
from undula.integrate.tiers import Tiers
from undula.model.packing import Switch
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import quickly_compiled

TOGETHER = 1e-12  # a step shorter than this, relative to dt, is not taken
ROUNDED = 1e-9  # a scheduled instant so little after the end of a step, relative to dt, is due in it: times are rounded


class WatchedEngine(Engine):
    """A run that stops where a watched value reaches zero, or a schedule asks for it, and goes on with other rows."""

    def begin(self, steps: Steps, size: int) -> None:
        # the rules act here; the compiled steps only see which rows are on
        self.bare = changed(self.system.bare(), switches=())
        super().begin(steps, size)
        self._instants = self._scheduled(steps)
        self._watch(steps.t0)
        self._settled = False

    def loop(self, now: Now, size: int) -> Tiers:
        events = len(self.watch.switches) + (self.watch.until is not None)
        at = Watched(now, zeros(events), zeros((), bool))
        numbers = tuple(np.asarray(x) for x in (0, 0.0, 0))
        args = (self.bare, at, *numbers, size, self.method, self.watch, np.asarray(0.0))
        return Tiers(WATCHED, QUICK_WATCHED, args, self.reproducible)

    def repeat(self, system: System, now: Now, last: int, dt: float, t0: float) -> Now:
        values = watched_values(system, np.asarray(t0 + int(now.step) * dt), now.state, self.watch)
        at = Watched(now, values, zeros((), bool))
        numbers = np.asarray(last), np.asarray(dt), np.asarray(last - int(now.step))
        return self.tiers.call(system, at, *numbers, self.size, self.method, self.watch, np.asarray(float(t0)))[0].now

    def _scheduled(self, steps: Steps) -> np.ndarray:
        """Instants [s] of scheduled switches within the run, in order."""
        times = np.concatenate([np.zeros(0), *(np.asarray(x.rule.times) for x in self.watch.switches)])
        return np.unique(times[(times > steps.t0) & (times <= self.t_end)])

    def _watch(self, t: float) -> None:
        """Evaluates the watched values anew, as the basis of comparison for the next step."""
        values = watched_values(self.bare, np.asarray(float(t)), self.now.state, self.watch)
        self.at = Watched(self.now, values, zeros((), bool))

    def _settle(self, t: float) -> None:
        """Releases rows that are on although their rules say that they should not be, e.g. supports that would pull."""
        for _ in range(AGAIN):
            values = np.asarray(self.at.values)[: len(self.watch.switches)]
            mask = np.asarray(self.bare.mask)
            which = np.array([mask[x.rows[0]] > 0 and v < -SETTLED for x, v in zip(self.watch.switches, values)], bool)
            if not which.any():
                return
            self._change(t, which)
        raise self._contradiction(t)

    def _contradiction(self, t: float) -> Stop:
        return Stop(
            f"rows of '{self.system.name}' switch again and again at t = {t:.6g} s: their conditions contradict each other."
        )

    def chunk(self, steps: Steps, kept: int, wanted: int) -> tuple[Moments, int, str]:
        if not self._settled:
            self._settle(steps.t0)
            self._settled = True
        at_step = int(self.at.now.step)
        sampled = at_step < kept * steps.stride  # otherwise the moment before the event is kept first
        if sampled and at_step < steps.count and (bool(self.at.stopped) or self._due(steps, at_step) is not None):
            ended = self._through(steps, at_step)
            if ended:
                return ended
        until = min(steps.count, (kept + wanted) * steps.stride)
        due = self._due(steps, int(self.at.now.step), until)
        if due is not None:
            until = min(until, due)
        self.at, moments = self.tiers.call(
            self.bare,
            self.at,
            np.asarray(until),
            np.asarray(steps.dt),
            np.asarray(steps.stride),
            self.size,
            self.method,
            self.watch,
            np.asarray(float(steps.t0)),
        )
        self.now = self.at.now
        self._refuse_unknown(steps)
        return self._new(moments, steps, kept)

    def _refuse_unknown(self, steps: Steps) -> None:
        """Ends a run whose conditions have no sign, unless its motion is not a number either, which says more."""
        unknown = np.isnan(np.asarray(self.at.values))
        if not unknown.any() or not np.all(np.isfinite(np.asarray(self.now.state.velocity))):
            return
        k = int(np.argmax(unknown))
        t = steps.t0 + int(self.now.step) * steps.dt
        switches = self.watch.switches
        what = "until" if k == len(switches) else f"the condition of '{self._name(switches[k])}'"
        raise Stop(f"{what} is not a number at t = {t:.6g} s, so that no event can be found.")

    def _name(self, x: Switch) -> str:
        return self.system.labels.elements[x.group][1][x.member]

    def _due(self, steps: Steps, first: int, last: int | None = None) -> int | None:
        """The first step from `first` to `last` (default: only `first`) during or at whose end a scheduled switch is due."""
        if not len(self._instants):
            return None
        step = max(first, int(np.ceil((self._instants[0] - steps.t0) / steps.dt - ROUNDED)) - 1)
        return step if step <= (first if last is None else last) else None

    def _new(self, moments: Moments, steps: Steps, kept: int) -> tuple[Moments, int, str]:
        """The moments that are new samples, first; those of intervals that were interrupted, and repetitions, are not."""
        step = np.round((np.asarray(moments.t) - steps.t0) / steps.dt).astype(int)
        wanted = np.minimum(steps.stride * np.arange(kept, kept + len(step)), steps.count)
        chosen: list[int] = []
        for k, x in enumerate(step):
            if len(chosen) < len(wanted) and x == wanted[len(chosen)] and (x < steps.count or x not in step[chosen]):
                chosen.append(k)
        index = np.array([*chosen, *([len(step) - 1] * (len(step) - len(chosen)))], dtype=int)
        return jax.tree.map(lambda x: np.asarray(x)[index], moments), len(chosen), ""

    def _through(self, steps: Steps, k: int) -> tuple[Moments, int, str] | None:
        """Goes through step k with its events; what `chunk` returns if one of them ends the run."""
        dt = steps.dt
        t, end = steps.t0 + k * dt, steps.t0 + (k + 1) * dt
        for _ in range(AGAIN):
            due = self._instants[0] if len(self._instants) and self._instants[0] <= end + ROUNDED * dt else None
            target = end if due is None else max(t, min(float(due), end))
            if target - t > TOGETHER * dt:
                self.at, crossed = short_step(self.bare, self.at, t, target - t, self.method, self.watch)
                if crossed:
                    h, which = located(self.bare, self.at, t, target - t, self.method, self.watch)
                    if h > TOGETHER * dt:
                        self.at = short_step(self.bare, self.at, t, h, self.method, self.watch, force=True)[0]
                        t += h
                    self.now = self.at.now
                    if len(which) > len(self.watch.switches) and which[-1]:
                        return self._end(t, steps)
                    self._switch(t, which)
                    continue
            t = target
            self.now = self.at.now
            if due is not None:
                self._instants = self._instants[1:]
                self._follow(max(t, float(due)))
                continue
            self.now = self.now._replace(step=np.asarray(k + 1))
            self._watch(t)
            return None
        raise self._contradiction(t)

    def _end(self, t: float, steps: Steps) -> tuple[Moments, int, str]:
        """The last moment of a run that its condition ends."""
        one = moment(self.method, known(self.now), np.asarray(steps.dt), np.asarray(steps.t0))
        one = one._replace(t=np.asarray(t))
        moments = jax.tree.map(lambda x: np.broadcast_to(x, (self.size, *np.shape(x))), one)
        self.events.append(Event(t, "until", np.zeros(len(self.system.reaction_weights)), 0.0))
        return moments, 1, f"the condition was met at t = {t:.9g} s, where the run ended."

    def _follow(self, t: float) -> None:
        """Sets the rows that schedules switch as they are from time t [s] on."""
        late = t + 1e-12 * (1 + abs(t))
        on = [isinstance(x.rule, Schedule) and bool(x.rule.on(late)) for x in self.watch.switches]
        mask = np.asarray(self.bare.mask)
        which = np.array(
            [isinstance(x.rule, Schedule) and (mask[x.rows[0]] > 0) != y for x, y in zip(self.watch.switches, on)]
        )
        self._switch(t, which)

    def _switch(self, t: float, which: np.ndarray) -> None:
        """Switches the rows of the marked rules, and then those that must not stay on."""
        self._change(t, which)
        self._settle(t)

    def _change(self, t: float, which: np.ndarray) -> None:
        """Switches the rows of the marked rules, and makes the velocities satisfy the rows that are on."""
        mask, before = np.array(self.bare.mask), np.asarray(self.bare.mask)
        words = []
        for x, marked in zip(self.watch.switches, which):
            if marked:
                rows = np.array(x.rows)
                mask[rows] = 1.0 - mask[rows]
                words.append(f"{self._name(x)} {'on' if mask[rows[0]] > 0 else 'off'}")
        if not words:
            self._watch(t)
            return
        self.bare = changed(self.bare, mask=mask)
        engaged = np.maximum(mask - before, 0.0)
        found = jump_onto(self.bare, np.asarray(float(t)), self.now.state, engaged)
        why = left_open(self.system, t, found)
        if why:
            raise Stop(why)
        self.events.append(
            Event(t, ", ".join(words), np.asarray(found.impulses), float(found.energy), (), float(found.lost))
        )
        report = self.now.report
        report = report._replace(work=report.work + found.energy)
        carry = self.now.carry
        if self.method.wants_start():
            carry = _restarted(self.bare, np.asarray(float(t)), found.state, self.method)
        self.now = self.now._replace(state=found.state, carry=carry, report=report)
        self._watch(t)

    def mask(self, size: int) -> Any:
        mask = self.bare.mask
        return None if mask is None else np.broadcast_to(np.asarray(mask), (size, len(mask)))

    def remarks(self, message: str) -> str:
        if self.watch.until is not None and not any(e.what == "until" for e in self.events):
            return f"{message.rstrip('.')}; the condition was not met."
        return message


@quickly_compiled
def _restarted(system: System, t: Any, state: State, method: Integrator) -> Any:
    """The method's memory at the start of a smooth part of the motion."""
    return method.init(system, t, state)
