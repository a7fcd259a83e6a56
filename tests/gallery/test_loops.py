"""Passive coordinates, closed loops, exact contacts and flexible bodies (document 001; document 000, appendix A.1).

Equation numbers are those of document 001 unless the thesis is named. Expected values are closed forms, given here.
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
from undula.gallery import hexapod
from undula.gallery.catalogue import description
from undula.numerics.programs import quickly_compiled

g = 9.81


@quickly_compiled
def motion(system, state, dt, steps, stride):
    """Samples, `stride` steps apart, of a motion from an admissible state."""
    states = jax.tree.map(lambda x: x[::stride], un.simulate(system, state, dt, steps))
    times = dt * stride * jnp.arange(steps // stride + 1)
    return jax.lax.map(lambda x: un.sample(system, *x), (states, times))


_sample = quickly_compiled(un.sample)
simulated = quickly_compiled(un.simulate)


def sampled(system, t, state):
    return _sample(system, state, jnp.asarray(float(t)))


def started(name, **given):
    """(system, assembled state) of a gallery entry."""
    setup = gallery.load(name).setup(**given)
    return setup.system, setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)


def moved(name, steps, dt, stride=1, **given):
    """(system, samples) of a gallery entry."""
    system, state = started(name, **given)
    samples = motion(system, state, dt, steps, stride)
    assert np.max(samples.residual) < 1e-8
    return system, samples


def matrices(quaternions):
    return Rotation.from_quat(np.asarray(quaternions), scalar_first=True).as_matrix()


def energy_mismatch(x):
    """Energy gained minus work done, and the largest energy."""
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
    """n + s_p, m and m degree of the document's examples; the class listed in the gallery."""
    found = un.classify(*started(name))
    assert (found.unknown, found.m, found.m_locked) == (n, m, m_locked)
    assert (found.motion == "dynamic") == (m_locked < n)
    assert str(found) == description(name)["class"]


@pytest.fixture(scope="module")
def pendulum():
    return moved("mobile-pendulum", 400, 0.005, 4, angle=0.4)


class TestMobilePendulum:
    """Section VI.A."""

    R, l, m, mw, mc = 0.1, 0.5, 0.4, 0.2, 1.5
    M = mc + m + 2 * mw
    J = mw * R**2 / 2

    def test_reduced_dynamics(self, pendulum):
        """(40), along the motion and integrated."""
        x = pendulum[1]
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

    def test_torques(self, pendulum):
        x = pendulum[1]
        assert_allclose(x.efforts[:, :2], self.torques(x, self.needed(x)), atol=1e-12)
        assert_allclose(x.efforts[:, 0], x.efforts[:, 1], atol=1e-12)

    def test_energy_balance(self, pendulum):
        mismatch, scale = energy_mismatch(pendulum[1])
        assert mismatch < 1e-5 * scale

    def test_weights_share_the_static_part(self, pendulum):
        """Other weights give another T of (44) and the same motion."""
        system, x = pendulum
        state = jax.tree.map(lambda y: y[0], x.state)
        found = motion(system.replace(reaction_weights=[1.0, 3.0]), state, 0.005, 400, 4)
        assert_allclose(found.position, x.position, atol=1e-12)
        assert_allclose(found.acceleration.v, x.acceleration.v, atol=1e-12)
        # minimum of a^2 + 3 b^2 with a + b given
        assert_allclose(found.reactions[:, 0], 3 * found.reactions[:, 1], atol=1e-12)
        assert_allclose(found.efforts[:, :2], self.torques(x, -found.reactions[:, 1]), atol=1e-12)
        assert np.abs(found.reactions[:, 0] - x.reactions[:, 0]).max() > 0.1

    @pytest.mark.parametrize("share, part", [("equal", 1), ("front", 0), ("rear", 2)])
    def test_shares(self, pendulum, share, part):
        """The three T below (44), and the same motion."""
        x = moved("mobile-pendulum", 400, 0.005, 4, angle=0.4, share=share)[1]
        same = pendulum[1]
        assert_allclose(x.acceleration.v, same.acceleration.v, atol=1e-12)
        assert_allclose(x.position, same.position, atol=1e-12)
        assert_allclose(x.efforts[:, :2], self.torques(x, part * self.needed(x)), atol=1e-12)
        own = self.J * np.asarray(x.acceleration.v[:, 0])  # all that a wheel without traction needs
        alone = {"front": 1, "rear": 0}
        if share in alone:
            assert_allclose(x.efforts[:, alone[share]], own, atol=1e-12)

    def test_static_torques_move_nothing(self, pendulum):
        """Remark 1: wheels forced by the torques (44), with any T, accelerate according to (40)."""
        b = un.Builder("cart")
        b.base("cart", role="free", group="R", mass=self.mc, inertia=0.01)
        for name in ("front", "rear"):
            wheel = un.solids.cylinder_inertia(self.mw, self.R, 0.02, "y")
            b.body(name, "cart", un.Revolute((0, 1, 0)), self.mw, inertia=wheel)
            b.add(un.rows.Wheel(f"{name}_contact", "cart", radius=self.R, roll=name, side=False))
        b.body("pendulum", "cart", un.Revolute((0, -1, 0)), self.m, com=(0, 0, -self.l))
        b.force(["front", "rear"], un.laws.Constant([0.0, 0.0]))
        forced = b.build()
        x = pendulum[1]
        k = 37
        state = jax.tree.map(lambda y: y[k], x.state)
        one = jax.tree.map(lambda y: y[k : k + 1], x)
        for T in (0.0, self.needed(x)[k], 25.0, -13.0):
            system = forced.replace_element("front.effort", law=un.laws.Constant(self.torques(one, T)[0]))
            found = sampled(system, x.t[k], state)
            assert_allclose(found.acceleration.v, x.acceleration.v[k], atol=1e-10)
            assert_allclose(found.acceleration.base[0], self.R * x.acceleration.v[k, 0], atol=1e-10)


