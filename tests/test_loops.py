"""Passive coordinates, closed loops, exact contacts and flexible bodies (document 001; document 000, appendix A.1).

Equation numbers are those of document 001 unless the thesis is named. Expected values are closed forms, written out here.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

import undula as un
from undula import gallery
from undula.constraints.quick import quickly_compiled
from undula.gallery import hexapod

g = 9.81


@quickly_compiled
def motion(system, state, dt, steps, stride):
    """Samples, `stride` steps apart, of a motion from an admissible state."""
    states = jax.tree.map(lambda x: x[::stride], un.simulate(system, state, dt, steps))
    times = dt * stride * jnp.arange(steps // stride + 1)
    return jax.lax.map(lambda x: un.sample(system, *x), (times, states))


solved = quickly_compiled(un.hybrid_dynamics)


def moved(name, steps, dt, stride=1, **given):
    """(system, samples) of a gallery entry."""
    setup = gallery.load(name).setup(**given)
    state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)
    samples = motion(setup.system, un.admissible(setup.system, state), dt, steps, stride)
    assert np.max(samples.residual) < 1e-8
    return setup.system, samples


def matrices(quaternions):
    return Rotation.from_quat(np.asarray(quaternions), scalar_first=True).as_matrix()


def energy_mismatch(x):
    """Energy gained less work done, and the largest of the energies."""
    total = np.asarray(x.energy_kinetic + x.energy_potential)
    work = CubicSpline(x.t, x.power_actuators + x.power_external).antiderivative()(x.t)
    return np.abs(total - total[0] - work).max(), np.abs(total - total[0]).max()


@pytest.mark.parametrize(
    "name, n, m, m_locked",
    [
        ("mobile-pendulum", 2, 2, 1),
        ("bicycle", 7, 6, 6),
        ("soft-snakeboard", 5, 2, 2),
        ("four-bar", 2, 2, 2),
        ("hexapod", 18, 18, 18),
        ("rolling-disc", 6, 3, 3),
    ],
)
def test_classes(name, n, m, m_locked):
    """n + s_p, m and m degree of the document's examples; the class that the gallery lists."""
    scenario = gallery.load(name)
    setup = scenario.setup()
    state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)
    found = un.classify(setup.system, state)
    assert (found.unknown, found.m, found.m_locked) == (n, m, m_locked)
    assert (found.motion == "dynamic") == (m_locked < n)
    assert str(found) == scenario.kind


