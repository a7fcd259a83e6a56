"""The climber: pendulums between grabs, impacts at the grabs, and the energy of the whole run."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from undula import gallery
from undula.core.errors import UndulaError
from undula.scenario.scenario import run_scenario

G, M, L, RISE = 9.81, 1.0, 0.5, 0.1


def down(angle):
    """Unit vector at an angle from straight down, in the plane of the wall."""
    return np.array([np.sin(angle), -np.cos(angle)])


def ahead(angle):
    return np.array([np.cos(angle), np.sin(angle)])


def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


class Pendulum:
    """Two uniform rods that hang on a claw, by hand: angles a (of the rod that hangs) and b from straight down.

    A grab swaps the rods; the angular momentum about the new claw remains, and, at a free elbow, that of the rod beyond the
    elbow about the elbow.
    """

    def __init__(self, elbow, stiffness=0.0):
        self.elbow, self.stiffness, self.side = elbow, stiffness, 1.0  # side: sign of the elbow's law in these angles

    def matrix(self, a, b):
        c = M * L**2 / 2 * np.cos(a - b)
        return np.array([[4 / 3 * M * L**2, c], [c, M * L**2 / 3]])

    def forces(self, a, b, da, db):
        """Right-hand side of matrix @ accelerations."""
        s = M * L**2 / 2 * np.sin(a - b)
        spring = self.stiffness * (b - a)
        weight = -M * G * L * np.array([1.5 * np.sin(a), 0.5 * np.sin(b)])
        return weight + [-s * db**2 + spring, s * da**2 - spring]

    def rates(self, t, y):
        a, b, da, db = y
        H, f = self.matrix(a, b), self.forces(a, b, da, db)
        if self.elbow is None:
            return [da, db, *np.linalg.solve(H, f)]
        bend = self.side * self.elbow(t)[2]  # b = a + elbow: the sum of both rows has no torque of the motor
        dda = (f.sum() - H[:, 1].sum() * bend) / H.sum()
        return [da, db, dda, dda + bend]

    def height(self, y):
        return L * (down(y[0]) + down(y[1]))[1]

    def climbing(self, t, y):
        rise = L * (ahead(y[0]) * y[2] + ahead(y[1]) * y[3])[1]
        return max(rise, RISE - self.height(y))

    def grab(self, t, y):
        a, b, da, db = y
        elbow, tip = L * down(a), L * (down(a) + down(b))
        places = elbow / 2, elbow + L / 2 * down(b)
        speeds = L / 2 * ahead(a) * da, L * ahead(a) * da + L / 2 * ahead(b) * db
        own = M * L**2 / 12

        def about(point, which):
            return sum(M * cross(places[k] - point, speeds[k]) + own * (da, db)[k] for k in which)

        H = self.matrix(b, a)  # of the pendulum that hangs on the other claw; half turns of both rods change nothing
        if self.elbow is None:
            # about the new claw: all of it; about the elbow: the rod that has let go
            total, rod = about(tip, (0, 1)), about(elbow, (0,))
            # momentum of the pendulum: its second component is that of the far rod about the elbow
            new = np.linalg.solve([H.sum(0), H[1]], [total, rod])
        else:
            bend = -self.side * self.elbow(t)[1]
            first = (about(tip, (0, 1)) - H[:, 1].sum() * bend) / H.sum()
            new = first, first + bend
            self.side = -self.side
        return np.array([b + np.pi, a + np.pi, *new])

    def energy(self, y):
        w = np.array(y[2:])
        return w @ self.matrix(y[0], y[1]) @ w / 2 - M * G * L * (1.5 * np.cos(y[0]) + 0.5 * np.cos(y[1]))

    def run(self, y, t_end):
        """Instants of the grabs, heights of the claws, changes of the energy, and the height of the mass centre at the end."""
        times, heights, changes, base, t = [], [], [], 0.0, 0.0
        top = lambda t, y: self.climbing(t, y)  # noqa: E731
        top.terminal, top.direction = True, -1
        while True:
            out = solve_ivp(self.rates, (t, t_end), y, "DOP853", events=top, rtol=1e-12, atol=1e-12, max_step=0.02)
            t, y = out.t[-1], out.y[:, -1]
            if out.status == 0:
                centre = base + L * (0.75 * down(y[0]) + 0.25 * down(y[1]))[1]
                return np.array(times), np.array(heights), np.array(changes), centre
            before, base = self.energy(y) + 2 * M * G * base, base + self.height(y)
            y = self.grab(t, y)
            times.append(t)
            heights.append(base)
            changes.append(self.energy(y) + 2 * M * G * base - before)


def entry(dt=1e-3, save_every=1, **given):
    done = run_scenario(gallery.load("climber"), given, dt=dt, save_every=save_every)
    assert done.run.ok, done.run.message
    return done.metrics, done.run.data


def compare(found, data, by_hand, tolerance):
    """Instants, heights and energies of all grabs, and the height of the mass centre at the end."""
    times, heights, changes, centre = by_hand
    assert len(times) == data.sizes["event"] == found["grabs"]
    assert_allclose(data.event_time.values, times, rtol=0, atol=tolerance)
    assert_allclose(found["climb"], heights[-1], rtol=0, atol=tolerance)
    assert_allclose(data.event_energy.values, changes, rtol=0, atol=30 * tolerance)
    assert_allclose(data.mass_centre.values[-1, 2], centre, rtol=0, atol=10 * tolerance)


@pytest.fixture(scope="module")
def climb():
    return entry(duration=6.0)


class TestDriven:
    def test_by_hand(self, climb):
        w = 2 * np.pi * 0.65

        def law(t):
            return 2.5 * np.sin(w * t), 2.5 * w * np.cos(w * t), -2.5 * w**2 * np.sin(w * t)

        y = [0, 0, 0, law(0)[1]]  # the upper link is at rest
        compare(*climb, Pendulum(law).run(y, 6.0), 1e-8)

    def test_energy(self, climb):
        """Work of the motor = change of energy + what the grabs lose."""
        found, data = climb
        energy = (data.energy_kinetic + data.energy_potential).values
        assert abs(energy[-1] - energy[0] - found["work"] + found["grab_loss"]) < 1e-6
        assert found["energy_error"] < 1e-6
        assert (data.event_loss.values > 0).all()

    def test_locks_to_the_law(self, climb):
        """In the end two grabs per period, the claws alternating."""
        _, data = climb
        assert_allclose(np.diff(data.event_time.values)[-1], 1 / (2 * 0.65), rtol=2e-3)
        active = data.constraint_active.values
        assert (active.sum(1) == 2).all() and np.count_nonzero(np.diff(active[:, 0])) == 8


class TestFree:
    """Free elbow, no tail: a double pendulum that starts high enough for a grab."""

    @pytest.mark.parametrize("stiffness", [0.0, pytest.param(1.0, marks=pytest.mark.long)])
    def test_by_hand(self, stiffness):
        start = 1.65
        given = {"joint": "sprung", "stiffness": stiffness} if stiffness else {"joint": "passive"}
        found, data = entry(start=start, tail_mass=0.0, damping=0.0, duration=2.0, **given)
        by_hand = Pendulum(None, stiffness).run([start, start, 0, 0], 2.0)
        compare(found, data, by_hand, 1e-7)
        assert abs(found["work"]) < 1e-12
        assert found["energy_error"] < 1e-6
        assert_allclose(data.event_loss, -data.event_energy, atol=1e-9)


SLOWER = {"tail_amplitude": 2.1, "tail_frequency": 1.2, "tail_mass": 2.7}


@pytest.mark.long
@pytest.mark.parametrize(("joint", "tail"), [pytest.param("passive", SLOWER, marks=pytest.mark.long), ("sprung", {})])
def test_tail(joint, tail):
    """A tail makes the others climb; the energy balance includes what the elbow's damper takes."""
    found, data = entry(joint=joint, duration=3.0, **tail)
    assert found["climb"] > 1.0
    assert found["friction_loss"] > 0
    energy = (data.energy_kinetic + data.energy_potential).values
    assert_allclose(energy[-1] - energy[0], found["work"] - found["grab_loss"] - found["friction_loss"], atol=1e-4)


def test_parameters_that_a_joint_does_not_have():
    with pytest.raises(UndulaError, match=r"stiffness = 3 is not allowed with joint = driven"):
        gallery.load("climber").setup(stiffness=3.0)
