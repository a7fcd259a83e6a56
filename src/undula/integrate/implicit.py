"""Implicit methods on Lie groups (document 002, sections 3.2, 3.3 and 4.2).

The unknown of a step is the increment x of the configuration. Velocities and accelerations at the instant where the efforts
must balance are a x + f and b x + h (3.9); Newton's method finds the x at which the inverse dynamics balances
(`numerics.newton`).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Bool, Float

from undula.balance.assemble import passive_efforts, wants_sites
from undula.balance.balance import Balance
from undula.balance.coupling import pattern
from undula.balance.internal import advanced_states, internal_rates, settled
from undula.balance.look import look, look_at
from undula.balance.reduced import held_imbalance, least_impulse
from undula.core.arrays import Array
from undula.core.errors import one_of, real, whole
from undula.elements.observable import Observable
from undula.integrate.method import Integrator, Report, flow
from undula.laws.law import Law
from undula.lie import se3, so3
from undula.model.prepare import Prepared, prepare
from undula.model.state import Acceleration, State, displaced
from undula.model.system import System
from undula.numerics import dense
from undula.numerics.checkpoint import SOLUTION
from undula.numerics.newton import Options, columns_of, newton
from undula.numerics.pick import pick, spread
from undula.numerics.small import cross, tmatvec
from undula.tree.driven import driven_motion


class Memory(NamedTuple):
    """Memory of an implicit method.

    - `acceleration`, `pseudo` (n,): of the unknown velocities; the second is the auxiliary acceleration of generalised alpha.
    - `inverse` (b, m, m), `made_for`: inverse of a Newton matrix, in blocks, and the step [s] it was computed for (0: none).
    - `size` of the efforts in the last step; `power` [W] supplied at the instant of its balance.
    - `failed`: whether a step failed, after which the state does not change; `failed_at`: when [s].
    """

    acceleration: Float[Array, "n"]
    pseudo: Float[Array, "n"]
    inverse: Float[Array, "b m m"]
    made_for: Float[Array, ""]
    size: Float[Array, ""]
    power: Float[Array, ""]
    failed: Bool[Array, ""]
    failed_at: Float[Array, ""]


class Coefficients(NamedTuple):
    """Velocity a x + f and acceleration b x + h, at the configuration `reach` times the increment away."""

    a: Any
    f: Float[Array, "n"]
    b: Any
    h: Float[Array, "n"]
    reach: float


class _Trial(NamedTuple):
    """Outcome of a step: iterations, relative residual and work."""

    iterations: Any
    residual: Any
    work: Any


class Implicit(Integrator):
    """Base class of the implicit methods.

    - `tolerance` of the effort balance, relative to the efforts; `max_iterations` of Newton's method per step.
    - `newton`: "modified" keeps the inverse of a Newton matrix, found by finite differences, and corrects it in each iteration
      (Broyden's update); it is recomputed when convergence is poor. "full" uses the exact tangent in every iteration.
    - `halvings`: how often a failing step is halved before a run gives up.
    - `base`: how a free base moves: "SE3" (a screw motion) or "SO3xR3" (separate rotation and translation, as in document 002).
    """

    tolerance: float = eqx.field(static=True, default=1e-9, kw_only=True)
    max_iterations: int = eqx.field(static=True, default=40, kw_only=True)
    newton: str = eqx.field(static=True, default="modified", kw_only=True)
    halvings: int = eqx.field(static=True, default=6, kw_only=True)
    base: str = eqx.field(static=True, default="SE3", kw_only=True)

    takes: ClassVar[frozenset[str]] = frozenset({"stiff"})
    observables: ClassVar[tuple[Observable, ...]] = (
        Observable("iterations", "1", (), "iterations of the step that ends at each sample"),
    )

    def __check_init__(self):
        for name, allowed in (("newton", ("modified", "full")), ("base", ("SE3", "SO3xR3"))):
            one_of(getattr(self, name), allowed, name)
        real(self.tolerance, "tolerance", above=0.0, high=1.0)
        whole(self.max_iterations, "max_iterations", at_least=1)
        whole(self.halvings, "halvings", at_most=30)

    @abc.abstractmethod
    def coefficients(self, v: Array, memory: Memory, dt: Any) -> Coefficients:
        """The coefficients of a step, from the velocities (n,) at its start."""

    @abc.abstractmethod
    def finish(self, v: Array, memory: Memory, velocity: Array, acceleration: Array) -> tuple[Array, Array, Array]:
        """Velocity, acceleration and pseudo-acceleration at the end, from those where the balance holds."""

    def wants_start(self):
        return True

    def accounts(self, system: System) -> bool:
        laws = jax.tree.leaves([g.form for g in system.ideal], is_leaf=lambda x: isinstance(x, Law))
        moves = len(system.topology.unknown) > 0  # otherwise there is no balance to solve
        return moves and not system.slipping and not any(isinstance(x, Law) for x in laws)

    def observe(self, carry, report):
        return {"iterations": report.iterations}

    def refusal(self, report, k, tolerance):
        return (
            f"Newton's method did not converge in the step from t = {report.failed_at[k]:.6g} s, nor in {2**self.halvings} "
            f"parts of it: {report.residual[k]:.3g} of the efforts remains (tolerance {self.tolerance:g}); a smaller dt, "
            "softer loads or more damping (GeneralisedAlpha with a smaller rho) may help."
        )

    def init(self, system: System, t: Any, state: State, found: Acceleration | None = None) -> Memory:
        which = system.topology.unknown
        b, m = pattern(system).blocks.shape
        at, acceleration = flow(prepare(system), t, state) if found is None else (state, found)
        start = pick(jnp.concatenate(self._outside(at, acceleration)), which)
        zero, no = jnp.zeros(()), jnp.zeros((), bool)
        return Memory(start, start, jnp.zeros((b, m, m)), zero, zero, zero, no, zero)

    def step(self, prepared: Prepared, t: Any, state: State, carry: Memory, dt: Any, careful: bool = False):
        state = settled(prepared, t, state)  # Newton's method itself closes the gaps of constraints
        if not careful or self.halvings == 0:
            return self._unless_failed(t, state, carry, *self._step(prepared, t, state, carry, dt))
        fresh = carry._replace(failed=jnp.zeros((), bool))
        nothing = _Trial(jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()))

        def attempt(before):
            parts = before[0]

            def part(k, now):
                at, memory, done = now
                at, memory, new = self._step(prepared, t + k * dt / parts, at, memory, dt / parts, careful=True)
                left = jnp.where(memory.failed, new.residual, jnp.maximum(done.residual, new.residual))
                return at, memory, _Trial(done.iterations + new.iterations, left, done.work + new.work)

            return 2 * parts, *jax.lax.fori_loop(0, parts, part, (state, fresh, nothing))

        def again(now):
            return now[2].failed & (now[0] <= 2**self.halvings)

        # the first attempt is made in the same loop as the others, so that the step is compiled only once
        start = jnp.where(carry.failed, 2 ** (self.halvings + 1), 1), state, carry._replace(failed=jnp.ones((), bool))
        _, new, after, found = jax.lax.while_loop(again, attempt, (*start, nothing))
        return self._unless_failed(t, state, carry, new, after, found)

    def _unless_failed(
        self, t: Any, state: State, memory: Memory, new: State, after: Memory, found: _Trial
    ) -> tuple[State, Memory, Report]:
        """After a failure, the state stays as it was, and the time of the failure is kept."""
        state = jax.tree.map(lambda a, b: jnp.where(after.failed, a, b), state, new)
        when = jnp.where(memory.failed, memory.failed_at, t)
        report = Report.make(~after.failed, when, found.iterations, found.residual, work=found.work)
        return state, after._replace(failed_at=when), report

    def _step(
        self, prepared: Prepared, t: Any, state: State, memory: Memory, dt: Any, careful: bool = False
    ) -> tuple[State, Memory, _Trial]:
        """One step without retries."""
        system = prepared.system
        which = system.topology.unknown
        n = len(which)
        if n == 0:
            nothing = _Trial(jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()))
            return driven_motion(system, t + dt, state)[0], memory, nothing
        v = pick(state.velocity, which)
        c = self.coefficients(v, memory, dt)
        inner = _Inner(prepared, t, state, dt, c.reach)

        def reached(x, part, velocity):
            """The state at the fraction `part` of the increment, driven entries filled in, and their accelerations."""
            u = spread(part * x, which, jnp.zeros(6 + system.nv))
            at = self._displaced(prepared, state, u)
            rates = spread(velocity, which, at.velocity)
            return driven_motion(system, t + part * dt, at.with_velocity(rates))

        def trial(x):
            at, known = reached(x, c.reach, c.a * x + c.f)
            gain = spread(c.b * x + c.h, which, known.whole)
            return self._inside(at, c.reach * x, which, Acceleration(gain[:6], gain[6:]))

        width = jax.lax.stop_gradient(jnp.abs(dt * v).max() + jnp.abs(state.q).max(initial=0.0) + 1e-4)
        # scales a velocity that violates a constraint to an effort
        speed = jnp.abs(v).max() + 1e-3 * width / dt
        weight = jax.lax.stop_gradient(jnp.where(memory.size > 0, memory.size, 1.0) / speed)

        def balance(x):
            at, gain = trial(x)
            return imbalance(prepared, t + c.reach * dt, at, gain, weight, inner, careful)

        guess = jax.lax.stop_gradient(self._guess(prepared, t, state, -c.h / c.b, which))
        sparse = pattern(system)
        kept = jax.lax.stop_gradient((memory.inverse, memory.made_for))
        options = Options(self.tolerance, self.max_iterations, self.newton == "full")

        def solve(_, guess):
            return newton(balance, guess, *kept, dt, width, sparse, options)

        def tangent_solve(g, y):
            return dense.solve(columns_of(g, y.shape[0]), y)

        if careful:  # not differentiated, so tracing takes half as long
            x, found = solve(None, guess)
        else:
            x, found = jax.lax.custom_root(lambda x: balance(x)[0], guess, solve, tangent_solve, has_aux=True)
        x = checkpoint_name(x, SOLUTION)
        inverse, made_for, size, iterations, left, good, power = jax.lax.stop_gradient(found)
        velocity, gain, pseudo = self.finish(v, memory, c.a * x + c.f, c.b * x + c.h)
        new, known = reached(x, 1.0, velocity)
        if self.base == "SO3xR3":
            new, _ = self._inside(new, x, which, known)
            turn = spread(x, which, jnp.zeros(6 + system.nv))[3:6]
            gain, pseudo = (_turned(y, which, turn) for y in (gain, pseudo))
        if state.z:
            new = new.replace(z=inner.end(*trial(x)))
        if system.constrained:
            new = least_impulse(prepared, t + dt, new).state
        before = jnp.where(memory.made_for > 0, memory.power, power)
        after = Memory(gain, pseudo, inverse, made_for, size, power, memory.failed | (good == 0), memory.failed_at)
        return new, after, _Trial(iterations.astype(int), left, self.work(before, power, dt))

    def work(self, before: Array, power: Array, dt: Any) -> Array:
        """Work [J] over a step, from the powers at the instants of balance of the previous and the present step."""
        return dt * (before + power) / 2

    def _guess(self, prepared: Prepared, t: Any, state: State, ballistic: Array, which: np.ndarray) -> Array:
        """Initial guess of Newton's method: without acceleration (the ballistic predictor) or, if springs and rods would then
        be strained far more than they are, at the start of the step."""
        u = spread(ballistic, which, jnp.zeros(6 + prepared.system.nv))
        moved = displaced(prepared.system.topology, state, u)
        before, after = (jnp.abs(passive_efforts(prepared, t, x)).max(initial=0.0) for x in (state, moved))
        return jnp.where(after > 10 * before, 0.0, 1.0) * ballistic

    # A free base with rotation and translation integrated separately: its velocity is that of the origin, in the base axes
    # at the start of the step, and its acceleration is the derivative of that.

    def _displaced(self, prepared: Prepared, state: State, u: Float[Array, "n"]) -> State:
        top = prepared.system.topology
        if self.base == "SE3" or top.base_role != "free":
            return displaced(top, state, u)
        g = state.base
        moved = displaced(top, state, jnp.concatenate([jnp.zeros(6), u[6:]]))
        pose = se3.Pose(g.apply(u[:3]), so3.normalise(so3.multiply(g.quaternion, so3.exp(u[3:6]))))
        return state.replace(base=pose, q=moved.q)

    def _inside(self, at: State, x: Array, which: np.ndarray, gain: Acceleration) -> tuple[State, Acceleration]:
        """The same with components in the body's axes, as the dynamics requires (B.4)."""
        if self.base == "SE3" or not np.any(which < 6):
            return at, gain
        R = so3.to_matrix(so3.exp(spread(x, which, jnp.zeros(6 + at.v.shape[0]))[3:6]))
        V, W = tmatvec(R, at.base_twist[:3]), at.base_twist[3:]
        dV = tmatvec(R, gain.base[:3]) + cross(V, W)
        twist, rate = jnp.concatenate([V, W]), jnp.concatenate([dV, gain.base[3:]])
        return at.replace(base_twist=twist), Acceleration(rate, gain.v)

    def _outside(self, at: State, gain: Acceleration) -> tuple[Array, Array]:
        """Accelerations at the start of a run, in the form that the method stores."""
        if self.base == "SE3":
            return gain.base, gain.v
        V, W = at.base_twist[:3], at.base_twist[3:]
        return jnp.concatenate([gain.base[:3] + cross(W, V), gain.base[3:]]), gain.v


class _Inner:
    """Internal states during a step: at the instant of the balance and at the end."""

    def __init__(self, prepared: Prepared, t: Any, state: State, dt: Any, reach: float):
        self.prepared, self.t, self.z, self.dt, self.reach = prepared, t, state.z, dt, reach
        self.share = (
            1.0 if reach < 1 else 0.5
        )  # weight of the rates at the balance; the rest is that of the rates at the start
        if self.z:
            self.first = internal_rates(prepared, look(prepared, t, state))

    def rates(self, at: State, known: Acceleration) -> Any:
        """Mean rates from the start to the instant of the balance."""
        guess = at.replace(z=advanced_states(self.z, self.first, self.reach * self.dt))
        here = internal_rates(self.prepared, look_at(self.prepared, self.t + self.reach * self.dt, guess, known))
        return jax.tree.map(lambda a, b: (1 - self.share) * a + self.share * b, self.first, here)

    def there(self, at: State, known: Acceleration) -> State:
        """The state at the instant of the balance, with its internal states."""
        if not self.z:
            return at
        return at.replace(z=advanced_states(self.z, self.rates(at, known), self.reach * self.dt))

    def end(self, at: State, known: Acceleration) -> Any:
        """Internal states at the end of the step."""
        return advanced_states(self.z, self.rates(at, known), self.dt)


def imbalance(
    prepared: Prepared, t: Any, state: State, acceleration: Acceleration, weight: Any, inner: "_Inner", account: bool
) -> tuple[Float[Array, "n"], Float[Array, ""], Float[Array, ""]]:
    """Required minus given efforts of a motion (3.8), over the unknown velocities; the size of the largest; the supplied
    power [W], if requested (`account`).

    Under constraints efforts count up to reactions, and the velocity that violates the rows is added, times `weight`.
    """
    system = prepared.system
    top = system.topology
    state = inner.there(state, acceleration)
    held = system.constrained
    snap = look_at(prepared, t, state, acceleration, frames=held or wants_sites(prepared), screws=held)
    balance = Balance.of(prepared, snap, power=account)
    efforts = balance.imbalance()
    size = balance.size(efforts)
    if held:
        found, reactions = held_imbalance(balance, efforts, weight)
        efforts = efforts - reactions
    else:
        found = pick(efforts, top.unknown)
    power = jnp.zeros(()) if balance.forces.power is None else balance.forces.power
    if account and top.driven.any():
        power = power + jnp.where(top.driven, efforts[6:] * state.v, 0.0).sum()
    if account and top.base_role == "driven":
        power = power + (efforts[:6] * state.base_twist).sum()
    return found, size, power


def _turned(y: Array, which: np.ndarray, turn: Array) -> Array:
    """Accelerations with the linear part of the base expressed in the axes at the end of the step."""
    if not np.any(which < 3):
        return y
    whole = spread(y, which, jnp.zeros(int(which.max()) + 7))
    linear = tmatvec(so3.to_matrix(so3.exp(turn)), whole[:3])
    return pick(jnp.concatenate([linear, whole[3:]]), which)
