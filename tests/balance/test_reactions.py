"""Reactions and efforts that the balance leaves open: led coordinates, and the rules that choose.

Expected values are found with NumPy and SciPy from the inverse dynamics without constraints, and from Jacobians of bodies.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.numerics.programs import quickly_compiled
from vehicles import PLANE, probe, seen, vehicle

Least, Bound, Cone = un.reactions.Least, un.reactions.Bound, un.reactions.Cone


def least(A, b, cost, target=None):
    """The x with A x = b and the least |cost x - target|^2: the kernel of A, and a least-squares problem in it."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    N = scipy.linalg.null_space(A)
    target = np.zeros(len(cost)) if target is None else target
    return x + N @ np.linalg.lstsq(cost @ N, target - cost @ x, rcond=None)[0]


class Snake:
    """Four modules: four lateral rows, three of the base's motions, three joints behind that wheels lead."""

    def __init__(self, tail="actuated", **more):
        self.system = vehicle("snake-acm", modules=4, tail=tail, **more)
        self.names = self.system.coordinate_names
        self.held = np.array([r in ("driven", "led") for r in self.system.topology.roles])

    def forces(self, s):
        """Needed forces over (base in the plane, coordinates) at each sample, and the rows, over the same."""
        wheeled = [k for k, x in enumerate(self.system.body_names) if int(x[1:]) % 2]
        needed, J = (np.asarray(x) for x in _needed(self.system, s.t, s.state, s.acceleration))
        which = [*PLANE, *range(6, 6 + self.system.nv)]
        return needed[:, which], J[:, wheeled, 1][..., which]


@quickly_compiled
def _needed(system, times, states, accelerations):
    def one(x):
        t, state, a = x
        found = un.inverse_dynamics(system, state, a, t=t)
        J = jax.jacfwd(lambda u: un.kinematics.body_twists(system, state.with_velocity(u)))(jnp.zeros(6 + system.nv))
        return jnp.concatenate([found.base, found.v]), J

    return jax.lax.map(one, (times, states, accelerations))


@pytest.fixture(scope="module")
def snake():
    return Snake()


@pytest.fixture(scope="module")
def motion(snake):
    return seen(snake.system)[0]


@pytest.fixture(scope="module")
def needed(snake, motion):
    return snake.forces(motion)


def chosen(snake, motion, rule):
    s, gain, _ = probe(snake.system.with_reactions(rule), motion.t, motion.state)
    return s, gain


