"""Equilibria as functions that JAX transforms: derivatives against closed forms and finite differences, and failures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula.numerics.programs import quickly_compiled

G = 9.81


def differences(value, x, h):
    """Central differences of value(x) by each entry of x."""
    x = np.asarray(x, dtype=float)
    steps = h * np.eye(len(x))
    return np.stack([(np.asarray(value(x + d)) - np.asarray(value(x - d))) / (2 * h) for d in steps], axis=-1)


class TestPendulum:
    """Under k (q - 1) + m g l sin q = 0."""

    x, l = jnp.array([3.0, 1.0]), 0.5

    def angle(self, x):
        b = un.Builder("pendulum")
        b.base("ground")
        joint = un.Revolute((0, 1, 0), stiffness=x[0], rest=1.0)
        b.body("arm", "ground", joint, mass=x[1], com=(0, 0, -self.l), inertia=0.01)
        return un.equilibrium(b.build()).state.q[0]

    def exact(self):
        k, m = self.x
        q = float(self.angle(self.x))
        assert abs(k * (q - 1) + m * G * self.l * np.sin(q)) < 1e-9
        K = k + m * G * self.l * np.cos(q)
        return q, np.array([-(q - 1) / K, -G * self.l * np.sin(q) / K])

    def test_step_by_step(self):
        """Outside compiled functions, by the same search as without derivatives."""
        assert_allclose(jax.grad(self.angle)(self.x), self.exact()[1], rtol=1e-9)

    def test_compiled(self):
        """Forward over reverse: the second derivatives are right, too."""
        value, slopes = quickly_compiled(jax.value_and_grad(self.angle))(self.x)
        wanted = self.exact()
        assert_allclose(value, wanted[0], rtol=1e-9)
        assert_allclose(slopes, wanted[1], rtol=1e-9)
        bent = quickly_compiled(jax.jacfwd(jax.grad(self.angle)))(self.x)
        k, m = self.x
        q, (by_k, _) = wanted
        K = k + m * G * self.l * np.cos(q)  # d2q / dk2, from differentiating K dq/dk = 1 - q
        assert_allclose(bent[0, 0], (-2 * by_k + m * G * self.l * np.sin(q) * by_k**2) / K, rtol=1e-8)
        assert_allclose(bent[0, 1], bent[1, 0], rtol=1e-8)

    def test_gradient_of_a_batch(self):
        """Outside compiled functions, too, where each part is compiled by itself."""
        factors = jnp.array([1.0, 1.0])
        batched = jax.grad(lambda x: jax.vmap(lambda f: self.angle(f * x))(factors).sum())(self.x)
        assert_allclose(batched, 2 * self.exact()[1], rtol=1e-8)


class TestRod:
    """A cantilever under a force at its tip."""

    length, diameter = 0.5, 0.01

    def tip(self, x):
        b = un.Builder("cantilever", gravity=(0, 0, 0))
        b.base("wall")
        section = un.rods.Circle(self.diameter)
        b.body("tip", "wall", un.Rod(name="rod", length=self.length, section=section, E=x[0], density=1000.0, modes=3))
        b.add(un.forces.Load("tip", x[1] * jnp.array([0, 0, 1.0])))
        system = b.build()
        return un.kinematics.site_view(system, un.equilibrium(system).state, "tip").p[2]

    def test_tip(self):
        """Under a small load P L^3 / 3 EI, proportional to P / E; under a large one, which is increased inside the compiled
        function, as without transformations and as finite differences."""
        E, P = 1e6, 0.02
        compiled = quickly_compiled(jax.value_and_grad(self.tip))
        value, slopes = compiled(jnp.array([E, 1e-4 * P]))
        assert_allclose(value, 1e-4 * P * self.length**3 / (3 * E * np.pi * (self.diameter / 2) ** 4 / 4), rtol=5e-3)
        assert_allclose(slopes, [-value / E, value / (1e-4 * P)], rtol=1e-6)
        x = np.array([E, P])
        value, slopes = compiled(jnp.asarray(x))
        assert value > 0.4 * self.length
        assert_allclose(value, self.tip(x), rtol=1e-8)
        wanted = differences(lambda s: compiled(jnp.asarray(s * x))[0], np.ones(2), 1e-5)
        assert_allclose(slopes * x, wanted, rtol=1e-6)


@pytest.mark.long
class TestLoop:
    """A linkage with a driven crank, springs and redundant rows: the closure holds a revolute joint of the plane."""

    x = jnp.array([0.3, 1.2, 2.0, 0.9])  # angle of the crank, length of the coupler, stiffness, mass of the rocker

    def system(self, x):
        b = un.Builder("linkage")
        b.base("ground")
        crank = un.Revolute((0, 1, 0), motion=un.laws.Constant(x[0]))
        b.body("crank", "ground", crank, mass=0.5, inertia=0.01)
        b.body(
            "coupler", "crank", un.Revolute((0, 1, 0)), mass=0.4, com=(0.4, 0, 0), inertia=0.01, position=(0, 0, 0.4)
        )
        b.body("slide", "ground", un.Prismatic((1, 0, 0), stiffness=50 * x[2]), mass=0.2, position=(1.1, 0, 0))
        joint = un.Revolute((0, 1, 0), stiffness=x[2])
        b.body("rocker", "slide", joint, mass=x[3], com=(0, 0, 0.4), inertia=0.01)
        end = x[1] * jnp.array([1.0, 0, 0])
        turn = (np.sqrt(0.5), -np.sqrt(0.5), 0, 0)  # the joint's axis is y
        b.add(un.rows.Closure("pin", "coupler", "rocker", "revolute", end, turn, (0, 0, 0.7), turn))
        return b.build()

    start = (0.3, 0.1, 0.0, 0.2)

    def found(self, x):
        system = self.system(x)
        at = un.equilibrium(system, system.state(position=jnp.array(self.start)))
        return jnp.concatenate([at.state.q, at.reactions])

    def test_by_numbers(self):
        """Coordinates and reactions of least norm, against finite differences of the search itself."""
        wanted = differences(self.found, self.x, 1e-5)
        found = quickly_compiled(jax.jacrev(self.found))(self.x)
        assert_allclose(found, wanted, atol=2e-8 * abs(wanted).max())
        assert_allclose(found[0], [1, 0, 0, 0], atol=1e-12)  # the crank follows its law
        assert abs(wanted[1:4]).min() > 1e-3


class TestFreeBase:
    def test_hung_on_a_pin(self):
        """A free plate hangs below its pin and moves with it."""

        def place(pin):
            b = un.Builder("plate", gravity=(0, -G, 0))
            b.base("plate", role="free", group="SE2", mass=1.0, inertia=0.1)
            b.add(un.rows.Anchor("pin", "plate", jnp.array([pin[0], pin[1], 0]), holds=("x", "y"), point=(0.3, 0.4, 0)))
            position = un.equilibrium(b.build()).state.base.position
            return position, position

        slopes, value = quickly_compiled(jax.jacrev(place, has_aux=True))(jnp.array([0.2, 0.1]))
        assert_allclose(value, [0.2, 0.1 - 0.5, 0], atol=1e-8)
        assert_allclose(slopes, np.eye(3)[:, :2], atol=1e-8)


class TestFailures:
    def slider(self, force, stiffness):
        b = un.Builder("slider", gravity=(0, 0, 0))
        b.base("ground")
        b.body("slider", "ground", un.Prismatic((1, 0, 0), stiffness=stiffness), mass=1.0)
        b.add(un.forces.Load("slider", force * jnp.array([1.0, 0, 0])))
        return un.equilibrium(b.build())

    def test_none(self):
        """A force that nothing balances: NaN in a compiled function, an error in others."""
        found = quickly_compiled(lambda f: self.slider(f, 0.0))(2.0)
        assert np.isnan(found.state.q).all()
        assert np.isnan(found.residual)
        with pytest.raises(un.UndulaError, match="no equilibrium of 'slider' was found"):
            jax.grad(lambda f: self.slider(f, 0.0).state.q[0])(2.0)

    def test_not_isolated(self):
        """Without a force, a slider without a spring is at rest anywhere: there is no derivative."""
        value, slope = quickly_compiled(jax.value_and_grad(lambda f: self.slider(f, 0.0).state.q[0]))(0.0)
        assert value == 0
        assert np.isnan(slope)

    def test_batch(self):
        forces = jnp.array([1.0, -2.0, 0.0])
        found = quickly_compiled(jax.vmap(lambda f: self.slider(f, 4.0)))(forces)
        assert_allclose(found.state.q[:, 0], forces / 4, atol=1e-12)
