"""Sites: frames of bodies, and sections of rods at any abscissa, constant, moving, or carrying something."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import undula as un
from undula.model.state import displaced
from undula.numerics.programs import quickly_compiled

EI = 2.0


def arm(nodes=6, modes=3, order=4, gravity=(0, 0, 0), base="fixed", more=(), **options):
    """A soft arm, clamped or on a free root, along x."""
    b = un.Builder("arm", gravity=gravity)
    b.base("root", role=base, mass=0.3 if base == "free" else 0.0, inertia=0.1 if base == "free" else 0.0)
    given = dict(
        length=1.3, stiffness=(50.0, 20, 20, EI, EI, EI), inertia=(1, 1, 1, 2e-3, 1e-3, 1e-3), strains="reissner",
        modes=modes, nodes=nodes, order=order,
    )  # fmt: skip
    b.body("tip", "root", un.Rod(name="arm", **(given | options)), mass=0.2, inertia=0.01)
    b.add(*more)
    return b.build()


@quickly_compiled
def view(system, state, site):
    return un.kinematics.site_view(system, state, site)


@quickly_compiled
def jacobian(system, state, site):
    return un.kinematics.site_jacobian(system, state, site)


def bent(system, seed=0):
    rng = np.random.default_rng(seed)
    n = system.nv
    return system.state(0.4 * rng.normal(size=n), rng.normal(size=n))


def section(system, state, X):
    """Pose of the section at X, by integrating the strains: R' = R K^, p' = R Gamma; and the strain there."""
    q = np.asarray(state.q).reshape(6, -1)

    def strain(x):
        s = 2 * x / 1.3 - 1
        legendre = np.array([1.0, s, (3 * s * s - 1) / 2])[: q.shape[1]]
        return np.array([1.0, 0, 0, 0, 0, 0]) + q @ legendre

    def rate(x, y):
        xi, R = strain(x), y[:9].reshape(3, 3)
        return np.concatenate([(R @ hat(xi[3:])).ravel(), R @ xi[:3]])

    y = solve_ivp(rate, (0, X), np.concatenate([np.eye(3).ravel(), np.zeros(3)]), rtol=1e-11, atol=1e-12).y[:, -1]
    return y[:9].reshape(3, 3), y[9:], strain(X)


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


class TestSections:
    def test_any_abscissa(self):
        """The error decreases with the fourth power of the piece length, between the nodes as well as at them."""
        errors = []
        for nodes in (6, 12):
            system = arm(nodes)
            state = bent(system)
            error = []
            for X in (0.04, 0.31, 0.777, 1.2):
                s = view(system, state, un.on("arm", X))
                R, p, xi = section(system, state, X)
                error.append(max(np.abs(s.R - R).max(), np.abs(s.p - p).max()))
                assert_allclose(s.xi, xi, atol=1e-12)
                assert_allclose(s.X, X)
            errors.append(max(error))
        assert errors[0] < 2e-3 and errors[1] < errors[0] / 10

    def test_continuous_across_nodes(self):
        system = arm(6)
        state = bent(system)
        for X in np.asarray(system.rods[0].abscissae[0])[1:-1]:
            before, after = (view(system, state, un.on("arm", X + e)) for e in (-1e-9, 1e-9))
            assert_allclose(before.p, after.p, atol=5e-9)
            assert_allclose(before.twist, after.twist, atol=1e-7)

    @pytest.mark.parametrize("place", [un.on("arm", 0.5), un.on("arm", 0.5, (0.01, -0.2, 0.1), (0.8, 0.6, 0, 0))])
    def test_twist_is_the_rate_of_the_pose(self, place):
        system = arm(5, base="free")
        state = bent(system).replace(base_twist=jnp.asarray(np.random.default_rng(3).normal(size=6)))
        s, h = view(system, state, place), 1e-6
        a, b = (view(system, displaced(system.topology, state, k * h * state.velocity), place) for k in (-1, 1))
        assert_allclose(s.R @ s.V, (b.p - a.p) / (2 * h), atol=1e-8)
        turn = Rotation.from_matrix(np.asarray(a.R).T @ np.asarray(b.R)).as_rotvec() / (2 * h)
        assert_allclose(s.W, turn, atol=1e-8)
        assert_allclose(s.dxi, (b.xi - a.xi) / (2 * h), atol=1e-8)
        assert_allclose(jacobian(system, state, place) @ state.velocity, s.twist, atol=1e-12)

    def test_a_law_of_time(self):
        """A sensor that moves along the arm sees the current section; nothing moves it sideways."""
        law = un.laws.Polynomial([0.1, 0.7])
        system = arm(5, more=[un.Sensor("eye", un.on("arm", law, (0, 0.05, 0)))])
        state = bent(system)
        sample = eqx.filter_jit(un.sample)
        for t in (0.0, 0.5, 1.5):
            (shown,) = [x for x in sample(system, state, jnp.asarray(t)).elements if "tangent" in x]
            s = view(system, state, un.on("arm", 0.1 + 0.7 * t, (0, 0.05, 0)))
            assert_allclose(shown["position"][0], s.p, atol=1e-12)
            assert_allclose(shown["abscissa"][0], 0.1 + 0.7 * t)
            assert_allclose(shown["tangent"][0], s.R @ s.xi[:3], atol=1e-12)

    def test_wrenches_do_the_power_of_their_product_with_the_twist(self):
        """The effort of a load at a section is the transpose of its Jacobian; at a body, and at a moving section too."""
        force, couple = np.array([0.3, -0.5, 0.7]), np.array([0.1, 0.2, -0.3])
        for place in (
            un.on("arm", 0.45, (0, 0.1, 0)),
            un.site("tip", (0, 0, 0.1)),
            un.on("arm", un.laws.Constant(0.9)),
        ):
            load = un.forces.Load(place, force, couple, follows=True)
            system, bare = arm(5, base="free", more=[load]), arm(5, base="free")
            state = bent(system)
            more = np.asarray(eqx.filter_jit(un.bias)(bare, state) - eqx.filter_jit(un.bias)(system, state))
            plain = un.on("arm", 0.9) if place.body == "arm" and isinstance(place.abscissa, un.laws.Law) else place
            assert_allclose(
                more, np.asarray(jacobian(bare, state, plain)).T @ np.concatenate([force, couple]), atol=1e-12
            )

    def test_outside_is_refused(self):
        with pytest.raises(
            un.ModelError, match=r"load1' is at X = 1\.4 m of the rod 'arm'; X must lie between 0 and 1\.3 m"
        ):
            arm(more=[un.forces.Load(un.on("arm", 1.4), (0, 0, 1))])
        with pytest.raises(
            un.ModelError, match="is on the rod or flexible body 'leg', which does not exist; the rods are arm"
        ):
            arm(more=[un.forces.Load(un.on("leg", 0.4), (0, 0, 1))])
        with pytest.raises(un.UndulaError, match="there is no rod 'leg'"):
            un.kinematics.site_view(arm(), arm().state(), un.on("leg", 0.1))


class TestCarried:
    """Bodies, rods, constraints and contacts on a section between the nodes of a rod."""

    def beam(self, more=(), carried=None, at=0.52, gravity=(0, 0, 0), **options):
        """A beam of 1.3 m along x that bends in the x-z plane, stiff enough for small deflections."""
        b = un.Builder("beam", gravity=gravity)
        b.base("wall")
        given = dict(
            length=1.3,
            stiffness=(1, 1, 1, 1, 800.0, 1),
            inertia=(0.1, 0.1, 0.1, 0, 0, 0),
            strains=("Ky",),
            modes=6,
            nodes=16,
        )
        b.body("tip", "wall", un.Rod(name="beam", **(given | options)))
        if carried is not None:
            b.body("weight", un.on("beam", at, (0, 0, 0.1)), un.Fixed(), mass=carried)
        b.add(*more)
        return b.build()

    def sag(self, P, a, x):
        """Deflection of a cantilever at x under a load P at a, by Euler and Bernoulli."""
        x, a = min(x, a), max(x, a)
        return P * x**2 * (3 * a - x) / (6 * 800.0)

    def test_load_and_weight(self):
        light = dict(inertia=(1e-9, 1e-9, 1e-9, 0, 0, 0))
        pushed = un.equilibrium(self.beam([un.forces.Load(un.on("beam", 0.52), (0, 0, -3.0))], **light))
        heavy = un.equilibrium(self.beam(carried=0.3, gravity=(0, 0, -10.0), **light))
        for found in (pushed, heavy):
            for x in (0.3, 0.52, 1.3):
                z = un.kinematics.site_view(self.beam(**light), found.state, un.on("beam", x)).p[2]
                # the moment has a kink at the load, which six polynomials represent to half a percent
                assert_allclose(z, -self.sag(3.0, 0.52, x), rtol=1.5e-2)

    def test_support(self):
        """Supported at 0.9 m: the reaction of the support of a beam with a tip load, and zero deflection there."""
        hold = un.rows.Closure("prop", un.on("beam", 0.9), un.site("world", (0.9, 0, 0)), holds=("z",))
        system = self.beam([hold, un.forces.Load("tip", (0, 0, -3.0))], inertia=(1e-9, 1e-9, 1e-9, 0, 0, 0))
        at = un.equilibrium(system)
        assert_allclose(at.reactions, [3.0 * self.sag(1, 0.9, 1.3) / self.sag(1, 0.9, 0.9)], rtol=3e-3)
        assert_allclose(un.kinematics.site_view(system, at.state, un.on("beam", 0.9)).p[2], 0, atol=1e-10)

    def test_a_rod_on_a_rod(self):
        """An upright branch at 0.65 m: its weight bends the trunk like a load at that point."""
        b = un.Builder("tree", gravity=(0, 0, -10.0))
        b.base("wall")
        light = dict(stiffness=(1, 1, 1, 1, 800.0, 1), inertia=(1e-9, 1e-9, 1e-9, 0, 0, 0), strains=("Ky",), modes=6)
        b.body("tip", "wall", un.Rod(name="trunk", length=1.3, nodes=16, **light))
        twig = un.Rod(
            name="twig",
            length=0.4,
            stiffness=(1, 1, 1, 1, 1e4, 1),
            inertia=(0.5, 0.5, 0.5, 0, 0, 0),
            strains=("Ky",),
            modes=1,
            nodes=4,
        )
        b.body("bud", un.on("trunk", 0.65), twig, rotation=[[0, 0, -1.0], [0, 1, 0], [1, 0, 0]])
        system = b.build()
        at = un.equilibrium(system)
        z = un.kinematics.site_view(system, at.state, un.on("trunk", 1.3)).p[2]
        assert_allclose(z, -self.sag(0.5 * 0.4 * 10, 0.65, 1.3), rtol=3e-3)

    def test_contact(self):
        """The beam comes to rest on a post below a section between its nodes: the contact carries the load of the prop."""
        post = un.contact.Contact("post", un.on("beam", 0.9), un.contact.Plane(point=(0, 0, -1e-9)))
        system = self.beam([post, un.forces.Load("tip", (0, 0, -3.0))], damping=30.0)
        run = un.run(system, t_end=1.0, dt=1e-3)
        assert run.ok, run.message
        expected = 3.0 * self.sag(1, 0.9, 1.3) / self.sag(1, 0.9, 0.9)
        assert_allclose(run.data.contact_force[-1, 0, 2], expected, rtol=5e-3)

    def test_inertia_without_weight(self):
        """A mass at a section, once as a body and once as inertia: they swing alike, but only the body has weight."""
        body = self.beam(carried=0.0, at=0.52)
        light = self.beam([un.forces.AddedInertia(un.on("beam", 0.52, (0, 0, 0.1)), (0.4, 0.4, 0.4, 0, 0, 0))])
        heavy = self.beam(carried=0.4)
        mass = quickly_compiled(un.mass_matrix)
        assert_allclose(mass(light, light.state()), mass(heavy, heavy.state()), rtol=1e-9, atol=1e-12)
        assert np.abs(np.asarray(mass(light, light.state()) - mass(body, body.state()))).max() > 1e-3
        pulled = self.beam(
            [un.forces.AddedInertia(un.on("beam", 0.52), (0.4, 0.4, 0.4, 0, 0, 0))], gravity=(0, 0, -10.0)
        )
        plain = self.beam(gravity=(0, 0, -10.0))
        efforts = quickly_compiled(un.gravity_efforts)
        assert_allclose(efforts(pulled, pulled.state()), efforts(plain, plain.state()), atol=1e-5)


class TestBodies:
    def pendulum(self, parent, **placed):
        b = un.Builder("arm")
        b.base("ground")
        b.body("arm", "ground", un.Revolute((0, 1, 0)), 1.0, (0.1, 0, 0), 0.01)
        b.body("hand", parent, un.Revolute((0, 0, 1)), 0.5, (0.1, 0, 0), 0.01, **placed)
        return b.build()

    def test_a_site_as_parent_is_an_offset(self):
        turn = np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]])
        sited = self.pendulum(un.site("arm", (0.3, 0, 0.1), turn), position=(0.1, 0, 0))
        placed = self.pendulum("arm", position=np.array([0.3, 0.1, 0.1]), rotation=turn)
        state = sited.state([0.4, 0.3], [1.0, -2.0])
        a, b = (eqx.filter_jit(un.forward_dynamics)(s, state, jnp.zeros(2)).v for s in (sited, placed))
        assert_allclose(a, b, rtol=1e-12)

    def test_constraints_on_sites(self):
        """A wheel at an offset, given as a position or as a site."""

        def cart(wheel):
            b = un.Builder("cart")
            b.base("cart", role="free", group="SE2", mass=1.0, inertia=0.1)
            b.add(wheel)
            return b.build()

        a = cart(un.rows.Skate("w", "cart", (0.2, 0.1, 0)))
        b = cart(un.rows.Skate("w", un.site("cart", (0.2, 0.1, 0))))
        state = a.state(base_twist=(1.0, 0.3, 0, 0, 0, 0.7))
        found = [eqx.filter_jit(un.hybrid_dynamics)(s, state, 0.0) for s in (a, b)]
        assert_allclose(found[0].reactions, found[1].reactions, rtol=1e-12)

    def test_names_and_shapes(self, wrong_types):
        with pytest.raises(un.ModelError, match="a load is attached to 3; it must be the name of a body, or a site"):
            un.forces.Load(3, (0, 0, 1))
        with pytest.raises(un.ModelError, match="abscissa of a site on the rod 'arm'"):
            un.on("arm", un.laws.Constant([1.0, 2.0]))
        with pytest.raises(
            un.ModelError, match="a body is carried by the section of the rod 'beam'; its abscissa must be"
        ):
            b = un.Builder("x")
            b.base("wall")
            b.body("tip", "wall", un.Rod(name="beam", section=un.rods.Circle(0.02), E=1e6, density=1e3))
            b.body("m", un.on("beam", un.Found(0.2)), un.Fixed(), mass=1.0)
            b.build()


@pytest.mark.long
def test_gradient_by_the_place_of_a_load():
    """The abscissa is differentiable: tip deflection with respect to the load position, P a (2 L - a) / (2 EI)."""

    def tip(a):
        system = TestCarried().beam([un.forces.Load(un.on("beam", a), (0, 0, -3.0))], damping=5.0)
        # one implicit step from rest is enough: its displacement is linear in the effort
        end = un.simulate(system, system.state(), 1e-3, 1, integrator=un.integrators.Newmark())
        return un.kinematics.site_view(system, jax.tree.map(lambda x: x[-1], end), "tip").p[2]

    value = jax.jit(tip)
    slope = jax.jit(jax.jacfwd(tip))(0.5)
    assert_allclose(slope, (value(0.5001) - value(0.4999)) / 2e-4, rtol=1e-5)
