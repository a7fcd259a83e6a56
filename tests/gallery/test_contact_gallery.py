"""Contact in the gallery: closed forms, published limit cycles, and independent models of the same machines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve

from undula import gallery
from undula.scenario.scenario import run_scenario

G = 9.81


def entry(name, dt=None, save_every=None, **given):
    """The metrics and samples of a run that must succeed."""
    done = run_scenario(gallery.load(name), given, dt=dt, save_every=save_every)
    assert done.run.ok, done.run.message
    return done.metrics, done.run.data


class TestRollingBall:
    """Constant accelerations: when slip ends 5/7 of the speed remains, then rolling friction stops the ball."""

    def test_thrown(self):
        found, data = entry("rolling-ball")
        v, mu, roll = 2.0, 0.2, 0.05
        t = v / (G * (3.5 * mu - 2.5 * roll))  # rolling friction also opposes the spin
        speed, slowing = v - mu * G * t, 5 / 7 * roll * G
        assert_allclose(found["roll_time"], t, rtol=1e-4)
        assert_allclose(found["roll_speed"], speed, rtol=1e-4)
        assert_allclose(found["stop_time"], t + speed / slowing, rtol=1e-4)
        # a sum over steps: half a step of the speeds at the start and where it begins to roll
        assert_allclose(found["stop_distance"], (v + speed) / 2 * t + speed**2 / (2 * slowing), atol=1e-3)
        assert np.abs(data.base_twist.values[-1]).max() < 1e-12

    @pytest.mark.parametrize("spin", [-60.0, -120.0, 80.0])
    def test_spun(self, spin):
        """Slowed, reversed or accelerated by its spin."""
        found, _ = entry("rolling-ball", spin=spin, mu_roll=0.0)
        v, s = 2.0, 0.05 * spin
        assert_allclose(found["roll_time"], 2 / 7 * abs(v - s) / (0.2 * G), rtol=1e-4)
        assert_allclose(found["final_speed"], (5 * v + 2 * s) / 7, rtol=1e-6)
        assert_allclose(found["roll_speed"], found["final_speed"], rtol=1e-6)
        assert np.isnan(found["stop_time"])


class Toy:
    """The woodpecker toy by hand, with Moreau's rule, contact by contact; as published, or with exact geometry."""

    mM, JM, mS, JS, c = 3e-4, 5e-9, 4.5e-3, 7e-7, 5.6e-3
    lM, lG, lS, hM, hS, rO, rM, mu = 0.010, 0.015, 0.0201, 0.0058, 0.02, 0.0025, 0.0031, 0.3
    restitution = (0.5, 0.0, 0.0)

    def __init__(self, exact):
        self.exact = exact

    def terms(self, q, u):
        """Mass matrix, forces, gaps of beak, lower and upper edge, and their normal and tangential directions."""
        a, b = q[1:]
        if not self.exact:
            sa, ca, sb, cb = a, 1.0, b, 1.0  # linearised in the gaps only: directions and moments are constant
            va, vb, squares = 0.0, 0.0, 0.0
        else:
            sa, ca, sb, cb = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
            va, vb, squares = sa, sb, 1.0
        across = np.array([0, -self.lM * va, -self.lG * vb])
        up = np.array([1, self.lM * ca, self.lG * cb])
        M = self.mS * (np.outer(across, across) + np.outer(up, up)) + np.diag([self.mM, self.JM, self.JS])
        turn = squares * (self.lM * u[1] ** 2 * np.array([ca, va]) + self.lG * u[2] ** 2 * np.array([cb, vb]))
        spring = self.c * (b - a)
        h = self.mS * (across * turn[0] + up * (turn[1] - G)) + np.array([-self.mM * G, spring, -spring])
        k = self.lG - self.lS
        gaps = [self.lM * ca + k * cb - self.hS * sb, self.rM * ca + self.hM * sa, self.rM * ca - self.hM * sa]
        normal = np.array(
            [
                [0, -self.lM * va, -k * vb - self.hS * cb],
                [0, -self.rM * va + self.hM * ca, 0],
                [0, -self.rM * va - self.hM * ca, 0],
            ]
        )
        along = np.array(
            [
                [1, self.lM * ca, k * cb - self.hS * vb],
                [1, self.rM * ca + self.hM * va, 0],
                [1, self.rM * ca - self.hM * va, 0],
            ]
        )
        return M, h, np.array(gaps) - self.rO, normal, along

    def step(self, q, u, dt):
        """One step; returns whether the beak hit."""
        q = q + dt / 2 * u
        M, h, gaps, WN, WT = self.terms(q, u)
        inverse = np.linalg.inv(M)
        v, P = u + dt * inverse @ h, np.zeros((3, 2))
        closed = np.flatnonzero(gaps <= 0)
        for _ in range(500 * (len(closed) > 0)):
            before = P.copy()
            for j in closed:
                for k, w in enumerate((WN[j], WT[j])):
                    answer = inverse @ w
                    wanted = -self.restitution[j] * min(w @ u, 0.0) if k == 0 else 0.0
                    new = P[j, k] + (wanted - w @ v) / (w @ answer)
                    new = max(new, 0.0) if k == 0 else np.clip(new, -self.mu * P[j, 0], self.mu * P[j, 0])
                    v, P[j, k] = v + answer * (new - P[j, k]), new
            if np.abs(P - before).max() <= 1e-10 * np.abs(P).max():
                break
        return q + dt / 2 * v, v, P[0, 0] > 0

    def run(self, q, u, dt, steps):
        """Coordinates and velocities at all steps, and the times of the beats."""
        q, u, path, beats = np.array(q, float), np.array(u, float), [], []
        for k in range(steps):
            path.append([*q, *u])
            q, u, hit = self.step(q, u, dt)
            if hit:
                beats.append(k * dt)
        return np.array(path), np.array(beats)