class TestSnake:
    def test_roles(self, snake, motion):
        assert [n for n, r in zip(snake.names, snake.system.topology.roles) if r == "led"] == ["r6"]
        assert motion.reactions.shape == (13, 4)
        assert (motion.rank == 4).all()
        kind = un.classify(snake.system)
        assert (kind.motion, kind.statics, kind.kinematic) == ("kinematic", "hyperstatic", ("r6",))

    @pytest.mark.parametrize(
        "rule",
        [
            Least(),
            Least({"wheels1": 1.0, "wheels2": 4.0, "wheels3": 0.5, "wheels4": 2.0}),
            Least(0.0, 1.0),
            Least(0.3, {"r1": 5.0, "r6": 20.0, "r7": 1.0}),
            Least(0.0, 0.0, 1.0),
        ],
        ids=["reactions", "weighted", "efforts", "mixed", "power"],
    )
    def test_the_rule_is_met_and_the_motion_balances(self, snake, motion, needed, rule):
        s, gain = chosen(snake, motion, rule)
        n, k = snake.system.nv, 4
        weights = np.ones(k) * (0.0 if isinstance(rule.reactions, dict) else rule.reactions)
        if isinstance(rule.reactions, dict):
            weights = np.array(list(rule.reactions.values()))
        efforts = np.array(
            [rule.efforts.get(x, 0.0) if isinstance(rule.efforts, dict) else rule.efforts for x in snake.names]
        )
        for i, (force, A) in enumerate(zip(*needed)):
            tau, x = s.efforts[i], s.reactions[i]
            # M u' + h = tau + A^T lambda
            assert_allclose(np.concatenate([np.zeros(3), tau]) + A.T @ x, force, atol=1e-9)
            # unknowns (efforts, reactions), all efforts held
            E = np.hstack([np.vstack([np.zeros((3, n)), np.eye(n)]), A.T])
            rates = rule.power * s.state.v[i] ** 2
            cost = np.diag(np.sqrt(np.concatenate([efforts + rates, weights])))
            assert_allclose(np.concatenate([tau, x]), least(E, force, cost), atol=3e-7 * np.abs(x).max())
        assert_allclose((s.efforts * s.state.v).sum(1), gain, atol=1e-10)  # all the power goes into the kinetic energy

    def test_kernel_leaves_out_what_led_joints_hold(self, snake, motion, needed):
        """Four reactions for the three balances of the base: one self-stress, which the joints behind hold as well."""
        state = jax.tree.map(lambda x: x[8], motion.state)
        found = np.asarray(un.reaction_kernel(snake.system, state, motion.t[8]))
        found = found[np.abs(found).max(1) > 0]
        expected = scipy.linalg.null_space(needed[1][8][:, :3].T)[:, 0]
        assert found.shape == (1, 4)
        assert_allclose(np.abs(found[0] @ expected), np.linalg.norm(found[0]), rtol=1e-9)
        assert np.abs(found[0] @ needed[1][8][:, 3:]).max() > 1e-3  # other efforts

    def test_torques_stay_bounded_through_the_singular_shape(self, snake, motion):
        """At t = pi three axles meet in a point: without actuators behind, the reactions that accelerate the base grow."""
        times = np.pi - np.array([0.1, 0.03, 0.01, 3e-3, 1e-3, *np.linspace(0.5, 0.2, 8)])
        state = jax.tree.map(lambda x: np.stack([np.zeros_like(x[0])] * 13), motion.state)
        state.base.quaternion[:, 0] = 1.0
        held, gain, _ = probe(snake.system, times, state)
        free, passive_gain, _ = probe(Snake("passive").system, times, state)
        assert np.abs(held.efforts[:5]).max() < 2 * np.abs(held.efforts[5:]).max()
        sizes = np.abs(free.efforts[:5]).max(1)
        assert_allclose(sizes[2:] * (np.pi - times[2:5]), sizes[4] * 1e-3, rtol=0.1)  # as the inverse of the time left
        assert sizes[4] > 20 * np.abs(held.efforts).max()
        assert_allclose((held.efforts * held.state.v).sum(1), gain, atol=1e-10)
        assert_allclose((free.efforts * free.state.v).sum(1), passive_gain, atol=1e-8)

    def test_projected_is_the_recursion_as_printed(self, snake, motion, needed):
        s, gain = chosen(snake, motion, un.reactions.Projected())
        power = (s.efforts * s.state.v).sum(1)
        expected = np.array([printed(snake, s, i) for i in range(len(s.t))])
        assert_allclose(s.efforts, expected, atol=1e-12)
        # it loses what wheeled bodies transmit sideways, so its power is not that of the motion
        assert np.abs(power - gain).max() > 0.1 * np.abs(gain).max()
        assert_allclose(s.power_actuators, gain, atol=1e-10)  # the powers recorded are those of balanced efforts
        for i, (force, A) in enumerate(zip(*needed)):
            assert_allclose(s.reactions[i], least(A[:, :3].T, force[:3], np.eye(4)), atol=1e-9)

    def test_wanted_law(self, snake, motion, needed):
        law = un.laws.Sinusoid([0.1, 0.2, -0.1, 0.3], 2.0, 0.4)
        s, _ = chosen(snake, motion, Least(wanted=law))
        for i, (force, A) in enumerate(zip(*needed)):
            wanted = np.array([0.1, 0.2, -0.1, 0.3]) * np.sin(2.0 * s.t[i] + 0.4)
            assert_allclose(s.reactions[i], least(A[:, :3].T, force[:3], np.eye(4), wanted), atol=1e-9)

    def test_derivatives(self, snake, motion):
        """Of an effort chosen by least efforts, by the masses, in both modes."""
        system = snake.system.with_reactions(Least(0.0, 1.0))
        state, t = jax.tree.map(lambda x: jnp.asarray(x[0]), motion.state), jnp.asarray(motion.t[0])
        way = np.linspace(0.5, 1.5, len(system.mass)) * np.asarray(system.mass)

        def value(e):
            found = un.hybrid_dynamics(system.replace(mass=system.mass + e * way), state, t)
            return found.efforts[system.coordinate("r6")]

        h = 1e-4
        both = quickly_compiled(jax.value_and_grad(value))
        slope = (both(jnp.asarray(h))[0] - both(jnp.asarray(-h))[0]) / (2 * h)
        assert_allclose(both(jnp.asarray(0.0))[1], slope, rtol=1e-6)

    def test_a_rule_of_powers_at_rest(self):
        """At rest all powers are zero, so that the rule leaves the choice to the least reactions; no division by zero."""
        snake = Snake(rate=0.0)
        rules = Least(reactions=0.0, power=1.0), Least()
        found = [un.hybrid_dynamics(s, s.state(), 0.0) for s in (snake.system.with_reactions(rule) for rule in rules)]
        assert np.isfinite(found[0].efforts).all()
        assert_allclose(found[0].reactions, found[1].reactions, atol=1e-12)

    def test_a_led_coordinate_must_be_determined(self):
        b = un.Builder("cart")
        b.base("cart", role="free", group="SE2", mass=1.0, inertia=0.1)
        b.body("arm", "cart", un.Revolute((0, 0, 1)), mass=0.2, com=(0.3, 0, 0), inertia=0.01)
        b.add(un.rows.Skate("wheels", "cart"))
        b.lead("arm")
        with pytest.raises(un.UndulaError, match="the coordinate 'arm' is led, but the constraints of 'cart'"):
            un.run(b.build(), t_end=0.1)


