"""Complete runs: when they end, their status, what they record between samples."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import undula as un
from undula import gallery
from undula.cli import output
from undula.integrate.judge import COARSE, MISSED, Records, Verdict, conclude
from undula.integrate.moreau import Moreau
from undula.integrate.start import check_times
from undula.model import prepare as preparation
from undula.numerics.programs import Program
from undula.record.sample import Sample
from undula.scenario.scenario import Parameter, Scenario, Setup, run_scenario

G = 9.81


def ball(height=0.5, restitution=0.8, name="ball", **given):
    """A ball of 1 kg above the ground: (system, state)."""
    b = un.Builder(name)
    b.base("ball", role="free", mass=1.0, inertia=un.solids.sphere_inertia(1.0, 0.1))
    b.add(
        un.contact.Contact(
            "ground", "ball", un.contact.Plane(), un.contact.Coulomb(0.3, restitution=restitution), radius=0.1
        )
    )
    system = b.build()
    return system, system.state(base_position=(0, 0, 0.1 + height), **given)


def test_links_are_computed_inside_compiled_functions_alone(monkeypatch):
    """Outside, each of their operations would be compiled as a separate program."""
    outside = []
    links_of = preparation.links_of

    def watched(system):
        outside.append(not isinstance(system.mass, jax.core.Tracer))
        return links_of(system)

    monkeypatch.setattr(preparation, "links_of", watched)
    assert un.run(*ball(name="another"), t_end=0.01, dt=1e-3).ok  # not already compiled
    assert outside and not any(outside)


def test_another_run_of_the_same_structure_takes_its_programs(monkeypatch):
    """Oscillators with different stiffness, initial state, step and number of steps share compiled programs."""
    traced = []
    real = Program._lowered
    monkeypatch.setattr(Program, "_lowered", lambda self, *args: traced.append(self.name) or real(self, *args))
    monkeypatch.setenv("UNDULA_CACHE", "off")
    for k, x, dt, t_end in ((4.0, 1.0, 0.01, 1.0), (9.0, -0.5, 0.005, 1.0), (4.0, 1.0, 0.01, 40.0)):
        b = un.Builder("oscillator", gravity=(0, 0, 0))
        b.base("ground")
        b.body("mass", "ground", un.Prismatic((1, 0, 0), stiffness=k), mass=1.0)
        system = b.build()
        data = un.run(system, system.state([x]), t_end=t_end, dt=dt, save_every=10).data
        assert_allclose(data.position.values[:, 0], x * np.cos(np.sqrt(k) * data.time.values), atol=3e-7)
        if k == 4.0 and t_end == 1.0:
            traced.clear()
    assert not traced


# The end


@pytest.mark.parametrize(
    "t_end, dt", [(6.0, 25.132741228718345 / 3200), (0.3, 0.1), (1.0, 0.3), (1e-3, 1e-3), (2.0, 2e-5)]
)
def test_steps_divide_the_time(t_end, dt):
    steps = check_times(t_end, dt, None)
    assert abs(steps.count * steps.dt / t_end - 1) < 1e-12  # it ends at t_end
    assert steps.dt <= dt and (steps.count - 1) * dt < t_end  # no step is longer than dt, and there is no extra step
    if abs(round(t_end / dt) * dt - t_end) < 1e-12:
        assert steps.dt == dt  # a step that divides t_end is unchanged


def test_a_run_ends_when_it_should():
    """A ball in free fall, exact for the midpoint rule: the final position is that at t_end, not one step later."""
    t_end, dt = 0.0107, 1e-3
    run = un.run(*ball(height=1.0), t_end=t_end, dt=dt, save_every=4)
    t = run.data.time.values
    assert run.ok and run.steps == 11 and t[-1] == t_end
    assert run.dt == run.data.attrs["dt"] and run.dt * run.steps == pytest.approx(t_end, rel=1e-14)
    assert_allclose(t, [0, 4 * run.dt, 8 * run.dt, t_end], rtol=1e-14)
    assert_allclose(run.data.base_position.values[:, 2], 1.1 - G * t**2 / 2, rtol=1e-12)
    assert (
        "11 steps of 0.000972727273 s" in run.message and "dt = 0.001 s does not divide t_end = 0.0107 s" in run.message
    )


def test_the_report_says_what_was_done():
    done = run_scenario(gallery.load("double-pendulum"), t_end=0.0305, dt=1e-3)
    found = output.results(done)
    assert found["t_end"] == 0.0305 == done.run.data.time.values[-1]
    assert found["steps"] == 31 and found["dt"] == pytest.approx(0.0305 / 31)
    assert found["real_time_factor"] == pytest.approx(0.0305 / found["wall_s"])


# Impacts between samples


def bounces(height, restitution, until):
    """Times and approach speeds of the bounces of a ball, in closed form."""
    speed = np.sqrt(2 * G * height)
    t, out = speed / G, []
    while t < until:
        out.append((t, speed))
        speed *= restitution
        t += 2 * speed / G
    return np.array(out)


def test_nothing_falls_between_samples():
    """Five bounces and six samples: impulses match the changes of momentum and the weight, impacts the closed form."""
    height, e, t_end = 0.5, 0.8, 2.0
    run = un.run(*ball(height, e, base_twist=(1, 0, 0, 0, 0, 0)), t_end=t_end, dt=1e-3, save_every=400)
    data, t = run.data, run.data.time.values
    exact = bounces(height, e, t_end)
    impulse, impacts = data.contact_impulse.values[:, 0], data.contact_impacts.values[:, 0]
    assert run.ok and impacts.tolist() == [0, *np.histogram(exact[:, 0], t)[0]] and len(exact) == 5
    # each bounce gives (1 + e) times its speed; steps of 1 ms
    for k in range(1, len(t)):
        inside = (exact[:, 0] > t[k - 1]) & (exact[:, 0] < t[k])
        assert_allclose(impulse[k, 2], (1 + e) * exact[inside, 1].sum(), rtol=5e-3, atol=1e-12)
    w, x, y, z = data.base_quaternion.values[-1]
    up = np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])  # in the body's axes
    assert_allclose(impulse[:, 2].sum(), up @ data.base_twist.values[-1, :3] + G * t_end, rtol=1e-9)
    assert_allclose(impulse[:, 0].sum(), -2 / 7, rtol=1e-4)  # friction makes it roll
    assert_allclose(data.contact_force_mean.values[1:, 0], impulse[1:] / np.diff(t)[:, None], rtol=1e-12)
    assert not data.contact_force.values.any()  # no sample falls in the step of an impact

    # contacts only dissipate: as given by the sum of the interval's powers, up to the corrections of a step
    energy = (data.energy_kinetic + data.energy_potential).values
    power = data.power_external.values
    assert power.max() <= 1e-9 * np.abs(power).max()
    assert_allclose((power[1:] * np.diff(t)).sum(), energy[-1] - energy[0], rtol=0.06)


def test_the_power_of_an_impact_is_that_of_the_mean_velocity():
    """A sample at the end of an impact step: the mean of the velocities before and after, times the impulse, over the step."""
    height, e, dt = 0.5, 0.8, 1e-3
    run = un.run(*ball(height, e), t_end=0.4, dt=dt, save_every=1)
    data, speed = run.data, np.sqrt(2 * G * height)
    k = int(np.argmax(data.contact_impacts.values[:, 0]))
    assert data.contact_impacts.values[:, 0].sum() == 1 and data.time.values[k] == pytest.approx(speed / G, abs=2 * dt)
    assert_allclose(data.power_external.values[k] * dt, -(1 - e**2) * speed**2 / 2, rtol=3e-2)
    assert_allclose(data.contact_force.values[k, 0, 2] * dt, (1 + e) * speed, rtol=1e-2)


# Doubtful runs


class Lazy(un.contact.AcceleratedProx):
    """A solver that reports a residual of a thousandth of the impulses."""

    def solve(self, problem, guess, memory):
        return super().solve(problem, guess, memory)._replace(residual=1e-3 * problem.closed.max())


def test_a_run_with_unsolved_contacts_is_doubtful():
    system, start = ball(height=0.0)
    run = un.run(system, start, t_end=0.01, dt=1e-3, integrator=Moreau(Lazy()))
    assert run.status == run.data.attrs["status"] == "doubtful" and not run.ok
    assert "10 of 10 steps" in run.message and run.data.sizes["time"] == 11


@pytest.mark.parametrize(
    "missed, worst, status",
    [
        (9, 1e-3, "ok"),  # as in the gallery, in 60000 steps
        (0.9 * MISSED * 60_000, 1e-3, "ok"),
        (1.1 * MISSED * 60_000, 1e-3, "doubtful"),
        (60_000, 1e-9, "ok"),  # with a tolerance tighter than the default
        (1, 0.9 * COARSE, "ok"),
        (1, 1.1 * COARSE, "doubtful"),
    ],
)
def test_how_much_may_be_missed(missed, worst, status):
    report = jax.tree.map(
        lambda x: np.asarray(x)[None], un.integrators.Report.make(unsolved=int(missed), residual=worst)
    )
    samples = Sample(**dict.fromkeys(Sample._fields, np.zeros(1)))
    found = conclude(Verdict("ok", "60000 steps done."), ball()[0], Moreau(), samples, Records({}, report), 60_000)
    assert found.status == status and f"in {int(missed)} of 60000 steps" in found.message


# Falls, and initial states that cannot be computed


def test_a_disc_that_falls_over_is_said_to():
    """At rest and leaning, it rotates about the tangent at its lowest point: its fall time is an elliptic integral."""
    r, lean = 0.3, 0.4
    b = un.Builder("disc")
    b.base("disc", role="free", mass=2.0, inertia=(2 * r * r / 4, 2 * r * r / 2, 2 * r * r / 4))
    b.add(un.rows.RollingDisc("rim", "disc", r))
    system = b.build()
    start = system.state(
        base_position=(0, 0, r * np.cos(lean)), base_quaternion=(np.cos(lean / 2), np.sin(lean / 2), 0, 0)
    )
    run = un.run(system, start, t_end=2.0, dt=1e-3, save_every=5)

    def slowness(angle):
        return 1 / np.sqrt(8 * G / (5 * r) * (np.cos(lean) - np.cos(angle)))

    flat = quad(slowness, lean, np.pi / 2, points=[lean], limit=200)[0]
    assert run.status == "failed" and "'rim' has fallen over" in run.message and "driven" not in run.message
    assert_allclose(run.data.time.values[-1], flat, atol=0.02)  # the last part is missing: it lies flat at the end


def test_facts_do_not_need_a_run():
    """Where nothing can be computed, only the facts are reported."""

    def build(p):
        b = un.Builder("nothing")
        b.base("ground")
        b.body("rod", "ground", un.Revolute((0, 1, 0)), mass=p["mass"], com=(0, 0, -0.5), inertia=(0.0, 0.0, 0.0))
        return Setup(b.build(), b.build().state(position=[1.0]), 0.1, 0.01)

    light = Scenario(
        "nothing",
        "",
        "",
        (Parameter("mass", 1.0, "kg", "mass"),),
        build,
        metrics=lambda setup, data: {"late": data.time.values[100]},
        facts=lambda setup: {"mass": setup.parameters["mass"]},
    )
    found = run_scenario(light, {"mass": 1e-320})
    assert found.run.status == "failed" and found.metrics == {"mass": 1e-320}
    assert found.run.data.sizes["time"] == 0
    assert "of 'rod' is" in found.run.message and "at the start, t = 0 s" in found.run.message


def test_numbers_that_overflow_are_refused():
    with pytest.raises(un.UndulaError, match=r"'double-pendulum' cannot be built with length = 1e\+200"):
        gallery.load("double-pendulum").setup(length=1e200)
