"""Batches of the snake robot Aiko on a GPU: robot-steps per second, in one vmapped call.

    python benchmarks/gpu_contact.py [--quick] [--float32]     (part of make bench-gpu)

Each robot has its own heading and initial phase of the gait; the solver has a fixed budget of iterations, `most`. With
`--float32` everything is in float32, with separate results.
"""

import time

import undula as un  # first: sets options that JAX reads at start-up

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from undula import gallery  # isort: skip
from record import options, write  # isort: skip


def bench(name: str, links: int, batch: int, steps: int, dt: float, most: int) -> dict:
    """Robot-steps per second of a batch, and the share of the steps that miss the tolerance."""
    setup = gallery.load(name).setup(n=links)
    system, method = setup.system, un.integrators.Moreau(un.contact.AcceleratedProx(max_iterations=most))
    start = setup.state

    def one(yaw, first):
        turn = jnp.stack([jnp.cos(yaw / 2), 0 * yaw, 0 * yaw, jnp.sin(yaw / 2)])
        state = start.replace(base=un.Pose(start.base.position, turn))
        return un.advance(system, state, dt, steps, first * dt, method)

    yaws, firsts = jnp.linspace(0, 1, batch), jnp.arange(batch) % 1000
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(one)).lower(yaws, firsts).compile()
    made = time.perf_counter() - began
    best = np.inf
    for _ in range(2):
        began = time.perf_counter()
        end, _, report = jax.block_until_ready(compiled(yaws, firsts))
        best = min(best, time.perf_counter() - began)
    worst = float(jnp.nanmax(report.residual))
    missed = int(report.unsolved.sum()) / batch / steps
    print(
        f"{name}, {end.q.dtype}, batch {batch}, {most} iterations at most: {batch * steps / best:.3g} robot-steps/s, "
        f"{1e6 * best / steps:.0f} us per step, compile {made:.0f} s, steps not solved {missed:.2%}, "
        f"worst residual {worst:.1e}, finite {bool(jnp.isfinite(end.q).all())}",
        flush=True,
    )
    return dict(
        batch=batch, most=most, per_s=batch * steps / best, step_ms=1e3 * best / steps, missed=missed, compile_s=made
    )


if __name__ == "__main__":
    chosen = options(__doc__, float32=dict(action="store_true", help="in float32"))
    print(jax.devices()[0].device_kind)
    if chosen.float32:
        jax.config.update("jax_enable_x64", False)
    links, steps, plan = 11, 200, [(1000, 20), (10_000, 20), (100_000, 20)]
    if not chosen.float32:
        plan.append((10_000, 200))
    if chosen.quick:
        links, steps, plan = 2, 2, [(3, 20), (3, 200)]
    found = [bench("aiko-sidewinding", links, batch, steps, 1 / 4000, most) for batch, most in plan]
    write("gpu_contact32" if chosen.float32 else "gpu_contact", dict(rows=found), chosen.quick)
