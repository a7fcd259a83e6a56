"""A batch of snakeboard gaits on a GPU in one call: every instance has its own amplitudes and phase.

python benchmarks/gpu_gaits.py [--quick]     (part of make bench-gpu)
"""

import time

import undula as un  # first: sets options that JAX reads at start-up

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from record import options, write  # isort: skip

DT = 0.01


def displacement(gait, steps):
    """Position of the board after some steps of a gait (amplitudes of axles and rotor, phase between them)."""
    laws = [
        un.laws.Sinusoid(gait[1], 1.0, 0.0),
        un.laws.Sinusoid(-gait[0], 1.0, gait[2]),
        un.laws.Sinusoid(gait[0], 1.0, gait[2]),
    ]
    system = snakeboard(laws)
    start = un.State(system.base_pose, jnp.zeros(system.nv), jnp.zeros(6), jnp.zeros(system.nv))
    return un.simulate(system, start, DT, steps).base.position[-1, :2]


def snakeboard(laws):
    """A snakeboard with laws for rotor, front and rear axle."""
    b = un.Builder("snakeboard", gravity=(0, 0, 0))
    b.base("board", role="free", group="SE2", mass=1.0, inertia=0.03)
    b.body("rotor", "board", un.Revolute((0, 0, 1), motion=laws[0]), 0.5, inertia=0.02)
    b.body("front", "board", un.Revolute((0, 0, 1), motion=laws[1]), 0.1, inertia=0.001, position=(0.2, 0, 0))
    b.body("rear", "board", un.Revolute((0, 0, 1), motion=laws[2]), 0.1, inertia=0.001, position=(-0.2, 0, 0))
    b.add(un.rows.Skate("front_wheels", "front"))
    b.add(un.rows.Skate("rear_wheels", "rear"))
    return b.build()


if __name__ == "__main__":
    quick = options(__doc__).quick
    batch, steps = (4, 3) if quick else (100_000, 500)
    rng = np.random.default_rng(0)
    gaits = jnp.asarray(rng.uniform((0.1, 0.1, -1.5), (0.6, 1.0, 1.5), (batch, 3)))
    compiled = jax.jit(jax.vmap(lambda gait: displacement(gait, steps)))
    start = time.perf_counter()
    out = jax.block_until_ready(compiled(gaits))
    first = time.perf_counter() - start
    start = time.perf_counter()
    out = jax.block_until_ready(compiled(gaits))
    t = time.perf_counter() - start
    one = jax.jit(lambda gait: displacement(gait, steps))(gaits[0])
    print(f"{jax.devices()[0].device_kind}: {batch} gaits of {steps} steps in {t:.2f} s (first call {first:.1f} s)")
    print(
        f"{batch * steps / t:.3g} steps per second, {batch / t:.3g} gaits per second; agreement with a single run {abs(out[0] - one).max():.1e}"
    )
    write("gpu_gaits", dict(batch=batch, steps=steps, wall_s=t, per_s=batch * steps / t), quick)