@pytest.fixture(scope="module")
def bicycle():
    given = dict(
        l2=TestBicycle.l2, l3=TestBicycle.l3, radius=TestBicycle.h, tilt=TestBicycle.alpha, steer=0.6, lean_rate=0.2
    )
    return moved("bicycle", 250, 0.004, 5, **given)


class TestBicycle:
    """Section VI.B: the document's axes X up, Y forward, Z to the left."""

    l2, l3, h, alpha = 0.6, 0.45, 0.33, 0.35

    def test_kinematics(self, bicycle):
        """(49) to (54): all velocities but the rate of the lean follow from the handlebars and the rear wheel."""
        system, x = bicycle
        steer, front, rear = (system.coordinate(n) for n in ("steer", "front_wheel", "rear_wheel"))
        eta, v, r1 = np.asarray(x.state.base_twist), np.asarray(x.state.v), np.asarray(x.position[:, steer])
        assert np.ptp(r1) > 0.5 and np.ptp(eta[:, 4]) > 0.1
        psi = self.h * np.cos(self.alpha) * np.tan(r1) / (self.l2 + self.l3)  # (52)
        zero = 0 * psi
        expected = np.stack([zero, self.h + zero, psi * self.l3, psi, zero, zero], 1) * v[:, [rear]]  # (51)
        expected[:, 4] = eta[:, 4]
        assert_allclose(eta, expected, atol=1e-12)
        ca, sa = np.cos(self.alpha), np.sin(self.alpha)
        turned = (np.cos(r1) + ca**2 * np.sin(r1) * np.tan(r1)) * v[:, rear]
        assert_allclose(v[:, front], turned - sa * ca * np.sin(r1) * v[:, steer], atol=1e-11)  # (53)

    def test_energy_balance(self, bicycle):
        mismatch, scale = energy_mismatch(bicycle[1])
        assert mismatch < 1e-4 * scale

    def test_falls_like_a_pendulum(self, bicycle):
        """Unsteered, (55) is the fall about the line of contact; the wheels' spin does not matter."""
        system = gallery.load("bicycle").setup(l2=self.l2, l3=self.l3, radius=self.h, tilt=self.alpha, steer=0.0).system
        lean = 0.3
        turn = Rotation.from_matrix(np.asarray(bicycle[0].base_pose.rotation)) * Rotation.from_rotvec((0, lean, 0))
        state = system.state(base_quaternion=turn.as_quat(scalar_first=True), base_twist=(0, 0, 0, 0, 0.7, 0))
        found = motion(system, state, 0.004, 250, 5)  # only the start is compared
        M, m, c, I, h = 80.0, 2.0, 1.0, 9.0, self.h
        line = I + M * c**2 + 2 * (m * h**2 / 2 + m * h**2)
        assert_allclose(found.acceleration.base[0, 4], (M * c + 2 * m * h) * g * np.sin(lean) / line, rtol=1e-12)


