"""Flexible bodies that carry bodies and elements (document 001, appendix B), and mimics of several coordinates.

Expected values are those of Euler-Bernoulli beams, from their characteristic equations or from tables, and of rigid bodies.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from undula.numerics.programs import quickly_compiled

L, RHO, EI = 0.7, 0.4, 3.0  # m, kg/m, N m^2
MASS, INERTIA = 0.2, 0.004  # kg, kg m^2
G = 9.81
mass_matrix = quickly_compiled(un.mass_matrix)


def builder(gravity=0.0):
    b = un.Builder("beam", gravity=(0, 0, -gravity))
    b.base("wall")
    return b


def loaded(modes=6, nodes=10, bending=EI, mass=MASS, density=RHO, **options):
    """A cantilever with a body at its tip."""
    b = builder()
    un.flexible.add_beam(b, "beam", "wall", L, density, bending, modes=modes, nodes=nodes, **options)
    b.body("tip", un.on("beam", L), un.Fixed(), mass=mass, inertia=INERTIA)
    return b


def at(system, state, site):
    """Displacement from X along x, and rotation vector, of a site."""
    view = un.kinematics.site_view(system, state, site)
    return np.asarray(view.p), Rotation.from_matrix(np.asarray(view.R)).as_rotvec()


def frequencies(system, counts):
    """Of the first `count` modes only, for each count: the bases are nested."""
    names = [f"beam.mode{k + 1}" for k in range(system.nv)]
    order = [system.coordinate_names.index(x) for x in names]
    M = np.asarray(mass_matrix(system, system.state()))[np.ix_(order, order)]
    K = np.diag(np.asarray(system.element("springs").stiffness)[order])
    return [np.sqrt(scipy.linalg.eigh(K[:n, :n], M[:n, :n], eigvals_only=True)) for n in counts]


@pytest.fixture(scope="module")
def exact():
    """The first three natural frequencies of the loaded beam: at its tip EI w'' = J omega^2 w', EI w''' = -m omega^2 w."""

    def determinant(z):
        c, s, ch, sh = np.cos(z), np.sin(z), np.cosh(z), np.sinh(z)
        even, odd = (ch - c, sh + s, ch + c, sh - s), (sh - s, ch - c, sh + s, ch + c)  # and three derivatives
        turning, moving = INERTIA / (RHO * L**3) * z**3, MASS / (RHO * L) * z
        moments = [w[2] - turning * w[1] for w in (even, odd)]
        forces = [w[3] + moving * w[0] for w in (even, odd)]
        return moments[0] * forces[1] - moments[1] * forces[0]

    grid = np.linspace(0.1, 12, 1000)
    values = [determinant(z) for z in grid]
    changes = [k for k in range(len(grid) - 1) if values[k] * values[k + 1] < 0][:3]
    roots = np.array([scipy.optimize.brentq(determinant, grid[k], grid[k + 1], xtol=1e-14) for k in changes])
    return roots**2 * np.sqrt(EI / (RHO * L**4))


class TestFrequencies:
    def test_polynomial_modes(self, exact):
        """The error of the first frequency falls below rounding with six modes, that of the third a hundredfold from five."""
        five, six = frequencies(loaded(basis="polynomial").build(), (5, 6))
        errors = [x[:3] / exact - 1 for x in (five, six)]
        assert np.all(errors[1] > -1e-11)  # Rayleigh-Ritz: from above
        assert errors[1][0] < 1e-11
        assert errors[1][1] < 2e-7
        assert errors[1][2] < 2e-4

    def test_clamped_modes(self, exact):
        """Without curvature at the tip, the error due to the couple there falls with the number of modes only."""
        found = frequencies(loaded(8, 16).build(), (1, 2, 4, 8))
        errors = [x[0] / exact[0] - 1 for x in found]
        assert np.all(np.diff(errors) < 0)
        assert 0 < errors[3] < 1e-3
        assert 1.8 < errors[2] / errors[3] < 6

    def test_bare_beam(self):
        """Both bases converge to the same beam; its polynomial modes are exact to 1e-9 with eight."""
        b = builder()
        un.flexible.add_beam(b, "beam", "wall", L, RHO, EI, modes=8, nodes=12, basis="polynomial")
        (found,) = frequencies(b.build(), (8,))
        roots = np.array([1.875104068711961, 4.694091132974175])
        assert_allclose(found[:2], roots**2 * np.sqrt(EI / (RHO * L**4)), rtol=1e-7)

    def test_two_beams_in_series(self):
        """Half a beam that carries the other half is the whole beam."""
        b = builder()
        for name, parent in (("inner", "wall"), ("outer", un.on("inner", L / 2))):
            un.flexible.add_beam(b, name, parent, L / 2, RHO, EI, modes=5, nodes=7, basis="polynomial")
        system = b.build()
        found = un.natural_modes(system, un.tangent_stiffness(system, system.state())).frequencies
        roots = np.array([1.875104068711961, 4.694091132974175, 7.854757438237613])
        assert_allclose(found[:2], roots[:2] ** 2 * np.sqrt(EI / (RHO * L**4)), rtol=1e-6)
        assert_allclose(found[2], roots[2] ** 2 * np.sqrt(EI / (RHO * L**4)), rtol=1e-3)


class TestStatics:
    def test_tip_force_and_couple(self):
        """Deflections P L^3 / 3 EI and C L^2 / 2 EI, slopes P L^2 / 2 EI and C L / EI: two polynomial modes are exact."""
        P, C = 2.0, 0.3
        b = loaded(2, basis="polynomial")
        b.add(un.forces.Load("tip", (0, P, 0), (0, 0, C), name="load"))
        system = b.build()
        p, turned = at(system, un.equilibrium(system).state, "tip")
        assert_allclose(p, [L, P * L**3 / (3 * EI) + C * L**2 / (2 * EI), 0], atol=1e-12)
        assert_allclose(turned, [0, 0, P * L**2 / (2 * EI) + C * L / EI], atol=1e-12)

    def test_clamped_modes_converge(self):
        """The errors of the deflection and of the slope fall as the third and second power of the number of modes."""
        P, errors = 2.0, []
        for modes in (3, 6):
            found = un.flexible.clamped_modes(modes, L, 10)
            deflections, slopes = found.at(L)
            q = P * deflections / (EI * found.curvatures)  # the balance of each mode
            errors.append(1 - np.array([deflections @ q / (P * L**3 / (3 * EI)), slopes @ q / (P * L**2 / (2 * EI))]))
        assert_allclose(errors[0] / errors[1], [8, 4], rtol=0.3)
        b = loaded(3, 8)
        b.add(un.forces.Load(un.on("beam", L), (0, P, 0)))
        system = b.build()
        p, turned = at(system, un.equilibrium(system).state, un.on("beam", L))
        found = 1 - np.array([p[1] / (P * L**3 / (3 * EI)), turned[2] / (P * L**2 / (2 * EI))])
        assert_allclose(found, errors[0], atol=1e-9)

    def test_slopes_are_derivatives(self):
        for found in (un.flexible.clamped_modes(4, L), un.flexible.polynomial_modes(4, L)):
            X, h = 0.3, 1e-5
            wanted = (found.at(X + h)[0] - found.at(X - h)[0]) / (2 * h)
            assert_allclose(found.at(X)[1], wanted, rtol=1e-7, atol=1e-7)
            assert_allclose([found.at(x)[0] for x in found.positions], found.shapes.T, atol=1e-13)

    def test_two_planes(self):
        """A beam of two stiffnesses, loaded askew: each plane by itself; the rotation is that of the sum, to second order."""
        P, stiff = np.array([0.0, 0.02, 0.03]), np.array([EI, 2 * EI])
        b = builder()
        un.flexible.add_beam(
            b, "beam", "wall", L, RHO, stiff, modes=2, bends=[(0, 1, 0), (0, 0, 1)], basis="polynomial"
        )
        b.body("tip", un.on("beam", L), un.Fixed(), mass=MASS, inertia=INERTIA)
        b.add(un.forces.Load("tip", P))
        system = b.build()
        p, turned = at(system, un.equilibrium(system).state, "tip")
        assert_allclose(p, [L, *(P[1:] * L**3 / (3 * stiff))], atol=1e-12)
        small = P[1:] * L**2 / (2 * stiff)
        assert_allclose(turned, [0, -small[1], small[0]], atol=small[0] * small[1])

    def test_propped(self):
        """A constraint at a section: under its own weight, a propped beam rests on the prop with 3/8 of it."""
        b = builder(G)
        un.flexible.add_beam(b, "beam", "wall", L, RHO, EI, modes=5, bends=(0, 0, 1), basis="polynomial")
        b.add(un.rows.Anchor("prop", un.on("beam", L), (L, 0, 0), holds=("z",)))
        b.add(un.Sensor("middle", un.on("beam", L / 2)))
        system = b.build()
        found = un.equilibrium(system)
        assert_allclose(abs(found.reactions), 3 / 8 * RHO * G * L, rtol=1e-9)
        p, _ = at(system, found.state, un.on("beam", L / 2))
        assert_allclose(p[2], -RHO * G * L**4 / (192 * EI), rtol=1e-6)

    @pytest.mark.long
    def test_contact(self):
        """A loaded tip comes to rest on a floor 3 cm below it, which carries what the bent beam does not."""
        mass, below = 1.0, 0.03
        b = un.Builder("beam")
        b.base("wall", position=(0, 0, below + 0.02))
        un.flexible.add_beam(b, "beam", "wall", L, RHO, EI, modes=3, bends=(0, 0, 1), basis="polynomial", damping=0.01)
        b.add(un.contact.Contact("foot", un.on("beam", L), un.contact.Plane(), radius=0.02))
        b.body("tip", un.on("beam", L), un.Fixed(), mass=mass, inertia=1e-3)
        run = un.run(b.build(), t_end=1.5, dt=1e-3)
        wanted = mass * G + 3 / 8 * RHO * G * L - 3 * EI / L**3 * below
        assert_allclose(run.data.contact_force.values[-1, 0], [0, 0, wanted], rtol=1e-6, atol=1e-9)


def hub(bending=EI, rigid=False):
    """A free-floating hub with a beam that bends in two planes and carries a body; `rigid`: the same without bending."""
    b = un.Builder("hub", gravity=(0, 0, 0))
    b.base("hub", role="free", mass=1.0, inertia=(0.02, 0.03, 0.04))
    if rigid:
        found = un.flexible.clamped_modes(1, 0.5, 5)
        for k, (x, w) in enumerate(zip(found.positions, found.weights)):
            b.body(f"node{k}", "hub", un.Fixed(), mass=0.5 * w, position=(x, 0, 0))
        parent = un.site("hub", (0.5, 0, 0))
    else:
        bends = [(0, 1, 0), (0, 0, 1)]
        un.flexible.add_beam(b, "beam", "hub", 0.5, 0.5, bending, 2, bends=bends, nodes=5, basis="polynomial")
        parent = un.on("beam", 0.5)
    b.body("tip", parent, un.Revolute((0, 0, 1)), mass=0.1, com=(0.05, 0, 0), inertia=(0.002, 0.003, 0.004))
    return b.build()


@quickly_compiled
def adrift(system, state):
    """States, energies and momenta of 800 steps of 0.5 ms, every 16th."""

    def kept(s):
        return un.kinetic_energy(system, s) + un.potential_energy(system, s), un.momentum(system, s, "world")

    states = jax.tree.map(lambda x: x[::16], un.simulate(system, state, 5e-4, 800))
    return states, *jax.lax.map(kept, states)


class TestAdrift:
    spin = (0, 0, 0, 0.5, 1.0, 2.0)

    def test_conserved_and_rigid_limit(self):
        """Energy and momenta are conserved; the motion tends to that of the rigid system as 1 / EI."""
        system = hub(rigid=True)
        exact = un.simulate(system, system.state(base_twist=self.spin), 5e-4, 800).base.quaternion[::16]
        error = []
        for bending in (4.0, 16.0):
            system = hub(bending)
            states, energy, momentum = adrift(system, system.state(base_twist=self.spin))
            assert_allclose(energy, energy[0], rtol=3e-8)
            assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=1e-9)
            error.append(np.abs(np.abs((states.base.quaternion * exact).sum(1)) - 1).max() ** 0.5)
        assert error[1] < 3e-3
        assert 2.5 < error[0] / error[1] < 6


class TestDerivatives:
    def test_by_stiffness_and_mass(self):
        """Numbers of the beam and of the carried body may be traced; compared with finite differences."""

        def accelerations(numbers):
            system = loaded(2, 4, bending=numbers[0], mass=numbers[1], density=numbers[2], basis="polynomial").build()
            state = system.state(position={"beam.mode1": 0.05, "beam.mode2": -0.02})
            return un.forward_dynamics(system, state, jnp.zeros(2)).v

        value = quickly_compiled(accelerations)
        x = jnp.array([EI, MASS, RHO])
        found = quickly_compiled(jax.jacrev(accelerations))(x)
        wanted = [(value(x + h) - value(x - h)) / 2e-5 for h in 1e-5 * np.eye(3)]
        assert_allclose(found, np.array(wanted).T, rtol=1e-7)


class TestSections:
    def test_points_of_a_finite_element_model_turn(self):
        """`rotations` of the points: the same cantilever, its tip given by points instead of a section."""
        found = un.flexible.polynomial_modes(2, L, 6)
        slopes = np.array([found.at(x)[1] for x in found.positions]).T
        b = builder()
        un.flexible.add_flexible(
            b,
            "beam",
            "wall",
            found.positions[:, None] * np.array([1.0, 0, 0]),
            RHO * found.weights,
            found.shapes[:, :, None] * np.array([0, 1.0, 0]),
            EI * found.curvatures,
            rotations=slopes[:, :, None] * np.array([0, 0, 1.0]),
        )
        b.body("tip", "beam.node6", un.Fixed(), mass=MASS, inertia=INERTIA)
        system = b.build()
        wanted = loaded(2, 6, basis="polynomial").build()
        assert_allclose(mass_matrix(system, system.state()), mass_matrix(wanted, wanted.state()), atol=1e-14)

    def test_few_links(self):
        """The displacement of a point by many modes is one joint; an unused section costs nothing."""
        b = builder()
        un.flexible.add_beam(b, "beam", "wall", L, RHO, EI, modes=4, nodes=8)
        assert b.build().topology.link_count == 1 + 8 + 3  # and the four modes' own joints at the tip
        b.body("tip", un.on("beam", L), un.Fixed(), mass=MASS)
        b.add(un.forces.Load(un.on("beam", L), (0, 1, 0)))
        b.add(un.forces.Load(un.on("beam", 0.0), (0, 1, 0)))  # at the clamp
        system = b.build()
        assert system.topology.link_count == 12 + 2
        assert {"beam@0.7", "beam@0"} <= set(system.body_names)

    @pytest.mark.parametrize(
        "site, words",
        [
            (lambda: un.on("beam", 0.8), "X = 0.8 m; X must lie between 0 and 0.7 m"),
            (lambda: un.on("beam", un.Found(0.3)), "flexible body 'beam' must be a constant number"),
            (lambda: un.on("beam", un.laws.Constant(0.3)), "flexible body 'beam' must be a constant number"),
            (lambda: un.on("rod", 0.3), "there is no rod or flexible body 'rod'; there are beam"),
        ],
    )
    def test_refusals(self, site, words):
        b = loaded(1)
        b.body("more", site(), un.Fixed(), mass=1.0)
        with pytest.raises(un.ModelError, match=words):
            b.build()

    @pytest.mark.parametrize(
        "options, words",
        [
            (dict(basis="cubic"), "basis of the beam 'beam' = 'cubic'; it must be one of clamped, polynomial"),
            (dict(nodes=9), "nodes of clamped_modes = 9; 6 modes need at least 10"),
            (dict(basis="polynomial", nodes=5), "nodes of polynomial_modes = 5; 6 modes need at least 8"),
            (dict(bending=-1.0), "bending of the beam 'beam' = -1.0 N m^2; it must be positive"),
        ],
    )
    def test_refused_beams(self, options, words):
        with pytest.raises(un.ModelError, match=words.replace("^", r"\^")):
            loaded(**options)


class TestMimics:
    """A differential: the cage turns by half the sum of the wheels."""

    I, cage = 0.3, 0.5

    def gear(self, motions=(None, None), leaders=("a", "b"), multiplier=0.5):
        b = un.Builder("gear", gravity=(0, 0, 0))
        b.base("frame")
        for name, motion in zip("ab", motions):
            b.body(name, "frame", un.Revolute((0, 0, 1), motion=motion), mass=1.0, inertia=self.I)
        mimic = un.joints.Mimic(leaders, multiplier)
        b.body("cage", "frame", un.Revolute((0, 0, 1), mimic=mimic), mass=1.0, inertia=self.cage)
        return b.build()

    def test_free(self):
        M = np.array([[self.I + self.cage / 4, self.cage / 4], [self.cage / 4, self.I + self.cage / 4]])
        system = self.gear()
        assert_allclose(mass_matrix(system, system.state()), M, atol=1e-14)
        found = quickly_compiled(un.forward_dynamics)(system, system.state(), jnp.array([1.0, -0.4]))
        assert_allclose(found.v, np.linalg.solve(M, [1.0, -0.4]), atol=1e-13)
        turned = un.kinematics.site_view(system, system.state(position={"a": 0.2, "b": 0.5}), "cage").R
        assert_allclose(Rotation.from_matrix(np.asarray(turned)).as_rotvec(), [0, 0, 0.35], atol=1e-13)

    def test_driven(self):
        """The recursion, in which the cage is driven by the sum of two laws."""
        system = self.gear((un.laws.Sinusoid(0.3, 2.0), un.laws.Sinusoid(0.5, 3.0)))
        found = quickly_compiled(un.hybrid_dynamics)(system, system.state(), 0.4).efforts
        a, b = -0.3 * 4 * np.sin(0.8), -0.5 * 9 * np.sin(1.2)
        shared = self.cage / 4 * (a + b)
        assert_allclose(found, [self.I * a + shared, self.I * b + shared], atol=1e-13)

    @pytest.mark.parametrize(
        "options, words",
        [
            (dict(leaders=("a", "a")), "must be different coordinates"),
            (dict(leaders=()), "at least one name must be given"),
            (dict(leaders=("a", "c")), "mimics 'c'"),
            (dict(multiplier=(1.0, 2.0, 3.0)), "has 3 values; it must have 1 or 2"),
        ],
    )
    def test_refusals(self, options, words):
        with pytest.raises(un.ModelError, match=words):
            self.gear(**options)