class TestWoodpecker:
    START, RATES = (0, -0.1036, -0.2788), (-0.3411, 0, -7.4583)

    def test_the_published_cycle(self):
        """The model below, linearised, has the limit cycle of Leine, Glocker and van Campen (2001): T = 0.1452 s, -0.53 rad.

        Siconos' reference run of the same model, at dt = 2e-5 s, has fallen 19.50 mm when the initial state recurs at 0.1461 s.
        """
        path, beats = Toy(exact=False).run(self.START, self.RATES, 1e-4, 2400)
        assert_allclose(np.diff(beats), 0.1452, rtol=1e-2)
        assert_allclose(path[:, 2].min(), -0.53, atol=0.005)
        back = path[1461]
        assert_allclose(back[1:3], self.START[1:], atol=1e-3)
        assert_allclose(back[[3, 5]], self.RATES[::2], rtol=5e-3)
        assert_allclose(back[0], -0.01950, rtol=5e-3)

    @pytest.mark.parametrize("dt, error", [(1e-4, 1e-3), (2.5e-5, 2.5e-4)])
    @pytest.mark.long
    def test_the_toy(self, dt, error):
        """undula against the same toy with exact geometry over two beats; then the cycle, a tenth faster than linearised."""
        setup = gallery.load("woodpecker").setup()
        start = np.asarray(setup.state(setup.system).q)
        path, beats = Toy(exact=True).run((start[0], start[1], start[1] + start[2]), self.RATES, 2e-5, 15_000)
        found, data = entry("woodpecker", dt=dt, save_every=round(1e-4 / dt), duration=0.3)
        assert found["beats"] == len(beats) == 2
        assert data.contact_impacts.sel(contact="beak").values.sum() == len(beats)
        pushed = data.contact_force_mean.sel(contact="beak", axis="x").values
        assert np.count_nonzero(pushed) == len(beats)  # no beat falls between two samples
        assert np.abs(data.position.values[:3000, 0] - path[::5, 0]).max() < error  # out of 34 mm; first order
        assert_allclose(found["frequency"], 1 / np.diff(beats)[0], rtol=5e-3)
        assert_allclose(found["swing"], path[:, 2].min(), rtol=1e-3)
        jammed = (data.time.values > 0.035) & (data.time.values < 0.055)
        assert np.ptp(data.position.values[jammed, 0]) < 1e-9  # it sticks without creep


