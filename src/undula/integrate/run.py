"""A run: chunks of compiled steps, a progress report between them, failures noticed, samples kept."""

import json
import time
import warnings
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

from undula._quick import quick_options
from undula._startup import UndulaWarning
from undula._version import __version__
from undula.constraints.assembly import admissible
from undula.constraints.classify import classify
from undula.contact.candidates import surroundings
from undula.contact.separate import contact_gaps
from undula.integrate.base import External, Integrator, Motion
from undula.integrate.controlled import check_references, stiffness_limit
from undula.integrate.implicit import Implicit, Memory
from undula.integrate.moreau import ContactMemory, Moreau
from undula.integrate.progress import OnSamples, Pace, samples_from
from undula.integrate.results import to_dataset
from undula.integrate.simulate import Sample, advance_steps, sample, usual_integrator
from undula.model.errors import UndulaError
from undula.model.system import Acceleration, State, System
from undula.model.topology import GROUPS

if TYPE_CHECKING:
    import xarray as xr

CHUNK_BYTES = 300_000  # XLA compiles a loop whole only while its buffers are small (see _startup)
SHORT = 20_000  # steps times velocities: a run with fewer is compiled quickly rather than to be quick
VIOLATED = 1e-5  # a constraint that is missed by more is a failure [m, rad or per s]
UNSOLVED = 1e-2  # a contact problem with a larger residual, relative to the impulses, is a failure
DEEP = 1e-6  # a contact that starts deeper is refused [m]
UNFINISHED = "these are the samples that a run had written before its end; it goes on, or it was killed."
BLOW_UP = 1e9  # a velocity or coordinate beyond this is a failure [SI units]


