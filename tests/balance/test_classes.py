"""Rates of the driven coordinates that the rows admit, against kernels computed from planar geometry."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import undula as un


def same_span(found, expected):
    """Orthonormal bases (modes, n) of one space."""
    assert found.shape == expected.shape
    assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-12)
    assert_allclose(found.T @ found, expected.T @ expected, atol=1e-9)


def kernel_of_shape(A, B):
    """An orthonormal basis of the r' with A u + B r' = 0 for some u."""
    whole = scipy.linalg.null_space(np.hstack([A, B]), rcond=1e-10)
    shape = whole[A.shape[1] :]
    return (
        scipy.linalg.orth(shape, rcond=1e-10).T if np.abs(shape).max(initial=0) > 1e-12 else np.zeros((0, B.shape[1]))
    )


class TestTruck:
    """Two parallel axles on a frame, a steered one, and two trailers with an axle each: five rows for three base velocities."""

    axles, hitch, back, steered = (0.0, -1.0), -1.4, 0.8, 1.5

    @pytest.fixture(scope="class")
    @classmethod
    def system(cls):
        b = un.Builder("truck")
        b.base("frame", role="free", group="SE2", mass=10.0, inertia=1.0)
        b.body(
            "front", "frame", un.Revolute((0, 0, 1), name="steer"), mass=1.0, inertia=0.1, position=(cls.steered, 0, 0)
        )
        more = dict(mass=2.0, com=(-cls.back, 0, 0), inertia=0.2)
        b.body("trailer", "frame", un.Revolute((0, 0, 1), name="r1"), position=(cls.hitch, 0, 0), **more)
        b.body("second", "trailer", un.Revolute((0, 0, 1), name="r2"), position=(-cls.back, 0, 0), **more)
        for k, x in enumerate(cls.axles):
            b.add(un.rows.Skate(f"axle{k}", un.site("frame", (x, 0, 0))))
        b.add(un.rows.Skate("nose", "front"))
        for name in ("trailer", "second"):
            b.add(un.rows.Skate(f"{name}-axle", un.site(name, (-cls.back, 0, 0))))
        # through the three shapes at t = 0, 1, 2
        b.drive(["steer", "r1", "r2"], un.laws.Polynomial([[0, 0, 0], [-0.1, 0.6, -0.45], [0.1, -0.2, 0.15]]))
        return b.build()

    def rows(self, shape):
        """Rows over (vx, vy, omega) and the three rates."""
        steer, r1, r2 = shape
        A, B = [], []

        def axle(point, heading, along):
            """A point of the frame's plane, the heading of its axle, and the columns of the rates in its velocity."""
            n = np.array([-np.sin(heading), np.cos(heading)])
            A.append([*n, n @ [-point[1], point[0]]])
            B.append([n @ v for v in along])

        zero = np.zeros(2)
        for x in self.axles:
            axle((x, 0), 0.0, (zero,) * 3)
        axle((self.steered, 0), steer, (zero,) * 3)
        first = np.array([self.hitch, 0.0])
        way = -self.back * np.array([np.cos(r1), np.sin(r1)])
        turn = np.array([-way[1], way[0]])
        axle(first + way, r1, (zero, turn, zero))
        more = -self.back * np.array([np.cos(r1 + r2), np.sin(r1 + r2)])
        also = np.array([-more[1], more[0]])
        axle(first + way + more, r1 + r2, (zero, turn + also, also))
        return np.array(A), np.array(B)

    @pytest.mark.parametrize(
        ("t", "shape", "modes", "word"),
        [
            (
                0.0,
                (0.0, 0.0, 0.0),
                1,
                "under-constrained",
            ),  # only the steered axle may turn; it still rolls straight on
            (1.0, (0.0, 0.4, -0.3), 2, "over-constrained"),  # and the trailers may follow a motion straight on
            (2.0, (0.2, 0.4, -0.3), 1, "over-constrained"),  # nothing rolls any more
        ],
    )
    def test_compatible(self, system, t, shape, modes, word):
        found = un.classify(system, t=t)
        assert found.constraint == word
        assert found.compatible.shape == (modes, 3)
        same_span(found.compatible, kernel_of_shape(*self.rows(shape)))
        base = np.linalg.matrix_rank(self.rows(shape)[0], tol=1e-10)
        assert found.base_rank == base and found.m_locked == base

    def test_motions_that_the_rows_do_not_admit(self, system):
        """The law's rates at t = 2 turn the first trailer: their part outside of the admitted ones cannot be met."""
        found = un.classify(system, t=2.0)
        A, B = self.rows((0.2, 0.4, -0.3))
        known = B @ np.array([0.3, -0.2, 0.15])
        assert_allclose(found.residual, np.abs(A @ np.linalg.lstsq(A, -known, rcond=None)[0] + known).max(), atol=1e-10)
        assert found.residual > 0.01