@pytest.fixture(scope="module")
def disc():
    known = TestRollingDisc
    spin = known.axial - known.turning * np.sin(known.lean)
    given = dict(radius=known.r, lean=known.lean, turning=known.turning, spin=spin)
    return moved("rolling-disc", 800, 0.005, 8, **given)


class TestRollingDisc:
    """A thin disc on a circle. Axes: n forward, e along the axle, u from the contact to the centre; e.z = sin(lean)."""

    r, lean, turning = 0.3, 0.25, -1.7
    # moment about the centre along n: (m r^2 + I_e) w_e W cos + m g r sin = I_u W^2 cos sin, with W the turning rate
    axial = (r * turning**2 * np.cos(lean) / 4 - g) * np.tan(lean) / (1.5 * r * turning)

    def test_steady_circle(self, disc):
        x = disc[1]
        R, t, W = matrices(x.state.base.quaternion), np.asarray(x.t), self.turning
        assert_allclose(R[:, 2, 1], np.sin(self.lean), atol=1e-8)
        assert_allclose(np.unwrap(np.arctan2(-R[:, 0, 1], R[:, 1, 1])), W * t, atol=1e-7)
        radius = self.r * self.axial / W
        circle = np.stack([radius * np.sin(W * t), radius * (1 - np.cos(W * t)), 0 * t + self.r * np.cos(self.lean)], 1)
        assert_allclose(x.state.base.position, circle, atol=1e-7)

    def test_reactions(self, disc):
        """The ground carries the weight and bends the path."""
        x = disc[1]
        assert_allclose(x.reactions[:, 0], g, rtol=1e-6)
        assert_allclose(np.abs(x.reactions[:, 1]), self.r * self.axial * abs(self.turning), rtol=1e-6)
        assert_allclose(x.reactions[:, 2], 0, atol=1e-6)

    def test_energy(self, disc):
        energy = np.asarray(disc[1].energy_kinetic + disc[1].energy_potential)
        c, W = np.cos(self.lean), self.turning
        exact = 0.75 * (self.r * self.axial) ** 2 + (self.r * W * c) ** 2 / 8 + g * self.r * c
        assert_allclose(energy, exact, rtol=1e-10)


class FourBar:
    """Closed forms of a four-bar linkage in the x-z plane, from the crank's angle a."""

    ground, crank, coupler, rocker, density = 0.4, 0.12, 0.42, 0.3, 1.0

    def angles(self, a):
        """(coupler, rocker) from x towards z: intersection of two circles, open branch."""
        B = self.crank * jnp.stack([jnp.cos(a), jnp.sin(a)])
        D = jnp.array([self.ground, 0.0])
        d = D - B
        square = d @ d
        along = (square + self.coupler**2 - self.rocker**2) / 2
        off = jnp.sqrt(self.coupler**2 * square - along**2)
        C = B + (along * d + off * jnp.array([[0.0, -1.0], [1.0, 0.0]]) @ d) / square
        return jnp.stack([jnp.arctan2(*(C - B)[::-1]), jnp.arctan2(*(C - D)[::-1])])

    def centres(self, a):
        """Angles and centres of the three bars."""
        c, d = self.angles(a)

        def ray(x):
            return jnp.stack([jnp.cos(x), jnp.sin(x)])

        B, D = self.crank * ray(a), jnp.array([self.ground, 0.0])
        middles = jnp.stack([B / 2, B + self.coupler / 2 * ray(c), D + self.rocker / 2 * ray(d)])
        return jnp.stack([a, c, d]), middles

    def inertia(self, a):
        """J(a) of the kinetic energy J a'^2 / 2; thin rods except for their radius of 1 cm, as in the gallery."""
        turns, moves = jax.jacfwd(self.centres)(a)
        total = 0.0
        for k, l in enumerate((self.crank, self.coupler, self.rocker)):
            m = self.density * l
            total = total + m * moves[k] @ moves[k] + m * (l**2 / 12 + 0.01**2 / 4) * turns[k] ** 2
        return total

    def weight(self, a):
        lengths = jnp.array([self.crank, self.coupler, self.rocker])
        return g * self.density * (lengths * self.centres(a)[1][:, 1]).sum()

    def torque(self, a, v, gain):
        """Lagrange's equation of the one degree of freedom: the virtual work behind (A.4) of the thesis."""
        slope = jax.grad(self.inertia)(a)
        return self.inertia(a) * gain + slope * v**2 / 2 + jax.grad(self.weight)(a)


