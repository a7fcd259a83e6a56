"""Rods as joints: kinematics, inertia, loads and statics against closed forms, elliptic integrals and finite differences."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.linalg import eigh, expm

import undula as un
from undula.joints.rod import basis, magnus
from undula.joints.rod.pieces import piece_turns
from undula.joints.rod.plan import RodPlan
from undula.model.state import displaced
from undula.numerics.programs import quickly_compiled

EI = 2.0


def rod(modes=3, strains="planar-kirchhoff", length=1.0, base="fixed", load=None, gravity=(0, 0, 0), **more):
    """A uniform rod along x with EI = GJ = 2 and 1 kg/m, clamped unless its root is free."""
    options = dict(
        stiffness=(50.0, 20.0, 20.0, EI, EI, EI), inertia=(1, 1, 1, 2e-3, 1e-3, 1e-3), strains=strains, modes=modes
    )
    b = un.Builder("rod", gravity=gravity)
    b.base("root", role=base)
    b.body("tip", "root", un.Rod(length=length, **(options | more)))
    for given in load or ():
        given = dict(given)
        b.add((un.forces.LineLoad if given.pop("along", False) else un.forces.Load)("tip", **given))
    return b.build()


def elasticity(system):
    return np.asarray(system.element("tip.elasticity").stiffness)


@quickly_compiled
def inertia(system, state):
    return un.mass_matrix(system, state)


@quickly_compiled
def poses(system, state):
    return un.kinematics.body_poses(system, state)


def tip(system, state):
    return np.asarray(poses(system, state).position[system.body("tip")])


def hat(x):
    out = np.zeros((4, 4))
    out[:3, :3] = np.cross(np.asarray(x[3:]), np.eye(3)).T
    out[:3, 3] = x[:3]
    return out


class TestPieces:
    """Magnus increments on se(3)."""

    def screws(self, values):
        return [{i: jnp.asarray([v[i]]) for i in range(6)} for v in values]

    def pose_of(self, values, h):
        R, p = magnus.pose(magnus.bend(self.screws(values), jnp.array([h])), (1,))
        g = np.eye(4)
        g[:3, :3], g[:3, 3] = R[0], p[0]
        return g

    def test_exponential(self, rng):
        for size in (1e-8, 0.3, 2.0):
            x = size * rng.normal(size=6)
            assert_allclose(self.pose_of([x, x], 1.0), expm(hat(x)), atol=1e-13)

    @pytest.mark.parametrize("order", [4, 6])
    def test_order(self, order, rng):
        c = rng.normal(size=(4, 6))

        def xi(s):
            return np.array([1.0, 0, 0, 0, 0, 0]) + sum(ck * s**k for k, ck in enumerate(c))

        exact = solve_ivp(lambda s, y: (y.reshape(4, 4) @ hat(xi(s))).ravel(), (0, 1), np.eye(4).ravel(),
                          method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1].reshape(4, 4)  # fmt: skip
        errors = []
        for n in (8, 16):
            g = np.eye(4)
            for k in range(n):
                g = g @ self.pose_of([xi((k + s) / n) for s in magnus.GAUSS[order][0]], 1 / n)
            errors.append(np.abs(g - exact).max())
        assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.15)

    @pytest.mark.parametrize("points", [2, 3])
    def test_twist_and_its_rate(self, points, rng):
        """Against finite differences of the pose, and of the twist along a quadratic path of the strains."""
        x, v, h = rng.normal(size=(points, 6)), rng.normal(size=(points, 6)), 0.4
        e = 1e-5

        def twist(x):
            g, d = self.pose_of(x, h), (self.pose_of(x + e * v, h) - self.pose_of(x - e * v, h)) / (2 * e)
            M = np.linalg.solve(g, d)
            return np.array([*M[:3, 3], M[2, 1], M[0, 2], M[1, 0]])

        def found(f, x):
            out = f(magnus.bend(self.screws(x), jnp.array([h])), self.screws(v), jnp.array([h]))
            return np.array([out[i][0] for i in range(6)])

        assert_allclose(found(magnus.twist, x), twist(x), atol=1e-8)
        rate = (found(magnus.twist, x + e * v) - found(magnus.twist, x - e * v)) / (2 * e)
        assert_allclose(found(magnus.bias, x), rate, atol=1e-8)
        F = rng.normal(size=6)
        bent = magnus.bend(self.screws(x), jnp.array([h]))
        forces = magnus.strain_forces(bent, {i: jnp.array([F[i]]) for i in range(6)}, jnp.array([h]), tuple(range(6)))
        work = sum(float(forces[g][i][0]) * v[g, i] for g in range(points) for i in range(6))
        assert work == pytest.approx(F @ found(magnus.twist, x), rel=1e-12)


class TestBasis:
    @pytest.mark.parametrize("kind", list(basis.BASES))
    def test_stiffness_is_the_integral_of_the_energy(self, kind, rng):
        plan = RodPlan("r", un.Rod(length=2.0, stiffness=(1, 1, 1, 3.0, 3.0, 3.0), inertia=np.ones(6), strains=("Kz",),
                                   modes=5, basis=kind))  # fmt: skip
        K = np.asarray(plan.stiffness()[0])
        x = np.linspace(0, 1, 20001)
        mid = (x[1:] + x[:-1]) / 2
        q = rng.normal(size=5)
        assert q @ K @ q == pytest.approx(3.0 * 2.0 * ((q @ plan.bases[0].values(mid)) ** 2).mean(), rel=1e-6)

    def test_legendre_is_orthogonal_and_chebyshev_is_not(self):
        """Facts 9: EI l / (2 k + 1); a third of the diagonal."""
        K = elasticity(rod(3, length=2.0))
        assert_allclose(K, np.diag(EI * 2.0 / (2 * np.arange(3) + 1)), atol=1e-13)
        C = elasticity(rod(3, basis="chebyshev"))
        assert np.abs(C[0, 2] / C[0, 0]) == pytest.approx(1 / 3)

    def test_given_basis(self):
        ramp = un.rods.GivenBasis(2, lambda s: np.stack([np.ones_like(s), s]))
        a, b = rod(None, basis=ramp), rod(2, basis="monomial")
        assert_allclose(elasticity(a), elasticity(b))

    def test_the_seven_classes(self):
        assert [len(basis.components(name, "")) for name in basis.CLASSES] == [6, 4, 3, 2, 1, 2, 1]
        for name in basis.CLASSES:
            system = rod(2, name)
            assert system.nv == 2 * len(basis.CLASSES[name])

    def test_an_order_a_strain(self):
        system = rod({"Kx": 1, "Ky": 2, "Kz": 3}, "kirchhoff")
        assert system.coordinate_names == ("tip.Kx1", "tip.Ky1", "tip.Ky2", "tip.Kz1", "tip.Kz2", "tip.Kz3")


def straight(X, t):
    return jnp.array([1.0, 0, 0, 0, 0, 0])


def wound(X, t):
    return jnp.array([1.0, 0, 0, 0, 0, 100.0])


def one_entry(i, j):
    return np.eye(6)[:, [i]] * np.eye(6)[j]


class TestSections:
    def test_whole_inertia(self):
        """A rotated section of 3 kg/m off the axis: its kinetic energy is the sum of that of its parts."""
        rng = np.random.default_rng(0)
        points, masses = rng.normal(size=(5, 3)) * [0, 0.1, 0.1], rng.uniform(0.2, 1.0, 5)
        M = np.zeros((6, 6))
        for r, m in zip(points, masses):
            to_point = np.hstack([np.eye(3), np.cross(np.eye(3), r).T])  # velocity of the point, from (V, W)
            M += m * to_point.T @ to_point
        plan = RodPlan("r", un.Rod(stiffness=np.ones(6), inertia=M, nodes=3))
        assert all(added is None for *_, added in plan.inertials())
        mass, com, inertia = (sum(x) for x in zip(*(x[:3] for x in plan.inertials())))
        assert mass == pytest.approx(masses.sum())
        assert_allclose(com / 3, masses @ points / masses.sum(), atol=1e-14)
        away = points - masses @ points / masses.sum()
        assert_allclose(
            inertia, sum(m * ((r @ r) * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, away)), atol=1e-14
        )

    def test_traced_inertia_that_is_not_a_sections(self):
        """It cannot be refused at compile time: it becomes NaN."""

        def mass(m):
            lopsided = m * jnp.array([1.0, 2, 1, 1, 1, 1])
            return RodPlan("r", un.Rod(stiffness=np.ones(6), inertia=lopsided, modes=1, nodes=1)).inertials()[0][0]

        assert np.isnan(jax.jit(mass)(1.0))

    def test_numbers(self):
        """Second moments by integration over the section, Saint-Venant's constants from tables."""
        y = (np.arange(2000) + 0.5) / 2000 - 0.5
        Y, Z = np.meshgrid(0.06 * y, 0.04 * y, indexing="ij")
        cell = 0.06 * 0.04 / 2000**2
        shapes = {
            un.rods.Rectangle(0.06, 0.04): np.ones_like(Y, bool),
            un.rods.Ellipse(0.06, 0.04): (Y / 0.03) ** 2 + (Z / 0.02) ** 2 < 1,
            un.rods.Circle(0.04): Y**2 + Z**2 < 0.02**2,
            un.rods.Annulus(0.04, 0.02): (Y**2 + Z**2 < 0.02**2) & (Y**2 + Z**2 > 0.01**2),
        }
        for section, inside in shapes.items():
            found = section.area, *section.moments
            assert_allclose(
                found, np.array([inside.sum(), (Z**2 * inside).sum(), (Y**2 * inside).sum()]) * cell, rtol=2e-3
            )
        assert un.rods.Rectangle(1.0, 1.0).torsion == pytest.approx(0.1406, abs=5e-5)
        assert un.rods.Rectangle(0.2, 0.1).torsion == pytest.approx(0.229 * 0.2 * 0.1**3, rel=2e-3)
        assert un.rods.Circle(0.1).torsion == pytest.approx(un.rods.Ellipse(0.1, 0.1).torsion)

    def test_a_tapered_rod(self):
        """Stiffness and mass are integrals along the rod."""
        taper = un.Rod(
            length=2.0, section=lambda X: un.rods.Circle(0.1 - 0.03 * X), E=1e6, density=1e3, strains=("Kz",), modes=1
        )
        plan = RodPlan("r", taper)
        x = (np.arange(20000) + 0.5) / 10000
        d = 0.1 - 0.03 * x
        assert float(plan.stiffness()[0][0, 0]) == pytest.approx((1e6 * np.pi * d**4 / 64).mean() * 2, rel=1e-8)
        assert sum(float(m) for m, *_ in plan.inertials()) == pytest.approx(
            (1e3 * np.pi * d**2 / 4).mean() * 2, rel=1e-8
        )


