"""Facts of locomotion dynamics (document 000): balances, conservation laws, connections, closed forms.

Facts are numbered as in the list of checkable facts of that document; equation numbers are its own.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from trees import random_inertia, random_rotation, unit
from undula import gallery
from undula.scenario.scenario import run_scenario

hybrid = jax.jit(un.hybrid_dynamics)
simulate = jax.jit(un.simulate, static_argnums=3)
reconstruct = jax.jit(un.geometry.reconstruct, static_argnums=3)


@jax.jit
def observe(system, dt, states):
    """Samples along a trajectory, and the conserved quantities."""

    def one(t, state):
        locked, coupled = un.geometry.locomotion_inertia(system, state)
        return dict(
            sample=un.sample(system, state, t),
            residual=locked @ state.base_twist + coupled @ state.v,
            momentum=un.momentum(system, state, "world"),
            centre=un.kinematics.centre_of_mass(system, state),
        )

    return jax.vmap(one)(dt * jnp.arange(states.v.shape[0]), states)


def slope(y, h):
    """Sixth-order central differences, at all but the first and last three samples."""
    return (45 * (y[4:-2] - y[2:-4]) - 9 * (y[5:-1] - y[1:-5]) + (y[6:] - y[:-6])) / (60 * h)


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def crossed(eta):
    """ad of a twist (B.8)."""
    return np.block([[hat(eta[3:]), hat(eta[:3])], [np.zeros((3, 3)), hat(eta[3:])]])


def vee(W):
    return np.array([W[2, 1], W[0, 2], W[1, 0]])


def matrix_of(quaternion):
    return Rotation.from_quat(np.asarray(quaternion), scalar_first=True).as_matrix()


class Tree:
    """A random tree of revolute and prismatic joints and its equations written out literally, with 6x6 matrices."""

    parents = (0, 1, 1, 0, 4)
    slides = (False, True, False, False, True)

    def __init__(self, rng, group="SE3", gravity=(0.0, 0.0, 0.0)):
        n = len(self.parents)
        self.laws = [un.laws.Sinusoid(*rng.uniform(0.2, 0.8, 2), *rng.uniform(-0.5, 0.5, 2)) for _ in range(n)]
        self.mass, self.com = rng.uniform(0.5, 1.5, n + 1), 0.3 * rng.normal(size=(n + 1, 3))
        self.inertia = [random_inertia(rng) for _ in range(n + 1)]
        self.axes = [unit(rng) for _ in range(n)]
        self.places = [(random_rotation(rng), 0.5 * rng.normal(size=3)) for _ in range(n)]
        self.system, self.heavy = self._built(group, gravity), self._built(group, (0.5, -1.0, 2.0))

    def _built(self, group, gravity):
        b = un.Builder("tree", gravity=gravity)
        b.base("b0", role="free", group=group, mass=self.mass[0], com=self.com[0], inertia=self.inertia[0])
        for j in range(len(self.parents)):
            joint = (un.Prismatic if self.slides[j] else un.Revolute)(self.axes[j], motion=self.laws[j])
            R, p = self.places[j]
            k = j + 1
            b.body(f"b{k}", f"b{self.parents[j]}", joint, self.mass[k], self.com[k], self.inertia[k], p, R)
        return b.build()

    def screw(self, j):
        o = np.zeros(3)
        return np.concatenate([self.axes[j], o] if self.slides[j] else [o, self.axes[j]])

    def spatial_inertia(self, k):
        m, S = self.mass[k], hat(self.mass[k] * self.com[k])
        return np.block([[m * np.eye(3), -S], [S, self.inertia[k] - m * hat(self.com[k]) @ hat(self.com[k])]])

    def adjoints(self, r):
        """Ad of the maps from each parent's frame to its child's: twists of i, seen in j (3.6)."""
        out = []
        for j, (R0, p0) in enumerate(self.places):
            if self.slides[j]:
                R, p = R0, p0 + R0 @ self.axes[j] * r[j]
            else:
                R, p = R0 @ scipy.linalg.expm(hat(self.axes[j]) * r[j]), p0
            out.append(np.block([[R.T, -R.T @ hat(p)], [np.zeros((3, 3)), R.T]]))
        return out

    def locomotion_model(self, r, v, a, eta, external):
        """M_o+ and F_o+ by the explicit sums (3.23), (3.24)."""
        Ad = self.adjoints(r)
        n = len(Ad)
        twists, to_base, carried = [eta], [np.eye(6)], [np.zeros(6)]
        for j in range(n):
            i = self.parents[j]
            own = self.screw(j) * v[j]
            twists.append(Ad[j] @ twists[i] + own)
            to_base.append(Ad[j] @ to_base[i])
            zeta = crossed(twists[-1]) @ own + self.screw(j) * a[j]
            carried.append(Ad[j] @ carried[i] + zeta)  # sum over the ancestors l of Ad_{j g_l} zeta_l
        M, F = np.zeros((6, 6)), np.zeros(6)
        for k in range(n + 1):
            Mk = self.spatial_inertia(k)
            gyroscopic = crossed(twists[k]).T @ Mk @ twists[k]
            M += to_base[k].T @ Mk @ to_base[k]
            F += to_base[k].T @ (gyroscopic + external[k] - Mk @ carried[k])
        return M, F


@pytest.fixture(scope="module")
def tree():
    return Tree(np.random.default_rng(7))


STEPS, DT = 400, 0.005


@pytest.fixture(scope="module")
def motion(tree):
    """The tree from rest (zero momentum, not zero velocity), by the locomotion dynamics (3.29)."""
    system = tree.system
    start = un.kinematics.driven_motion(system, system.state(base_position=[0.3, -0.1, 0.2]), 0.0)[0]
    twist = jax.jit(un.geometry.resting_twist)(system, start)
    start = un.State(start.base, start.q, twist, start.v)
    states = simulate(system, start, DT, STEPS)
    return start, states, observe(system, DT, states)


# Facts 2 and 3: one body, accelerations


def test_single_free_body_obeys_newton_and_euler(rng):
    m, c, I = 1.7, np.array([0.2, -0.1, 0.3]), random_inertia(rng)
    b = un.Builder("body", gravity=(1.0, 2.0, -9.0))
    b.base("hull", role="free", mass=m, com=c, inertia=I)
    system = b.build()
    eta = rng.normal(size=6)
    state = system.state(base_quaternion=unit(rng, 4), base_twist=eta)
    force, couple = rng.normal(size=3), rng.normal(size=3)
    found = jax.jit(un.forward_dynamics)(
        system, state, jnp.zeros(0), jnp.asarray(np.concatenate([force, couple]))[None]
    )
    # Newton and Euler at the centre of mass, in body axes; then to the origin, as derivatives of components
    V, W = eta[:3], eta[3:]
    dW = np.linalg.solve(I, couple - np.cross(c, force) - np.cross(W, I @ W))
    gravity = matrix_of(state.base.quaternion).T @ [1.0, 2.0, -9.0]
    centre = force / m + gravity  # acceleration of the centre of mass
    origin = centre - np.cross(dW, c) - np.cross(W, np.cross(W, c))
    assert_allclose(found.base, np.concatenate([origin - np.cross(W, V), dW]), rtol=1e-12)


def test_torque_free_top_keeps_momentum_and_energy():
    b = un.Builder("top", gravity=(0.0, 0.0, 0.0))
    b.base("top", role="free", group="SO3", mass=1.0, inertia=(1.0, 2.0, 2.5))
    system = b.build()
    states = simulate(system, system.state(base_twist=[0, 0, 0, 0.1, 3.0, 0.2]), 1e-3, 4000)
    I, W = np.array([1.0, 2.0, 2.5]), np.asarray(states.base_twist)[:, 3:]
    h = I * W
    assert np.ptp(W[:, 1]) > 5  # it tumbles: the middle axis is unstable
    assert_allclose(np.linalg.norm(h, axis=1), np.linalg.norm(h[0]), rtol=1e-11)
    assert_allclose((W * h).sum(1), W[0] @ h[0], rtol=1e-11)
    in_space = np.einsum("tij,tj->ti", matrix_of(states.base.quaternion), h)
    assert_allclose(in_space, np.tile(h[0], (len(h), 1)), atol=1e-10)


def test_accelerations_are_derivatives_of_twists(rng):
    # (3.9) in the form of component derivatives, through all kinds of driven joints, against differences in time
    law = un.laws.Sinusoid(rng.uniform(0.3, 0.6, 6), 1.3, rng.uniform(0, 3, 6))
    b = un.Builder("moving")
    b.base("b0", role="driven", motion=law)
    b.body(
        "b1",
        "b0",
        un.Universal((1, 0, 0), (0, 1, 1), motion=un.laws.Sinusoid([0.5, 0.7], 2.0)),
        1.0,
        position=(1, 0, 0),
    )
    b.body("b2", "b1", un.Spherical(motion=un.laws.Sinusoid([0.5, 0.7, 0.2], 1.7)), 1.0, position=(0, 1, 0))
    b.body("b3", "b2", un.Planar(motion=un.laws.Sinusoid([0.5, 0.7, 0.2], 1.1, 0.4)), 1.0, position=(0, 0, 1))
    b.body("b4", "b3", un.Helical((0, 1, 2), 0.2, motion=un.laws.Sinusoid(0.5, 1.9)), 1.0, position=(0, 1, 1))
    system, h = b.build(), 1e-3

    @jax.jit
    def at(t):
        state, acceleration = un.kinematics.driven_motion(system, system.state(), t)
        return un.kinematics.body_twists(system, state), un.kinematics.body_accelerations(system, state, acceleration)

    twists = np.array([at(0.7 + k * h)[0] for k in range(-3, 4)])
    assert_allclose(at(0.7)[1], slope(twists, h)[0], atol=1e-9)


# Facts 4, 5 and 6: explicit sums; balances and conservation along a motion


class TestTree:
    """Facts 4, 5 and 6 on one random tree."""

    def test_locomotion_model_is_its_explicit_sums(self, tree, rng):
        system = tree.system
        force, inertia = jax.jit(un.geometry.locomotion_force), jax.jit(un.geometry.locomotion_inertia)
        inverse = jax.jit(un.inverse_dynamics)
        for _ in range(3):
            r, v, a, eta = rng.normal(size=5), rng.normal(size=5), rng.normal(size=5), rng.normal(size=6)
            external = rng.normal(size=(6, 6))
            state = system.state(r, v, base_twist=eta, base_position=rng.normal(size=3), base_quaternion=unit(rng, 4))
            M, F = tree.locomotion_model(r, v, a, eta, external)
            locked, coupled = inertia(system, state)
            assert_allclose(locked, M, atol=1e-12)
            assert np.linalg.eigvalsh(locked).min() > 0
            assert_allclose(force(system, state, jnp.asarray(a), jnp.asarray(external)), F, atol=1e-11)
            # column k of oM_r is F_o+ for r'' = -e_k at rest (section 2.3); columns of M_o+ are unit base accelerations
            still = system.state(r)
            for k in range(5):
                column = force(system, still, -jnp.eye(5)[k], jnp.zeros((6, 6)))
                assert_allclose(coupled[:, k], column, atol=1e-12)
            for k in range(6):
                unit_motion = un.Acceleration(jnp.eye(6)[k], jnp.zeros(5))
                assert_allclose(locked[:, k], inverse(system, still, unit_motion).base, atol=1e-12)

    def test_root_wrench_is_zero_and_power_is_balanced(self, motion):
        _, _, seen = motion
        s = seen["sample"]
        assert np.ptp(s.energy_kinetic) > 0.1  # something happens
        assert_allclose(s.base_wrench, 0, atol=1e-12)
        assert_allclose(s.power_actuators[3:-3], slope(np.asarray(s.energy_kinetic), DT), atol=1e-9)
        power = (np.asarray(s.efforts) * np.asarray(s.state.v)).sum(1)
        assert_allclose(s.power_actuators, power, atol=1e-14)
        assert_allclose(s.power_external, 0, atol=0)

    def test_momentum_stays_zero_and_centre_of_mass_fixed(self, motion):
        _, states, seen = motion
        assert np.ptp(np.asarray(states.base.position), axis=0).max() > 0.05
        assert_allclose(seen["residual"], 0, atol=1e-11)  # (3.31) along (3.29)
        assert_allclose(seen["momentum"], 0, atol=1e-11)
        assert_allclose(seen["centre"], np.tile(seen["centre"][0], (STEPS + 1, 1)), atol=1e-11)

    def test_connection_and_dynamics_give_the_same_motion(self, tree, motion):
        start, states, _ = motion
        poses = reconstruct(tree.system, start.base, DT, STEPS)
        assert_allclose(poses.position, states.base.position, atol=1e-10)
        assert_allclose(poses.quaternion, states.base.quaternion, atol=1e-10)

    def test_momentum_in_space_is_constant_from_any_start(self, tree, rng):
        # not from rest, and with gravity: the rate of the momentum is the wrench of the weight
        system = tree.heavy
        start = un.kinematics.driven_motion(system, system.state(base_twist=rng.normal(size=6)), 0.0)[0]
        seen = observe(system, DT, simulate(system, start, DT, STEPS))
        P, c, weight = (
            np.asarray(seen["momentum"]),
            np.asarray(seen["centre"]),
            tree.mass.sum() * np.array([0.5, -1.0, 2.0]),
        )
        t = DT * np.arange(STEPS + 1)
        assert_allclose(P[:, :3], P[0, :3] + t[:, None] * weight, atol=3e-10)
        assert_allclose(slope(P[:, 3:], DT), np.cross(c[3:-3], weight), atol=1e-8)
        fall = c[0] + t[:, None] * P[0, :3] / tree.mass.sum() + t[:, None] ** 2 / 2 * weight / tree.mass.sum()
        assert_allclose(c, fall, atol=1e-10)


class Drag(un.ForceModel):
    coefficient: jax.Array

    def wrench(self, at):
        return -self.coefficient * at.sites[0].twist


@pytest.mark.long
def test_energy_balance_with_springs_dampers_controllers_and_surroundings():
    b = un.Builder("busy")
    b.base("b0", role="driven", group="SE2", motion=un.laws.Sinusoid([0.3, 0.2, 0.5], [1.0, 2.0, 1.5]))
    body = dict(mass=1.0, com=(0.1, 0.2, -0.3), inertia=(0.1, 0.12, 0.15))
    b.body("b1", "b0", un.Revolute((1, 0, 1), stiffness=5.0, damping=0.1, rest=0.1), **body)
    b.body("b2", "b1", un.Revolute((0, 1, 0), motion=un.laws.Sinusoid(0.5, 3.0)), position=(0.3, 0, 0), **body)
    b.body(
        "b3",
        "b1",
        un.Prismatic(effort=un.forces.ProportionalDerivative(30.0, 1.0, 0.1)),
        position=(0, 0.3, 0),
        **body,
    )
    b.add(*(Drag(jnp.asarray(0.3), sites=f"b{k}") for k in range(4)))
    system = b.build()

    @jax.jit
    def compute(system, state):
        states = un.simulate(system, state, DT, 200)
        times = DT * jnp.arange(201)
        return jax.vmap(lambda t, x: un.sample(system, x, t))(times, states)

    s = compute(system, system.state([0.3, 0.0, 0.2], [1.0, 0.0, 0.3]))
    energy = np.asarray(s.energy_kinetic + s.energy_potential)
    power = np.asarray(s.power_actuators + s.power_external)
    assert np.abs(power).max() > 1
    assert_allclose(power[3:-3], slope(energy, DT), atol=2e-7)


# Fact 7: consequences of a connection


def swimmer(first, second, group="SE3"):
    """Three links with different masses and perpendicular hinges, weightless."""
    b = un.Builder("swimmer", gravity=(0.0, 0.0, 0.0))
    link = dict(mass=1.0, com=(0.2, 0.05, 0.0), inertia=(0.02, 0.05, 0.06))
    b.base("b0", role="free", group=group, **link)
    b.body("b1", "b0", un.Revolute((0, 0, 1), motion=first), position=(0.4, 0, 0), **link)
    b.body("b2", "b1", un.Revolute((0, 1, 1), motion=second), position=(0.4, 0, 0), **link)
    return b.build()


START = un.Pose(jnp.array([0.1, -0.2, 0.3]), jnp.array([0.5, 0.5, -0.5, 0.5]))
LOOP = (un.laws.Sinusoid(0.8, 1.0), un.laws.Sinusoid(0.7, 1.0, 1.3))


def net_motion(laws, steps=600, duration=2 * np.pi, start=START):
    poses = reconstruct(swimmer(*laws), start, duration / steps, steps)
    return jax.tree.map(lambda x: np.asarray(x[-1]), poses)


def far(a, b):
    return max(np.abs(a.position - b.position).max(), np.abs(a.quaternion - b.quaternion).max())


class TestSwimmer:
    """Fact 7 on one swimmer."""

    def test_a_loop_of_shapes_moves_a_body_that_starts_at_rest(self):
        moved = net_motion(LOOP)
        assert far(moved, START) > 0.01

    def test_scallop_theorem(self):
        # one coordinate moves back and forth: no net motion
        moved = net_motion((LOOP[0], un.laws.Sinusoid(0.0, 1.0)))
        assert far(moved, START) < 1e-10

    def test_retraced_path_gives_no_net_motion(self):
        back_and_forth = un.laws.Sinusoid(-1.5, 1.0, np.pi / 2, 1.5)  # the pace goes 0 -> 3 -> 0
        retraced = [un.laws.Retimed(law, back_and_forth) for law in LOOP]
        halfway = net_motion(retraced, duration=np.pi)
        assert far(halfway, START) > 0.01
        assert far(net_motion(retraced), START) < 1e-9

    def test_net_motion_does_not_depend_on_the_pace(self):
        hurried = un.laws.Quintic(0.0, 2 * np.pi, 0.0, 3.0)
        slow = net_motion(LOOP)
        fast = net_motion([un.laws.Retimed(law, hurried) for law in LOOP], duration=3.0)
        assert far(fast, slow) < 1e-9

    def test_left_invariance(self, rng):
        # started at g0, the motion is g0 g(t)
        system = swimmer(*LOOP)
        base = un.Pose(jnp.asarray(rng.normal(size=3)), jnp.asarray(unit(rng, 4)))
        plain = reconstruct(system, un.Pose.identity(), 2 * np.pi / 600, 600)
        moved = reconstruct(system, base, 2 * np.pi / 600, 600)
        carried = jax.vmap(lambda p, q: base @ un.Pose(p, q))(plain.position, plain.quaternion)
        assert_allclose(moved.position, carried.position, atol=1e-13)
        assert_allclose(moved.quaternion, carried.quaternion, atol=1e-13)

    def test_reconstruction_is_of_fourth_order(self):
        exact = net_motion(LOOP, duration=2.0)
        coarse, fine = (far(net_motion(LOOP, steps, duration=2.0), exact) for steps in (15, 30))
        assert abs(np.log2(coarse / fine) - 4) < 0.2


def test_reconstruction_needs_a_driven_shape_and_a_free_base():
    b = un.Builder("loose", gravity=(0, 0, 0))
    b.base("b0", role="free", mass=1.0, inertia=1.0)
    b.body("hinge", "b0", un.Revolute(), mass=1.0, inertia=1.0)
    with pytest.raises(un.UndulaError, match="hinge"):
        un.geometry.reconstruct(b.build(), un.Pose.identity(), 0.1, 1)


def wheeled_snake(laws, wheels=(0, 1, 2), slip=None):
    """Three links of 0.4 m, each with a pair of wheels at its middle that do not slide sideways."""
    b = un.Builder("snake", gravity=(0, 0, 0))
    link = dict(mass=1.0, inertia=0.02)
    b.base("link0", role="free", group="SE2", **link)
    b.body("link1", "link0", un.Revolute(motion=laws[0]), position=(0.2, 0, 0), com=(0.2, 0, 0), **link)
    b.body("link2", "link1", un.Revolute(motion=laws[1]), position=(0.4, 0, 0), com=(0.2, 0, 0), **link)
    for k in wheels:
        wheels = un.rows.Skate(f"wheels{k}", f"link{k}", position=(0.2 if k else 0.0, 0, 0))
        b.add(wheels if slip is None else wheels.slipping(slip))
    return b.build()


SNAKE_GAIT = un.laws.Sinusoid(0.5, 1.5, 0.0, 0.8), un.laws.Sinusoid(0.5, 1.5, np.pi / 2, 0.8)


class TestWheeledSnake:
    """Reconstruction by the rows of constraints."""

    def test_against_the_kinematics(self):
        """No wheel slides sideways: three equations for the velocities of the first link, integrated by SciPy."""

        def angles(t):
            phase = 1.5 * t + np.array([0, np.pi / 2])
            return 0.8 + 0.5 * np.sin(phase), 0.75 * np.cos(phase)

        def rates(t, y):
            r, dr = angles(t)
            heading = y[2] + np.array([0.0, r[0], r[0] + r[1]])
            left = np.stack([-np.sin(heading), np.cos(heading)], 1)
            # link centres: velocities as (x', y') plus turning rates of the links times lever arms
            levers = 0.2 * np.array([[0, 0, 0], [1, 1, 0], [1, 2, 1]])
            turn = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])  # rates of the headings from (first, r1', r2')
            A, c = np.zeros((3, 3)), np.zeros(3)
            for k in range(3):
                velocity = (levers[k][:, None] * left).T @ turn  # (2, 3) over (first heading's rate, r1', r2')
                A[k] = [*left[k], left[k] @ velocity[:, 0]]
                c[k] = left[k] @ velocity[:, 1:] @ dr
            assert abs(np.linalg.det(A)) > 1e-4
            return np.linalg.solve(A, -c)

        exact = scipy.integrate.solve_ivp(rates, (0, 4.0), [0.1, 0.2, 0.3], rtol=1e-11, atol=1e-12).y[:, -1]
        turned = jnp.array([np.cos(0.15), 0, 0, np.sin(0.15)])
        poses = reconstruct(wheeled_snake(SNAKE_GAIT), un.Pose(jnp.array([0.1, 0.2, 0.0]), turned), 0.01, 400)
        assert poses.position.shape == (401, 3)
        assert_allclose(poses.position[-1], [*exact[:2], 0], atol=1e-6)
        w, _, _, z = np.asarray(poses.quaternion[-1])
        assert_allclose(np.angle(np.exp(1j * (2 * np.arctan2(z, w) - exact[2]))), 0, atol=1e-6)

    def test_refusals(self):
        """A motion that depends on forces, or that the rows do not determine."""
        start = un.Pose.identity()
        with pytest.raises(un.UndulaError, match=r"2 rows do not determine the 3 velocities of its base.*use run"):
            un.geometry.reconstruct(wheeled_snake(SNAKE_GAIT, (0, 1)), start, 0.01, 4)
        with pytest.raises(un.UndulaError, match="its slip laws take forces; use run"):
            un.geometry.reconstruct(wheeled_snake(SNAKE_GAIT, slip=un.rows.Viscous(1.0)), start, 0.01, 4)
        straight = wheeled_snake((un.laws.Sinusoid(0.0, 1.0), un.laws.Sinusoid(0.0, 1.0)))
        with pytest.raises(
            un.UndulaError, match="beyond t = 0 s: the rank of its rows is 2, which does not determine the 3"
        ):
            un.geometry.reconstruct(straight, start, 0.01, 4)


# Fact 8: abelian groups


def turntable(angle, slide):
    """A base that turns about z, an arm that turns on it and a point mass that slides along the arm."""
    b = un.Builder("turntable", gravity=(0.0, 0.0, 0.0))
    b.base("table", role="free", group="SO2", mass=1.0, inertia=(1.0, 1.0, 0.8))
    b.body("arm", "table", un.Revolute((0, 0, 1), motion=angle), 1.0, inertia=(0.1, 0.1, 0.15))
    b.body("mass", "arm", un.Prismatic((1, 0, 0), motion=slide), 2.0)
    return b.build()


def test_net_rotation_is_the_area_integral_of_the_curvature():
    a, b, r0 = 0.9, 0.4, 0.7
    system = turntable(un.laws.Sinusoid(a, 1.0), un.laws.Sinusoid(b, 1.0, np.pi / 2, r0))
    steps = 400
    poses = reconstruct(system, un.Pose.identity(), 2 * np.pi / steps, steps)
    quaternion = np.asarray(poses.quaternion[-1])
    found = 2 * np.arctan2(quaternion[3], quaternion[0])
    assert_allclose(poses.position, 0, atol=0)

    # -A dr over the ellipse theta = a sin s, r = r0 + b cos s, traversed clockwise in the plane (theta, r)
    arm = lambda r: 0.15 + 2.0 * r**2  # noqa: E731
    closed_curvature = lambda r: 4.0 * r * 0.8 / (0.8 + arm(r)) ** 2  # noqa: E731  d/dr of arm/(0.8 + arm)

    @jax.jit
    @jax.vmap
    def curvature(theta, r):
        A = lambda x: un.geometry.connection(system, system.state(x))[5]  # noqa: E731
        J = jax.jacfwd(A)(jnp.stack([theta, r]))  # J[k, l] = dA_k/dr_l
        return J[1, 0] - J[0, 1]

    # net rotation = -closed integral of A = -area integral of (dA_r/dtheta - dA_theta/dr), orientation theta -> r
    nodes, weights = np.polynomial.legendre.leggauss(24)
    phi, rho = np.linspace(0, 2 * np.pi, 48, endpoint=False), (nodes + 1) / 2
    theta = a * rho[:, None] * np.cos(phi)
    r = r0 + b * rho[:, None] * np.sin(phi)
    area = weights[:, None] / 2 * (2 * np.pi / 48) * a * b * rho[:, None]
    bend = np.asarray(curvature(theta.ravel(), r.ravel())).reshape(theta.shape)
    assert_allclose(bend, -closed_curvature(r), rtol=1e-12)
    integral = (area * bend).sum()
    assert abs(found) > 0.1
    assert_allclose(found, integral, rtol=1e-8)  # clockwise: two signs cancel
    line, _ = scipy.integrate.quad(
        lambda s: -arm(r0 + b * np.cos(s)) / (0.8 + arm(r0 + b * np.cos(s))) * a * np.cos(s),
        0,
        2 * np.pi,
        epsabs=1e-12,
    )
    assert_allclose(found, line, rtol=1e-8)


def test_a_translating_base_has_no_curvature():
    # the base cannot turn, so its position follows from the shape: the centre of mass is fixed
    system = swimmer(*LOOP, group="R3")
    poses = reconstruct(system, un.Pose.identity(), 2 * np.pi / 400, 400)
    assert np.ptp(np.asarray(poses.position), axis=0).max() > 0.1
    assert_allclose(poses.position[-1], poses.position[0], atol=1e-10)
    J = jax.jit(jax.jacfwd(lambda x: un.geometry.connection(system, system.state(x))[:3]))(jnp.array([0.4, -0.3]))
    assert_allclose(J[:, 0, 1], J[:, 1, 0], atol=1e-14)


# Fact 13: linear cost


def equations(jaxpr):
    """Number of equations, including those inside loops and calls."""
    total = 0
    for eqn in jaxpr.eqns:
        total += 1
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += equations(inner)
    return total


def comb(n, branching):
    b = un.Builder("comb")
    b.base("b0", role="free", mass=1.0, inertia=1.0)
    for k in range(1, n + 1):
        joint = un.Revolute((0, 1, 0)) if k % 2 else un.Universal()
        b.body(
            f"b{k}",
            f"b{max(0, k - 1 - (branching and k % 3 == 0))}",
            joint,
            1.0,
            inertia=1.0,
            position=(1, 0, 0),
        )
    return b.build()


@pytest.mark.parametrize("branching", [False, True])
def test_programs_do_not_grow_with_the_number_of_bodies(branching):
    # the cost of a loop is linear in its length only if the loop is not unrolled
    functions = {
        "inverse": lambda s, x, a: un.inverse_dynamics(s, x, a),
        "forward": lambda s, x, a: un.forward_dynamics(s, x, a.v),
        "mass": lambda s, x, a: un.mass_matrix(s, x),
        "poses": lambda s, x, a: un.kinematics.body_poses(s, x),
    }
    sizes = []
    for n in (6, 48):
        system = comb(n, branching)
        motion = un.Acceleration(jnp.zeros(6), jnp.zeros(system.nv))
        traced = {k: jax.make_jaxpr(f)(system, system.state(), motion) for k, f in functions.items()}
        sizes.append({k: equations(x.jaxpr) for k, x in traced.items()})
    assert sizes[0] == sizes[1]
    assert min(sizes[0].values()) > 50


# Fact 15: satellite with three rotors


ROTOR, BODY, PLACE = 0.12, np.array([1.0, 2.0, 2.5]), 0.5
RATES, PHASES = np.array([1.0, 1.7, 2.3]), np.array([0.3, 0.0, 1.1])


def satellite(laws):
    """Rotors along the axes of the body, as pairs of half rotors, so that the body's origin is the mass centre."""
    b = un.Builder("satellite", gravity=(0.0, 0.0, 0.0))
    b.base("body", role="free", group="SO3", mass=10.0, inertia=BODY)
    for k, axis in enumerate(np.eye(3)):
        about = 0.08 + (ROTOR - 0.08) * axis
        b.body(f"r{k}", "body", un.Revolute(axis, motion=laws[k]), 0.7, inertia=about, position=PLACE * axis)
        b.body(f"weight{k}", "body", un.Fixed(), 0.7, position=-PLACE * axis)
    return b.build()


