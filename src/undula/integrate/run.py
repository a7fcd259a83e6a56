"""A run: chunks of compiled steps, with progress reports, failure checks and samples in between."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np

from undula.balance.admissible import admissible
from undula.balance.limits import check_references
from undula.contact.carried import refuse_unsound
from undula.core.errors import UndulaError
from undula.core.phases import phase
from undula.integrate.engine import Again, Engine
from undula.integrate.events import Until, Watch, check_until, latched_at_start
from undula.integrate.loop import usual_integrator
from undula.integrate.method import Integrator
from undula.integrate.progress import OnSamples
from undula.integrate.quality import MEANINGLESS, Goal
from undula.integrate.start import (
    Steps,
    check_gaps,
    check_led,
    check_state,
    check_stiffness,
    check_times,
    check_tolerance,
)
from undula.integrate.watched import WatchedEngine
from undula.model.arguments import checked
from undula.model.state import State
from undula.model.system import System

if TYPE_CHECKING:
    import xarray as xr

DIVISIONS, MORE_DIVISIONS = 64, 4096  # limits on the division of the first step, the second if a tolerance is given
USUAL_STEP = 1e-3  # [s]
FEWEST, MOST = 500, 100_000  # steps of the first attempt: with a tolerance, and at most without
TOLERANCE, ROUGH_TOLERANCE = 1e-3, 1e-2  # the defaults; the second for methods of order 1, which contacts need


class Run(eqx.Module):
    """Result of a run.

    - `data`: the samples, an `xarray.Dataset` (see the page on result files).
    - `status`: "ok", "doubtful" (it reached its end, but should not be trusted), "failed" or "interrupted"; `message`: why and
      when it stopped, or a summary of what was done.
    - `state`: the final state; `steps` done, of `dt` [s] each; `compile_s`, `wall_s`: time of compilation and computation [s].
    - `error`: the estimated error, relative to the sizes and energies of the motion; nan if it is unknown.
    """

    data: "xr.Dataset" = eqx.field(static=True)
    status: str = eqx.field(static=True)
    message: str = eqx.field(static=True)
    state: State
    steps: int = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    compile_s: float = eqx.field(static=True)
    wall_s: float = eqx.field(static=True)
    error: float = eqx.field(static=True, default=float("nan"))

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@checked
def run(
    system: System,
    state: State | None = None,
    t_end: float = 1.0,
    dt: float | None = None,
    save_every: int | None = None,
    integrator: Integrator | None = None,
    progress: Callable[[float], None] | None = None,
    on_samples: OnSamples | None = None,
    refine: bool | None = None,
    t0: float = 0.0,
    until: Until | None = None,
    tolerance: float | None = None,
    reproducible: bool = False,
) -> Run:
    """Simulates from t0 on and records samples.

    **Arguments:**

    - `state`: the state at t0 [s]; all zeros by default. `Run.state` of a run is where another can go on.
    - `t_end` [s], `dt` [s]: the run ends at t_end exactly; if dt does not divide it, all steps are slightly shorter. Without
      dt, the run begins with steps of 1 ms and divides them until its estimated error is within the tolerance.
    - `tolerance`: the estimated error that is allowed, relative to the sizes and energies of the motion, instead of dt. The
      first attempt then takes 500 steps. By default 1e-3, or 1e-2 with a method of order 1.
    - `until`: a function (system, t, state) of JAX; the run ends where its value changes sign, found within the step.
    - `save_every`: steps between samples; by default about 500 samples are kept. The last instant is always kept.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods, `Moreau()` with contacts.
    - `progress`: called with the fraction done after each chunk: about 1 % of the run or 1 s of computation, whichever is less,
      but at least one sample.
    - `on_samples`: called after each chunk with the number of samples so far and a function of k that returns those from number
      k on as a dataset, assembled on request. The number drops when a run restarts with shorter steps.
    - `reproducible`: the same bits in every run. Otherwise a run begins with code that compiles quickly and may go on with
      optimised code, which rounds differently, when this is ready.
    - `refine`: whether a run that is meaningless with the given dt restarts with a part of it.

    **Returns:**

    A `Run`. Rows that rules switch (`RowModel.when`) are switched at their instants, and recorded as events. If the motion
    becomes infinite or not a number, its status is "failed" and the samples before are kept. If too many contact problems were
    not solved, energy appeared from nowhere, or the estimated error exceeds 5 %, it is "doubtful"; beyond 1 %, a warning
    says so. After a KeyboardInterrupt, from Ctrl-C or from one of the two callbacks, it is "interrupted", and the samples
    before are kept.
    """
    state = system.state() if state is None else state
    method = usual_integrator(system) if integrator is None else integrator
    check_tolerance(tolerance, dt)
    given = _first_step(t_end - t0, tolerance) if dt is None else dt
    steps = check_times(t_end, given, save_every, t0)
    check_state(system, state)
    system = system.at_time(t0)
    if until is not None:
        check_until(until, system, state, t0)
    if system.contacts and "unilateral" not in method.takes:
        raise UndulaError(f"{type(method).__name__} cannot integrate '{system.name}', which has contacts; use Moreau.")
    with phase("start"):
        refuse_unsound(system)
        check_references(system, steps.count, steps.dt, t0)
        if any("latch" in g.does for g in system.ideal):
            state = latched_at_start(system, t0, state)
        state = admissible(system, state, t0)
        check_gaps(system, state)
        check_led(system, state, t0)
        if dt is not None:  # otherwise a first step that is too long is divided
            check_stiffness(system, state, method, steps.dt)
    goal = _goal(method, dt, tolerance, bool(refine))
    watch = Watch(system.switches, until, None if until is None else system.labels)
    kind = Engine if watch.idle else WatchedEngine
    with phase("start"):
        engine = kind(system, method, state, t_end, progress, on_samples, watch, t0, reproducible)
    divisor, reasons = 1, dict[str, list[str]]()
    while True:
        found = engine.go(steps, _done(steps, given, t_end - t0, divisor, reasons), goal)
        if not isinstance(found, Again):
            data, status, message, last, count, step, error = found
            return Run(data, status, message, last, count, step, engine.compile_s, engine.wall_s, error)
        steps, divisor = steps.divided(found.divisor), divisor * found.divisor
        reasons.setdefault(found.why, []).append(f" {found.error:.2g}" if np.isfinite(found.error) else "")
        goal = goal._replace(divisions=goal.divisions // found.divisor, before=found.error)


def _first_step(duration: float, tolerance: float | None) -> float:
    """The first step [s] of a run that chooses it."""
    return duration / FEWEST if tolerance is not None else min(max(USUAL_STEP, duration / MOST), duration)


def _goal(method: Integrator, dt: float | None, tolerance: float | None, refine: bool) -> Goal:
    """The error that a run is to reach by dividing its step."""
    if tolerance is not None:
        return Goal(tolerance, MORE_DIVISIONS, tolerance=tolerance, bold=True)
    if dt is None:
        usual = TOLERANCE if method.order > 1 else ROUGH_TOLERANCE
        return Goal(usual, DIVISIONS, tolerance=usual)
    return Goal(MEANINGLESS, DIVISIONS if refine else 1)


def _done(steps: Steps, dt: float, time: float, divisor: int, reasons: dict[str, list[str]]) -> str:
    """A summary of what was done and, if the steps are not those requested, why."""
    if divisor > 1:
        why = " and ".join(what + ", then".join(values) if any(values) else what for what, values in reasons.items())
        how = "was halved" if divisor == 2 else f"was divided by {divisor}"
        return f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s {how}, because {why}."
    if abs(steps.dt - dt) <= 1e-9 * dt:
        return f"{steps.count} steps of {dt:g} s done."
    what = f"t_end = {time:g} s" if not steps.t0 else f"t_end - t0 = {time:g} s"
    return f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s does not divide {what}."