class Hopper:
    """The hopper by hand, from event to event: flight, impact, a foot that sticks or slips."""

    M, m, length, k, c, stroke, rate, lead = 3.0, 0.3, 0.5, 1000.0, 12.0, 0.04, 2 * np.pi * 2.5, 2.2

    def __init__(self, swing, mu):
        self.swing, self.mu = swing, mu

    def leg(self, t, y):
        """Directions along and across the leg, its angular velocity and acceleration, its length, its force on the foot."""
        angle, w = self.rate * t + self.lead, self.rate
        th, turn, faster = self.swing * np.array([np.sin(angle), w * np.cos(angle), -w * w * np.sin(angle)])
        along, across = np.array([np.sin(th), -np.cos(th)]), np.array([np.cos(th), np.sin(th)])
        wanted, rate = self.stroke * np.sin(w * t), self.stroke * w * np.cos(w * t)
        force = -self.k * (y[2] - wanted) - self.c * (y[5] - rate)
        return along, across, turn, faster, self.length + y[2], force

    def foot(self, t, y):
        along, across, turn, _, length, _ = self.leg(t, y)
        return y[:2] + length * along, y[3:5] + y[5] * along + length * turn * across

    def balance(self, along, forces, motion, mode):
        """Rates of x, z, extension, and the ground force, where the foot's own rate would be -`motion`.

        `mode`: None in flight, 0 where the foot sticks, the sign of its velocity where it slips.
        """
        A, right = np.zeros((5, 5)), np.append(forces, np.zeros(2))
        A[:2, :2], A[:2, 2], A[:2, 3:] = (self.M + self.m) * np.eye(2), self.m * along, -np.eye(2)
        A[2, :2], A[2, 2], A[2, 3:] = self.m * along, self.m, -along
        moves = np.column_stack([np.eye(2), along, np.zeros((2, 2))])
        if mode is None:
            A[3:, 3:] = np.eye(2)
        elif mode == 0:
            A[3:], right[3:] = moves, motion
        else:
            A[3], right[3] = moves[1], motion[1]
            A[4, 3:] = 1, mode * self.mu
        out = np.linalg.solve(A, right)
        return out[:3], out[3:]

    def forces(self, t, y, mode):
        along, across, turn, faster, length, force = self.leg(t, y)
        rest = (2 * y[5] * turn + length * faster) * across - length * turn**2 * along
        pull = np.array([0, -G]) * (self.M + self.m) - self.m * rest
        extending = force + self.m * along @ (np.array([0, -G]) - rest)
        return self.balance(along, np.append(pull, extending), -rest, mode)

    def rates(self, t, y, mode):
        return np.append(y[3:], self.forces(t, y, mode)[0])

    def impact(self, t, y):
        """The state after the impact, and the mode of the foot."""
        along, v = self.leg(t, y)[0], self.foot(t, y)[1]
        for mode in (0, np.sign(v[0])):
            change, push = self.balance(along, np.zeros(3), -v, mode)
            if abs(push[0]) <= self.mu * push[1] * (1 + 1e-9):
                return y + np.append(np.zeros(3), change), mode
        raise AssertionError

    def ends(self, mode):
        """Functions of time, state and mode that cross zero downward where the mode ends; lift-off first, in stance."""

        def lands(t, y, mode):
            return self.foot(t, y)[0][1]

        def lifts(t, y, mode):
            return self.forces(t, y, mode)[1][1]

        def slips(t, y, mode):
            across, load = self.forces(t, y, mode)[1]
            return self.mu * load - abs(across)

        def sticks(t, y, mode):
            return mode * self.foot(t, y)[1][0]

        return [lands] if mode is None else [lifts, slips if mode == 0 else sticks]

    def run(self, t_end, drop):
        """Times of the touch-downs, and a function of time that gives x, z, extension."""
        t, mode, downs, parts = 0.0, None, [], []
        y = np.array([0, self.length * np.cos(self.swing * np.sin(self.lead)) + drop, 0, 0, 0, 0])
        while t < t_end:
            ends = self.ends(mode)
            for end in ends:
                end.terminal, end.direction = True, -1
            options = dict(events=ends, rtol=1e-7, atol=1e-9, max_step=0.01, dense_output=True)
            part = solve_ivp(self.rates, (t, t_end), y, args=(mode,), **options)
            parts.append(part)
            t, y = part.t[-1], part.y[:, -1]
            if part.status == 0:
                break
            if mode is None:
                downs.append(t)
                y, mode = self.impact(t, y)
            elif len(part.t_events[0]):
                mode = None
            elif mode == 0:
                mode = -np.sign(self.forces(t, y, 0)[1][0])
            else:
                push = self.forces(t, y, 0)[1]
                mode = 0 if abs(push[0]) <= self.mu * push[1] else -mode

        def path(times):
            which = np.searchsorted([p.t[-1] for p in parts[:-1]], times)
            return np.array([parts[k].sol(s)[:3] for k, s in zip(which, times)])

        return np.array(downs), path


