"""Contact: closed forms, the laws themselves, invariants, an independent solver."""

import functools
import json
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula import gallery
from undula.contact.solve import kernel
from undula.contact.solve.accelerated import accelerated
from undula.contact.solve.problem import Block, Problem
from undula.numerics import dense, kernels
from undula.numerics.quick import quick_options

G = 9.81


def final(system, state, dt, steps, tolerance=1e-5):
    """State and memory after some steps; numbers are arrays, so that changing them does not recompile."""
    method = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=tolerance))
    return _final(system, state, jnp.asarray(dt), jnp.asarray(steps), method)


def _advance(system, state, dt, steps, method):
    return un.advance(system, state, dt, steps, integrator=method)[:2]


def _quick(function):
    return eqx.filter_jit(function, compiler_options=quick_options())


_final = _quick(_advance)


def block(slope=0.0, law=None, gravity=G):
    """A cube of 1 kg and 0.2 m on a slope that descends along x."""
    b = un.Builder("block", gravity=(gravity * np.sin(slope), 0, -gravity * np.cos(slope)))
    b.base("block", role="free", mass=1.0, inertia=0.01)
    for k, (x, y) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        b.add(un.contact.Contact(f"corner{k}", "block", un.contact.Plane(), law, centre=(0.1 * x, 0.1 * y, -0.1)))
    return b.build()


def ball(law, surface=None, radius=0.1, gravity=G, **where):
    b = un.Builder("ball", gravity=(0, 0, -gravity))
    b.base("ball", role="free", mass=2.0, inertia=un.solids.sphere_inertia(2.0, radius))
    b.add(un.contact.Contact("ground", "ball", un.contact.Plane() if surface is None else surface, law, radius=radius))
    system = b.build()
    return system, system.state(**({"base_position": (0, 0, radius)} | where))


class TestBlock:
    @pytest.mark.parametrize("slope, mu, tolerance", [(0.19, 0.2, 1e-5), (0.4, 0.5, 1e-11)])
    def test_sticks_for_ever(self, slope, mu, tolerance):
        system = block(slope, un.contact.Coulomb(mu))
        end, _ = final(system, system.state(base_position=(0, 0, 0.1)), 1e-3, 10_000, tolerance)
        assert np.abs(end.base_twist).max() < 1e-12
        # the first steps, with poor initial guesses, are solved only to the solver's tolerance
        assert np.abs(np.asarray(end.base.position) - [0, 0, 0.1]).max() < tolerance

    @pytest.mark.parametrize("slope, mu", [(0.3, 0.2), (0.2, 0.0)])
    def test_slides(self, slope, mu):
        system = block(slope, un.contact.Coulomb(mu))
        end, memory = final(system, system.state(base_position=(0, 0, 0.1)), 1e-3, 1000)
        assert_allclose(end.base_twist[0], G * (np.sin(slope) - mu * np.cos(slope)), rtol=1e-9)
        assert_allclose(memory.forces[:4].sum(), G * np.cos(slope), rtol=1e-8)

    def test_stops(self):
        """It stops after v^2 / (2 mu g), and not before: first order in the step."""
        system = block(0.0, un.contact.Coulomb(0.3))
        errors = []
        for dt in (2e-3, 1e-3):
            start = system.state(base_position=(0, 0, 0.1), base_twist=(1.5, 0, 0, 0, 0, 0))
            end, _ = final(system, start, dt, round(1 / dt))
            errors.append(abs(end.base.position[0] - 1.5**2 / (2 * 0.3 * G)))
            assert np.abs(end.base_twist).max() < 1e-12
        assert errors[1] < 3e-6 and errors[1] < errors[0]

    def test_ellipse(self):
        """Sliding oblique to a direction of the ground: the force is the point of the ellipse with maximum dissipation."""
        law = un.contact.Coulomb(0.1, 0.5, along=(1, 0, 0), grounded=True)
        system = block(0.0, law)
        start = system.state(base_position=(0, 0, 0.1), base_twist=(30.0, 40.0, 0, 0, 0, 0))
        end, _ = final(system, start, 1e-4, 1)
        way = np.array([0.1**2 * 30, 0.5**2 * 40]) / np.hypot(0.1 * 30, 0.5 * 40)
        assert_allclose((np.asarray(end.base_twist)[:2] - [30, 40]) / 1e-4, -G * way, rtol=1e-4)

    def test_shares_its_load(self, rng):
        """Four feet on rigid ground: least-squares forces, linear in the foot positions, independent of the initial guess."""
        system = block(0.0, un.contact.Coulomb(0.3))
        start = system.state(base_position=(0, 0, 0.1), base_twist=(1.5, 0, 0, 0, 0, 0))
        method = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=1e-10))
        memory = method.init(system, 0.0, start)
        skewed = memory._replace(
            impulses=jnp.asarray(memory.impulses).at[:4].set(rng.uniform(0.5, 1.5, 4) * G * 1e-3 / 4)
        )
        # friction 0.3 m g acts 0.1 m below the centre: it shifts the load forward, over arms of 0.1 m
        exact = G / 4 * np.array([1.3, 1.3, 0.7, 0.7])
        for begun in (memory, skewed):
            _, last, _ = _quick(un.advance)(system, start, 1e-3, 20, 0.0, method, begun)
            assert_allclose(last.forces[:4], exact, rtol=1e-6)

    def test_restitution_zero(self):
        """A cube that falls flat stays where it lands."""
        system = block(0.0, un.contact.Coulomb(0.3))
        end, _ = final(system, system.state(base_position=(0, 0, 0.2)), 1e-3, 500)
        assert np.abs(end.base_twist).max() < 1e-12 and abs(end.base.position[2] - 0.1) < 1.5e-3


