"""Wheels (document 000, chapters 3 and 4): classes, kinematics, reduced dynamics, torques and reactions.

Numbers of the facts are those of the list of checkable facts of that document; equation numbers are its own. Expected values
are its closed forms and an independent model of plane mechanisms, both written out here.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.balance.classes import _rows
from undula.laws.integral import Integral
from undula.numerics.quick import quickly_compiled

VEHICLES = (
    "unicycle",
    "two-axle",
    "three-axle",
    "car",
    "mecanum",
    "snake-acm",
    "snakeboard",
    "trikke",
    "mobile-manipulator",
)
COUNT = 13  # instants that are looked at
PLANE = [0, 1, 5]  # of a twist: vx, vy and the rate of turning


def vehicle(name, **given):
    """The system of a gallery entry, without drawings: systems that differ in numbers only are then compiled once."""
    return dataclasses.replace(gallery.load(name).setup(**given).system, shapes=())


def probe(system, times, states):
    """Samples at some instants, the rate of the energy along the motion, and the twists of the bodies."""
    return jax.tree.map(np.asarray, _probe(system, *strong((times, states))))


def strong(tree):
    """Arrays as they come from NumPy: JAX compiles anew for its weakly typed ones."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x, dtype=float)), tree)


@quickly_compiled
def _probe(system, times, states):

    def one(x):
        s = un.sample(system, *x)

        def energy(twist, q, v):
            state = un.State(s.state.base, q, twist, v)
            return un.kinetic_energy(system, state) + un.potential_energy(system, state)

        now = s.state.base_twist, s.state.q, s.state.v
        gain = jax.jvp(energy, now, (s.acceleration.base, s.state.v, s.acceleration.v))[1]
        return s, gain, un.body_twists(system, s.state)

    return jax.lax.map(one, (times, states))


solved = quickly_compiled(un.hybrid_dynamics)


@quickly_compiled
def _simulate(system, state, dt, stride):
    return jax.tree.map(lambda x: x[::stride], un.simulate(system, state, dt, (COUNT - 1) * stride))


def moved(system, state, dt, stride):
    """States, `stride` steps apart, of a motion from an admissible state."""
    return jax.tree.map(np.asarray, _simulate(system, strong(state), jnp.asarray(dt), stride))


def motion(system, state, dt, stride):
    """Samples of a motion from any state; as many as `instants` gives, to compile once."""
    held = probe(system, np.zeros(COUNT), jax.tree.map(lambda x: np.stack([x] * COUNT), state))[0].state
    states = moved(system, jax.tree.map(lambda x: x[0], held), dt, stride)
    return probe(system, dt * stride * np.arange(COUNT), states)[0]


def instants(system, seed, count=COUNT, t_end=6.0):
    """Random times and level states; velocities need not be admissible, the library makes them so."""
    rng = np.random.default_rng(seed)
    turned = rng.uniform(-np.pi, np.pi, count)
    zero = np.zeros(count)
    twist = np.zeros((count, 6))
    twist[:, PLANE] = rng.normal(size=(count, 3))
    base = un.Pose(
        jnp.asarray(np.stack([*rng.normal(size=(2, count)), zero], 1)),
        jnp.asarray(np.stack([np.cos(turned / 2), zero, zero, np.sin(turned / 2)], 1)),
    )
    q, v = 0.3 * rng.normal(size=(2, count, system.nv))
    return jnp.asarray(rng.uniform(0.2, t_end, count)), un.State(
        base, jnp.asarray(q), jnp.asarray(twist), jnp.asarray(v)
    )


def seen(system, seed=1):
    return probe(system, *instants(system, seed))


def yaw(quaternions):
    return np.unwrap(2 * np.arctan2(quaternions[:, 3], quaternions[:, 0]))


def wave(amplitude, rate, phase, t):
    """amplitude sin(rate t + phase) and its two rates."""
    s, c = np.sin(rate * t + phase), np.cos(rate * t + phase)
    return amplitude * s, amplitude * rate * c, -amplitude * rate**2 * s


