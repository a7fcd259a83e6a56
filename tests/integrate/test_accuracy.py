"""Runs estimate their own error: against closed forms and tight integrations by SciPy; a tolerance chooses the step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

import undula as un
from undula import gallery
from undula.scenario.scenario import run_scenario
from undula.scenario.undetermined import Undetermined, reasons_of

G, LENGTH = 9.81, 1.0
METHODS = [
    un.integrators.RungeKutta4(),
    un.integrators.ImplicitMidpoint(),
    un.integrators.GeneralisedAlpha(),
    un.integrators.SemiImplicitEuler(),
]

pytestmark = pytest.mark.filterwarnings("ignore::undula.UndulaWarning")


def pendulum(**more):
    """A point mass of 1 kg on a rod of 1 m."""
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("bob", "ground", un.Revolute((0, 1, 0), **more), mass=1.0, com=(0, 0, -LENGTH), inertia=0.0)
    return b.build()


def swing(t, start):
    """Angle of the pendulum released at an angle [rad], by elliptic functions."""
    k = np.sin(start / 2) ** 2
    sn, _, _, _ = ellipj(ellipk(k) - np.sqrt(G / LENGTH) * t, k)
    return 2 * np.arcsin(np.sqrt(k) * sn)


def error_of(run, start):
    """The largest error of the bob's place, over the box that it needs: twice its distance from the axis."""
    q = run.data.position.values[:, 0]
    return np.abs(q - swing(run.data.time.values, start)).max() / 2


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("dt", [0.05, 0.01])
def test_pendulum(method, dt):
    system = pendulum()
    run = un.run(system, system.state([1.0]), t_end=4.0, dt=dt, integrator=method)
    assert 1 / 3 < run.error / error_of(run, 1.0) < 3
    assert run.data.attrs["error_estimate"] == run.error


def test_double_pendulum():
    """Two point masses, over a time in which the motion is not yet chaotic."""
    b = un.Builder("double")
    b.base("ground")
    for name, parent, at in (("upper", "ground", 0.0), ("lower", "upper", -1.0)):
        axis = un.Revolute((0, 1, 0))
        b.body(name, parent, axis, position=(0, 0, at), mass=1.0, com=(0, 0, -1.0), inertia=0.0)
    system = b.build()

    def rates(_, y):
        (a, c), (u, w) = y[:2], y[2:]  # absolute angles and rates
        mass = np.array([[2.0, np.cos(a - c)], [np.cos(a - c), 1.0]])
        push = np.array([-(w**2) * np.sin(a - c) - 2 * G * np.sin(a), u**2 * np.sin(a - c) - G * np.sin(c)])
        return np.concatenate([y[2:], np.linalg.solve(mass, push)])

    exact = solve_ivp(rates, (0, 2), [1.5, 2.5, 0, 0], method="DOP853", rtol=1e-12, atol=1e-12, dense_output=True).sol
    for dt in (0.04, 0.01):
        run = un.run(system, system.state([1.5, 1.0]), t_end=2.0, dt=dt)
        a, c = exact(run.data.time.values)[:2]
        off = run.data.position.values - np.stack([a, c - a], 1)
        true = np.abs(off.sum(1)).max() * 0.25  # the lower body turns about its own origin in a box of 4 m
        assert run.ok and true / 5 < run.error < 5 * true


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
def test_tolerance(tolerance):
    system = pendulum()
    run = un.run(system, system.state([1.0]), 4.0, tolerance=tolerance, integrator=un.integrators.ImplicitMidpoint())
    assert run.ok and run.error <= tolerance and error_of(run, 1.0) < 1.5 * tolerance
    if tolerance < 1e-3:
        assert "dt = 0.008 s was" in run.message and "because the estimated error was" in run.message


def test_tolerance_with_an_explicit_method_that_is_unstable_at_first():
    """20 rad per first step: only a smaller one is stable."""
    b = un.Builder("stiff", gravity=(0, 0, 0))
    b.base("ground")
    b.body("mass", "ground", un.Prismatic((1, 0, 0), stiffness=1e6), mass=1.0)
    system = b.build()
    run = un.run(system, system.state([0.1]), t_end=1.0, tolerance=1e-3)
    exact = 0.1 * np.cos(1e3 * run.data.time.values)
    assert run.ok and np.abs(run.data.position.values[:, 0] - exact).max() < 0.1 * 3e-3


