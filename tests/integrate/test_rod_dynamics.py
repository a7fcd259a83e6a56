"""Implicit methods, and rods in motion: conserved quantities, closed forms, other programs, finite differences."""

import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.balance.coupling import pattern
from undula.numerics.programs import quickly_compiled
from undula.numerics.quick import quick_options

METHODS = (
    un.integrators.Newmark(),
    un.integrators.HHT(0.9),
    un.integrators.GeneralisedAlpha(0.6),
    un.integrators.ImplicitMidpoint(),
)
PYELASTICA = np.load(pathlib.Path(__file__).parents[1] / "data" / "rods_pyelastica.npz")


def rod(modes=3, gravity=(0, 0, 0), base="fixed", joint=None, load=(), **more):
    options = dict(
        stiffness=(50.0, 20.0, 20.0, 2.0, 2.0, 2.0),
        inertia=(1, 1, 1, 2e-3, 1e-3, 1e-3),
        strains="planar-kirchhoff",
        modes=modes,
    )
    b = un.Builder("rod", gravity=gravity)
    b.base("root", role=base)
    if joint is not None:
        b.body("hub", "root", joint, mass=0.1, inertia=0.01)
    b.body("tip", "hub" if joint is not None else "root", un.Rod(**(options | more)))
    for given in load:
        b.add(un.forces.Load("tip", **given))
    return b.build()


@quickly_compiled
def _final(system, state, dt, steps, method):
    return un.advance(system, state, dt, steps, integrator=method)[0]


def final(system, state, dt, steps, method):
    """The state after some steps; times and numbers are arrays, so that changing them does not recompile."""
    end = _final(system, state, jnp.asarray(dt), jnp.asarray(steps), method)
    return un.kinematics.driven_motion(system, end, dt * steps)[0] if system.motions else end


# The methods on joints


def pendulum(**joint):
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("a", "ground", un.Revolute((0, 1, 0), **joint), mass=1.0, com=(0, 0, -0.5), inertia=0.05)
    b.body("b", "a", un.Spherical(), mass=0.5, com=(0, 0, -0.3), inertia=(0.02, 0.03, 0.01), position=(0, 0, -1))
    return b.build()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_order_two(method):
    """Against RK4 with a small step, on a hinge and a ball joint; errors drop by a factor of four when the step is halved."""
    system = pendulum()
    state = system.state([0.8, 0.3, -0.2, 0.4], [0.0, 1.0, 0.5, -0.5])
    fine = final(system, state, 1e-3, 400, un.integrators.RungeKutta4())
    errors = []
    for n in (40, 80):
        got = final(system, state, 0.4 / n, n, method)
        errors.append(max(np.abs(got.q - fine.q).max(), np.abs(got.v - fine.v).max()))
    assert 3.4 < errors[0] / errors[1] < 4.6 and errors[1] < 2e-3


@pytest.mark.parametrize("base", ["SE3", "SO3xR3"])
def test_order_two_of_a_free_base(base):
    """A free body with a tilted spin, and a link on it; both parametrisations of the base converge to the same motion."""
    b = un.Builder("free", gravity=(0, 0, -9.81))
    b.base("body", role="free", mass=1.0, com=(0.1, 0, 0), inertia=(0.1, 0.2, 0.15))
    b.body("arm", "body", un.Revolute((0, 1, 0)), mass=0.5, com=(0.2, 0, 0), inertia=0.01, position=(0.3, 0, 0))
    system = b.build()
    state = system.state([0.3], [1.0], base_twist=(1.0, 0.5, 2.0, 0.5, -1.0, 2.0))
    fine = final(system, state, 1e-3, 400, un.integrators.RungeKutta4())
    errors = []
    for n in (40, 80):
        got = final(system, state, 0.4 / n, n, un.integrators.Newmark(base=base))
        errors.append(
            max(np.abs(got.base.position - fine.base.position).max(), np.abs(got.base_twist - fine.base_twist).max())
        )
    assert 3.2 < errors[0] / errors[1] < 4.8


def oscillator(w):
    b = un.Builder("mass", gravity=(0, 0, 0))
    b.base("ground")
    b.body("m", "ground", un.Prismatic((1, 0, 0), stiffness=w * w), mass=1.0)
    return b.build()


