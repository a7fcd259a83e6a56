"""Runs in phases: each with its own end, rows, system or method."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from undula.balance.kinematics import kinetic_energy
from undula.core.errors import UndulaError, function_of, instance, real, shown
from undula.elements.element import changed
from undula.elements.switching import Schedule
from undula.integrate.carry import carry_over
from undula.integrate.events import Event, Until, switch
from undula.integrate.method import Integrator
from undula.integrate.run import Run, run
from undula.integrate.start import check_tolerance
from undula.model.arguments import checked
from undula.model.packing import Switch
from undula.model.state import State
from undula.model.system import System

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Phase:
    """A part of a run.

    - `duration` [s]: its longest time; `until`: a condition that ends it before, as for `run`.
    - `on`, `off`: rows or constraints to switch at its beginning; the velocities change by the least impulse.
    - `system`: another system from here on, e.g. with a body attached or let go (see `carry_over`); None: as before.
    - `dt` [s], `integrator`: as for `run`; None: as given to `run_phases`.
    """

    duration: float
    until: Until | None = None
    on: str | Sequence[str] = ()
    off: str | Sequence[str] = ()
    system: System | None = None
    dt: float | None = None
    integrator: Integrator | None = None

    def __post_init__(self):
        real(self.duration, "duration of a phase", above=0.0, unit="s")
        if self.until is not None:
            function_of(self.until, ("system", "t", "state"), "until of a phase")


@checked
def run_phases(
    system: System,
    phases: Sequence[Phase],
    state: State | None = None,
    dt: float | None = None,
    save_every: int | None = None,
    integrator: Integrator | None = None,
    t0: float = 0.0,
    progress: Callable[[float], None] | None = None,
    tolerance: float | None = None,
) -> Run:
    """Simulates one phase after the other, from t0 [s] on; the other arguments are those of `run`.

    **Returns:**

    A `Run` with the samples of all phases, along one time; `phase` (time) numbers them from 1. Where systems differ, what a
    phase does not have is NaN. The last sample of a phase is replaced by the first one of the next, after the change of
    velocity, which is recorded as an event. The first phase that fails ends the run; its message says which.
    Errors of the phases add up.
    """
    check_tolerance(tolerance, dt)
    if not isinstance(phases, Sequence) or isinstance(phases, str | bytes):
        raise UndulaError(f"phases = {shown(phases)}; they must be a list of un.Phase.")
    if not phases:
        raise UndulaError("phases is empty; a run needs at least one Phase.")
    for k, phase in enumerate(phases):
        instance(phase, Phase, f"phase {k + 1}", "an un.Phase")
    state = system.state() if state is None else state
    runs: list[Run] = []
    jumps: list[Event] = []
    t = t0
    for k, phase in enumerate(phases):
        impulses, change, lost = np.zeros(0), 0.0, 0.0
        if phase.system is not None:
            before = float(kinetic_energy(system, state))
            state = carry_over(state, system, phase.system, t)
            system = phase.system
            change = float(kinetic_energy(system, state)) - before
            lost = -change
        if phase.on or phase.off:
            system, jump = switch(system, state, t, phase.on, phase.off)
            state, impulses = jump.state, np.asarray(jump.impulses)
            change, lost = change + float(jump.energy), lost + float(jump.lost)
        if phase.system is not None or phase.on or phase.off:
            rows = system.row_names[: len(impulses)]
            jumps.append(Event(t, f"phase {k + 1}", impulses, change, rows, lost))
        report = None if progress is None else lambda x, k=k: progress((k + x) / len(phases))
        method = integrator if phase.integrator is None else phase.integrator
        step = dt if phase.dt is None else phase.dt
        step = None if step is None else min(step, phase.duration)
        allowed = tolerance if step is None else None  # a phase may have a step of its own
        one = run(
            system, state, t + phase.duration, step, save_every, method, report, None, None, t, phase.until, allowed
        )
        runs.append(one)
        state, t = one.state, float(one.data.time[-1])
        system = _as_left(system, one)
        if one.status not in ("ok", "doubtful"):
            break
    return _joined(runs, jumps, len(phases))


def _as_left(system: System, one: Run) -> System:
    """The system whose conditions begin as a run has left them: a support that has let go stays off."""
    if not system.switches or "constraint_active" not in one.data:
        return system
    on = one.data.constraint_active.values[-1]

    def begun(x: Switch) -> Switch:
        return x if isinstance(x.rule, Schedule) else changed(x, rule=changed(x.rule, begins=bool(on[x.rows[0]])))

    return changed(system, switches=tuple(begun(x) for x in system.switches))


def _joined(runs: list[Run], jumps: list[Event], count: int) -> Run:
    """The runs as one."""
    worst = next((s for s in ("failed", "interrupted", "doubtful") if any(r.status == s for r in runs)), "ok")
    words = [f"phase {k + 1}: {r.message}" for k, r in enumerate(runs) if r.status == worst or r is runs[-1]]
    message = " ".join(words)
    if len(runs) < count:
        message = f"{message.rstrip('.')}; {count - len(runs)} of {count} phases were not begun."
    last = runs[-1]
    steps = sum(r.steps for r in runs)
    seconds = (sum(r.compile_s for r in runs), sum(r.wall_s for r in runs))
    known = [r.error for r in runs if np.isfinite(r.error)]
    error = sum(known) if known else float("nan")
    data = _data(runs, jumps).assign_attrs(status=worst, message=message)
    if known:
        data.attrs["error_estimate"] = error
    return Run(data, worst, message, last.state, steps, last.dt, *seconds, error)


def _data(runs: list[Run], jumps: list[Event]) -> "xr.Dataset":
    """The samples of all runs along one time, and their events; where variables differ, NaN stands for what is missing."""
    import xarray as xr

    parts, events, legend = [], [_recorded(x) for x in jumps], dict[str, None]()
    for k, r in enumerate(runs):
        own = r.data if k == len(runs) - 1 else r.data.isel(time=slice(0, -1))
        legend |= dict.fromkeys(json.loads(own.attrs["class_legend"]))
        named = [v for v in own.data_vars if "event" in own[v].dims]
        if named and own.sizes["event"]:
            events.append(own[named])
        own = own.drop_dims("event", errors="ignore")
        index = [list(legend).index(x) for x in json.loads(own.attrs["class_legend"])]
        classes = np.array(index, dtype=int)[own.class_index.values]
        parts.append(
            own.assign(
                phase=("time", np.full(own.sizes["time"], k + 1), {"units": "1", "long_name": "number of the phase"}),
                class_index=("time", classes, own.class_index.attrs),
            )
        )
    timed = [p[[v for v in p.data_vars if "time" in p[v].dims]] for p in parts]
    out = xr.concat(timed, "time", join="outer", combine_attrs="override")
    for p in parts:  # roles and units; those of the first phase that has them
        out = out.combine_first(p[[v for v in p.data_vars if "time" not in p[v].dims]])
    if events:
        joined = xr.concat(events, "event", join="outer", combine_attrs="override").sortby("event_time")
        joined = joined.fillna({"event_impulse": 0.0})
        out = out.merge(joined, join="outer", compat="override", combine_attrs="override")
    return out.assign_attrs(runs[0].data.attrs).assign_attrs(class_legend=json.dumps(list(legend)))


def _recorded(x: Event) -> "xr.Dataset":
    """A switch at the beginning of a phase, in the form in which runs record theirs."""
    import xarray as xr

    variables = {
        "event_time": ("event", [x.t]),
        "event_impulse": (("event", "constraint"), x.impulses[None]),
        "event_energy": ("event", [x.energy]),
        "event_loss": ("event", [x.lost]),
    }
    return xr.Dataset(variables, coords={"event": [x.what], "constraint": list(x.rows)})