class TestBall:
    def test_bounces(self):
        """Fifty impacts against the closed form: those many steps apart agree to within a step, as errors do not accumulate."""
        e, dt = 0.9, 1e-4
        system, start = ball(un.contact.Coulomb(restitution=e), base_position=(0, 0, 1.1))
        heights = np.asarray(_fall(system, start, jnp.asarray(dt), 90_000))
        impacts = 1 + np.flatnonzero((np.diff(heights)[:-1] < 0) & (np.diff(heights)[1:] > 0))[:50]
        first = np.sqrt(2 / G)
        exact = first + 2 * first * np.cumsum(np.append(0, e ** np.arange(1, 50)))
        assert np.abs(impacts[:15] * dt - exact[:15]).max() < 4 * dt
        assert_allclose(impacts * dt, exact, atol=12 * dt)

    def test_slides_until_it_rolls(self):
        """5/7 of the speed, whatever the friction."""
        system, start = ball(un.contact.Coulomb(0.2), base_twist=(1.0, 0, 0, 0, 0, 0))
        end, _ = final(system, start, 1e-3, 1000)
        velocity = np.asarray(end.base.rotation) @ np.asarray(end.base_twist)[:3]
        assert_allclose(velocity, [5 / 7, 0, 0], atol=1e-6)
        assert_allclose(end.base_twist[4], 5 / 7 / 0.1, atol=1e-5)

    def test_class_while_it_flies_slides_and_rolls(self):
        """Contacts count in the class: one row while it slides, which ends at the slip's instant, then three."""
        mu, height, speed = 0.2, 0.05, 1.1
        system, start = ball(
            un.contact.Coulomb(mu), radius=0.1, base_position=(0, 0, 0.1 + height), base_twist=(speed, 0, 0, 0, 0, 0)
        )
        data = un.run(system, start, t_end=0.3, dt=1e-3, save_every=2).data
        lands = np.sqrt(2 * height / G)
        rolls = speed / (3.5 * mu * G)  # the impulse of the landing slows it as the friction would have in flight
        t = data.time.values
        legend = json.loads(data.attrs["class_legend"])
        words = ["rigid-body dynamics", "5 of 6", "3 of 6"]
        found = [next(k for k, x in enumerate(words) if x in legend[c]) for c in data.class_index.values]
        far = (np.abs(t - lands) > 3e-3) & (np.abs(t - rolls) > 3e-3)
        assert_allclose(np.array(found)[far], ((t > lands).astype(int) + (t > rolls))[far])
        assert_allclose(data.contact_slips.values[far, 0], ((t > lands) & (t < rolls))[far])

    def test_rolling_friction(self):
        """A rolling ball is decelerated by 5/7 of its coefficient times g."""
        system, start = ball(un.contact.Coulomb(0.5, rolling=0.03), base_twist=(1.0, 0, 0, 0, 10.0, 0))
        end, _ = final(system, start, 1e-3, 1000)
        assert_allclose(end.base_twist[4], (1 - 5 / 7 * 0.03 * G) / 0.1, rtol=1e-6)

    def test_spinning_friction(self):
        system, start = ball(un.contact.Coulomb(0.5, spinning=0.01), base_twist=(0, 0, 0, 0, 0, 20.0))
        end, _ = final(system, start, 1e-3, 200)
        assert_allclose(end.base_twist[5], 20 - 0.01 * 2 * G / 0.008 * 0.2, rtol=1e-9)  # I = 2/5 m r^2 = 0.008

    def test_surfaces(self):
        """At rest in a bowl, between posts and on another ball: position given by geometry, supported by normal forces."""
        bowl = un.contact.HeightField(lambda x, y: 0.5 * (x**2 + y**2))
        system, start = ball(un.contact.Coulomb(0.3), bowl, base_position=(0, 0, 0.1))
        end, memory = final(system, start, 1e-3, 200)
        assert_allclose(memory.forces[0], 2 * G, rtol=1e-9)
        posts = un.contact.Posts([(-0.5, 0), (0.5, 0)], 0.2)
        for surface, x in (
            (un.contact.Post((0.5, 0), 0.2), 0.2),
            (posts, 0.2),
            (un.contact.Sphere((0.6, 0, 0.1), 0.3), 0.2),
        ):
            system, start = ball(un.contact.Coulomb(0.0), surface, gravity=0.0, base_twist=(1.0, 0, 0, 0, 0, 0))
            end, _ = final(system, start, 1e-3, 600)
            assert_allclose(end.base.position[0], x, atol=1e-3)
            assert abs(end.base_twist[0]) < 1e-12

    @pytest.mark.long
    def test_rolls_in_a_bowl(self):
        """It stays on the curved ground, and the drift correction adds no energy."""
        radius = 1.0
        bowl = un.contact.HeightField(lambda x, y: radius - jnp.sqrt(radius**2 - x**2 - y**2))
        x = 0.3
        centre = (x, 0, radius - np.sqrt(0.9**2 - x**2))
        system, start = ball(un.contact.Coulomb(0.5), bowl, base_position=centre)
        assert abs(float(un.contact.contact_gaps(system, start)[0])) < 1e-12  # the centre is 0.1 m from the bowl
        assert_allclose(bowl.normal(jnp.asarray(centre)), (radius * np.array([0, 0, 1]) - centre) / 0.9, atol=1e-12)
        exact = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=1e-12))
        run = un.run(system, start, t_end=4.0, dt=1e-3, save_every=1, integrator=exact)
        assert run.data.contact_penetration.values.max() < 3 * G * 1e-6
        energy = (run.data.energy_kinetic + run.data.energy_potential).values
        assert np.diff(energy).max() < 2e-9 * energy[0]  # the work of the correction is computed to first order
        swing = energy[0] - 2 * G * 0.1
        assert energy[-1] - 2 * G * 0.1 > 0.99 * swing
        # a pendulum of length 0.9 m with 7/5 of the inertia
        t, x = run.data.time.values, run.data.base_position.values[:, 0]
        crossings = t[1:][np.diff(np.sign(x)) != 0]
        from scipy.special import ellipk

        period = 4 * np.sqrt(7 / 5 * 0.9 / G) * ellipk(np.sin(np.arcsin(0.3 / 0.9) / 2) ** 2)
        assert_allclose(np.diff(crossings), period / 2, rtol=5e-3)


