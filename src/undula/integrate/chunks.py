"""A run in chunks: compiled functions that make steps and that evaluate samples."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from undula.integrate.loop import steps_from
from undula.integrate.method import Integrator, Report
from undula.model.prepare import prepare
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import Program
from undula.record.sample import sampled


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


def look_at_samples(system: System, t: Any, state: State, contacts: Any, count: Any) -> Any:
    """The recorded quantities at the first `count` of some instants; zeros at the others."""
    prepared = prepare(system)
    instants = (t, state, contacts)

    @partial(jax.jit, inline=True)  # traced once, for its shapes and for the loop
    def one(k):
        return sampled(prepared, *jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, k, keepdims=False), instants))

    def body(k, found):
        return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, k, 0), found, one(k))

    shapes = jax.eval_shape(one, 0)
    return jax.lax.fori_loop(0, count, body, jax.tree.map(lambda x: jnp.zeros((len(t), *x.shape), x.dtype), shapes))


OPTIMISED = Program(make_steps)
QUICK = Program(make_steps, quick=True, like=OPTIMISED)
SAMPLES = Program(look_at_samples, quick=True)


def shaped(method: Integrator, now: Now, dt: Any, size: int) -> tuple[Any, Any, Any]:
    """Times, states and contact data of `size` moments: their shapes alone."""
    one = jax.eval_shape(lambda now, dt: moment(method, now, dt), now, dt)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape), x.dtype), (one.t, one.state, one.contacts))