class Plane:
    """A mechanism in the plane by Lagrange's equations with multipliers, in coordinates q = (x, y, heading) of its base.

    - `bodies`: (q, t) -> (n, 3) x, y of the mass centres and angles; `mass`, `inertia`: theirs.
    - `rows`: (q, t, moves) -> velocities that must vanish; moves(f) is the rate of a function f(q, t).
    """

    def __init__(self, bodies, mass, inertia, rows):
        weight = np.stack([mass, mass, inertia], 1)

        def rate(f, q, v, t):
            return jax.jvp(f, (q, t), (v, 1.0))[1]

        def kinetic(q, v, t):
            return (weight * rate(bodies, q, v, t) ** 2).sum() / 2

        def held(q, v, t):
            return rows(q, t, lambda f: rate(f, q, v, t))

        def accelerations(q, v, t):
            M = jax.hessian(kinetic, 1)(q, v, t)
            bias = rate(lambda q, t: jax.grad(kinetic, 1)(q, v, t), q, v, t) - jax.grad(kinetic, 0)(q, v, t)
            C = jax.jacobian(held, 1)(q, v, t)
            bias_rows = rate(lambda q, t: held(q, v, t), q, v, t)
            return M, bias, C, bias_rows, held(q, v, t)

        self.terms = quickly_compiled(accelerations)

    def check(self, samples):
        """Compares accelerations of the base, for the velocities that the library found."""
        for k, a in enumerate(yaw(samples.state.base.quaternion)):
            R = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
            q = np.array([*samples.state.base.position[k, :2], a])
            twist = samples.state.base_twist[k, PLANE]
            terms = self.terms(*(jnp.asarray(x) for x in (q, R @ twist, samples.t[k])))
            M, bias, C, bias_rows, held = (np.asarray(x) for x in terms)
            assert_allclose(held, 0, atol=1e-12)
            KKT = np.block([[M, -C.T], [C, np.zeros((len(C), len(C)))]])
            found = np.linalg.lstsq(KKT, -np.concatenate([bias, bias_rows]), rcond=1e-11)[0][:3]
            # the rate of the components in the body: R^T a - Omega x V
            expected = R.T @ found - np.array([-twist[2] * twist[1], twist[2] * twist[0], 0])
            assert_allclose(samples.acceleration.base[k, PLANE], expected, rtol=1e-9, atol=1e-9)


def place(q, x, y):
    """The point (x, y) of a frame q = (x, y, angle) in the world, with the frame's angle."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return jnp.stack([q[0] + c * x - s * y, q[1] + s * x + c * y, q[2]])


def turned(q, angle):
    return q.at[2].add(angle)


def sides(*frames):
    """Rows of wheels that do not slide: velocities across the headings of frames (q, t) -> (x, y, angle)."""

    def across(at, going):
        return -jnp.sin(at[2]) * going[0] + jnp.cos(at[2]) * going[1]

    return lambda q, t, moves: jnp.stack([across(frame(q, t), moves(frame)) for frame in frames])


def base_frame(q, t):
    return q


# Classes (fact 14)


class TestClasses:
    @pytest.mark.parametrize("name", VEHICLES)
    def test_entry_says_its_class(self, name):
        scenario = gallery.load(name)
        setup = scenario.setup()
        assert str(un.classify(setup.system, setup.state)) == scenario.kind

    def test_classes_of_the_document(self):
        def of(name, **given):
            c = un.classify(gallery.load(name).setup(**given).system)
            return c.constraint, c.actuation, c.motion, c.base_rank

        assert of("satellite")[0] == "unconstrained"
        assert of("snakeboard") == ("under-constrained", "", "dynamic", 2)
        assert of("two-axle") == ("under-constrained", "", "dynamic", 2)
        assert of("three-axle") == ("fully constrained", "", "kinematic", 3)
        assert of("two-axle", motor=True) == ("fully constrained", "fully actuated", "kinematic", 3)
        assert of("snake-acm") == ("over-constrained", "", "kinematic", 3)
        assert of("snake-acm", modules=3) == ("fully constrained", "", "kinematic", 3)
        assert of("car") == ("fully constrained", "fully actuated", "kinematic", 3)
        assert of("unicycle") == ("fully constrained", "fully actuated", "kinematic", 3)
        assert of("unicycle", motors="left") == ("under-constrained", "partially actuated", "dynamic", 2)
        assert of("two-axle", friction=10.0)[0] == "unconstrained"

    def test_snake_has_ten_rows_of_which_three_suffice(self):
        c = un.classify(gallery.load("snake-acm").setup().system)
        assert (c.rows, c.base_rank) == (10, 3)
        assert c.kinematic == tuple(f"r{j}" for j in range(6, 19, 2)) and c.dynamic == ()


# Power balance (fact 11): with ideal constraints, joints and wheel motors supply the rate of the energy


def rolling_speeds(name, t):
    """R theta' of the wheels that are driven as rows (times the cosine of the rollers' angle): by name of the row."""
    if name == "unicycle":
        return {"left.roll": 0.1 * (3 + 3 * np.cos(t)), "right.roll": 0.1 * (3 - 3 * np.cos(t))}
    if name == "mecanum":
        ahead, aside = 0.08 * 10 * np.cos(t), -0.08 * 5 * np.sin(t)
        along, against = ahead + aside, ahead - aside
        speeds = {"front-left": against, "front-right": along, "rear-left": along, "rear-right": against}
        return {f"{x}.roller": v / np.sqrt(2) for x, v in speeds.items()}
    if name in ("car", "mobile-manipulator"):
        beta = 0.5 * np.sin(0.7 * t) if name == "car" else np.sin(t)
        x = np.clip(t / 2, 0, 1)
        xi = 10 * x**3 - 15 * x**4 + 6 * x**5 if name == "car" else 1.0
        right, left = (front_wheel(beta, sign) for sign in (1, -1))
        return {"front-right-wheel.roll": xi * right[1], "front-left-wheel.roll": xi * left[1]}
    return {}


def front_wheel(beta, sign, l=1.0, L=0.5):
    """Angle of a front wheel by the corrected compatibility relation, and R times its entry of B_aa (4.22)."""
    angle = np.arctan(np.tan(beta) / (1 + sign * L / (2 * l) * np.tan(beta)))
    b = np.tan(beta) / 2
    return angle, (1 + sign * (L / l) * b) * np.cos(angle) + np.sin(angle) * np.tan(beta)


HEAVY = ("mobile-manipulator", "car", "trikke", "three-axle")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in HEAVY else ()) for n in VEHICLES])
def test_power_balance(name):
    """The sign of the motors' power: a wheel's row is (speed along its heading) - R theta' = 0, its multiplier lambda
    the force of the ground on the vehicle along the heading. It does the power lambda R theta', and a wheel without
    inertia passes on what its motor gives: Gamma = +R lambda, conjugate to theta'.
    """
    system = vehicle(name, **({"aside": 5.0} if name == "mecanum" else {}))  # by default its energy is constant
    s, gain, _ = seen(system)
    power = (s.efforts * s.state.v).sum(1)
    for row, speed in rolling_speeds(name, s.t).items():
        power = power + s.reactions[:, system.row_names.index(row)] * speed
    scale = 1 + np.abs(gain).max()
    assert np.abs(gain).max() > 1e-4  # something happens
    assert_allclose(power, gain, rtol=0, atol=1e-8 * scale)
    assert_allclose(s.power_actuators, gain, rtol=0, atol=1e-8 * scale)
    assert_allclose(s.power_external, 0, atol=0)
    assert s.residual.max() < 1e-12


# The snakeboard (facts 16 to 19)


GAIT = dict(phi_amplitude=0.6, phi_rate=1.3, phi_phase=0.4, psi_amplitude=0.9, psi_rate=1.7, psi_phase=-0.3)


@quickly_compiled
def locked_inertia(system, state):
    state, _ = un.driven_motion(system, 0.0, state)
    return un.locomotion_inertia(system, state)[0]


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
        """A and H_f (4.10), (4.11); A H = 0; the admissible space both ways (3.58) (fact 9)."""
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
            # the intersection of what each axle allows, carried to the board by Ad
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
        """(4.15) if the inertia of the axles' masses is counted; as printed it lacks 8 m_w l^2 sin^2 cos^2."""
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
        """psi'' = 0: from rest nothing moves; otherwise xi cos(phi) stays (fact 18)."""
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
            psi, front, rear = np.asarray(un.driven_motion(system, 0.9, system.state())[0].q)
            assert_allclose([psi, front, rear], [0.7 * np.sin(ratio * 0.72), -0.3 * np.sin(0.72), 0.3 * np.sin(0.72)])
        with pytest.raises(un.UndulaError, match="psi_rate = 3 is not allowed with gait = rotate"):
            gallery.load("snakeboard").setup(gait="rotate", psi_rate=3.0)


