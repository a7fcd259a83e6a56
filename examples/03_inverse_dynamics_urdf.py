"""Inverse dynamics of a robot from its URDF file: the torques of a given motion.

python examples/03_inverse_dynamics_urdf.py ROBOT.urdf
"""

import sys

import jax
import jax.numpy as jnp

import undula as un

if len(sys.argv) != 2:
    sys.exit("usage: python 03_inverse_dynamics_urdf.py ROBOT.urdf")

system = un.load_urdf(sys.argv[1])
print(f"{system.name}: {len(system.body_names)} bodies, {system.nv} coordinates")


@jax.jit
def torques(system: un.System, t: float) -> jax.Array:
    """Efforts [N m or N] at time t [s], every coordinate following 0.3 sin(2 t)."""
    value, rate, gain = un.laws.Sinusoid(jnp.full(system.nv, 0.3), 2.0)(t)
    state = system.state(position=value, velocity=rate)
    return un.inverse_dynamics(system, state, un.Acceleration(jnp.zeros(6), gain)).v


# For joints with several coordinates (planar, floating) `position` is a chart and its rate is not the velocity;
# `Builder.drive` or `un.kinematics.driven_motion` convert both. Arms and legged robots have single-coordinate joints.
times = jnp.linspace(0.0, 3.0, 301)
found = jax.vmap(lambda t: torques(system, t))(times)
hold = jax.jit(un.gravity_efforts)(system, system.state())
print(f"{'coordinate':32s} {'held at zero':>14s} {'largest':>14s}")
for k, name in enumerate(system.coordinate_names):
    print(f"{name:32s} {float(hold[k]):14.4f} {float(jnp.abs(found[:, k]).max()):14.4f}")