class TestKinematics:
    def test_constant_curvature(self):
        """Fact 11: a circle; and an imposed field gives the same."""
        system = rod(1)
        for k in (0.5, 3.0, 6.0):
            assert_allclose(tip(system, system.state([k])), [np.sin(k) / k, (1 - np.cos(k)) / k, 0], atol=1e-9)
        field = un.Builder("field")
        field.base("root")
        field.body(
            "tip", "root", un.Rod(inertia=np.ones(6), strain=lambda X, t: jnp.array([1.0, 0, 0, 0, 0, 3.0]) + 0 * X)
        )
        system = field.build()
        state, _ = un.kinematics.driven_motion(system, system.state(), 0.0)
        assert_allclose(tip(system, state), [np.sin(3) / 3, (1 - np.cos(3)) / 3, 0], atol=1e-9)

    def test_helix(self):
        """Constant torsion and curvature: the position from the matrix exponential."""
        system = rod(1, "kirchhoff", length=2.0)
        xi = np.array([1.0, 0, 0, 2.0, 0.3, 1.5])
        assert_allclose(tip(system, system.state(xi[3:])), expm(2 * hat(xi))[:3, 3], atol=1e-9)

    def test_precurved_and_pretwisted(self):
        bent = rod(1, "kirchhoff", reference=lambda X: jnp.array([1.0, 0, 0, 0.5, 0, 2.0]))
        assert_allclose(tip(bent, bent.state()), expm(hat([1.0, 0, 0, 0.5, 0, 2.0]))[:3, 3], atol=1e-9)
        assert quickly_compiled(un.potential_energy)(bent, bent.state()) == 0

    def test_nodes_converge_with_the_order(self, rng):
        q = rng.normal(size=5)
        ends = {}
        for order in (4, 6):
            at = [tip(s, s.state(q)) for s in (rod(5, nodes=n, order=order, inertia=np.ones(6)) for n in (10, 20, 60))]
            ends[order] = [np.linalg.norm(x - at[2]) for x in at[:2]]
        assert ends[4][0] / ends[4][1] > 2**3.5
        assert ends[6][1] < 1e-2 * ends[4][1]

    def test_estimate_of_the_error(self, rng):
        """Against the tip with many more nodes."""
        q = 2 * rng.normal(size=5)
        coarse, fine = (rod(5, nodes=n, inertia=np.ones(6)) for n in (8, 80))
        found = un.rods.spatial_error(coarse, coarse.state(q))["tip"]
        true = np.linalg.norm(tip(coarse, coarse.state(q)) - tip(fine, fine.state(q)))
        assert found.position == pytest.approx(true, rel=0.3) and 0 < found.angle < 1e-2