BAR = FourBar()


@quickly_compiled
def exact(a, w):
    """For a crank turning at the rate w, at angles a: angles of the other bars and their first and second derivatives
    in a; the torque; the energy and its rate."""

    def energy(a):
        return BAR.inertia(a) * w**2 / 2 + BAR.weight(a)

    def one(a):
        slope = jax.jacfwd(BAR.angles)
        return BAR.angles(a), slope(a), jax.jacfwd(slope)(a), BAR.torque(a, w, 0.0), energy(a), jax.grad(energy)(a) * w

    return jax.lax.map(one, a)


@pytest.fixture(scope="module")
def four_bar():
    return moved("four-bar", 200, 2 * np.pi / 6 / 200, 2)


class TestFourBar:
    """Closed loops (thesis, appendix A.1)."""

    w, start = 6.0, 0.5

    def test_motion(self, four_bar):
        system, x = four_bar
        a = self.start + self.w * np.asarray(x.t)
        angles, slopes = exact(a, self.w)[:2]
        i = [system.coordinate(n) for n in ("coupler", "rocker")]
        assert_allclose(x.position[:, i[0]] + a, angles[:, 0], atol=1e-9)
        assert_allclose(x.position[:, i[1]], angles[:, 1], atol=1e-9)
        assert_allclose(x.state.v[:, i[0]] + self.w, self.w * slopes[:, 0], atol=1e-8)
        assert_allclose(x.state.v[:, i[1]], self.w * slopes[:, 1], atol=1e-8)

    def test_torque(self, four_bar):
        system, x = four_bar
        tau = np.asarray(x.efforts[:, system.coordinate("crank")])
        assert_allclose(tau, exact(self.start + self.w * np.asarray(x.t), self.w)[3], atol=1e-8)

    def test_power(self, four_bar):
        """tau_a . r'_a is the rate of the energy."""
        x = four_bar[1]
        energy, rate = exact(self.start + self.w * np.asarray(x.t), self.w)[4:]
        assert_allclose(x.power_actuators, rate, atol=1e-8)
        assert_allclose(x.energy_kinetic + x.energy_potential, energy, atol=1e-9)

    def test_reaction(self, four_bar):
        """Moments on the rocker about its pivot: the row y is perpendicular to it, and the multiplier acts on the coupler."""
        system, x = four_bar
        curvature = exact(self.start + self.w * np.asarray(x.t), self.w)[2]
        l = BAR.rocker
        gain = np.asarray(curvature[:, 1]) * self.w**2
        weight = BAR.density * l * g * l / 2 * np.cos(x.position[:, system.coordinate("rocker")])
        spin = BAR.density * l * (l**2 / 3 + 0.01**2 / 4) * gain
        assert_allclose(x.reactions[:, system.row_names.index("loop.y")], -(spin + weight) / l, atol=1e-8)

    @pytest.mark.parametrize(
        "cut, closure",
        [
            pytest.param("crank-coupler", "line", marks=pytest.mark.long),
            pytest.param("rocker-ground", "line", marks=pytest.mark.long),
            pytest.param("coupler-rocker", "revolute", marks=pytest.mark.long),
        ],
    )
    def test_cut_elsewhere(self, four_bar, cut, closure):
        """The place of the cut, and redundant rows, change neither the motion nor the torque."""
        system, state = started("four-bar", cut=cut, closure=closure)
        found, usual = sampled(system, 0.0, state), jax.tree.map(lambda y: y[0], four_bar[1])
        for name in ("crank", "coupler", "rocker"):
            turns = [y.bodies.quaternion[z.body(name)] for y, z in ((found, system), (usual, four_bar[0]))]
            assert_allclose(abs(turns[0] @ turns[1]), 1.0, atol=1e-12)
        torques = [y.efforts[z.coordinate("crank")] for y, z in ((found, system), (usual, four_bar[0]))]
        assert_allclose(torques[0], torques[1], atol=1e-9)
        if closure == "revolute":
            kind = un.classify(system, state)
            assert (kind.rows, kind.m_locked, kind.statics) == (5, 2, "hyperstatic")
            # nothing pushes the bars out of their plane: reactions of least norm have no such component
            assert_allclose(found.reactions, [*usual.reactions, 0, 0, 0], atol=1e-8)


