"""Force models of the library: springs, dampers, loads and fields along rods, added inertia, armatures, host programs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad, solve_ivp

import undula as un
from trees import random_inertia, random_state
from undula.numerics.programs import quickly_compiled

forward = eqx.filter_jit(un.forward_dynamics)


class TestSpringDamper:
    """Two bodies in space, joined by a spring with a damper: the distance is a damped oscillator."""

    k, c, rest, masses = 40.0, 0.6, 0.8, (1.0, 2.0)

    def system(self, **options):
        b = un.Builder("pair", gravity=(0, 0, 0))
        b.base("ground")
        for name, m in zip("ab", self.masses):
            b.body(name, "ground", un.Free(), mass=m, inertia=0.1)
        given = dict(stiffness=self.k, damping=self.c, rest=self.rest) | options
        ends = un.site("a", (0.1, 0, 0)), un.site("b", (-0.2, 0, 0))
        b.add(un.forces.SpringDamper(*ends, name="spring", **given))
        return b.build()

    def start(self, system, apart):
        return system.state({"b.x": apart + 0.3})

    @pytest.mark.parametrize(
        "method", [un.integrators.RungeKutta4(), un.integrators.ImplicitMidpoint(), un.integrators.Moreau(theta=0.5)]
    )
    def test_oscillates(self, method):
        system = self.system()
        run = un.run(system, self.start(system, 1.0), t_end=1.0, dt=1e-3, integrator=method)
        assert run.ok, run.message
        reduced = np.prod(self.masses) / sum(self.masses)
        decay, w0 = self.c / (2 * reduced), np.sqrt(self.k / reduced)
        w, t = np.sqrt(w0**2 - decay**2), run.data.time.values
        stretch = 0.2 * np.exp(-decay * t) * (np.cos(w * t) + decay / w * np.sin(w * t))
        rate = -0.2 * np.exp(-decay * t) * w0**2 / w * np.sin(w * t)
        error = 2e-3 if isinstance(method, un.integrators.Moreau) else 1e-5
        assert_allclose(run.data.spring_damper_length[:, 0], self.rest + stretch, atol=error)
        assert_allclose(run.data.spring_damper_tension[:, 0], self.k * stretch + self.c * rate, atol=100 * error)
        assert_allclose(run.data.energy_potential, self.k * stretch**2 / 2, atol=10 * error)
        assert_allclose(run.data.power_external, -self.c * rate**2, atol=10 * error)
        assert_allclose(run.data.momentum, 0, atol=1e-9)

    def test_a_cable_is_slack(self):
        system = self.system(pulls_only=True)
        near = un.run(system, self.start(system, 0.5), t_end=0.1, dt=1e-2)
        assert_allclose(near.data.spring_damper_tension, 0, atol=0)
        assert_allclose(near.data.position[-1], near.data.position[0], atol=0)

    def test_refusals(self):
        with pytest.raises(un.ModelError, match="stiffness of the spring between the body 'a' and the body 'b' = -1"):
            un.forces.SpringDamper("a", "b", stiffness=-1.0)


class TestAddedInertia:
    def tree(self, added=True, gravity=(0.5, -1.0, -9.0)):
        rng = np.random.default_rng(5)
        b = un.Builder("tree", gravity=gravity)
        b.base("b0", role="free", mass=1.0, com=(0.1, 0, 0.2), inertia=random_inertia(rng))
        joints = (
            un.Revolute((0, 0.6, 0.8)),
            un.Spherical(),
            un.Prismatic((1, 0, 0)),
            un.Universal((1, 0, 0), (0, 1, 0)),
        )
        for k, (joint, parent) in enumerate(zip(joints, ("b0", "b1", "b1", "b0")), start=1):
            b.body(f"b{k}", parent, joint, 0.7, (0, 0.1, 0.2), random_inertia(rng), (0.3, 0.1, -0.2))
        places = [un.site("b1", (0.1, 0.2, 0.3)), un.site("b3", (0, 0, 0.2), (0.6, 0.8, 0, 0)), un.site("b0")]
        matrices = [A @ A.T for A in rng.normal(size=(3, 6, 6))]
        if added:
            b.add(*(un.forces.AddedInertia(p, M) for p, M in zip(places, matrices)))
        return b.build(), places, matrices

    def test_a_tree_against_its_dense_matrix(self, rng):
        """M = sum of J^T M J with the Jacobians of bodies and sites; kinetic energy and momentum from these."""
        system, places, matrices = self.tree()
        bare = self.tree(added=False)[0]
        state = random_state(rng, system)

        @eqx.filter_jit
        def found(system, bare, state):
            J = [un.kinematics.site_jacobian(bare, state, p) for p in places]
            return un.mass_matrix(system, state), un.mass_matrix(bare, state), J, un.kinetic_energy(system, state)

        M, plain, J, kinetic = found(system, bare, state)
        whole = np.asarray(plain) + sum(np.asarray(j).T @ m @ np.asarray(j) for j, m in zip(J, matrices))
        assert_allclose(M, whole, atol=1e-10)
        u = np.asarray(state.velocity)
        assert_allclose(kinetic, u @ whole @ u / 2, rtol=1e-12)

    def test_recursions_agree_with_lagrange(self, rng):
        """Accelerations of the articulated recursion satisfy the inverse dynamics and, without gravity, conserve energy."""
        system, *_ = self.tree(gravity=(0, 0, 0))
        state = random_state(rng, system)
        tau = jnp.asarray(rng.normal(size=system.nv))
        a = forward(system, state, tau)
        needed = eqx.filter_jit(un.inverse_dynamics)(system, state, a)
        assert_allclose(needed.v, tau, atol=1e-9)
        assert_allclose(needed.base, 0, atol=1e-9)
        run = un.run(system, state, t_end=0.2, dt=1e-3)
        energy, momentum = run.data.energy_kinetic.values, run.data.momentum.values
        assert np.ptp(energy) < 1e-8 * energy[0]
        # a fluid at rest: momentum and energy are conserved, but the momentum in space is that of body and fluid
        assert_allclose(momentum - momentum[0], 0, atol=1e-6 * np.abs(momentum).max())

    def test_it_does_not_weigh(self):
        """A sphere in an ideal fluid of half its density, without buoyancy: it falls with g m / (m + m_added)."""
        b = un.Builder("sphere")
        b.base("sphere", role="free", mass=1.0, inertia=0.01)
        b.add(un.forces.AddedInertia("sphere", (0.25, 0.25, 0.25, 0, 0, 0)))
        system = b.build()
        assert_allclose(forward(system, system.state(), jnp.zeros(0)).base[2], -9.81 / 1.25, rtol=1e-14)
        assert_allclose(un.potential_energy(system, system.state(base_position=(0, 0, 1.0))), 9.81)
        assert_allclose(un.kinematics.centre_of_mass(system, system.state(base_position=(0, 0, 1.0))), [0, 0, 1.0])

    def test_connection(self, rng):
        """In a fluid the motion of the base from rest is the hydrodynamic connection: the total momentum stays zero."""
        system, *_ = self.tree(gravity=(0, 0, 0))
        state = random_state(rng, system)
        twist = un.geometry.resting_twist(system, state)
        assert_allclose(un.momentum(system, state.replace(base_twist=twist)), 0, atol=1e-10)

    def test_refusals(self):
        with pytest.raises(
            un.ModelError, match=r"added inertia on the body 'a' has the shape \(3,\); it must be \(6,\) or"
        ):
            un.forces.AddedInertia("a", (1, 2, 3))
        with pytest.raises(un.ModelError, match="is not symmetric"):
            un.forces.AddedInertia("a", np.triu(np.ones((6, 6))))


def test_armature():
    """A pendulum with a rotor behind a gear: (I + n^2 J) a = -m g l sin; and in a chain, against the dense matrix."""
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0), armature=0.7), mass=2.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    b.body("hand", "arm", un.Universal((1, 0, 0), (0, 1, 0), armature=(0.2, 0.0)), 1.0, (0.1, 0, 0), 0.05, (0, 0, -1.0))
    system = b.build()
    bare = system.replace(armature=np.zeros(3))
    state = system.state([0.4, 0.2, -0.3], [1.0, -0.5, 0.7])
    M, plain, h = (f(x, state) for f, x in ((un.mass_matrix, system), (un.mass_matrix, bare), (un.bias, system)))
    assert_allclose(M - plain, np.diag([0.7, 0.2, 0.0]), atol=1e-12)
    tau = np.array([0.3, -0.1, 0.2])
    assert_allclose(
        forward(system, state, jnp.asarray(tau)).v, np.linalg.solve(np.asarray(M), tau - np.asarray(h)), atol=1e-10
    )
    v = np.asarray(state.v)
    assert_allclose(un.kinetic_energy(system, state), v @ np.asarray(M) @ v / 2, rtol=1e-12)
    run = un.run(system, state, t_end=0.5, dt=1e-3)
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    assert np.ptp(energy) < 1e-8 * np.abs(energy).max()


class TestFields:
    """Loads, couples and stress-free strains along a rod, as functions of (X, t)."""

    EI, L = 2.0, 1.3

    def rod(self, *elements, modes=4, **options):
        b = un.Builder("rod", gravity=(0, 0, 0))
        b.base("root")
        given = dict(stiffness=(1, 1, 1, 1, 1, self.EI), inertia=(1, 1, 1, 0, 0, 0), strains=("Kz",), nodes=10, order=6)
        b.body("tip", "root", un.Rod(name="rod", length=self.L, modes=modes, **(given | options)))
        b.add(*elements)
        return b.build()

    def curvature(self, system, at, X):
        return float(quickly_compiled(un.kinematics.site_view)(system, at, un.on("rod", X)).xi[5])

    def test_muscle(self):
        """An internal couple c(X) is balanced by a curvature c / EI; a law of time scales it."""
        couple = lambda X, t: jnp.stack([0.0 * X, 0.0 * X, -(1 + t) * X * (self.L - X)])  # noqa: E731
        system = self.rod(un.forces.InternalWrench("rod", couple=couple))
        for t in (0.0, 0.7):
            at = un.equilibrium(system, t=t)
            for X in (0.2, 0.9):
                assert_allclose(self.curvature(system, at.state, X), (1 + t) * X * (self.L - X) / self.EI, atol=1e-9)

    def test_stress_free_strain(self):
        """A rod whose stress-free shape is a circle becomes one, without stress."""
        want = lambda X, t: jnp.zeros(6).at[5].set(2.0 * jnp.sin(t))  # noqa: E731
        system = self.rod(un.forces.StressFreeStrain("rod", want))
        at = un.equilibrium(system, t=0.5)
        assert_allclose(at.state.q, [2 * np.sin(0.5), 0, 0, 0], atol=1e-9)

    def test_line_load(self):
        """A small transverse load f(X): the moment is its double integral."""
        load = lambda X, t: jnp.stack([0.0 * X, 1e-5 * X**2, 0.0 * X])  # noqa: E731
        system = self.rod(un.forces.LineLoad("rod", load), modes=5)
        at = un.equilibrium(system)
        for X in (0.1, 0.6, 1.1):
            moment = quad(lambda s, X=X: 1e-5 * s**2 * (s - X), X, self.L)[0]
            assert_allclose(self.curvature(system, at.state, X), moment / self.EI, rtol=2e-3)

    def test_following_load(self):
        """A load per length across the rod, following its direction: the wrench at the root of a bent rod is its integral."""
        system = self.rod(un.forces.LineLoad("rod", (0, 0.3, 0), follows=True), modes=5)
        at = un.equilibrium(system)
        base = eqx.filter_jit(un.sample)(system, at.state, 0.0).base_wrench
        X = np.linspace(0, 1.3, 27)
        R = jax.jit(jax.vmap(lambda X: un.kinematics.site_view(system, at.state, un.on("rod", X)).R))(X)
        angle = np.arctan2(R[:, 1, 0], R[:, 0, 0])
        force = 0.3 * np.trapezoid(np.stack([-np.sin(angle), np.cos(angle)]), X)
        assert_allclose(base[:2], -force, rtol=2e-3)

    def test_section_inertia_is_any_matrix(self):
        """A rod in a fluid: its mass weighs, the fluid resists only sideways; the fall depends on its direction."""

        def fall(direction):
            b = un.Builder("rod", gravity=9.81 * np.asarray(direction, dtype=float))
            b.base("root", role="free", inertia=0.0, mass=1e-9)
            M = np.diag([0.5, 1.2, 1.2, 1e-3, 1e-3, 1e-3])
            b.body("tip", "root", un.Rod(inertia=M, mass=0.5, stiffness=np.ones(6) * 1e3, strains=("Kz",), modes=1))
            system = b.build()
            return np.asarray(forward(system, system.state(), jnp.zeros(1)).base)

        assert_allclose(fall((-1, 0, 0))[0], -9.81, rtol=1e-6)
        assert_allclose(fall((0, 0, -1))[2], -9.81 * 0.5 / 1.2, rtol=1e-6)

    def test_refusals(self):
        with pytest.raises(un.UndulaError, match="force of the load along 'rod' has the shape"):
            un.forces.LineLoad("rod", lambda X, t: jnp.zeros(2))


class TestHost:
    def cart(self, function):
        b = un.Builder("cart", gravity=(0, 0, 0))
        b.base("cart", role="free", group="R", mass=2.0)
        b.add(un.forces.HostForce(function, "cart", name="solver"))
        return b.build()

    def test_called_once_per_step(self):
        """An external solver without JAX: a spring, held constant over each step, by semi-implicit Euler."""
        seen = []

        def spring(t, p, R, twist):
            seen.append(float(t))
            assert p.shape == (1, 3) and R.shape == (1, 3, 3) and twist.shape == (1, 6)
            return np.concatenate([-8.0 * p[:, :1], np.zeros((1, 5))], axis=1)

        system = self.cart(spring)
        with pytest.warns(un.UndulaWarning, match="of the energy balance"):  # a force held over a step does other work
            run = un.run(
                system,
                system.state(base_position=(1.0, 0, 0)),
                t_end=0.5,
                dt=0.01,
                integrator=un.integrators.SemiImplicitEuler(),
                save_every=1,
            )
        x, v = 1.0, 0.0
        for k in range(50):
            assert_allclose(run.data.base_position[k, 0], x, atol=1e-12)
            v += 0.01 * (-8.0 * x / 2.0)
            x += 0.01 * v
        assert_allclose(sorted(set(np.round(seen, 9))), np.round(0.01 * np.arange(51), 9), atol=1e-9)
        assert_allclose(run.data.host_force_wrench[:, 0, 0], -8.0 * run.data.base_position[:, 0], atol=1e-12)

    def test_cannot_be_differentiated(self):
        system = self.cart(lambda t, p, R, twist: -p[0, 0] * np.eye(6)[:1])

        def end(x):
            return un.simulate(system, system.state(base_position=jnp.stack([x, 0.0, 0.0])), 0.01, 3).base.position[
                -1, 0
            ]

        with pytest.raises(un.UndulaError, match="a host force cannot be differentiated"):
            jax.grad(end)(1.0)

    @pytest.mark.parametrize(
        "value, words",
        [
            (lambda: np.zeros(3), "returned 3 numbers; it must return 1 times 6"),
            (lambda: np.full(6, np.inf), "its numbers must be finite"),
            (lambda: {}["licence"], "failed: "),
        ],
    )
    def test_errors_end_a_run_with_their_reason(self, value, words):
        """The run keeps what it had computed by then."""
        system = self.cart(lambda t, p, R, twist: np.zeros(6) if t < 0.045 else value())
        run = un.run(system, t_end=0.1, dt=0.01, save_every=1)
        assert run.status == "failed" and words in run.message and "at t = 0.05 s" in run.message
        assert_allclose(run.data.time[-1], 0.05, atol=1e-12)  # the state there is known, but not what follows
        with pytest.raises(Exception, match=words):  # outside a run there is nothing to keep
            un.simulate(system, system.state(), 0.01, 10).v.block_until_ready()


class TestRowsOff:
    """Rows that are switched off act as if they were absent, without recompilation."""

    def board(self, rows):
        b = un.Builder("board")
        b.base("board", role="free", group="SE2", mass=1.0, inertia=0.1)
        b.body("rotor", "board", un.Revolute((0, 0, 1), motion=un.laws.Sinusoid(0.5, 3.0)), 0.5, inertia=0.2)
        b.add(*(un.rows.Skate(n, "board", (x, 0, 0), heading=a) for n, x, a in rows))
        return b.build()

    def test_masked_is_absent(self):
        both, one = self.board([("front", 0.3, 0.2), ("rear", -0.3, 0.0)]), self.board([("rear", -0.3, 0.0)])
        masked = both.with_rows(off=("front",))
        state = both.state(base_twist=(0.7, 0.2, 0, 0, 0, 0.4))
        solve = eqx.filter_jit(un.hybrid_dynamics)
        a, b = solve(masked, state, 0.3), solve(one, state, 0.3)
        assert_allclose(a.acceleration.base, b.acceleration.base, atol=1e-12)
        assert_allclose(a.state.base_twist, b.state.base_twist, atol=1e-12)
        assert_allclose(a.reactions, [0.0, *b.reactions], atol=1e-12)
        assert int(a.rank) == 1
        again = solve(masked.with_rows(on=("front",)), state, 0.3)
        assert_allclose(again.acceleration.base, solve(both, state, 0.3).acceleration.base, atol=1e-12)
        with pytest.raises(
            un.UndulaError, match=r"there is no row 'side'; the rows that hold are front\.side, rear\.side"
        ):
            both.with_rows(off=("side",))

    def test_runs(self):
        both, one = self.board([("front", 0.3, 0.2), ("rear", -0.3, 0.0)]), self.board([("rear", -0.3, 0.0)])
        state = both.state(base_twist=(0.7, 0, 0, 0, 0, 0.0))
        a, b = (un.run(s, state, t_end=1.0, dt=0.01) for s in (both.with_rows(off=("front",)), one))
        assert_allclose(a.data.base_position, b.data.base_position, atol=1e-12)


def test_pendulum_in_wind_between_explicit_and_implicit_methods():
    """A stiff user-defined law on a moving site: implicit methods use its derivative and agree with scipy."""

    class Gust(un.ForceModel):
        c: jax.Array

        def wrench(self, at):
            (s,) = at.sites
            wind = s.R.T @ jnp.stack([3.0 * jnp.sin(at.t), jnp.zeros(()), jnp.zeros(())])
            return jnp.concatenate([self.c * (wind - s.V), jnp.zeros(3)])

    b = un.Builder("vane")
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0)), mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    b.add(Gust(jnp.asarray(4.0), sites=un.site("arm", (0, 0, -1.0))))
    system = b.build()
    I = 0.1 + 0.25

    def rate(t, y):
        # about +y, the tip (0, 0, -1) goes to -x
        push = 4.0 * (3.0 * np.sin(t) * -np.cos(y[0]) - y[1])
        return [y[1], (push - 9.81 * 0.5 * np.sin(y[0])) / I]

    exact = solve_ivp(rate, (0, 1.0), [0.4, 0.0], rtol=1e-10, atol=1e-12).y[:, -1]
    for method, dt, error in (
        (un.integrators.RungeKutta4(), 5e-3, 1e-7),
        (un.integrators.ImplicitMidpoint(), 5e-3, 2e-4),
        (un.integrators.Moreau(), 1e-3, 5e-3),
    ):
        run = un.run(system, system.state([0.4]), t_end=1.0, dt=dt, integrator=method)
        assert run.ok, run.message
        assert_allclose(run.data.position[-1], exact[:1], atol=error)