class TestInertia:
    def test_symmetric_positive_and_the_rigid_body(self, rng):
        """Fact 8: a straight rod's own inertia in the rows of the base."""
        system = rod(3, "kirchhoff", length=2.0, base="free")
        M = np.asarray(inertia(system, system.state(0.5 * rng.normal(size=9))))
        assert np.abs(M - M.T).max() < 1e-14 * np.abs(M).max() and np.linalg.eigvalsh(M)[0] > 0
        M = np.asarray(inertia(system, system.state()))
        assert_allclose(np.diag(M)[:3], 2.0, rtol=1e-12)
        assert_allclose(np.diag(M)[3:6], [2 * 2e-3, 2 * 1e-3 + 8 / 3, 2 * 1e-3 + 8 / 3], rtol=1e-12)

    def test_modes_of_a_cantilever(self):
        """Fact 10: Euler and Bernoulli's roots."""
        system = rod(10, inertia=(1, 1, 1, 0, 0, 0), nodes=30, order=6)
        K, M = elasticity(system), np.asarray(inertia(system, system.state()))
        roots = (eigh(K, M)[0] / EI) ** 0.25
        assert_allclose(roots[:3], [1.87510407, 4.69409113, 7.85475744], rtol=1e-6)
        at = un.equilibrium(system)
        assert_allclose(un.natural_modes(system, at).frequencies[:2], EI**0.5 * roots[:2] ** 2, rtol=1e-9)

    @pytest.mark.long
    def test_power(self, rng):
        """The derivative of the energy along the computed motion is the external power: zero, or that of a tip load."""
        load = [dict(force=(0.3, -0.2, 0.5), couple=(0.1, 0.2, -0.1)), dict(force=(0, 0.4, 0), follows=True)]
        system = rod(2, "reissner", base="free", load=load, gravity=(0, 0, -9.81), damping=0.01)
        state = system.state(0.3 * rng.normal(size=12), rng.normal(size=12), base_twist=rng.normal(size=6))

        @quickly_compiled
        def powers(system, state):
            s = un.sample(system, state, 0.0)

            def energy(e):
                moved = displaced(system.topology, s.state, e * s.state.velocity)
                x = un.State(
                    moved.base, moved.q, s.state.base_twist + e * s.acceleration.base, s.state.v + e * s.acceleration.v
                )
                return un.kinetic_energy(system, x) + un.potential_energy(system, x)

            return jax.jvp(energy, (0.0,), (1.0,))[1], s.power_external, s.rods[0].stress

        rate, power, stress = powers(system, state)
        assert rate == pytest.approx(float(power), rel=1e-9)
        assert np.all(np.isfinite(stress))

    def test_a_stiff_piecewise_rod_is_a_chain(self, rng):
        """Fact 15: one piece per link, whose angle is its curvature times its length; the inertias agree as pieces shorten."""
        n, L = 4, 1.0
        errors = []
        for k in (1, 4):
            system = rod(n * k, length=L, basis="piecewise-constant", nodes=3 * n * k, inertia=(1, 1, 1, 0, 0, 0))
            angles = np.zeros(n * k)
            angles[::k] = 0.3 / (L / (n * k))  # each n-th of the rod bends in its first piece
            chain = un.Builder("chain", gravity=(0, 0, 0))
            chain.base("ground")
            for j in range(n):
                chain.body(f"l{j}", f"l{j - 1}" if j else "ground", un.Revolute((0, 0, 1)), mass=L / n, com=(L / n / 2, 0, 0),
                           inertia=(0, *2 * [L / n * (L / n) ** 2 / 12]), position=(L / n if j else 0, 0, 0))  # fmt: skip
            rigid = chain.build()
            M = np.asarray(inertia(system, system.state(angles)))[::k, ::k] / (L / (n * k)) ** 2
            errors.append(np.abs(M - np.asarray(inertia(rigid, rigid.state([0.3] * n)))).max())
        assert errors[1] < 0.4 * errors[0]