class Run(eqx.Module):
    """What a run gives.

    - `data`: the samples, an `xarray.Dataset` (see the page on result files).
    - `status`: "ok", "failed" or "interrupted"; `message`: why and when it stopped, or a sentence on what was done.
    - `steps`: done; `compile_s`, `wall_s`: seconds of compilation and of computation.
    """

    data: "xr.Dataset" = eqx.field(static=True)
    status: str = eqx.field(static=True)
    message: str = eqx.field(static=True)
    steps: int = eqx.field(static=True)
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

    In a `short` run the steps, too, are compiled fast: its time is that of the compilation.
    """
    system, state, memory, samples = steps[0], steps[1], steps[2], steps[7]
    one = jnp.zeros(()), state, _for_samples(_noted(memory))
    moments = jax.tree.map(lambda x: jnp.broadcast_to(x, (samples, *x.shape)), one)
    lowered = _jitted(short)[0].lower(*steps), _jitted(short)[1].lower(system, moments, external)
    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(lambda x: x.compile(), lowered))
    return compiled[0], compiled[1]


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
    - `t_end` [s], `dt` [s]: the number of steps is t_end/dt, rounded.
    - `save_every`: steps between samples; by default about 500 samples are kept. The last instant always is.
    - `integrator`: `RungeKutta4()` by default, `ImplicitMidpoint()` for elastic rods.
    - `external`: wrenches (t, system, state) -> (bodies, 6) of the surroundings.
    - `progress`: called with the fraction done, after each chunk: about 1 % of the run or 1 s of computation, whatever is less,
      but at least one sample.
    - `on_samples`: called after each chunk with the number of samples so far and a function that gives those from number k on
      as a dataset; only what is asked for is put together.

    **Returns:**

    A `Run`. If the motion becomes infinite or not a number, its status is "failed" and the samples before are kept. So they are
    with the status "interrupted" after a KeyboardInterrupt, from Ctrl-C or out of one of the two functions.
    """
    state = system.state() if state is None else state
    method = usual_integrator(system) if integrator is None else integrator
    steps, stride = check_times(t_end, dt, save_every)
    check_state(system, state)
    if system.contacts and not isinstance(method, Moreau):
        raise UndulaError(f"{type(method).__name__} cannot integrate '{system.name}', which has contacts; use Moreau.")
    check_references(system, steps, dt)
    state = state_0 = admissible(system, state)
    check_gaps(system, state)
    count = -(-steps // stride) + 1
    # about 1 % of the run a chunk, but no fewer than ten samples: a call costs about a millisecond
    size = min(max(-(-count // 100), 10), max(1, CHUNK_BYTES // _sample_bytes(system)))

    started = time.perf_counter()
    first = jnp.asarray(0)
    whole = first, jnp.asarray(steps), jnp.asarray(float(dt)), jnp.asarray(stride)
    bare = replace(system, shapes=())  # drawings are static: with them, any change of a length would compile anew
    motion = Motion.of(bare, external)
    memory = method.begin(motion, 0.0, state, (state, Acceleration(jnp.zeros(6), jnp.zeros(system.nv))))
    short = steps * (6 + system.nv) <= SHORT
    step_chunk, sample_chunk = _compile((bare, state, memory, *whole, size, method, external), external, short)
    if isinstance(memory, Memory):  # accelerations at the start, from the function that is compiled for samples anyway
        moments = jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *x.shape)), (jnp.zeros(()), state, ()))
        at = jax.tree.map(lambda x: x[0], sample_chunk(bare, moments, external))
        memory = method.begin(motion, 0.0, state, (at.state, at.acceleration))
    compiled = time.perf_counter()

    @cache
    def kind() -> str:
        return str(classify(system, state_0))

    def labelled(part: Any, status: str, message: str) -> "xr.Dataset":
        samples, noted = part
        attributes = {"class": kind()} | dict(
            scenario=system.name,
            parameters="{}",  # a gallery entry says its own
            integrator=type(method).__name__,
            dt=float(dt),
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
    kept, status, message = 0, "ok", f"{steps} steps of {dt:g} s done."
    try:
        while kept < count and status == "ok":
            began = time.perf_counter()
            until = jnp.asarray(min(steps, (kept + pace.samples) * stride))
            (state, memory, first), moments = step_chunk(
                bare, state, memory, first, until, *whole[2:], size, method, external
            )
            samples = sample_chunk(bare, (*moments[:2], _for_samples(moments[2])), external)
            new = min(pace.samples, count - kept)
            samples, noted = jax.tree.map(lambda x, n=new: np.asarray(x)[:n], (samples, moments[2]))
            pace.learn(time.perf_counter() - began)
            fault = _fault(
                system, method, samples, noted, stride * dt, lambda: step_advice(system, method, state_0, dt)
            )
            if fault is not None:
                status, (first_bad, message) = "failed", fault
                samples, noted = jax.tree.map(lambda x, n=first_bad: x[:n], (samples, noted))
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
        status, message = "interrupted", f"stopped by {source} after t = {parts[-1][0].t[-1]:.6g} s."
    finished = time.perf_counter()

    whole_run: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    joined, noted = whole_run
    done = round(float(joined.t[-1]) / dt) if kept else 0
    warn_of_limits(system, joined)
    changes = rank_changes(joined)
    if changes and status == "ok":
        message = f"{message.rstrip('.')}; the rank of the constraints changed {'; '.join(changes[:5])}."
    if isinstance(noted, ContactMemory) and noted.unsolved.sum() and status == "ok":
        message = (
            f"{message.rstrip('.')}; the contact problem was not solved to the tolerance in {noted.unsolved.sum()} of them, "
            f"{noted.worst[:, 0].max():.2g} of the largest impulse remained at worst."
        )
    return Run(
        labelled(whole_run, status, message),
        status,
        message,
        done,
        compiled - started,
        finished - compiled,
    )


def check_times(t_end: float, dt: float, save_every: int | None) -> tuple[int, int]:
    """(steps, steps between samples), or one sentence on what is wrong."""
    for name, value in (("t_end", t_end), ("dt", dt)):
        if not (np.isfinite(value) and value > 0):
            raise UndulaError(f"{name} = {value:g} s is not allowed; it must be a positive, finite time.")
    if dt > t_end * (1 + 1e-9):
        raise UndulaError(f"dt = {dt:g} s is not allowed; it must not exceed t_end = {t_end:g} s.")
    if t_end / dt > 1e9:
        raise UndulaError(
            f"dt = {dt:g} s is not allowed; t_end = {t_end:g} s would take {t_end / dt:g} steps (at most 1e9)."
        )
    steps = max(1, round(t_end / dt))
    if save_every is None:
        return steps, max(1, steps // 500)
    if save_every != int(save_every) or save_every < 1:
        raise UndulaError(f"save_every = {save_every} is not allowed; it must be a whole number of steps, at least 1.")
    return steps, min(int(save_every), steps)


def check_state(system: System, state: State) -> None:
    """Refuses a state that is not finite, or that moves a base in a way its group does not allow."""
    named = dict(
        zip(
            ("base position", "base quaternion", "position", "base_twist", "velocity"),
            (state.base.position, state.base.quaternion, state.q, state.base_twist, state.v),
        )
    )
    for name, value in named.items():
        if not np.all(np.isfinite(value)):
            raise UndulaError(f"the initial {name} = {np.asarray(value).tolist()} is not finite.")
    top = system.topology
    twist = np.asarray(state.base_twist)
    allowed = GROUPS[top.base_group] if top.base_role != "fixed" else ()
    others = [k for k in range(6) if k not in allowed]
    if top.base_role != "driven" and np.any(twist[others]):
        what = (
            "a fixed base cannot move" if top.base_role == "fixed" else f"the group {top.base_group} does not allow it"
        )
        raise UndulaError(f"the initial base_twist = {twist.tolist()} is not allowed: {what}.")


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


def check_gaps(system: System, state: State) -> None:
    """Refuses a state in which bodies penetrate what they may touch."""
    if not system.contacts:
        return
    found = np.asarray(contact_gaps(system, state))
    k = int(np.argmin(found))
    if found[k] < -DEEP:
        raise UndulaError(
            f"the contact '{system.contact_names[k]}' starts {-found[k]:.6g} m deep; gaps must not be negative: start higher, "
            "or use separated(system, state)."
        )


def step_advice(system: System, method: Integrator, state: State, dt: float) -> str:
    """What may help a run that became infinite."""
    limit = np.inf if isinstance(method, Implicit | Moreau) else stiffness_limit(system, state)
    if dt <= limit:
        return "a smaller dt may help."
    return (
        f"its springs, dampers and controllers are too stiff for {type(method).__name__} with dt = {dt:g} s: dt must be below "
        f"about {limit:.2g} s, or the integrator implicit."
    )


def _sample_bytes(system: System) -> int:
    return 8 * (60 + 5 * system.nv + 7 * len(system.body_names) + len(system.row_names))


def _fault(
    system: System, method: Integrator, samples: Sample, noted: Any, spacing: float, advice: Callable[[], str]
) -> tuple[int, str] | None:
    """The first sample of a chunk that cannot be kept, and why; None if all can.

    `spacing`: of the samples [s]; `advice`: what may help if the motion becomes infinite.
    """
    bad = _first_bad(samples)
    if isinstance(method, Implicit) and noted[2].any():
        k = int(np.argmax(noted[2]))
        if bad is None or k <= bad:
            return k, (
                f"Newton's method did not converge in the step from t = {noted[3][k]:.6g} s, nor in {2**method.halvings} "
                f"parts of it: {noted[1][k]:.3g} of the efforts remains (tolerance {method.tolerance:g}); a smaller dt, "
                "softer loads or more damping (GeneralisedAlpha with a smaller rho) may help."
            )
    if bad is not None:
        when = float(samples.t[bad])
        return bad, (
            f"the motion became infinite or not a number between t = {max(when - spacing, 0.0):.6g} s and "
            f"t = {when:.6g} s; {advice()}"
        )
    if isinstance(noted, ContactMemory) and (noted.worst[:, 0] > UNSOLVED).any():
        k = int(np.argmax(noted.worst[:, 0] > UNSOLVED))
        return k, (
            f"the contact problem was not solved between t = {max(samples.t[k] - spacing, 0.0):.6g} s and "
            f"t = {samples.t[k]:.6g} s: {noted.worst[k, 0]:.3g} of the largest impulse remains; more iterations "
            "(`most` of its solver) or a smaller dt may help."
        )
    if not system.least_squares and (samples.residual > VIOLATED).any():
        k = int(np.argmax(samples.residual > VIOLATED))
        return k, (
            f"the constraints cannot be satisfied at t = {samples.t[k]:.6g} s: {samples.residual[k]:.3g} remains "
            "(m, rad, m/s or rad/s); the driven motion is not compatible with them, or dt is too large."
        )
    return None


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
