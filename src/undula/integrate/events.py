"""Events of a run: rows that switch, and a condition that ends it, found within the step in which they happen.

The compiled loop stops before a step in which a watched value crosses zero. The instant is then found by repeating that step
with other lengths; a step to the instant, the switch, and a step to the end of the interval follow, so that samples stay
evenly spaced. At a switch the velocities change by the least impulse, in the kinetic metric, that the new rows ask for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from undula.balance.balance import Balance
from undula.balance.energy import energies_of
from undula.balance.latches import latched
from undula.balance.look import hold, look, moved
from undula.balance.reduced import least_impulse, reduced_accelerations
from undula.balance.rows import rows_of
from undula.balance.solution import with_efforts
from undula.balance.views import memory_of, views
from undula.core.arrays import Array, as_array, known, namespace
from undula.core.errors import UndulaError, function_of, is_traced, reason, shown
from undula.elements.element import changed
from undula.elements.view import View
from undula.integrate.chunks import Moments, Now, moment
from undula.integrate.loop import one_step
from undula.integrate.method import Integrator, Report, merged
from undula.model.arguments import checked
from undula.model.labels import Labels
from undula.model.packing import Switch, member
from undula.model.prepare import Prepared, prepare
from undula.model.state import State
from undula.model.system import System
from undula.numerics.programs import Program, quickly_compiled
from undula.numerics.small import matvec
from undula.tree.driven import driven_motion
from undula.tree.sites import see
from undula.tree.snapshot import place

SETTLED = 1e-9  # a value that has crossed zero before it was watched switches once it moves beyond this
APART = 1e-6  # a larger position residual is not closed by a switch [m or rad]
AGAIN = 100  # switches at one instant before a run gives up

Until = Callable[[System, Any, State], Any]


def check_until(until: Any, system: System, state: State, t0: float) -> None:
    """Refuses a condition that JAX cannot trace, or whose value is not one number that can change its sign."""
    function_of(until, ("system", "t", "state"), "until")
    wanted = "it must return one number, which changes its sign where the run shall end"
    try:
        value = eqx.filter_eval_shape(until, system, np.asarray(t0, dtype=float), state)
    except UndulaError:
        raise
    except Exception as error:
        raise UndulaError(f"until cannot be computed: {reason(error)}.") from error
    if type(value) in (int, float):
        return
    if not hasattr(value, "dtype"):
        raise UndulaError(f"until returns {shown(value)}; {wanted}.")
    if value.shape != () or value.dtype.kind not in "fiu":
        raise UndulaError(f"until returns an array of the shape {value.shape} and the type {value.dtype}; {wanted}.")


class Watch(eqx.Module):
    """What is watched: the rules of rows that switch, and `until` (system, t, state) -> a value, or None.

    `labels`: the names that `until` may use; compiled functions have none.
    """

    switches: tuple[Switch, ...]
    until: Until | None = eqx.field(static=True)
    labels: Labels | None = eqx.field(static=True)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to watch inside the compiled loop."""
        return self.until is None and not self.switches

    def values(self, prepared: Prepared, t: Any, state: State) -> Float[Array, "events"]:
        """The watched values: one per switch (infinite where none is watched), then that of `until`."""
        out = []
        if self.switches:
            reactions = self._reactions(prepared, t, state)
            snap = look(prepared, t, state)
            mask = prepared.system.mask
            for x in self.switches:
                form, at = _one(prepared, snap, x)
                own = jnp.zeros(len(x.rows)) if reactions is None else reactions[np.array(x.rows)]
                on, off = x.rule.release(form, at, own), x.rule.engage(form, at)
                a, b = (jnp.inf if value is None else jnp.asarray(value, dtype=float) for value in (on, off))
                out.append(jnp.where(mask[x.rows[0]] > 0, a, b))  # type: ignore[index]
        if self.until is not None:
            out.append(jnp.asarray(self.until(changed(prepared.system, labels=self.labels), t, state), dtype=float))
        return jnp.stack(out) if out else jnp.zeros(0)

    def _reactions(self, prepared: Prepared, t: Any, state: State) -> Array | None:
        if not any(x.rule.uses_reaction for x in self.switches):
            return None
        held = hold(prepared, t, state)
        snap = moved(prepared, held)
        return with_efforts(prepared, held, snap, reduced_accelerations(prepared, held, snap))[0].reactions

    def crossed(self, before: Any, after: Any) -> Bool[Array, "events"]:
        """Which values have reached zero between two instants."""
        n = len(self.switches)
        xp, a, b = namespace(before, after), before[:n], after[:n]
        switched = ((a > 0) & (b <= 0)) | ((a <= 0) & (b < xp.minimum(a, -SETTLED)))
        ended = (before[n:] * after[n:] < 0) | ((before[n:] != 0) & (after[n:] == 0))
        return xp.concatenate([switched, ended])