def test_newmark_of_an_oscillator():
    """Facts 5: (1/4, 1/2) conserves energy to rounding, with the period of the trapezoidal rule; generalised alpha
    damps the highest frequencies by rho per step."""
    w, dt = 7.0, 0.05
    system = oscillator(w)
    states = eqx.filter_jit(un.simulate)(
        system, system.state([1.0]), dt, 200, integrator=un.integrators.Newmark(tolerance=1e-13)
    )
    energy = np.asarray(states.v[:, 0] ** 2 + w * w * states.q[:, 0] ** 2) / 2
    assert np.ptp(energy) < 1e-10 * energy[0]
    angle = 2 * np.arctan(w * dt / 2)
    assert_allclose(states.q[:, 0], np.cos(angle * np.arange(201)), atol=1e-8)
    stiff = oscillator(1e6)
    states = eqx.filter_jit(un.simulate)(
        stiff, stiff.state([1.0]), dt, 40, integrator=un.integrators.GeneralisedAlpha(0.6, tolerance=1e-13)
    )
    q = np.asarray(states.q[:, 0])  # a triple root: (a + b n + c n^2) (-rho)^n
    left = np.abs(q[3:] + 3 * 0.6 * q[2:-1] + 3 * 0.6**2 * q[1:-2] + 0.6**3 * q[:-3])
    assert (left[5:20] < 1e-3 * np.abs(q[8:23])).all() and np.abs(q[20]) > 1e-7


def test_constant_acceleration_is_exact():
    """Facts 5: free fall and a constant force."""
    b = un.Builder("fall")
    b.base("body", role="free", mass=2.0, inertia=0.1)
    system = b.build()
    got = final(system, system.state(base_twist=(1.0, 0, 2.0, 0, 0, 0)), 0.1, 10, un.integrators.Newmark())
    assert_allclose(got.base.position, [1.0, 0, 2.0 - 9.81 / 2], atol=1e-10)


def test_driven_coordinates():
    """A hinge driven by a law carries a rod: implicit and explicit steps agree."""
    system = rod(2, joint=un.Revolute((0, 0, 1), motion=un.laws.Sinusoid(0.5, 5.0)))
    a, b = (
        final(system, system.state(), 0.2 / n, n, m)
        for n, m in ((400, un.integrators.Newmark()), (400, un.integrators.RungeKutta4()))
    )
    assert_allclose(a.q, b.q, atol=2e-4)
    assert a.q[0] == pytest.approx(0.5 * np.sin(1.0))


# Rods


@pytest.mark.long
def test_energy_of_a_released_rod():
    """Fact 13: the soft cantilever of the document conserves energy to 2e-4 with Newmark's method."""
    setup = gallery.load("cantilever-soft").setup(modes=3)
    run = un.run(setup.system, setup.state(setup.system), t_end=2.0, dt=0.01, integrator=un.integrators.Newmark())
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    assert run.ok and np.ptp(energy) < 2e-4 * np.abs(energy[0])


@pytest.mark.long
def test_exact_tangent():
    """Newton's method finds the same motion with the exact tangent and with a retained matrix."""
    system = rod(2, gravity=(0, -9.81, 0))
    a, b = (
        final(system, system.state([1.0, -0.5]), 0.02, 25, un.integrators.Newmark(newton=n))
        for n in ("modified", "full")
    )
    assert_allclose(a.q, b.q, atol=1e-6)


@pytest.mark.long
def test_soft_cantilever_against_pyelastica():
    """Within 1.5 % of the length over the first two seconds (data: PyElastica's own converged curve)."""
    setup = gallery.load("cantilever-soft").setup(modes=7)
    run = un.run(setup.system, setup.state(setup.system), t_end=2.0, dt=0.01, save_every=1)
    away = run.data.body_position.sel(body="tip").values - PYELASTICA["soft_cantilever_tip"]
    assert np.linalg.norm(away, axis=1).max() < 0.015 * 10.0


class TestFlyingRod:
    @pytest.fixture(scope="class")
    @classmethod
    def flight(cls):
        setup = gallery.load("flying-rod-soft").setup()
        return setup.system, un.run(setup.system, setup.state, t_end=7.0, dt=0.01, save_every=10)

    def test_impulse(self, flight):
        """Fact 14: linear momentum is the impulse of the load, at 1, 2, ... 5 s and after; the centre of mass follows."""
        momentum, centre = flight[1].data.momentum.values, flight[1].data.mass_centre.values
        assert_allclose(momentum[[10, 20, 30, 40, 50, 60], 0], [4, 16, 34, 46, 50, 50], atol=0.05)
        assert_allclose(momentum[:, 1:3], 0, atol=0.1)
        assert centre[50, 0] == pytest.approx(15.5, abs=0.02)

    def test_energy(self, flight):
        """Without load the energy is constant; with load, it is the work done."""
        energy = (flight[1].data.energy_kinetic + flight[1].data.energy_potential).values
        assert np.ptp(energy[51:]) < 1e-4 * energy[51]
        power = flight[1].data.power_external.values
        assert energy[50] == pytest.approx(np.trapezoid(power[:51], dx=0.1), rel=0.02)

    def test_against_pyelastica(self, flight):
        """Both ends within 1.5 % of the length over the first two seconds."""
        data, every = flight[1].data, slice(0, 201, 10)
        for body, key in (("root", "soft_flying_tip"), ("tip", "soft_flying_far")):
            away = data.body_position.sel(body=body).values[:21] - PYELASTICA[key][every]
            assert np.linalg.norm(away, axis=1).max() < 0.15


