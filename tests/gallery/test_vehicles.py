"""Wheeled vehicles: classes, power, kinematics and reactions (document 000, chapters 3 and 4).

Expected values are its closed forms and an independent model of planar mechanisms.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.gallery import mobile_manipulator
from undula.gallery.catalogue import description
from vehicles import (
    GAIT,
    HEAVY,
    PLANE,
    VEHICLES,
    Plane,
    base_frame,
    flat,
    front_wheel,
    motion,
    moved,
    place,
    rolling_speeds,
    seen,
    sides,
    solved,
    turned,
    vehicle,
    yaw,
)


class TestClasses:
    @pytest.mark.parametrize("name", VEHICLES)
    def test_entry_says_its_class(self, name):
        setup = gallery.load(name).setup()
        assert str(un.classify(setup.system, setup.state)) == description(name)["class"]

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


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in HEAVY else ()) for n in VEHICLES])
def test_power_balance(name):
    """The sign of the motors' power: a wheel's row is (speed along its heading) - R theta' = 0, its multiplier lambda
    the force of the ground on the vehicle along the heading. Its power is lambda R theta', and a wheel without
    inertia transmits its motor's power: Gamma = +R lambda, conjugate to theta'.
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
        assert_allclose(forces["left.side"], across / 2, atol=1e-11)  # least sum of squares
        assert_allclose(forces["right.side"], across / 2, atol=1e-11)

    def test_one_motor(self):
        """Partially actuated: the driven wheel follows its law, the rest follows from the dynamics."""
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
        assert_allclose(turn, np.tan(beta) / self.l * V, atol=1e-13)  # ... follows a path of curvature tan(beta) / l

    def test_printed_relation_is_refused(self):
        """The document prints tan beta = (1 +- L/2l) tan beta_k: the wheels would slip sideways."""
        beta, R = 0.4, 0.12
        b = un.Builder("printed")
        b.base("car", role="free", group="SE2", mass=40.0, inertia=6.0)
        for name, y in (("right", -self.L / 2), ("left", self.L / 2)):
            angle = np.arctan(np.tan(beta) / (1 - 2 * y / self.L * self.L / (2 * self.l)))
            roll = un.laws.Polynomial([0.0, 10.0]) if name == "left" else None
            b.add(un.rows.Wheel(f"front-{name}", "car", (self.l / 2, y, 0), angle, R, roll))
            b.add(un.rows.Wheel(f"rear-{name}", "car", (-self.l / 2, y, 0), radius=R))
        with pytest.raises(
            un.UndulaError, match=r"violates its constraints at t = 0 s: (front|rear)-(left|right)\.side"
        ):
            un.admissible(b.build(), b.build().state())


class TestMobileManipulator:
    def test_coupling(self):
        """On a platform at rest, or moving straight at constant speed, the arm's torques are those on a fixed base."""
        arm = gallery.load("robot-arm").setup().system
        standing, steady, turning = (
            seen(vehicle("mobile-manipulator", **given))[0]
            for given in (dict(speed=0.0), dict(steer_amplitude=0.0), {})
        )
        fixed = np.stack([np.asarray(solved(arm, arm.state(), t).efforts) for t in standing.t])
        assert_allclose(standing.efforts[:, -6:], fixed, atol=1e-11)
        assert_allclose(steady.efforts[:, -6:], fixed, atol=1e-10)
        assert np.abs(turning.efforts[:, -6] - fixed[:, 0]).max() > 1.0  # Figure 4.12 (a): the curves differ

    def test_held_joints(self):
        """The torques that hold the wrist, with gravity from the side: the tool's mass centre is 0.05 m above joint 5."""
        arm = gallery.load("robot-arm").setup().system.replace_element("gravity", g=(3.0, 2.0, -9.0))
        arm = dataclasses.replace(arm, motions=tuple(dataclasses.replace(x, law=0.0 * x.law) for x in arm.motions))
        assert_allclose(solved(arm, arm.state(), 0.0).efforts[3:], [0, 0.05 * 1.0 * 3.0, 0], atol=1e-12)

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
        torques = xr.DataArray(
            0.12 * forces,
            dims=("time", "wheel"),
            coords={"time": s.t, "wheel": ["front-right-wheel", "front-left-wheel"]},
        )
        setup = gallery.load("mobile-manipulator").setup()
        common = mobile_manipulator.motor_torque(setup.parameters, xr.Dataset({"wheel_torque": torques}))
        assert_allclose(common * speeds.sum(1) / 0.12, wheels, atol=1e-8)  # Figure 4.12 (b): one torque, the same power


