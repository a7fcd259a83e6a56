"""Runs assess their accuracy: energy that appears or disappears is reported; steps are halved where allowed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.scenario.scenario import run_scenario


def oscillator(damping=0.0, **more):
    """1 kg on 100 N/m: 10 rad/s."""
    b = un.Builder("oscillator", gravity=(0, 0, 0))
    b.base("ground")
    b.body("mass", "ground", un.Prismatic((1, 0, 0), stiffness=100.0, damping=damping, **more), mass=1.0)
    return b.build()


@pytest.mark.parametrize(
    "dt, status, words",
    [
        (0.01, "ok", "100 steps of 0.01 s done."),
        (0.2, "doubtful", "J disappeared by t = "),  # stable, but a step of 2 rad damps
        (0.28, "doubtful", "J disappeared by t = "),
    ],
)
def test_energy_that_a_method_takes(dt, status, words):
    system = oscillator()
    run = un.run(system, system.state([1.0]), t_end=100 * dt, dt=dt)
    assert run.status == status and words in run.message


def test_energy_that_appears():
    system = oscillator()
    run = un.run(system, system.state([1.0]), t_end=1.0, dt=0.05, integrator=un.integrators.SemiImplicitEuler())
    # the energy of this method oscillates by half a step: 25 % of it here
    assert (
        run.status == "doubtful" and "J appeared from nowhere by t = " in run.message and "a smaller dt" in run.message
    )
    fine = un.run(system, system.state([1.0]), t_end=1.0, dt=0.002, integrator=un.integrators.SemiImplicitEuler())
    assert fine.ok


@pytest.mark.long
def test_work_is_not_an_error():
    """Dampers, efforts, driven motions, moving supports and imposed points do work, none of which counts as an error."""
    damped = oscillator(damping=3.0)
    assert un.run(damped, damped.state([1.0]), t_end=2.0, dt=0.01).ok
    forced = oscillator(effort=un.laws.Sinusoid(50.0, 9.0))
    driven = oscillator(motion=un.laws.Sinusoid(0.5, 20.0))
    for system in (forced, driven):
        for method in (
            un.integrators.RungeKutta4(),
            un.integrators.ImplicitMidpoint(),
            un.integrators.GeneralisedAlpha(),
        ):
            run = un.run(system, t_end=2.0, dt=0.005, integrator=method)
            assert run.ok, run.message
    b = un.Builder("shaken")
    b.base("table", role="driven", group="R", motion=un.laws.Sinusoid([0.1], [15.0]))
    b.body("arm", "table", un.Revolute((0, 1, 0)), mass=1.0, com=(0, 0, -0.5), inertia=0.1)
    assert un.run(b.build(), t_end=2.0, dt=0.002).ok
    b = un.Builder("led")
    b.base("ball", role="free", mass=1.0, inertia=0.1)
    b.add(un.rows.PrescribedPoint("hand", "ball", un.laws.Sinusoid([0.3, 0.2, 0.1], 7.0), (0.1, 0, 0)))
    assert un.run(b.build(), t_end=2.0, dt=0.002).ok


def test_a_step_that_is_not_given_is_halved_until_the_balance_is_right():
    """The tip of a stiff rod, pulled hard and released: steps of 0.01 s would gain seventy times its initial energy."""
    with pytest.warns(un.UndulaWarning, match="the estimated error"):  # of places, when the energy is right
        done = run_scenario(gallery.load("cantilever-stiff"), {"force": 10.0}, t_end=0.3)
    data = done.run.data
    assert (
        done.run.ok
        and done.run.dt < 0.01
        and "dt = 0.005 s was" in done.run.message
        and "because the estimated error was" in done.run.message
    )
    energy = (data.energy_kinetic + data.energy_potential).values
    assert np.ptp(energy) < 0.05 * data.energy_kinetic.values.max()
    coarse = run_scenario(gallery.load("cantilever-stiff"), {"force": 10.0}, t_end=0.3, dt=0.01)
    assert coarse.run.status in ("doubtful", "failed") and "J appeared from nowhere" in coarse.run.message
    assert_allclose(coarse.run.dt, 0.01)


def test_samples_begin_anew():
    """Samples passed on during a run belong to the final attempt."""
    counts = []
    setup = gallery.load("cantilever-stiff").setup(force=10.0)
    more = dict(on_samples=lambda n, since: counts.append(n), refine=True)
    with pytest.warns(un.UndulaWarning, match="the estimated error"):
        run = un.run(setup.system, setup.state(setup.system), t_end=0.3, dt=0.01, **more)
    assert "because the energy balance was off" in run.message
    assert run.ok and min(np.diff(counts)) <= 0 and counts[-1] == run.data.sizes["time"]
