"""New physics from outside the package: a force model, rows, a field along a rod, a controller, a joint.

Each is a small user-defined class. Runs, records, figures, linearisation, equilibria, derivatives and batches come
with it; the reference for each is an ordinary differential equation solved by scipy.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import undula as un

G = 9.81


def solved(rate, t, start):
    """States (times, n) of an ordinary differential equation."""
    return solve_ivp(rate, (0.0, t[-1]), start, t_eval=t, rtol=1e-11, atol=1e-12).y.T


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


# A force model: quadratic drag, and the weightless inertia of the fluid around a body


class QuadraticDrag(un.ForceModel):
    coefficients: jax.Array
    added: jax.Array

    account = "dissipative"

    def inertia(self):
        return self.added

    def wrench(self, at):
        (s,) = at.sites
        return {"drag": -self.coefficients * s.twist * jnp.abs(s.twist)}


class TestForceModel:
    """A body that sinks and tumbles: Kirchhoff's equations with drag, in the body's frame."""

    mass, com, inertia = 1.3, np.array([0.02, -0.03, 0.01]), np.diag([0.02, 0.03, 0.04])
    c = np.array([0.6, 1.1, 1.7, 0.02, 0.03, 0.05])
    start = np.array([0.3, -0.2, 0.1, 1.0, -2.0, 1.5])

    @property
    def added(self):
        A = np.random.default_rng(4).normal(size=(6, 6)) * [0.5, 0.5, 0.5, 0.1, 0.1, 0.1]
        return A @ A.T + np.diag([0.2, 0.5, 0.9, 0.01, 0.01, 0.01])

    def system(self, c=None):
        b = un.Builder("stone")
        b.base("stone", role="free", mass=self.mass, com=self.com, inertia=self.inertia)
        c = jnp.asarray(self.c) if c is None else c
        b.add(QuadraticDrag(c, jnp.asarray(self.added), sites="stone", name="water"))
        return b.build()

    def path(self, t, c=None):
        """Twists and heights: M eta' = ad^T M eta - drag + weight, R' = R W^, p' = R V."""
        c = self.c if c is None else c
        S = hat(self.mass * self.com)
        rigid = np.block([[self.mass * np.eye(3), -S], [S, self.inertia - self.mass * hat(self.com) @ hat(self.com)]])
        M = rigid + self.added

        def rate(_, y):
            eta, R = y[:6], y[6:15].reshape(3, 3)
            ad = np.block([[hat(eta[3:]), hat(eta[:3])], [np.zeros((3, 3)), hat(eta[3:])]])
            weight = rigid @ np.concatenate([R.T @ [0, 0, -G], np.zeros(3)])
            gain = np.linalg.solve(M, ad.T @ M @ eta - c * eta * np.abs(eta) + weight)
            return np.concatenate([gain, (R @ hat(eta[3:])).reshape(-1), (R @ eta[:3])])

        return solved(rate, t, np.concatenate([self.start, np.eye(3).reshape(-1), np.zeros(3)]))

    @pytest.fixture(scope="class")
    @classmethod
    def sunk(cls):
        system = cls().system()
        return un.run(system, system.state(base_twist=cls.start), t_end=1.0, dt=2e-3, save_every=25)

    def test_runs_and_records(self, sunk):
        data = sunk.data
        assert sunk.ok, sunk.message
        found = self.path(data.time.values)
        # where a velocity changes sign the drag is not smooth, which reduces the order of the method
        assert_allclose(data.base_twist, found[:, :6], atol=1e-6)
        assert_allclose(data.base_position, found[:, 15:], atol=1e-6)
        drag = -self.c * found[:, :6] * np.abs(found[:, :6])
        recorded = data.quadratic_drag_drag_wrench.sel(quadratic_drag="water")
        assert_allclose(recorded, drag, atol=1e-5)
        assert_allclose(data.quadratic_drag_power[:, 0], (drag * found[:, :6]).sum(1), atol=1e-5)
        assert_allclose(data.power_external, data.quadratic_drag_power[:, 0], atol=1e-12)

    def test_energy_and_figures(self, sunk, tmp_path):
        from scipy.interpolate import CubicSpline

        energy = (sunk.data.energy_kinetic + sunk.data.energy_potential).values
        work = CubicSpline(sunk.data.time, sunk.data.power_external).antiderivative()(sunk.data.time)
        assert_allclose(energy - energy[0], work, atol=3e-3 * np.ptp(energy))
        assert "quadratic_drag.png" in [p.name for p in un.write_figures(sunk.data, tmp_path)]

    def test_derivatives_and_batches(self):
        t = np.array([0.0, 0.4])

        def depth(scale):
            system = self.system(scale * jnp.asarray(self.c))
            return un.simulate(system, system.state(base_twist=self.start), 2e-3, 200).base.position[-1, 2]

        scales = jnp.array([0.7, 1.0])
        deep, slope = jax.jit(jax.vmap(jax.value_and_grad(depth)))(scales)
        expected = [self.path(t, s * self.c)[-1, 17] for s in (0.7, 1.0)]
        assert_allclose(deep, expected, atol=1e-7)
        h = 1e-3
        ways = [[self.path(t, (s + k * h) * self.c)[-1, 17] for k in (1, -1)] for s in (0.7, 1.0)]
        assert_allclose(slope, [(a - b) / (2 * h) for a, b in ways], rtol=1e-4)

    def test_linearised_about_terminal_velocity(self):
        """It falls along z with its centre below; the eigenvalue of the vertical motion alone is -2 c v / (m + added)."""
        b = un.Builder("drop")
        b.base("drop", role="free", group="R3", mass=2.0, inertia=0.01)
        b.add(QuadraticDrag(jnp.full(6, 3.0), jnp.diag(jnp.array([1.0, 1, 0.5, 0, 0, 0])), sites="drop"))
        system = b.build()
        v = np.sqrt(2.0 * G / 3.0)
        found = un.linearise(system, system.state(base_twist=(0, 0, -v, 0, 0, 0)), keep=["base.z"])
        assert_allclose(found.eigenvalues, sorted([0.0, -2 * 3.0 * v / 2.5]), atol=1e-9)

    def test_contact_steps_take_it_implicitly(self):
        """A step of Moreau's rule ten times longer than the time constant of the drag: it settles instead of oscillating."""
        b = un.Builder("drop")
        b.base("drop", role="free", group="R3", mass=1.0, inertia=0.01)
        b.add(QuadraticDrag(jnp.full(6, 400.0), jnp.zeros((6, 6)), sites="drop"))
        system = b.build()
        with pytest.warns(un.UndulaWarning, match="estimated error"):  # the fall before it settles is not resolved
            run = un.run(system, t_end=5.0, dt=0.05, integrator=un.integrators.Moreau(), save_every=1)
        assert_allclose(run.data.base_twist[-1, 2], -np.sqrt(G / 400.0), rtol=1e-6)
        changes = np.diff(run.data.base_twist[:, 2])
        assert np.all(changes[5:] >= 0) and np.all(changes[6:12] < 0.5 * changes[5:11])


