"""A run: chunks of compiled steps, with progress reports, failure checks and samples in between."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx

from undula.balance.admissible import admissible
from undula.balance.limits import check_references
from undula.contact.carried import refuse_unsound
from undula.core.errors import UndulaError
from undula.core.phases import phase
from undula.integrate.engine import Engine
from undula.integrate.events import Until, Watch, latched_at_start
from undula.integrate.loop import usual_integrator
from undula.integrate.method import Integrator
from undula.integrate.progress import OnSamples
from undula.integrate.start import Steps, check_gaps, check_led, check_state, check_times
from undula.integrate.watched import WatchedEngine
from undula.model.state import State
from undula.model.system import System

if TYPE_CHECKING:
    import xarray as xr

HALVINGS = 6  # limit on the halvings of a step that the run chooses
USUAL_STEP = 1e-3  # [s]


class Run(eqx.Module):
    """Result of a run.

    - `data`: the samples, an `xarray.Dataset` (see the page on result files).
    - `status`: "ok", "doubtful" (it reached its end, but should not be trusted), "failed" or "interrupted"; `message`: why and
      when it stopped, or a summary of what was done.
    - `state`: the final state; `steps` done, of `dt` [s] each; `compile_s`, `wall_s`: time of compilation and computation [s].
    """

    data: "xr.Dataset" = eqx.field(static=True)
    status: str = eqx.field(static=True)
    message: str = eqx.field(static=True)
    state: State
    steps: int = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    compile_s: float = eqx.field(static=True)
    wall_s: float = eqx.field(static=True)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


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
    reproducible: bool = False,
) -> Run:
    """Simulates from t0 on and records samples.

    **Arguments:**

    - `state`: the state at t0 [s]; all zeros by default. `Run.state` of a run is where another can go on.
    - `t_end` [s], `dt` [s]: the run ends at t_end exactly; if dt does not divide it, all steps are slightly shorter. Without
      dt, steps of 1 ms are taken, and halved until the energy balance is satisfied.
    - `until`: a function (system, t, state) of JAX; the run ends where its value changes sign, found within the step.
    - `save_every`: steps between samples; by default about 500 samples are kept. The last instant is always kept.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods, `Moreau()` with contacts.
    - `progress`: called with the fraction done after each chunk: about 1 % of the run or 1 s of computation, whichever is less,
      but at least one sample.
    - `on_samples`: called after each chunk with the number of samples so far and a function of k that returns those from number
      k on as a dataset, assembled on request. The number drops when a run restarts with shorter steps.
    - `reproducible`: the same bits in every run. Otherwise a run begins with code that compiles quickly and may go on with
      optimised code, which rounds differently, when this is ready.
    - `refine`: whether a run whose energy balance is off restarts with half the step; by default if dt is not given.

    **Returns:**

    A `Run`. Rows that rules switch (`RowModel.when`) are switched at their instants, and recorded as events. If the motion
    becomes infinite or not a number, its status is "failed" and the samples before are kept; if too many contact problems were
    not solved, or energy appeared from nowhere, it is "doubtful". After a KeyboardInterrupt, from Ctrl-C or from one of the
    two callbacks, it is "interrupted", and the samples before are kept.
    """
    state = system.state() if state is None else state
    method = usual_integrator(system) if integrator is None else integrator
    given = min(USUAL_STEP, t_end - t0) if dt is None else dt
    steps = check_times(t_end, given, save_every, t0)
    check_state(system, state)
    system = system.at_time(t0)
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
    halvings = HALVINGS if refine or (refine is None and dt is None) else 0
    watch = Watch(system.switches, until, None if until is None else system.labels)
    kind = Engine if watch.idle else WatchedEngine
    with phase("start"):
        engine = kind(system, method, state, t_end, progress, on_samples, watch, t0, reproducible)
    for k in range(halvings + 1):
        found = engine.go(steps, _done(steps, given, t_end - t0, k), last=k == halvings)
        if found is not None:
            return Run(*found, engine.compile_s, engine.wall_s)
        steps = steps.halved()
    raise AssertionError("the last attempt always ends")


def _done(steps: Steps, dt: float, time: float, halvings: int) -> str:
    """A summary of what was done and, if the steps are not those requested, why."""
    if halvings:
        return (
            f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s was halved {halvings} times, because the energy "
            "balance was off."
        )
    if abs(steps.dt - dt) <= 1e-9 * dt:
        return f"{steps.count} steps of {dt:g} s done."
    what = f"t_end = {time:g} s" if not steps.t0 else f"t_end - t0 = {time:g} s"
    return f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s does not divide {what}."
