"""Batches of the 11-link chain on a GPU: calls per second, and the share of the memory and arithmetic limits.

python benchmarks/gpu.py            on a machine with an NVIDIA GPU and undula on its path
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import undula as un
from models import chain

BYTES_PER_S, FLOPS_PER_S = 4.8e12, 34e12  # of an H200: HBM3e, and float64 without tensor cores
LINKS = 11
BATCHES = (1000, 10_000, 100_000, 1_000_000)
ENDS = (1000, 1_000_000)
# function -> batching -> batches; kernels of forward dynamics take minutes to compile, so only large batches
PLAN = {
    "inverse dynamics": {"vmap": ENDS, "lanes, XLA": (1_000_000,), "lanes, fused": BATCHES},
    "mass matrix": {"vmap": ENDS, "lanes, fused": BATCHES},
    "forward dynamics": {"vmap": ENDS, "lanes, fused": (100_000, 1_000_000)},
}
BATCHINGS = {
    "vmap": lambda f: jax.vmap(f, in_axes=-1, out_axes=-1),
    "lanes, XLA": lambda f: un.lanes(f, fused=False),
    "lanes, fused": lambda f: un.lanes(f, fused=True),
}


def functions(system):
    """The three functions of one instance: arrays (n,) of coordinates, velocities, accelerations or efforts."""

    def state(q, v):
        return un.State(system.base_pose, q, jnp.zeros(6), v)

    return {
        "inverse dynamics": lambda q, v, a: (
            un.inverse_dynamics(system, state(q, v), un.Acceleration(jnp.zeros(6), a)).v
        ),
        "mass matrix": lambda q, v, a: un.mass_matrix(system, state(q, v)),
        "forward dynamics": lambda q, v, a: un.forward_dynamics(system, state(q, v), a).v,
    }


def seconds(f, x, repeats=10):
    """Shortest mean time of a call [s]."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            out = f(*x)
        jax.block_until_ready(out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def main():
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, chain of {LINKS} links, float64")
    print(
        "memory and flops: share of the limits, from the bytes that must move and the scalar operations of an instance"
    )
    print(
        f"{'function':17s} {'batching':13s} {'batch':>8s} {'ns/instance':>12s} {'calls/s':>9s} {'memory':>7s} {'flops':>7s} compile"
    )
    rng = np.random.default_rng(0)
    for name, f in functions(chain(LINKS)).items():
        # one equation a scalar operation: the operations of an instance
        operations = len(jax.make_jaxpr(un.lanes(f, fused=False))(*(jnp.zeros((LINKS, 1)),) * 3).eqns)
        for batching, batches in PLAN[name].items():
            for batch in batches:
                x = tuple(jnp.asarray(rng.uniform(-1, 1, (LINKS, batch))) for _ in range(3))
                compiled = jax.jit(BATCHINGS[batching](f))
                start = time.perf_counter()
                out = jax.block_until_ready(compiled(*x))
                compile_s = time.perf_counter() - start
                t = seconds(compiled, x)
                moved = (sum(a.size for a in x) + out.size) * 8
                flops = operations * batch
                print(
                    f"{name:17s} {batching:13s} {batch:8d} {t / batch * 1e9:12.3f} {batch / t:9.3g} "
                    f"{moved / t / BYTES_PER_S:7.1%} {flops / t / FLOPS_PER_S:7.1%} {compile_s:5.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