def passive_loop(cut="coupler-rocker", rocker=BAR.rocker, closures=1):
    """The four-bar linkage with an undriven crank."""
    b = un.Builder("loop", gravity=(0, 0, -g))
    b.base("ground")

    def bar(name, parent, at, length, side=1):
        m = BAR.density * length
        inertia = un.solids.cylinder_inertia(m, 0.01, length, "x")
        b.body(name, parent, un.Revolute((0, -1, 0)), m, (side * length / 2, 0, 0), inertia, (at, 0, 0))

    bar("crank", "ground", 0.0, BAR.crank)
    if cut == "coupler-rocker":
        bar("coupler", "crank", BAR.crank, BAR.coupler)
        bar("rocker", "ground", BAR.ground, rocker)
        ends = "coupler", "rocker", (BAR.coupler, 0, 0), (rocker, 0, 0)
    else:
        bar("rocker", "ground", BAR.ground, rocker)
        bar("coupler", "rocker", rocker, BAR.coupler, -1)
        ends = "coupler", "crank", (-BAR.coupler, 0, 0), (BAR.crank, 0, 0)
    for k in range(closures):
        b.add(un.rows.Closure(f"loop{k + 1}", *ends[:2], position=ends[2], other_position=ends[3], holds=("x", "z")))
    return b.build()


def loop_state(system, a, cut="coupler-rocker"):
    c, d = (float(x) for x in BAR.angles(jnp.asarray(a)))
    given = {"coupler": c - a, "rocker": d} if cut == "coupler-rocker" else {"rocker": d, "coupler": c - d}
    return system.state({"crank": a, **given})


@pytest.fixture(scope="module")
def loop():
    system = passive_loop()
    return system, motion(system, loop_state(system, 1.2), 5e-4, 1000, 20)


@quickly_compiled
def release(a, v):
    """Minus the acceleration of an undriven crank."""
    return BAR.torque(a, v, 0.0) / BAR.inertia(a)


class TestPassiveLoop:
    """A loop whose motion is dynamic: one velocity of three."""

    def test_closed_form(self, loop):
        system, x = loop
        assert un.classify(system, loop_state(system, 1.2)).m_locked == 2

        def fall(t, y):
            return [y[1], -float(release(y[0], y[1]))]

        times = np.asarray(x.t)
        exact = scipy.integrate.solve_ivp(fall, (0, 0.5), [1.2, 0.0], rtol=1e-10, atol=1e-11, t_eval=times)
        assert np.ptp(exact.y[0]) > 1
        assert_allclose(x.position[:, 0], exact.y[0], atol=1e-8)
        assert_allclose(x.state.v[:, 0], exact.y[1], atol=1e-7)

    def test_energy(self, loop):
        x = loop[1]
        assert np.max(x.residual) < 1e-8
        energy = np.asarray(x.energy_kinetic + x.energy_potential)
        assert_allclose(energy, energy[0], atol=1e-9)

    def test_cut_elsewhere(self, loop):
        """The angles are the same whatever joint is cut, and close the loop."""
        system, x = passive_loop("crank-coupler"), loop[1]
        q = np.asarray(simulated(system, loop_state(system, 1.2, "crank-coupler"), 5e-4, 1000).q)[::20]
        crank, rocker, coupler = (q[:, system.coordinate(name)] for name in ("crank", "rocker", "coupler"))
        usual = [x.position[:, loop[0].coordinate(name)] for name in ("crank", "rocker", "coupler")]
        assert_allclose(crank, usual[0], atol=1e-9)
        assert_allclose(rocker, usual[1], atol=1e-9)
        assert_allclose(rocker + coupler, usual[0] + usual[2], atol=1e-9)
        assert_allclose(np.stack([rocker + coupler, rocker], 1), exact(crank, 0.0)[0], atol=1e-8)

    def test_redundant(self, loop):
        """The same closure twice: accepted, classified as hyperstatic, each takes half; accelerations do not change."""
        system = passive_loop(closures=2)
        state = jax.tree.map(lambda y: y[20], loop[1].state)
        found = sampled(system, 0.2, state)
        kind = un.classify(system, state)
        assert (kind.statics, kind.rows, kind.m_locked) == ("hyperstatic", 4, 2)
        assert_allclose(found.acceleration.v, loop[1].acceleration.v[20], atol=1e-9)
        assert_allclose(found.reactions, np.tile(loop[1].reactions[20] / 2, 2), atol=1e-9)
        found = sampled(system.replace(reaction_weights=[1.0, 1.0, 4.0, 4.0]), 0.2, state)
        assert_allclose(found.acceleration.v, loop[1].acceleration.v[20], atol=1e-9)
        assert_allclose(found.reactions[:2], 4 * found.reactions[2:], atol=1e-9)

    def test_impossible(self):
        """A crank held away from a rocker 5 cm too short: refused, with the gaps that remain open."""
        b = un.Builder("loop")
        b.base("ground")
        rod, turn = dict(mass=1.0, inertia=0.01), (0, -1, 0)
        b.body("crank", "ground", un.Revolute(turn, motion=un.laws.Constant(np.pi)), **rod)
        b.body("coupler", "crank", un.Revolute(turn), position=(BAR.crank, 0, 0), **rod)
        b.body("rocker", "ground", un.Revolute(turn), position=(BAR.ground, 0, 0), **rod)
        short = BAR.ground + BAR.crank - BAR.coupler - 0.05
        ends = dict(position=(BAR.coupler, 0, 0), other_position=(short, 0, 0))
        b.add(un.rows.Closure("loop", "coupler", "rocker", holds=("x", "z"), **ends))
        system = b.build()
        with pytest.raises(un.UndulaError, match=r"'loop' cannot be assembled: loop\.") as refusal:
            un.assemble(system, system.state({"coupler": -3.0, "rocker": 1.0}))
        left = [float(x) for x in re.findall(r"by ([0-9.e+-]+)", str(refusal.value))]
        assert np.linalg.norm(left) >= 0.0499