def test_tolerance_that_is_not_reached(monkeypatch):
    monkeypatch.setattr("undula.integrate.run.MORE_DIVISIONS", 4)
    system = pendulum()
    euler = un.integrators.SemiImplicitEuler()
    run = un.run(system, system.state([1.0]), 0.2, tolerance=1e-9, integrator=euler)
    assert run.ok and run.error > 1e-9 and "the tolerance of 1e-09 was not reached" in run.message


@pytest.mark.parametrize(
    "given, words",
    [
        (dict(tolerance=1e-11), "tolerance = 1e-11 is not allowed; it must be between 1e-10 and 0.1"),
        (dict(tolerance=0.0), "tolerance = 0.0 is not allowed"),
        (dict(tolerance=np.nan), "tolerance = nan is not allowed"),
        (dict(tolerance=1.0), "tolerance = 1 is not allowed"),
        (dict(tolerance=1e-3, dt=0.01), "dt = 0.01 s and tolerance = 0.001 cannot both be given"),
    ],
)
def test_bad_tolerances(given, words):
    with pytest.raises(un.UndulaError, match=words):
        un.run(pendulum(), **given)


def test_a_large_error_is_said():
    system = pendulum()
    with pytest.warns(un.UndulaWarning, match="the estimated error of the run is"):
        run = un.run(system, system.state([1.0]), 4.0, dt=0.1, integrator=un.integrators.ImplicitMidpoint())
    assert run.ok and "the estimated error is" in run.message and "s would bring it below 1 %" in run.message
    run = un.run(system, system.state([1.0]), 4.0, dt=0.2, integrator=un.integrators.ImplicitMidpoint())
    assert run.status == "doubtful" and "a much smaller dt is needed" in run.message


def test_energy_that_a_method_dissipates_is_said():
    system = pendulum()
    damped = un.integrators.GeneralisedAlpha(rho=0.0)
    run = un.run(system, system.state([1.0]), 4.0, dt=0.05, integrator=damped)
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    height = 1 - np.cos(1.0)  # the largest kinetic energy is as large as the range of the potential energy
    part = 100 * (energy[0] - energy[-1]) / (2 * G * height)
    assert part > 1 and f"the method dissipated {part:.1g}" in run.message


def test_rest_is_no_error():
    """The kinetic energy of rounding is no scale."""
    system = pendulum()
    run = un.run(system, system.state([0.0]), t_end=1.0, dt=0.01)
    assert run.error < 1e-12


def test_rest_on_supports_is_no_error():
    """Rounding moves a body that stands on two supports; its energy is 1e-100 J and its balance worthless."""
    b = un.Builder("beam")
    b.base("beam", role="free", mass=2.0, inertia=0.1)
    b.add(*(un.rows.PointOnPlane(f"p{x}", un.site("beam", (x, 0, 0))) for x in (-0.5, 0.7)))
    run = un.run(b.build(), t_end=0.1, dt=0.01)
    assert run.ok and run.error < 1e-12
    assert_allclose(run.data.reaction[-1], 2.0 * 9.81 * np.array([0.7, 0.5]) / 1.2, rtol=1e-12)


@pytest.mark.parametrize("until", [lambda system, t, state: state.q[0] + 0.5, lambda system, t, state: state.q[0] + 9])
def test_runs_with_conditions(until):
    """Windows without events, and none beyond the end."""
    system = pendulum()
    run = un.run(system, system.state([1.0]), 1.0, dt=0.02, until=until)
    assert 1 / 5 < run.error / error_of(run, 1.0) < 5


# Contacts