def planar_cross(w, u):
    return w * np.array([-u[1], u[0]])


def printed(snake, s, i):
    """(3.73) to (3.85) as printed, in the plane, with reduced twists of the wheeled bodies (vx, omega)."""
    system = snake.system
    rate, gain = (dict(zip(snake.names, x[i])) for x in (s.state.v, s.acceleration.v))
    angle = dict(zip(snake.names, s.position[i]))
    count = len(system.body_names)
    numbers = [int(x[1:]) for x in system.body_names]
    at = {n: k for k, n in enumerate(numbers)}
    parent = {n: n - 1 if n % 2 else n - 2 for n in numbers if n}
    l = 0.1
    arm = {n: np.array([{1: 0.0, 2: l}.get(n, l if n % 2 else 2 * l), 0.0]) for n in parent}
    H = {n: np.array([[1.0, 0], [0, 0], [0, 1]]) if n % 2 else np.eye(3) for n in numbers}
    twist, dtwist = {0: s.state.base_twist[i, PLANE]}, {0: s.acceleration.base[i, PLANE]}
    turn = {}
    for n in sorted(parent):
        u, du, c = twist[parent[n]], dtwist[parent[n]], np.cos(angle[f"r{n}"])
        R = np.array([[c, -np.sin(angle[f"r{n}"])], [np.sin(angle[f"r{n}"]), c]])
        turn[n] = R
        v = R.T @ (u[:2] + planar_cross(u[2], arm[n]))
        full = np.array([*v, u[2] + rate[f"r{n}"]])
        dfull = np.array(
            [*(R.T @ (du[:2] + planar_cross(du[2], arm[n])) - planar_cross(rate[f"r{n}"], v)), du[2] + gain[f"r{n}"]]
        )
        twist[n], dtwist[n] = H[n] @ (H[n].T @ full), H[n] @ (H[n].T @ dfull)  # eta = H eta_r (3.73), (3.74)
    F, efforts = {}, np.zeros(count - 1)
    names = list(snake.names)
    for n in sorted(numbers, reverse=True):
        m, c = float(system.mass[at[n]]), np.asarray(system.com)[at[n], :2]
        I = float(system.inertia[at[n], 2, 2]) + m * c @ c  # about the origin
        u, du = twist[n], dtwist[n]

        def momentum(x, m=m, c=c, I=I):
            return np.array([*(m * (x[:2] + planar_cross(x[2], c))), I * x[2] + m * (c[0] * x[1] - c[1] * x[0])])

        P = momentum(u)
        own = momentum(du) + np.array([*planar_cross(u[2], P[:2]), u[0] * P[1] - u[1] * P[0]])
        for child in (k for k in parent if parent[k] == n):
            Fc = H[child] @ F[child]  # (3.81)
            f = turn[child] @ Fc[:2]
            own = own + np.array([*f, Fc[2] + arm[child][0] * f[1] - arm[child][1] * f[0]])
        F[n] = H[n].T @ own  # (3.83)
        if n:
            efforts[names.index(f"r{n}")] = F[n][-1]  # (3.85)
    return efforts


def table(mass=20.0, com=(0.1, -0.05, 0.0)):
    """A table on four legs, each foot held at a point; pushed sideways."""
    b = un.Builder("table")
    b.base("table", role="free", mass=mass, com=com, inertia=1.0)
    for k, foot in enumerate(FEET):
        b.add(un.rows.Anchor(f"foot{k + 1}", "table", foot, holds=("x", "y", "z"), point=foot))
    b.add(un.forces.Load("table", (30.0, 10.0, 0.0)))
    return b.build()