class TestHexapod:
    """A Stewart platform: six loops, assembled at any instant."""

    feet, tips = hexapod.places({p.name: p.default for p in hexapod.SCENARIO.parameters})

    def pose(self, t):
        """The pose for which the leg lengths were computed: the default motion of the gallery entry."""
        wave = np.sin(2 * t + np.array([0, np.pi / 2, 0, np.pi / 2, 0, 0]))
        return wave * np.array([0.1, 0.1, 0.08, 0.2, 0.2, 0.3]) + np.array([0, 0, 0.7, 0, 0, 0])

    def legs(self, system, x):
        return np.asarray(x)[[system.coordinate(f"leg{k}") for k in range(1, 7)]]

    def test_inverse_kinematics(self):
        """Lengths from the platform pose; pose and rate are those commanded, and the power balances."""
        system, state = started("hexapod")
        k, h = system.body("platform"), 1e-3
        for t in (0.0, 0.9, 2.3):
            x = [sampled(system, s, un.assemble(system, state, s)) for s in t + h * np.arange(-2, 3)]
            found, wanted = x[2], self.pose(t)
            assert found.residual < 1e-8
            p, R = np.asarray(found.bodies.position[k]), matrices(found.bodies.quaternion[k])
            assert_allclose(p, wanted[:3], atol=1e-9)
            assert_allclose(R, Rotation.from_rotvec(wanted[3:]).as_matrix(), atol=1e-9)
            lengths = np.linalg.norm(p + self.tips @ R.T - self.feet, axis=1)
            assert_allclose(self.legs(system, found.position), lengths, atol=1e-9)
            energy = [float(y.energy_kinetic + y.energy_potential) for y in x]
            rate = (8 * (energy[3] - energy[1]) - (energy[4] - energy[0])) / (12 * h)
            assert_allclose(found.power_actuators, rate, atol=1e-7)

    @pytest.mark.long
    def test_a_run_follows_the_pose(self):
        """Half a cycle in time steps: the loops stay closed, the platform follows the pose commanded by its legs."""
        system, x = moved("hexapod", 125, np.pi / 250, 5)  # closed within 1e-8
        wanted = np.array([self.pose(t)[:3] for t in np.asarray(x.t)])
        assert_allclose(x.bodies.position[:, system.body("platform")], wanted, atol=1e-8)

    def test_forces_at_rest(self):
        """Virtual work: the forces of the legs times the gradients of their lengths are the gradient of the weight."""
        system, state = started("hexapod", rate=1e-6)
        found = sampled(system, 0.0, state)

        def lengths(x):
            ball = x[:3] + self.tips @ Rotation.from_rotvec(x[3:]).as_matrix().T
            return np.linalg.norm(ball - self.feet, axis=1)

        def weight(
            x,
        ):  # a cylinder's centre is as far above its foot as the rod's is below its ball: half of their sum
            return g * (10.0 * x[2] + (x[:3] + self.tips @ Rotation.from_rotvec(x[3:]).as_matrix().T)[:, 2].sum())

        def gradient(f, x, h=1e-4):
            steps = h * np.eye(6)
            return np.array([(8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * h) for e in steps])

        x = self.pose(0.0)
        pushed = gradient(lengths, x) @ self.legs(system, found.efforts)
        assert_allclose(pushed, gradient(weight, x), atol=1e-7)