# Rows: a ring fixed in space through which a rod slides


class Ring(un.RowModel):
    centre: jax.Array

    def gap(self, at):
        (s,) = at.sites
        return (s.R.T @ (s.p - self.centre))[1:2]  # across the rod, in the plane; along it, the abscissa is solved for

    def rate(self, at):
        return -at.sites[0].V[0]

    def settle(self, at):
        (s,) = at.sites
        return at.z - (s.R.T @ (s.p - self.centre))[0]


class TestRows:
    """A straight bar in the plane slides through a ring, without friction: L = m (s'^2 + s^2 w^2) / 2 + I w^2 / 2."""

    mass, length = 0.8, 2.0

    def system(self, law=None):
        b = un.Builder("bar", gravity=(0, 0, 0))
        b.base("root", role="free", group="SE2")
        still = un.Rod(
            name="bar", length=self.length, stiffness=np.ones(6), strains=("Kz",), modes=1, nodes=6,
            inertia=(self.mass / 2, self.mass / 2, self.mass / 2, 0, 0, 0), motion=un.laws.Constant([0.0]),
        )  # fmt: skip
        b.body("tip", "root", still)
        b.add(Ring(jnp.zeros(3), sites=un.on("bar", un.Found(0.7)), name="ring"))
        return b.build()

    def start(self, system):
        """The ring is 0.7 m from the root and the centre 0.3 m beyond it; the bar turns about the ring and slides."""
        w, slide = 1.7, 0.2
        return system.state(base_position=(-0.7, 0, 0), base_twist=(slide, -0.7 * w, 0, 0, 0, w)), w, slide

    def path(self, t, w, slide):
        I = self.mass * self.length**2 / 12

        def rate(_, y):
            s, ds, _, w = y
            return [ds, s * w * w, w, -2 * self.mass * s * ds * w / (I + self.mass * s * s)]

        return solved(rate, t, [0.3, slide, 0.0, w]), I

    @pytest.fixture(scope="class")
    @classmethod
    def slid(cls):
        system = cls().system()
        state, *_ = cls().start(system)
        return un.run(system, state, t_end=0.35, dt=1e-3, save_every=10)

    def test_runs_and_records(self, slid):
        assert slid.ok, slid.message
        data = slid.data
        _, w, slide = self.start(self.system())
        y, I = self.path(data.time.values, w, slide)
        s, ds, angle, w = y.T
        centre = np.stack([s * np.cos(angle), s * np.sin(angle)], 1)
        assert_allclose(data.mass_centre[:, :2], centre, atol=1e-7)
        assert_allclose(data.ring_state[:, 0], 1.0 - s, atol=1e-7)  # from the root to the ring
        push = self.mass * (2 * ds * w - s * 2 * self.mass * s * ds * w / (I + self.mass * s * s))
        assert_allclose(data.reaction.sel(constraint="ring"), push, atol=1e-6)
        assert_allclose(data.energy_kinetic, data.energy_kinetic[0], rtol=1e-9)

    @pytest.mark.long
    def test_implicit_steps(self, slid):
        system = self.system()
        run = un.run(system, self.start(system)[0], t_end=0.35, dt=1e-3, integrator=un.integrators.ImplicitMidpoint())
        assert run.ok, run.message
        assert_allclose(run.data.mass_centre[-1], slid.data.mass_centre[-1], atol=2e-6)
        assert_allclose(run.data.ring_state[-1], slid.data.ring_state[-1], atol=2e-6)

    @pytest.mark.long
    def test_derivatives_and_batches(self):
        system = self.system()
        slide = self.start(system)[2]

        def reach(w):
            state = system.state(base_position=(-0.7, 0, 0), base_twist=jnp.stack([slide, -0.7 * w, 0, 0, 0, w]))
            return un.simulate(system, state, 2e-3, 100).z[0][-1, 0]

        t = np.array([0.0, 0.2])
        found, slope = jax.jit(jax.vmap(jax.value_and_grad(reach)))(jnp.array([1.0, 1.7]))
        assert_allclose(found, [1.0 - self.path(t, x, slide)[0][-1, 0] for x in (1.0, 1.7)], atol=1e-7)
        h = 1e-4
        ways = [[-self.path(t, x + k * h, slide)[0][-1, 0] for k in (1, -1)] for x in (1.0, 1.7)]
        assert_allclose(slope, [(a - b) / (2 * h) for a, b in ways], rtol=1e-4)