class TestLoads:
    def test_couple_gives_a_circle(self):
        """Fact 11: q = m / EI, and the internal couple is the same everywhere."""
        system = rod(4, load=[dict(couple=(0, 0, 3.0))], order=6)
        at = un.equilibrium(system)
        assert_allclose(np.asarray(at.state.q), [1.5, 0, 0, 0], atol=1e-10)
        stress = np.asarray(quickly_compiled(un.sample)(system, at.state, jnp.zeros(())).rods[0].stress[0])
        assert_allclose(stress[:, 5], 3.0, atol=1e-9)
        assert_allclose(stress[:, :5], 0.0, atol=1e-9)

    @pytest.mark.long
    def test_reaction_at_the_clamp(self):
        """The internal wrench at the root carries the load and the weight."""
        system = rod(
            3, "kirchhoff", load=[dict(force=(0, 0.4, 0)), dict(force=(0, 0, 0.5), along=True)], gravity=(0, 0, -2.0)
        )
        at = un.equilibrium(system)
        root = np.asarray(quickly_compiled(un.sample)(system, at.state, jnp.zeros(())).rods[0].stress[0, 0])
        assert_allclose(root[:3], [0, 0.4, 0.5 - 2.0], atol=1e-9)

    def test_forced_coordinates(self):
        """An effort on the mean curvature is a uniform couple times the length."""
        system = rod(2, length=2.0, effort=un.laws.Constant(np.array([3.0, 0.0])))
        assert system.topology.roles == ("forced", "forced")
        assert_allclose(np.asarray(un.equilibrium(system).state.q), [3.0 / (EI * 2.0), 0], atol=1e-10)

    def test_following_force(self):
        """A following tip force keeps its direction in the section: equilibrium by shooting on theta'' = -(f / EI) cos(...)."""
        f = 2.0
        system = rod(8, load=[dict(force=(0, f, 0), follows=True)], order=6, nodes=24)
        at = un.equilibrium(system)
        # M' = -N, with N = f in the tip's frame: EI theta'' = -f cos(theta - theta_tip), theta'(1) = 0: integrate from the tip
        end = float(np.asarray(at.state.q)[0])  # angle of the tip: the first coefficient times the length
        back = solve_ivp(lambda s, y: [y[1], -f / EI * np.cos(y[0] - end)], (1, 0), [end, 0.0], rtol=1e-11, atol=1e-12)
        assert back.y[0, -1] == pytest.approx(0.0, abs=1e-7)

    def test_parallel_tendon(self):
        """Fact 17: uniform curvature T D / EI; antagonists subtract; the tendon's length is that of its offset circle."""
        b = un.Builder("finger", gravity=(0, 0, 0))
        b.base("palm")
        b.body(
            "tip",
            "palm",
            un.Rod(stiffness=(1, 1, 1, EI, EI, EI), inertia=np.ones(6), strains="planar-kirchhoff", modes=3),
        )
        b.add(un.forces.Tendon("up", "tip", (0.05, 0.0), tension=20.0))
        b.add(un.forces.Tendon("down", "tip", (-0.05, 0.0), tension=6.0))
        system = b.build()
        at = un.equilibrium(system)
        k = (20.0 - 6.0) * 0.05 / EI
        assert_allclose(np.asarray(at.state.q), [k, 0, 0], atol=1e-10)
        s = quickly_compiled(un.sample)(system, at.state, jnp.zeros(()))
        (shown,) = [x for x in s.elements if "tension" in x]
        assert_allclose(shown["length"], [1 - 0.05 * k, 1 + 0.05 * k], atol=1e-12)
        assert_allclose(shown["tension"], [20.0, 6.0])

    @pytest.mark.long
    def test_helical_tendon_twists(self):
        """Small tension: torque about the axis T D^2 w / |u|, from the stress (2.32) in the straight rod."""
        D, w, T = 0.05, 4.0, 1e-5
        b = un.Builder("arm", gravity=(0, 0, 0))
        b.base("palm")
        b.body("tip", "palm", un.Rod(stiffness=(50.0, 20, 20, EI, EI, EI), inertia=np.ones(6), strains="extensible-kirchhoff",
                                     modes=4, nodes=40, order=6))  # fmt: skip
        b.add(un.forces.Tendon("helix", "tip", lambda X: D * jnp.stack([jnp.cos(w * X), jnp.sin(w * X)]), tension=T))
        at = un.equilibrium(b.build())
        q = np.asarray(at.state.q).reshape(4, 4)
        size = np.hypot(1, D * w)
        assert_allclose(q[0, 0], -T / size / 50.0, rtol=1e-6)  # compression
        assert_allclose(q[1, 0], -T * D * D * w / size / EI, rtol=1e-6)  # torsion, opposite to the helix

    @pytest.mark.long
    def test_winch_and_chamber(self):
        """A tendon of given length pulls in proportion to its stretch or is slack; an off-axis chamber bends and stretches."""

        def finger(**what):
            b = un.Builder("f", gravity=(0, 0, 0))
            b.base("palm")
            b.body("tip", "palm", un.Rod(stiffness=(50.0, 20, 20, EI, EI, EI), inertia=np.ones(6), modes=1,
                                         strains=("Gx", "Kz")))  # fmt: skip
            if "area" in what:
                b.add(un.forces.Chamber("c", "tip", (0.1, 0.0), **what))
            else:
                b.add(un.forces.Tendon("t", "tip", (0.1, 0.0), **what))
            return b.build()

        pulled = np.asarray(un.equilibrium(finger(length=0.98, stiffness=100.0)).state.q)
        stretch = 1 + pulled[0] - 0.1 * pulled[1] - 0.98
        assert_allclose(pulled, [-100 * stretch / 50, 0.1 * 100 * stretch / EI], atol=1e-9)
        assert_allclose(np.asarray(un.equilibrium(finger(length=1.02, stiffness=100.0)).state.q), 0, atol=1e-12)
        blown = np.asarray(un.equilibrium(finger(area=1e-3, pressure=1e3)).state.q)
        assert_allclose(blown, [1.0 / 50, -0.1 * 1.0 / EI], atol=1e-9)


