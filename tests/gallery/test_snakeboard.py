"""The snakeboard: reduced dynamics, gaits, torques (document 000, chapters 3 and 4).

Expected values are its closed forms and an independent model of planar mechanisms.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.balance.classes import _rows
from vehicles import COUNT, GAIT, PLANE, locked_inertia, motion, seen, vehicle, wave, yaw


class TestSnakeboard:
    m, l, Ir, Iw = 6.0, 0.2, 0.072, 0.0013  # the gallery's: I_o + I_r + 2 (I_w + m_w l^2) = m l^2

    @pytest.fixture(scope="class")
    @classmethod
    def samples(cls):
        return seen(vehicle("snakeboard", **GAIT), seed=2)

    def laws(self, t):
        p = GAIT
        phi = wave(p["phi_amplitude"], p["phi_rate"], p["phi_phase"], t)
        return *phi, *wave(p["psi_amplitude"], p["psi_rate"], p["psi_phase"], t)

    def reduced(self, s):
        """xi and its rate, from the board's twist (4.12) and its rate."""
        phi, dphi = self.laws(s.t)[:2]
        xi = -s.state.base_twist[:, 0] / (2 * self.l * np.cos(phi) ** 2)
        gain = s.acceleration.base[:, 0]
        return xi, (2 * self.l * np.sin(2 * phi) * dphi * xi - gain) / (2 * self.l * np.cos(phi) ** 2)

    def test_admissible_twists(self, samples):
        s, _, twists = samples
        phi = self.laws(s.t)[0]
        xi, _ = self.reduced(s)
        H = np.stack([-2 * self.l * np.cos(phi) ** 2, 0 * phi, np.sin(2 * phi)], 1)
        assert_allclose(s.state.base_twist[:, PLANE], H * xi[:, None], atol=1e-13)  # (4.12)
        assert_allclose(twists[:, 2:, 1], 0, atol=1e-13)  # neither axle slides sideways

    def test_rows(self):
        """A and H_f (4.10), (4.11); A H = 0; the admissible space in both ways (3.58) (fact 9)."""
        system = vehicle("snakeboard", **GAIT)
        for t in (0.3, 1.1, 4.0):
            phi = self.laws(t)[0]
            A, driven, _ = (np.asarray(x) for x in _rows(system, system.state(), jnp.asarray(t)))
            s, c, l = np.sin(phi), np.cos(phi), self.l
            assert_allclose(A[:, PLANE], [[s, c, l * c], [-s, c, -l * c]], atol=1e-15)
            assert_allclose(A[:, 6:], 0, atol=1e-15)  # B = 0: steering alone does not move the board
            assert_allclose(driven, 0, atol=1e-15)
            H = np.array([-2 * l * c**2, 0, np.sin(2 * phi)])
            assert_allclose(A[:, PLANE] @ H, 0, atol=1e-15)
            # the intersection of the spaces allowed by each axle, transformed to the board by Ad
            spans = []
            for r, x in ((-phi, l), (phi, -l)):
                Ad = np.array(
                    [
                        [np.cos(r), np.sin(r), np.sin(r) * x],
                        [-np.sin(r), np.cos(r), np.cos(r) * x],
                        [0, 0, 1],
                    ]
                )
                Hj = np.array([[1.0, 0], [0, 0], [0, 1]])
                assert_allclose(Hj.T @ Hj, np.eye(2))  # (3.35)
                spans.append(np.linalg.solve(Ad, Hj))
            mixed = scipy.linalg.null_space(np.hstack([spans[0], -spans[1]]))
            common = (spans[0] @ mixed[:2]).ravel()
            assert_allclose(np.cross(common, H), 0, atol=1e-14)

    def test_reduced_inertia(self):
        """(4.15) with the inertia of the axles' masses included; as printed it lacks 8 m_w l^2 sin^2 cos^2."""
        m, l, Ir, Iw, mw = self.m, self.l, self.Ir, self.Iw, 1.0
        phi = self.laws(0.0)[0]
        c, s = np.cos(phi), np.sin(phi)
        H = np.array([-2 * l * c**2, 0, 2 * s * c])
        counted = m * l**2 - Ir - 2 * (Iw + mw * l**2)
        for own, extra in ((counted, 0.0), (m * l**2 - Ir - 2 * Iw, 8 * mw * (l * s * c) ** 2)):
            system = vehicle("snakeboard", **GAIT, inertia_board=own)
            locked = locked_inertia(system, system.state())
            found = H @ np.asarray(locked)[np.ix_(PLANE, PLANE)] @ H
            assert_allclose(found, 4 * m * (l * c) ** 2 + extra, rtol=1e-13)

    def test_accelerations(self, samples):
        s, _, _ = samples
        phi, dphi, _, _, _, ddpsi = self.laws(s.t)
        xi, dxi = self.reduced(s)
        ratio = self.Ir / (self.m * self.l**2)
        assert_allclose(dxi, np.tan(phi) * (-ratio / 2 * ddpsi + dphi * xi), rtol=1e-11, atol=1e-12)  # (4.17)
        s2 = self.l * np.sin(2 * phi)
        forced = np.stack([s2, 0 * phi, -2 * np.sin(phi) ** 2], 1) * (ratio / 2 * ddpsi)[:, None]
        steered = np.stack([s2, 0 * phi, 2 * np.cos(phi) ** 2], 1) * (dphi * xi)[:, None]
        assert_allclose(s.acceleration.base[:, PLANE], forced + steered, rtol=1e-11, atol=1e-12)  # (4.19)

    def test_torques(self, samples):
        s, _, _ = samples
        phi, dphi, ddphi, _, _, ddpsi = self.laws(s.t)
        xi, _ = self.reduced(s)
        Ir, Iw, ml2 = self.Ir, self.Iw, self.m * self.l**2
        tau1 = (Ir - Ir**2 / ml2 * np.sin(phi) ** 2) * ddpsi + 2 * np.cos(phi) ** 2 * Ir * dphi * xi
        common = -Iw * Ir / ml2 * np.sin(phi) ** 2 * ddpsi + 2 * np.cos(phi) ** 2 * Iw * dphi * xi
        expected = np.stack([tau1, common - Iw * ddphi, common + Iw * ddphi], 1)
        assert_allclose(s.efforts, expected, rtol=1e-11, atol=1e-13)  # (4.20)
        assert_allclose(s.efforts[:, 2] - s.efforts[:, 1], 2 * Iw * ddphi, rtol=1e-11, atol=1e-13)

    def test_momentum_form(self, samples):
        """Ostrowski's p' = 2 I_r cos^2 phi' psi' - tan(phi) phi' p, and the rate of xi cos(phi) (fact 17)."""
        s, _, _ = samples
        phi, dphi, _, _, dpsi, ddpsi = self.laws(s.t)
        xi, dxi = self.reduced(s)
        ml2 = self.m * self.l**2
        c2, s2 = np.cos(phi) ** 2, np.sin(2 * phi)
        p = 4 * ml2 * c2 * xi + self.Ir * s2 * dpsi
        dp = 4 * ml2 * (c2 * dxi - s2 * dphi * xi) + self.Ir * (2 * np.cos(2 * phi) * dphi * dpsi + s2 * ddpsi)
        assert_allclose(dp, 2 * self.Ir * c2 * dphi * dpsi - np.tan(phi) * dphi * p, rtol=1e-10, atol=1e-12)
        rate = dxi * np.cos(phi) - xi * np.sin(phi) * dphi
        assert_allclose(rate, -self.Ir / (2 * ml2) * np.sin(phi) * ddpsi, rtol=1e-10, atol=1e-12)

    def moved(self, twist=None, **given):
        system = vehicle("snakeboard", **given)
        return motion(system, system.state(base_twist=twist), 0.01, 60)

    def test_motion_from_rest(self):
        """xi by its quadrature, the path by integrating eta = H_f xi."""
        s = self.moved(**GAIT)
        l, ratio = self.l, self.Ir / (self.m * self.l**2)

        def flow(t, y):  # y = xi cos(phi), heading, x, y
            phi, _, _, _, _, ddpsi = self.laws(t)
            xi = y[0] / np.cos(phi)
            v = -2 * l * np.cos(phi) ** 2 * xi
            return [-ratio / 2 * np.sin(phi) * ddpsi, np.sin(2 * phi) * xi, v * np.cos(y[1]), v * np.sin(y[1])]

        exact = scipy.integrate.solve_ivp(flow, (0, 7.2), [0.0] * 4, t_eval=s.t, rtol=1e-11, atol=1e-13).y
        assert_allclose(s.state.base_twist[0], 0, atol=1e-15)  # psi' is not zero at the start
        assert_allclose(yaw(s.state.base.quaternion), exact[1], atol=1e-9)
        assert_allclose(s.state.base.position[:, :2], exact[2:].T, atol=1e-9)
        assert np.abs(exact[2]).max() > 0.02

    def test_rotor_still(self):
        """psi'' = 0: from rest nothing moves; otherwise xi cos(phi) is constant (fact 18)."""
        still = GAIT | dict(psi_amplitude=0.0)
        s = self.moved(**still)
        assert_allclose(s.state.base.position, 0, atol=1e-15)
        s = self.moved([0.3, 0, 0, 0, 0, 0], **still)
        phi = self.laws(s.t)[0]
        invariant = s.state.base_twist[:, 0] / np.cos(phi)  # proportional to xi cos(phi)
        assert_allclose(invariant, invariant[0], rtol=2e-9)

    def test_straight_and_circle(self):
        straight = self.moved([0.3, 0, 0, 0, 0, 0], **GAIT | dict(phi_amplitude=0.0))
        assert_allclose(straight.state.base_twist, np.tile([0.3, 0, 0, 0, 0, 0], (COUNT, 1)), atol=1e-12)
        phi = 0.4
        steady = dict(phi_amplitude=phi, phi_rate=0.0, phi_phase=np.pi / 2, psi_amplitude=0.0)
        s = self.moved([0.3, 0, 0, 0, 0, 0], **steady)
        radius = self.l / np.tan(phi)
        v, turn = s.state.base_twist[:, 0], s.state.base_twist[:, 5]
        assert_allclose(v / turn, -radius, rtol=1e-12)
        centre = np.array([0, -radius])  # V / Omega < 0: it turns to the right
        assert_allclose(np.linalg.norm(s.state.base.position[:, :2] - centre, axis=1), radius, rtol=1e-9)

    def test_gaits(self):
        """The rotor goes 1, 2 or 3/2 times as fast as the axles; a rate that contradicts the gait is refused."""
        for gait, ratio in (("drive", 1.0), ("rotate", 2.0), ("park", 1.5)):
            system = vehicle("snakeboard", gait=gait, phi_rate=0.8)
            psi, front, rear = np.asarray(un.kinematics.driven_motion(system, system.state(), 0.9)[0].q)
            assert_allclose([psi, front, rear], [0.7 * np.sin(ratio * 0.72), -0.3 * np.sin(0.72), 0.3 * np.sin(0.72)])
        with pytest.raises(un.UndulaError, match="psi_rate = 3 is not allowed with gait = rotate"):
            gallery.load("snakeboard").setup(gait="rotate", psi_rate=3.0)