# A field along a rod


class Wind(un.Along):
    """A force per length across the rod, fixed in the world, that grows with X and oscillates; and a resistance."""

    size: jax.Array
    resistance: jax.Array

    observables = (un.Observable("push", "N", (), "total force of the wind"),)

    def wrench(self, at):
        beat = self.size * at.X * (1 + jnp.sin(3.0 * at.t))
        there = jnp.array([0.0, 1.0, 0.0])
        force = beat * at.section.R.T @ there - self.resistance * at.section.V
        return jnp.concatenate([force, jnp.zeros(3)])

    def gather(self, at):
        return self.size * at.X * (1 + jnp.sin(3.0 * at.t))

    def observe(self, at):
        return {"push": at.total}


class TestAlong:
    """A rod that bends into arcs: one coordinate, the curvature k; positions and rates are closed forms in k and X."""

    mass, EI, length, size, c = 0.5, 0.8, 1.2, 0.6, 0.3  # per length, where applicable

    def system(self, size=None):
        b = un.Builder("reed", gravity=(0, 0, 0))
        b.base("ground")
        m = self.mass
        reed = un.Rod(
            name="reed", length=self.length, stiffness=(1, 1, 1, 1, 1, self.EI), inertia=(m, m, m, 0, 0, 0),
            strains=("Kz",), modes=1, nodes=12, order=6,
        )  # fmt: skip
        b.body("tip", "ground", reed)
        size = jnp.asarray(self.size) if size is None else size
        b.add(Wind(size, jnp.asarray(self.c), rod="reed", name="wind"))
        return b.build()

    def slope(self, k, X):
        """Derivative of (x, y) = (sin kX, 1 - cos kX) / k with respect to k, by series near zero."""
        a = k * X
        if abs(a) < 1e-3:
            return X * X * np.array([-a / 3 + a**3 / 30, 0.5 - a * a / 8])
        return np.array([(a * np.cos(a) - np.sin(a)), (a * np.sin(a) - 1 + np.cos(a))]) / k**2

    def integral(self, f):
        return quad(f, 0, self.length, epsabs=1e-12, epsrel=1e-12)[0]

    def path(self, t, size=None):
        size = self.size if size is None else size

        def inertia(k):
            return self.mass * self.integral(lambda X: self.slope(k, X) @ self.slope(k, X))

        def rate(time, y):
            k, dk = y
            M, h = inertia(k), 1e-5
            dM = (inertia(k + h) - inertia(k - h)) / (2 * h)
            push = self.integral(lambda X: size * X * (1 + np.sin(3 * time)) * self.slope(k, X)[1])
            return [dk, (push - self.c / self.mass * M * dk - self.EI * self.length * k - dM * dk * dk / 2) / M]

        return solve_ivp(rate, (0, t[-1]), [0.0, 0.0], t_eval=t, rtol=1e-8, atol=1e-9).y.T

    def test_runs_and_records(self):
        system = self.system()
        run = un.run(system, t_end=1.0, dt=2e-3, save_every=100)
        assert run.ok, run.message
        t = run.data.time.values
        assert_allclose(run.data.position[:, 0], self.path(t)[:, 0], atol=2e-5)
        total = self.size * self.length**2 / 2 * (1 + np.sin(3 * t))
        assert_allclose(run.data.wind_push[:, 0], total, rtol=1e-9)
        assert run.data.wind_wrench.dims == ("time", "wind", "wind_site", "wrench")

    def test_equilibrium_and_linearisation(self):
        """The curvature at which the moments balance, and small oscillations about it; stiffness by finite differences."""
        system = self.system()
        at = un.equilibrium(system, t=0.2)

        def moment(k):
            push = self.integral(lambda X: self.size * X * (1 + np.sin(0.6)) * self.slope(k, X)[1])
            return push - self.EI * self.length * k

        k = brentq(moment, 0.0, 2.0, xtol=1e-13)
        assert_allclose(at.state.q, [k], atol=1e-8)
        M = self.mass * self.integral(lambda X: self.slope(k, X) @ self.slope(k, X))
        K = -(moment(k + 1e-5) - moment(k - 1e-5)) / 2e-5
        assert_allclose(at.stiffness, [[K]], rtol=1e-6)
        found = np.roots([1.0, self.c / self.mass, K / M])
        assert_allclose(
            np.sort_complex(un.linearise(system, at.state, 0.2).eigenvalues), np.sort_complex(found), rtol=1e-6
        )

    @pytest.mark.long
    def test_derivatives(self):
        def bent(size):
            return un.simulate(
                self.system(size), self.system(size).state(), 0.01, 30, integrator=un.integrators.Newmark()
            ).q[-1, 0]

        value, slope = jax.jit(jax.value_and_grad(bent))(self.size)
        t = np.array([0.0, 0.3])
        assert_allclose(value, self.path(t)[-1, 0], rtol=3e-3)
        ways = [self.path(t, self.size + h)[-1, 0] for h in (0.01, -0.01)]
        assert_allclose(slope, (ways[0] - ways[1]) / 0.02, rtol=3e-3)