@eqx.filter_jit
def _fall(system, state, dt, steps):
    method, prepared = un.integrators.Moreau(), un.prepare(system)

    def body(carry, k):
        new, memory, _ = method.step(prepared, k * dt, *carry, dt)
        return (new, memory), new.base.position[2]

    return jax.lax.scan(body, (state, method.init(system, 0.0, state)), jnp.arange(steps))[1]


def test_two_balls():
    """An elastic collision of bodies: speeds are exchanged, and a third of them with a heavy one (closed form)."""
    b = un.Builder("cradle", gravity=(0, 0, 0))
    b.base("ground")
    for name, mass in (("a", 1.0), ("b", 2.0)):
        b.body(name, "ground", un.Prismatic((1, 0, 0)), mass=mass, inertia=0.01)
    b.add(un.contact.Contact("hit", "a", "b", un.contact.Coulomb(restitution=1.0), radius=0.1, other_radius=0.1))
    system = b.build()
    end, _ = final(system, system.state({"a": 0.0, "b": 0.5}, {"a": 3.0, "b": 0.0}), 1e-3, 200, 1e-12)
    assert_allclose(end.v, [-1.0, 2.0], atol=1e-9)


class TestRoles:
    def test_driven(self):
        """A mass driven up and down on a body on the ground: the ground carries both, the drive carries the mass."""
        b = un.Builder("shaker")
        b.base("body", role="free", mass=3.0, inertia=0.1)
        for k, (x, y) in enumerate(((1, 0), (-1, 1), (-1, -1))):
            b.add(
                un.contact.Contact(
                    f"foot{k}", "body", un.contact.Plane(), un.contact.Coulomb(0.5), centre=(0.1 * x, 0.1 * y, 0)
                )
            )
        b.body("mass", "body", un.Prismatic((0, 0, 1), motion=un.laws.Sinusoid(0.05, 8.0)), mass=1.0, inertia=0.01)
        system = b.build()
        run = un.run(system, system.state(), t_end=0.5, dt=5e-4, save_every=20)
        t = run.data.time.values[1:] - 2.5e-4  # forces are means over a step, at its midpoint
        force = run.data.contact_force.values[1:, :, 2].sum(1)
        pull = -0.05 * 64 * np.sin(8 * t)
        assert_allclose(force, 4 * G + pull, atol=1e-4)
        assert_allclose(run.data.effort.values[1:, 0], G + pull, atol=1e-4)
        assert json.loads(run.data.attrs["surroundings"]) == [
            {"kind": "plane", "normal": [0, 0, 1], "point": [0, 0, 0]}
        ]

    def test_stiff_controller(self):
        """A controller far too stiff for the step: treated implicitly, it holds its arm; the effort is that of the weight."""
        b = un.Builder("arm")
        b.base("ground")
        b.body("arm", "ground", un.Revolute((0, -1, 0)), mass=1.0, com=(0.5, 0, 0), inertia=0.01)
        b.add(un.contact.Contact("hand", "arm", un.contact.Plane(point=(0, 0, -5)), centre=(1, 0, 0)))
        b.force("arm", un.forces.ProportionalDerivative(1e6, 10.0, 0.3))
        system = b.build()
        run = un.run(system, system.state({"arm": 0.3}), t_end=1.0, dt=1e-2)
        late, weight = run.data.isel(time=slice(-50, None)), 0.5 * G * np.cos(0.3)  # it oscillates from step to step
        assert_allclose(late.effort.mean(), weight, rtol=1e-3)
        assert_allclose(late.position.mean(), 0.3 - weight / 1e6, atol=1e-7)

    def test_constraint_beside_contact(self):
        """A block on a frictionless slope held by a constraint: the reaction is its weight along the slope."""
        b = un.Builder("held", gravity=(G * np.sin(0.3), 0, -G * np.cos(0.3)))
        b.base("block", role="free", mass=2.0, inertia=0.01)
        for k, (x, y) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
            b.add(
                un.contact.Contact(
                    f"corner{k}", "block", un.contact.Plane(), un.contact.Coulomb(0.1), centre=(0.1 * x, 0.1 * y, -0.1)
                )
            )
        b.add(un.rows.Closure("stop", "block", holds=("x",), other_position=(0, 0, 0)))
        system = b.build()
        run = un.run(system, system.state(base_position=(0, 0, 0.1)), t_end=0.1, dt=1e-3)
        total = run.data.reaction.values[-1, 0] + run.data.contact_force.values[-1, :, 0].sum()
        assert_allclose(total, -2 * G * np.sin(0.3), rtol=1e-9)
        assert np.abs(run.data.base_position.values[:, 0]).max() < 1e-12

    def test_rod_on_the_ground(self):
        """The tip of a beam pressed on the ground by a motion of its clamp: 3 EI d / L^3."""
        b = un.Builder("feeler", gravity=(0, 0, 0))
        b.base("ground")
        b.body(
            "hand",
            "ground",
            un.Prismatic((0, 0, 1), motion=un.laws.Quintic(0.0, -0.01, 0.0, 0.5)),
            mass=1.0,
            inertia=1.0,
        )
        made = dict(stiffness=(1, 1, 1, 2, 2, 2), inertia=(0.1, 0.1, 0.1, 0, 0, 0), damping=0.1)
        soft = un.Rod(length=1.0, strains=("Ky",), modes=3, nodes=5, **made)
        b.body("tip", "hand", soft)
        b.add(un.contact.Contact("touch", "tip", un.contact.Plane(), un.contact.Coulomb(0.0)))
        system = b.build()
        run = un.run(system, system.state(), t_end=3.0, dt=5e-3)
        assert_allclose(run.data.contact_force.values[-1, 0, 2], 3 * 2.0 * 0.01, rtol=2e-3)


