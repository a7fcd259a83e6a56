"""Batches of the snake robot Aiko on a GPU: robot-steps a second, in one vmapped call.

    python benchmarks/gpu_contact.py [--float32] [--most=20] [batches...]

Each robot has its own heading and speed of gait's start; the solver has a fixed budget of iterations, `most`.
"""

import sys
import time

import undula as un  # first: it sets what JAX reads when it starts

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from undula import gallery  # isort: skip
from undula.integrate.base import Motion  # isort: skip
from undula.integrate.simulate import advance_steps  # isort: skip

BUDGET = next((int(x[7:]) for x in sys.argv if x.startswith("--most=")), 20)


def bench(name: str, batch: int, steps: int, dt: float) -> None:
    setup = gallery.load(name).setup()
    system, method = setup.system, un.Moreau(un.AcceleratedProx(most=BUDGET))
    start = setup.state

    def one(yaw, first):
        turn = jnp.stack([jnp.cos(yaw / 2), 0 * yaw, 0 * yaw, jnp.sin(yaw / 2)])
        state = un.State(type(start.base)(start.base.position, turn), start.q, start.base_twist, start.v)
        memory = method.begin(Motion.of(system), 0.0, state)
        return advance_steps(system, state, memory, first, steps, dt, integrator=method)

    yaws, firsts = jnp.linspace(0, 1, batch), jnp.arange(batch) % 1000
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(one)).lower(yaws, firsts).compile()
    made = time.perf_counter() - began
    best = np.inf
    for _ in range(2):
        began = time.perf_counter()
        end, memory = jax.block_until_ready(compiled(yaws, firsts))
        best = min(best, time.perf_counter() - began)
    worst = float(jnp.nanmax(memory.since.worst[:, 0]))
    print(
        f"{name}, {end.q.dtype}, batch {batch}: {batch * steps / best:.3g} robot-steps/s, "
        f"{1e6 * best / steps:.0f} us a step, compile {made:.0f} s, steps not solved {int(memory.since.unsolved.sum()) / batch / steps:.2%}, "
        f"worst residual {worst:.1e}, finite {bool(jnp.isfinite(end.q).all())}",
        flush=True,
    )


if __name__ == "__main__":
    print(jax.devices()[0].device_kind)
    if "--float32" in sys.argv:
        jax.config.update("jax_enable_x64", False)
    for batch in [int(x) for x in sys.argv[1:] if not x.startswith("-")] or [1000, 10_000, 100_000]:
        bench("aiko-sidewinding", batch, 200, 1 / 4000)