def locked_satellite():
    I = np.diag(BODY)
    for axis in np.eye(3):
        P = hat(PLACE * axis)
        I = I + np.diag(0.08 + (ROTOR - 0.08) * axis) + 2 * 0.7 * P.T @ P
    return I


def test_satellite_closed_forms():
    system = satellite([un.laws.Sinusoid(1.5, *x) for x in zip(RATES, PHASES)])
    I = locked_satellite()
    omega, t = np.array([0.3, -0.4, 0.2]), 0.8
    found = hybrid(system, system.state(base_twist=[0, 0, 0, *omega]), t)
    phase = RATES * t + PHASES
    dr, ddr = 1.5 * RATES * np.cos(phase), -1.5 * RATES**2 * np.sin(phase)
    domega = np.linalg.solve(I, -ROTOR * ddr - np.cross(omega, I @ omega + ROTOR * dr))  # (4.4)
    assert_allclose(found.acceleration.base, [0, 0, 0, *domega], atol=1e-13)
    assert_allclose(found.efforts, ROTOR * (domega + ddr), atol=1e-13)  # (4.6)
    energy = jax.jit(un.kinetic_energy)(system, found.state)
    wanted = (omega @ I @ omega + ROTOR * dr @ dr) / 2 + ROTOR * omega @ dr  # L1609
    assert_allclose(energy, wanted, rtol=1e-13)
    # momentum for any rotor law, and from rest (2.5)
    A = jax.jit(un.geometry.connection)(system, found.state)
    assert_allclose(A, np.vstack([np.zeros((3, 3)), np.linalg.inv(I) * ROTOR]), atol=1e-14)
    states = simulate(system, system.state(base_twist=[0, 0, 0, *omega]), 0.01, 500)
    W, v = np.asarray(states.base_twist)[:, 3:], np.asarray(states.v)
    h = np.einsum("tij,tj->ti", matrix_of(states.base.quaternion), W @ I.T + ROTOR * v)
    assert_allclose(h, np.tile(h[0], (501, 1)), atol=1e-8)


