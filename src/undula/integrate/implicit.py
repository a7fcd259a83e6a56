"""Implicit methods on Lie groups: Newmark, HHT, generalised alpha, midpoint (document 002, sections 3.2, 3.3 and 4.2).

The unknown of a step is the increment x of the configuration. Velocities and accelerations at the instant where the
balance of efforts is asked for are a x + f and b x + h (3.9); Newton's method finds the x at which the inverse dynamics
balances (`integrate.newton`).
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from undula.balance.coupling import Pattern, pattern
from undula.balance.dynamics import passive_efforts
from undula.balance.reduced import unknown_velocities
from undula.core.errors import UndulaError
from undula.integrate.method import Integrator, Motion
from undula.lie import se3, so3
from undula.model.system import Acceleration, State, displaced
from undula.numerics import dense
from undula.numerics.newton import Options, columns_of, newton
from undula.numerics.pick import pick, spread
from undula.numerics.small import cross, tmatvec
from undula.tree.driven import driven_motion
from undula.tree.problem import SOLUTION


class Memory(NamedTuple):
    """What an implicit method remembers.

    - `acceleration`, `pseudo` (n,): of the unknown velocities; the second is the auxiliary one of generalised alpha.
    - `inverse` (b, m, m), `made_for`: inverse of a Newton matrix, in blocks, and the step [s] that it was made for (0: none).
    - `size`: of the efforts in the last step; `iterations`: of it; `residual`: what was left, relative to `size`.
    - `failed`: whether a step failed, then the state stays at what it was, `failed_at` [s].
    """

    acceleration: Float[Array, "n"]
    pseudo: Float[Array, "n"]
    inverse: Float[Array, "b m m"]
    made_for: Float[Array, ""]
    size: Float[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]
    failed: Bool[Array, ""]
    failed_at: Float[Array, ""]


class Coefficients(NamedTuple):
    """Velocity a x + f and acceleration b x + h, at the configuration that is `reach` times the increment away."""

    a: Any
    f: Float[Array, "n"]
    b: Any
    h: Float[Array, "n"]
    reach: float


class Implicit(Integrator):
    """What the implicit methods share.

    - `tolerance`: of the balance of efforts, relative to the efforts themselves; `most`: Newton iterations a step.
    - `newton`: "modified" keeps the inverse of a Newton matrix, found by differences, and corrects it by what each iteration
      shows (Broyden's update); it is found anew when it no longer serves. "full" has the exact tangent in every iteration.
    - `halvings`: how often a step that fails is halved before a run gives up.
    - `base`: how a free base moves: "SE3" (a screw) or "SO3xR3" (rotation and translation apart, as in document 002).
    """

    tolerance: float = eqx.field(static=True, default=1e-9, kw_only=True)
    most: int = eqx.field(static=True, default=40, kw_only=True)
    newton: str = eqx.field(static=True, default="modified", kw_only=True)
    halvings: int = eqx.field(static=True, default=6, kw_only=True)
    base: str = eqx.field(static=True, default="SE3", kw_only=True)

    def __check_init__(self):
        for name, allowed in (("newton", ("modified", "full")), ("base", ("SE3", "SO3xR3"))):
            if getattr(self, name) not in allowed:
                raise UndulaError(f"{name} = {getattr(self, name)!r}; it must be {' or '.join(allowed)}.")
        if not 0 < self.tolerance < 1:
            raise UndulaError(f"tolerance = {self.tolerance}; it must be between 0 and 1.")

    @abc.abstractmethod
    def coefficients(self, v: Array, memory: Memory, dt: Any) -> Coefficients:
        """The scheme, from the velocities (n,) at the start of a step."""

    @abc.abstractmethod
    def finish(self, v: Array, memory: Memory, velocity: Array, acceleration: Array) -> tuple[Array, Array, Array]:
        """Velocity, acceleration and pseudo-acceleration at the end, from those where the balance holds."""

    def step(self, top, flow, t, state, dt):
        raise UndulaError(f"{type(self).__name__} is implicit: it has no explicit step; use advance.")

    def begin(self, motion: Motion, t: Any, state: State, found: tuple[State, Acceleration] | None = None) -> Memory:
        system = motion.system
        which = unknown_velocities(system)
        b, m = self._sparsity(motion).blocks.shape
        at, acceleration = motion.flow(t, state) if found is None else found
        start = pick(_stack(self._outside(at, acceleration)), which)
        zero = jnp.zeros(())
        return Memory(
            start, start, jnp.zeros((b, m, m)), zero, zero, jnp.zeros((), int), zero, jnp.zeros((), bool), zero
        )

    def _sparsity(self, motion: Motion) -> Pattern:
        return pattern(motion.system, separable=motion.external is None)

    def advance(self, motion, t, state, memory, dt, careful=False):
        if not careful or self.halvings == 0:
            new, after = self._step(motion, t, state, memory._replace(iterations=jnp.zeros((), int)), dt)
            return self._unless_failed(t, state, memory, new, after)
        fresh = memory._replace(iterations=jnp.zeros((), int), failed=jnp.zeros((), bool))

        def attempt(carry):
            parts = carry[0]

            def part(k, carry):
                return self._step(motion, t + k * dt / parts, *carry, dt / parts, careful=True)

            return 2 * parts, *jax.lax.fori_loop(0, parts, part, (state, fresh))

        def again(carry):
            return carry[2].failed & (carry[0] <= 2**self.halvings)

        # the first attempt is made in the same loop as the others, so that a step is compiled once
        start = jnp.where(memory.failed, 2 ** (self.halvings + 1), 1), state, memory._replace(failed=jnp.ones((), bool))
        _, new, after = jax.lax.while_loop(again, attempt, start)
        return self._unless_failed(t, state, memory, new, after)

    def _unless_failed(self, t: Any, state: State, memory: Memory, new: State, after: Memory) -> tuple[State, Memory]:
        """After a failure the state stays where it was, and when it happened is kept."""
        state = jax.tree.map(lambda a, b: jnp.where(after.failed, a, b), state, new)
        return state, after._replace(failed_at=jnp.where(memory.failed, memory.failed_at, t))

    def _step(
        self, motion: Motion, t: Any, state: State, memory: Memory, dt: Any, careful: bool = False
    ) -> tuple[State, Memory]:
        """One step without a second chance."""
        system = motion.system
        which = unknown_velocities(system)
        n = len(which)
        if n == 0:
            return driven_motion(system, t + dt, state)[0], memory
        v = pick(_stack((state.base_twist, state.v)), which)
        c = self.coefficients(v, memory, dt)

        def reached(x, part, velocity):
            """The state at a part of the increment, driven entries filled in, and the accelerations of these."""
            u = spread(part * x, which, jnp.zeros(6 + system.nv))
            at = self._displaced(motion, state, u)
            rates = spread(velocity, which, _stack((at.base_twist, at.v)))
            return driven_motion(system, t + part * dt, State(at.base, at.q, rates[:6], rates[6:]))

        def trial(x):
            at, known = reached(x, c.reach, c.a * x + c.f)
            gain = spread(c.b * x + c.h, which, _stack((known.base, known.v)))
            return self._inside(at, c.reach * x, which, Acceleration(gain[:6], gain[6:]))

        width = jax.lax.stop_gradient(jnp.abs(dt * v).max() + jnp.abs(state.q).max(initial=0.0) + 1e-4)
        # what makes an effort of the velocity that violates a constraint
        speed = jnp.abs(v).max() + 1e-3 * width / dt
        weight = jax.lax.stop_gradient(jnp.where(memory.size > 0, memory.size, 1.0) / speed)

        def balance(x):
            return motion.imbalance(t + c.reach * dt, *trial(x), weight)

        guess = jax.lax.stop_gradient(self._guess(motion, state, -c.h / c.b, which))
        sparse = self._sparsity(motion)
        kept = jax.lax.stop_gradient((memory.inverse, memory.made_for))

        def solve(_, guess):
            return newton(
                balance, guess, *kept, dt, width, sparse, Options(self.tolerance, self.most, self.newton == "full")
            )

        def tangent_solve(g, y):
            return dense.solve(columns_of(g, y.shape[0]), y)

        if careful:  # not to be differentiated: half as much to trace
            x, found = solve(None, guess)
        else:
            x, found = jax.lax.custom_root(lambda x: balance(x)[0], guess, solve, tangent_solve, has_aux=True)
        x = checkpoint_name(x, SOLUTION)
        inverse, made_for, size, iterations, left, good = jax.lax.stop_gradient(found)
        velocity, gain, pseudo = self.finish(v, memory, c.a * x + c.f, c.b * x + c.h)
        new, known = reached(x, 1.0, velocity)
        if self.base == "SO3xR3":
            new, _ = self._inside(new, x, which, known)
            turn = spread(x, which, jnp.zeros(6 + system.nv))[3:6]
            gain, pseudo = (_turned(y, which, turn) for y in (gain, pseudo))
        new = motion.struck(t + dt, new)
        return new, Memory(
            gain,
            pseudo,
            inverse,
            made_for,
            size,
            memory.iterations + iterations.astype(int),
            left,
            memory.failed | (good == 0),
            memory.failed_at,
        )

    def _guess(self, motion: Motion, state: State, ballistic: Array, which: np.ndarray) -> Array:
        """Where Newton's method begins: without acceleration (the ballistic predictor), or, if springs and rods would then be
        strained far more than they are, where the step begins."""
        system = motion.system
        u = spread(ballistic, which, jnp.zeros(6 + system.nv))
        moved = displaced(system.topology, state, u[:6], u[6:])
        before, after = (jnp.abs(passive_efforts(system, x)).max(initial=0.0) for x in (state, moved))
        return jnp.where(after > 10 * before, 0.0, 1.0) * ballistic

    # A free base whose rotation and translation are integrated apart: its velocity is that of the origin, in the axes that
    # the base has at the start of the step, and its acceleration the derivative of that.

    def _displaced(self, motion: Motion, state: State, u: Float[Array, "n"]) -> State:
        if self.base == "SE3" or motion.system.topology.base_role != "free":
            return displaced(motion.system.topology, state, u[:6], u[6:])
        g = state.base
        moved = displaced(motion.system.topology, state, jnp.zeros(6), u[6:])
        pose = se3.Pose(g.apply(u[:3]), so3.normalise(so3.multiply(g.quaternion, so3.exp(u[3:6]))))
        return State(pose, moved.q, state.base_twist, state.v)

    def _inside(self, at: State, x: Array, which: np.ndarray, gain: Acceleration) -> tuple[State, Acceleration]:
        """The same with components in the body's axes, as the dynamics wants them (B.4)."""
        if self.base == "SE3" or not np.any(which < 6):
            return at, gain
        R = so3.to_matrix(so3.exp(spread(x, which, jnp.zeros(6 + at.v.shape[0]))[3:6]))
        V, W = tmatvec(R, at.base_twist[:3]), at.base_twist[3:]
        dV = tmatvec(R, gain.base[:3]) + cross(V, W)
        twist, rate = jnp.concatenate([V, W]), jnp.concatenate([dV, gain.base[3:]])
        return State(at.base, at.q, twist, at.v), Acceleration(rate, gain.v)

    def _outside(self, at: State, gain: Acceleration) -> tuple[Array, Array]:
        """Accelerations at the start of a run, as the method remembers them."""
        if self.base == "SE3":
            return gain.base, gain.v
        V, W = at.base_twist[:3], at.base_twist[3:]
        return jnp.concatenate([gain.base[:3] + cross(W, V), gain.base[3:]]), gain.v


def _stack(parts: tuple[Array, Array]) -> Array:
    return jnp.concatenate(parts)


def _turned(y: Array, which: np.ndarray, turn: Array) -> Array:
    """Accelerations whose linear base part is taken into the axes at the end of the step."""
    if not np.any(which < 3):
        return y
    whole = spread(y, which, jnp.zeros(int(which.max()) + 7))
    linear = tmatvec(so3.to_matrix(so3.exp(turn)), whole[:3])
    return pick(jnp.concatenate([linear, whole[3:]]), which)


class _Alpha(Implicit):
    """The family of Newmark, HHT and generalised alpha, by its four numbers."""

    order: ClassVar[int] = 2

    @property
    @abc.abstractmethod
    def numbers(self) -> tuple[float, float, float, float]:
        """alpha_m, alpha_f, beta, gamma."""

    def coefficients(self, v, memory, dt):
        am, af, beta, gamma = self.numbers
        f = (1 - gamma / beta) * v + dt * (1 - gamma / (2 * beta)) * memory.pseudo
        # (1 - am) a' + am a = (1 - af) q'' + af q''_n: (4.11) with its sign corrected
        h = -(1 - am) / ((1 - af) * beta * dt) * v + (
            ((1 - am) * (1 - 1 / (2 * beta)) + am) * memory.pseudo - af * memory.acceleration
        ) / (1 - af)
        return Coefficients(gamma / (beta * dt), f, (1 - am) / (dt**2 * beta * (1 - af)), h, 1.0)  # (4.12)

    def finish(self, v, memory, velocity, acceleration):
        am, af, _, _ = self.numbers
        pseudo = ((1 - af) * acceleration + af * memory.acceleration - am * memory.pseudo) / (1 - am)
        return velocity, acceleration, pseudo


class Newmark(_Alpha):
    """Newmark's method; (1/4, 1/2), the default, is of order 2 and without damping (document 002, appendix B)."""

    beta: float = eqx.field(static=True, default=0.25)
    gamma: float = eqx.field(static=True, default=0.5)

    def __check_init__(self):
        if not (self.gamma >= 0.5 and self.beta >= (self.gamma + 0.5) ** 2 / 4 - 1e-12):
            raise UndulaError(
                f"beta = {self.beta}, gamma = {self.gamma}; Newmark's method is stable for gamma >= 1/2 and "
                "beta >= (gamma + 1/2)^2 / 4."
            )

    @property
    def numbers(self):
        return 0.0, 0.0, self.beta, self.gamma


class GeneralisedAlpha(_Alpha):
    """Generalised alpha (Chung and Hulbert; on groups, Arnold and Bruels): order 2; `rho` in [0, 1] is the factor by which
    a step damps the highest frequencies, 1: not at all (4.9), (4.10)."""

    rho: float = eqx.field(static=True, default=0.8)

    def __check_init__(self):
        if not 0 <= self.rho <= 1:
            raise UndulaError(f"rho = {self.rho}; it must be between 0 and 1.")

    @property
    def numbers(self):
        am, af = (2 * self.rho - 1) / (self.rho + 1), self.rho / (self.rho + 1)
        gamma = 0.5 - am + af
        return am, af, (gamma + 0.5) ** 2 / 4, gamma


class HHT(_Alpha):
    """The method of Hilber, Hughes and Taylor: order 2, `rho` in [1/2, 1] as for generalised alpha."""

    rho: float = eqx.field(static=True, default=0.8)

    def __check_init__(self):
        if not 0.5 <= self.rho <= 1:
            raise UndulaError(f"rho = {self.rho}; it must be between 0.5 and 1.")

    @property
    def numbers(self):
        af = (1 - self.rho) / (1 + self.rho)
        return 0.0, af, (1 + af) ** 2 / 4, 0.5 + af


class ImplicitMidpoint(Implicit):
    """The balance holds in the middle of the step: order 2, symplectic for coordinates that add.

    Of the methods here it keeps the energy best when a step is long against the fastest vibrations.
    """

    order: ClassVar[int] = 2

    def coefficients(self, v, memory, dt):
        return Coefficients(1 / dt, jnp.zeros_like(v), 2 / dt**2, -2 * v / dt, 0.5)

    def finish(self, v, memory, velocity, acceleration):
        return 2 * velocity - v, acceleration, acceleration
