"""Model-based controllers: computed torque gives a linear error dynamics, an impedance a stiffness that loads confirm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from undula.numerics.programs import quickly_compiled

KP, KD = np.array([30.0, 50.0, 20.0]), np.array([4.0, 10.0, 6.0])
LAW = un.laws.Sinusoid([0.6, 0.5, 0.7], [1.0, 2.0, 1.5], [0.3, 0.0, 1.0])
OFF, RATE_OFF = np.array([0.3, -0.2, 0.4]), np.array([0.5, 0.0, -1.0])


def arm(controller=None, mass=1.0, base="fixed", load=True):
    """Three links in space, with a spring, a damper and a load."""
    b = un.Builder("arm")
    b.base("ground", role=base, mass=3.0, inertia=0.3)
    axes, parent = ((0, 0, 1), (0, 1, 0), (0, 0.6, 0.8)), "ground"
    for k, axis in enumerate(axes, start=1):
        joint = un.Revolute(axis, stiffness=0.7 * k, damping=0.1 * k)
        b.body(f"j{k}", parent, joint, mass * k, (0.1, 0.02, -0.2), (0.02, 0.03, 0.01), (0, 0, -0.4 * (k > 1)))
        parent = f"j{k}"
    if load:
        b.add(un.forces.Load("j3", (1.0, 2.0, -0.5)))
    if controller is not None:
        b.force(["j1", "j2", "j3"], controller)
    return b.build()


def started(system):
    x, dx, _ = (np.asarray(y) for y in LAW(0.0))
    return system.state(x - OFF, dx - RATE_OFF)


def decay(t, kp, kd, e0, de0):
    """Solution of e'' + kd e' + kp e = 0."""
    r = np.roots([1.0, kd, kp]).astype(complex)
    c = np.linalg.solve([[1, 1], r], [e0, de0])
    return (c[:, None] * np.exp(r[:, None] * t)).sum(0).real


@quickly_compiled
def accelerations(system, t, state):
    return un.hybrid_dynamics(system, state, t)


@pytest.fixture(scope="module")
def tracking():
    return arm(un.forces.ComputedTorque(KP, KD, LAW, name="tracking"))


@pytest.fixture(scope="module")
def linkage():
    """A four-bar linkage whose crank is controlled, and a state on its way."""
    b = un.Builder("four-bar")
    b.base("ground")
    b.body("crank", "ground", un.Revolute((0, -1, 0)), 1.0, (0.15, 0, 0), 0.02)
    b.body("rod", "crank", un.Revolute((0, -1, 0)), 1.0, (0.4, 0, 0), 0.05, position=(0.3, 0, 0))
    b.body("rocker", "ground", un.Revolute((0, -1, 0), damping=0.2), 1.0, (0.25, 0, 0), 0.02, position=(0.8, 0, 0))
    b.add(un.rows.Closure("pin", un.site("rod", (0.8, 0, 0)), un.site("rocker", (0.5, 0, 0)), "spherical"))
    b.force("crank", un.forces.ComputedTorque(9.0, 6.0, 1.0))
    system = b.build()
    return system, un.assemble(system, system.state([1.2, -0.9, 1.9])).replace(v=jnp.asarray([1.0, 0.0, 0.0]))


