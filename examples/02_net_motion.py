"""Net motion: a free-floating robot of three links turns itself by going round a loop of shapes.

python examples/02_net_motion.py
"""

import jax
import numpy as np

import undula as un

LINK = dict(mass=1.0, com=(0.2, 0, 0), inertia=un.solids.cylinder_inertia(1.0, 0.05, 0.4, "x"))
PERIOD, STEPS = np.pi, 300

# The joints go round a circle in the plane of the two angles. It must not be centred at the straight shape: there, by
# symmetry, a loop turns the robot back and forth by equal amounts.
first, second = un.laws.Sinusoid(0.8, 2.0, 0.0, offset=1.0), un.laws.Sinusoid(0.8, 2.0, np.pi / 2, offset=1.0)
b = un.Builder("three-links", gravity=(0, 0, 0))
b.base("head", role="free", **LINK)
b.body("middle", "head", un.Revolute((0, 0, 1), motion=first), position=(0.4, 0, 0), **LINK)
b.body("tail", "middle", un.Revolute((0, 0, 1), motion=second), position=(0.4, 0, 0), **LINK)
system = b.build()


@jax.jit
def at_rest(system):
    """The initial state with zero momentum and the joints moving according to their laws."""
    state, _ = un.kinematics.driven_motion(system, system.state(), 0.0)
    return un.State(state.base, state.q, un.geometry.resting_twist(system, state), state.v)


# From rest the momentum stays zero, so the motion of the base is kinematic: the connection gives it from the shape alone.
poses = jax.jit(lambda s: un.geometry.reconstruct(s, un.Pose.identity(), PERIOD / STEPS, 4 * STEPS))(system)
headings = 2 * np.arctan2(poses.quaternion[:, 3], poses.quaternion[:, 0])
for k in range(5):
    print(f"after {k} cycles: heading {float(headings[k * STEPS]):+.6f} rad")

# The dynamics give the same motion, and the torques. They start from the twist that gives zero momentum.
run = un.run(system, at_rest(system), t_end=4 * PERIOD, dt=PERIOD / STEPS, save_every=STEPS)
w, _, _, z = run.data.base_quaternion.values.T
print(f"dynamics:       heading {2 * np.arctan2(z[-1], w[-1]):+.6f} rad")
print("torques at the end:", run.data.effort.values[-1].round(4), "N m")
