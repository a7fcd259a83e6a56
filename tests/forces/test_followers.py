"""Followers at sites: the formula of document 002, (3.65) and (3.66), evaluated by numpy along a run."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

import undula as un

GAIN, INTEGRAL = np.array([20.0, 21.0, 22.0, 0.5, 0.6, 0.7]), np.array([2.5, 2.0, 1.5, 0.4, 0.5, 0.6])


def place(t):
    """Position and rotation vector of the motion to follow: it climbs, drifts and turns about a fixed axis."""
    turn = 0.8 * jnp.sin(1.3 * t)
    return jnp.stack([0.3 * t, 0.2 * jnp.sin(t), 1 - jnp.cos(2 * t), 0.6 * turn, 0 * t, 0.8 * turn])


def place_rates(t):
    turn = 0.8 * 1.3 * np.cos(1.3 * t)
    return np.stack([0.3 + 0 * t, 0.2 * np.cos(t), 2 * np.sin(2 * t), 0.6 * turn, 0 * t, 0.8 * turn], -1)


@pytest.fixture(scope="module")
def run():
    b = un.Builder("drone", gravity=(0, 0, -1.0))
    b.base("drone", role="free", mass=1.5, com=(0.02, 0.01, 0), inertia=(0.05, 0.06, 0.08))
    site = un.site("drone", (0.1, 0, 0.2))
    b.add(un.forces.TwistFollower(site, un.laws.Function(place, (6,)), GAIN, INTEGRAL, name="control"))
    b.add(un.Sensor("eye", site))
    system = b.build()
    found = un.run(system, system.state(base_twist=[0.1, 0, 0, 0, 0.2, 0.3]), t_end=3.0, dt=0.002, save_every=1)
    assert found.ok, found.message
    return found.data


def test_the_formula_along_a_run(run):
    """F = kP e + kI ∫ e dt, e = Ad(g⁻¹ g_d) η_d - η, with 4x4 and 6x6 matrices; the integral by a spline of e."""
    t = run.time.values
    error = []
    p, q = run.sensor_position.values[:, 0], run.sensor_quaternion.values[:, 0]
    for k, at in enumerate(t):
        g, wanted = np.eye(4), np.eye(4)
        g[:3, :3], g[:3, 3] = Rotation.from_quat(q[k], scalar_first=True).as_matrix(), p[k]
        x, dx = np.array(place(at)), place_rates(at)
        wanted[:3, :3], wanted[:3, 3] = Rotation.from_rotvec(x[3:]).as_matrix(), x[:3]
        # the axis is fixed, so that the angular velocity is the rate of the rotation vector
        twist = np.concatenate([wanted[:3, :3].T @ dx[:3], dx[3:]])
        h = np.linalg.inv(g) @ wanted
        R, (a, b, c) = h[:3, :3], h[:3, 3]
        Ad = np.block([[R, np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]]) @ R], [np.zeros((3, 3)), R]])
        error.append(Ad @ twist - run.sensor_twist.values[k, 0])
    error = np.array(error)
    assert_allclose(run.twist_follower_error.values[:, 0], error, atol=1e-12)
    integral = CubicSpline(t, error).antiderivative()(t)
    assert_allclose(run.twist_follower_state.values[:, 0], integral, atol=3e-8)
    assert_allclose(run.twist_follower_wrench.values[:, 0], GAIN * error + INTEGRAL * integral, atol=1e-7)
    assert np.abs(error[:, :3]).max() > 0.3


def test_refusals():
    with pytest.raises(un.ModelError, match="motion of the twist follower on the body 'a' has the shape \\(\\)"):
        un.forces.TwistFollower("a", un.laws.Constant(1.0), np.ones(6), np.ones(6))
