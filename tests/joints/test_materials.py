"""Material laws of rods: against the invariants of the deformation, closed forms, boundary value problems and balances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad, solve_bvp
from scipy.optimize import brentq

import undula as un
from undula.balance.look import look
from undula.balance.stiffness import stiffness_of
from undula.model.prepare import prepare
from undula.numerics.programs import quickly_compiled

E, R = 1e6, 0.01
A, I = np.pi * R**2, np.pi * R**4 / 4
STRAIGHT = np.array([1.0, 0, 0, 0, 0, 0])
RUBBER = dict(section=un.rods.Circle(2 * R), E=E, density=1100.0)
STRIP = dict(stiffness=(50.0, 20.0, 20.0, 2.0, 2.0, 2.0), inertia=(1, 1, 1, 2e-3, 1e-3, 1e-3))
CUBIC = (0.0, 0.0, 0.0, 0.0, 0.0, 0.5)  # N m^4


def rod(force=(0, 0, 0), couple=(0, 0, 0), length=0.5, strains=("Kz",), modes=3, elements=(), **more):
    """A rod along x, clamped at its root, with a dead load at its tip."""
    b = un.Builder("rod", gravity=(0, 0, 0))
    b.base("wall")
    b.body("tip", "wall", un.Rod(length=length, strains=strains, modes=modes, **more))
    b.add(un.forces.Load("tip", force, couple, follows=any(couple)), *elements)
    return b.build()


def tip(system, state):
    return np.asarray(un.kinematics.body_poses(system, state).position[-1])


class Hooke(un.rods.MaterialLaw):
    """Linear elasticity and viscosity, as a law."""

    time: jax.Array  # s

    def energy_density(self, at):
        return at.strain @ at.stiffness @ at.strain / 2

    def inelastic_stress(self, at):
        return self.time * at.stiffness @ at.dxi


def seen(law, strain):
    H = jnp.diag(jnp.array([E * A, E * A / 3, E * A / 3, E * 2 * I / 3, E * I, E * I]))
    at = un.rods.Strained(jnp.zeros(()), jnp.asarray(STRAIGHT + strain), jnp.zeros(6), jnp.asarray(STRAIGHT), H, None)
    return float(law.energy_density(at))


def section_energy(share, strain, bend=False):
    """Energy per length of the incompressible deformation that the law describes: its invariants, over the disc.

    Fibres that bending stretches contract freely, like those of a bar.
    """
    l, gy, gz, t, ky, kz = 1 + strain[0], *strain[1:]
    C1, C2 = E / 6 * (1 - share), E / 6 * share

    def density(r, a):
        Y, Z = r * np.cos(a), r * np.sin(a)
        if bend:
            f = l + (ky * Z - kz * Y) / np.sqrt(l)
            F = np.diag([f, f**-0.5, f**-0.5])
        else:  # x = l X; y, z: turned by t X, moved by g X
            F = np.diag([l, l**-0.5, l**-0.5])
            F[1:, 0] = [gy - t * Z * l**-0.5, gz + t * Y * l**-0.5]
        assert abs(np.linalg.det(F) - 1) < 1e-12  # the volume is conserved
        C = F.T @ F
        return r * (C1 * (np.trace(C) - 3) + C2 * (np.trace(np.linalg.inv(C)) - 3))

    x, w = np.polynomial.legendre.leggauss(8)
    angles = 2 * np.pi * np.arange(8) / 8
    return sum(R / 2 * wi * density(R / 2 * (1 + xi), a) * np.pi / 4 for xi, wi in zip(x, w) for a in angles)


@pytest.mark.parametrize("share", [0.0, 0.4])
class TestRubber:
    def test_energy_is_that_of_the_invariants(self, share):
        law = un.rods.MooneyRivlin(share)
        for strain in ((0.8, 0, 0, 0, 0, 0), (-0.3, 0.1, 0.2, 0, 0, 0), (0.5, 0, 0, 30.0, 0, 0)):
            assert_allclose(seen(law, np.array(strain)), section_energy(share, strain), rtol=1e-12)

    def test_bending_is_accurate_to_second_order(self, share):
        law, base = un.rods.MooneyRivlin(share), np.array([0.6, 0, 0, 0, 0, 0])
        away = []
        for k in (2.0, 1.0):
            strain = base + [0, 0, 0, 0, 0.5 * k, k]
            bent = section_energy(share, strain, bend=True) - section_energy(share, base, bend=True)
            away.append(abs((seen(law, strain) - seen(law, base)) / bent - 1))
        assert away[0] < 3e-3 and 3.8 < away[0] / away[1] < 4.2  # the next term is of relative order k^2

    def test_bar_under_an_end_force(self, share):
        at = un.equilibrium(rod((200.0, 0, 0), strains=("Gx", "Kz"), material=un.rods.MooneyRivlin(share), **RUBBER))

        def excess(l):
            return E * A / 3 * ((1 - share) + share / l) * (l - l**-2) - 200.0

        assert_allclose(1 + np.asarray(at.state.q[:3]), [brentq(excess, 1.0, 5.0), 1, 1], rtol=1e-10)


def test_stretched_rubber_bends_more_easily():
    """A bar under tension, with a small couple at its end: k = M / B, with B of the docstring's formula."""
    law = un.rods.NeoHookean()
    at = un.equilibrium(rod((0, 0, 0), (0, 0, 1e-4), strains=("Gx", "Kz"), material=law, **RUBBER))
    assert_allclose(at.state.q[3], 1e-4 / (E * I), rtol=1e-6)
    axial = un.forces.InternalWrench("tip", force=(-200.0, 0, 0))  # compresses: the material is in tension
    pulled = un.equilibrium(
        rod((0, 0, 0), (0, 0, 1e-4), strains=("Gx", "Kz"), material=law, elements=[axial], **RUBBER)
    )
    l = 1 + float(pulled.state.q[0])
    assert_allclose(l, brentq(lambda l: E * A * (l - l**-2) / 3 - 200.0, 1, 5), rtol=1e-6)
    assert_allclose(pulled.state.q[3], 1e-4 / (E * I * (1 + 2 * l**-3) / (3 * l)), rtol=1e-5)


