"""satellite with control moment gyroscopes: its momentum, and the torque h x gimbal rate."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import undula as un
from undula import gallery
from undula.gallery import measures
from undula.numerics.programs import quickly_compiled


@pytest.fixture(scope="module")
def gyros():
    return gallery.load("satellite").setup(actuators="gyros")


def pyramid(p, t):
    """Gimbal axes, momenta of the wheels' spins, and gimbal rates and accelerations, by hand."""
    b, A, w = p["skew"], np.array(p["gimbal_angle"]), p["gimbal_rate"]
    angle, rate, gain = A / 2 * (1 - np.cos(w * t)), A / 2 * w * np.sin(w * t), A / 2 * w**2 * np.cos(w * t)
    around = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    g = np.sin(b) * around + np.cos(b) * np.array([0, 0, 1])
    s = np.cross([0, 0, 1], around)
    turned = np.stack([Rotation.from_rotvec(a * x).apply(y) for a, x, y in zip(angle, g, s)])
    return g, p["gyro_inertia"] * p["gyro_rate"] * turned, rate, gain


@quickly_compiled
def held(system, t):
    """The wrench that holds the satellite still while its gimbals move."""
    state, known = un.kinematics.driven_motion(system, system.state(), t)
    return un.inverse_dynamics(system, state, un.Acceleration(jnp.zeros(6), known.v)).base


def test_the_torque_is_momentum_times_gimbal_rate(gyros):
    p = gyros.parameters
    for t in (0.0, 0.7, 2.0):
        g, h, rate, gain = pyramid(p, t)
        own = p["gyro_inertia"] / 2 * gain[:, None] * g  # the gimbals' own acceleration
        exact = (rate[:, None] * np.cross(g, h) + own).sum(0)
        assert_allclose(held(gyros.system, t), [0, 0, 0, *exact], atol=1e-12)


def test_momentum_is_conserved_and_gives_the_attitude(gyros):
    """R' = R Omega^ with the locked inertia times Omega = minus the momentum of wheels and gimbals, by scipy."""
    p = gyros.parameters
    run = un.run(gyros.system, measures.at_rest(gyros.system), t_end=2 * np.pi, dt=0.01)
    assert run.ok, run.message
    assert measures.angular_momentum(run.data, "base").max() < 1e-10
    disc = p["gyro_inertia"] * np.diag([1.0, 0.5, 0.5])

    def locked(t):
        """Inertia of the body and of its discs, which turn with the gimbals."""
        out = np.diag(p["body_inertia"])
        for now, sign in ((t, 1), (0.0, -1)):
            g, h, *_ = pyramid(p, now)
            s = h / np.linalg.norm(h, axis=1)[:, None]
            frames = np.stack([s, np.cross(g, s), g], axis=2)
            out = out + sign * (frames @ disc @ frames.transpose(0, 2, 1)).sum(0)
        return out

    def rates(t, q):
        g, h, rate, _ = pyramid(p, t)
        H = (h + p["gyro_inertia"] / 2 * rate[:, None] * g).sum(0)
        w = -np.linalg.solve(locked(t), H)
        return spin(q, w)

    exact = solve_ivp(rates, (0, 2 * np.pi), [1.0, 0, 0, 0], method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    found = Rotation.from_quat(run.data.base_quaternion.values[-1], scalar_first=True)
    assert (found.inv() * Rotation.from_quat(exact, scalar_first=True)).magnitude() < 1e-7
    assert found.magnitude() > 0.5


def spin(q, w):
    """Rate of a quaternion (w, x, y, z) that turns at the body angular velocity w."""
    return 0.5 * np.array([-q[1:] @ w, *(q[0] * w + np.cross(q[1:], w))])


def test_refusals():
    with pytest.raises(un.UndulaError, match="is not allowed with gyro_inertia = 50"):
        gallery.load("satellite").setup(actuators="gyros", gyro_inertia=50.0)


@pytest.mark.parametrize("given", [{"actuators": "gyros", "rotor_angle": (1.0, 2.0, 3.0)}, {"gyro_rate": 3.0}])
def test_parameters_of_the_other_actuators(given):
    with pytest.raises(un.UndulaError, match=r"is not allowed with actuators = .*, which does not use it"):
        gallery.load("satellite").setup(**given)
