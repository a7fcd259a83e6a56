"""segway: the two-wheeled inverted pendulum against the textbook's model of three velocities, written with numpy.

Velocities (v, pitch', yaw'), of the axle, the body and the heading; equations of Hamel for a vehicle in the plane with the
centre of mass at l sin(pitch) in front of the axle. J, Jd: moments of a wheel about its axle and its diameter.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.linalg import solve_continuous_are

import undula as un
from undula import gallery
from undula.gallery.catalogue import description

KEPT = ("base.x", "base.ry", "base.rz")


@pytest.fixture(scope="module")
def segway():
    return gallery.load("segway").setup()


class Textbook:
    def __init__(self, p):
        self.m, self.l, self.g, self.R, self.d = (
            p[k] for k in ("body_mass", "com_height", "gravity", "radius", "track")
        )
        self.I, self.mw = np.array(p["body_inertia"]), p["wheel_mass"]
        self.J = self.mw * self.R**2 / 2
        self.Jd = self.mw * (3 * self.R**2 + (0.25 * self.R) ** 2) / 12

    def accelerations(self, pitch, v, pitching, yawing, left, right):
        m, l, (Ix, Iy, Iz), R = self.m, self.l, self.I, self.R
        s, c = np.sin(pitch), np.cos(pitch)
        M = np.array([[m + 2 * self.mw + 2 * self.J / R**2, m * l * c], [m * l * c, Iy + m * l**2]])
        more = Ix - Iz + m * l**2
        f = [
            (left + right) / R + m * l * s * (pitching**2 + yawing**2),
            -(left + right) + m * self.g * l * s + more * s * c * yawing**2,
        ]
        turned = Ix * s**2 + Iz * c**2 + m * l**2 * s**2
        turned += 2 * self.Jd + 2 * (self.mw + self.J / R**2) * (self.d / 2) ** 2
        yaw = self.d / (2 * R) * (right - left) - 2 * more * s * c * pitching * yawing - m * l * s * v * yawing
        return *np.linalg.solve(M, f), yaw / turned

    def torques(self, gain, turn_gain, lag, pitch, speed, pitching, off, turning):
        both = -np.dot(gain, [lag, pitch, speed, pitching])
        apart = -np.dot(turn_gain, [off, turning])
        return (both - apart) / 2, (both + apart) / 2

    def matrices(self):
        """A and B over (x, pitch, yaw, and their rates) at rest, for the sum and the difference of the torques."""
        m, l, R = self.m, self.l, self.R
        M = np.array([[m + 2 * self.mw + 2 * self.J / R**2, m * l], [m * l, self.I[1] + m * l**2]])
        turned = self.I[2] + 2 * self.Jd + 2 * (self.mw + self.J / R**2) * (self.d / 2) ** 2
        A, B = np.zeros((6, 6)), np.zeros((6, 2))
        A[:3, 3:] = np.eye(3)
        A[3:5, 1] = np.linalg.solve(M, [0, m * self.g * l])
        B[3:5, 0] = np.linalg.solve(M, [1 / R, -1])
        B[5, 1] = self.d / (2 * R * turned)
        return A, B


def feedback(p):
    """K in (sum, difference) = -K (x, pitch, yaw, and their rates)."""
    K = np.zeros((2, 6))
    K[0, [0, 1, 3, 4]], K[1, [2, 5]] = p["gain"], p["turn_gain"]
    return K


def test_closed_loop_eigenvalues(segway):
    p, system = segway.parameters, segway.system.replace_element("balance", target=(0.0, 0.0))
    A, B = Textbook(p).matrices()
    found = un.linearise(system, system.state(), keep=KEPT)
    assert_allclose(found.matrix, A - B @ feedback(p), atol=1e-8)
    assert_allclose(
        np.sort_complex(found.eigenvalues), np.sort_complex(np.linalg.eigvals(A - B @ feedback(p))), atol=1e-8
    )
    assert found.eigenvalues.real.max() < -1
    assert str(un.classify(segway.system, segway.state)) == description("segway")["class"]


def test_gains_are_those_of_a_regulator(segway):
    """The defaults are the linear-quadratic regulator of the library's own linearisation, rounded to a decimal."""
    p, system = segway.parameters, segway.system.replace_element("balance", target=(0.0, 0.0))

    def matrix(K):
        gains = dict(gain=K[0, [0, 1, 3, 4]], turn_gain=K[1, [2, 5]])
        return un.linearise(system.replace_element("balance", **gains), system.state(), keep=KEPT).matrix

    A, unit = matrix(np.zeros((2, 6))), np.zeros((2, 6))
    unit[0, 0] = unit[1, 2] = 1.0  # torques of unit deviations: A - B K shows the columns of B
    closed = A - matrix(unit)
    for which, column, Q, r in (([0, 1, 3, 4], 0, (10, 10, 5, 1), 0.02), ([2, 5], 2, (10, 1), 0.05)):
        a, b = A[np.ix_(which, which)], closed[which, column][:, None]
        K = b.T @ solve_continuous_are(a, b, np.diag(Q).astype(float), np.array([[r]])) / r
        assert_allclose(K[0], feedback(p)[column // 2, which], atol=0.06)


def quintic(t, t0, t1):
    s = np.clip((t - t0) / (t1 - t0), 0, 1)
    inside = (t0 < t) & (t < t1)
    return 10 * s**3 - 15 * s**4 + 6 * s**5, inside * 30 * s**2 * (1 - s) ** 2 / (t1 - t0)


def test_the_run_against_solve_ivp(segway):
    """The first turn and a part of the drive, from a leaning start: pitch, heading, path and torques."""
    p, book, end = segway.parameters, Textbook(segway.parameters), 5.0
    target = np.array(p["target"])
    bearing, go = np.arctan2(target[1], target[0]), 1.0 + p["turn_time"]

    def torques(t, y):
        x, z, yaw, pitch, v, pitching, yawing = y
        turn, turning = bearing * np.array(quintic(t, 1.0, go))
        share, pace = quintic(t, go, go + p["drive_time"])
        ahead = np.array([np.cos(yaw), np.sin(yaw)])
        errors = ahead @ ([x, z] - share * target), pitch, v - pace * ahead @ target, pitching
        return book.torques(p["gain"], p["turn_gain"], *errors, yaw - turn, yawing - turning)

    def rates(t, y):
        _, _, yaw, pitch, v, pitching, yawing = y
        more = book.accelerations(pitch, v, pitching, yawing, *torques(t, y))
        return [v * np.cos(yaw), v * np.sin(yaw), yawing, pitching, *more]

    run = un.run(segway.system, segway.state, t_end=end, dt=segway.dt)
    assert run.ok, run.message
    t = run.data.time.values
    start = [0, 0, 0, p["lean"], 0, 0, 0]
    exact = solve_ivp(rates, (0, end), start, method="DOP853", rtol=1e-10, atol=1e-11, t_eval=t).y
    assert_allclose(run.data.base_position.values[:, :2], exact[:2].T, atol=1e-6)
    assert_allclose(run.data.balance_heading.values[:, 0], exact[2], atol=1e-6)
    assert_allclose(run.data.balance_pitch.values[:, 0], exact[3], atol=1e-6)
    assert_allclose(run.data.effort.values, [torques(s, y) for s, y in zip(t, exact.T)], atol=1e-4)
    assert np.abs(exact[2]).max() > 0.5 and np.abs(exact[6] * exact[4]).max() > 0.01