def test_satellite_turned_by_one_rotor():
    system = satellite([un.laws.Quintic(0.0, 5.0, 0.0, 1.0), un.laws.Constant(0.0), un.laws.Constant(0.0)])
    poses = reconstruct(system, un.Pose.identity(), 0.01, 100)
    angle = -ROTOR / locked_satellite()[0, 0] * 5.0
    wanted = Rotation.from_rotvec([angle, 0, 0]).as_quat(scalar_first=True)
    assert_allclose(poses.quaternion[-1], wanted, atol=1e-12)


# The gallery


@pytest.mark.parametrize(
    "name, given, rate", [("satellite", {}, 1.0), ("chain", {}, 2.0), ("chain", {"rate": -3.0}, 3.0)]
)
def test_cyclic_entries_run_whole_cycles_in_whole_steps(name, given, rate):
    setup = gallery.load(name).setup(**given)
    for count in (rate * setup.t_end / (2 * np.pi), setup.t_end / setup.dt):
        assert count == pytest.approx(round(count), rel=1e-12)


@pytest.mark.parametrize("axis, flips", [(0, 0), (1, 3), (2, 0)])
def test_only_a_spin_about_the_middle_axis_flips(axis, flips):
    spin = np.where(np.arange(3) == axis, 5.0, 0.01)
    assert run_scenario(gallery.load("free-body"), {"spin": spin}).metrics["flips"] == flips