class TestLagrange:
    def test_two_axle(self):
        """Mass centres at the axles, where the wheels also are."""
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


class TestDescriptions:
    dt, stride = 2e-3, 60

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls):
        system = vehicle("snakeboard", **GAIT)
        return system, motion(system, system.state(base_twist=[-0.2, 0, 0, 0, 0, 0]), cls.dt, cls.stride)

    def wave(self, x):
        p = GAIT
        return un.laws.Sinusoid(p[f"{x}_amplitude"], p[f"{x}_rate"], p[f"{x}_phase"])

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
            b.add(un.rows.Skate(f"{x}-wheels", x))
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
        # the motor between board and front axle: the same torque, with the angle of opposite sign
        assert_allclose(new.efforts[:, names.index("board")], -old.efforts[:, 1], atol=1e-9)
        assert_allclose(new.reactions, old.reactions, atol=1e-8)
        assert np.linalg.norm(position[-1] - position[0]) > 0.1

    @pytest.mark.long
    def test_free_in_space_and_held_to_the_ground(self, reference):
        """A base free in SE3 with three of its points on the ground, instead of a base free in SE2."""
        p = gallery.load("snakeboard").values(GAIT)
        b = un.Builder("in space", gravity=(0, 0, 0))
        b.base("board", role="free", group="SE3", mass=2.0, inertia=flat(0.0854))
        b.body("rotor", "board", un.Revolute(motion=self.wave("psi")), 2.0, inertia=flat(0.072))
        for x, sign in (("front", 1), ("rear", -1)):
            law = -self.wave("phi") if sign > 0 else self.wave("phi")
            place = (sign * p["half_length"], 0, 0)
            b.body(x, "board", un.Revolute(motion=law), 1.0, inertia=flat(0.0013), position=place)
            b.add(un.rows.Skate(f"{x}-wheels", x))
        for k, point in enumerate(((0.1, 0, 0), (-0.1, 0.1, 0), (-0.1, -0.1, 0))):
            b.add(un.rows.PointOnPlane(f"foot{k}", "board", point))
        system = b.build()
        old = reference[1].state
        new = moved(system, system.state(base_twist=old.base_twist[0]), self.dt, self.stride)
        assert_allclose(new.base.position, old.base.position, atol=1e-9)
        assert_allclose(new.base.quaternion, old.base.quaternion, atol=1e-9)
        assert_allclose(new.base_twist, old.base_twist, atol=1e-9)
        assert str(un.classify(system)).startswith("under-constrained, isostatic, base free in SE3")

    @pytest.mark.long
    def test_wheels_as_bodies(self):
        """Wheels that turn on free axles, and the same vehicle with rows only.

        Without side slip, the spin inertia J of a rolling wheel acts like a mass J/R^2 at its position.
        """
        R, J, mass, upright, track = 0.05, 2e-3, 0.3, 1.2e-3, 0.2

        def vehicle_with(wheels):
            b = un.Builder("wheeled", gravity=(0, 0, 0))
            b.base("front", role="free", group="SE2", mass=3.0, inertia=flat(0.03))
            law = un.laws.Sinusoid(0.8, 3.0, np.pi / 2)
            b.body("rear", "front", un.Revolute(motion=law), 1.0, (-0.2, 0, 0), flat(0.01), position=(-0.15, 0, 0))
            for body, x in (("front", 0.0), ("rear", -0.2)):
                for name, y in (("left", track / 2), ("right", -track / 2)):
                    what = f"{body}-{name}"
                    if wheels:
                        axle = un.Revolute((0, 1, 0), name=what)
                        b.body(what, body, axle, mass, inertia=(upright, J, upright), position=(x, y, 0))
                        b.add(un.rows.Wheel(f"{what}-wheel", body, (x, y, 0), radius=R, roll=what))
                    else:
                        inertia = (upright, J, upright)
                        b.body(what, body, un.Fixed(), mass, inertia=inertia, position=(x, y, 0))
                        b.body(f"{what}-spin", body, un.Fixed(), J / R**2, position=(x, y, 0))
                        b.add(un.rows.Wheel(f"{what}-wheel", body, (x, y, 0), radius=R))
            return b.build()

        # an admissible initial state: the joint is at rest at 0.8 rad, neither axle slides
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
