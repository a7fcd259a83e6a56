"""Rows that switch, conditions that end a run, and the impulses of switches, against closed forms and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from numpy.testing import assert_allclose

import undula as un
from undula.elements.element import changed
from undula.numerics.programs import quickly_compiled

G = 9.81
M, L = 2.0, 1.0
I = M * L**2 / 12
T1, T2 = 0.1234, 0.4567  # no multiples of a step
Schedule, WhilePushing, Condition = un.rows.Schedule, un.rows.WhilePushing, un.rows.Condition


def bar(left=None, right=None):
    """A bar in a vertical plane (x, y), held at its ends according to two rules."""
    b = un.Builder("bar", gravity=(0, -G, 0))
    b.base("bar", role="free", group="SE2", mass=M, inertia=I)
    for name, x, rule in (("left", -L / 2, left), ("right", L / 2, right)):
        if rule is not None:
            b.add(un.rows.Latch(name, "bar", (x, 0, 0), holds=("x", "y")).when(rule))
    return b.build()


def relieved(left, right):
    """The same numbers as `bar(Schedule(left), Schedule(right))` with other instants, compiled once."""
    return bar(Schedule(left), Schedule(right))


def planar(data):
    """x, y, angle and their rates of the bar at each sample."""
    p, quaternion, twist = data.base_position.values, data.base_quaternion.values, data.base_twist.values
    a = np.unwrap(2 * np.arctan2(quaternion[:, 3], quaternion[:, 0]))
    c, s = np.cos(a), np.sin(a)
    return np.stack(
        [p[:, 0], p[:, 1], a, c * twist[:, 0] - s * twist[:, 1], s * twist[:, 0] + c * twist[:, 1], twist[:, 5]], 1
    )


def swung(x, end, times, events=None):
    """The bar held at an end (-1 left, 1 right; 0: free), from the state x at times[0]; SciPy."""

    def rate(t, x):
        a, w = x[2], x[5]
        if end == 0:
            return [*x[3:], 0, -G, 0]
        arm = -end * L / 2 * np.array([np.cos(a), np.sin(a)])  # from the held end to the centre
        dw = -M * G * arm[0] / (I + M * L**2 / 4)
        return [*x[3:], -dw * arm[1] - w**2 * arm[0], dw * arm[0] - w**2 * arm[1], dw]

    return scipy.integrate.solve_ivp(
        rate, (times[0], times[-1]), x, t_eval=times, rtol=1e-11, atol=1e-12, events=events, max_step=0.01
    )


def caught(x, end):
    """The state after an end has been stopped: the angular momentum about it is kept. And the impulse on it."""
    arm = end * L / 2 * np.array([np.cos(x[2]), np.sin(x[2])])  # from the centre to the end
    w = (I * x[5] - M * (arm[0] * x[4] - arm[1] * x[3])) / (I + M * L**2 / 4)
    v = -w * np.array([-arm[1], arm[0]])
    return np.array([*x[:3], *v, w]), M * (v - x[3:5])


def energy(x):
    return M * (x[3] ** 2 + x[4] ** 2) / 2 + I * x[5] ** 2 / 2 + M * G * x[1]


class TestScheduledBar:
    """Hung from its left end, let go at T1, caught at its right end at T2."""

    @pytest.fixture(scope="class")
    @classmethod
    def system(cls):
        return relieved((0.0, T1), (T2, np.inf))

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, system):
        return un.run(system, system.state(), t_end=0.8, dt=1e-3, save_every=10)

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls):
        """States at T1 and at T2 before and after, and at the samples; the impulse."""
        times = np.linspace(0, 0.8, 81)
        parts = [times[times <= T1], times[(times > T1) & (times <= T2)], times[times > T2]]
        one = swung(np.zeros(6), -1, [*parts[0], T1]).y
        two = swung(one[:, -1], 0, [T1, *parts[1], T2]).y
        after, impulse = caught(two[:, -1], 1)
        three = swung(after, 1, [T2, *parts[2]]).y
        return np.hstack([one[:, :-1], two[:, 1:-1], three[:, 1:]]).T, two[:, -1], after, impulse

    def test_motion(self, run, exact):
        assert run.ok
        assert_allclose(run.data.time, np.linspace(0, 0.8, 81), atol=1e-14)  # samples stay evenly spaced
        assert_allclose(planar(run.data), exact[0], atol=1e-8)

    def test_events(self, run, exact):
        d = run.data
        assert list(d.event.values) == ["left off", "right on"]
        assert_allclose(d.event_time, [T1, T2], atol=1e-13)
        assert_allclose(d.event_impulse[0], 0, atol=1e-12)
        assert_allclose(d.event_impulse[1], [0, 0, *exact[3]], atol=1e-8)
        assert_allclose(d.event_energy, [0.0, energy(exact[2]) - energy(exact[1])], atol=1e-8)
        assert d.event_energy[1] < -1

    def test_active_rows_reactions_and_classes(self, run):
        d = run.data
        left, right = d.time.values < T1, d.time.values >= T2
        assert_allclose(d.constraint_active.sel(constraint="left.x"), left)
        assert_allclose(d.constraint_active.sel(constraint="right.y"), right)
        assert_allclose(d.reaction.values[~left & ~right], 0)
        words = un.results.class_names(d).tolist()
        assert words == ["under-constrained" if x else "unconstrained" for x in left | right]
        assert_allclose(d.constraint_residual.max(), 0, atol=1e-9)

    def test_energy_is_kept_between_the_events(self, run):
        d = run.data
        total = (d.energy_kinetic + d.energy_potential).values
        lost = np.where(d.time.values >= T2, d.event_energy.values[1], 0.0)
        assert_allclose(total, total[0] + lost, atol=1e-8)

    @pytest.mark.parametrize("middle", [0.1, 0.3, 0.6])  # held on the left, free, held on the right
    def test_goes_on_from_the_last_state(self, system, run, middle):
        first = un.run(system, system.state(), t_end=middle, dt=1e-3, save_every=10)
        second = un.run(system, first.state, t_end=0.8, dt=1e-3, save_every=10, t0=middle)
        assert_allclose(second.data.time[0], middle, atol=1e-14)
        assert_allclose(planar(second.data)[-1], planar(run.data)[-1], atol=1e-9)
        assert len(first.data.event) + len(second.data.event) == 2

    def test_order_of_accuracy(self, system, exact):
        end = [planar(un.run(system, system.state(), t_end=0.8, dt=dt).data)[-1] for dt in (0.04, 0.02, 0.01)]
        errors = [np.abs(x - exact[0][-1]).max() for x in end]
        assert all(a / b > 11 for a, b in itertools.pairwise(errors))

    def test_simulate_follows_schedules_between_steps(self, exact):
        """Switches at the nearest steps: exact for instants that are multiples of dt."""
        system = relieved((0.0, 0.12), (0.45, np.inf))
        found = un.run(system, system.state(), t_end=0.6, dt=2e-3, save_every=1)
        states = un.simulate(system, system.state(), 2e-3, 300)
        assert_allclose(states.base.position, found.data.base_position, atol=1e-12)
        assert_allclose(states.base_twist[-1], found.data.base_twist[-1], atol=1e-12)

    def test_a_hold_from_before_the_start_latches_where_it_starts(self):
        """Also in simulate and advance, and where no schedule begins at the start."""
        system = relieved((-1.0, 0.12), (0.45, np.inf))
        start = system.state(base_position=(0.3, 0.2, 0))
        found = un.run(system, start, t_end=0.2, dt=2e-3, save_every=1)
        states = un.simulate(system, start, 2e-3, 100)
        assert_allclose(states.base.position, found.data.base_position, atol=1e-12)
        state, _, _ = quickly_compiled(un.advance)(system, start, jnp.asarray(2e-3), jnp.asarray(100))
        assert_allclose(state.base.position, states.base.position[-1], atol=1e-12)


class TestDerivatives:
    """Through schedules, and through a switch, also by its instant."""

    dt, n = 5e-3, 40

    def test_through_a_schedule(self):
        system = relieved((0.0, 0.1), (0.15, np.inf))

        def height(x):
            state = system.state(base_twist=jnp.array([0, 0, 0, 0, 0, 1.0]) * x[0])
            state = state.replace(base_twist=state.base_twist.at[1].set(x[0] * L / 2))
            return un.simulate(system.replace(mass=system.mass * x[1]), state, self.dt, self.n).base.position[-1, 1]

        self.compare(height, jnp.array([0.7, 1.3]))

    @pytest.mark.long
    def test_through_a_switch_and_by_its_instant(self):
        system = bar(None, Schedule((10.0, np.inf)))

        def height(x):
            state = system.state(base_twist=(0.4, 0, 0, 0, 0, 2.0))
            h = x[0] / self.n
            before = un.simulate(system, state, h, self.n)
            at = jax.tree.map(lambda a: a[-1], before)
            held, jump = un.switch(system, at, x[0], on="right")
            # on by hand: without its rule
            held = changed(held, switches=())
            h = (x[1] - x[0]) / self.n
            return un.simulate(held, jump.state, h, self.n, t0=x[0]).base.position[-1, 1] + jump.energy

        x = np.array([0.2, 0.45])
        self.compare(height, jnp.asarray(x))
        # the same by SciPy
        free = swung(np.array([0, 0, 0, 0.4, 0, 2.0]), 0, [0, x[0]]).y[:, -1]
        after, _ = caught(free, 1)
        end = swung(after, 1, x).y[:, -1]
        assert_allclose(height(jnp.asarray(x)), end[1] + energy(after) - energy(free), atol=1e-6)

    def compare(self, f, x):
        both = quickly_compiled(jax.value_and_grad(f))
        _, slope = both(x)
        for k, own in enumerate(slope):
            e = 1e-5 * np.eye(len(x))[k]
            assert_allclose(own, (both(x + e)[0] - both(x - e)[0]) / 2e-5, rtol=1e-6, atol=1e-8)


class TestSwitch:
    def test_jump_is_the_least_change_in_the_kinetic_metric(self, rng):
        system = bar(None, Schedule((10.0, np.inf)))
        x = rng.normal(size=6)
        state = system.state(
            base_position=(*x[:2], 0),
            base_quaternion=(np.cos(x[2] / 2), 0, 0, np.sin(x[2] / 2)),
            base_twist=(*x[3:5], 0, 0, 0, x[5]),
        )
        held, jump = un.switch(system, state, 0.3, on=("right",))
        c, s = np.cos(x[2]), np.sin(x[2])
        v = np.array([c * x[3] - s * x[4], s * x[3] + c * x[4], x[5]])
        A = np.array([[1, 0, -s * L / 2], [0, 1, c * L / 2]])
        W = np.diag([1 / M, 1 / M, 1 / I])
        impulse = -np.linalg.solve(A @ W @ A.T, A @ v)
        gain = W @ A.T @ impulse
        assert_allclose(jump.impulses, impulse, atol=1e-12)
        w = np.asarray(jump.state.base_twist)
        assert_allclose([c * w[0] - s * w[1], s * w[0] + c * w[1], w[5]], v + gain, atol=1e-12)
        assert_allclose(jump.energy, -(impulse @ (A @ W @ A.T) @ impulse) / 2, rtol=1e-10)
        assert_allclose(held.on, [1, 1])
        assert_allclose(system.on, [1, 1] if system.mask is None else system.mask)

    def test_unknown_rows(self):
        system = bar(None, Schedule((10.0, np.inf)))
        with pytest.raises(un.UndulaError, match="there is no row 'middle'"):
            un.switch(system, system.state(), 0.0, on="middle")


class TestCondition:
    """The bar, thrown, is caught by its right end where this falls below a height, and let go at a time."""

    low, free = -0.9, 1.1

    def make(self):
        rule = Condition(
            release=lambda at, reaction: self.free - at.t,
            engage=lambda at: jnp.where(at.t < 0.9, at.sites[0].p[1] - self.low, 1.0),
            begins=False,
        )
        return bar(None, rule)

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls):
        system = cls.make(cls)
        return un.run(system, system.state(base_twist=(0.4, 0, 0, 0, 0, -2.0)), t_end=1.3, dt=2e-3, save_every=10)

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls):
        x = np.array([0, 0, 0, 0.4, 0, -2.0])

        def low(t, x):
            return x[1] + L / 2 * np.sin(x[2]) - cls.low

        low.terminal = True
        found = swung(x, 0, np.array([0, 1.3]), low)
        t = found.t_events[0][0]
        after, impulse = caught(found.y_events[0][0], 1)
        end = swung(after, 1, np.array([t, cls.free])).y[:, -1]
        return t, impulse, end, swung(end, 0, np.array([cls.free, 1.3])).y[:, -1]

    def test_motion(self, run, exact):
        d = run.data
        assert run.ok
        assert list(d.event.values) == ["right on", "right off"]
        assert_allclose(d.event_time, [exact[0], self.free], atol=1e-9)
        assert_allclose(planar(d)[-1], exact[3], atol=1e-7)
        assert_allclose(d.event_impulse.values[0], exact[1], atol=1e-8)
        assert_allclose(d.time, np.linspace(0, 1.3, 66), atol=1e-13)

    def test_simulate_refuses(self):
        system = self.make()
        with pytest.raises(un.UndulaError, match=r"simulate cannot follow the condition that switches 'right.x'"):
            un.simulate(system, system.state(), 1e-2, 10)

    def test_refusals(self, wrong_types):
        with pytest.raises(un.ModelError, match="without release and engage never switches"):
            Condition()
        with pytest.raises(un.ModelError, match="engage = 3; it must be a function"):
            Condition(engage=3)
        with pytest.raises(un.ModelError, match="start must come before its end"):
            Schedule((2.0, 1.0))
        with pytest.raises(un.ModelError, match=r"must be \(start, end\)"):
            Schedule(2.0)
        with pytest.raises(un.ModelError, match="rule of 'a' = 1"):
            un.rows.Latch("a", "bar").when(1)
        with pytest.raises(un.ModelError, match="switches by its row 'z'; its rows are 'x', 'y'"):
            bar(WhilePushing("z"))

    def test_contradicting_conditions_end_the_run(self):
        system = bar(Condition(lambda at, reaction: -1.0, lambda at: 0.05 - at.t, begins=False))
        run = un.run(system, system.state(), t_end=0.1, dt=1e-2)
        assert run.status == "failed"
        assert "switch again and again at t = 0.05 s" in run.message

    @pytest.mark.parametrize(
        ("release", "words"),
        [
            (lambda at, reaction: at.t < 0.5, "release of a Condition returns True or False; it must be one number"),
            (lambda at, reaction: reaction, r"returns an array of the shape \(2,\); it must be one number"),
            (lambda at, reaction: None, "release of a Condition returns None"),
            (lambda at, reaction: 1.0 if at.t < 0.5 else -1.0, "use jnp.where instead of `if`"),
            (lambda at, reaction: jnp.sqrt(-1.0 - at.t), "the condition of 'left' is not a number at t = 0.01 s"),
        ],
    )
    def test_values_without_a_sign_are_refused(self, release, words):
        system = bar(Condition(release))
        with pytest.raises(un.UndulaError, match=words):
            un.run(system, system.state(), t_end=0.1, dt=1e-2)

    def test_a_support_that_would_pull_lets_go_at_once(self):
        """A block below a ceiling: its reaction has the wrong sign from the start, and does not change."""
        system = block(un.rows.PointOnPlane("ceiling", "block").when(WhilePushing()))
        up = block(un.rows.PointOnPlane("ceiling", "block").when(WhilePushing(sign=-1)))
        for x, fallen in ((system, 0.0), (up, -G * 0.5**2 / 2)):
            run = un.run(x, x.state(), t_end=0.5, dt=0.05)
            assert run.ok
            assert_allclose(run.data.position[-1, 0], fallen, atol=1e-12)
            assert list(run.data.event.values) == ([] if fallen == 0 else ["ceiling off"])


@pytest.mark.long
class TestShakenTable:
    """A mass on a table that shakes so much that it leaves and lands: with the reaction's sign, against SciPy."""

    amplitude, rate = 0.05, 17.0

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls):
        b = un.Builder("table", gravity=(0, 0, -G))
        b.base("ground")
        b.body("table", "ground", un.Prismatic((0, 0, 1)), mass=1.0)
        b.body("block", "ground", un.Prismatic((0, 0, 1)), mass=0.3)
        b.drive("table", un.laws.Sinusoid(cls.amplitude, cls.rate))
        b.add(un.rows.PointOnPlane("support", "block", other="table").when(WhilePushing()))
        system = b.build()
        return un.run(system, system.state(), t_end=1.2, dt=1e-3, save_every=5)

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls):
        """Instants of leaving and landing, relative speeds at landing, height of the block over time."""
        A, w = cls.amplitude, cls.rate
        t, instants, speeds, flights = 0.0, [], [], []
        while True:
            # leaves where -A w^2 sin(w t) = -g, while the reaction falls
            s = np.arcsin(G / (A * w**2))
            leaves = (s + 2 * np.pi * np.ceil((w * t - s) / (2 * np.pi))) / w
            if leaves > t and G < A * w**2 * np.sin(w * t):
                leaves = t  # it would be pulled from the start
            if leaves > 1.2:
                break
            z, v = A * np.sin(w * leaves), A * w * np.cos(w * leaves)
            fall = lambda x, z=z, v=v, t=leaves: z + v * (x - t) - G * (x - t) ** 2 / 2 - A * np.sin(w * x)  # noqa: E731
            grid = leaves + np.linspace(1e-3, 1.0, 4000)
            below = grid[np.argmax(fall(grid) < 0)]
            lands = scipy.optimize.brentq(fall, below - 3e-4, below)
            instants += [leaves, lands]
            speeds.append(v - G * (lands - leaves) - A * w * np.cos(w * lands))
            flights.append((leaves, lands, fall))
            t = lands
        return np.array(instants), np.array(speeds), flights

    def test_instants(self, run, exact):
        d = run.data
        count = (exact[0] <= 1.2).sum()
        assert len(d.event) == count >= 4
        assert list(d.event.values[:2]) == ["support off", "support on"]
        assert_allclose(d.event_time, exact[0][:count], atol=1e-8)

    def test_impacts(self, run, exact):
        d = run.data
        landings = d.event_impulse.values[1::2, 0]
        assert (landings > 0).all()
        assert_allclose(landings, -0.3 * exact[1][: len(landings)], atol=1e-7)
        assert_allclose(d.event_impulse.values[::2], 0, atol=1e-12)

    def test_motion(self, run, exact):
        t = run.data.time.values
        z = self.amplitude * np.sin(self.rate * t)
        for leaves, lands, fall in exact[2]:
            inside = (t > leaves) & (t < lands)
            z[inside] += fall(t[inside])
        assert_allclose(run.data.position.sel(coordinate="block"), z, atol=1e-8)
        on = run.data.constraint_active.values[:, 0] > 0
        push = run.data.reaction.values[:, 0]
        assert (push[on] > -1e-9).all()
        assert_allclose(push[~on], 0)
        expected = 0.3 * (G - self.amplitude * self.rate**2 * np.sin(self.rate * t))
        assert_allclose(push[on], expected[on], atol=1e-8)


