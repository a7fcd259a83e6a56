"""Runs in phases, and states carried over between systems, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un

G = 9.81
A, B = 2.0, 3.0  # masses [kg]
GAP, SPEED = 0.5, 1.6  # how far apart they start [m], and how fast the second comes [m/s]


def bodies(joint, **more):
    """Two small bodies without gravity; the second on a joint of the first."""
    b = un.Builder("bodies", gravity=(0, 0, 0))
    b.base("a", role="free", mass=A, inertia=0.1)
    b.body("b", "a", joint, mass=B, inertia=0.2, **more)
    return b.build()


class TestAttached:
    """b hits a, stays on it, and is let go: a perfectly inelastic impact."""

    @pytest.fixture(scope="class")
    @classmethod
    def systems(cls):
        return bodies(un.Free()), bodies(un.Fixed(), position=(-0.1, 0, 0))

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, systems):
        apart, joined = systems
        start = apart.state({"b.x": -0.1 - GAP}, {"b.x": SPEED})
        phases = [
            un.Phase(1.0, until=lambda system, t, state: state.q[0] + 0.1),
            un.Phase(0.25, system=joined),
            un.Phase(0.3, system=apart),
        ]
        return un.run_phases(apart, phases, start, dt=0.01, save_every=1)

    def test_motion(self, run):
        d = run.data
        t = d.time.values
        meet = GAP / SPEED
        common = B * SPEED / (A + B)
        assert run.ok
        assert_allclose(t[-1], meet + 0.55, atol=1e-12)
        assert_allclose(d.body_position.sel(body="a", axis="x"), common * np.maximum(t - meet, 0), atol=1e-10)
        expected = np.where(t < meet, SPEED * t - 0.1 - GAP, common * (t - meet) - 0.1)
        assert_allclose(d.body_position.sel(body="b", axis="x"), expected, atol=1e-10)
        assert (np.diff(t) > 0).all()

    def test_balances(self, run):
        d = run.data
        assert_allclose(d.momentum.values, np.tile([B * SPEED, 0, 0, 0, 0, 0], (len(d.time), 1)), atol=1e-10)
        loss = -A * B / (A + B) * SPEED**2 / 2
        first = B * SPEED**2 / 2
        assert_allclose(d.energy_kinetic, first + loss * (d.phase.values > 1), atol=1e-10)
        assert_allclose(
            d.event_energy.values[[list(d.event.values).index(f"phase {k}") for k in (2, 3)]], [loss, 0], atol=1e-10
        )

    def test_joined_data(self, run):
        d = run.data
        assert d.position.dims == ("time", "coordinate")
        x = d.position.sel(coordinate="b.x").values
        assert (np.isnan(x) == (d.phase.values == 2)).all()
        assert [int((d.phase == k).sum()) > 5 for k in (1, 2, 3)] == [True] * 3
        assert d.attrs["status"] == "ok" and set(d.role.values) == {"free"}
        assert not np.isnan(d.body_position.values).any()

    def test_a_body_that_cannot_stay(self, systems):
        """Both bodies are moved as little as possible: 0.4 m are missing, half of them to each."""
        apart, joined = systems
        with pytest.raises(
            un.UndulaError, match=r"the body 'b' cannot stay where it is in 'bodies': 0.2 .* are missing"
        ):
            un.carry_over(apart.state({"b.x": -0.5}), apart, joined)

    def test_systems_without_a_common_body(self, systems):
        b = un.Builder("stone")
        b.base("stone", role="free", mass=1.0, inertia=0.1)
        with pytest.raises(un.UndulaError, match="'bodies' and 'stone' have no body in common"):
            un.carry_over(systems[0].state(), systems[0], b.build())

    def test_oblique_attachment_keeps_all_momentum(self, systems, rng):
        """Any velocities: momentum is kept, and the new velocities are the nearest in the kinetic metric."""
        apart, joined = systems
        state = apart.state({"b.x": -0.1}, rng.normal(size=6), base_twist=rng.normal(size=6))
        new = un.carry_over(state, apart, joined)
        assert_allclose(un.momentum(joined, new), un.momentum(apart, state), atol=1e-10)
        # by hand: the twists of both bodies, one rigid body
        J = np.eye(6)
        J[:3, 3:] = [[0, 0, 0], [0, 0, 0.1 * -1], [0, 0.1, 0]]  # velocity of b: V + W x (-0.1, 0, 0)
        Ma, Mb = (np.diag([m] * 3 + [i] * 3) for m, i in ((A, 0.1), (B, 0.2)))
        eta = np.asarray(un.kinematics.body_twists(apart, state))
        expected = np.linalg.solve(Ma + J.T @ Mb @ J, Ma @ eta[0] + J.T @ Mb @ eta[1])
        assert_allclose(new.base_twist, expected, atol=1e-10)


class TestRows:
    """A block on a rail: rows switched between phases, rules that go on, phases that fail."""

    def block(self, *rows, effort=None):
        b = un.Builder("block", gravity=(0, 0, -G))
        b.base("ground")
        b.body("block", "ground", un.Prismatic((0, 0, 1)), mass=0.5)
        if effort is not None:
            b.force("block", effort)
        b.add(*rows)
        return b.build()

    def test_hold_and_release(self):
        system = self.block(un.rows.Latch("hold", "block", holds=("z",)))
        phases = [un.Phase(0.2, off="hold"), un.Phase(0.13, on="hold"), un.Phase(0.1, off="hold", dt=1e-3)]
        run = un.run_phases(system, phases, dt=0.01)
        assert run.ok
        fallen = -G * np.array([0.2, 0.1]) ** 2 / 2
        assert_allclose(run.data.position[-1, 0], fallen.sum(), atol=1e-12)
        assert list(run.data.event.values) == ["phase 1", "phase 2", "phase 3"]
        assert_allclose(run.data.event_time, [0, 0.2, 0.33], atol=1e-12)
        assert_allclose(run.data.event_impulse[:, 0], [0, 0.5 * G * 0.2, 0], atol=1e-12)
        assert_allclose(run.data.event_energy, [0, -0.5 * (G * 0.2) ** 2 / 2, 0], atol=1e-12)

    def test_what_conditions_have_switched_stays_so(self):
        """A block thrown up from a table: the second phase begins in flight."""
        jump = un.laws.Function(lambda t: jnp.where(t < 0.1, 20.0, 0.0))
        rule = un.rows.WhilePushing()
        system = self.block(un.rows.PointOnPlane("table", "block").when(rule), effort=jump)
        whole = un.run(system, system.state(), t_end=0.6, dt=0.01, save_every=1)
        parts = un.run_phases(system, [un.Phase(0.3), un.Phase(0.3)], dt=0.01, save_every=1)
        up = 20.0 / 0.5 - G  # it pushes itself off at once
        flies = up * 0.1
        assert parts.ok
        assert_allclose(parts.data.position, whole.data.position, atol=1e-12)
        t = 0.4
        assert_allclose(
            parts.data.position.sel(time=t, method="nearest")[0], up * 0.005 + flies * 0.3 - G * 0.3**2 / 2, atol=1e-10
        )

    def test_a_hold_that_is_not_reached_is_refused(self):
        system = self.block(un.rows.Anchor("shelf", "block", (0, 0, -1.0), holds=("z",)))
        with pytest.raises(un.UndulaError, match=r"'shelf' cannot be switched on at t = 0.1 s"):
            un.run_phases(system, [un.Phase(0.1, off="shelf"), un.Phase(0.1, on="shelf")], dt=0.01)

    def test_a_phase_that_fails(self):
        push = un.laws.Function(lambda t: jnp.where(t > 0.25, jnp.nan, 0.0))
        system = self.block(effort=push)
        run = un.run_phases(system, [un.Phase(0.2), un.Phase(0.2), un.Phase(0.2)], dt=0.01, save_every=1)
        assert run.status == "failed" == run.data.attrs["status"]
        assert run.message.startswith("phase 2:")
        assert "1 of 3 phases were not begun" in run.message
        assert np.isfinite(run.data.position.values).all()
        assert_allclose(run.data.position[:, 0], -G * run.data.time.values**2 / 2, atol=1e-12)
        assert run.data.time[-1] > 0.2

    def test_refusals(self):
        system = self.block()
        with pytest.raises(un.UndulaError, match="phases is empty"):
            un.run_phases(system, [])
        with pytest.raises(un.UndulaError, match=r"it must be a sequence of un\.Phase"):
            un.run_phases(system, un.Phase(1.0))
        with pytest.raises(un.UndulaError, match=r"duration of a phase = -1.0 s"):
            un.run_phases(system, [un.Phase(1.0), un.Phase(-1.0)])