# Kinematics of driven wheels (fact 21)


class TestUnicycle:
    m, d, I, R, w = 10.0, 0.05, 0.3, 0.1, 0.4

    def test_motion_and_forces(self):
        """Kinematics of two wheels; their forces by Newton and Euler about the axle's middle; the side force is shared."""
        system = vehicle("unicycle")
        s, _, _ = seen(system)
        left, right = rolling_speeds("unicycle", s.t).values()
        dleft, dright = -0.3 * np.sin(s.t), 0.3 * np.sin(s.t)
        V, turn = (left + right) / 2, (right - left) / self.w
        dV, dturn = (dleft + dright) / 2, (dright - dleft) / self.w
        assert_allclose(s.state.base_twist[:, PLANE], np.stack([V, 0 * V, turn], 1), atol=1e-13)
        assert_allclose(s.acceleration.base[:, PLANE], np.stack([dV, 0 * V, dturn], 1), atol=1e-12)
        ahead = self.m * (dV - self.d * turn**2)
        across = self.m * (V * turn + self.d * dturn)
        couple = (self.I + self.m * self.d**2) * dturn + self.m * self.d * V * turn
        forces = dict(zip(system.row_names, s.reactions.T))
        assert_allclose(forces["left.roll"] + forces["right.roll"], ahead, atol=1e-11)
        assert_allclose((forces["right.roll"] - forces["left.roll"]) * self.w / 2, couple, atol=1e-11)
        assert_allclose(forces["left.side"], across / 2, atol=1e-11)  # the least sum of squares
        assert_allclose(forces["right.side"], across / 2, atol=1e-11)

    def test_one_motor(self):
        """Partially actuated: the motor's wheel goes as told, the rest by dynamics."""
        system = vehicle("unicycle", motors="left")
        s, gain, _ = seen(system)
        assert_allclose(s.power_actuators, gain, atol=1e-11)
        rate = rolling_speeds("unicycle", s.t)["left.roll"]
        assert_allclose(s.state.base_twist[:, 0] - self.w / 2 * s.state.base_twist[:, 5], rate, atol=1e-13)

        def rows(q, t, moves):
            left = moves(lambda q, t: place(q, 0.0, self.w / 2))
            rolls = jnp.cos(q[2]) * left[0] + jnp.sin(q[2]) * left[1] - self.R * (3 + 3 * jnp.cos(t))
            return jnp.concatenate([sides(base_frame)(q, t, moves), rolls[None]])

        Plane(lambda q, t: place(q, self.d, 0.0)[None], [self.m], [self.I], rows).check(s)