# A controller with memory that reads the base


class Station(un.Actuator):
    """Holds a cart in position: proportional, integral and derivative action on the base, as a force at one of its sites."""

    gains: jax.Array
    place: jax.Array

    wants_whole = True

    def start(self):
        return jnp.zeros(())

    def rate(self, at):
        return at.whole.position[0] - self.place

    def wrench(self, at):
        error = jnp.stack([at.whole.position[0] - self.place, at.z, at.whole.twist[0]])
        return jnp.zeros(6).at[0].set(-self.gains @ error)


class TestController:
    """A cart pushed by a load: a linear system of three states."""

    mass, gains, push = 2.0, np.array([30.0, 25.0, 9.0]), 4.0

    def system(self, gains=None):
        b = un.Builder("cart")
        b.base("cart", role="free", group="R", mass=self.mass)
        gains = jnp.asarray(self.gains) if gains is None else gains
        b.add(Station(gains, jnp.asarray(0.5), sites="cart", name="station"))
        b.add(un.forces.Load("cart", (self.push, 0, 0)))
        return b.build()

    def matrix(self, gains):
        kp, ki, kd = gains
        return np.array([[0, 1, 0], [-kp / self.mass, -kd / self.mass, -ki / self.mass], [1, 0, 0]])

    def path(self, t, gains=None):
        A = self.matrix(self.gains if gains is None else gains)
        rest = np.linalg.solve(A, -np.array([0, self.push / self.mass, 0]))
        return np.array([rest + expm(A * x) @ (np.array([-0.5, 0, 0]) - rest) for x in t])

    @pytest.mark.parametrize(
        "method",
        [
            un.integrators.RungeKutta4(),
            un.integrators.ImplicitMidpoint(),
            un.integrators.Newmark(),
            un.integrators.Moreau(),
        ],
    )
    def test_runs_and_records(self, method):
        dt = 1e-3 if not isinstance(method, un.integrators.Moreau) else 2e-4
        run = un.run(self.system(), t_end=1.0, dt=dt, integrator=method)
        assert run.ok, run.message
        found = self.path(run.data.time.values)
        error = 3e-3 if isinstance(method, un.integrators.Moreau) else 3e-5
        assert_allclose(run.data.base_position[:, 0] - 0.5, found[:, 0], atol=error)
        assert_allclose(run.data.station_state[:, 0], found[:, 2], atol=error)
        force = -(self.gains * found[:, [0, 2, 1]]).sum(1)
        assert_allclose(run.data.station_wrench[:, 0, 0], force, atol=100 * error)
        assert_allclose(run.data.power_actuators, force * found[:, 1], atol=100 * error)

    def test_linearisation(self):
        found = un.linearise(self.system(), self.system().state())
        assert_allclose(
            np.sort_complex(found.eigenvalues), np.sort_complex(np.linalg.eigvals(self.matrix(self.gains))), atol=1e-9
        )

    @pytest.mark.long
    def test_derivatives_and_batches(self):
        def end(ki):
            gains = jnp.asarray(self.gains).at[1].set(ki)
            system = self.system(gains)
            return un.simulate(system, system.state(), 5e-3, 200).base.position[-1, 0] - 0.5

        found, slope = jax.jit(jax.vmap(jax.value_and_grad(end)))(jnp.array([5.0, 25.0]))

        def exact(ki):
            return self.path([1.0], np.array([30.0, ki, 9.0]))[0, 0]

        assert_allclose(found, [exact(5.0), exact(25.0)], atol=1e-7)
        assert_allclose(slope, [(exact(k + 0.01) - exact(k - 0.01)) / 0.02 for k in (5.0, 25.0)], rtol=1e-5)


