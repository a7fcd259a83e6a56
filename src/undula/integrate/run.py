"""A run: chunks of compiled steps, a progress report between them, failures noticed, samples kept."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula.balance.admissible import admissible
from undula.balance.classes import classify
from undula.balance.limits import check_references
from undula.contact.record import ContactMemory
from undula.contact.spheres import refuse_unsound, surroundings
from undula.core.errors import UndulaError
from undula.core.version import __version__
from undula.forces.tendons import warn_of_pushing
from undula.integrate.implicit import Memory
from undula.integrate.judge import Verdict, conclude, fault, step_advice, warn_of_limits
from undula.integrate.loop import advance_steps, sample, usual_integrator
from undula.integrate.method import External, Integrator, Motion
from undula.integrate.moreau import Moreau
from undula.integrate.progress import OnSamples, Pace, samples_from
from undula.integrate.start import Steps, check_gaps, check_state, check_times
from undula.model.system import Acceleration, State, System
from undula.numerics.quick import quick_options
from undula.record.dataset import to_dataset

if TYPE_CHECKING:
    import xarray as xr

CHUNK_BYTES = 300_000  # XLA compiles a loop whole only while its buffers are small (see _startup)
SHORT = 20_000  # steps times velocities: a run with fewer is compiled quickly rather than to be quick
PROGRAMS = 8  # pairs of compiled functions that are kept for further runs of the same structure
UNFINISHED = "these are the samples that a run had written before its end; it goes on, or it was killed."

_programs: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}


class Run(eqx.Module):
    """What a run gives.

    - `data`: the samples, an `xarray.Dataset` (see the page on result files).
    - `status`: "ok", "doubtful" (it went to its end, but should not be trusted), "failed" or "interrupted"; `message`: why and
      when it stopped, or a sentence on what was done.
    - `steps`: done, of `dt` [s] each; `compile_s`, `wall_s`: seconds of compilation and of computation.
    """

    data: "xr.Dataset" = eqx.field(static=True)
    status: str = eqx.field(static=True)
    message: str = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    compile_s: float = eqx.field(static=True)
    wall_s: float = eqx.field(static=True)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def _steps(system, state, memory, first, last, dt, stride, samples, integrator, external):
    """(state, memory and step at the end; times, states and memories at `samples` instants from step `first` on, `stride` steps
    apart).

    The chunk ends at step `last`; the instants that are left then repeat it.
    """

    def body(carry, _):
        state, memory, k = carry
        noted = _noted(memory)
        todo = jnp.clip(last - k, 0, stride)
        if isinstance(memory, ContactMemory):  # a chunk that ends early leaves its records to the next one
            memory = jax.tree.map(lambda new, old: jnp.where(todo > 0, new, old), memory.rested(), memory)
        new = advance_steps(system, state, memory, k, todo, dt, integrator=integrator, external=external)
        return (*new, k + todo), (k * dt, state, noted)

    return jax.lax.scan(body, (state, memory, first), None, length=samples)


def _noted(memory):
    """What is kept of an integrator's memory: (iterations, residual, failed, when) of an implicit one, all with contacts."""
    if isinstance(memory, ContactMemory):
        return memory
    return (memory.iterations, memory.residual, memory.failed, memory.failed_at) if isinstance(memory, Memory) else ()


def _for_samples(noted):
    """The part of it that samples need."""
    return noted if isinstance(noted, ContactMemory) else ()


def _samples(system, moments, external):
    """What is recorded of each of these instants."""

    def one(x):
        t, state, noted = x
        return sample(system, t, state, external, noted if isinstance(noted, ContactMemory) else None)

    return jax.lax.map(one, moments)


@cache
def _jitted(short: bool) -> tuple[Any, Any]:
    """Both functions of a chunk; made late, because the options depend on the device."""
    options = quick_options()
    return eqx.filter_jit(_steps, compiler_options=options if short else {}), eqx.filter_jit(
        _samples, compiler_options=options
    )