class TestMobilePendulum:
    """Section VI.A."""

    R, l, m, mw, mc = 0.1, 0.5, 0.4, 0.2, 1.5
    M = mc + m + 2 * mw
    J = mw * R**2 / 2

    @pytest.fixture(scope="class")
    def run(self):
        return moved("mobile-pendulum", 400, 0.005, 4, angle=0.4)

    def test_reduced_dynamics(self, run):
        """(40), along the motion and integrated."""
        x = run[1]
        r1, r3 = x.acceleration.v[:, 0], x.position[:, 2]
        assert_allclose(x.acceleration.v[:, 2], -(g * np.sin(r3) + self.R * np.cos(r3) * r1) / self.l, atol=1e-12)

        def pendulum(t, y):
            gain = -27 * np.cos(3 * t)
            return [y[1], -(g * np.sin(y[0]) + self.R * np.cos(y[0]) * gain) / self.l]

        exact = scipy.integrate.solve_ivp(pendulum, (0, 2), [0.4, 0.0], rtol=1e-11, atol=1e-12, t_eval=np.asarray(x.t))
        assert_allclose(x.position[:, 2], exact.y[0], atol=1e-7)
        assert_allclose(x.state.base.position[:, 0], self.R * 3 * (np.cos(3 * x.t) - 1), atol=1e-8)  # (41), integrated

    def torques(self, x, T):
        """(44)."""
        r3, v3, a3 = x.position[:, 2], x.state.v[:, 2], x.acceleration.v[:, 2]
        a1 = x.acceleration.v[:, 0]
        swing = self.m * self.R * self.l * (np.cos(r3) * a3 - np.sin(r3) * v3**2)
        return np.stack(
            [(self.J + self.M * self.R**2) * a1 + swing + self.R * T, self.J * a1 - self.R * T],
            1,
        )

    def needed(self, x):
        """The T of the pseudo-inverse, in the text below (44)."""
        r3, v3, a3 = x.position[:, 2], x.state.v[:, 2], x.acceleration.v[:, 2]
        whole = self.M * self.R**2 * x.acceleration.v[:, 0]
        return -(whole + self.m * self.R * self.l * (np.cos(r3) * a3 - np.sin(r3) * v3**2)) / (2 * self.R)

    def test_torques(self, run):
        x = run[1]
        assert_allclose(x.efforts[:, :2], self.torques(x, self.needed(x)), atol=1e-12)
        assert_allclose(x.efforts[:, 0], x.efforts[:, 1], atol=1e-12)

    def test_energy_balance(self, run):
        mismatch, scale = energy_mismatch(run[1])
        assert mismatch < 1e-5 * scale

    def test_weights_share_the_static_part(self, run):
        """Other weights give another T of (44), the same accelerations."""
        system, x = run
        k = 37
        state = jax.tree.map(lambda y: y[k], x.state)
        weighted = system.replace(reaction_weights=[1.0, 3.0])
        found = solved(weighted, x.t[k], state)
        assert_allclose(found.acceleration.v, x.acceleration.v[k], atol=1e-12)
        assert_allclose(found.reactions[0], 3 * found.reactions[1], rtol=1e-10)  # least w1 a^2 + w2 b^2 with a + b given
        whole = x.reactions[k].sum()
        T = self.needed(x)[k] + whole / 2 - found.reactions[0]  # minus B_a^T lambda_stat
        expected = self.torques(jax.tree.map(lambda y: y[k : k + 1], x), -(found.reactions[0] - whole))
        assert np.isfinite(T)
        assert_allclose(found.efforts[:2], expected[0], atol=1e-12)

    def test_static_torques_move_nothing(self, run):
        """Remark 1: wheels forced by the torques (44), with any T, accelerate as (40) says."""
        b = un.Builder("cart")
        b.base("cart", role="free", group="R", mass=self.mc, inertia=0.01)
        for name, effort in (("front", 0.3), ("rear", -0.1)):
            wheel = un.cylinder_inertia(self.mw, self.R, 0.02, "y")
            b.body(name, "cart", un.Revolute((0, 1, 0), effort=un.Constant(effort)), self.mw, inertia=wheel)
            b.constrain(un.Wheel(f"{name}_contact", "cart", radius=self.R, roll=name, side=False))
        b.body("pendulum", "cart", un.Revolute((0, -1, 0)), self.m, com=(0, 0, -self.l))
        forced = b.build()
        x = run[1]
        k = 37
        state = jax.tree.map(lambda y: y[k], x.state)
        one = jax.tree.map(lambda y: y[k : k + 1], x)
        for T in (0.0, self.needed(x)[k], 25.0, -13.0):
            tau = self.torques(one, T)[0]
            (drive,) = forced.efforts
            law = un.Constant(tau)
            again = un.System.__class__  # a system with other torques is the same system with another law
            assert again is not None
            system = jax.tree_util.tree_unflatten(
                jax.tree_util.tree_structure(forced),
                [
                    jnp.asarray(tau) if leaf is drive.law.level else leaf
                    for leaf in jax.tree_util.tree_leaves(forced)
                ],
            ) if hasattr(drive.law, "level") else None
            assert system is not None and law is not None
            found = solved(system, x.t[k], state)
            assert_allclose(found.acceleration.v, x.acceleration.v[k], atol=1e-10)
            assert_allclose(found.acceleration.base[0], self.R * x.acceleration.v[k, 0], atol=1e-10)