def _one(prepared: Prepared, snap: Any, x: Switch) -> tuple[Any, View]:
    """The constraint of a switch, and its view."""
    group, places = prepared.system.groups[x.group], prepared.sites[x.group]
    at = views(snap, group, see(prepared, snap, group, places, memory_of(group, snap.state)))
    k = x.member
    sites, z = jax.tree.map(lambda a: a[k], (at.sites, at.z))
    return member(group.form, k), View(at.t, sites, at.x[k], at.v[k], z, at.whole)


class Watched(NamedTuple):
    """A run that is watched: its progress, the watched values, and whether it has stopped before a step with an event."""

    now: Now
    values: Float[Array, "events"]
    stopped: Bool[Array, ""]


def make_watched_steps(
    system: System,
    at: Watched,
    last: Any,
    dt: Any,
    stride: Any,
    samples: int,
    method: Integrator,
    watch: Watch,
    t0: Any,
) -> tuple[Watched, Moments]:
    """As `chunks.make_steps`, but stops before a step in which a watched value crosses zero."""
    prepared = prepare(system)

    def step(x):
        at, k, todo = x
        now = at.now
        state, carry, report = one_step(method, prepared, t0 + now.step * dt, now.state, now.carry, dt, careful=True)
        values = watch.values(prepared, t0 + (now.step + 1) * dt, state)
        hit = watch.crossed(at.values, values).any()
        new = Watched(Now(state, carry, merged(now.report, report), now.step + 1), values, hit)
        kept = jax.tree.map(lambda a, b: jnp.where(hit, a, b), at._replace(stopped=hit), new)
        return kept, k + 1, todo

    def body(at, _):
        todo = jnp.where(at.stopped, 0, jnp.clip(last - at.now.step, 0, stride - at.now.step % stride))
        now = at.now
        fresh = now.step % stride == 0
        rested = method.rested(now.carry), Report.make()
        rested = jax.tree.map(lambda a, b: jnp.where((todo > 0) & fresh, a, b), rested, (now.carry, now.report))
        found = moment(method, now, dt, t0)
        at = at._replace(now=now._replace(carry=rested[0], report=rested[1]))
        at, _, _ = jax.lax.while_loop(lambda x: (x[1] < x[2]) & ~x[0].stopped, step, (at, 0, todo))
        return at, found

    return jax.lax.scan(body, at, None, length=samples)


WATCHED = Program(make_watched_steps)
QUICK_WATCHED = Program(make_watched_steps, quick=True, like=WATCHED)


@quickly_compiled
def _short_step(system: System, state: State, carry: Any, t: Any, h: Any, method: Integrator, watch: Watch) -> Any:
    """One step of length h [s]: state, memory, report, watched values at its end."""
    prepared = prepare(system)
    state, carry, report = one_step(method, prepared, t, state, carry, h, careful=True)
    return state, carry, report, watch.values(prepared, t + h, state)


@quickly_compiled
def watched_values(system: System, t: Any, state: State, watch: Watch) -> Array:
    """The watched values at an instant."""
    return watch.values(prepare(system), t, state)


class Jump(NamedTuple):
    """A change of velocities: state after it, impulses (rows,) [N s or N m s], change of the stored energy [J], the position
    residuals (rows,) that it closed [m or rad], and the energy lost at the rows [J].

    Driven joints keep their rates, so that their actuators do impulsive work: the sum of the change and the loss."""

    state: State
    impulses: Float[Array, "rows"]
    energy: Float[Array, ""]
    gaps: Float[Array, "rows"]
    lost: Float[Array, ""]


@quickly_compiled
def latched_at_start(system: System, t: Any, state: State) -> State:
    """The state at the start of a run, with the constraints that are on latched where they are."""
    return latched(prepare(system), t, state, system.on)