class Weakened(un.contact.Coulomb):
    """A user-defined law whose projection depends on its numbers."""

    def project(self, impulse, normal):
        return super().project(impulse, normal * self.mu[1] * jnp.exp(-self.restitution))


class Sorted(un.contact.Coulomb):
    """A law that a kernel cannot handle."""

    def project(self, impulse, normal):
        return super().project(jnp.sort(impulse), normal)


class TestKernel:
    """The GPU kernel, interpreted, against the loop that it replaces."""

    def problems(self, rng, laws, counts, n, many=6):
        """(solve, numbers): a function of the numbers of one problem, and the numbers of a batch."""
        blocks, first = [], 0
        for law, count in zip(laws, counts):
            numbers, static = eqx.partition(law, eqx.is_array)
            numbers = jax.tree.map(lambda x, m=count: x * (1 + jnp.arange(m).reshape(m, *[1] * x.ndim) / 10), numbers)
            blocks.append(Block(eqx.combine(numbers, static), first, count))
            first += count * blocks[-1].rows
        A, J = rng.normal(size=(many, n, n + 5)), 0.6 * rng.normal(size=(many, n, first))
        right = np.concatenate([J, 10 * rng.normal(size=(many, n, 1))], axis=2)
        _, right = jax.vmap(dense.factor)(jnp.asarray(A @ A.swapaxes(1, 2)), jnp.asarray(right))
        closed = np.ones((many, first))
        for b in blocks:
            opened = rng.random((many, b.count)) < 0.2
            closed[:, b.first : b.first + b.count * b.rows] = np.tile(~opened, b.rows)
        closed[-1] = 0.0

        def solve(how, Z, w, offset, closed, guess):
            problem = Problem(Z, w, offset, closed, tuple(blocks))
            assert kernel.takes(problem)
            return how(problem, problem.metric(), guess, jnp.ones(()), 1e-10, 60)

        offset, guess = rng.normal(size=(2, many, first))
        return solve, [right[..., :-1], right[..., -1], *map(jnp.asarray, (offset, closed, guess))]

    @pytest.mark.parametrize(
        "laws, counts, n",
        [
            ((un.contact.Coulomb(0.5),), (5,), 20),
            ((un.contact.Coulomb(0.5, rolling=0.1, spinning=0.2),), (3,), 17),
            ((un.contact.Coulomb(0.5), Weakened(0.2, restitution=0.1)), (6, 3), 23),
            ((Weakened(0.5, restitution=0.3),), (1,), 6),
        ],
    )
    def test_equals_the_loop(self, rng, laws, counts, n):
        solve, numbers = self.problems(rng, laws, counts, n)
        in_kernel = functools.partial(kernel.solve, interpret=True)
        loop, found = (jax.jit(jax.vmap(functools.partial(solve, how)))(*numbers) for how in (accelerated, in_kernel))
        assert_allclose(found[0], loop[0], atol=1e-10 * np.abs(loop[0]).max())
        assert_allclose(found[1], loop[1], rtol=1e-8)
        assert (found[2] == loop[2]).all() and loop[2].max() > 10 and loop[2][-1] == 0
        assert_allclose(found[3], loop[3], rtol=1e-3, atol=1e-14)
        alone = jax.jit(functools.partial(solve, in_kernel))(*(x[0] for x in numbers))
        assert_allclose(alone[0], loop[0][0], atol=1e-10 * np.abs(loop[0]).max())

    @pytest.mark.parametrize("n, m", [(26, 67), (5, 1), (32, 40)])
    def test_factor(self, rng, n, m):
        A, B = rng.normal(size=(3, n, n + 17)), jnp.asarray(rng.normal(size=(3, n, m)))
        H = jnp.asarray(A @ A.swapaxes(1, 2))
        U, X = jax.jit(jax.vmap(functools.partial(kernels.factor, interpret=True)))(H, B)
        expected = jax.jit(jax.vmap(dense.factor))(H, B)
        assert_allclose(U, np.triu(expected[0]), atol=1e-12)
        assert_allclose(X, expected[1], atol=1e-11)
        few = B[..., :2]
        X = jax.jit(jax.vmap(functools.partial(kernels.back_substituted, interpret=True)))(U, few)
        assert_allclose(np.asarray(U) @ np.asarray(X), few, atol=1e-11)

    def test_refuses_what_it_cannot_do(self):
        def takes(law, n=6, count=3):
            law = jax.tree.map(lambda x: jnp.stack([x] * count), law)
            rows = count * (1 + law.rows)
            return kernel.takes(
                Problem(jnp.ones((n, rows)), jnp.ones(n), jnp.ones(rows), jnp.ones(rows), (Block(law, 0, count),))
            )

        assert takes(un.contact.Coulomb(0.5)) and not kernels.available()
        assert not takes(Sorted(0.5))
        assert not takes(un.contact.Coulomb(0.5), n=300, count=30)
        assert not takes(un.contact.Coulomb(0.5), n=0)