@pytest.fixture(scope="module")
def snakeboards():
    return {k: moved("soft-snakeboard", 800, 0.002, 4, stiffness=k) for k in (1.0, 4.0)}


class TestSoftSnakeboard:
    """Section VII.A."""

    l, m, Ir = 0.2, 2.0, 0.001 + 2 * 0.3**3 / 3
    a, b, w = 0.5, 0.7, 4.0

    def rigid(self, t):
        """(V_x, W_z) of the rigid snakeboard: eta = H_ee xi with H_ee = (-2 l cos^2, 0, sin 2 phi)."""

        def rate(s, y):
            phi, spin = self.a * np.sin(self.w * s), self.a * self.w * np.cos(self.w * s)
            gain = -self.b * self.w**2 * np.sin(self.w * s)
            return [np.tan(phi) * (spin * y[0] - self.Ir / (2 * self.m * self.l**2) * gain)]

        xi = scipy.integrate.solve_ivp(rate, (0, t[-1]), [0.0], rtol=1e-10, atol=1e-13, t_eval=t).y[0]
        phi = self.a * np.sin(self.w * t)
        return np.stack([-2 * self.l * np.cos(phi) ** 2 * xi, np.sin(2 * phi) * xi], 1)

    def test_tends_to_the_rigid_one(self, snakeboards):
        """The error is proportional to 1/stiffness."""
        error = {}
        for k, (_, x) in snakeboards.items():
            exact = self.rigid(np.asarray(x.t))
            error[k] = np.abs(np.asarray(x.state.base_twist)[:, [0, 5]] - exact).max() / np.abs(exact).max()
        assert error[4.0] < 0.02
        assert 3 < error[1.0] / error[4.0] < 5

    def test_constraints(self, snakeboards):
        """(60): the twist is in the span of H_ee, whatever the beams do."""
        _, x = snakeboards[1.0]
        phi = self.a * np.sin(self.w * np.asarray(x.t))
        eta = np.asarray(x.state.base_twist)
        assert_allclose(eta[:, 0] * np.sin(2 * phi), -2 * self.l * np.cos(phi) ** 2 * eta[:, 5], atol=1e-10)
        assert_allclose(eta[:, [1, 2, 3, 4]], 0, atol=1e-10)

    def test_energy_balance(self, snakeboards):
        """With springs and dampers: the work of the motors goes into the energy or the dampers."""
        for _, x in snakeboards.values():
            mismatch, scale = energy_mismatch(x)
            assert np.min(x.power_external) < 0
            assert mismatch < 1e-4 * scale