def elastica(angle):
    """Tip (x, z) and force of a cantilever of length 1 and EI = 1 under a dead transverse force, tip angle < pi / 2."""
    from scipy.special import ellipeinc, ellipkinc

    k2 = (1 + np.sin(angle)) / 2
    phi = np.arcsin(1 / np.sqrt(2 * k2))
    K, E = ellipkinc(np.pi / 2, k2) - ellipkinc(phi, k2), ellipeinc(np.pi / 2, k2) - ellipeinc(phi, k2)
    force = K**2
    x = np.sqrt(2 * np.sin(angle) / force)
    return x, 1 - 2 * E / K, force


class TestStatics:
    @pytest.mark.parametrize("angle", [0.3, 1.0, 1.4])
    def test_elastica_by_elliptic_integrals(self, angle):
        from undula import gallery

        x, z, force = elastica(angle)
        setup = gallery.load("elastica").setup(force_z=force)
        state = setup.state(setup.system)
        found = tip(setup.system, state)
        assert_allclose(found, [x, 0, z], atol=1e-8)
        assert -float(state.q[0]) == pytest.approx(angle, abs=1e-8)

    @pytest.mark.long
    def test_modes_converge_spectrally(self):
        x, z, force = elastica(1.2)
        errors = []
        for modes in (2, 4, 8):
            system = rod(modes, load=[dict(force=(0, EI * force, 0))], order=6, nodes=30)
            errors.append(np.abs(tip(system, un.equilibrium(system).state) - [x, z, 0]).max())
        assert errors[1] < 0.1 * errors[0] and errors[2] < 1e-3 * errors[1] and errors[2] < 1e-6

    def test_euler_and_greenhill(self):
        """Critical loads: pi^2 EI / 4 L^2 at the tip, 7.83735 EI / L^3 for the weight, where the smallest stiffness is zero."""
        from scipy.optimize import brentq

        def lowest(force=0.0, weight=0.0):
            system = rod(6, load=[dict(force=(-force, 0, 0))], gravity=(-weight, 0, 0), order=6)
            return un.tangent_stiffness(system, system.state()).lowest

        assert brentq(lambda f: lowest(force=f), 0.8 * EI, 4 * EI) == pytest.approx(np.pi**2 / 4 * EI, rel=1e-6)
        assert brentq(lambda w: lowest(weight=w), 4 * EI, 12 * EI) == pytest.approx(7.837347 * EI, rel=1e-5)

    def test_beyond_the_critical_load(self):
        """Continuation with a small imperfection: stable throughout, bent beyond it; the elastica's angle at 1.063 times it."""
        critical = np.pi**2 / 4 * EI

        def pushed(part):
            return rod(5, load=[dict(force=(-part * critical, 1e-5, 0))], order=6)

        path = un.continuation(pushed, [0.5, 0.9, 0.98, 1.0, 1.0628])
        assert all(at.stable for at in path)
        # Timoshenko's table: P / P_cr = 1.063 at a tip angle of 40 degrees
        assert np.degrees(float(path[-1].state.q[0])) == pytest.approx(40.0, abs=0.8)
        straight = rod(5, load=[dict(force=(-1.0628 * critical, 0, 0))], order=6)
        assert not un.tangent_stiffness(straight, straight.state()).stable

    @pytest.mark.long
    def test_soft_cantilever_of_the_document(self):
        """Fact 13: independent tip positions for 3 and 8 modes, force along e2, gravity along e1."""
        for modes, wanted in ((3, (5.0865, 7.8816)), (8, (5.0620, 7.9975))):
            b = un.Builder("c", gravity=(9.81, 0, 0))
            b.base("ground")
            soft = un.Rod(length=10.0, section=un.rods.Circle(0.01), E=1e11, density=7800, strains="planar-kirchhoff",
                          modes=modes, nodes=20)  # fmt: skip
            b.body("tip", "ground", soft)
            b.add(un.forces.Load("tip", (0, 50.0, 0)))
            system = b.build()
            at = un.equilibrium(system)
            assert at.stable
            assert_allclose(tip(system, at.state)[:2], wanted, atol=2e-4)

    @pytest.mark.long
    def test_tangent_against_differences(self, rng):
        """Fact 7, for statics: with gravity, a dead and a following load, and a tendon."""
        load = [dict(force=(0.3, -0.2, 0.5)), dict(couple=(0, 0.2, 0), follows=True)]
        system = rod(2, "kirchhoff", load=load, gravity=(0, 0, -3.0))
        state = system.state(rng.normal(size=6))
        from undula.balance.equilibrium import _balance

        K = np.asarray(un.tangent_stiffness(system, state).stiffness)
        e = 1e-6
        moved = [[_balance(system, un.State(state.base, state.q + s * e * u, state.base_twist, state.v), jnp.zeros(()),
                           jnp.ones(()))[0] for s in (1, -1)] for u in np.eye(6)]  # fmt: skip
        assert_allclose(K, np.stack([(a - b) / (2 * e) for a, b in moved], 1), atol=1e-7)