def _compile(steps: tuple, external: External | None, short: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Both functions of a chunk, compiled at the same time: the samples to compile fast, the steps to run fast.

    In a `short` run the steps, too, are compiled fast: its time is that of the compilation. A run that differs from one of the
    last few in numbers alone takes their programs.
    """
    key = _structure((steps, external, short, getattr(jax.config, "jax_default_device", None)))
    if key in _programs:
        _programs[key] = _programs.pop(key)  # the last one used
        return _programs[key]
    system, state, memory, samples = steps[0], steps[1], steps[2], steps[7]
    one = jnp.zeros(()), state, _for_samples(_noted(memory))
    moments = jax.tree.map(lambda x: jnp.broadcast_to(x, (samples, *x.shape)), one)
    lowered = _jitted(short)[0].lower(*steps), _jitted(short)[1].lower(system, moments, external)
    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(lambda x: x.compile(), lowered))
    if key is not None:
        _programs[key] = compiled[0], compiled[1]
        while len(_programs) > PROGRAMS:
            _programs.pop(next(iter(_programs)))
    return compiled[0], compiled[1]


def _structure(x: Any) -> Any:
    """All that a program depends on: everything but the numbers in arrays. None if something cannot be compared."""
    leaves, tree = jax.tree.flatten(x)

    def seen(leaf):
        if isinstance(leaf, jax.Array | np.ndarray):
            return leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", False)
        return type(leaf), leaf

    key = tree, tuple(seen(leaf) for leaf in leaves)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def run(
    system: System,
    state: State | None = None,
    t_end: float = 1.0,
    dt: float = 1e-3,
    save_every: int | None = None,
    integrator: Integrator | None = None,
    external: External | None = None,
    progress: Callable[[float], None] | None = None,
    on_samples: OnSamples | None = None,
) -> Run:
    """Simulates from t = 0 and keeps samples.

    **Arguments:**

    - `state`: the initial state; everything at zero by default.
    - `t_end` [s], `dt` [s]: the run ends at t_end exactly; if dt does not divide it, all steps are a little shorter.
    - `save_every`: steps between samples; by default about 500 samples are kept. The last instant always is.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods.
    - `external`: wrenches (t, system, state) -> (bodies, 6) of the surroundings.
    - `progress`: called with the fraction done, after each chunk: about 1 % of the run or 1 s of computation, whatever is less,
      but at least one sample.
    - `on_samples`: called after each chunk with the number of samples so far and a function that gives those from number k on
      as a dataset; only what is asked for is put together.

    **Returns:**

    A `Run`. If the motion becomes infinite or not a number, its status is "failed" and the samples before are kept; if too many
    contact problems were not solved, it is "doubtful". After a KeyboardInterrupt, from Ctrl-C or one of the two functions,
    it is "interrupted", and the samples before are kept.
    """
    state = system.state() if state is None else state
    method = usual_integrator(system) if integrator is None else integrator
    steps = check_times(t_end, dt, save_every)
    check_state(system, state)
    if system.contacts and not isinstance(method, Moreau):
        raise UndulaError(f"{type(method).__name__} cannot integrate '{system.name}', which has contacts; use Moreau.")
    refuse_unsound(system.contacts, system.contact_names)
    check_references(system, steps.count, steps.dt)
    state = state_0 = admissible(system, state)
    check_gaps(system, state)
    count = -(-steps.count // steps.stride) + 1
    # about 1 % of the run a chunk, but no fewer than ten samples: a call costs about a millisecond
    size = min(max(-(-count // 100), 10), max(1, CHUNK_BYTES // _sample_bytes(system)))

    started = time.perf_counter()
    first = jnp.asarray(0)
    whole = first, jnp.asarray(steps.count), jnp.asarray(steps.dt), jnp.asarray(steps.stride)
    bare = replace(system, shapes=())  # drawings are static: with them, any change of a length would compile anew
    motion = Motion(bare, None, external)  # outside `jit`, links would be compiled operation by operation
    memory = method.begin(motion, 0.0, state, (state, Acceleration(jnp.zeros(6), jnp.zeros(system.nv))))
    short = steps.count * (6 + system.nv) <= SHORT
    step_chunk, sample_chunk = _compile((bare, state, memory, *whole, size, method, external), external, short)
    if isinstance(memory, Memory):  # accelerations at the start, from the function that is compiled for samples anyway
        moments = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), (jnp.zeros(()), state, ()))
        at = jax.tree.map(lambda x: x[0], sample_chunk(bare, moments, external))
        memory = method.begin(motion, 0.0, state, (at.state, at.acceleration))
    compiled = time.perf_counter()

    @cache
    def kind() -> str:
        return _class(system, state_0)

    def labelled(part: Any, status: str, message: str) -> "xr.Dataset":
        samples, noted = part
        attributes = {"class": kind()} | dict(
            scenario=system.name,
            parameters="{}",  # a gallery entry says its own
            integrator=type(method).__name__,
            dt=steps.dt,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            device=jax.devices()[0].device_kind,
            dtype="float64",
            undula_version=__version__,
            status=status,
            message=message,
            shapes=json.dumps([[asdict(shape) for shape in shapes] for shapes in system.shapes]),
            parents=json.dumps([-1, *system.topology.parents]),
            surroundings=json.dumps(surroundings(system, samples.bodies.position)),
        )
        return to_dataset(system, samples, attributes, noted)

    parts: list[Any] = []
    pace = Pace(size)
    kept, verdict = 0, Verdict("ok", _done(steps, dt, t_end))
    try:
        while kept < count and verdict.status == "ok":
            began = time.perf_counter()
            until = jnp.asarray(min(steps.count, (kept + pace.samples) * steps.stride))
            (state, memory, first), moments = step_chunk(
                bare, state, memory, first, until, *whole[2:], size, method, external
            )
            samples = sample_chunk(bare, (*moments[:2], _for_samples(moments[2])), external)
            new = min(pace.samples, count - kept)
            samples, noted = jax.tree.map(lambda x, n=new: np.asarray(x)[:n], (samples, moments[2]))
            pace.learn(time.perf_counter() - began)
            if kept + len(samples.t) == count:  # a multiple of dt may differ from it by rounding
                samples = samples._replace(t=np.append(samples.t[:-1], t_end))
            found = fault(system, method, samples, noted, steps, lambda: step_advice(system, method, state_0, steps.dt))
            if found is not None:
                verdict = Verdict("failed", found.message)
                samples, noted = jax.tree.map(lambda x, n=found.sample: x[:n], (samples, noted))
            parts.append((samples, noted))
            kept += len(samples.t)
            if progress is not None:
                progress(min(1.0, kept / count))
            if on_samples is not None and kept:
                on_samples(kept, lambda k, n=kept: labelled(samples_from(parts, n, k), "incomplete", UNFINISHED))
    except KeyboardInterrupt as stop:
        if not parts:
            raise
        source = str(stop) or "the user"
        verdict = Verdict("interrupted", f"stopped by {source} after t = {parts[-1][0].t[-1]:.6g} s.")
    finished = time.perf_counter()

    whole_run: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    joined, noted = whole_run
    done = round(float(joined.t[-1]) / steps.dt) if kept else 0
    warn_of_limits(system, joined)
    warn_of_pushing(system.along, joined.t, joined.along)
    verdict = conclude(verdict, joined, noted, done)
    return Run(
        labelled(whole_run, *verdict),
        *verdict,
        done,
        steps.dt,
        compiled - started,
        finished - compiled,
    )


def _done(steps: Steps, dt: float, t_end: float) -> str:
    """What was done, in words; if the steps are not those asked for, why."""
    if abs(steps.dt - dt) <= 1e-9 * dt:
        return f"{steps.count} steps of {dt:g} s done."
    return f"{steps.count} steps of {steps.dt:.9g} s done: dt = {dt:g} s does not divide t_end = {t_end:g} s."


def _class(system: System, state: State) -> str:
    try:
        return str(classify(system, state))
    except np.linalg.LinAlgError:  # numbers that are not finite have no rank
        return "unknown"


def _sample_bytes(system: System) -> int:
    return 8 * (60 + 5 * system.nv + 7 * len(system.body_names) + len(system.row_names))
