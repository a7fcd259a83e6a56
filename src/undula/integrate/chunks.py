"""A run in chunks: compiled functions that make steps and that evaluate samples."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula.integrate.loop import steps_from
from undula.integrate.method import Integrator, Report
from undula.model.prepare import prepare
from undula.model.state import State
from undula.model.system import System
from undula.numerics.quick import quick_options
from undula.record.sample import sampled

SHORT = 20_000  # steps times velocities: a run with fewer is compiled with low optimisation
PROGRAMS = 8  # pairs of compiled functions kept for later runs of the same structure

_programs: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}


class Now(NamedTuple):
    """Progress of a run: state, memory of its method, report since the last sample, number of steps done."""

    state: State
    carry: Any
    report: Report
    step: Any


class Moments(NamedTuple):
    """Samples as chunks keep them: times, states, the method's contact data and observables, reports."""

    t: Any
    state: State
    contacts: Any
    shown: dict[str, Any]
    report: Report


def moment(method: Integrator, now: Now, dt: Any, t0: Any = 0.0) -> Moments:
    """The data kept of one instant."""
    return Moments(
        t0 + now.step * dt, now.state, method.contacts(now.carry), method.observe(now.carry, now.report), now.report
    )


def make_steps(
    system: System, now: Now, last: Any, dt: Any, stride: Any, samples: int, method: Integrator, t0: Any
) -> tuple[Now, Moments]:
    """A run from t0 [s], at the end of a chunk; and `samples` instants from the present one on, `stride` steps apart.

    The chunk ends at step `last`; the remaining instants repeat it.
    """
    prepared = prepare(system)

    def body(now, _):
        todo = jnp.clip(last - now.step, 0, stride)
        # a chunk that ends early passes its records on to the next one
        rested = method.rested(now.carry), Report.make()
        carry, report = jax.tree.map(lambda new, old: jnp.where(todo > 0, new, old), rested, (now.carry, now.report))
        state, carry, new = steps_from(method, prepared, now.state, carry, now.step, todo, dt, t0)
        report = jax.tree.map(lambda a, b: jnp.where(todo > 0, a, b), new, report)
        return Now(state, carry, report, now.step + todo), moment(method, now, dt, t0)

    return jax.lax.scan(body, now, None, length=samples)


def look_at_samples(system: System, t: Any, state: State, contacts: Any) -> Any:
    """The recorded quantities at some instants."""
    prepared = prepare(system)
    return jax.lax.map(lambda x: sampled(prepared, *x), (t, state, contacts))


@cache
def _jitted(short: bool) -> tuple[Any, Any]:
    """Both functions of a chunk; created on first use, because the options depend on the device."""
    options = quick_options()
    jit: Any = eqx.filter_jit  # its overloads lack `compiler_options`
    return jit(make_steps, compiler_options=options if short else {}), jit(look_at_samples, compiler_options=options)


def lowered(steps: tuple[Any, ...], short: bool) -> tuple[Any, Any]:
    """Both functions, traced for the arguments of `make_steps` but not yet compiled."""
    system, now, _, dt, _, samples, method, _ = steps
    one = moment(method, now, dt)
    t, state, contacts = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (samples, *jnp.shape(x))), (one.t, one.state, one.contacts)
    )
    return _jitted(short)[0].lower(*steps), _jitted(short)[1].lower(system, t, state, contacts)


def compiled(steps: tuple[Any, ...], short: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Both functions of a chunk, compiled concurrently: the steps with full optimisation, the samples with low optimisation.

    In a `short` run, where compilation dominates, the steps are compiled with low optimisation, too. A run that differs from
    one of the last few only in numbers reuses their programs.
    """
    key = structure_of((steps, short, getattr(jax.config, "jax_default_device", None)))
    if key in _programs:
        _programs[key] = _programs.pop(key)  # most recently used
        return _programs[key]
    with ThreadPoolExecutor(2) as pool:
        both = tuple(pool.map(lambda x: x.compile(), lowered(steps, short)))
    if key is not None:
        _programs[key] = both[0], both[1]
        while len(_programs) > PROGRAMS:
            _programs.pop(next(iter(_programs)))
    return both[0], both[1]


def structure_of(x: Any) -> Any:
    """Everything that a program depends on: all but the values in arrays. None if something is not hashable."""
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