class TestFlexible:
    """Appendix B: bodies with assumed modes."""

    L, rho, EI = 0.7, 0.4, 3.0
    roots = np.array([1.875104068711961, 4.694091132974175, 7.854757438237613])  # of cos z cosh z = -1

    def beam(self, **options):
        b = un.Builder("beam")
        b.base("wall")
        un.flexible.add_beam(b, "beam", "wall", self.L, self.rho, self.EI, **options)
        return b.build()

    def test_natural_frequencies(self):
        system = self.beam(modes=3, nodes=12)
        M = mass_matrix(system, system.state())
        squares = scipy.linalg.eigh(np.diag(system.element("springs").stiffness), M, eigvals_only=True)
        assert_allclose(np.sqrt(squares), self.roots**2 * np.sqrt(self.EI / (self.rho * self.L**4)), rtol=1e-10)

    def test_modes(self):
        """Clamped, 1 at the tip, and with curvatures whose integral is the stiffness."""
        found = un.flexible.clamped_modes(3, self.L, 40)
        assert_allclose(found.roots, self.roots, rtol=1e-13)
        assert_allclose([found.positions[-1], *found.shapes[:, -1]], [self.L, 1, 1, 1], rtol=1e-13)
        for k, z in enumerate(self.roots):
            s = (np.cosh(z) + np.cos(z)) / (np.sinh(z) + np.sin(z))

            def shape(x, sign, s=s, z=z):
                y = z * x / self.L
                return np.cosh(y) + sign * np.cos(y) - s * (np.sinh(y) + sign * np.sin(y))

            assert_allclose(found.shapes[k], shape(found.positions, -1) / shape(self.L, -1), atol=1e-11)
            bent = (z / self.L) ** 2 * shape(found.positions, 1) / shape(self.L, -1)
            assert_allclose((found.weights * bent**2).sum(), found.curvatures[k], rtol=1e-10)

    def test_sag(self):
        """Under its own weight a beam's tip sags by rho g L^4 / (8 EI); the modes add up to it."""
        system = self.beam(modes=6, nodes=24, bends=(0, 0, 1))
        sag = np.asarray(gravity_efforts(system, system.state())) / np.asarray(system.element("springs").stiffness)
        assert_allclose(abs(sag.sum()), self.rho * g * self.L**4 / (8 * self.EI), rtol=2e-5)

    def test_any_scale_of_modes(self):
        """A mode scaled by five has coordinates a fifth as large; the leader's own displacement need not be 1."""
        found = un.flexible.clamped_modes(2, self.L, 6)
        places = found.positions[:, None] * np.array([0, 0, 1.0])
        masses = []
        for scale in (1.0, 5.0):
            b = un.Builder("body", gravity=(0, 0, 0))
            b.base("wall")
            field = scale * found.shapes[:, :, None] * np.array([0.6, 0.8, 0])
            names = un.flexible.add_flexible(b, "body", "wall", places, self.rho * found.weights, field, [1.0, 2.0])
            system = b.build()
            assert names == system.coordinate_names == ("body.mode1", "body.mode2")
            masses.append(mass_matrix(system, system.state()))
        assert_allclose(masses[1], 25 * masses[0], atol=1e-12)

    def test_spinning(self):
        """A free-floating hub with a beam bending in two planes: energy and momenta are conserved; it tends to a rigid body."""
        hub, L, rho = np.array([0.02, 0.03, 0.04]), 0.5, 0.5
        m = rho * L
        centre = m * L / 2 / (1 + m)  # of the rigid body: hub of 1 kg and thin rod
        rod = m * L**2 / 12 + m * (L / 2 - centre) ** 2 + centre**2
        I, spin = hub + np.array([0, rod, rod]), np.array([0.5, 1.0, 2.0])
        times = 0.008 * np.arange(51)

        def rigid(t, y):
            w, R = y[:3], y[3:].reshape(3, 3)
            return np.concatenate([np.cross(I * w, w) / I, np.cross(R, w).ravel()])  # R' = R hat(w), row by row

        start = np.concatenate([spin, np.eye(3).ravel()])
        exact = scipy.integrate.solve_ivp(rigid, (0, 0.4), start, rtol=1e-10, atol=1e-12, t_eval=times).y.T
        error = []
        for EI in (2.0, 8.0):
            b = un.Builder("hub", gravity=(0, 0, 0))
            b.base("hub", role="free", mass=1.0, inertia=hub)
            un.flexible.add_beam(b, "beam", "hub", L, rho, EI, bends=[(0, 1, 0), (0, 0, 1)], nodes=5)
            system = b.build()
            states, energy, momentum = adrift(system, system.state(base_twist=(0, 0, 0, *spin)))
            assert_allclose(energy, energy[0], rtol=1e-8)
            assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=1e-9)
            error.append(np.abs(matrices(states.base.quaternion) - exact[:, 3:].reshape(-1, 3, 3)).max())
        assert error[1] < 1e-3
        assert 3 < error[0] / error[1] < 5

    @pytest.mark.parametrize(
        "options, words",
        [
            (dict(bends=(1, 0, 0)), "bends at right angles"),
            (dict(modes=0), "count of clamped_modes = 0"),
            (dict(damping=-1.0), "damping of the beam 'beam' = -1.0"),
        ],
    )
    def test_refusals(self, options, words):
        with pytest.raises(un.UndulaError, match=words):
            self.beam(**options)


mass_matrix = quickly_compiled(un.mass_matrix)
gravity_efforts = quickly_compiled(un.gravity_efforts)


@quickly_compiled
def adrift(system, state):
    """States, energies and momenta of 800 steps of 0.5 ms, every 16th."""

    def kept(s):
        return un.kinetic_energy(system, s) + un.potential_energy(system, s), un.momentum(system, s, "world")

    states = jax.tree.map(lambda x: x[::16], un.simulate(system, state, 5e-4, 800))
    return states, *jax.lax.map(kept, states)
