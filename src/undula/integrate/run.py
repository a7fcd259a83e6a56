"""A run: chunks of compiled steps, with progress reports, failure checks and samples in between."""

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.admissible import admissible
from undula.balance.classes import classify
from undula.balance.internal import updated
from undula.balance.limits import check_references
from undula.contact.carried import refuse_unsound
from undula.core.errors import UndulaError
from undula.integrate.chunks import SHORT, Now, compiled
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
from undula.integrate.loop import usual_integrator
from undula.integrate.method import Integrator, Report
from undula.integrate.progress import OnSamples, Pace, samples_from
from undula.integrate.start import Steps, check_gaps, check_state, check_times
from undula.model.prepare import prepare
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics.quick import quickly_compiled
from undula.record.attributes import attributes_of
from undula.record.dataset import integrates, to_dataset

if TYPE_CHECKING:
    import xarray as xr

CHUNK_BYTES = 300_000  # XLA compiles a loop whole only while its buffers are small (see `core.startup`)
HALVINGS = 6  # limit on the halvings of a step that the run chooses
USUAL_STEP = 1e-3  # [s]
UNFINISHED = "these are the samples of an unfinished run, which is still going on or was killed."


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
) -> Run:
    """Simulates from t = 0 and records samples.

    **Arguments:**

    - `state`: the initial state; all zeros by default.
    - `t_end` [s], `dt` [s]: the run ends at t_end exactly; if dt does not divide it, all steps are slightly shorter. Without
      dt, steps of 1 ms are taken, and halved until the energy balance is satisfied.
    - `save_every`: steps between samples; by default about 500 samples are kept. The last instant is always kept.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods, `Moreau()` with contacts.
    - `progress`: called with the fraction done after each chunk: about 1 % of the run or 1 s of computation, whichever is less,
      but at least one sample.
    - `on_samples`: called after each chunk with the number of samples so far and a function of k that returns those from number
      k on as a dataset, assembled on request. The number drops when a run restarts with shorter steps.
    - `refine`: whether a run whose energy balance is off restarts with half the step; by default if dt is not given.

    **Returns:**

    A `Run`. If the motion becomes infinite or not a number, its status is "failed" and the samples before are kept; if too many
    contact problems were not solved, or energy appeared from nowhere, it is "doubtful". After a KeyboardInterrupt, from Ctrl-C
    or from one of the two callbacks, it is "interrupted", and the samples before are kept.
    """
    state = system.state() if state is None else state
    method = usual_integrator(system) if integrator is None else integrator
    given = min(USUAL_STEP, t_end) if dt is None else dt
    steps = check_times(t_end, given, save_every)
    check_state(system, state)
    if system.contacts and "unilateral" not in method.takes:
        raise UndulaError(f"{type(method).__name__} cannot integrate '{system.name}', which has contacts; use Moreau.")
    refuse_unsound(system)
    check_references(system, steps.count, steps.dt)
    state = admissible(system, state)
    check_gaps(system, state)
    halvings = HALVINGS if refine or (refine is None and dt is None) else 0
    engine = _Engine(system, method, state, t_end, progress, on_samples)
    for k in range(halvings + 1):
        found = engine.go(steps, _done(steps, given, t_end, k), last=k == halvings)
        if found is not None:
            return found
        steps = steps.halved()
    raise AssertionError("the last attempt always ends")