def cubic(force, coefficient=CUBIC[-1], **more):
    law = un.rods.Cubic(jnp.asarray(CUBIC).at[-1].set(coefficient))
    return rod((0, force, 0), length=1.0, modes=6, material=law, **STRIP, **more)


@pytest.fixture(scope="module")
def bent():
    """A cubic cantilever that a dead force bends far."""
    system = cubic(8.0)
    return system, un.equilibrium(system)


class TestCubic:
    def test_couple_at_the_end(self):
        at = un.equilibrium(rod(couple=(0, 0, 9.0), length=1.0, material=un.rods.Cubic(CUBIC), **STRIP))
        k = brentq(lambda k: 2.0 * k + 0.5 * k**3 - 9.0, 0, 5)
        assert_allclose(at.state.q, [k, 0, 0], atol=1e-9)

    def test_force_at_the_end(self, bent):
        system, at = bent

        def rate(s, y):  # y: angle, curvature, position; M' = -F cos(angle)
            return np.stack([y[1], -8.0 * np.cos(y[0]) / (2.0 + 1.5 * y[1] ** 2), np.cos(y[0]), np.sin(y[0])])

        def ends(a, b):
            return np.array([a[0], b[1], a[2], a[3]])

        s = np.linspace(0, 1, 50)
        exact = solve_bvp(rate, ends, s, np.stack([s, 1 - s, s, s**2]), tol=1e-10, max_nodes=20000)
        assert exact.success and exact.y[0, -1] > 0.9
        assert_allclose(tip(system, at.state)[:2], exact.y[2:, -1], atol=2e-6)

    def test_derivative_of_an_equilibrium(self, bent):
        """By the coefficient of the law: the implicit function theorem against other equilibria."""
        system, at = bent

        @jax.jit
        def imbalance(coefficient):
            law = un.rods.Cubic(jnp.asarray(CUBIC).at[-1].set(coefficient))
            return un.bias(system.replace_element("tip.elasticity", law=law), at.state)

        assert_allclose(imbalance(0.5), 0, atol=1e-8)
        slope = -np.linalg.solve(at.stiffness, np.asarray(jax.jit(jax.jacfwd(imbalance))(0.5)))
        up, down = (np.asarray(un.equilibrium(cubic(8.0, 0.5 + h), at.state).state.q) for h in (1e-3, -1e-3))
        assert_allclose(slope, (up - down) / 2e-3, rtol=1e-4, atol=1e-6 * np.abs(slope).max())

    @pytest.mark.long
    def test_energy_is_kept(self, bent):
        """Released, it keeps its energy up to the error of the method, which is of second order."""
        _, at = bent
        free, drift = cubic(0.0, damping=1e-13), []  # none, but compiled as below
        for dt in (4e-3, 2e-3):
            data = un.run(free, at.state, t_end=0.4, dt=dt, integrator=un.integrators.ImplicitMidpoint()).data
            energy = (data.energy_kinetic + data.energy_potential).values
            drift.append(np.ptp(energy) / energy[0])
        assert_allclose(energy[0], stored(at.state.q), rtol=1e-6)
        assert drift[1] < 3e-3 and 3.0 < drift[0] / drift[1] < 5.5

    def test_damping_takes_the_energy(self, bent):
        _, at = bent
        data = un.run(cubic(0.0, damping=0.02), at.state, t_end=0.4, dt=1e-3).data
        energy = (data.energy_kinetic + data.energy_potential).values
        work = np.trapezoid(data.power_external.values, data.time.values)
        assert energy[-1] < 0.9 * energy[0]
        assert_allclose(energy[-1] - energy[0], work, rtol=1e-3)