class TestHopper:
    @pytest.mark.parametrize("swing, mu", [(0.2, 0.8), (0.0, 0.8), (0.1, 3.0)])
    @pytest.mark.long
    def test_from_event_to_event(self, swing, mu):
        """In place and forward, from the drop through the first hops, with stick and slip."""
        exact, expected = Hopper(swing, mu).run(2.0, drop=0.1)
        paths = []
        for dt in (2e-4, 1e-4):
            found, data = entry("hopper", swing=swing, mu=mu, duration=2.0, dt=dt, save_every=round(2e-3 / dt))
            paths.append(data.position.sel(coordinate=["x", "z", "extension"]).values)
        t, off = data.time.values, data.contact_gap.values[:, 0] > 1e-4
        downs = t[1:][off[:-1] & ~off[1:]]
        assert len(downs) == found["hops"] > 2
        assert_allclose(downs, exact, atol=6e-3)  # samples are 2 ms apart
        coarse, fine = (np.abs(x - expected(t)).max() for x in paths)
        assert fine < 1e-2 and fine < 0.7 * coarse  # out of half a metre; first order
        assert_allclose(2 * paths[1] - paths[0], expected(t), atol=1.5e-3)  # extrapolated to zero step

    def test_gait(self):
        """It hops in the rhythm of its leg. In the air, the centre of mass follows a parabola."""
        found, data = entry("hopper")
        assert_allclose(found["hop_period"], 1 / 2.5, rtol=4e-3)
        assert data.contact_impacts.values.sum() == found["hops"]  # one per hop, although the light foot vibrates
        late = data.time.values > 5
        x = data.body_position.sel(body=["body", "foot"]).values[late]
        centre, t = (3.0 * x[:, 0] + 0.3 * x[:, 1]) / 3.3, data.time.values[late]
        up = data.contact_gap.values[late, 0] > 1e-3
        first = np.flatnonzero(~up[:-1] & up[1:])[0] + 1
        flight = slice(first, first + np.argmin(up[first:]))
        assert t[flight][-1] - t[flight][0] > 0.1
        square, speed, _ = np.polyfit(t[flight], centre[flight][:, [0, 2]], 2)
        assert_allclose(square, [0, -G / 2], atol=1e-3)
        assert 0.5 < speed[0] < 1.5 and 0.5 < found["speed"] < 1.5