def block(*rows, **more):
    """A mass on a vertical rail."""
    b = un.Builder("block", gravity=(0, 0, -G))
    b.base("ground")
    b.body("block", "ground", un.Prismatic((0, 0, 1)), mass=0.5)
    b.add(*rows)
    return b.build()


class TestManySwitches:
    def fallen(self, instants, end):
        """Free between every second pair of instants; stopped in between."""
        frees = np.array([0.0, *instants[1::2]]), np.array([*instants[::2], end])
        return -G * (np.diff(np.stack(frees), axis=0)[0] ** 2).sum() / 2

    @pytest.mark.long
    def test_alternating(self, rng):
        """Caught and let go 20 times at random instants, several within one step, the first two within the first."""
        instants = np.sort(rng.uniform(0.02, 0.999, 40))
        instants[:2] = 0.003, 0.0107
        latch = un.rows.Latch("hold", "block", holds=("z",)).when(Schedule(*instants.reshape(-1, 2).tolist()))
        system = block(latch)
        run = un.run(system, system.state(), t_end=1.0, dt=0.02)
        assert run.ok
        assert_allclose(run.data.event_time, instants, atol=1e-13)
        assert_allclose(run.data.position[-1, 0], self.fallen(instants, 1.0), atol=1e-12)
        assert_allclose(run.data.time, np.linspace(0, 1, 51), atol=1e-13)
        free = np.diff(np.stack([[0.0, *instants[1:-1:2]], instants[::2]]), axis=0)[0]
        assert_allclose(run.data.event_impulse.values[::2, 0], 0.5 * G * free, atol=1e-11)

    @pytest.mark.parametrize("t0", [0.0, 1000.0, 4e5, -7.0])
    def test_instants_at_the_ends_of_steps(self, t0):
        """Their rounding must not lose a switch: multiples of dt, far from zero and before it."""
        dt = 1e-3
        steps = np.array([3, 7, 20, 30, 41, 60])
        rounded = t0 + steps * dt + np.array([0, 1, -1, 2, -2, 0]) * np.spacing(abs(t0) + 0.1)
        latch = un.rows.Latch("hold", "block", holds=("z",)).when(Schedule(*rounded.reshape(-1, 2).tolist()))
        system = block(latch)
        run = un.run(system, system.state(), t_end=t0 + 0.1, dt=dt, t0=t0)
        assert run.ok
        assert len(run.data.event) == 6
        assert_allclose(run.data.position[-1, 0], self.fallen(steps * dt, 0.1), atol=1e-9)