def stored(q):
    """Energy of the cubic strip, by adaptive quadrature of its Legendre series."""
    series = np.polynomial.legendre.Legendre(np.asarray(q), domain=[0, 1])
    return quad(lambda s: series(s) ** 2 + CUBIC[-1] * series(s) ** 4 / 4, 0, 1, epsabs=1e-12)[0]


@pytest.fixture(scope="module")
def pair():
    options = dict(strains=("Gx", "Kz"), modes=2, length=1.0, reference=(1.0, 0, 0, 0, 0, 0.3), **STRIP)
    return rod(material=Hooke(jnp.asarray(0.03)), **options), rod(damping=0.03, **options)


class TestGeneralLaw:
    """A law written outside the library, elastic and viscous, that repeats what rods have without one."""

    def test_accelerations(self, pair):
        gains = []
        for system in pair:
            state = system.state({"tip.Kz1": 1.0, "tip.Gx2": 0.01}, {"tip.Kz1": 2.0, "tip.Kz2": -1.0})
            gains.append(quickly_compiled(un.forward_dynamics)(system, state, jnp.zeros(system.nv)).v)
        assert_allclose(gains[0], gains[1], atol=1e-10 * np.abs(gains[1]).max())

    @pytest.mark.long
    def test_motion(self, pair):
        start = {"tip.Kz1": 1.0, "tip.Gx2": 0.01}
        ours, theirs = (un.run(s, s.state(start), t_end=0.2, dt=4e-3).data for s in pair)
        for name in ("position", "energy_potential", "power_external"):
            a, b = ours[name].values, theirs[name].values
            assert_allclose(a, b, atol=1e-8 * np.abs(b).max())
        assert set(pair[0].labels.elements[k][1][0] for k in (0, 1)) == {"tip.elasticity", "tip.dissipation"}

    def test_stiffness_for_implicit_treatment(self, pair):
        state = pair[0].state({"tip.Kz1": 1.0})
        ours, theirs = (stiffness_of(p, look(p, 0.0, state)) for p in map(prepare, pair))
        assert_allclose(ours.K, theirs.K, atol=1e-10 * np.abs(theirs.K).max())
        assert_allclose(ours.D, theirs.D, atol=1e-10 * np.abs(theirs.D).max())
        assert not np.asarray(stiffness_of(prepare(pair[0])).k).any()  # none without a state: they are not constant

    @pytest.mark.long
    def test_time_stepping(self, pair):
        """By Moreau's rule, which treats rods implicitly: the same steps only if it does so with the law, too."""
        start, moreau = {"tip.Kz1": 1.0, "tip.Gx2": 0.01}, un.integrators.Moreau()
        ours, theirs = (un.run(s, s.state(start), t_end=0.2, dt=4e-3, integrator=moreau).data for s in pair)
        a, b = ours.position.values, theirs.position.values
        assert_allclose(a, b, atol=1e-8 * np.abs(b).max())

    @pytest.mark.long
    def test_linearisation(self, pair):
        ours, theirs = (np.sort_complex(un.linearise(s, s.state()).eigenvalues) for s in pair)
        assert_allclose(ours, theirs, rtol=1e-8)