class TestMecanum:
    def test_motion(self):
        s, _, _ = seen(vehicle("mecanum", turn=2.0))
        turn = 0.08 * 2.0 / (0.25 + 0.2)
        expected = [0.8 * np.cos(s.t), -0.8 * np.sin(s.t), turn + 0 * s.t]
        assert_allclose(s.state.base_twist[:, PLANE], np.stack(expected, 1), atol=1e-13)


class TestCar:
    l, L = 1.0, 0.5

    def test_no_wheel_slips(self):
        """eta = H_a xi (4.21), the corrected steering angles, lateral and rolling speeds of the wheels."""
        s, _, twists = seen(vehicle("car"))
        beta = 0.5 * np.sin(0.7 * s.t)
        x = np.clip(s.t / 2, 0, 1)
        xi = 10 * x**3 - 15 * x**4 + 6 * x**5
        H = np.stack([1 + 0 * beta, np.tan(beta) / 2, np.tan(beta) / self.l], 1)
        assert_allclose(s.state.base_twist[:, PLANE], H * xi[:, None], atol=1e-13)
        for k, sign in ((0, 1), (1, -1)):  # right, left
            angle, speed = front_wheel(beta, sign)
            assert_allclose(s.position[:, k], angle, atol=1e-13)
            assert_allclose(twists[:, 1 + k, 1], 0, atol=1e-13)
            assert_allclose(twists[:, 1 + k, 0], speed * xi, atol=1e-13)
        V, across, turn = s.state.base_twist[:, PLANE].T
        assert_allclose(across - self.l / 2 * turn, 0, atol=1e-13)  # the middle of the rear axle
        assert_allclose(turn, np.tan(beta) / self.l * V, atol=1e-13)  # ... runs with the curvature tan(beta) / l

    def test_printed_relation_is_refused(self):
        """The document prints tan beta = (1 +- L/2l) tan beta_k: the wheels would slip sideways."""
        beta, R = 0.4, 0.12
        b = un.Builder("printed")
        b.base("car", role="free", group="SE2", mass=40.0, inertia=6.0)
        for name, y in (("right", -self.L / 2), ("left", self.L / 2)):
            angle = np.arctan(np.tan(beta) / (1 - 2 * y / self.L * self.L / (2 * self.l)))
            roll = un.Polynomial([0.0, 10.0]) if name == "left" else None
            b.constrain(un.Wheel(f"front-{name}", "car", (self.l / 2, y, 0), angle, R, roll))
            b.constrain(un.Wheel(f"rear-{name}", "car", (-self.l / 2, y, 0), radius=R))
        with pytest.raises(
            un.UndulaError, match=r"violates its constraints at t = 0 s: (front|rear)-(left|right)\.side"
        ):
            un.admissible(b.build(), b.build().state())


class TestMobileManipulator:
    def test_coupling(self):
        """A platform that stands, or runs straight and steadily, leaves the arm's torques as on a fixed base."""
        arm = gallery.load("robot-arm").setup().system
        standing, steady, turning = (
            seen(vehicle("mobile-manipulator", **given))[0]
            for given in (dict(speed=0.0), dict(steer_amplitude=0.0), {})
        )
        fixed = np.stack([np.asarray(solved(arm, t, arm.state()).efforts) for t in standing.t])
        assert_allclose(standing.efforts[:, -3:], fixed, atol=1e-11)
        assert_allclose(steady.efforts[:, -3:], fixed, atol=1e-10)
        assert np.abs(turning.efforts[:, -3] - fixed[:, 0]).max() > 1.0  # Figure 4.12 (a): the curves differ

    def test_wheel_torques_from_power(self):
        """The two motors supply what the arm's motors do not (one power, so that only the sum is unique)."""
        system = vehicle("mobile-manipulator")
        s, gain, _ = seen(system)
        forces = s.reactions[:, [system.row_names.index(f"front-{x}-wheel.roll") for x in ("right", "left")]]
        beta = np.sin(s.t)
        speeds = np.stack([front_wheel(beta, sign)[1] for sign in (1, -1)], 1)
        wheels = (forces * speeds).sum(1)
        assert_allclose(wheels, gain - (s.efforts * s.state.v).sum(1), atol=1e-8)
        assert np.abs(wheels).max() > 1.0


# The snake (fact 20)