class TestFourBar:
    """A four-bar linkage whose crank and rocker are both driven: one row too many."""

    crank, ground, rocker = 0.5, 1.0, 0.7

    @pytest.fixture(scope="class")
    @classmethod
    def system(cls):
        b = un.Builder("four-bar")
        b.base("ground")
        z = (0, 0, 1)
        solid = dict(mass=1.0, inertia=0.1)
        b.body("crank", "ground", un.Revolute(z), **solid)
        b.body("coupler", "crank", un.Revolute(z), position=(cls.crank, 0, 0), **solid)
        b.body("rocker", "ground", un.Revolute(z), position=(cls.ground, 0, 0), **solid)
        tip = un.site("rocker", (cls.rocker, 0, 0))
        b.add(un.rows.Closure("loop", un.site("coupler", (cls.length(), 0, 0)), tip, holds=("x", "y")))
        angle, turned = cls.shapes()[0]
        b.drive(["crank", "rocker"], un.laws.Polynomial(np.zeros((1, 2)) + [[angle, turned]]))
        return b.build()

    @classmethod
    def shapes(cls):
        """Angles of crank and rocker, which define the length of the coupler."""
        return [(0.9, 2.0)]

    @classmethod
    def length(cls):
        a, c = cls.shapes()[0]
        tip = np.array([cls.ground + cls.rocker * np.cos(c), cls.rocker * np.sin(c)])
        return float(np.hypot(*(tip - cls.crank * np.array([np.cos(a), np.sin(a)]))))

    def test_compatible(self, system):
        """Both joints move together: equal speeds of the coupler's ends along it."""
        a, c = self.shapes()[0]
        near = self.crank * np.array([np.cos(a), np.sin(a)])
        far = np.array([self.ground + self.rocker * np.cos(c), self.rocker * np.sin(c)])
        along = (far - near) / np.linalg.norm(far - near)
        angle = np.arctan2(along[1], along[0])
        found = un.classify(system, un.assemble(system, system.state({"coupler": angle - a})), t=0.0)
        speeds = [along @ [-near[1], near[0]], along @ (self.rocker * np.array([-np.sin(c), np.cos(c)]))]
        mode = np.array([[speeds[1], speeds[0]]]) / np.hypot(*speeds)
        assert found.constraint == "over-constrained"
        assert found.kinematic == ("coupler",)
        same_span(found.compatible, mode)


def test_all_rates_are_compatible_without_redundant_rows():
    b = un.Builder("sledge")
    b.base("sledge", role="free", group="SE2", mass=1.0, inertia=0.1)
    b.body("arm", "sledge", un.Revolute((0, 0, 1)), mass=0.1, com=(0.3, 0, 0), inertia=0.01)
    b.body("hand", "arm", un.Revolute((0, 0, 1)), mass=0.1, position=(0.5, 0, 0), inertia=0.01)
    b.drive(["arm", "hand"], un.laws.Sinusoid([0.3, 0.4], 1.0, 0.0))
    free = b.build()
    same_span(un.classify(free).compatible, np.eye(2))
    b.add(un.rows.Skate("runner", "sledge"))
    same_span(un.classify(b.build()).compatible, np.eye(2))