class _Engine:
    """A run that may be restarted with other steps."""

    def __init__(
        self,
        system: System,
        method: Integrator,
        state: State,
        t_end: float,
        progress: Callable[[float], None] | None,
        on_samples: OnSamples | None,
    ):
        self.system, self.method, self.start, self.t_end = system, method, state, t_end
        self.progress, self.on_samples = progress, on_samples
        self.bare = system.bare()  # names and drawings are static: with them, any change of a name would recompile
        self.compile_s = self.wall_s = 0.0
        self.kind = cache(lambda: _class(system, state))

    def go(self, steps: Steps, done: str, last: bool) -> Run | None:
        """The run with the given steps; None if its energy balance is off and this is not the `last` attempt."""
        count = -(-steps.count // steps.stride) + 1
        # about 1 % of the run per chunk, but no fewer than ten samples: a call costs about a millisecond
        size = min(max(-(-count // 100), 10), max(1, CHUNK_BYTES // _sample_bytes(self.system)))
        began = time.perf_counter()
        now, make_steps, look_at_samples = self._begin(steps, size)
        self.compile_s += time.perf_counter() - began
        began = time.perf_counter()
        parts: list[Any] = []
        pace = Pace(size)
        kept, verdict = 0, Verdict("ok", done)
        dt, stride = jnp.asarray(steps.dt), jnp.asarray(steps.stride)
        try:
            while kept < count and verdict.status == "ok":
                at = time.perf_counter()
                until = jnp.asarray(min(steps.count, (kept + pace.samples) * steps.stride))
                now, moments = make_steps(self.bare, now, until, dt, stride, size, self.method)
                samples = look_at_samples(self.bare, moments.t, moments.state, moments.contacts)
                new = min(pace.samples, count - kept)
                records = Records(moments.shown, moments.report)
                samples, records = jax.tree.map(lambda x, n=new: np.asarray(x)[:n], (samples, records))
                pace.learn(time.perf_counter() - at)
                if kept + len(samples.t) == count:  # a multiple of dt may differ from it by rounding
                    samples = samples._replace(t=np.append(samples.t[:-1], self.t_end))
                found = fault(self.system, self.method, samples, records, steps, lambda: self._advice(steps.dt))
                if found is not None:
                    verdict = Verdict("failed", found.message)
                    samples, records = jax.tree.map(lambda x, n=found.sample: x[:n], (samples, records))
                parts.append((samples, records))
                kept += len(samples.t)
                if not last and self._is_off(parts):
                    self.wall_s += time.perf_counter() - began
                    return None
                if self.progress is not None:
                    self.progress(min(1.0, kept / count))
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
        return self._ended(parts, steps, verdict, kept)

    def _begin(self, steps: Steps, size: int) -> tuple[Now, Any, Any]:
        """The initial progress of the run, and the compiled functions of its chunks."""
        state = _updated(self.bare, self.start) if self._samples_states() else self.start
        still = Acceleration(jnp.zeros(6), jnp.zeros(self.system.nv))
        carry = self.method.init(self.bare, 0.0, state, still)
        now = Now(state, carry, Report.make(), jnp.asarray(0))
        short = steps.count * (6 + self.system.nv) <= SHORT
        arguments = (
            self.bare, now, jnp.asarray(steps.count), jnp.asarray(steps.dt), jnp.asarray(steps.stride), size, self.method,
        )  # fmt: skip
        make_steps, look_at_samples = compiled(arguments, short)
        if self.method.wants_start():
            # accelerations at the start, from the function that is compiled for samples anyway
            t, states = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), (jnp.zeros(()), state))
            at = jax.tree.map(lambda x: x[0], look_at_samples(self.bare, t, states, self.method.contacts(carry)))
            now = now._replace(carry=self.method.init(self.bare, 0.0, at.state, at.acceleration))
        return now, make_steps, look_at_samples

    def _samples_states(self) -> bool:
        return any(g.remembers and "update" in g.does for g in self.system.groups)

    def _is_off(self, parts: list[Any]) -> bool:
        samples, records = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        return is_off(energy_error(self.system, self.method, samples, records.report))

    def _advice(self, dt: float) -> str:
        return step_advice(self.system, self.method, self.start, dt)

    def _unfinished(self, parts: list[Any], steps: Steps, count: int, first: int) -> "xr.Dataset":
        """The samples from number `first` up to `count` of a run that goes on."""
        whole = integrates(self.system)  # integrals over time need all samples
        data = self._labelled(samples_from(parts, count, 0 if whole else first), steps, "incomplete", UNFINISHED)
        return data.isel(time=slice(first, None)) if whole else data

    def _labelled(self, part: Any, steps: Steps, status: str, message: str) -> "xr.Dataset":
        samples, records = part
        more = attributes_of(
            self.system, samples.bodies.position, steps.dt, type(self.method).__name__, status, message
        )
        return to_dataset(self.system, samples, {"class": self.kind()} | more, self.method.observables, records.shown)

    def _ended(self, parts: list[Any], steps: Steps, verdict: Verdict, kept: int) -> Run:
        whole: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        samples, records = whole
        done = round(float(samples.t[-1]) / steps.dt) if kept else 0
        warn_of_limits(self.system, samples)
        warn_of_remarks(self.system, samples)
        verdict = conclude(verdict, self.system, self.method, samples, records, done)
        state = jax.tree.map(lambda x: jnp.asarray(x[-1]), samples.state) if kept else self.start
        data = self._labelled(whole, steps, *verdict)
        return Run(data, *verdict, state, done, steps.dt, self.compile_s, self.wall_s)


@quickly_compiled
def _updated(system: System, state: State) -> State:
    return updated(prepare(system), 0.0, state, 0.0)


def _done(steps: Steps, dt: float, t_end: float, halvings: int) -> str:
    """A summary of what was done and, if the steps are not those requested, why."""
    if halvings:
        return (
            f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s was halved {halvings} times, because the energy "
            "balance was off."
        )
    if abs(steps.dt - dt) <= 1e-9 * dt:
        return f"{steps.count} steps of {dt:g} s done."
    return f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s does not divide t_end = {t_end:g} s."


def _class(system: System, state: State) -> str:
    try:
        return str(classify(system, state))
    except np.linalg.LinAlgError:  # a matrix that is not finite has no rank
        return "unknown"


def _sample_bytes(system: System) -> int:
    return 8 * (60 + 5 * system.nv + 7 * len(system.body_names) + len(system.row_names))