class TestSnake:
    l = 0.1
    a = np.array([0.2, 0.6, -0.2, 0.6, 0.2])
    phases = np.array([1, 9, 0, 7, -1]) * np.pi / 16

    def shape(self, t):
        return np.concatenate([[0.0], self.a * np.sin(t + self.phases)])

    def rates(self, t):
        return np.concatenate([[0.0], self.a * np.cos(t + self.phases)])

    def matrices(self, r):
        """Abar and Bbar of section 4.3.1; r[j] is r_j."""
        l, s, c = self.l, np.sin, np.cos
        r3, r5 = r[2] + r[3], r[2] + r[4] + r[5]
        a23, b31 = l * (c(r[3]) + c(r3)), l * (c(r[5]) + 2 * c(r[4] + r[5]))
        a33 = b31 + l * c(r5)
        A = np.array([[-s(r[1]), c(r[1]), 0], [-s(r3), c(r3), a23], [-s(r5), c(r5), a33]])
        return A, np.array([[0, 0], [l * c(r[3]), 0], [b31, l * c(r[5])]])

    def twist(self, t):
        A, B = self.matrices(self.shape(t))
        return -np.linalg.solve(A, B @ self.rates(t)[[2, 4]])  # (3.45)

    def test_rows(self):
        system = vehicle("snake-acm")
        names = list(system.coordinate_names)
        column = {int(x[1:]): 6 + k for k, x in enumerate(names)}
        for t in (0.4, 1.7, 5.0):
            _, state = instants(system, 3, 1)
            state = jax.tree.map(lambda x: x[0], state)
            A = np.asarray(_rows(system, state, jnp.asarray(t))[0])
            Abar, Bbar = self.matrices(self.shape(t))
            assert_allclose(A[:3, PLANE], Abar, atol=1e-14)
            assert_allclose(A[:3][:, [column[2], column[4]]], Bbar, atol=1e-14)
            B = A[:, [column[j] for j in range(2, 19, 2)]]
            assert_allclose(np.triu(B, 0), 0, atol=1e-15)  # the k-th wheels see joints of modules up to the k-th
            assert_allclose(A[:, [column[j] for j in range(1, 20, 2)]], 0, atol=1e-15)
            assert np.linalg.matrix_rank(A[:, PLANE]) == 3

    def test_singular_when_symmetric(self):
        """det Abar changes its sign at k pi, where all axles meet; the motion goes on (the limit exists)."""
        for k in (0, 1, 2):
            before, after = (np.linalg.det(self.matrices(self.shape(k * np.pi + x))[0]) for x in (-1e-3, 1e-3))
            assert before * after < 0
            assert abs(np.linalg.det(self.matrices(self.shape(k * np.pi))[0])) < 1e-15
        system = vehicle("snake-acm")
        state = un.admissible(system, system.state())
        assert_allclose(np.asarray(state.base_twist)[PLANE], 2 * self.twist(1e-4) - self.twist(2e-4), atol=1e-7)

    def test_velocities(self):
        s, _, twists = seen(vehicle("snake-acm"))
        assert_allclose(s.state.base_twist[:, PLANE], [self.twist(t) for t in s.t], rtol=1e-10, atol=1e-10)
        wheeled = [k for k, x in enumerate(vehicle("snake-acm").body_names) if int(x[1:]) % 2]
        assert_allclose(twists[:, wheeled, 1], 0, atol=1e-13)

    def test_stopped_joints_stop_the_head(self):
        s, _, _ = seen(vehicle("snake-acm", rate=0.0, phase=tuple(self.phases + 0.7)))  # a shape that is not singular
        assert_allclose(s.state.base_twist, 0, atol=1e-12)

    @pytest.fixture(scope="class")
    @classmethod
    def path(cls):
        """Three cycles, samples a quarter of a cycle apart; for two lengths [m]."""

        def run(l):
            system = vehicle("snake-acm", half_length=l)
            return motion(system, un.admissible(system, system.state()), np.pi / 200, 100)

        return run(0.1), run(0.05)

    def test_head_path(self, path):
        """Against an integration of (3.45); the pose advances along a line, by the same each cycle."""

        def flow(t, y):
            v = self.twist(max(t, 1e-6))
            c, s = np.cos(y[2]), np.sin(y[2])
            return [c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]]

        s = path[0]
        exact = scipy.integrate.solve_ivp(
            flow, (0, s.t[-1]), [0.0] * 3, t_eval=s.t, rtol=1e-10, atol=1e-12, max_step=0.05
        ).y
        position, heading = s.state.base.position[:, :2], yaw(s.state.base.quaternion)
        assert_allclose(position, exact[:2].T, atol=1e-7)
        assert_allclose(heading, exact[2], atol=1e-7)
        cycle = position[4::4] - position[:-4:4]
        assert_allclose(heading[::4], 0, atol=1e-7)
        assert_allclose(cycle, np.tile(cycle[0], (3, 1)), atol=1e-7)
        assert np.linalg.norm(cycle[0]) > 0.5

    def test_symmetry_and_scale(self, path):
        s, half = path
        twist = s.state.base_twist[:, PLANE]
        assert_allclose(twist[3::2], twist[1:-2:2] * [1, -1, -1], atol=1e-9)  # eta(t + pi)
        assert_allclose(half.state.base.position, s.state.base.position / 2, atol=1e-9)
        assert_allclose(half.state.base.quaternion, s.state.base.quaternion, atol=1e-9)

    def test_trailing_joints_stay_bounded(self, path):
        s = path[0]
        assert np.abs(s.position).max() < np.pi / 2
        assert s.residual.max() < 1e-12