# A joint


def _parabola(axis, second, q):
    return jnp.eye(3), q[0] * axis + q[0] ** 2 * second


PARABOLA = un.joints.kind_of_pose("parabola", ("",), ("m",), _parabola)


@dataclass(frozen=True)
class Parabola(un.joints.Joint):
    """Slides along x and rises by `bend` [1/m] times x squared."""

    bend: float = 1.0

    @property
    def kind(self):
        return PARABOLA

    def vectors(self, owner):
        return np.array([1.0, 0, 0]), np.array([0, 0, self.bend])


class TestJoint:
    """A bead on a parabolic wire: (1 + 4 a^2 x^2) x'' + 4 a^2 x x'^2 + 2 a g x = 0."""

    a = 0.8

    def system(self, **options):
        b = un.Builder("wire")
        b.base("wire")
        b.body("bead", "wire", Parabola(bend=self.a, **options), mass=0.3)
        return b.build()

    def path(self, t, x):
        a = self.a
        return solved(
            lambda _, y: [y[1], -(4 * a * a * y[0] * y[1] ** 2 + 2 * a * G * y[0]) / (1 + 4 * a * a * y[0] ** 2)],
            t,
            [x, 0],
        )

    def test_runs_and_records(self):
        system = self.system()
        run = un.run(system, system.state([0.7]), t_end=1.0, dt=1e-3)
        assert run.ok and list(run.data.unit.values) == ["m"]
        x = self.path(run.data.time.values, 0.7)[:, 0]
        assert_allclose(run.data.position[:, 0], x, atol=1e-9)
        assert_allclose(run.data.body_position[:, 1, 2], self.a * x * x, atol=1e-9)

    def test_driven_equilibrium_linearised_differentiated(self):
        a, m = self.a, 0.3
        law = un.laws.Sinusoid(0.4, 2.0, 0.3)
        driven = self.system(motion=law)
        x, v, dv = (float(y) for y in law(0.7))
        effort = m * ((1 + 4 * a * a * x * x) * dv + 4 * a * a * x * v * v + 2 * a * G * x)
        assert_allclose(un.hybrid_dynamics(driven, driven.state(), 0.7).efforts, [effort], rtol=1e-12)
        system = self.system(stiffness=3.0, rest=0.5)
        at = un.equilibrium(system)
        assert_allclose(at.state.q, [3.0 * 0.5 / (3.0 + 2 * a * m * G)], rtol=1e-9)
        small = un.linearise(self.system(), self.system().state()).eigenvalues
        assert_allclose(np.abs(small.imag), np.sqrt(2 * a * G), rtol=1e-9)

        def end(x):
            return un.simulate(self.system(), self.system().state(x[None]), 2e-3, 250).q[-1, 0]

        found, slope = jax.jit(jax.vmap(jax.value_and_grad(end)))(jnp.array([0.3, 0.7]))
        t = np.array([0.0, 0.5])
        assert_allclose(found, [self.path(t, x)[-1, 0] for x in (0.3, 0.7)], atol=1e-8)
        ways = [[self.path(t, x + k)[-1, 0] for k in (1e-4, -1e-4)] for x in (0.3, 0.7)]
        assert_allclose(slope, [(p - q) / 2e-4 for p, q in ways], rtol=1e-5)