class TestUntil:
    """Runs that end by a condition."""

    def test_free_fall(self):
        system = bar(None, Schedule((10.0, np.inf)))
        run = un.run(
            system, system.state(), t_end=2.0, dt=1e-2, until=lambda system, t, state: state.base.position[1] + 0.7
        )
        t = np.sqrt(2 * 0.7 / G)
        assert run.ok
        assert f"the condition was met at t = {t:.5f}" in run.message
        assert_allclose(run.data.time[-1], t, rtol=1e-12)
        assert_allclose(run.data.time[:-1], 0.01 * np.arange(len(run.data.time) - 1), atol=1e-13)
        assert_allclose(run.data.base_position[-1, 1], -0.7, atol=1e-12)
        assert_allclose(run.state.base.position[1], -0.7, atol=1e-12)

    def test_not_met(self):
        system = bar(None, Schedule((10.0, np.inf)))
        run = un.run(system, system.state(), t_end=0.1, dt=1e-2, until=lambda s, t, x: x.base.position[1] + 0.7)
        assert run.ok
        assert "the condition was not met" in run.message
        assert_allclose(run.data.time[-1], 0.1)

    @pytest.mark.parametrize(
        ("until", "words"),
        [
            (lambda system, t, state: t > 0.05, "until returns True or False; it must be one number"),
            (lambda system, t, state: state.base.position, r"until returns an array of the shape \(3,\)"),
            (5, r"until = 5; it must be a function of \(system, t, state\)"),
            (lambda system, t, state: None, "until returns None"),
            (lambda system, t, state: 1.0 if t > 0.05 else -1.0, "use jnp.where"),
            (lambda system, t, state: float(t) - 0.05, "use jax.numpy instead of numpy, math and float()"),
            (
                lambda state: state.q[0],
                r"until is a function of \(state\); it must be a function of \(system, t, state\)",
            ),
            (lambda system, t, state: t / 0.0 - t / 0.0, "until is not a number at t = 0.01 s"),
        ],
    )
    def test_values_without_a_sign_are_refused(self, until, words):
        system = bar(None, Schedule((10.0, np.inf)))
        with pytest.raises(un.UndulaError, match=words):
            un.run(system, system.state(), t_end=0.1, dt=1e-2, until=until)

    def test_a_condition_that_is_not_a_number_later(self):
        """What was computed before is kept."""
        system = bar(None, Schedule((10.0, np.inf)))

        def until(system, t, state):
            return 1.0 + jnp.sqrt(0.055 - t)

        run = un.run(system, system.state(), t_end=0.1, dt=1e-2, save_every=1, until=until)
        assert run.status == "failed"
        assert "until is not a number at t = " in run.message and np.isfinite(run.data.base_position.values).all()

    def test_order_of_accuracy(self):
        """The instant at which a pendulum stands vertical, by SciPy's events."""
        system = relieved((0.0, 9.0), (10.0, np.inf))

        def level(t, x):
            return x[2] + np.pi / 2

        level.terminal = True
        exact = swung(np.zeros(6), -1, np.array([0, 1.0]), level).t_events[0][0]

        def down(system, t, state):
            return state.base.quaternion[3] / state.base.quaternion[0] + jnp.tan(jnp.pi / 4)

        errors = []
        for dt in (0.04, 0.02, 0.01):
            run = un.run(system, system.state(), t_end=1.0, dt=dt, until=down)
            assert_allclose(planar(run.data)[-1, 2], -np.pi / 2, atol=1e-11)
            errors.append(abs(float(run.data.time[-1]) - exact))
        assert all(a / b > 10 for a, b in itertools.pairwise(errors))
        assert errors[-1] < 1e-8


