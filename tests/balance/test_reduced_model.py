"""The matrices of document 001 by name: its closed forms (sections VI and VII), and what holds for any system."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.numerics.programs import quickly_compiled

g = 9.81
solved = quickly_compiled(un.hybrid_dynamics)

ENTRIES = {
    "mobile-pendulum": dict(angle=0.4, share="front"),
    "bicycle": dict(l2=0.6, l3=0.45, radius=0.33, tilt=0.35, steer=0.6),
    "soft-snakeboard": {},
    "unicycle": dict(motors="left"),
}


def instant(name):
    """(system, state with every velocity, t): a state of an entry that satisfies no row; the library projects it."""
    setup = gallery.load(name).setup(**ENTRIES[name])
    system = setup.system
    rng = np.random.default_rng(7)
    q = np.asarray(setup.state.q) + 0.02 * rng.normal(size=system.nv)
    twist = np.isin(np.arange(6), system.topology.unknown) * rng.normal(size=6)
    return system, setup.state.replace(q=q, base_twist=twist, v=rng.normal(size=system.nv)), 0.37


@pytest.fixture(scope="module")
def found():
    out = {}
    for name in ENTRIES:
        system, state, t = instant(name)
        out[name] = system, un.reduced(system, state, t), solved(system, state, t)
    return out


@pytest.mark.parametrize("name", ENTRIES)
class TestInvariants:
    def test_dynamics(self, found, name):
        """(4) to (6) give the accelerations and efforts of the hybrid dynamics."""
        system, m, s = found[name]
        names = (*(f"base.{x}" for x in ("vx", "vy", "vz", "wx", "wy", "wz")), *system.coordinate_names)
        acceleration = dict(zip(names, np.concatenate([s.acceleration.base, s.acceleration.v])))
        wanted = np.array([acceleration[x] for x in m.passive])
        scale = 1 + np.abs(wanted).max()
        assert_allclose(m.deta, wanted, atol=1e-11 * scale)
        fast = np.concatenate([np.linalg.solve(m.M_r_tilde, m.F_r_tilde), np.linalg.solve(m.m_pp_r, m.Q_p_r_tilde)])
        assert_allclose(m.deta_r, fast, atol=1e-11 * scale)
        efforts = dict(zip(system.coordinate_names, np.asarray(s.efforts)))
        assert_allclose(m.tau_a, [efforts[x] for x in m.active], atol=1e-10)
        assert set(m.passive) | set(m.active) <= set(names) and not set(m.passive) & set(m.active)

    def test_kinematics(self, found, name):
        """A H = 0, eta+ = J r_a' + H eta_r, and a generalised inverse is one."""
        _, m, s = found[name]
        assert_allclose(m.A @ m.H, 0, atol=1e-13)
        assert_allclose(m.J @ m.dr_a + m.H @ m.eta_r + m.imposed, m.eta, atol=1e-12)
        assert_allclose(m.A @ m.eta + m.B_a @ m.dr_a + m.driven, 0, atol=1e-12)
        assert_allclose(m.A @ m.A_inverse @ m.A, m.A, atol=1e-12)
        assert m.H.shape[1] == len(m.reduced) == len(m.passive) - int(s.rank)
        assert_allclose(m.A.T @ m.lambda_stat, 0, atol=1e-9)
        assert_allclose(m.M, m.M.T, atol=1e-12)
        assert np.linalg.eigvalsh(m.m_aa_tilde).min(initial=1.0) > 0


class TestMobilePendulum:
    """Section VI.A; J is that of the pseudo-inverse, not (38)."""

    R, l, m, J = 0.1, 0.5, 0.4, 0.2 * 0.1**2 / 2
    M = 1.5 + 0.4 + 2 * 0.2

    @pytest.fixture
    def now(self, found):
        system, x, s = found["mobile-pendulum"]
        k = system.coordinate("pendulum")
        return x, float(s.state.q[k]), float(s.state.v[k]), -27 * np.cos(3 * 0.37)

    def test_free_dynamics(self, now):
        """(39)."""
        x, r3, v3, _ = now
        c, s = self.m * self.l * np.cos(r3), self.m * self.l * np.sin(r3)
        assert (x.passive, x.active, x.reduced) == (("base.vx", "pendulum"), ("front", "rear"), ("pendulum",))
        assert_allclose(x.M, [[self.M, c], [c, self.m * self.l**2]], atol=1e-13)
        assert_allclose(x.f, [s * v3**2, -s * g], atol=1e-12)
        assert_allclose(x.m_aa, self.J * np.eye(2), atol=1e-13)
        assert_allclose(x.M_a, 0, atol=1e-13)
        assert_allclose(x.Q_a, 0, atol=1e-13)

    def test_reduced_dynamics(self, now):
        """(37), (38), (40): m l^2 r3'' = -m l g sin r3 - m l R cos r3 r1''."""
        x, r3, _, a1 = now
        assert_allclose(x.A, [[1, 0], [1, 0]], atol=1e-13)
        assert_allclose(x.B_a, -self.R * np.eye(2), atol=1e-13)
        assert_allclose(x.J_ext, [[self.R / 2, self.R / 2]], atol=1e-13)
        assert_allclose(x.J_int, [[0, 0]], atol=1e-13)
        assert_allclose(x.H, [[0], [1]], atol=1e-13)
        assert_allclose(x.m_pp_r, [[self.m * self.l**2]], atol=1e-13)
        force = -self.m * self.l * (g * np.sin(r3) + self.R * np.cos(r3) * a1)
        assert_allclose(x.Q_p_r_tilde, [force], atol=1e-12)
        assert x.M_r_tilde.shape == (0, 0)

    def test_torques(self, now):
        """(6) with the static part of (43): the front wheel carries the whole traction, T = 0 in (44)."""
        x, r3, v3, a1 = now
        a3 = float(x.deta[1])
        swing = self.m * self.R * self.l * (np.cos(r3) * a3 - np.sin(r3) * v3**2)
        whole = self.M * self.R**2 * a1 + swing
        assert_allclose(x.tau_a, [self.J * a1 + whole, self.J * a1], atol=1e-12)
        assert_allclose(x.lambda_stat, np.array([1, -1]) * whole / (2 * self.R), atol=1e-11)
        left = self.M - self.m * np.cos(r3) ** 2  # the inertia that the wheels move while the pendulum is free
        assert_allclose(x.m_aa_tilde, self.J * np.eye(2) + self.R**2 / 4 * left, atol=1e-13)
        force = self.R / 2 * self.m * np.sin(r3) * (self.l * v3**2 + g * np.cos(r3))
        assert_allclose(x.Q_a_tilde, [force, force], atol=1e-12)


