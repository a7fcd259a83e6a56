"""The wheeled snake: rows, singular shapes, paths (document 000, chapters 3 and 4).

Expected values are its closed forms and an independent model of planar mechanisms.
"""

from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.balance.admissible import instant
from undula.gallery.snake_acm import RULES
from undula.scenario.scenario import run_scenario
from vehicles import PLANE, instants, motion, seen, vehicle, yaw


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
            A = np.asarray(instant(system, state, t).A)
            Abar, Bbar = self.matrices(self.shape(t))
            assert_allclose(A[:3, PLANE], Abar, atol=1e-14)
            assert_allclose(A[:3][:, [column[2], column[4]]], Bbar, atol=1e-14)
            B = A[:, [column[j] for j in range(2, 19, 2)]]
            assert_allclose(np.triu(B, 0), 0, atol=1e-15)  # the k-th wheels depend on joints of modules up to the k-th
            assert_allclose(A[:, [column[j] for j in range(1, 20, 2)]], 0, atol=1e-15)
            assert np.linalg.matrix_rank(A[:, PLANE]) == 3

    def test_singular_when_symmetric(self):
        """det Abar changes sign at k pi, where all axles meet; the motion continues (the limit exists)."""
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
        s, _, _ = seen(vehicle("snake-acm", rate=0.0, phase=tuple(self.phases + 0.7)))  # a nonsingular shape
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
        """Against an integration of (3.45); the pose advances along a line, by the same amount in each cycle."""

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


@pytest.mark.long
def test_rules_of_the_page():
    """The numbers of the page's table, and that each rule gives the least of what it minimises, at every instant."""
    page = (Path(__file__).parents[2] / "docs" / "gallery" / "snake-acm.md").read_text().partition("All rules on")[2]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    runs = {row[0]: run_scenario(gallery.load("snake-acm"), {"rule": row[0]}) for row in rows}
    assert list(runs) == list(RULES)
    for name, *numbers in rows:
        metrics = [1e3 * runs[name].metrics[x] for x in ("tau_max", "tau_median", "reaction_max")]
        for number, metric in zip(numbers, metrics):
            assert number == "-" or float(number) == pytest.approx(metric, rel=0.01)
    costs = {
        "least reactions": lambda d: (d.reaction**2).sum("constraint"),
        "least torques": lambda d: (d.effort**2).sum("coordinate"),
        "least power": lambda d: ((d.effort * d.velocity) ** 2).sum("coordinate"),
        "largest margin": lambda d: np.abs(d.reaction).max("constraint"),
    }
    for best, cost in costs.items():
        own = cost(runs[best].run.data).values
        for other in costs:
            value = cost(runs[other].run.data).values
            assert (own <= value + 1e-4 * value.max()).all()