class TestSolvers:
    def problem(self, rng, contacts=4, n=20, rows=3, law=None):
        A = rng.normal(size=(n, n + 5))
        J = rng.normal(size=(rows * contacts, n))
        J[contacts:] *= 0.6  # coefficients of friction
        _, right = jax.jit(dense.factor)(A @ A.T, np.column_stack([J.T, rng.normal(size=n) * 10]))
        law = un.contact.Coulomb(0.5) if law is None else law
        laws = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * contacts), law)
        closed = jnp.ones(rows * contacts)
        return Problem(
            right[:, :-1],
            right[:, -1],
            jnp.asarray(rng.normal(size=rows * contacts)),
            closed,
            (Block(laws, 0, contacts),),
        )

    @pytest.mark.parametrize(
        "solver", [un.contact.AcceleratedProx(tolerance=1e-11), un.contact.GaussSeidel(tolerance=1e-12)]
    )
    def test_satisfies_the_laws(self, rng, solver):
        """Impulses and velocities against the laws as printed, not as a projection."""
        solve = eqx.filter_jit(lambda p: solver.solve(p, jnp.zeros(12), jnp.ones(())))
        stuck = slid = opened = missed = 0
        for _ in range(40):
            problem = self.problem(rng)
            found = solve(problem)
            if found.residual > solver.tolerance:  # random matrices may have no solution; this is reported
                missed += 1
                continue
            P = np.asarray(found.P).reshape(3, 4)
            Z = np.asarray(problem.Z)
            g = (Z.T @ (np.asarray(problem.w) + Z @ P.reshape(-1)) + np.asarray(problem.offset)).reshape(3, 4)
            assert P[0].min() >= 0 and g[0].min() > -1e-7
            assert np.abs(P[0] * g[0]).max() < 1e-7
            for k in range(4):
                friction, slip = P[1:, k], g[1:, k]
                assert np.hypot(*friction) <= P[0, k] * (1 + 1e-9) + 1e-12
                assert friction @ slip <= 1e-7  # friction never supplies power
                if P[0, k] == 0:
                    opened += 1
                elif np.hypot(*slip) > 1e-5:  # it opposes the slip, with its maximum value
                    slid += 1
                    assert_allclose(friction, -P[0, k] * slip / np.hypot(*slip), atol=1e-5 * P[0].max())
                else:
                    stuck += 1
        assert min(stuck, slid, opened) > 3 and missed < 10

    def test_agree(self, rng):
        problem = self.problem(rng)
        both = [
            s.solve(problem, jnp.zeros(12), jnp.ones(())).P
            for s in (un.contact.AcceleratedProx(tolerance=1e-12), un.contact.GaussSeidel(tolerance=1e-12))
        ]
        assert_allclose(*both, atol=1e-9 * np.abs(both[0]).max())

    @pytest.mark.parametrize("n", [23, 60, 260])
    def test_factor(self, rng, n):
        A = rng.normal(size=(n, n + 17))
        H, B = A @ A.T, rng.normal(size=(n, 7))
        U, X = (np.asarray(x) for x in jax.jit(dense.factor)(H, B))
        U = np.triu(U)
        assert_allclose(U.T @ U, H, atol=1e-10)
        for solve, matrix in ((dense.back_substituted, U), (dense.forward_substituted, U.T)):
            assert_allclose(matrix @ np.asarray(solve(jnp.asarray(U), jnp.asarray(B))), B, atol=1e-10)
        assert_allclose(U.T @ X, B, atol=1e-10)

    def test_no_library_is_called_in_the_loop_of_a_long_robot(self):
        """A call would prevent XLA from compiling the loop as a whole, and make a step several times slower."""
        setup = gallery.load("aiko-sidewinding").setup(n=50)  # 104 velocities
        steps = eqx.filter_jit(lambda *x: un.advance(*x, 1e-3, 10, integrator=un.integrators.Moreau()))
        assert "lapack" not in steps.lower(setup.system, setup.state).as_text().lower()