class TestRefused:
    def test_a_hold_that_is_not_reached(self):
        anchor = un.rows.Anchor("shelf", "block", (0, 0, -1.0), holds=("z",)).when(Schedule((0.3, np.inf)))
        system = block(anchor)
        run = un.run(system, system.state(), t_end=1.0, dt=1e-2)
        assert run.status == "failed"
        apart = 1 - G * 0.3**2 / 2
        assert f"'shelf' cannot be switched on at t = 0.3 s: {apart:.3g}" in run.message
        assert len(run.data.time) == 30
        assert np.isfinite(run.data.position.values).all()


class TestOtherMethods:
    @pytest.mark.long
    def test_rod_with_an_anchor_that_switches(self):
        """The tip of a soft rod is held for a while: it stays, and the energy is kept but for what the catch takes."""
        b = un.Builder("rod", gravity=(0, -G, 0))
        b.base("ground")
        rod = un.Rod(
            name="rod",
            length=0.5,
            section=un.rods.Circle(0.02),
            E=2e6,
            density=1100.0,
            modes=4,
            strains="planar-kirchhoff",
        )
        b.body("tip", "ground", rod, mass=0.05)
        b.add(un.rows.Latch("hold", "tip", holds=("x", "y")).when(Schedule((0.0513, 0.1207))))
        system = b.build()
        run = un.run(system, system.state(), t_end=0.2, dt=1e-3, save_every=1)
        assert run.data.attrs["integrator"] == "ImplicitMidpoint"
        d = run.data
        t = d.time.values
        held = (t >= 0.0513) & (t < 0.1207)
        tip = d.body_position.sel(body="tip").values[held]
        assert_allclose(tip - tip[0], 0, atol=1e-8)
        assert np.ptp(d.body_position.sel(body="tip").values, axis=0).max() > 1e-3
        total = (d.energy_kinetic + d.energy_potential).values
        assert d.event_energy[0] < -1e-4
        for part in (t < 0.0513, held, t >= 0.1207):
            assert np.ptp(total[part]) < 0.02 * abs(float(d.event_energy[0]))
        assert_allclose(total[held][0] - total[t < 0.0513][-1], d.event_energy[0], rtol=0.02)

    def test_contacts_and_a_switched_row(self):
        """A ball hangs until it is let go between two steps, falls and bounces."""
        e, radius, height, free = 0.6, 0.05, 0.3, 0.10037
        b = un.Builder("ball")
        b.base("ball", role="free", mass=0.4, inertia=un.solids.sphere_inertia(0.4, radius))
        b.add(
            un.contact.Contact(
                "ground", "ball", un.contact.Plane(), un.contact.Coulomb(0.3, restitution=e), radius=radius
            )
        )
        b.add(un.rows.Latch("thread", "ball").when(Schedule((0.0, free))))
        system = b.build()
        run = un.run(system, system.state(base_position=(0, 0, radius + height)), t_end=0.6, dt=2e-4, save_every=50)
        assert run.ok
        d = run.data
        t, z = d.time.values, d.base_position.values[:, 2] - radius
        hits = free + np.sqrt(2 * height / G)
        up = e * np.sqrt(2 * G * height)
        exact = np.where(t < free, height, height - G * (t - free) ** 2 / 2)
        exact = np.where(t < hits, exact, up * (t - hits) - G * (t - hits) ** 2 / 2)
        assert_allclose(z, exact, atol=1.5e-3)  # an impact is found up to a step late
        assert_allclose(z[t < hits], exact[t < hits], atol=3e-4)
        words = un.results.class_names(d).tolist()
        assert words[0] == "under-constrained" and words[-1] == "unconstrained"
        assert_allclose(d.event_time, [free], atol=1e-13)