class TestComputedTorque:
    @pytest.mark.parametrize(
        "method, bound",
        [(None, 1e-8), (un.integrators.GeneralisedAlpha(), 1e-4), (un.integrators.Moreau(theta=0.5), 1.5e-2)],
        ids=["explicit", "implicit", "Moreau"],
    )
    def test_the_error_obeys_its_linear_equation(self, tracking, method, bound):
        run = un.run(tracking, started(tracking), t_end=1.0, dt=0.005, integrator=method)
        assert run.ok, run.message
        t = run.data.time.values
        wanted = np.stack([np.asarray(LAW.value(x)) for x in t])
        error = wanted - run.data.position.values
        exact = np.stack([decay(t, *x) for x in zip(KP, KD, OFF, RATE_OFF)], axis=1)
        assert_allclose(error, exact, atol=bound)

    def test_its_output_is_recorded_and_is_inverse_dynamics(self, tracking):
        state, plain = started(tracking), arm()
        x, dx, ddx = (np.asarray(y) for y in LAW(0.4))
        found = accelerations(tracking, 0.4, state)
        gain = ddx + KD * (dx - np.asarray(state.v)) + KP * (x - np.asarray(state.q))
        assert_allclose(found.acceleration.v, gain, atol=1e-9)
        needed = un.inverse_dynamics(plain, state, un.Acceleration(jnp.zeros(6), jnp.asarray(gain)))
        assert_allclose(found.efforts, needed.v, atol=1e-9)

    def test_another_model(self):
        """With wrong masses, and without the load: the effort is that of the model, the motion follows from the system's."""
        believed = arm(mass=0.7, load=False)
        system = arm(un.forces.ComputedTorque(KP, KD, LAW, model=believed))
        state = started(system)
        found = accelerations(system, 0.0, state)
        ddx = np.asarray(LAW(0.0)[2])
        gain = ddx + KD * RATE_OFF + KP * OFF
        tau = un.inverse_dynamics(believed, state, un.Acceleration(jnp.zeros(6), jnp.asarray(gain))).v
        assert_allclose(found.efforts, tau, atol=1e-9)
        plain = arm()
        h = un.inverse_dynamics(plain, state, un.Acceleration.zero(3)).v
        assert_allclose(np.asarray(un.mass_matrix(plain, state)) @ found.acceleration.v, tau - h, atol=1e-9)

    def test_some_coordinates_of_a_free_system(self):
        """Two of three joints of a floating arm: the third, and the base, move as they must, and momentum is kept."""
        b = un.Builder("floating", gravity=(0, 0, 0))
        b.base("hull", role="free", mass=3.0, inertia=0.3)
        parent = "hull"
        for k, axis in enumerate(((0, 0, 1), (0, 1, 0), (1, 0, 0)), start=1):
            b.body(f"j{k}", parent, un.Revolute(axis, damping=0.1), 1.0, (0.1, 0, -0.2), 0.02, (0, 0, -0.3))
            parent = f"j{k}"
        b.force(["j3", "j1"], un.forces.ComputedTorque(9.0, 6.0, [0.5, -0.4]))
        system = b.build()
        found = accelerations(system, 0.0, system.state([0.1, 0.2, 0.3], [1.0, 0.5, -1.0], base_twist=np.full(6, 0.1)))
        assert_allclose(found.acceleration.v[0], 9 * (-0.4 - 0.1) - 6 * 1.0, atol=1e-10)
        assert_allclose(found.acceleration.v[2], 9 * (0.5 - 0.3) + 6 * 1.0, atol=1e-10)
        assert_allclose(found.efforts[1], 0, atol=1e-14)

    def test_under_constraints(self, linkage):
        """The crank of a four-bar linkage: its acceleration is that asked for."""
        system, start = linkage
        found = accelerations(system, 0.0, start)
        error, rate = 1.0 - float(found.state.q[0]), -float(found.state.v[0])
        assert abs(rate) > 0.1
        assert_allclose(found.acceleration.v[0], 9 * error + 6 * rate, atol=1e-9)

    @pytest.mark.long
    def test_its_derivative_under_constraints(self, linkage):
        """The multipliers of redundant rows do not spoil it: against differences."""
        system, start = linkage

        def solution(h):
            return un.hybrid_dynamics(system, start.replace(q=start.q + h * jnp.asarray([1.0, 0.5, 0.3])), 0.0)

        def plain(h):
            return jnp.stack([solution(h).efforts[0], solution(h).acceleration.v[1]])

        h, compiled = 1e-5, quickly_compiled(plain)
        exact = (np.asarray(compiled(h)) - compiled(-h)) / (2 * h)
        assert_allclose(quickly_compiled(jax.jacfwd(plain))(0.0), exact, rtol=1e-7)
        assert_allclose(quickly_compiled(jax.grad(lambda h: solution(h).acceleration.v[1]))(0.0), exact[1], rtol=1e-7)

    def test_a_spherical_joint(self):
        """The rotation vector obeys the linear equation, although its rate is not the angular velocity."""
        b = un.Builder("ball")
        b.base("ground")
        b.body("ball", "ground", un.Spherical(), 1.0, (0, 0.1, -0.3), (0.1, 0.2, 0.15))
        names = ["ball.rx", "ball.ry", "ball.rz"]
        system = b.build()
        assert list(system.coordinate_names) == names
        b.force(names, un.forces.ComputedTorque(16.0, 7.0, [0.4, 0.2, -0.3]))
        system = b.build()
        run = un.run(system, system.state([0.0, 0.9, 0.2]), t_end=0.5, dt=0.005)
        e0 = np.array([0.4, -0.7, -0.5])
        exact = np.stack([decay(run.data.time.values, 16.0, 7.0, e, 0.0) for e in e0], 1)
        assert_allclose([0.4, 0.2, -0.3] - run.data.position.values, exact, atol=1e-8)

    @pytest.mark.long
    def test_it_is_differentiable(self):
        """With respect to the masses that the controller believes, against finite differences."""
        believed = arm(mass=0.7)
        system = arm(un.forces.ComputedTorque(KP, KD, LAW, model=believed, name="tracking"))
        state = started(system)

        @eqx.filter_jit
        def end(mass):
            model = believed.bare().replace(mass=mass)
            at = un.simulate(
                system.replace_element("tracking", model=model),
                state,
                0.01,
                5,
                integrator=un.integrators.SemiImplicitEuler(),
            )
            return (at.q[-1] ** 2).sum()

        mass, way = believed.mass, jnp.asarray([0.0, 1.0, -0.5, 0.7])
        slope = eqx.filter_jit(jax.grad(end))(mass) @ way
        h = 1e-5
        assert_allclose(slope, (end(mass + h * way) - end(mass - h * way)) / (2 * h), rtol=1e-6)

    def test_refusals(self):
        with pytest.raises(un.ModelError, match="has the coordinates"):
            b = un.Builder("one")
            b.base("ground")
            b.body("a", "ground", un.Revolute((0, 0, 1)), 1.0, inertia=0.1)
            b.force("a", un.forces.ComputedTorque(1.0, 1.0, 0.0, model=arm()))
            b.build()
        with pytest.raises(un.ModelError, match="it must be a System"):
            un.forces.ComputedTorque(1.0, 1.0, 0.0, model=3.0)
        with pytest.raises(un.ModelError, match="has no coordinates"):
            b = un.Builder("one")
            b.base("ground")
            b.body("a", "ground", un.Revolute((0, 0, 1)), 1.0, inertia=0.1)
            b.add(un.forces.ComputedTorque(1.0, 1.0, 0.0))
            b.build()