def test_small_strains_are_those_of_the_linear_rod():
    options = dict(strains=("Gx", "Gy", "Kx", "Ky", "Kz"), modes=2, **RUBBER)
    load = dict(force=(1e-4, 1e-6, 2e-6), couple=(0, 0, 0))
    linear = un.equilibrium(rod(**load, **options))
    for law in (un.rods.MooneyRivlin(0.0), un.rods.MooneyRivlin(0.3)):
        at = un.equilibrium(rod(**load, material=law, **options))
        assert_allclose(at.state.q, linear.state.q, atol=1e-4 * np.abs(linear.state.q).max())
        assert_allclose(at.stiffness, linear.stiffness, atol=1e-4 * np.abs(linear.stiffness).max())


@pytest.mark.long
def test_derivative_of_a_motion():
    """By Young's modulus, through implicit steps, against finite differences."""

    def bent(E):
        b = un.Builder("rod", gravity=(0, 0, 0))
        b.base("wall")
        rubber = un.Rod(
            **(RUBBER | dict(E=E)), length=0.5, strains=("Gx", "Kz"), modes=2, material=un.rods.NeoHookean()
        )
        b.body("tip", "wall", rubber)
        b.add(un.forces.Load("tip", (20.0, 0.02, 0)))
        system = b.build()
        integrator = un.integrators.ImplicitMidpoint(tolerance=1e-12)
        return un.simulate(system, system.state(), 2e-3, 5, integrator=integrator).q

    run = jax.jit(lambda E: jax.jvp(bent, (E,), (1.0,)))
    slope = run(E)[1]
    assert_allclose(slope, (run(E + 100)[0] - run(E - 100)[0]) / 200, atol=1e-6 * np.abs(slope).max())


class Foundation(un.Along):
    """More bending stiffness, as an energy density of a user's own."""

    size: jax.Array  # N m^2

    account = "conservative"

    def energy_density(self, at):
        return self.size * at.section.xi[5] ** 2 / 2


class Both(Foundation):
    def energy(self, at):
        return jnp.zeros(())


class Odd(Foundation):
    def energy_density(self, at):
        return at.section.xi


class TestEnergyDensity:
    """Of an element along a rod."""

    def test_adds_to_the_rod(self):
        more = Foundation(jnp.asarray(3.0), rod="tip", name="more")
        at = un.equilibrium(rod(couple=(0, 0, 5.0), length=1.0, elements=[more], **STRIP))
        assert_allclose(at.state.q, [1.0, 0, 0], atol=1e-9)
        system = rod(couple=(0, 0, 5.0), length=1.0, elements=[more], **STRIP)
        assert_allclose(un.potential_energy(system, at.state), 2.5, rtol=1e-9)

    def test_refusals(self):
        for kind, said in (
            (Both, "Both defines both energy and energy_density"),
            (Odd, r"energy_density .* has the shape \(6,\)"),
        ):
            with pytest.raises(un.ModelError, match=said):
                rod(elements=[kind(jnp.asarray(3.0), rod="tip")], **STRIP)


class Idle(un.rods.MaterialLaw):
    pass