def thrown(speed, beside):
    """A ball of 1 cm flies towards a post of 5 mm, or past it."""
    b = un.Builder("thrown", gravity=(0, 0, 0))
    b.base("ball", role="free", mass=0.1, inertia=1e-5)
    post = un.contact.Post((2.0, beside), 0.005)
    b.add(un.contact.Contact("post", "ball", post, un.contact.Coulomb(0.0), radius=0.01))
    system = b.build()
    return system, system.state(base_twist=(speed, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("speed, beside, dt, status", [(200, 0.0, 1e-3, "doubtful"), (200, 0.5, 1e-3, "ok")])
def test_a_ball_too_fast_for_a_thin_post(speed, beside, dt, status):
    run = un.run(*thrown(speed, beside), t_end=0.05, dt=dt)
    assert run.status == status
    if beside == 0:
        assert "'post' may have been missed" in run.message and "dt must be below 7.5e-05 s" in run.message
        fine = un.run(*thrown(speed, beside), t_end=0.05, dt=1e-5)
        assert fine.ok and abs(fine.data.base_twist.values[-1, 0]) < 1e-6


def test_two_fast_balls():
    b = un.Builder("pair", gravity=(0, 0, 0))
    b.base("one", role="free", mass=0.1, inertia=1e-5)
    b.body("two", "one", un.Free(), mass=0.1, inertia=1e-5)
    b.add(un.contact.Contact("pair", "one", "two", un.contact.Coulomb(0.0), radius=0.01, other_radius=0.02))
    system = b.build()
    state = system.state({"two.x": 1.0}, base_twist=(100.0, 0, 0, 0, 0, 0))
    state = state.replace(v=state.v.at[0].set(-100.0))
    run = un.run(system, state, t_end=0.02, dt=1e-3)
    assert run.status == "doubtful" and "'pair' may have been missed" in run.message


def test_bounces():
    """A ball bounces three times, at instants that steps do not meet."""
    b = un.Builder("drop")
    b.base("ball", role="free", mass=1.0, inertia=0.004)
    b.add(un.contact.Contact("floor", "ball", un.contact.Plane(), un.contact.Coulomb(0.3, restitution=0.8), radius=0.1))
    system = b.build()
    fall = np.sqrt(2 / G)

    def height(t):
        if t < fall:
            return 1 - G * t * t / 2
        t, v = t - fall, 0.8 * G * fall
        while t > 2 * v / G:
            t, v = t - 2 * v / G, 0.8 * v
        return v * t - G * t * t / 2

    run = un.run(system, system.state(base_position=(0, 0, 1.1)), t_end=1.5, dt=2e-3)
    gap = run.data.base_position.values[:, 2] - 0.1 - [height(t) for t in run.data.time.values]
    assert run.ok and np.abs(gap).max() / 1.1 < run.error < 0.05


@pytest.mark.parametrize(
    "name, dt",
    [
        ("woodpecker", 0.002),
        pytest.param("walker", 0.02, marks=pytest.mark.long),
        pytest.param("hopper", 0.02, marks=pytest.mark.long),
    ],
)
def test_gallery_entries_with_long_steps(name, dt):
    done = run_scenario(gallery.load(name), dt=dt)
    assert done.metrics["error_estimate"] > 0.01
    assert done.run.status == "doubtful" or (name == "hopper" and "contacts penetrate by up to" in done.run.message)
    assert {k for k, v in done.metrics.items() if np.isnan(v)} == set(done.reasons)
    if name == "woodpecker":
        assert done.reasons["frequency"] == "fewer than two beats in the run"


# Reasons


def test_undetermined():
    few = Undetermined("few")
    for x in (1 / few, few / 2, np.float64(2) * few, few * np.float64(2), 2 - few, -few, abs(few), few**2, np.abs(few)):
        assert isinstance(x, Undetermined) and np.isnan(x) and x.reason == "few"
    assert not (np.arange(3.0) > few).any() and not np.isfinite(few)
    assert reasons_of({"a": few, "b": 1.0, "c": float("nan")}).keys() == {"a", "c"}


@pytest.mark.parametrize("mass", [1.0, 1e4])
def test_rest_under_constraints_is_no_error(mass):
    """Its energy is that of the weight; what the balance lacks is rounding."""
    b = un.Builder("arm")
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0)), mass=mass, com=(0.5, 0, 0), inertia=0.1 * mass)
    b.body("hand", "arm", un.Revolute((0, 1, 0)), mass=mass, com=(0.5, 0, 0), inertia=0.1 * mass, position=(1, 0, 0))
    tip = un.laws.Constant(np.array([1.2, 0.3]))
    b.add(un.rows.PrescribedPoint("tip", "hand", tip, point=(1, 0, 0), holds="xz"))
    system = b.build()
    assert un.run(system, system.state([0.5, -1.0]), t_end=0.1, dt=0.01).status == "ok"
