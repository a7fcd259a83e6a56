"""Batches of the 11-link chain on a GPU: calls per second, and the share of the memory and arithmetic limits.

    python benchmarks/gpu.py [--quick] [--only WORD]     (part of make bench-gpu)

Needs an NVIDIA GPU and undula on the path. `--only` measures the functions whose names contain a word, and writes
nothing.
"""

import time

import undula as un  # first: sets options that JAX reads at start-up

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from models import chain  # isort: skip
from record import options, write  # isort: skip

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
    """Shortest mean time per call [s]."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            out = f(*x)
        jax.block_until_ready(out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def main():
    chosen = options(__doc__, only=dict(default="", metavar="WORD", help="only functions whose name contains it"))
    links = 2 if chosen.quick else LINKS
    gpu = jax.default_backend() == "gpu"
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, chain of {links} links, float64")
    print(
        "memory and flops: share of the limits, from the bytes that must move and the scalar operations of an instance"
    )
    print(
        f"{'function':17s} {'batching':13s} {'batch':>8s} {'ns/instance':>12s} {'calls/s':>9s} {'memory':>7s} {'flops':>7s} compile"
    )
    rng, found = np.random.default_rng(0), []
    for name, f in functions(chain(links)).items():
        if chosen.only not in name:
            continue
        # one equation per scalar operation: the operation count of an instance
        operations = len(jax.make_jaxpr(un.lanes(f, fused=False))(*(jnp.zeros((links, 1)),) * 3).eqns)
        for batching, batches in PLAN[name].items():
            if batching == "lanes, fused" and not gpu:
                print(f"{name:17s} {batching:13s} needs a GPU")
                continue
            for batch in (100,) if chosen.quick else batches:
                x = tuple(jnp.asarray(rng.uniform(-1, 1, (links, batch))) for _ in range(3))
                compiled = jax.jit(BATCHINGS[batching](f))
                start = time.perf_counter()
                out = jax.block_until_ready(compiled(*x))
                compile_s = time.perf_counter() - start
                t = seconds(compiled, x)
                moved = (sum(a.size for a in x) + out.size) * 8
                row = dict(function=name, batching=batching, batch=batch, per_s=batch / t, compile_s=compile_s)
                row |= dict(memory=moved / t / BYTES_PER_S, flops=operations * batch / t / FLOPS_PER_S)
                found.append(row)
                print(
                    f"{name:17s} {batching:13s} {batch:8d} {t / batch * 1e9:12.3f} {row['per_s']:9.3g} "
                    f"{row['memory']:7.1%} {row['flops']:7.1%} {compile_s:5.1f} s",
                    flush=True,
                )
    if not chosen.only:
        write("gpu", dict(links=links, rows=found), chosen.quick)


if __name__ == "__main__":
    main()
