"""Integrators: orders, invariants and exact solutions; runs: samples, failures, refusals."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipj, ellipk

import undula as un

simulate = eqx.filter_jit(un.simulate)
INERTIA = (0.01, 0.02, 0.025)


def jelly() -> un.System:
    """A free body with a sprung ball joint and a sliding mass: every kind of increment at once."""
    b = un.Builder("jelly", gravity=(0.3, -0.2, -1.0))
    b.base("trunk", role="free", mass=1.0, com=(0.1, 0.0, 0.05), inertia=(0.2, 0.3, 0.35))
    b.body("arm", "trunk", un.Spherical(stiffness=(1.0, 2.0, 3.0), damping=0.1), 0.5, (0, 0, 0.4), 0.05, (0.2, 0, 0))
    b.body("mass", "arm", un.Prismatic((0, 0, 1), stiffness=5.0), 0.3, (0, 0, 0), 0.01, (0, 0, 0.5))
    return b.build()


def start(system):
    return system.state(
        position=[0.4, -0.3, 0.5, 0.1], velocity=[1.0, 0.5, -0.7, 0.3], base_twist=[0.2, -0.1, 0.3, 0.7, 0.9, -0.5]
    )


def distance(a, b):
    q = np.asarray(a.base.quaternion[-1])
    other = np.asarray(b.base.quaternion[-1])
    parts = [a.base.position[-1] - b.base.position[-1], a.v[-1] - b.v[-1], a.base_twist[-1] - b.base_twist[-1]]
    return max(min(np.abs(q - other).max(), np.abs(q + other).max()), *(np.abs(p).max() for p in parts))


@pytest.mark.parametrize(
    "method, order", [(un.integrators.RungeKutta4(), 4), (un.integrators.SemiImplicitEuler(), 1)], ids=["rk4", "euler"]
)
def test_order_of_convergence(method, order):
    system = jelly()
    reference = simulate(system, start(system), 1 / 1600, 1600)
    errors = [distance(simulate(system, start(system), 1 / n, n, integrator=method), reference) for n in (50, 100)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5)
    assert method.order == order


def free_body():
    b = un.Builder("top", gravity=(0, 0, 0))
    b.base("body", role="free", mass=1.0, inertia=INERTIA)
    return b.build()


def test_asymmetric_top_against_elliptic_functions():
    A, B, C = INERTIA
    system = free_body()
    w = np.array([0.0, 5.0, 1.0])  # w1 = 0 at t = 0, rotating about the middle axis with a component about the largest
    # Landau and Lifshitz, Mechanics, section 37, for M^2 > 2 E B
    E2, M2 = (np.array(INERTIA) * w**2).sum(), ((np.array(INERTIA) * w) ** 2).sum()
    assert M2 < E2 * B * 10
    states = simulate(system, system.state(base_twist=np.concatenate([np.zeros(3), w])), 1e-3, 2000)
    t = 1e-3 * np.arange(2001)
    if M2 > E2 * B:
        rate = np.sqrt((C - B) * (M2 - E2 * A) / (A * B * C))
        k2 = (B - A) * (E2 * C - M2) / ((C - B) * (M2 - E2 * A))
        amplitude = np.sqrt(
            [(E2 * C - M2) / (A * (C - A)), (E2 * C - M2) / (B * (C - B)), (M2 - E2 * A) / (C * (C - A))]
        )
        shapes = lambda sn, cn, dn: (cn, sn, dn)  # noqa: E731
    else:
        rate = np.sqrt((B - A) * (E2 * C - M2) / (A * B * C))
        k2 = (C - B) * (M2 - E2 * A) / ((B - A) * (E2 * C - M2))
        amplitude = np.sqrt(
            [(E2 * C - M2) / (A * (C - A)), (M2 - E2 * A) / (B * (B - A)), (M2 - E2 * A) / (C * (C - A))]
        )
        shapes = lambda sn, cn, dn: (dn, sn, cn)  # noqa: E731
    # the middle rate is largest where the first or the third is zero: a quarter period shift at t = 0
    sn, cn, dn, _ = ellipj(rate * t + ellipk(k2), k2)
    exact = np.abs(amplitude[:, None] * np.array(shapes(sn, cn, dn)))
    # with w1 = 0 at the start, |w1| follows |cn| and |w2| follows |sn|
    if np.abs(exact[0, 0]) < 1e-9:
        np.testing.assert_allclose(np.abs(states.base_twist[:, 3:].T), exact, atol=1e-8)
    else:
        pytest.fail(f"the closed form does not start where the run does: {exact[:, 0]}")


def test_spatial_momentum_and_energy_of_the_top():
    system = free_body()
    states = simulate(system, system.state(base_twist=[0.1, 0.2, 0.3, 0.01, 5.0, 0.01]), 1e-3, 5000)
    momenta = jax.vmap(lambda s: un.momentum(system, s, "world"))(states)
    energy = jax.vmap(lambda s: un.kinetic_energy(system, s))(states)
    np.testing.assert_allclose(momenta, np.broadcast_to(momenta[0], momenta.shape), atol=1e-9)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-10)


def pendulum(damping=0.0, **options):
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0), damping=damping, **options), 1.0, (0, 0, -0.5), (0.1, 0.1, 0.01))
    return b.build()


def test_pendulum_period_and_energy():
    system, angle = pendulum(), 2.0
    rate = np.sqrt(9.81 * 0.5 / (0.1 + 0.25))
    period = 4 * ellipk(np.sin(angle / 2) ** 2) / rate
    states = simulate(system, system.state(position=[angle]), period / 4000, 4000)
    assert states.q[-1, 0] == pytest.approx(angle, abs=1e-8)
    energy = jax.vmap(lambda s: un.kinetic_energy(system, s) + un.potential_energy(system, s))(states)
    assert np.ptp(energy) < 1e-9


@pytest.mark.long
def test_membership_of_the_group_after_many_steps():
    system = jelly()
    run = un.run(system, start(system), t_end=20.0, dt=1e-3, save_every=5_000)
    assert run.ok and run.steps == 20_000
    for name in ("base_quaternion", "body_quaternion"):
        np.testing.assert_allclose(np.linalg.norm(run.data[name].values, axis=-1), 1.0, atol=1e-14)


@pytest.mark.long
def test_run_gives_the_states_of_simulate_and_keeps_the_last_instant():
    system = jelly()
    run = un.run(system, start(system), t_end=0.5, dt=0.01, save_every=7)
    np.testing.assert_allclose(run.data.time, [0, 0.07, 0.14, 0.21, 0.28, 0.35, 0.42, 0.49, 0.5], atol=1e-12)
    states = simulate(system, start(system), 0.01, 50)
    picked = [0, 7, 14, 21, 28, 35, 42, 49, 50]
    np.testing.assert_allclose(run.data.base_position, states.base.position[np.array(picked)], atol=1e-13)
    np.testing.assert_allclose(run.data.velocity, states.v[np.array(picked)], atol=1e-13)


def test_any_run_says_its_class_and_parameters():
    system = free_body()
    said = un.run(system, t_end=0.01, dt=0.01).data.attrs
    assert said["class"] == "unconstrained, base free in SE3, no shape: rigid-body dynamics"
    assert json.loads(said["parameters"]) == {}


def test_energy_balance_of_a_run():
    system = jelly()
    run = un.run(system, start(system), t_end=1.0, dt=1e-3, save_every=1)
    d = run.data
    energy = (d.energy_kinetic + d.energy_potential).values
    power = (d.power_actuators + d.power_external).values
    # fourth-order difference of the energy against the powers
    rate = (energy[:-4] - 8 * energy[1:-3] + 8 * energy[3:-1] - energy[4:]) / 12e-3
    np.testing.assert_allclose(rate, power[2:-2], atol=1e-8)


def test_failure_is_reported_with_its_time_and_keeps_the_samples():
    b = un.Builder("spring")
    b.base("ground")
    b.body("mass", "ground", un.Prismatic((1, 0, 0), stiffness=1e6), 1.0)
    run = un.run(b.build(), b.build().state(position=[0.1]), t_end=10.0, dt=0.1, save_every=1)
    assert run.status == "failed" and "t = " in run.message and "dt" in run.message
    assert 1 <= run.data.sizes["time"] < 101
    assert np.isfinite(run.data.position).all()


def test_a_law_that_is_not_a_number_fails_at_its_time():
    law = un.laws.Function(lambda t: jnp.where(t > 0.505, jnp.nan, t))
    run = un.run(pendulum(motion=law), t_end=1.0, dt=0.01, save_every=1)
    assert run.status == "failed"
    assert run.data.time.values[-1] == pytest.approx(0.5)


def test_leaving_the_limits_gives_one_warning():
    system = pendulum(limits=(-1.0, 1.0))
    with pytest.warns(un.UndulaWarning, match=r"limits: arm \(from t = 0 s, by up to") as seen:
        un.run(system, system.state(position=[1.5]), t_end=0.1, dt=0.01)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(dt=0.0), "dt = 0 s"),
        (dict(dt=-1.0), "dt = -1 s"),
        (dict(dt=float("nan")), "dt = nan"),
        (dict(t_end=0.0), "t_end = 0 s"),
        (dict(t_end=float("inf")), "t_end = inf"),
        (dict(t_end=0.1, dt=0.2), r"dt = 0\.2 s .* t_end = 0\.1"),
        (dict(t_end=1.0, dt=1e-12), "steps"),
        (dict(save_every=0), "save_every = 0"),
    ],
)
def test_bad_times_are_refused(options, words):
    with pytest.raises(un.UndulaError, match=words):
        un.run(pendulum(), **(dict(t_end=1.0, dt=0.01) | options))


def test_bad_states_are_refused():
    system = pendulum()
    with pytest.raises(un.UndulaError, match=r"velocity .* not finite"):
        un.run(system, system.state(velocity=[np.nan]))
    with pytest.raises(un.UndulaError, match="fixed base cannot move"):
        un.run(system, system.state(base_twist=[1.0, 0, 0, 0, 0, 0]))
    b = un.Builder("disc")
    b.base("disc", role="free", group="SE2", mass=1.0, inertia=1.0)
    with pytest.raises(un.UndulaError, match="group SE2"):
        un.run(b.build(), b.build().state(base_twist=[0, 0, 1.0, 0, 0, 0]))
