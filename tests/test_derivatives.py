"""Derivatives of the public functions, forward and reverse, against central differences; batches against loops."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import undula as un
from trees import random_inertia
from undula.dynamics.kinematics import observe


def make(driven: bool) -> un.System:
    rng = np.random.default_rng(3)
    b = un.Builder("sample", gravity=(0.5, -1.0, -9.0))
    b.base("b0", role="free", mass=1.2, com=(0.1, 0.2, 0.0), inertia=random_inertia(rng))
    wave = un.Sinusoid(0.4, 2.0, 0.3) if driven else None
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
    "locomotion": lambda s, x: (un.locomotion_inertia(s, x), un.locomotion_force(s, x, DV)),
    "kinematics": lambda s, x: (
        un.body_twists(s, x), un.body_accelerations(s, x, un.Acceleration(DETA, DV)), un.centre_of_mass(s, x),
        un.momentum(s, x, "world"), un.momentum(s, x, "centre"), un.momentum(s, x, "base"), observe(s, x),
    ),
    "jacobians": lambda s, x: (un.body_jacobian(s, x, "b2"), un.point_jacobian(s, x, "b1", jnp.ones(3))),
    "connection": lambda s, x: (un.connection(s, x.q), un.resting_twist(s, x)),
    "hybrid": lambda s, x: un.hybrid_dynamics(HYBRID.replace(mass=s.mass, com=s.com, inertia=s.inertia), 0.3, x)[1:],
}  # fmt: skip


def flat_state(x):
    """The state as a vector, and back; quaternions are made unit again, so that every direction is allowed."""
    vector, back = ravel_pytree(x)

    def rebuild(vector):
        x = back(vector)
        quaternion = x.base.quaternion / jnp.linalg.norm(x.base.quaternion)
        ball = x.q[1:5] / jnp.linalg.norm(x.q[1:5])
        return un.State(un.Pose(x.base.position, quaternion), x.q.at[1:5].set(ball), x.base_twist, x.v)

    return vector, rebuild


def agree(f, x, seed):
    """Forward, reverse and central differences of f along one direction give the same number."""
    rng = np.random.default_rng(seed)
    direction = jnp.asarray(rng.normal(size=x.shape))
    weights = jnp.asarray(rng.normal(size=jax.eval_shape(f, x).shape))
    quick = {"xla_backend_optimization_level": 0}  # compiled once, run a few times

    @partial(jax.jit, compiler_options=quick)
    def derivatives(x):
        forward = jax.jvp(f, (x,), (direction,))[1] @ weights
        return forward, jax.grad(lambda x: f(x) @ weights)(x) @ direction

    value = jax.jit(lambda x: f(x) @ weights, compiler_options=quick)
    forward, reverse = derivatives(x)
    h = 1e-5
    numeric = sum(c * value(x + k * h * direction) for k, c in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / (12 * h)
    scale = 1 + abs(float(numeric)) + abs(float(value(x)))
    assert np.isfinite(forward) and np.isfinite(reverse)
    assert abs(forward - numeric) < 2e-8 * scale
    assert abs(reverse - forward) < 1e-10 * scale


@pytest.mark.parametrize("where", ["moving", "at zero"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_in_the_state(name, where):
    vector, rebuild = flat_state(MOVING if where == "moving" else AT_ZERO)
    agree(lambda v: ravel_pytree(FUNCTIONS[name](SYSTEM, rebuild(v)))[0], vector, 1)