STIFF = (
    np.diag([300.0, 400.0, 500.0, 20.0, 30.0, 25.0]) + 5.0 * np.diag([1.0, 0, 0], 3) + 5.0 * np.diag([1.0, 0, 0], -3)
)
AXES = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0))
POSE = np.array([0.2, 0.5, 0.9, 0.3, 0.7, -0.4])


def six_joints(load=None, target=None, **options):
    b = un.Builder("six joints")
    b.base("ground")
    parent = "ground"
    for k, axis in enumerate(AXES, start=1):
        b.body(f"j{k}", parent, un.Revolute(axis), 2.0 / k, (0.1, 0, 0), 0.02, (0.3 * (k > 1), 0, 0))
        parent = f"j{k}"
    hand = un.site("j6", (0.1, 0.05, 0))
    if load is not None:
        b.add(Push(jnp.asarray(load), sites=hand))
    if target is not None:
        b.force([f"j{k}" for k in range(1, 7)], un.forces.Impedance(hand, STIFF, 0.2 * STIFF, target, **options))
    return b.build(), hand


class Push(un.ForceModel):
    """A wrench that is constant in the site's frame."""

    size: jax.Array

    def wrench(self, at):
        return self.size


@pytest.fixture(scope="module")
def target():
    plain, hand = six_joints()
    s = un.kinematics.site_view(plain, plain.state(POSE), hand)
    return np.concatenate([s.p, Rotation.from_matrix(np.asarray(s.R)).as_rotvec()])


class TestImpedance:
    def test_deflection_under_a_load(self, target):
        load = np.array([3.0, -2.0, 4.0, 0.2, -0.3, 0.1])
        system, hand = six_joints(load, target)
        found = un.equilibrium(system, system.state(POSE)).state
        s = un.kinematics.site_view(system, found, hand)
        R = np.asarray(s.R)
        wanted = Rotation.from_rotvec(target[3:]).as_matrix()
        e = np.concatenate([R.T @ (target[:3] - s.p), Rotation.from_matrix(R.T @ wanted).as_rotvec()])
        assert_allclose(-e, np.linalg.solve(STIFF, load), atol=1e-9)

    def test_efforts(self, target, rng):
        """J^T (K e + D e') and the weight, with the library's Jacobian and scipy's rotations."""
        system, hand = six_joints(target=target)
        state = system.state(POSE + 0.1, rng.normal(size=6))
        s = un.kinematics.site_view(system, state, hand)
        R = np.asarray(s.R)
        wanted = Rotation.from_rotvec(target[3:]).as_matrix()
        e = np.concatenate([R.T @ (target[:3] - s.p), Rotation.from_matrix(R.T @ wanted).as_rotvec()])
        J = np.asarray(un.kinematics.site_jacobian(system, state, hand))[:, 6:]
        F = STIFF @ e - 0.2 * STIFF @ np.asarray(s.twist)
        exact = J.T @ F + np.asarray(un.gravity_efforts(system, state))
        assert_allclose(accelerations(system, 0.0, state).efforts, exact, atol=1e-9)

    @pytest.mark.parametrize(
        "method",
        [
            pytest.param(un.integrators.GeneralisedAlpha(), marks=pytest.mark.long, id="implicit"),
            pytest.param(un.integrators.Moreau(theta=0.5), id="Moreau"),
        ],
    )
    def test_methods_agree(self, target, method):
        system, _ = six_joints(target=target)
        start = system.state(POSE + np.array([0.1, -0.05, 0.1, 0, 0.1, 0]))
        exact = un.run(system, start, t_end=0.2, dt=5e-4).data.position.values[-1]
        run = un.run(system, start, t_end=0.2, dt=2e-3, integrator=method)
        assert run.ok, run.message
        assert_allclose(run.data.position.values[-1], exact, atol=2e-5)
        assert np.abs(exact - start.q).max() > 0.02

    def test_refusals(self):
        with pytest.raises(un.ModelError, match=r"K of the impedance at the body 'a' has the shape \(3,\)"):
            un.forces.Impedance("a", np.ones(3), np.ones(6), np.zeros(6))
        with pytest.raises(un.ModelError, match="the model has no effect"):
            un.forces.Impedance("a", np.ones(6), np.ones(6), np.zeros(6), gravity=False, model=arm())
