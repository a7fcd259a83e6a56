"""Gradients: find the gait that turns a free-floating robot by 10 degrees per cycle.

python examples/04_gradient.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import undula as un

PERIOD, STEPS, GOAL = np.pi, 60, np.deg2rad(10)  # s, steps per cycle, rad


def robot(amplitude):
    """Three links whose joints go round a circle; `amplitude` [rad] may be traced."""
    link = dict(mass=1.0, com=(0.2, 0, 0), inertia=un.solids.cylinder_inertia(1.0, 0.05, 0.4, "x"))
    b = un.Builder("three-links", gravity=(0, 0, 0))
    b.base("head", role="free", **link)
    b.body("middle", "head", un.Revolute(name="j1"), position=(0.4, 0, 0), **link)
    b.body("tail", "middle", un.Revolute(name="j2"), position=(0.4, 0, 0), **link)
    b.drive(["j1", "j2"], un.laws.Sinusoid(amplitude * jnp.ones(2), 2.0, [0.0, np.pi / 2], [1.0, 1.0]))
    return b.build()


def turn(amplitude):
    """Rotation [rad] of the reference body after one cycle, by the dynamics."""
    system = robot(amplitude)
    state, _ = un.kinematics.driven_motion(system, system.state(), 0.0)
    start = un.State(state.base, state.q, un.geometry.resting_twist(system, state), state.v)
    end = un.simulate(system, start, PERIOD / STEPS, STEPS).base.quaternion[-1]
    return 2 * jnp.arctan2(end[3], end[0])


# One parameter: forward mode. For many parameters use `jax.value_and_grad`, whose cost does not depend on their number.
value_and_slope = jax.jit(lambda amplitude: jax.jvp(turn, (amplitude,), (1.0,)))

amplitude = 0.3
for _ in range(8):  # Newton's method on turn(amplitude) = GOAL
    found, slope = value_and_slope(amplitude)
    print(f"amplitude {amplitude:.8f} rad: turn {float(found):+.8f} rad, slope {float(slope):+.5f}")
    if abs(abs(found) - GOAL) < 1e-10:
        break
    amplitude += float((np.sign(found) * GOAL - found) / slope)

h = 1e-5
difference = (value_and_slope(amplitude + h)[0] - value_and_slope(amplitude - h)[0]) / (2 * h)
print(f"slope by finite differences: {float(difference):+.5f}")