# Reduced dynamics against Lagrange's equations with multipliers


class TestLagrange:
    def test_two_axle(self):
        """Mass centres at the axles, which are the places of the wheels too."""
        s, _, _ = seen(vehicle("two-axle"))

        def rear(q, t):
            hinge = turned(place(q, -0.15, 0.0), 0.8 * jnp.sin(3 * t + np.pi / 2))
            return place(hinge, -0.2, 0.0)

        rows = sides(base_frame, rear)
        Plane(lambda q, t: jnp.stack([q, rear(q, t)]), [3.0, 1.0], [0.03, 0.01], rows).check(s)

    def test_trikke(self):
        s, _, _ = seen(vehicle("trikke"))
        steer, shift = (lambda t, a=a: a * jnp.sin(4 * t + np.pi / 2) for a in (0.4, 0.1))

        def fork(q, t):
            return turned(place(q, 0.9, 0.0), steer(t))

        def bodies(q, t):
            return jnp.stack([place(q, 0.35, 0.0), fork(q, t), place(q, 0.2, shift(t))])

        rows = sides(base_frame, lambda q, t: place(fork(q, t), -0.05, 0.0))
        Plane(bodies, [8.0, 2.0, 70.0], [1.0, 0.05, 70.0 * 0.15**2 / 2], rows).check(s)

    def test_three_axle(self):
        """Fully constrained: the accelerations follow from the rows, whatever the masses."""
        s, _, _ = seen(vehicle("three-axle"))
        l = 0.15

        def joint(t, phase):
            return 0.6 + 0.4 * jnp.sin(2 * t + phase)

        def front(q, t):
            return place(turned(place(q, l, 0.0), joint(t, 0.0)), l, 0.0)

        def rear(q, t):
            return place(turned(place(q, -l, 0.0), joint(t, np.pi / 2)), -l, 0.0)

        frames = (front, base_frame, rear)
        Plane(lambda q, t: jnp.stack([f(q, t) for f in frames]), np.ones(3), np.ones(3), sides(*frames)).check(s)


# One system, described in two ways, moves in one way


def flat(I):
    return I / 2, I / 2, I