@quickly_compiled
def jump_onto(system: System, t: Any, state: State, engaged: Float[Array, "rows"]) -> Jump:
    """The least impulse, in the kinetic metric, after which the velocities satisfy the rows that are on.

    `engaged`: 1 for the rows that have just been switched on.
    """
    prepared = prepare(system)
    state = latched(prepared, t, state, engaged)
    state, known = driven_motion(system, t, state)
    rows = rows_of(prepared, place(prepared, t, state, known))
    found = least_impulse(prepared, t, state)
    before, after = (
        energies_of(prepared, Balance.of(prepared, look(prepared, t, x)).snap).stored for x in (state, found.state)
    )
    # half the impulse times the velocity that it stops; afterwards, that velocity is zero
    lost = -(found.impulses @ (matvec(rows.A, state.velocity) + rows.driven)) / 2
    return Jump(found.state, found.impulses, after - before, engaged * rows.gap, lost)


def left_open(system: System, t: Any, jump: Jump) -> str:
    """Why rows cannot be switched on, or ""."""
    far = np.abs(np.asarray(jump.gaps))
    if not far.max(initial=0.0) > APART:
        return ""
    return (
        f"'{system.row_names[int(np.argmax(far))]}' cannot be switched on at t = {float(t):.6g} s: {far.max():.3g} (m or rad) "
        "remain open; switch it on where it closes (a Condition or WhilePushing), or hold what is there (Latch)."
    )


@checked
def switch(system: System, state: State, t: Any = 0.0, on: Any = (), off: Any = ()) -> tuple[System, Jump]:
    """Switches rows on and off at time t [s]: the system with the new rows, and the change of velocity by the least impulse.

    `on`, `off`: names of rows or of whole constraints. Differentiable with respect to the state and the numbers of the system.
    Raises `UndulaError` if a gap of a row that is switched on is not closed.
    """
    new = changed(system.with_rows(on, off), switches=())
    on, before = known((new.on, system.on))
    jump = jump_onto(new, as_array(t), state, namespace(on, before).maximum(on - before, 0.0))
    if not is_traced(jump.gaps):
        why = left_open(new, t, jump)
        if why:
            raise UndulaError(why)
    return changed(new, switches=system.switches), jump


class Event(NamedTuple):
    """A switch, or the end of a run by its condition: instant [s], words, impulses (rows,), change of the energy [J], names of
    the rows if they are not those of the run, and energy lost at the rows [J]."""

    t: float
    what: str
    impulses: np.ndarray
    energy: float
    rows: tuple[str, ...] = ()
    lost: float = 0.0


def located(
    system: System, at: Watched, t: float, dt: float, method: Integrator, watch: Watch
) -> tuple[float, np.ndarray]:
    """Length of the step [s] at whose end the first watched value reaches zero, and which values do."""
    before = np.asarray(at.values)
    state, carry = at.now.state, at.now.carry

    def values(h: float) -> np.ndarray:
        return np.asarray(_short_step(system, state, carry, np.asarray(t), np.asarray(h), method, watch)[3])

    hit = np.asarray(watch.crossed(before, values(dt)))
    n = len(watch.switches)
    late = hit & (np.arange(len(hit)) < n) & (before <= 0)
    if late.any():  # it had crossed zero before it was watched
        return 0.0, late
    sign = np.where(before < 0, -1.0, 1.0)
    which = np.flatnonzero(hit)

    def first(h: float) -> float:
        return float((sign * (before if h == 0.0 else values(h)))[which].min())

    from scipy.optimize import brentq

    h = dt if first(dt) == 0.0 else brentq(first, 0.0, dt, xtol=1e-14 * max(dt, 1e-3), rtol=1e-13)
    end = sign * values(h)
    done = np.zeros(len(before), bool)
    done[which] = end[which] <= np.maximum(end[which].min(), 0.0) + 1e-12
    return float(h), done


def short_step(
    system: System, at: Watched, t: float, h: float, method: Integrator, watch: Watch, force: bool = False
) -> tuple[Watched, bool]:
    """The run a time h [s] later, in one step; and whether a watched value crossed zero on the way.

    Then nothing is done, unless it is meant to (`force`).
    """
    now = at.now
    state, carry, report, values = _short_step(
        system, now.state, now.carry, np.asarray(t), np.asarray(h), method, watch
    )
    if not force and bool(watch.crossed(at.values, values).any()):
        return at, True
    return Watched(Now(state, carry, merged(now.report, report), now.step), values, at.stopped), False
