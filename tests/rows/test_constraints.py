"""Constraints: row spaces, every kind against a closed form or an equivalent joint, reactions, linearisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import undula as un
from undula import gallery
from undula.balance.rows import rows_of
from undula.elements.row import velocities
from undula.elements.view import SiteView, View
from undula.gallery import bicycle_whipple as whipple
from undula.gallery.catalogue import description
from undula.model.prepare import prepare
from undula.model.state import displaced
from undula.numerics.programs import quickly_compiled
from undula.numerics.quick import quick_options
from undula.numerics.row_space import decompose
from undula.tree.snapshot import place

solve = quickly_compiled(un.hybrid_dynamics)
kernel_of = quickly_compiled(un.reaction_kernel)
UP = np.array([0.0, 0.0, 1.0])


@quickly_compiled
def rows_at(system, state):
    prepared = prepare(system)
    return rows_of(prepared, place(prepared, 0.0, state, un.Acceleration.zero(system.nv)))


# Row spaces


@pytest.mark.parametrize("k, n, rank", [(2, 3, 2), (3, 3, 3), (5, 3, 3), (5, 3, 2), (4, 6, 3), (6, 4, 1), (3, 5, 0)])
def test_row_space_of_any_rank(k, n, rank, rng):
    A = rng.normal(size=(k, rank)) @ rng.normal(size=(rank, n)) * rng.uniform(0.1, 10, (k, 1))
    space = jax.jit(decompose)(A)
    Q, W, left = (np.asarray(x) for x in (space.Q, space.W, space.left))
    assert int(space.rank) == rank
    assert_allclose(W @ A, Q, atol=1e-12)
    assert_allclose(Q @ Q.T, np.diag(np.asarray(space.active)), atol=1e-12)
    assert_allclose(left @ A, 0, atol=1e-11)
    assert np.linalg.matrix_rank(left, tol=1e-9) == k - rank
    b = A @ rng.normal(size=n)
    assert_allclose(space.solve(jnp.asarray(b)), np.linalg.pinv(A) @ b, atol=1e-10)
    force = A.T @ rng.normal(size=k)
    found = space.multipliers(jnp.asarray(force), jnp.ones(k), jnp.zeros(k))
    assert_allclose(found, np.linalg.pinv(A.T) @ force, atol=1e-10)
    weights, wanted = rng.uniform(1, 2, k), rng.normal(size=k)
    root = np.sqrt(weights)
    nearest = wanted + np.linalg.pinv(A.T / root) @ (force - A.T @ wanted) / root
    assert_allclose(
        space.multipliers(jnp.asarray(force), jnp.asarray(weights), jnp.asarray(wanted)), nearest, atol=1e-10
    )


def test_incompatible_rows_in_the_least_squares_sense(rng):
    A, b = rng.normal(size=(5, 3)), rng.normal(size=5)
    assert_allclose(
        decompose(jnp.asarray(A), least_squares=True).solve(jnp.asarray(b)), np.linalg.lstsq(A, b)[0], atol=1e-12
    )


# Kinds


def one_body(constraint, gravity=(0.0, 0.0, -9.81), **body):
    b = un.Builder("one", gravity=gravity)
    b.base("body", role="free", **({"mass": 2.0, "inertia": (0.3, 0.4, 0.5)} | body))
    for c in constraint if isinstance(constraint, list) else [constraint]:
        b.add(c)
    return b.build()


# freedoms of each closing joint: directions of the body's twist at the joint, z being its axis
FREEDOM = {
    "fixed": "", "revolute": "c", "prismatic": "z", "cylindrical": "zc", "universal": "ac", "spherical": "abc",
    "planar": "xyc", "line": "zabc", "plane": "xyabc",
}  # fmt: skip


@pytest.mark.parametrize("kind", FREEDOM)
def test_closures_leave_the_freedom_of_their_joint(kind):
    """In the assembled position, exactly the twists of the joint satisfy the rows."""
    system = one_body(un.rows.Closure("hold", "body", kind=kind))
    rows = rows_at(system, system.state())
    A = np.asarray(rows.A)
    free = [("xyzabc").index(c) for c in FREEDOM[kind]]
    assert_allclose(rows.gap, 0, atol=1e-12)
    assert_allclose(A[:, free], 0, atol=1e-12)
    assert np.linalg.matrix_rank(A) == 6 - len(free) == len(A)


def test_frames_are_not_held_turned_by_pi():
    """From a poor initial guess, a body ends in the frame of its anchor, not opposite to it (document 002, (3.33))."""
    system = one_body(un.rows.Anchor("clamp", "body", (0.3, 0, 0), point=(0.1, 0, 0)))
    for angle in (0.5, 1.4, 2.9, np.pi):
        turn = Rotation.from_rotvec(angle * np.array([0.48, -0.8, 0.36]))
        found = un.assemble(system, system.state(base_quaternion=turn.as_quat(scalar_first=True)))
        assert_allclose(found.base.quaternion * np.sign(found.base.quaternion[0]), (1, 0, 0, 0), atol=1e-10)
        assert_allclose(found.base.position, (0.2, 0, 0), atol=1e-10)


HOLD_ROTATIONS = {
    **{kind: un.rows.Closure("c", "body", kind=kind) for kind in ("fixed", "revolute", "helical", "planar")},
    "imposed": un.rows.PrescribedFrame("c", "body", un.laws.Constant((0.0, 0.0, 0.0)), holds=("rx", "ry", "rz")),
}


@pytest.mark.parametrize("kind", HOLD_ROTATIONS)
def test_gaps_of_rotations_are_angles(kind):
    """At any angle up to pi the norm of the gap is the angle, and the rows are its rate along the motion."""
    c = HOLD_ROTATIONS[kind]
    hold = jax.jit(lambda at: c.gap(at)), jax.jit(lambda at: velocities(c, at))
    V, W, h = np.array([0.3, -0.2, 0.1]), np.array([0.4, 0.7, -0.5]), 1e-6
    for angle in (0.0, 1e-5, 1.4, np.pi - 0.02, np.pi - 1e-5, np.pi):
        turn = Rotation.from_rotvec(angle * np.array([-0.8, 0.6, 0.0]))

        def at(t, turn=turn):
            R = turn * Rotation.from_rotvec(t * W)
            body = SiteView(*(jnp.asarray(x) for x in (R.as_matrix(), t * turn.apply(V), V, W)))
            world = SiteView(jnp.eye(3), *(jnp.zeros(3),) * 3)
            return View(jnp.asarray(0.0), (body, world)[: len(c.sites)], jnp.zeros(0), jnp.zeros(0))

        gap, rate = hold[0](at(0.0)), hold[1](at(0.0))
        rounded = angle > 3.13 and kind not in (
            "fixed",
            "imposed",
        )  # opposite axes have no tilt direction
        assert_allclose(np.linalg.norm(gap), angle, atol=0.01 if rounded else 1e-9)
        if angle < 3.13:  # beyond it, finite differences reach the other side
            assert_allclose(rate, (hold[0](at(h)) - hold[0](at(-h))) / (2 * h), atol=1e-6)
        assert np.all(np.isfinite(rate))


@pytest.mark.long
def test_pendulum_held_by_a_closure_is_the_pendulum_on_a_joint():
    """The same motion and reaction, once as a tree and once as a free body with five rows."""
    link = dict(mass=2.0, com=(0.1, 0.0, -0.4), inertia=(0.3, 0.4, 0.2))
    tree = un.Builder("tree")
    tree.base("ground")
    tree.body("link", "ground", un.Revolute((0, 1, 0)), **link)
    tree = tree.build()
    turn = (np.cos(np.pi / 4), -np.sin(np.pi / 4), 0, 0)  # the frame's z along y
    loose = one_body(un.rows.Closure("hinge", "body", kind="revolute", rotation=turn, other_rotation=turn), **link)
    angle, rate = 0.7, 1.3
    a = un.run(tree, tree.state({"link": angle}, {"link": rate}), t_end=1.0, dt=2e-3)
    start = loose.state(base_quaternion=(np.cos(angle / 2), 0, np.sin(angle / 2), 0), base_twist=(0, 0, 0, 0, rate, 0))
    b = un.run(loose, start, t_end=1.0, dt=2e-3)
    assert_allclose(b.data.body_quaternion[:, 0], a.data.body_quaternion[:, 1], atol=1e-9)
    assert b.data.constraint_residual.max() < 1e-8
    # the hinge carries the weight and the centripetal force: at the start, from Newton's law
    q = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    com = q @ link["com"]
    alpha = np.array([0.0, float(b.data.base_acceleration[0, 4]), 0])
    w = np.array([0, rate, 0])
    force = 2.0 * (np.cross(alpha, com) + np.cross(w, np.cross(w, com)) + 9.81 * UP)
    named = dict(zip(b.data.constraint.values, b.data.reaction.values[0]))
    axes = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])  # of the closure in the world
    assert_allclose([named["hinge.x"], named["hinge.y"], named["hinge.z"]], axes @ force, atol=1e-8)


def test_ball_rolls_down_a_slope_with_five_sevenths():
    slope, r, m = 0.3, 0.2, 1.5
    g = 9.81 * np.array([np.sin(slope), 0, -np.cos(slope)])
    system = one_body(un.rows.RollingSphere("ball", "body", r), g, mass=m, inertia=0.4 * m * r**2, position=(0, 0, r))
    found = solve(system, system.state(), 0.0)
    assert_allclose(found.acceleration.base[0], 5 / 7 * 9.81 * np.sin(slope), rtol=1e-12)
    assert_allclose(found.acceleration.base[4], 5 / 7 * 9.81 * np.sin(slope) / r, rtol=1e-12)
    named = dict(zip(system.row_names, np.asarray(found.reactions)))
    assert named["ball.height"] == pytest.approx(m * 9.81 * np.cos(slope))
    assert named["ball.x"] == pytest.approx(-2 / 7 * m * 9.81 * np.sin(slope))


def test_gear_between_two_rotors():
    """J1 a1 + J2 a2 with a1 = -2 a2: a torque on the first."""
    J1, J2, torque = 0.3, 0.2, 1.7
    b = un.Builder("gear", gravity=(0, 0, 0))
    b.base("ground")
    b.body("one", "ground", un.Revolute((0, 0, 1), effort=un.laws.Constant(torque)), 1.0, inertia=J1)
    b.body("two", "ground", un.Revolute((0, 0, 1)), 1.0, inertia=J2)
    b.add(un.rows.Coupling("gear", ("one", "two"), (1.0, 2.0)))
    found = solve(b.build(), b.build().state(), 0.0)
    # power: (J1 + J2/4) a1 = torque
    assert_allclose(found.acceleration.v, [torque / (J1 + J2 / 4), -torque / (J1 + J2 / 4) / 2], rtol=1e-12)
    assert_allclose(found.reactions, [J1 * found.acceleration.v[0] - torque], rtol=1e-10)


def test_prescribed_point_pulls_with_the_mass_times_its_acceleration():
    law = un.laws.Sinusoid([0.3, 0.2, 0.1], [2.0, 3.0, 4.0], [0.1, 0.2, 0.3])
    hold = [un.rows.PrescribedPoint("lead", "body", law), un.rows.Closure("upright", "body", holds=("rx", "ry", "rz"))]
    system = one_body(hold)
    start = un.admissible(system, system.state())
    found = solve(system, start, 0.0)
    _, _, acceleration = law(0.0)
    named = dict(zip(system.row_names, np.asarray(found.reactions)))
    assert_allclose([named[f"lead.{c}"] for c in "xyz"], 2.0 * (acceleration + 9.81 * UP), rtol=1e-10)
    # the power of the rows is that of the force on the moving point
    assert_allclose(found.power_rows, 2.0 * (acceleration + 9.81 * UP) @ law(0.0)[1], rtol=1e-9)


class MyDisc(un.RowModel):
    """A rolling disc in a few lines, as a user would write it; its rows are named by numbers."""

    radius: float

    def contact(self, disc):
        axis = disc.direction(jnp.array([0.0, 1.0, 0.0]))
        down = axis[2] * axis - UP
        return self.radius * down / jnp.linalg.norm(down)

    def gap(self, at):
        (disc,) = at.sites
        return (disc.p + self.contact(disc))[2:]

    def rows(self, at):
        (disc,) = at.sites
        return (disc.velocity(jnp.zeros(3)) + jnp.cross(disc.spin, self.contact(disc)))[:2]


def test_own_kind_of_constraint_moves_as_the_built_in_one(rng):
    lean = 0.4
    start = dict(
        base_position=(0, 0, 0.3 * np.cos(lean)),
        base_quaternion=(np.cos(lean / 2), np.sin(lean / 2), 0, 0),
        base_twist=rng.normal(size=6),
    )
    found = []
    for disc in (MyDisc(0.3, name="disc", sites="body"), un.rows.RollingDisc("disc", "body", 0.3)):
        system = one_body(disc)
        found.append(solve(system, system.state(**start), 0.0))
        assert len(system.row_names) == 3
    assert one_body(MyDisc(0.3, name="disc", sites="body")).row_names == ("disc.1", "disc.2", "disc.3")
    a, b = found
    assert_allclose(a.state.base_twist, b.state.base_twist, atol=1e-12)
    assert_allclose(a.acceleration.base, b.acceleration.base, atol=1e-10)
    assert_allclose(a.reactions[0], b.reactions[0], rtol=1e-10)


# Hyperstatic systems


def table(**options):
    """A heavy plate on four vertical props: one reaction too many."""
    corners = {"a": (1, 1), "b": (-1, 1), "c": (-1, -1), "d": (1, -1)}
    props = [un.rows.PointOnPlane(name, "body", (x, y, 0)) for name, (x, y) in corners.items()]
    system = one_body([*props, un.rows.Closure("guide", "body", holds=("x", "y", "rz"))], com=(0.3, 0.1, 0.0))
    return system.replace(**{k: jnp.asarray([*v, 1.0, 1.0, 1.0]) for k, v in options.items()})


def test_reactions_that_are_not_unique():
    system = table()
    weight, moment = 2 * 9.81, 2 * 9.81 * np.array([0.3, 0.1])
    A = np.array([[1, 1, 1, 1], [1, -1, -1, 1], [1, 1, -1, -1]])  # sum, and moments of the four props
    force = np.array([weight, *moment])
    kinds = un.classify(system)
    assert kinds.statics == "hyperstatic" and kinds.rows == 7 and kinds.m_locked == 6
    found = solve(system, system.state(), 0.0)
    assert_allclose(found.reactions[:4], np.linalg.pinv(A) @ force, atol=1e-9)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    root = np.sqrt(weights)
    weighted = np.linalg.pinv(A / root) @ force / root
    assert_allclose(solve(table(reaction_weights=weights), system.state(), 0.0).reactions[:4], weighted, atol=1e-9)
    wanted = np.array([5.0, -1.0, 2.0, 0.0])
    nearest = wanted + np.linalg.pinv(A) @ (force - A @ wanted)
    assert_allclose(solve(table(static_reactions=wanted), system.state(), 0.0).reactions[:4], nearest, atol=1e-9)
    kernel = np.asarray(kernel_of(system, system.state(), 0.0))
    kernel = kernel[np.abs(kernel).max(1) > 0]
    assert_allclose(kernel[:, :4] / kernel[:, :1], [[1, -1, 1, -1]], atol=1e-12)


# Refusals


def test_unknown_names_are_refused(wrong_types):
    with pytest.raises(
        un.ModelError, match=r"the wheel 'w' is on the body 'wheel', which does not exist; the bodies are body"
    ):
        one_body(un.rows.Wheel("w", "wheel"))
    with pytest.raises(un.ModelError, match=r"the coupling 'g'.*coordinate 'one', which does not exist"):
        one_body(un.rows.Coupling("g", ("one",), (1.0,)))
    with pytest.raises(un.ModelError, match="two skates named 'w'"):
        one_body([un.rows.Skate("w", "body"), un.rows.Skate("w", "body")])
    with pytest.raises(un.ModelError, match="radius of the wheel 'w' = -1 m; it must be positive"):
        un.rows.Wheel("w", "body", radius=-1.0)
    with pytest.raises(un.ModelError, match="kind of the constraint 'c' = 'ball'; it must be one of fixed, revolute"):
        un.rows.Closure("c", "body", kind="ball")
    with pytest.raises(un.ModelError, match=r"'c' has the kind 'revolute' and holds \('x',\); give one of them"):
        un.rows.Closure("c", "body", kind="revolute", holds=("x",))
    with pytest.raises(un.ModelError, match=r"'c' has the pitch 0\.1; only helical ones have a pitch"):
        un.rows.Closure("c", "body", kind="cylindrical", pitch=0.1)
    with pytest.raises(un.ModelError, match="wheel 'm' neither rolls nor holds sideways"):
        un.rows.MecanumWheel("m", "body")
    b = un.Builder("slips")
    with pytest.raises(un.ModelError, match="3 cannot be added; it must be an element"):
        b.add(3)
    with pytest.raises(un.ModelError, match=r"slip law of 'w' = 5\.0; it must be a slip law"):
        b.add(un.rows.Skate("w", "body").slipping(5.0))
    b.base("body", role="free", mass=1.0, inertia=0.1)
    b.add(un.rows.RollingSphere("s", "body", 0.1).slipping(un.rows.Viscous(1.0)))
    with pytest.raises(un.ModelError, match="'s' cannot slip: it holds positions"):
        b.build()
    with pytest.raises(un.ModelError, match="axis of the disc 'd' is zero"):
        un.rows.RollingDisc("d", "body", 0.3, axis=(0, 0, 0))


def test_contradictory_and_impossible_constraints_are_refused():
    rods = [
        un.rows.Anchor("here", "body", (0, 0, 0), holds=("x",)),
        un.rows.Anchor("there", "body", (1, 0, 0), holds=("x",)),
    ]
    system = one_body(rods)
    with pytest.raises(
        un.UndulaError,
        match=r"cannot be assembled: (here by 1 .against there.|there by 1 .against here.) .* remain open",
    ):
        un.run(system, t_end=0.1)
    speeds = {"slow": 1.0, "fast": 2.0}
    laws = [
        un.rows.PrescribedPoint(name, "body", un.laws.Polynomial([[0.0], [v]]), holds="x") for name, v in speeds.items()
    ]
    with pytest.raises(
        un.UndulaError,
        match=r"violates its constraints at t = 0 s: (slow by 1 .against fast.|fast by 1 .against slow.)",
    ):
        un.run(one_body(laws), t_end=0.1)


# Linearisation


def test_small_motions_of_a_double_pendulum():
    """Eigenvalues of two point masses on equal rods: w^2 = (2 +- sqrt 2) g/l."""
    b = un.Builder("double")
    b.base("ground")
    b.body("one", "ground", un.Revolute((0, 1, 0)), 1.0, (0, 0, -0.5), 0.0)
    b.body("two", "one", un.Revolute((0, 1, 0)), 1.0, (0, 0, -0.5), 0.0, (0, 0, -0.5))
    system = b.build()
    found = un.linearise(system, system.state()).eigenvalues
    expected = np.sqrt((2 + np.array([-1, -1, 1, 1]) * np.sqrt(2)) * 9.81 / 0.5)
    assert_allclose(np.sort(np.abs(found)), np.sort(expected), rtol=1e-9)
    assert_allclose(found.real, 0, atol=1e-7)


BENCHMARK = {q.name: q.default for q in whipple.SCENARIO.parameters}
OTHER = {"lam": 0.2, "c": 0.03, "mH": 6.0, "IFxx": 0.21, "IFyy": 0.4, "xB": 0.45, "g": 3.7}


def whipple_matrices(p):
    """M, C1, K0, K2 of lean and steer (Meijaard, Papadopoulos, Ruina, Schwab 2007, appendix A)."""
    w, c, lam, rR, mR, rF, mF = (p[k] for k in ("w", "c", "lam", "rR", "mR", "rF", "mF"))
    xB, zB, mB, xH, zH, mH = (p[k] for k in ("xB", "zB", "mB", "xH", "zH", "mH"))
    s, co = np.sin(lam), np.cos(lam)
    mT = mR + mB + mH + mF
    xT = (xB * mB + xH * mH + w * mF) / mT
    zT = (-rR * mR + zB * mB + zH * mH - rF * mF) / mT
    ITxx = p["IRxx"] + p["IBxx"] + p["IHxx"] + p["IFxx"] + mR * rR**2 + mB * zB**2 + mH * zH**2 + mF * rF**2
    ITxz = p["IBxz"] + p["IHxz"] - mB * xB * zB - mH * xH * zH + mF * w * rF
    ITzz = p["IRxx"] + p["IBzz"] + p["IHzz"] + p["IFxx"] + mB * xB**2 + mH * xH**2 + mF * w**2
    mA = mH + mF
    xA, zA = (xH * mH + w * mF) / mA, (zH * mH - rF * mF) / mA
    IAxx = p["IHxx"] + p["IFxx"] + mH * (zH - zA) ** 2 + mF * (rF + zA) ** 2
    IAxz = p["IHxz"] - mH * (xH - xA) * (zH - zA) + mF * (w - xA) * (rF + zA)
    IAzz = p["IHzz"] + p["IFxx"] + mH * (xH - xA) ** 2 + mF * (w - xA) ** 2
    uA = (xA - w - c) * co - zA * s
    IAll = mA * uA**2 + IAxx * s**2 + 2 * IAxz * s * co + IAzz * co**2
    IAlx = -mA * uA * zA + IAxx * s + IAxz * co
    IAlz = mA * uA * xA + IAxz * s + IAzz * co
    mu = c / w * co
    SR, SF = p["IRyy"] / rR, p["IFyy"] / rF
    ST, SA = SR + SF, mA * uA + mu * mT * xT
    M = np.array([[ITxx, IAlx + mu * ITxz], [IAlx + mu * ITxz, IAll + 2 * mu * IAlz + mu**2 * ITzz]])
    K0 = np.array([[mT * zT, -SA], [-SA, -SA * s]])
    K2 = np.array([[0, (ST - mT * zT) / w * co], [0, (SA + SF * s) / w * co]])
    C1 = np.array(
        [
            [0, mu * ST + SF * co + ITxz / w * co - mu * mT * zT],
            [-(mu * ST + SF * co), IAlz / w * co + mu * (SA + ITzz / w * co)],
        ]
    )
    return M, C1, K0, K2


def whipple_eigenvalues(p, v):
    M, C1, K0, K2 = whipple_matrices(p)
    lower = -np.linalg.solve(M, np.hstack([p["g"] * K0 + v**2 * K2, v * C1]))
    found = np.linalg.eigvals(np.vstack([np.hstack([np.zeros((2, 2)), np.eye(2)]), lower]))
    return found[np.lexsort((found.imag, found.real))]


class TestWhipple:
    """The published benchmark, and other bicycles from the published formulas."""

    def test_the_formulas_are_the_published_ones(self):
        """The numbers printed in the paper for the benchmark bicycle, as a check of the reference."""
        M, C1, K0, K2 = whipple_matrices(BENCHMARK)
        assert_allclose(M, [[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]], rtol=1e-12)
        assert_allclose(K0, [[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]], rtol=1e-12)
        assert_allclose(K2, [[0, 76.59734589573222], [0, 2.65431523794604]], rtol=1e-12)
        assert_allclose(C1, [[0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]], rtol=1e-12)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({}, marks=pytest.mark.long),
            {"lam": 0.2, "c": 0.03, "mH": 6.0, "IFxx": 0.21, "IFyy": 0.4, "xB": 0.45, "g": 3.7},
        ],
    )
    def test_eigenvalues(self, change):
        p = BENCHMARK | change
        system = whipple.bicycle(p)
        for v in (0.0, 2.0, 4.2, 5.0, 8.0):
            assert_allclose(whipple.eigenvalues(system, p, v), whipple_eigenvalues(p, v), rtol=1e-7, atol=1e-7)

    def test_critical_speeds(self):
        weave, capsize = whipple.critical_speeds(whipple.bicycle(BENCHMARK), BENCHMARK)
        assert weave == pytest.approx(4.292382536341, rel=1e-9)
        assert capsize == pytest.approx(6.024262015388, rel=1e-9)


# Derivatives


def test_derivative_of_a_constrained_motion():
    """Of the end of a motion with reduced dynamics, with respect to a mass and a law, against central differences."""

    def end(x):
        b = un.Builder("board", gravity=(0, 0, 0))
        b.base("board", role="free", group="SE2", mass=x[0], inertia=0.05)
        b.body("rotor", "board", un.Revolute((0, 0, 1), motion=un.laws.Sinusoid(x[1], 2.0, 0.3)), 0.5, inertia=0.02)
        b.add(un.rows.Skate("front", "board", (0.2, 0, 0), heading=un.laws.Sinusoid(0.4, 1.0, 0.2)))
        b.add(un.rows.Skate("rear", "board", (-0.2, 0, 0)))
        system = b.build()
        start = un.State(system.base_pose, jnp.zeros(1), jnp.zeros(6), jnp.zeros(1))
        return un.simulate(system, start, 0.05, 4, integrator=un.integrators.SemiImplicitEuler()).base_twist[-1, 0]

    options = quick_options()
    f, g = jax.jit(end, compiler_options=options), jax.jit(jax.grad(end), compiler_options=options)
    x = jnp.array([1.0, 0.7])
    numeric = [(f(x + 1e-5 * e) - f(x - 1e-5 * e)) / 2e-5 for e in np.eye(2)]
    assert_allclose(g(x), numeric, rtol=1e-6)


def test_stays_the_same_under_compilation_and_batches():
    system = table()
    batched = eqx.filter_jit(jax.vmap(lambda t: un.hybrid_dynamics(system, system.state(), t).reactions))(jnp.zeros(2))
    assert_allclose(batched[1], solve(system, system.state(), 0.0).reactions, atol=1e-9)


# Rank changes and forced motion


def train(first, second=None):
    """Three wheeled bodies in a row: rank 3 when bent, 2 when straight. Both joints are the same if only one is given."""
    b = un.Builder("train", gravity=(0, 0, 0))
    b.base("first", role="free", group="SE2", mass=1.0, inertia=0.02)
    b.body("second", "first", un.Revolute((0, 0, 1), **first), 1.0, (-0.2, 0, 0), 0.02, (-0.2, 0, 0))
    b.body("third", "second", un.Revolute((0, 0, 1), **(second or first)), 1.0, (-0.2, 0, 0), 0.02, (-0.4, 0, 0))
    b.add(un.rows.Skate("a", "first"))
    b.add(un.rows.Skate("b", "second", (-0.2, 0, 0)))
    b.add(un.rows.Skate("c", "third", (-0.35, 0, 0)))
    return b.build()


@pytest.mark.long
def test_a_straight_train_coasts():
    """When straight, the rows leave its speed free and momentum sustains it; when bent they would fix the whole motion."""
    system = train(dict(motion=un.laws.Constant(0.0)))
    run = un.run(system, system.state(base_twist=(0.5, 0, 0, 0, 0, 0)), t_end=1.0, dt=5e-3)
    assert run.ok and set(run.data.constraint_rank.values) == {2}
    assert_allclose(run.data.base_position.values[:, 0], 0.5 * run.data.time.values, atol=1e-9)
    assert un.classify(system).motion == "dynamic"
    assert un.classify(train(dict(motion=un.laws.Constant(0.2)))).motion == "kinematic"


def test_a_train_unbends_through_the_straight_line():
    """The rank drops for an instant during the run; the reference solves the three rows on either side of it."""
    a, k = 0.8, 0.275 / 0.35  # the rates that the straight line allows
    bend, back = (dict(motion=un.laws.Polynomial([-c / 2, c])) for c in (a, -k * a))
    system = train(bend, back)
    run = un.run(system, system.state(), t_end=1.0, dt=5e-3)
    assert run.ok and "from 3 to 2 at t = 0.5 s" in run.message and "from 2 to 3 at t = 0.505 s" in run.message

    def along(angle):
        return np.array([np.cos(angle), np.sin(angle)])

    def left(p):
        return np.array([-p[1], p[0]])

    def velocity(t):
        q, r = a * (t - 0.5), -k * a * (t - 0.5)
        joint, axles = np.array([-0.2, 0.0]), [(0.0, np.zeros(2), np.zeros(2))]
        hinge = joint - 0.4 * along(q)
        middle, last = joint - 0.2 * along(q), hinge - 0.35 * along(q + r)
        axles += [(q, middle, a * left(middle - joint))]
        axles += [(q + r, last, a * left(last - joint) - k * a * left(last - hinge))]
        A = [[*left(along(angle)), left(along(angle)) @ left(p)] for angle, p, _ in axles]
        return np.linalg.solve(A, [-left(along(angle)) @ v for angle, _, v in axles])

    def flow(t, y):
        v = velocity(t)
        return [v[0] * np.cos(y[2]), v[0] * np.sin(y[2]), v[2]]

    gap = 1e-5
    y = solve_ivp(flow, (0, 0.5 - gap), np.zeros(3), rtol=1e-11, atol=1e-13).y[:, -1]
    y = y + [0, 0, 2 * gap * velocity(0.5 - gap)[2]]
    y = solve_ivp(flow, (0.5 + gap, 1), y, rtol=1e-11, atol=1e-13).y[:, -1]
    assert_allclose(
        run.data.base_position.values[-1, :2], y[:2], atol=1e-7
    )  # one step of 100 uses the limit at t = 0.5
    assert_allclose(run.data.base_twist.values[150, [0, 1, 5]], velocity(0.75), atol=1e-10)


@pytest.mark.long
def test_power_of_a_forced_system():
    """Torques drive the joints of the train: their work is the gain of kinetic energy."""
    system = train(dict(effort=un.laws.Sinusoid(0.05, 3.0, 0.4)))
    run = un.run(system, system.state({"second": 0.4, "third": -0.3}), t_end=1.0, dt=2e-3, save_every=1)
    power, energy = run.data.power_actuators.values, run.data.energy_kinetic.values
    h = 2e-3
    work = np.cumsum((power[:-2:2] + 4 * power[1:-1:2] + power[2::2]) * h / 3)  # Simpson
    assert energy.max() > 1e-3
    assert_allclose(energy[2::2] - energy[0], work, atol=1e-8)
    assert_allclose(run.data.effort.values[:, 0], 0.05 * np.sin(3.0 * run.data.time.values + 0.4), atol=1e-12)


@quickly_compiled
def balance_of(system, state, t):
    """Rate of the energy, from its derivative along the computed motion; the powers; the residual."""
    found = un.hybrid_dynamics(system, state, t)
    at, gain = found.state, found.acceleration

    def energy(e):
        moved = displaced(system.topology, at, e * at.velocity)
        x = un.State(moved.base, moved.q, at.base_twist + e * gain.base, at.v + e * gain.v)
        return un.kinetic_energy(system, x) + un.potential_energy(system, x)

    rate = jax.jvp(energy, (0.0,), (1.0,))[1]
    s = un.sample(system, state, t)
    return rate, s.power_actuators + s.power_external, found.residual


@pytest.mark.parametrize(
    "name",
    [
        "bicycle",
        "soft-snakeboard",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("bicycle-whipple", "hexapod", "mobile-pendulum", "rolling-disc")
        ),
    ],
)
def test_power_balance_of_the_gallery(name, rng):
    """Wheeled vehicles are tested in their own file. Velocities in the kernel are random, loops are closed."""
    setup = gallery.load(name).setup()
    system = setup.system
    start = setup.state if isinstance(setup.state, un.State) else setup.state(system)
    assert str(un.classify(system, start)) == description(name)["class"]
    for t in (0.0, 0.37):
        allowed = np.isin(np.arange(6), system.topology.base_directions)
        twist, v = start.base_twist + 0.3 * allowed * rng.normal(size=6), start.v + 0.3 * rng.normal(size=system.nv)
        pushed = un.State(start.base, start.q, twist, v)
        state = un.admissible(system, pushed, t)
        rate, power, residual = (float(x) for x in balance_of(system, state, jnp.asarray(t)))
        assert rate == pytest.approx(power, abs=1e-8 * (1 + abs(power)))
        assert residual < 1e-8