@pytest.mark.parametrize(
    "factor", [pytest.param(0.01, marks=pytest.mark.long), 1.0, pytest.param(100.0, marks=pytest.mark.long)]
)
def test_no_limit_on_the_step(factor):
    """Fact 20: the stiff rod at dt = 0.1 s, whatever its modulus; every step converges and the energy stays close, but the run
    says that such steps are far too long for the vibrations."""
    setup = gallery.load("cantilever-stiff").setup(E=2e9 * factor, modes=3, force=0.1 * max(factor, 1.0))
    run = un.run(setup.system, setup.state(setup.system), t_end=3.0, dt=0.1)
    assert run.status == "doubtful" and "the estimated error is" in run.message and "appeared" not in run.message
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    assert np.ptp(energy) < 0.1 * np.abs(energy[0])


@pytest.mark.long
def test_damping_ratio():
    """Fact 19: D = mu H damps the first mode with zeta = mu w / 2; the energy never grows."""
    mu = 0.02
    system = rod(4, damping=mu)
    at = un.equilibrium(system)
    modes = un.natural_modes(system, at)
    w = modes.frequencies[0]
    state = un.State(at.state.base, at.state.q + 1e-3 * modes.shapes[:, 0], at.state.base_twist, at.state.v)
    run = un.run(system, state, t_end=2.0, dt=1e-3, save_every=1)
    amplitude = run.data.position.values @ np.linalg.solve(modes.shapes, np.eye(4)).T
    zeta = mu * w / 2
    t = run.data.time.values
    free = w * np.sqrt(1 - zeta**2)
    exact = 1e-3 * np.exp(-zeta * w * t) * (np.cos(free * t) + zeta * w / free * np.sin(free * t))
    assert_allclose(amplitude[:, 0], exact, atol=2e-6)
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    assert np.all(np.diff(energy) < 1e-12)


@pytest.mark.long
def test_explicit_steps_of_the_same_model():
    system = rod(2, gravity=(0, -9.81, 0))
    a, b = (
        final(system, system.state([0.4, -0.2]), 0.2 / n, n, m)
        for n, m in ((400, un.integrators.Newmark()), (400, un.integrators.RungeKutta4()))
    )
    assert_allclose(a.q, b.q, atol=2e-4)


@pytest.mark.long
def test_gradients_of_a_motion():
    """Tip after 1 s with respect to E, the length and a tension, through the builder and the implicit steps, against
    finite differences."""

    def tip(x):
        E, length, tension = 1e6 * x[0], 0.15 * x[1], 2.0 * x[2]
        b = un.Builder("finger")
        b.base("palm")
        soft = un.Rod(
            length=length,
            section=un.rods.Circle(0.015),
            E=E,
            density=1100,
            strains=("Kz",),
            modes=2,
            nodes=4,
            damping=0.01,
        )
        b.body("tip", "palm", soft)
        b.add(un.forces.Tendon("t", "tip", (0.005, 0.0), tension=tension))
        system = b.build()
        method = un.integrators.ImplicitMidpoint(tolerance=1e-12)
        end = jax.tree.map(lambda y: y[-1], un.simulate(system, system.state(), 0.05, 20, integrator=method))
        return un.kinematics.body_poses(system, end).position[-1, 1]

    x = jnp.ones(3)
    evaluate = jax.jit(jax.value_and_grad(tip), compiler_options=quick_options())  # one compilation serves both
    slope = evaluate(x)[1]
    h = 1e-4
    steps = h * np.eye(3)
    f = [[float(evaluate(x + k * e)[0]) for k in (1, -1, 2, -2)] for e in steps]
    differences = [(8 * (a - b) - (c - d)) / (12 * h) for a, b, c, d in f]
    assert_allclose(np.asarray(slope), np.array(differences), rtol=1e-5, atol=1e-9)


