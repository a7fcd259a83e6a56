"""Wheels that slip, and wheels that are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from vehicles import motion, seen, solved, vehicle, yaw


class TestSlip:
    @pytest.mark.long
    def test_ideal_wheels_are_the_limit(self):
        """The difference is proportional to 1 / coefficient."""

        def end(**given):
            system = vehicle("two-axle", **given)
            s = motion(system, system.state(), 5e-4, 200)
            return np.array([*s.state.base.position[-1, :2], yaw(s.state.base.quaternion)[-1]])

        ideal = end()
        errors = [np.linalg.norm(end(friction=c) - ideal) for c in (100.0, 200.0, 400.0)]
        assert 1e-5 < errors[-1] < 0.05
        assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 2, rtol=0.1)

    def test_slip_takes_power(self):
        """Viscous friction: each row dissipates coefficient times the square of its slip."""
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
            b.add(un.rows.MecanumWheel(name, "cart", (0.25 * x, 0.2 * y, 0), 0.0, 0.08, law, slant * np.pi / 4))
        return b.build()

    def test_incompatible_wheels_are_named(self):
        system = self.cart([un.laws.Polynomial([0.0, w]) for w in (1.0, 1.0, 1.0, 2.0)])
        with pytest.raises(
            un.UndulaError, match=r"driven motion of 'cart' violates its constraints at t = 0 s: (f|r)(l|r)"
        ):
            un.run(system, t_end=0.1, dt=0.01)

    def test_later_incompatibility_stops_the_run(self):
        system = self.cart([un.laws.Polynomial([0.0, 1.0, w]) for w in (0.0, 0.0, 0.0, 1.0)])
        run = un.run(system, t_end=0.1, dt=0.01, save_every=1)
        assert run.status == "failed" and "the constraints cannot be satisfied at t = 0.01 s" in run.message
        assert run.data.sizes["time"] == 1

    def test_least_squares_on_request(self):
        """Four wheels, one too fast: the pattern (1, -1, -1, 1)/4 of the rates cannot be rolled and becomes slip."""
        system = self.cart([un.laws.Polynomial([0.0, w]) for w in (1.0, 1.0, 1.0, 2.0)], least_squares=True)
        s = solved(system, system.state(), 0.0)
        kernel = np.array([1.0, 1.0, -1.0, -1.0]) / 2  # left kernel of the four rows
        assert_allclose(s.residual, 0.08 / np.sqrt(2) * np.abs(kernel @ [1, 1, 1, 2]) / 2, rtol=1e-12)

    def test_incompatible_shape_is_named(self):
        """Four axles and three driven joints: one row more than velocities."""
        b = un.Builder("train", gravity=(0, 0, 0))
        b.base("car0", role="free", group="SE2", mass=1.0, inertia=0.01)
        b.add(un.rows.Skate("axle0", "car0"))
        for k in range(1, 4):
            law = un.laws.Sinusoid(0.3, 1.0 + 0.2 * k, 0.5 * k, 0.2)
            b.body(f"car{k}", f"car{k - 1}", un.Revolute(motion=law), 1.0, inertia=0.01, position=(-0.3, 0, 0))
            b.add(un.rows.Skate(f"axle{k}", f"car{k}", (-0.1, 0, 0)))
        with pytest.raises(
            un.UndulaError, match=r"driven motion of 'train' violates .* axle\d.* by .*cannot be removed"
        ):
            un.admissible(b.build(), b.build().state())

    def test_contradictory_rows_are_named(self):
        b = un.Builder("torn")
        b.base("cart", role="free", group="SE2", mass=1.0, inertia=1.0)
        for name, rate in (("fast", 2.0), ("slow", 1.0)):
            b.add(un.rows.Wheel(name, "cart", radius=0.1, roll=un.laws.Polynomial([0.0, rate])))
        with pytest.raises(un.UndulaError, match=r"violates its constraints at t = 0 s: (fast|slow)\.roll by 0\.1"):
            un.admissible(b.build(), b.build().state())