class TestDescriptions:
    dt, stride = 2e-3, 60

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls):
        system = vehicle("snakeboard", **GAIT)
        return system, motion(system, system.state(base_twist=[-0.2, 0, 0, 0, 0, 0]), cls.dt, cls.stride)

    def wave(self, x):
        p = GAIT
        return un.Sinusoid(p[f"{x}_amplitude"], p[f"{x}_rate"], p[f"{x}_phase"])

    @pytest.mark.long
    def test_another_reference_body(self, reference):
        """The snakeboard seen from its front axle."""
        l, phi, psi = 0.2, self.wave("phi"), self.wave("psi")
        b = un.Builder("from the front", gravity=(0, 0, 0))
        b.base("front", role="free", group="SE2", mass=1.0, inertia=flat(0.0013))
        b.body("board", "front", un.Revolute(motion=phi), 2.0, (-l, 0, 0), flat(0.0854))
        b.body("rotor", "board", un.Revolute(motion=psi), 2.0, inertia=flat(0.072), position=(-l, 0, 0))
        b.body("rear", "board", un.Revolute(motion=phi), 1.0, inertia=flat(0.0013), position=(-2 * l, 0, 0))
        for x in ("front", "rear"):
            b.constrain(un.Skate(f"{x}-wheels", x))
        system = b.build()
        old = reference[1]
        start = 0.6 * np.sin(0.4)
        # the twist of the axle, which moves along its own heading
        V, turn = old.state.base_twist[0, 0], old.state.base_twist[0, 5]
        twist = [V / np.cos(start), 0, 0, 0, 0, turn - 0.6 * 1.3 * np.cos(0.4)]
        quaternion = [np.cos(start / 2), 0, 0, -np.sin(start / 2)]
        start = system.state(base_position=[l, 0, 0], base_quaternion=quaternion, base_twist=twist)
        new = motion(system, start, self.dt, self.stride)
        position = old.bodies.position[:, reference[0].body("front")]
        assert_allclose(new.state.base.position, position, atol=1e-9)
        board = [system.body("board"), reference[0].body("board")]
        assert_allclose(yaw(new.bodies.quaternion[:, board[0]]), yaw(old.bodies.quaternion[:, board[1]]), atol=1e-9)
        names = list(system.coordinate_names)
        assert_allclose(new.efforts[:, names.index("rotor")], old.efforts[:, 0], atol=1e-9)
        # the motor between board and front axle: the same torque, the angle counted the other way round
        assert_allclose(new.efforts[:, names.index("board")], -old.efforts[:, 1], atol=1e-9)
        assert_allclose(new.reactions, old.reactions, atol=1e-8)
        assert np.linalg.norm(position[-1] - position[0]) > 0.1

    @pytest.mark.long
    def test_free_in_space_and_held_to_the_ground(self, reference):
        """A base free in SE3, three of its points on the ground, instead of one free in SE2."""
        p = gallery.load("snakeboard").values(GAIT)
        b = un.Builder("in space", gravity=(0, 0, 0))
        b.base("board", role="free", group="SE3", mass=2.0, inertia=flat(0.0854))
        b.body("rotor", "board", un.Revolute(motion=self.wave("psi")), 2.0, inertia=flat(0.072))
        for x, sign in (("front", 1), ("rear", -1)):
            law = -self.wave("phi") if sign > 0 else self.wave("phi")
            place = (sign * p["half_length"], 0, 0)
            b.body(x, "board", un.Revolute(motion=law), 1.0, inertia=flat(0.0013), position=place)
            b.constrain(un.Skate(f"{x}-wheels", x))
        for k, point in enumerate(((0.1, 0, 0), (-0.1, 0.1, 0), (-0.1, -0.1, 0))):
            b.constrain(un.PointOnPlane(f"foot{k}", "board", point))
        system = b.build()
        old = reference[1].state
        new = moved(system, system.state(base_twist=old.base_twist[0]), self.dt, self.stride)
        assert_allclose(new.base.position, old.base.position, atol=1e-9)
        assert_allclose(new.base.quaternion, old.base.quaternion, atol=1e-9)
        assert_allclose(new.base_twist, old.base_twist, atol=1e-9)
        assert str(un.classify(system)).startswith("under-constrained, isostatic, base free in SE3")

    @pytest.mark.long
    def test_wheels_as_bodies(self):
        """Wheels that turn on free axles, and the same vehicle with rows alone.

        With no sliding sideways, the spin J of a wheel that rolls weighs as much as a mass J/R^2 where it stands.
        """
        R, J, mass, upright, track = 0.05, 2e-3, 0.3, 1.2e-3, 0.2

        def vehicle_with(wheels):
            b = un.Builder("wheeled", gravity=(0, 0, 0))
            b.base("front", role="free", group="SE2", mass=3.0, inertia=flat(0.03))
            law = un.Sinusoid(0.8, 3.0, np.pi / 2)
            b.body("rear", "front", un.Revolute(motion=law), 1.0, (-0.2, 0, 0), flat(0.01), position=(-0.15, 0, 0))
            for body, x in (("front", 0.0), ("rear", -0.2)):
                for name, y in (("left", track / 2), ("right", -track / 2)):
                    what = f"{body}-{name}"
                    if wheels:
                        axle = un.Revolute((0, 1, 0), name=what)
                        b.body(what, body, axle, mass, inertia=(upright, J, upright), position=(x, y, 0))
                        b.constrain(un.Wheel(f"{what}-wheel", body, (x, y, 0), radius=R, roll=what))
                    else:
                        inertia = (upright, J, upright)
                        b.body(what, body, un.Fixed(), mass, inertia=inertia, position=(x, y, 0))
                        b.body(f"{what}-spin", body, un.Fixed(), J / R**2, position=(x, y, 0))
                        b.constrain(un.Wheel(f"{what}-wheel", body, (x, y, 0), radius=R))
            return b.build()

        # an admissible start: the joint is at rest at 0.8 rad, neither axle slides
        c, sn, V = np.cos(0.8), np.sin(0.8), 0.5
        turn = -sn * V / (0.15 * c + 0.2)
        twist = [V, 0, 0, 0, 0, turn]
        speeds = {"front": V, "rear": c * V - sn * 0.15 * turn}
        rates = {
            f"{body}-{name}": (speed - sign * track / 2 * turn) / R
            for body, speed in speeds.items()
            for name, sign in (("left", 1), ("right", -1))
        }
        turning, bare = vehicle_with(True), vehicle_with(False)
        a = moved(turning, turning.state(base_twist=twist, velocity=rates), self.dt, self.stride)
        b = moved(bare, bare.state(base_twist=twist), self.dt, self.stride)
        assert_allclose(a.base.position, b.base.position, atol=1e-9)
        assert_allclose(yaw(a.base.quaternion), yaw(b.base.quaternion), atol=1e-9)
        assert_allclose(a.base_twist, b.base_twist, atol=1e-9)
        # the wheels roll: their rates are the speeds of their contacts over R
        k = turning.coordinate("front-left")
        assert_allclose(R * a.v[:, k], a.base_twist[:, 0] - track / 2 * a.base_twist[:, 5], atol=1e-9)
        assert np.linalg.norm(a.base.position[-1]) > 0.3


# Wheels that slip, and motions that cannot be


class TestSlip:
    @pytest.mark.long
    def test_ideal_wheels_are_the_limit(self):
        """The more friction, the nearer: the difference is as 1 / coefficient."""

        def end(**given):
            system = vehicle("two-axle", **given)
            s = motion(system, system.state(), 5e-4, 200)
            return np.array([*s.state.base.position[-1, :2], yaw(s.state.base.quaternion)[-1]])

        ideal = end()
        errors = [np.linalg.norm(end(friction=c) - ideal) for c in (100.0, 200.0, 400.0)]
        assert 1e-5 < errors[-1] < 0.05
        assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 2, rtol=0.1)

    def test_slip_takes_power(self):
        """Viscous friction: each row takes coefficient times the square of its slip."""
        c = 30.0
        system = vehicle("two-axle", friction=c)
        s, gain, twists = seen(system)
        slips = np.stack([twists[:, 0, 1], twists[:, 1, 1] - 0.2 * twists[:, 1, 5]], 1)
        assert_allclose(s.reactions, -c * slips, atol=1e-12)
        assert_allclose(s.power_external, -c * (slips**2).sum(1), atol=1e-12)
        assert_allclose(s.power_actuators + s.power_external, gain, atol=1e-10)