@pytest.mark.long
def test_branches_share_differences(rng):
    """Zeros of the pattern are zeros of the exact tangent, and unknowns of one colour affect no common effort."""
    b = un.Builder("tree")
    b.base("ground")
    b.body("trunk", "ground", un.Revolute((0, 1, 0)), mass=1.0, inertia=0.1)
    soft = un.Rod(
        stiffness=(1, 1, 1, 2, 2, 2), inertia=(1, 1, 1, 0.01, 0.01, 0.01), strains="kirchhoff", modes=1, nodes=3
    )
    b.body("arm", "trunk", soft, rotation=(1, 1, 0, 0))
    b.body("hand", "arm", un.Revolute((0, 0, 1)), mass=0.5, com=(0.1, 0, 0), inertia=0.01)
    b.body("leg", "trunk", soft, rotation=(1, 0, 1, 0))
    b.body("other", "ground", un.Revolute((0, 1, 0)), mass=1.0, inertia=0.1)
    system = b.build()
    n = system.nv
    found = pattern(system)

    @quickly_compiled
    def tangent(system, q, v, a):
        def efforts(x):
            at = un.State(system.base_pose, q + x, jnp.zeros(6), v + x)
            return un.inverse_dynamics(system, at, un.Acceleration(jnp.zeros(6), a + x)).v

        return jax.jacfwd(efforts)(jnp.zeros(n))

    K = np.abs(tangent(system, *(jnp.asarray(rng.normal(size=n)) for _ in range(3))))
    couples, colours = found.couples[0], found.colours[0]
    assert_allclose(K[~couples], 0, atol=1e-14)
    assert (~couples).sum() > 2 * n
    assert found.colour_count == n - 1  # all except "other" affect the effort of the trunk
    for c in range(found.colour_count):
        assert couples[:, colours == c].sum(1).max() == 1


@pytest.mark.long
def test_equal_rods_apart():
    """Three uncoupled rod pendulums move as each does alone, and their matrix has three blocks."""
    b = un.Builder("three")
    b.base("ground")
    soft = un.Rod(stiffness=(1, 1, 1, 2, 2, 2), inertia=(1, 1, 1, 0, 0, 0), strains=("Kz",), modes=2, nodes=4)
    for k in range(3):
        b.body(f"rod{k}", "ground", soft, position=(0, 0, k), rotation=(1, k, 0, 0))
    system = b.build()
    assert pattern(system).blocks.tolist() == [[0, 1], [2, 3], [4, 5]] and pattern(system).colour_count == 2
    together = final(system, system.state(), 0.02, 30, un.integrators.ImplicitMidpoint())
    for k in range(3):
        b = un.Builder("one")
        b.base("ground")
        b.body("rod", "ground", soft, rotation=(1, k, 0, 0))
        alone = b.build()
        end = final(alone, alone.state(), 0.02, 30, un.integrators.ImplicitMidpoint())
        assert_allclose(together.q[2 * k : 2 * k + 2], end.q, atol=1e-7)


class TestFailures:
    def test_newton_fails(self):
        """The message gives time, residual and advice; earlier samples are kept."""
        system = rod(2, gravity=(0, -9.81, 0))
        run = un.run(
            system,
            system.state([3.0, 1.0]),
            t_end=1.0,
            dt=0.05,
            integrator=un.integrators.Newmark(max_iterations=1, halvings=0),
        )
        assert run.status == "failed"
        assert (
            "Newton's method did not converge in the step from t = 0 s" in run.message and "smaller dt" in run.message
        )
        assert run.data.sizes["time"] >= 1

    def test_not_a_number(self):
        load = un.laws.Function(lambda t: jnp.array([0.0, 1.0, 0.0]) * jnp.where(t > 0.1, jnp.nan, 1.0), (3,))
        run = un.run(rod(2, load=[dict(force=load)]), t_end=0.3, dt=0.01)
        assert run.status == "failed" and "t = 0.1" in run.message
        assert run.data.time.values[-1] == pytest.approx(0.1)

    def test_steps_are_halved(self):
        """With two iterations allowed, whole steps fail but parts of them do not, so a step takes more than two in total."""
        system = rod(2, gravity=(0, -9.81, 0))
        state = system.state([2.0, 1.0])
        run = un.run(
            system, state, t_end=0.5, dt=0.05, integrator=un.integrators.Newmark(newton="full", max_iterations=2)
        )
        assert run.ok and run.data.iterations.values.max() > 2

    @pytest.mark.parametrize(
        "make, words",
        [
            (lambda: un.integrators.Newmark(beta=0.1), "stable for gamma >= 1/2"),
            (
                lambda: un.integrators.GeneralisedAlpha(1.5),
                "rho = 1.5 is not allowed; it must be a finite number between 0 and 1",
            ),
            (lambda: un.integrators.HHT(0.2), "rho = 0.2 is not allowed; it must be a finite number between 0.5 and 1"),
            (lambda: un.integrators.Newmark(newton="none"), "newton = 'none'"),
            (lambda: un.integrators.Newmark(base="SO3"), "base = 'SO3'"),
            (lambda: un.integrators.Newmark(tolerance=0.0), "tolerance = 0.0"),
        ],
    )
    def test_options(self, make, words):
        with pytest.raises(un.UndulaError, match=words):
            make()
