"""What wheels record: angle, rate, torque and power (document 000, (3.40), (3.50), (3.86)), against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.scenario.scenario import run_scenario


def cart(*wheels, mass=4.0):
    b = un.Builder("cart", gravity=(0, 0, 0))
    b.base("cart", role="free", group="SE2", mass=mass, inertia=0.3)
    b.add(*wheels)
    return b.build()


class TestUnicycle:
    """Two wheels at the distance w, R theta' = V -/+ w turn / 2, of which the left one has a motor."""

    m, d, I, R, w = 10.0, 0.05, 0.3, 0.1, 0.4

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls):
        parts = []

        def keep(count, since):
            parts.append(since(sum(len(x.time) for x in parts)))

        done = run_scenario(gallery.load("unicycle"), {"motors": "left"}, t_end=3.0, dt=5e-3, on_samples=keep)
        return done.run.data, parts

    def test_driven_wheel(self, run):
        """Angle and rate are those of the law; the torque is R times the traction, which this wheel supplies alone."""
        data, _ = run
        t, left = data.time.values, data.sel(wheel="left")
        assert_allclose(left.wheel_angle, 3 * t + 3 * np.sin(t), atol=1e-12)
        assert_allclose(left.wheel_rate, 3 + 3 * np.cos(t), atol=1e-12)
        V, turn = data.base_twist.values[:, 0], data.base_twist.values[:, 5]
        dV, dturn = data.base_acceleration.values[:, 0], data.base_acceleration.values[:, 5]
        force = self.m * (dV - self.d * turn**2)  # the only force along the heading
        couple = (self.I + self.m * self.d**2) * dturn + self.m * self.d * V * turn  # about the middle of the axle
        assert_allclose(left.wheel_torque, self.R * force, atol=1e-11)
        assert_allclose(-left.wheel_torque * self.w / 2, self.R * couple, atol=1e-11)

    def test_power(self, run):
        """Positive while the motor drives: it is all the power there is."""
        data, _ = run
        energy = data.energy_kinetic.values
        power = data.wheel_power.sel(wheel="left")
        assert_allclose(power, data.wheel_torque.sel(wheel="left") * data.wheel_rate.sel(wheel="left"), rtol=1e-13)
        assert_allclose(power, data.power_actuators, atol=1e-12)
        work = np.trapezoid(power, data.time)
        assert abs(work) > 0.1 and work == pytest.approx(energy[-1] - energy[0], abs=1e-4)

    def test_free_wheel(self, run):
        """R (theta_right - theta_left) = w times the change of heading, whatever the forces are."""
        data, _ = run
        w, _, _, z = data.base_quaternion.values.T
        heading = np.unwrap(2 * np.arctan2(z, w))
        left, right = (data.wheel_angle.sel(wheel=x).values for x in ("left", "right"))
        assert np.ptp(right - left) > 1.0
        assert_allclose(right, left + self.w / self.R * (heading - heading[0]), atol=1e-7)
        assert np.isnan(data.wheel_torque.sel(wheel="right")).all()

    def test_samples_of_an_unfinished_run(self, run):
        """Angles continue from one part to the next."""
        data, parts = run
        assert len(parts) > 0 and all(p.attrs["status"] == "incomplete" for p in parts)
        for name in ("wheel_angle", "wheel_rate"):
            whole = np.concatenate([p[name].values for p in parts])
            assert_allclose(whole, data[name].values[: len(whole)], atol=1e-6)


def test_mecanum_wheels():
    """Four motors, of which only the sum of the powers is unique; the torques are those of the rollers' forces."""
    setup = gallery.load("mecanum").setup(aside=5.0)
    run = un.run(setup.system, setup.state, t_end=1.0, dt=0.02)
    data, t = run.data, run.data.time.values
    ahead, aside = 10 * np.sin(t), 5 * np.cos(t)
    assert_allclose(data.wheel_angle.sel(wheel="front-left"), ahead - aside, atol=1e-12)
    assert_allclose(data.wheel_angle.sel(wheel="front-right"), ahead + aside, atol=1e-12)
    assert_allclose(data.wheel_power.sum("wheel"), data.power_actuators, atol=1e-11)
    assert np.abs(data.power_actuators).max() > 1.0
    assert_allclose(data.wheel_torque.values, 0.08 * np.cos(np.pi / 4) * data.reaction.values, rtol=1e-12, atol=1e-12)