class TestAiko:
    """Directions of motion in document 003, and invariances. Five links suffice where only the same robot matters."""

    @pytest.mark.long
    def test_directions(self):
        moved = {}
        for name in ("aiko-lateral", "aiko-lateral-isotropic", "aiko-sidewinding"):
            setup = gallery.load(name).setup()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", un.UndulaWarning)  # the error of so long a step is a little above 1 %
                run = un.run(setup.system, setup.state, t_end=9.0, dt=1e-3, save_every=100)
            assert run.ok and run.error < 0.04
            x = run.data.body_position.sel(body="link6").values
            moved[name] = x[-1] - x[0]
            weight = run.data.contact_force.values[10:, :, 2].sum(1).mean()
            assert_allclose(weight, 7.5 * G, rtol=0.04)
            force = run.data.contact_force.values
            assert (force[..., 2] >= 0).all()
        assert moved["aiko-lateral"][0] > 0.5  # forward
        assert -0.3 < moved["aiko-lateral-isotropic"][0] < -0.03  # slowly backward
        assert moved["aiko-sidewinding"][1] > 0.5 > abs(moved["aiko-sidewinding"][0])

    def test_invariance(self):
        """A rotated, shifted and mirrored initial state gives a rotated, shifted and mirrored motion."""
        setup = gallery.load("aiko-sidewinding").setup(n=5)
        system = setup.system
        plain, _ = final(system, setup.state, 1e-3, 300, 1e-11)
        a = 0.7
        turned = system.state(base_position=(1.0, 2.0, 0.0525), base_quaternion=(np.cos(a / 2), 0, 0, np.sin(a / 2)))
        other, _ = final(system, turned, 1e-3, 300, 1e-11)
        R = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
        away = np.asarray(plain.base.position) - np.asarray(setup.state.base.position)
        assert_allclose(np.asarray(other.base.position) - [1.0, 2.0, 0.0525], R @ away, atol=1e-6)
        assert_allclose(other.q, plain.q, atol=1e-6)
        mirrored = gallery.load("aiko-sidewinding").setup(n=5, amplitude_h=-30 * np.pi / 180)
        third, _ = final(mirrored.system, mirrored.state, 1e-3, 300, 1e-11)
        sides = np.tile([-1, 1], 4)
        assert_allclose(third.q, sides * np.asarray(plain.q), atol=1e-6)
        assert_allclose(third.base.position, np.asarray(plain.base.position) * [1, -1, 1], atol=1e-6)


def test_energy_never_grows():
    """A dumb-bell tumbles down on its spheres, with restitution and friction; isotropic inertia makes free flight exact."""
    b = un.Builder("dumb-bell")
    b.base("body", role="free", mass=1.0, inertia=0.02)
    for k, x in enumerate((-0.2, 0.2)):
        b.add(
            un.contact.Contact(
                f"end{k}",
                "body",
                un.contact.Plane(),
                un.contact.Coulomb(0.4, restitution=0.5),
                centre=(x, 0, 0),
                radius=0.05,
            )
        )
    system = b.build()
    a = 0.8
    start = system.state(
        base_position=(0, 0, 0.6),
        base_quaternion=(np.cos(a / 2), 0, np.sin(a / 2), 0),
        base_twist=(0.5, 0.3, 0, 0, 1.0, 2.0),
    )
    exact = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=1e-12))
    run = un.run(system, start, t_end=2.0, dt=1e-3, save_every=1, integrator=exact)
    energy = (run.data.energy_kinetic + run.data.energy_potential).values
    # a contact closed at midstep stops a body still rising slower than g dt: m (g dt)^2 / 8 at most
    assert np.diff(energy).max() < (G * 1e-3) ** 2 / 8 and energy[-1] < 0.3 * energy[0]