class Deaf(un.rods.MaterialLaw):
    """Does not read the rod's stiffness."""

    def energy_density(self, at):
        return at.section.Iz * at.strain[5] ** 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (dict(material="rubber", **STRIP), "it must be a material law"),
            (dict(material=Idle(), **STRIP), "defines neither energy_density nor inelastic_stress"),
            (dict(material=Deaf(), **STRIP), "needs a section"),
            (dict(material=Deaf(), **RUBBER), "E, or the stiffness, of the rod 'tip' would not be used"),
            (dict(material=un.rods.NeoHookean(), inertia=(1, 1, 1, 1, 1, 1)), "needs a stiffness"),
            (dict(material=un.rods.NeoHookean(), **(STRIP | dict(stiffness=np.eye(6) + 0.1))), "needs a diagonal"),
            (dict(strain=lambda X, t: STRAIGHT, material=Idle(), inertia=(1,) * 6, modes=None), "material of the rod"),
            (dict(shear_factor=0.9, **RUBBER), "include neither Gy nor Gz"),
            (dict(shear_factor=-1, strains=("Gy",), **RUBBER), "shear_factor of the rod 'tip' = -1"),
            (dict(shear_factor="best", strains=("Gy",), **RUBBER), "'best'; it must be a number"),
            (dict(shear_factor=0.9, strains=("Gy",), **STRIP), "shear_factor of the rod 'tip' would not be used"),
        ],
    )
    def test_sentences(self, options, said):
        with pytest.raises(un.ModelError, match=said):
            rod(**options)

    def test_numbers_of_laws(self):
        with pytest.raises(un.UndulaError, match="share of a Mooney-Rivlin law = 2"):
            un.rods.MooneyRivlin(2)
        with pytest.raises(un.ModelError, match=r"coefficients of a cubic law have the shape \(2,\)"):
            un.rods.Cubic((1.0, 2.0))

    def test_no_changing_stress_free_strain(self):
        grown = un.forces.StressFreeStrain("tip", (0, 0, 0, 0, 0, 1.0))
        with pytest.raises(un.ModelError, match="which has a material law"):
            rod(material=un.rods.NeoHookean(), elements=[grown], **RUBBER)

    def test_sections_must_be_traceable(self):
        def section(X):
            return un.rods.Circle(0.01 if X < 0.2 else 0.02)

        with pytest.raises(un.ModelError, match="functions of X that JAX can trace"):
            rod(material=un.rods.NeoHookean(), **(RUBBER | dict(section=section)))


class TestShearFactor:
    @pytest.mark.parametrize(
        ("given", "factor"), [(0.75, 0.75), ((0.75, 0.5), 0.75), ("cowper", 10 * 1.5 / (12 + 11 * 0.5)), (None, 1.0)]
    )
    def test_short_cantilever(self, given, factor):
        """P L^3 / (3 E I) + P L / (k G A)."""
        P, L, w = 1e-3, 0.05, 0.02
        options = dict(section=un.rods.Rectangle(w, w), E=E, density=1e3, shear_factor=given)
        at = un.equilibrium(rod((0, P, 0), length=L, strains=("Gy", "Kz"), **options))
        wanted = P * L**3 / (3 * E * w**4 / 12) + P * L / (factor * E / 3 * w**2)
        moved = un.kinematics.body_poses(rod((0, P, 0), length=L, strains=("Gy", "Kz"), **options), at.state).position[
            -1
        ]
        assert_allclose(moved[1], wanted, rtol=1e-6)

    def test_formulas_for_sections(self):
        """Cowper's: a tube tends to a solid circle, and to 2 (1 + nu) / (4 + 3 nu) for a thin wall."""
        for nu in (0.0, 0.3, 0.5):
            assert_allclose(un.rods.Annulus(1.0, 1e-9).shear_factors(nu), un.rods.Circle(1.0).shear_factors(nu))
            thin = un.rods.Annulus(1.0, 1 - 1e-9).shear_factors(nu)
            assert_allclose(thin, [2 * (1 + nu) / (4 + 3 * nu)] * 2, rtol=1e-6)
        assert_allclose(un.rods.Rectangle(1.0, 2.0).shear_factors(0.0), [5 / 6] * 2)
        assert_allclose(un.rods.Circle(1.0).shear_factors(0.5), [0.9] * 2)
        with pytest.raises(un.ModelError, match="no formula for the shear factor of a Ellipse"):
            un.rods.Ellipse(1.0, 2.0).shear_factors(0.3)