class TestRefusals:
    """One sentence with the culprit, its value and the allowed range."""

    @pytest.mark.parametrize(
        "given, words",
        [
            (dict(length=-1.0), "length of the rod 'tip' = -1.0 m; it must be positive"),
            (dict(E=0.0), "E of the rod 'tip' = 0.0 Pa; it must be positive"),
            (dict(density=-3), "density of the rod 'tip' = -3 kg/m^3; it must be positive"),
            (dict(section=None), "the rod 'tip' needs a section and a density, or its inertia"),
            (dict(modes=0), "modes of the rod 'tip' = 0 is not allowed; it must be a whole number of at least 1"),
            (
                dict(modes=12, nodes=8),
                "nodes of the rod 'tip' = 8; a basis of 12 functions on 1 pieces needs at least 12",
            ),
            (dict(strains="timoshenko"), "strains of the rod 'tip' = 'timoshenko'"),
            (dict(basis="fourier"), "basis of the rod 'tip' = 'fourier'"),
            (dict(order=5), "order of the rod 'tip' = 5; it must be 4 or 6"),
            (dict(damping=-0.1), "damping of the rod 'tip' = -0.1 is not allowed; it must not be negative"),
            (dict(rest=1.0), "rest of the rod 'tip' has no effect"),
            (dict(modes={"Kz": 2, "Gx": 1}), "it has no strain 'Gx'"),
            (dict(stiffness=(1, 2), E=None), "stiffness of the rod 'tip' has the shape (2,)"),
            (dict(stiffness=np.eye(6) + np.eye(6, k=1), E=None), "stiffness of the rod 'tip' is not symmetric"),
            (dict(stiffness=np.ones(6)), "E of the rod 'tip' would not be used: its stiffness is given"),
            (dict(stiffness=np.ones(6), G=1e5), "E and G of the rod 'tip' would not be used: its stiffness is given"),
            (dict(inertia=np.ones(6)), "density of the rod 'tip' would not be used: its inertia is given"),
            (
                dict(section=None, inertia=np.ones(6), density=None),
                "E of the rod 'tip' would not be used: it has no sec",
            ),
            (dict(E=None, G=1e5, motion=un.laws.Constant(0.0)), "G of the rod 'tip' would not be used: it has no E"),
            (
                dict(E=None, damping=0.1, motion=un.laws.Constant(0.0)),
                "damping of the rod 'tip' would not be used: it is a tim",
            ),
            (dict(strain=straight), "E of the rod 'tip' would not be used: an imposed strain needs no elasticity"),
            (dict(strain=straight, E=None), "modes of the rod 'tip' would not be used: an imposed strain has no basis"),
            (
                dict(strain=straight, E=None, modes=None, role="forced"),
                "role of the rod 'tip' = 'forced'; a rod with an",
            ),
            (dict(inertia=(1, 2, 1, 0, 0, 0), density=None), "the entry (Vy, Vy) = 2 would not be used"),
            (
                dict(inertia=np.eye(6) + 0.1 * (np.eye(6, k=1) + np.eye(6, k=-1)), density=None),
                "the entry (Vx, Vy) = 0.1",
            ),
            (dict(inertia=np.eye(6) + 0.1 * one_entry(5, 1), density=None), "the entry (Vy, Wz) = 0 would not be used"),
            (dict(reference=(1, 0, 0, 0, 0, 30.0)), "cannot be built: piece 6 of 10 of the rod 'tip', between X = 0."),
            (
                dict(E=None, modes=None, strain=wound),
                "cannot be built: piece 11 of 20 of the rod 'tip', between X = 0.",
            ),
        ],
    )
    def test_rod(self, given, words):
        options = dict(
            length=1.0, section=un.rods.Circle(0.01), E=1e6, density=1e3, strains="planar-kirchhoff", modes=2
        )
        b = un.Builder("x")
        b.base("ground")
        with pytest.raises(un.UndulaError, match=re.escape(words)):
            b.body("tip", "ground", un.Rod(**(options | given)))
            b.build()

    def test_section(self):
        for make in (
            lambda: un.rods.Circle(0.0),
            lambda: un.rods.Annulus(0.1, 0.2),
            lambda: un.rods.Rectangle(1.0, -1.0),
        ):
            with pytest.raises(un.ModelError, match="of the section"):
                make()

    def finger(self):
        b = un.Builder("x")
        b.base("ground")
        b.body("tip", "ground", un.Rod(section=un.rods.Circle(0.02), E=1e6, density=1e3))
        return b

    def test_tendons(self):
        b = self.finger()
        b.add(un.forces.Tendon("t", "tap", (0.0, 0.0), tension=1.0))
        with pytest.raises(un.ModelError, match="is on the rod 'tap', which does not exist; the rods are tip"):
            b.build()
        with pytest.raises(un.ModelError, match="either a tension or a length"):
            self.finger().add(un.forces.Tendon("t", "tip", (0.0, 0.0)))
        with pytest.raises(un.UndulaError, match=r"tension of the tendon 't' = -1\.0; it must be at least 0"):
            self.finger().add(un.forces.Tendon("t", "tip", (0.0, 0.0), tension=-1.0))
        tendon = un.forces.Tendon("t", "tip", (0.0, 0.0), tension=un.laws.Polynomial([1.0, -1.0]))
        said = tendon.remark(np.array([0.0, 1.0, 1.5, 2.0]), {"tension": np.array([1.0, 0.0, -0.5, -1.0])})
        assert said == "pushes from t = 1.5 s on: its tension is negative"
        b = self.finger()
        b.add(un.forces.Tendon("t", "tip", (0.05, 0.0), tension=1.0))
        with pytest.warns(un.UndulaWarning, match="leaves the section"):
            b.build()

    def test_turns_beyond_pi(self):
        """A metre in ten pieces: 30 rad along it is too much for the longest piece, 20 rad is not."""
        system = rod(1)
        longest = np.diff(np.asarray(system.rods[0].abscissae)[0]).max()
        assert_allclose(piece_turns(system.rods[0], np.array([[20.0]])).max(), 20.0 * longest, rtol=1e-12)
        system.state([0.99 * np.pi / longest])
        with pytest.raises(
            un.UndulaError, match=r"state cannot be represented: piece \d+ of 10 of the rod 'tip', between X"
        ):
            system.state([1.01 * np.pi / longest])
        start = system.state()
        start = un.State(start.base, start.q + 400.0, start.base_twist, start.v)
        for function in (un.equilibrium, un.rods.spatial_error, un.run):
            with pytest.raises(
                un.UndulaError, match=r"of the rod 'tip', between X = .* a piece can turn by at most pi"
            ):
                function(system, start)

    def test_a_run_that_winds_up(self):
        """A curvature growing at 60 per second: a run with two pieces fails where the longer one, of 2/3 m, turns by pi."""
        system = rod(1, nodes=2, motion=un.laws.Polynomial([0.0, 60.0]))
        run = un.run(system, t_end=0.1, dt=0.01, save_every=1)
        assert run.status == "failed"
        assert run.message.startswith(
            "piece 2 of 2 of the rod 'tip', between X = 0.3333 and 1 m, turns by 3.2 rad at t = 0.08"
        )
        assert float(run.data.time[-1]) == pytest.approx(0.07)
        assert set(run.data.effort_unit.values) == {"N m^2"} and run.data.effort.attrs["units"] == "N m^2"

    def test_units_of_efforts(self):
        """Effort times velocity is in W: N m^2 for a curvature, N m for a stretch."""
        labels = rod(1, "extensible-kirchhoff").labels
        assert dict(zip(labels.units, labels.effort_units)) == {"1": "N m", "1/m": "N m^2"}

    def test_loads(self):
        with pytest.raises(un.UndulaError, match=r"force of the load on the body 'tip'.*not finite"):
            self.finger().add(un.forces.Load("tip", (0, np.nan, 0)))
        b = self.finger()
        b.add(un.forces.Load("tap", (0, 1, 0)))
        with pytest.raises(un.ModelError, match="is on the body 'tap', which does not exist"):
            b.build()

    def test_no_equilibrium(self):
        """Nothing supports a free rod under gravity."""
        system = rod(1, base="free", gravity=(0, 0, -9.81))
        with pytest.raises(un.UndulaError, match="no equilibrium of 'rod' was found"):
            un.equilibrium(system)


def test_derivative_through_the_builder():
    """A model can be built from traced numbers: derivative of the elastic energy of a given shape with respect to E."""

    def energy(E):
        b = un.Builder("x", gravity=(0, 0, 0))
        b.base("ground")
        b.body(
            "tip", "ground", un.Rod(section=un.rods.Circle(0.02), E=E, density=1e3, strains="planar-kirchhoff", modes=2)
        )
        system = b.build()
        return un.potential_energy(system, system.state([1.0, 0.5]))

    value, slope = jax.value_and_grad(eqx.filter_jit(energy))(1e6)
    assert slope * 1e6 == pytest.approx(float(value))