class TestGradients:
    """Against finite differences: of the displacement with respect to the friction and amplitude of a gait."""

    exact = un.integrators.Moreau(un.contact.AcceleratedProx(tolerance=1e-13, max_iterations=20_000))
    at = jnp.asarray([0.3, 0.5])

    def displacement(self, system, start, steps, shares):
        """A function of (friction, amplitude); the controllers have the amplitudes `shares` times amplitude."""
        names = next(x for family, x in system.labels.elements if family == "proportional_derivative")

        def moved(x):
            mine = eqx.tree_at(
                lambda s: s.contacts[0].form.law.mu, system, jnp.full_like(system.contacts[0].form.law.mu, x[0])
            )
            for name, share in zip(names, shares):
                wave = eqx.tree_at(lambda law: law.amplitude, mine.element(name).reference, x[1] * share)
                mine = mine.replace_element(name, reference=wave)
            states = un.simulate(mine, start, 1e-3, steps, integrator=self.exact)
            return states.base.position[-1, 0], states

        return moved

    def differences(self, function, h=1e-6):
        return [(function(self.at.at[i].add(h))[0] - function(self.at.at[i].add(-h))[0]) / (2 * h) for i in (0, 1)]

    @pytest.mark.long
    def test_contacts_change(self):
        """Three links that each lift and set down a sphere, in reverse mode."""
        b = un.Builder("crawler")
        b.base("link1", role="free", mass=0.7, inertia=1e-3)
        for i in (2, 3):
            where = dict(position=(-0.06 if i == 2 else -0.12, 0, 0), com=(-0.06, 0, 0))
            b.body(f"link{i}", f"link{i - 1}", un.Universal((0, 0, 1), (0, -1, 0)), mass=0.7, inertia=1e-3, **where)
        for i in (1, 2, 3):
            b.add(
                un.contact.Contact(
                    f"foot{i}",
                    f"link{i}",
                    un.contact.Plane(),
                    un.contact.Coulomb(0.3),
                    centre=(0 if i == 1 else -0.06, 0, 0),
                    radius=0.05,
                )
            )
        for axis, size, phase in (("first", 0.5, 0.0), ("second", 0.3, 1.5)):
            law = un.forces.ProportionalDerivative(40.0, 0.2, un.laws.TravellingWave(2, size, 12.0, 0.9, phase))
            b.force([f"link{i}.{axis}" for i in (2, 3)], law)
        system = b.build()
        start = system.state(base_position=(0, 0, 0.06))
        moved = self.displacement(system, start, 300, (1.0, 0.6))
        (value, states), slope = _quick(jax.value_and_grad(moved, has_aux=True))(self.at)
        closed = np.asarray(jax.vmap(lambda s: un.contact.contact_gaps(system, s))(states)) < 1e-5
        assert (np.diff(closed.astype(int), axis=0) != 0).sum() > 4 and 0.1 < closed.mean() < 0.9
        assert abs(value) > 1e-3
        assert_allclose(slope, self.differences(_quick(moved)), rtol=1e-5)

    @pytest.mark.long
    def test_instant_of_an_impact(self):
        """Height after a bounce and its derivative with respect to the initial height, which shifts the impact: closed form."""
        t, dt = 0.35, 2.5e-4

        @jax.jit
        @jax.value_and_grad
        def found(h, system, start):
            base = type(start.base)(start.base.position.at[2].add(h), start.base.quaternion)
            end = un.simulate(system, un.State(base, start.q, start.base_twist, start.v), dt, round(t / dt))
            return end.base.position[-1, 2]

        @jax.value_and_grad
        def exact(h, e):
            hit = jnp.sqrt(2 * h / G)
            return 0.1 + e * G * hit * (t - hit) - G * (t - hit) ** 2 / 2

        for e in (0.8, 0.5):
            (height, slope), expected = found(0.2, *ball(un.contact.Coulomb(0.3, restitution=e))), exact(0.2, e)
            assert_allclose(height, expected[0], atol=4e-6)
            assert_allclose(slope, expected[1], rtol=0.02)  # without the shift of the impact it would be 1

    @pytest.mark.long
    def test_shared_load(self):
        """Six spheres of three links on the ground, where four would suffice: the sharing rule decides."""
        setup = gallery.load("aiko-lateral-isotropic").setup(n=3, rate_h=4.0)
        moved = self.displacement(setup.system, setup.state, 100, (1.0, 0.0))
        slope = _quick(jax.jacfwd(lambda x: moved(x)[0]))(self.at)
        assert_allclose(slope, self.differences(_quick(moved)), rtol=1e-2)


