"""Contact in the gallery: closed forms, published limit cycles, and the same machines written down a second time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from undula import gallery
from undula.gallery.scenario import run_scenario

G = 9.81


def entry(name, dt=None, save_every=None, **given):
    """The metrics and the samples of a run that must succeed."""
    done = run_scenario(gallery.load(name), given, dt=dt, save_every=save_every)
    assert done.run.ok, done.run.message
    return done.metrics, done.run.data


class TestRollingBall:
    """Constant accelerations: slip ends, 5/7 of the momentum about the ground is left as speed, rolling friction takes it."""

    def test_thrown(self):
        found, data = entry("rolling-ball")
        v, mu, roll = 2.0, 0.2, 0.05
        t = v / (G * (3.5 * mu - 2.5 * roll))  # rolling friction hinders the spin, too
        speed, slowing = v - mu * G * t, 5 / 7 * roll * G
        assert_allclose(found["roll_time"], t, rtol=1e-4)
        assert_allclose(found["roll_speed"], speed, rtol=1e-4)
        assert_allclose(found["stop_time"], t + speed / slowing, rtol=1e-4)
        # a sum of steps: half a step of the speeds at the start and where it begins to roll
        assert_allclose(found["stop_distance"], (v + speed) / 2 * t + speed**2 / (2 * slowing), atol=1e-3)
        assert np.abs(data.base_twist.values[-1]).max() < 1e-12

    @pytest.mark.parametrize("spin", [-60.0, -120.0, 80.0])
    def test_spun(self, spin):
        """Slowed, drawn back, or quickened."""
        found, _ = entry("rolling-ball", spin=spin, mu_roll=0.0)
        v, s = 2.0, 0.05 * spin
        assert_allclose(found["roll_time"], 2 / 7 * abs(v - s) / (0.2 * G), rtol=1e-4)
        assert_allclose(found["final_speed"], (5 * v + 2 * s) / 7, rtol=1e-6)
        assert_allclose(found["roll_speed"], found["final_speed"], rtol=1e-6)
        assert np.isnan(found["stop_time"])


class Toy:
    """The woodpecker toy by hand, with Moreau's rule and one contact after the other; as published, or of exact geometry."""

    mM, JM, mS, JS, c = 3e-4, 5e-9, 4.5e-3, 7e-7, 5.6e-3
    lM, lG, lS, hM, hS, rO, rM, mu = 0.010, 0.015, 0.0201, 0.0058, 0.02, 0.0025, 0.0031, 0.3
    restitution = (0.5, 0.0, 0.0)

    def __init__(self, exact):
        self.exact = exact

    def terms(self, q, u):
        """Mass matrix, forces, gaps of beak, lower and upper edge, and their normal and tangential directions."""
        a, b = q[1:]
        if not self.exact:
            sa, ca, sb, cb = a, 1.0, b, 1.0  # of gaps alone: directions and moments are constant
            va, vb, squares = 0.0, 0.0, 0.0
        else:
            sa, ca, sb, cb = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
            va, vb, squares = sa, sb, 1.0
        across = np.array([0, -self.lM * va, -self.lG * vb])
        up = np.array([1, self.lM * ca, self.lG * cb])
        M = self.mS * (np.outer(across, across) + np.outer(up, up)) + np.diag([self.mM, self.JM, self.JS])
        turn = squares * (self.lM * u[1] ** 2 * np.array([ca, va]) + self.lG * u[2] ** 2 * np.array([cb, vb]))
        spring = self.c * (b - a)
        h = self.mS * (across * turn[0] + up * (turn[1] - G)) + np.array([-self.mM * G, spring, -spring])
        k = self.lG - self.lS
        gaps = [self.lM * ca + k * cb - self.hS * sb, self.rM * ca + self.hM * sa, self.rM * ca - self.hM * sa]
        normal = np.array(
            [
                [0, -self.lM * va, -k * vb - self.hS * cb],
                [0, -self.rM * va + self.hM * ca, 0],
                [0, -self.rM * va - self.hM * ca, 0],
            ]
        )
        along = np.array(
            [
                [1, self.lM * ca, k * cb - self.hS * vb],
                [1, self.rM * ca + self.hM * va, 0],
                [1, self.rM * ca - self.hM * va, 0],
            ]
        )
        return M, h, np.array(gaps) - self.rO, normal, along

    def step(self, q, u, dt):
        """One step; whether the beak hit."""
        q = q + dt / 2 * u
        M, h, gaps, WN, WT = self.terms(q, u)
        inverse = np.linalg.inv(M)
        v, P = u + dt * inverse @ h, np.zeros((3, 2))
        closed = np.flatnonzero(gaps <= 0)
        for _ in range(500 * (len(closed) > 0)):
            before = P.copy()
            for j in closed:
                for k, w in enumerate((WN[j], WT[j])):
                    answer = inverse @ w
                    wanted = -self.restitution[j] * min(w @ u, 0.0) if k == 0 else 0.0
                    new = P[j, k] + (wanted - w @ v) / (w @ answer)
                    new = max(new, 0.0) if k == 0 else np.clip(new, -self.mu * P[j, 0], self.mu * P[j, 0])
                    v, P[j, k] = v + answer * (new - P[j, k]), new
            if np.abs(P - before).max() <= 1e-10 * np.abs(P).max():
                break
        return q + dt / 2 * v, v, P[0, 0] > 0

    def run(self, q, u, dt, steps):
        """Coordinates and velocities at all steps, and the times of the beats."""
        q, u, path, beats = np.array(q, float), np.array(u, float), [], []
        for k in range(steps):
            path.append([*q, *u])
            q, u, hit = self.step(q, u, dt)
            if hit:
                beats.append(k * dt)
        return np.array(path), np.array(beats)


class TestWoodpecker:
    START, RATES = (0, -0.1036, -0.2788), (-0.3411, 0, -7.4583)

    def test_the_published_cycle(self):
        """The model below, linearised, has the limit cycle of Leine, Glocker and van Campen (2001): T = 0.1452 s, -0.53 rad.

        Siconos' reference run of the same model, at dt = 2e-5 s, has fallen 19.50 mm when the start comes back at 0.1461 s.
        """
        path, beats = Toy(exact=False).run(self.START, self.RATES, 1e-4, 2400)
        assert_allclose(np.diff(beats), 0.1452, rtol=1e-2)
        assert_allclose(path[:, 2].min(), -0.53, atol=0.005)
        back = path[1461]
        assert_allclose(back[1:3], self.START[1:], atol=1e-3)
        assert_allclose(back[[3, 5]], self.RATES[::2], rtol=5e-3)
        assert_allclose(back[0], -0.01950, rtol=5e-3)

    def test_the_toy(self):
        """Ours against the same toy, its geometry exact, over two beats; then the cycle, a tenth quicker than linearised."""
        found, data = entry("woodpecker", dt=1e-4, save_every=1, duration=0.3)
        start = data.position.values[0]
        path, beats = Toy(exact=True).run((start[0], start[1], start[1] + start[2]), self.RATES, 1e-4, 3000)
        assert found["beats"] == len(beats) == 2
        ours = data.position.values[:3000]
        assert_allclose(ours[:, 0], path[:, 0], atol=2e-4)  # of 34 mm
        assert_allclose(found["frequency"], 1 / np.diff(beats)[0], rtol=5e-3)
        assert_allclose(found["swing"], path[:, 2].min(), rtol=1e-3)
        jammed = (data.time.values > 0.035) & (data.time.values < 0.055)
        assert np.ptp(data.position.values[jammed, 0]) < 1e-10  # it sticks, it does not creep