FEET = [(x, y, -0.7) for x in (-0.5, 0.5) for y in (-0.4, 0.4)]
GRIP = np.vstack([np.tile(np.eye(3), 4), np.hstack([np.cross(np.eye(3), foot).T * -1 for foot in FEET])])  # (6, 12)
NORMALS = np.arange(2, 12, 3)
solved = quickly_compiled(lambda system, t: un.hybrid_dynamics(system, system.state(), t))


class TestTable:
    @pytest.fixture(scope="class")
    @classmethod
    def stood(cls):
        return table()

    def load(self, mass=20.0, com=(0.1, -0.05, 0.0)):
        """What the feet must supply: force and couple about the origin."""
        push, weight = np.array([30.0, 10.0, 0.0]), np.array([0, 0, -9.81 * mass])
        return -np.concatenate([push + weight, np.cross(com, weight)])

    def program(self, G, h, wanted=0.0):
        """The least reactions with G lambda <= h, by SciPy, in the kernel of the balance."""
        x = np.linalg.lstsq(GRIP, self.load(), rcond=None)[0]
        N = scipy.linalg.null_space(GRIP)
        found = scipy.optimize.minimize(
            lambda z: ((x + N @ z - wanted) ** 2).sum() / 2,
            np.zeros(N.shape[1]),
            jac=lambda z: N.T @ (x + N @ z - wanted),
            constraints={"type": "ineq", "fun": lambda z: h - G @ (x + N @ z), "jac": lambda z: -G @ N},
            method="SLSQP",
            options={"ftol": 1e-16, "maxiter": 300},
        )
        return x + N @ found.x

    def test_rows(self, stood):
        found = solved(stood, jnp.asarray(0.0))
        assert_allclose(GRIP @ found.reactions, self.load(), atol=1e-10)
        assert_allclose(found.reactions, least(GRIP, self.load(), np.eye(12)), atol=1e-10)
        assert stood.row_names[:3] == ("foot1.x", "foot1.y", "foot1.z")

    def test_bounds(self, stood):
        free = np.asarray(solved(stood, jnp.asarray(0.0)).reactions)
        limits = (Bound("foot4.z", high=45.0), Bound(("foot1.x", "foot2"), low=-6.0, high=60.0))
        found = solved(stood.with_reactions(Least(limits=limits)), jnp.asarray(0.0))
        x = np.asarray(found.reactions)
        some = np.array([0, 3, 4, 5])
        G = np.vstack([np.eye(12)[[11]], np.eye(12)[some], -np.eye(12)[some]])
        h = np.array([45.0, *[60.0] * 4, *[6.0] * 4])
        assert (G @ free - h).max() > 1  # the least reactions violate them
        assert (G @ x - h).max() < 1e-6
        assert_allclose(GRIP @ x, self.load(), atol=1e-9)
        assert_allclose(x, self.program(G, h), atol=1e-5)
        assert float(found.excess) < 1e-6

    def test_cones(self, stood):
        mu = 0.25
        limits = [Cone(f"foot{k}.z", (f"foot{k}.x", f"foot{k}.y"), mu) for k in range(1, 5)]
        free = np.asarray(solved(stood, jnp.asarray(0.0)).reactions).reshape(4, 3)
        assert (np.hypot(free[:, 0], free[:, 1]) - mu * free[:, 2]).max() > 0.5
        found = solved(stood.with_reactions(Least(limits=limits)), jnp.asarray(0.0))
        x = np.asarray(found.reactions)
        feet = x.reshape(4, 3)
        assert (np.hypot(feet[:, 0], feet[:, 1]) - mu * feet[:, 2]).max() < 1e-6
        angles = 2 * np.pi * np.arange(16) / 16
        G = np.zeros((64, 12))
        for k in range(4):
            G[16 * k : 16 * k + 16, 3 * k : 3 * k + 2] = np.stack([np.cos(angles), np.sin(angles)], 1)
            G[16 * k : 16 * k + 16, 3 * k + 2] = -mu * np.cos(np.pi / 16)
        assert_allclose(x, self.program(np.vstack([G, -np.eye(12)[NORMALS]]), np.zeros(68)), atol=1e-5)

    def test_bounds_that_cannot_be_met(self, stood):
        """The largest violation is the least possible, by a linear program, and is reported."""
        rule = Least(limits=[Bound([f"foot{k}.z" for k in range(1, 5)], high=40.0)])
        found = solved(stood.with_reactions(rule), jnp.asarray(0.0))
        x = np.asarray(found.reactions)
        assert_allclose(GRIP @ x, self.load(), atol=1e-9)
        G = np.hstack([np.eye(12)[NORMALS], -np.ones((4, 1))])
        other = scipy.optimize.linprog(
            np.eye(13)[12], G, np.full(4, 40.0), np.hstack([GRIP, np.zeros((6, 1))]), self.load(), bounds=(None, None)
        )
        assert other.x[12] > 5
        assert_allclose(found.excess, other.x[12], rtol=1e-4)
        assert_allclose((x[NORMALS] - 40.0).max(), found.excess, atol=1e-9)

    def test_margin(self, stood):
        """The largest ratio of a reaction to what is admissible is the least possible, by a linear program."""
        sizes = np.array([50.0, 100.0, 30.0, 80.0])
        rule = Least(margin={f"foot{k + 1}.z": size for k, size in enumerate(sizes)})
        x = np.asarray(solved(stood.with_reactions(rule), jnp.asarray(0.0)).reactions)
        assert_allclose(GRIP @ x, self.load(), atol=1e-9)
        rows = np.eye(12)[NORMALS]
        G = np.vstack([np.hstack([sign * rows, -sizes[:, None]]) for sign in (1, -1)])
        other = scipy.optimize.linprog(
            np.eye(13)[12], G, np.zeros(8), np.hstack([GRIP, np.zeros((6, 1))]), self.load(), bounds=(None, None)
        )
        assert_allclose((np.abs(x[NORMALS]) / sizes).max(), other.x[12], rtol=1e-3)
        # what the ratio leaves open is least
        free = np.delete(np.arange(12), NORMALS)
        inside = least(GRIP[:, free], self.load() - GRIP[:, NORMALS] @ x[NORMALS], np.eye(8))
        assert_allclose(x[free], inside, atol=1e-4)

    def test_wanted_and_bounded(self, stood):
        """Reactions that follow a law of time, within bounds."""
        size = np.linspace(-20, 60, 12)
        rule = Least(wanted=un.laws.Sinusoid(size, 1.0, 0.0), limits=[Bound("foot1.z", low=0.0, high=30.0)])
        system = stood.with_reactions(rule)
        G, h = np.eye(12)[[2, 2]] * np.array([[1.0], [-1.0]]), np.array([30.0, 0.0])
        for t in (0.3, 2.0):
            found = solved(system, jnp.asarray(t))
            assert_allclose(found.reactions, self.program(G, h, size * np.sin(t)), atol=1e-5)

    def test_derivatives_under_active_limits(self, stood):
        limits = [Cone(f"foot{k}.z", (f"foot{k}.x", f"foot{k}.y"), 0.25) for k in range(1, 5)]
        system = stood.with_reactions(Least(limits=limits))

        def value(e):
            moved = system.replace(com=system.com + e * jnp.array([[1.0, 0.5, 0.0]]))
            x = un.hybrid_dynamics(moved, moved.state(), 0.0).reactions
            return (x**2).sum()

        h = 1e-5
        both = quickly_compiled(jax.value_and_grad(value))
        slope = (both(jnp.asarray(h))[0] - both(jnp.asarray(-h))[0]) / (2 * h)
        assert_allclose(both(jnp.asarray(0.0))[1], slope, rtol=1e-5)

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            (Least(limits=[Bound("foot9", high=1.0)]), "a bound names 'foot9'"),
            (Least(limits=[Bound("foot1", low=2.0, high=1.0)]), "low must be less than high"),
            (Least(limits=[Cone("foot1", "foot1.x", 0.5)]), "must have one normal row"),
            (Least(margin={"foot1": -1.0}), r"margin\['foot1'\] = -1.0"),
            (Least(reactions=0.0), "all weights of the rule are zero"),
            (Least(reactions=0.0, power=1.0), "no coordinate that the rule weighs is driven or led"),
            (Least(margin={}), "margin is empty"),
            (Least(limits=[Bound("foot1")]), "the bound on 'foot1' limits nothing"),
            (Least(wanted=np.zeros(3)), r"it must be \(12,\)"),
            (Least(efforts={"knee": 1.0}), "efforts names 'knee'"),
            ("least", "it must be a rule of un.reactions"),
        ],
    )
    def test_refusals(self, stood, rule, words, wrong_types):
        with pytest.raises(un.UndulaError, match=words):
            stood.with_reactions(rule)


def test_recorded(snake):
    """A run of the gallery entry records reactions by the rule of its parameter."""
    given = gallery.load("snake-acm").setup(modules=4, rule="least torques")
    assert float(given.system.choice.power) == 0 and np.asarray(given.system.choice.efforts).max() == 1