class TestRefusals:
    @pytest.mark.parametrize(
        "make, words",
        [
            (lambda: un.contact.Coulomb(-0.1), "mu = -0.1; it must be at least 0"),
            (lambda: un.contact.Coulomb(0.1, restitution=1.5), "restitution = 1.5; it must be between 0 and 1"),
            (lambda: un.contact.Coulomb(0.1, across=0.5), "across = 0.5 needs a direction"),
            (
                lambda: un.contact.Coulomb(0.1, stribeck=(1.5, 0.0)),
                "stribeck = .1.5, 0.0.; its factor must be at least 0",
            ),
            (
                lambda: un.rows.Viscous([1.0, -2.0]),
                "coefficient of a viscous slip law = .1.0, -2.0.; it must be at least 0",
            ),
            (
                lambda: un.rows.RegularisedCoulomb(-0.3, 10.0),
                "friction of a Coulomb slip law = -0.3; it must be positive",
            ),
            (lambda: un.contact.Post((0, 0), -1.0), "radius of the post = -1.0 m; it must be positive"),
            (lambda: un.contact.Posts([], 0.1), "places of the posts = .*; it must be one"),
            (lambda: un.contact.Posts([(0, 0)], [0.1, 0.2]), "radii of the posts: 2 were given; there are 1 posts"),
            (
                lambda: un.contact.Plane(normal=(0, 0, 0)),
                "length of the normal of the plane = 0.0; it must be positive",
            ),
            (
                lambda: un.integrators.Moreau(theta=0.2),
                "theta = 0.2 is not allowed; it must be a finite number between 0.5 and 1",
            ),
        ],
    )
    def test_values(self, make, words):
        with pytest.raises(un.UndulaError, match=words):
            make()

    def test_traced_numbers(self):
        """A compiled motion with an invalid number is NaN, not the motion for the absolute value."""
        system = block(0.3, un.contact.Coulomb(0.35))
        start = system.state(base_position=(0, 0, 0.1))

        def slid(**numbers):
            keys = tuple(numbers)
            law = system.contacts[0].form.law
            changed = [jnp.full_like(getattr(law, key), numbers[key]) for key in keys]
            other = eqx.tree_at(lambda s: [getattr(s.contacts[0].form.law, key) for key in keys], system, changed)
            return other, float(final(other, start, 1e-3, 10)[0].base.position[0])

        assert np.isfinite(slid(mu=0.1)[1]) and np.isfinite(slid(restitution=1.0)[1])
        assert np.isnan(slid(mu=-0.35)[1])
        assert np.isnan(slid(restitution=1.1)[1])
        with pytest.raises(un.UndulaError, match="law of the contact 'corner0' has a number that is not allowed"):
            un.run(slid(mu=-0.35)[0], start, t_end=0.1, dt=1e-3)

    def test_traced_numbers_of_laws(self):
        """The same for all numbers of the laws, and for section sizes, whose powers would lose a sign."""
        given = dict(mu=0.3, rolling=0.1, spinning=0.1, restitution=0.5, stribeck=(1.2, 0.1))
        wrong = dict(mu=-0.3, rolling=-0.1, spinning=-0.1, restitution=-0.5, stribeck=(1.2, -0.1))

        @jax.jit
        def rows(**numbers):
            return un.contact.Coulomb(**numbers).directions(jnp.array([0.0, 0, 1]), jnp.eye(3), 0.1, jnp.ones(3))

        assert np.all(np.isfinite(rows(**given)))
        for key in wrong:
            assert np.isnan(rows(**(given | {key: wrong[key]}))).any()
        slips = jax.jit(
            lambda c, f: (un.rows.Viscous(c).force(jnp.ones(1)), un.rows.RegularisedCoulomb(f, 10.0).force(jnp.ones(1)))
        )
        assert_allclose(np.concatenate(slips(2.0, 0.3)), [-2, -3])
        assert np.all(np.isnan(np.concatenate(slips(-2.0, -0.3))))
        areas = jax.jit(
            lambda d, w: (un.rods.Circle(d).area, un.rods.Annulus(0.1, d).area, un.rods.Rectangle(w, w).area)
        )
        assert_allclose(areas(0.05, 0.2), [np.pi * 0.05**2 / 4, np.pi * (0.1**2 - 0.05**2) / 4, 0.04])
        assert np.all(np.isnan(areas(-0.05, -0.2)))

    def test_names(self):
        b = un.Builder("x")
        b.base("body", role="free", mass=1.0, inertia=0.1)
        with pytest.raises(un.ModelError, match="radius of the contact 'c' = -1 m; it must be at least 0"):
            b.add(un.contact.Contact("c", "body", un.contact.Plane(), radius=-1.0))
        b.add(un.contact.Contact("c", "boby", un.contact.Plane()))
        with pytest.raises(
            un.ModelError, match="the contact 'c' is on the body 'boby', which does not exist; the bodies are body"
        ):
            b.build()

    def test_penetration(self):
        system = block()
        deep = system.state(base_position=(0, 0, 0.09))
        with pytest.raises(un.UndulaError, match=r"the contact 'corner0' starts 0\.01 m deep"):
            un.run(system, deep, t_end=0.1, dt=1e-3)
        free = un.contact.separated(system, deep)
        assert_allclose(un.contact.contact_gaps(system, free), 0, atol=1e-9)

    def test_far_inside(self):
        """A chain that overlaps posts is bent around them, by feasible angles."""
        setup = gallery.load("aiko-obstacles").setup(n=8, post_shift=-0.2)
        moved = setup.state(setup.system)
        assert_allclose(np.minimum(un.contact.contact_gaps(setup.system, moved), 0), 0, atol=1e-9)
        assert np.abs(np.asarray(moved.q)).max() < np.pi

    def test_method(self):
        system = block()
        with pytest.raises(
            un.UndulaError, match="RungeKutta4 cannot integrate 'block', which has contacts; use Moreau"
        ):
            un.run(
                system,
                system.state(base_position=(0, 0, 0.2)),
                t_end=0.1,
                dt=1e-3,
                integrator=un.integrators.RungeKutta4(),
            )
