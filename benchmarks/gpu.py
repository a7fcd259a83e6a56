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


def functions(system):
    """The three functions of arrays (n, batch): joints last but one, instances last, so that neighbours are neighbours."""

    def state(q, v):
        return un.State(system.base_pose, q, jnp.zeros(6), v)

    one = {
        "inverse dynamics": lambda q, v, a: (
            un.inverse_dynamics(system, state(q, v), un.Acceleration(jnp.zeros(6), a)).v
        ),
        "mass matrix": lambda q, v, a: un.mass_matrix(system, state(q, v)),
        "forward dynamics": lambda q, v, a: un.forward_dynamics(system, state(q, v), a).v,
    }
    return {name: jax.vmap(f, in_axes=-1, out_axes=-1) for name, f in one.items()}


def seconds(f, x, repeats=10):
    jax.block_until_ready(f(*x))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            out = f(*x)
        jax.block_until_ready(out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def main():
    device = jax.devices()[0]
    print(f"{device.device_kind}, JAX {jax.__version__}, chain of {LINKS} links, float64")
    system = chain(LINKS)
    rng = np.random.default_rng(0)
    print(
        f"{'function':18s} {'batch':>8s} {'us/call':>10s} {'ns/instance':>12s} {'calls/s':>10s} {'memory':>8s} {'flops':>8s} {'compile':>8s}"
    )
    for name, f in functions(system).items():
        compiled = jax.jit(f)
        one = jax.jit(f).lower(*(jnp.zeros((LINKS, 1)),) * 3).compile().cost_analysis() or {}
        for batch in (1000, 10_000, 100_000, 1_000_000):
            x = tuple(jnp.asarray(rng.uniform(-1, 1, (LINKS, batch))) for _ in range(3))
            start = time.perf_counter()
            out = jax.block_until_ready(compiled(*x))
            compile_s = time.perf_counter() - start
            t = seconds(compiled, x)
            moved = (sum(a.size for a in x) + out.size) * 8
            print(
                f"{name:18s} {batch:8d} {t * 1e6:10.1f} {t / batch * 1e9:12.3f} {batch / t:10.3g} "
                f"{moved / t / BYTES_PER_S:8.1%} {one.get('flops', 0) * batch / t / FLOPS_PER_S:8.1%} {compile_s:7.1f}s",
                flush=True,
            )


if __name__ == "__main__":
    main()