def test_bicycle(found):
    """(52) to (54): the rate of the lean is the one dynamic velocity."""
    l2, l3, h, alpha = 0.6, 0.45, 0.33, 0.35
    system, x, s = found["bicycle"]
    r1 = float(s.state.q[system.coordinate("steer")])
    assert x.active == ("steer", "rear_wheel") and x.reduced == ("base.wy",) and x.external == 6
    psi = h * np.cos(alpha) * np.tan(r1) / (l2 + l3)
    assert_allclose(x.H_ee[:, 0], [0, 0, 0, 0, 1, 0], atol=1e-13)
    assert_allclose(x.H_pe, 0, atol=1e-13)
    assert_allclose(x.J_ext, np.outer([0, h, psi * l3, psi, 0, 0], [0, 1]), atol=1e-13)
    ca, sa = np.cos(alpha), np.sin(alpha)
    wanted = [-sa * ca * np.sin(r1), np.cos(r1) + ca**2 * np.sin(r1) * np.tan(r1)]
    assert_allclose(x.J_int, [wanted], atol=1e-13)
    assert abs(r1) > 0.3 and len(x.A) == 6 and x.D.shape == (1, 0)
    assert_allclose(x.M_r_tilde, x.M[4:5, 4:5], rtol=1e-12)  # (56)


def test_soft_snakeboard(found):
    """(60): the base's kernel (-2 l cos^2 r1, 0, sin 2 r1), and the beams' modes as dynamic passive coordinates."""
    system, x, s = found["soft-snakeboard"]
    r1, l = float(s.state.q[system.coordinate("rear")]), 0.2  # r1 is minus the front axle's angle
    assert x.reduced[1:] == ("beam1.mode1", "beam2.mode1") and x.dynamic == 1
    wanted = np.array([-2 * l * np.cos(r1) ** 2, 0, np.sin(2 * r1)])
    assert_allclose(np.cross(x.H_ee[:, 0], wanted), 0, atol=1e-13)
    assert np.linalg.norm(x.H_ee) > 0.5
    assert_allclose(x.H_ep, 0, atol=1e-13)
    assert_allclose(x.D, np.eye(2), atol=1e-13)
    assert_allclose(x.J, 0, atol=1e-13)
    assert_allclose(x.lambda_stat, 0, atol=1e-10)


def test_driven_base():
    """A pendulum of a free hinge under a pivot that is shaken: the base is active, and its effort is the force on it."""
    m, l, amplitude = 0.7, 0.6, 0.05
    b = un.Builder("shaken")
    b.base("pivot", role="driven", group="R", motion=un.laws.Sinusoid([amplitude], 4.0))
    b.body("bob", "pivot", un.Revolute((0, -1, 0)), m, com=(0, 0, -l))
    system = b.build()
    x = un.reduced(system, system.state([0.5], [0.8]), 0.2)
    a = -amplitude * 16 * np.sin(0.8)
    assert x.active == ("base.vx",) and x.passive == x.reduced == ("bob",)
    assert_allclose(x.ddr_a, [a], atol=1e-13)
    assert_allclose(x.deta, [-(g * np.sin(0.5) + a * np.cos(0.5)) / l], atol=1e-12)
    force = m * (a + l * (np.cos(0.5) * x.deta[0] - np.sin(0.5) * 0.8**2))
    assert_allclose(x.tau_a, [force], atol=1e-12)
    assert_allclose(x.m_aa_tilde, [[m * np.sin(0.5) ** 2]], atol=1e-12)