def test_a_driven_coordinate():
    """The wheel's torque includes what its own inertia takes: it is the effort of its coordinate."""
    setup = gallery.load("mobile-pendulum").setup(angle=0.4, share="front")
    data = un.run(setup.system, setup.state, t_end=0.5, dt=0.01).data
    t, R, l, m, M, J = data.time.values, 0.1, 0.5, 0.4, 2.3, 0.2 * 0.1**2 / 2
    r3, v3, a3 = (data[x].sel(coordinate="pendulum").values for x in ("position", "velocity", "acceleration"))
    own = J * -27 * np.cos(3 * t)
    whole = -M * R**2 * 27 * np.cos(3 * t) + m * R * l * (np.cos(r3) * a3 - np.sin(r3) * v3**2)
    for wheel, torque in (("front_contact", own + whole), ("rear_contact", own)):  # (001, 44) with T = 0
        of = data.sel(wheel=wheel)
        assert_allclose(of.wheel_angle, 3 * np.cos(3 * t) - 3, atol=1e-12)
        assert_allclose(of.wheel_rate, -9 * np.sin(3 * t), atol=1e-12)
        assert_allclose(of.wheel_torque, torque, atol=1e-11)


class TestDisc:
    def test_rate_is_the_spin(self):
        """The speed of the centre over the radius is the angular velocity about the axle, at any lean."""
        setup = gallery.load("rolling-disc").setup()
        data = un.run(setup.system, setup.state, t_end=0.6, dt=2e-3).data
        rate = data.wheel_rate.sel(wheel="ground").values
        assert_allclose(rate, data.base_twist.values[:, 4], atol=1e-8)
        assert np.ptp(rate) > 0.01

    def test_angle(self):
        """Upright, it rolls straight on at its first rate."""
        setup = gallery.load("rolling-disc").setup(lean=0.0, turning=0.0)
        data = un.run(setup.system, setup.state, t_end=0.6, dt=2e-3).data
        assert_allclose(data.wheel_angle.sel(wheel="ground"), 8 * data.time, atol=1e-10)


def test_a_slipping_wheel():
    """m v' = -c (v - R rate) while the motor turns at a constant rate: the torque is R times that force."""
    m, c, R, rate = 4.0, 6.0, 0.1, 5.0
    wheel = un.rows.Wheel("drive", "cart", radius=R, roll=un.laws.Polynomial([0.0, rate]))
    data = un.run(cart(wheel.slipping(un.rows.Viscous(c)), mass=m), t_end=1.0, dt=0.01).data
    slip = -R * rate * np.exp(-c / m * data.time)
    assert_allclose(data.wheel_rate.sel(wheel="drive"), rate + 0 * data.time)
    assert_allclose(data.wheel_torque.sel(wheel="drive"), -R * c * slip, atol=1e-8)
    assert data.wheel_power.min() > 0


def test_skates_do_not_turn():
    data = un.run(cart(un.rows.Skate("blade", "cart")), t_end=0.1, dt=0.01).data
    assert not [x for x in (*data.data_vars, *data.dims) if "wheel" in str(x) or "skate" in str(x)]


class Rail(un.RowModel):
    """Keeps a point on the x axis and records the force that this takes."""

    observables = (un.Observable("force", "N"), un.Observable("wrong", "N"))

    def rows(self, at):
        return at.sites[0].velocity(jnp.zeros(3))[1:2]

    def observe(self, at):
        return {"force": at.reaction[0]}


class GoodRail(Rail):
    observables = Rail.observables[:1]


def test_observables_of_rows():
    """Any row model can record its own reactions; what it records must be what it declares."""
    with pytest.raises(un.ModelError, match="the rail 'rail' declares the observables force, wrong, and its method"):
        cart(Rail(sites="cart", name="rail"))
    push = un.forces.Load("cart", (0.0, 3.0, 0.0))
    one = GoodRail(sites="cart", name="rail")
    found = un.sample(cart(one, push), cart(one, push).state(), 0.0)
    values = next(x for x in found.elements if "force" in x)
    assert_allclose(values["force"], [-3.0], atol=1e-12)
