"""Batches: a thousand double pendulums from a thousand initial states.

python examples/05_batch.py
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import undula as un

COUNT, DT, STEPS = 1000, 5e-3, 200

b = un.Builder("double-pendulum")
b.base("ground")
rod = dict(mass=1.0, com=(0, 0, -0.5), inertia=un.solids.cylinder_inertia(1.0, 0.02, 1.0))
b.body("upper", "ground", un.Revolute((0, 1, 0)), **rod)
b.body("lower", "upper", un.Revolute((0, 1, 0)), position=(0, 0, -1.0), **rod)
system = b.build()


def end(angles):
    """Angles [rad] after one second, from rest at `angles`."""
    return un.simulate(system, system.state(position=angles), DT, STEPS).q[-1]


starts = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, (COUNT, 2)))
ways = {
    "lax.map (a loop over runs: fastest on a CPU)": jax.jit(lambda x: jax.lax.map(end, x)),
    "vmap (all at once: for a GPU)": jax.jit(jax.vmap(end)),
}
results = {}
for name, function in ways.items():
    compiled = function.lower(starts).compile()
    started = time.perf_counter()
    results[name] = jax.block_until_ready(compiled(starts))
    seconds = time.perf_counter() - started
    print(f"{name}: {seconds:.2f} s, {seconds / COUNT / STEPS * 1e6:.2f} us per step of one pendulum")

one, other = results.values()
print(f"largest difference: {float(jnp.abs(one - other).max()):.1e} rad")