class TestRefusals:
    def cart(self, rates, **options):
        b = un.Builder("cart", **options)
        b.base("cart", role="free", group="SE2", mass=20.0, inertia=1.0)
        for (name, x, y, slant), law in zip(
            (("fl", 1, 1, -1), ("fr", 1, -1, 1), ("rl", -1, 1, 1), ("rr", -1, -1, -1)), rates
        ):
            b.constrain(un.MecanumWheel(name, "cart", (0.25 * x, 0.2 * y, 0), 0.0, 0.08, law, slant * np.pi / 4))
        return b.build()

    def test_incompatible_wheels_are_named(self):
        system = self.cart([un.Polynomial([0.0, w]) for w in (1.0, 1.0, 1.0, 2.0)])
        with pytest.raises(
            un.UndulaError, match=r"driven motion of 'cart' violates its constraints at t = 0 s: (f|r)(l|r)"
        ):
            un.run(system, t_end=0.1, dt=0.01)

    def test_later_incompatibility_stops_the_run(self):
        system = self.cart([un.Polynomial([0.0, 1.0, w]) for w in (0.0, 0.0, 0.0, 1.0)])
        run = un.run(system, t_end=0.1, dt=0.01, save_every=1)
        assert run.status == "failed" and "the constraints cannot be satisfied at t = 0.01 s" in run.message
        assert run.data.sizes["time"] == 1

    def test_least_squares_on_request(self):
        """Four wheels, one too fast: the pattern (1, -1, -1, 1)/4 of the rates cannot be rolled and becomes slip."""
        system = self.cart([un.Polynomial([0.0, w]) for w in (1.0, 1.0, 1.0, 2.0)], least_squares=True)
        s = solved(system, 0.0, system.state())
        kernel = np.array([1.0, 1.0, -1.0, -1.0]) / 2  # left kernel of the four rows
        assert_allclose(s.residual, 0.08 / np.sqrt(2) * np.abs(kernel @ [1, 1, 1, 2]) / 2, rtol=1e-12)

    def test_incompatible_shape_is_named(self):
        """Four axles and three driven joints: one row more than motions."""
        b = un.Builder("train", gravity=(0, 0, 0))
        b.base("car0", role="free", group="SE2", mass=1.0, inertia=0.01)
        b.constrain(un.Skate("axle0", "car0"))
        for k in range(1, 4):
            law = un.Sinusoid(0.3, 1.0 + 0.2 * k, 0.5 * k, 0.2)
            b.body(f"car{k}", f"car{k - 1}", un.Revolute(motion=law), 1.0, inertia=0.01, position=(-0.3, 0, 0))
            b.constrain(un.Skate(f"axle{k}", f"car{k}", (-0.1, 0, 0)))
        with pytest.raises(
            un.UndulaError, match=r"driven motion of 'train' violates .* axle\d.* by .*cannot be removed"
        ):
            un.admissible(b.build(), b.build().state())

    def test_contradictory_rows_are_named(self):
        b = un.Builder("torn")
        b.base("cart", role="free", group="SE2", mass=1.0, inertia=1.0)
        for name, rate in (("fast", 2.0), ("slow", 1.0)):
            b.constrain(un.Wheel(name, "cart", radius=0.1, roll=un.Polynomial([0.0, rate])))
        with pytest.raises(un.UndulaError, match=r"violates its constraints at t = 0 s: (fast|slow)\.roll by 0\.1"):
            un.admissible(b.build(), b.build().state())


# Laws of wheels


class TestIntegral:
    def test_value_rate_and_acceleration(self):
        law = Integral(un.Sinusoid([0.3, 1.0], [2.0, 3.0], 0.4) + 1.0)
        for t in (0.0, 0.7, 12.0):
            value, rate, gain = (np.asarray(x) for x in law(t))
            a, w = np.array([0.3, 1.0]), np.array([2.0, 3.0])
            assert_allclose(value, t + a / w * (np.cos(0.4) - np.cos(w * t + 0.4)), rtol=1e-13, atol=1e-14)
            assert_allclose(rate, 1 + a * np.sin(w * t + 0.4), rtol=1e-14)
            assert_allclose(gain, a * w * np.cos(w * t + 0.4), rtol=1e-14)

    def test_derivatives_by_parameters(self):
        """The integral of c0 + c1 t: its gradient is (t, t^2 / 2)."""
        by_law = jax.grad(lambda c: Integral(un.Polynomial(c)).value(3.0))(jnp.array([1.0, 2.0]))
        assert_allclose(by_law, [3.0, 4.5], rtol=1e-13)
