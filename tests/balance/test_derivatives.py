"""Derivatives of the public functions, forward and reverse, against central differences; batches against loops."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import undula as un
from trees import random_inertia
from undula.numerics.quick import quick_options


def make(driven: bool) -> un.System:
    rng = np.random.default_rng(3)
    b = un.Builder("sample", gravity=(0.5, -1.0, -9.0))
    b.base("b0", role="free", mass=1.2, com=(0.1, 0.2, 0.0), inertia=random_inertia(rng))
    wave = un.laws.Sinusoid(0.4, 2.0, 0.3) if driven else None
    b.body("b1", "b0", un.Revolute((0.6, 0, 0.8), damping=0.2, motion=wave), 0.8, (0, 0.1, 0.2), random_inertia(rng))
    b.body("b2", "b1", un.Spherical(stiffness=(1.0, 2.0, 3.0)), 0.7, (0.1, 0, 0), random_inertia(rng), (0.3, 0, 0.1))
    return b.build()


SYSTEM, HYBRID = make(False), make(True)
RNG = np.random.default_rng(7)
MOVING = SYSTEM.state(
    RNG.uniform(-1, 1, 4), RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=4), RNG.normal(size=6)
)
AT_ZERO = SYSTEM.state()  # identity quaternions, zero angles: where naive formulas divide by zero
DV = jnp.asarray(RNG.normal(size=4))
DETA = jnp.asarray(RNG.normal(size=6))

FUNCTIONS = {
    "inverse_dynamics": lambda s, x: un.inverse_dynamics(s, x, un.Acceleration(DETA, DV)),
    "forward_dynamics": lambda s, x: un.forward_dynamics(s, x, DV),
    "mass_matrix": un.mass_matrix,
    "bias": un.bias,
    "gravity_efforts": un.gravity_efforts,
    "locomotion": lambda s, x: (un.geometry.locomotion_inertia(s, x), un.geometry.locomotion_force(s, x, DV)),
    "kinematics": lambda s, x: (
        un.kinematics.body_twists(s, x), un.kinematics.body_accelerations(s, x, un.Acceleration(DETA, DV)),
        un.kinematics.centre_of_mass(s, x),
        un.momentum(s, x, "world"), un.momentum(s, x, "centre"), un.momentum(s, x, "base"),
        un.kinematics.body_poses(s, x), un.kinetic_energy(s, x), un.potential_energy(s, x),
    ),
    "jacobians": lambda s, x: (un.kinematics.body_jacobian(s, x, "b2"), un.kinematics.point_jacobian(s, x, "b1", jnp.ones(3))),
    "connection": lambda s, x: (un.geometry.connection(s, x), un.geometry.resting_twist(s, x)),
    "hybrid": lambda s, x: un.hybrid_dynamics(HYBRID.replace(mass=s.mass, com=s.com, inertia=s.inertia), x, 0.3)[1:],
}  # fmt: skip
PARAMETERS = ("mass", "com", "inertia", "joint_position", "axis")
OF_ELEMENTS = (("springs", "stiffness"), ("springs", "rest"), ("dampers", "damping"), ("gravity", "g"))


def flat_state(x):
    """The state as a vector, and back; quaternions are renormalised, so that every direction is allowed."""
    vector, back = ravel_pytree(x)

    def rebuild(vector):
        x = back(vector)
        quaternion = x.base.quaternion / jnp.linalg.norm(x.base.quaternion)
        ball = x.q[1:5] / jnp.linalg.norm(x.q[1:5])
        return un.State(un.Pose(x.base.position, quaternion), x.q.at[1:5].set(ball), x.base_twist, x.v)

    return vector, rebuild


def agree(f, points, directions):
    """Forward, reverse and central differences of f give the same numbers at every point, along every direction."""
    weights = jnp.asarray(np.random.default_rng(2).normal(size=jax.eval_shape(f, points[0]).shape))
    quick = quick_options()  # compiled once, run a few times

    @partial(jax.jit, compiler_options=quick)
    def derivatives(x, direction):
        return jax.jvp(f, (x,), (direction,))[1] @ weights, jax.grad(lambda x: f(x) @ weights)(x) @ direction

    value = jax.jit(lambda x: f(x) @ weights, compiler_options=quick)
    h = 1e-5
    for x in points:
        for d in directions:
            forward, reverse = derivatives(x, d)
            numeric = sum(c * value(x + k * h * d) for k, c in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / (12 * h)
            scale = 1 + abs(float(numeric)) + abs(float(value(x)))
            assert np.isfinite(forward) and np.isfinite(reverse)
            assert abs(forward - numeric) < 2e-8 * scale
            assert abs(reverse - forward) < 1e-10 * scale


# building blocks of the others; the rest is in the full suite
FOUNDATIONS = ("inverse_dynamics", "jacobians", "hybrid")


@pytest.mark.parametrize(
    "name", [n if n in FOUNDATIONS else pytest.param(n, marks=pytest.mark.long) for n in FUNCTIONS]
)
def test_derivatives_in_the_state_and_the_parameters(name):
    elements = [getattr(SYSTEM.element(name), key) for name, key in OF_ELEMENTS]
    parameters, numbers_of = ravel_pytree([*(getattr(SYSTEM, p) for p in PARAMETERS), *elements])
    moving, state_of = flat_state(MOVING)
    n = len(parameters)

    def f(x):
        numbers = numbers_of(x[:n])
        system = SYSTEM.replace(**dict(zip(PARAMETERS, numbers)))
        for (element, key), value in zip(OF_ELEMENTS, numbers[len(PARAMETERS) :]):
            system = system.replace_element(element, **{key: value})
        return ravel_pytree(FUNCTIONS[name](system, state_of(x[n:])))[0]

    direction = np.random.default_rng(1).normal(size=n + len(moving))
    in_state, in_parameters = direction * (np.arange(len(direction)) >= n), direction * (np.arange(len(direction)) < n)
    points = [jnp.concatenate([parameters, state]) for state in (moving, flat_state(AT_ZERO)[0])]
    agree(f, points, [jnp.asarray(in_state), jnp.asarray(in_parameters)])


@pytest.mark.long
def test_gradient_through_a_simulation():
    vector, rebuild = flat_state(MOVING)

    def f(x):
        system = HYBRID.replace(mass=x[:3])
        end = jax.tree.map(lambda a: a[-1], un.simulate(system, rebuild(x[3:]), 0.005, 20))
        return ravel_pytree(end)[0]

    x = jnp.concatenate([SYSTEM.mass, vector])
    agree(f, [x], [jnp.asarray(np.random.default_rng(3).normal(size=x.shape))])


@pytest.mark.long
def test_second_derivative_of_forward_dynamics():
    def f(m):
        return un.forward_dynamics(SYSTEM.replace(mass=SYSTEM.mass * m), MOVING, DV).v.sum()

    first = jax.jit(jax.grad(f))
    second = jax.jit(jax.grad(jax.grad(f)))(1.1)
    assert float(second) == pytest.approx(float(first(1.1001) - first(1.0999)) / 2e-4, rel=1e-6)


def test_batch_equals_loop_and_compiled_equals_eager():
    states = jax.vmap(lambda k: eqx.tree_at(lambda s: s.v, MOVING, k * MOVING.v))(jnp.arange(3.0))
    batched = jax.jit(jax.vmap(lambda s: un.forward_dynamics(SYSTEM, s, DV).v))(states)
    one = jax.jit(lambda s: un.forward_dynamics(SYSTEM, s, DV).v)
    for k in range(3):
        single = one(jax.tree.map(lambda a, k=k: a[k], states))
        np.testing.assert_allclose(batched[k], single, rtol=1e-12)
    np.testing.assert_allclose(un.inverse_dynamics(SYSTEM, MOVING, un.Acceleration(DETA, DV)).v,
                               jax.jit(FUNCTIONS["inverse_dynamics"])(SYSTEM, MOVING).v, rtol=1e-12)  # fmt: skip


def test_gradient_of_a_batch():
    """The gradient of a sum over a batch is the sum of gradients, also where some results are known, the same for all."""
    b = un.Builder("swing")
    b.base("ground")
    b.body(
        "rod", "ground", un.Revolute((0, 1, 0), motion=un.laws.Sinusoid(0.5, 3.0)), 1.0, (0, 0, -0.5), (0.1, 0.1, 0.01)
    )
    swing = b.build()
    times = np.array([0.1, 0.4])

    def effort(m, t):
        return un.hybrid_dynamics(swing.replace(mass=swing.mass * m), swing.state(), t).efforts[0]

    batched = jax.grad(lambda m: jax.vmap(lambda t: effort(m, t))(jnp.asarray(times)).sum())(1.0)
    # without damping the effort is I q'' + m g l sin q, of which the second term and m l^2 of I grow with the mass
    q, ddq = 0.5 * np.sin(3 * times), -4.5 * np.sin(3 * times)
    assert float(batched) == pytest.approx(float((0.25 * ddq + 9.81 * 0.5 * np.sin(q)).sum()), rel=1e-12)


@pytest.mark.parametrize(
    "name",
    ["inverse_dynamics", *(pytest.param(n, marks=pytest.mark.long) for n in ("mass_matrix", "forward_dynamics"))],
)
def test_lanes_equal_vmap(name):
    b = un.Builder("lanes")
    b.base("ground")
    b.body("a", "ground", un.Revolute((0, 0, 1)), 1.0, (0.1, 0, 0), 0.1)
    b.body("b", "a", un.Universal((1, 0, 0), (0, 1, 0)), 1.0, (0.1, 0, 0.2), 0.1, (0.3, 0, 0))
    b.body("c", "a", un.Prismatic((0, 1, 0)), 1.0, (0, 0, 0), 0.1, (0, 0.3, 0))
    system = b.build()
    x = jnp.asarray(RNG.normal(size=(3, 4, 5)))

    def f(x):
        state = un.State(system.base_pose, x[0], jnp.zeros(6), x[1])
        if name == "mass_matrix":
            return un.mass_matrix(system, state)
        if name == "forward_dynamics":
            return un.forward_dynamics(system, state, x[2]).v
        return un.inverse_dynamics(system, state, un.Acceleration(jnp.zeros(6), x[2])).v

    expected = jax.jit(jax.vmap(f, in_axes=-1, out_axes=-1))(x)
    np.testing.assert_allclose(jax.jit(un.lanes(f, fused=False))(x), expected, rtol=1e-11, atol=1e-12)


def test_lanes_sum_to_scalars():
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(jax.jit(un.lanes(lambda x: (x * x).sum(), fused=False))(x), (x * x).sum(0))


def test_lanes_refuse_what_they_cannot_do():
    with pytest.raises(NotImplementedError, match="sort"):
        un.lanes(jnp.sort, fused=False)(jnp.ones((3, 4)))