class Compass:
    """The textbook compass: a double pendulum on the stance foot, and an impact in which the other foot sticks.

    Angles (stance, swing) from the vertical, from foot to hip, forward positive.
    """

    hip, leg, length, centre, slope = 10.0, 5.0, 1.0, 0.5, np.deg2rad(3)
    down, out = np.array([np.cos(slope), -np.sin(slope)]), np.array([np.sin(slope), np.cos(slope)])

    def points(self, q):
        """(mass, Jacobian, its derivatives with respect to the two angles): stance leg, hip, swing leg."""
        far, zero = self.length - self.centre, np.zeros(2)
        (a, da), (b, db) = ((np.array([np.cos(x), -np.sin(x)]), np.array([-np.sin(x), -np.cos(x)])) for x in q)
        top, stands, swings = self.length * a, far * a, -self.centre * b
        return [
            (self.leg, np.stack([stands, zero], 1), np.stack([far * da, zero], 1)),
            (self.hip, np.stack([top, zero], 1), np.stack([self.length * da, zero], 1)),
            (self.leg, np.stack([top, swings], 1), np.stack([self.length * da, -self.centre * db], 1)),
        ]

    def rates(self, t, y):
        q, u = y[:2], y[2:]
        points = self.points(q)
        M = sum(m * J.T @ J for m, J, _ in points)
        h = sum(m * J.T @ (np.array([0, -G]) - D @ u**2) for m, J, D in points)
        return np.append(u, np.linalg.solve(M, h))

    def swing_foot(self, q):
        return self.length * np.array([np.sin(q[0]) - np.sin(q[1]), np.cos(q[0]) - np.cos(q[1])])

    def impact(self, y):
        """Rates after the impact: the landing foot stops, by an impulse on an otherwise free body."""

        def on_leg(distance, k):  # velocity of a point of a leg in terms of (hip, angles)
            J = np.zeros((2, 4))
            J[0, 0] = J[1, 1] = 1
            J[:, 2 + k] = -distance * np.array([np.cos(y[k]), -np.sin(y[k])])
            return J

        masses = ((self.hip, on_leg(0, 0)), (self.leg, on_leg(self.centre, 0)), (self.leg, on_leg(self.centre, 1)))
        M = sum(m * J.T @ J for m, J in masses)
        v = np.append(self.length * np.array([np.cos(y[0]), -np.sin(y[0])]) * y[2], y[2:])
        W = on_leg(self.length, 1)
        answer = np.linalg.solve(M, W.T)
        push = -np.linalg.solve(W @ answer, W @ v)
        after = v + answer @ push
        assert (on_leg(self.length, 0) @ after) @ self.out > 0  # the other foot lifts off
        assert abs(push @ self.down) < 0.6 * (push @ self.out)  # and friction is sufficient
        return after[2:]

    def step(self, half, rates):
        """(half the angle between the legs, rates, time) after a step; the swing foot does not scuff."""
        y = np.array([self.slope - half, self.slope + half, *rates])

        def lands(t, y):
            foot = self.swing_foot(y)
            return foot @ self.out if foot @ self.down > 0.1 else 1.0

        lands.terminal, lands.direction = True, -1
        run = solve_ivp(self.rates, (0, 3), y, events=lands, rtol=1e-10, atol=1e-11, max_step=0.02)
        end = run.y_events[0][0]
        return (end[0] - end[1]) / 2, self.impact(end)[::-1], run.t_events[0][0]


class TestWalker:
    @pytest.mark.parametrize("dt", [1e-4, pytest.param(2.5e-5, marks=pytest.mark.long)])
    def test_limit_cycle(self, dt):
        """Period, step and speed of the gait of Goswami, Thuilot and Espiau's compass, as found by the textbook model.

        Fixed steps detect impacts, one every 0.7 s, up to a step late: errors are proportional to dt.
        """
        compass = Compass()

        def change(z):
            half, rates, _ = compass.step(z[0], z[1:])
            return np.append(half, rates) - z

        half, *rates = fsolve(change, [0.27, 1.1, 0.4], xtol=1e-10)
        # the commonly quoted values for this robot and slope, to four digits
        assert_allclose([half - compass.slope, half + compass.slope], [0.2187, 0.3234], atol=1e-4)
        assert_allclose(rates, [1.0918, 0.3772], rtol=1e-3)
        period, length = compass.step(half, rates)[2], 2 * np.sin(half)

        found, _ = entry("walker", dt=dt, save_every=round(2e-3 / dt))
        assert found["steps"] >= 12
        assert_allclose(found["step_period"], period, rtol=8 * dt)
        assert_allclose(found["step_length"], length, rtol=8 * dt)
        assert_allclose(found["speed"], length / period, rtol=8 * dt)
        assert found["penetration_max"] < 3 * dt  # feet land at about 0.8 m/s

    @pytest.mark.long
    def test_comes_back(self):
        """A start off the cycle converges to it: the last two steps have its period and length."""
        found, data = entry("walker", stance_rate=1.12)
        assert found["steps"] >= 12
        x, t = data.body_position.sel(body="hip").values[:, 0], data.time.values
        period, length = 0.734346, 0.535445  # of the compass above
        last = np.interp(10, t, x) - np.interp(10 - 2 * period, t, x)
        assert_allclose(last / np.cos(Compass.slope), 2 * length, rtol=3e-3)
        first = np.interp(2 * period, t, x) - x[0]
        assert abs(first / np.cos(Compass.slope) - 2 * length) > 0.01
