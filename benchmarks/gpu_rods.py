"""Throughput of tendon-driven fingers on a GPU: batches of simulations in one call.

    python benchmarks/gpu_rods.py [--quick]     (part of make bench-gpu)

Prints steps per second of whole implicit steps (Newmark, residual 1e-8 of the efforts) for each batch. For comparison,
SoRoMoX publishes 36e3 steps per second (GVS, one segment, batch 256, RTX 5090).
"""

import time

import undula as un  # isort: skip  (sets options that JAX reads at start-up)

import equinox as eqx
import jax
import jax.numpy as jnp

from record import options, write
from undula import gallery

PUBLISHED = 36e3


def tensions_of(system):
    (tendons,) = (g.form for g in system.groups if isinstance(g.form, un.forces.Tendon))
    return tendons.law.amplitude


def main() -> None:
    quick = options(__doc__).quick
    setup = gallery.load("tendon-finger").setup(**(dict(nodes=4, modes=2) if quick else {}))
    count, found = 2 if quick else 100, []
    system, dt = setup.system, setup.dt
    print(
        f"{jax.devices()[0].device_kind}; {system.nv} strain coordinates, {len(system.body_names) - 2} nodes, dt = {dt} s"
    )
    for newton in ("full", "modified"):
        method = un.integrators.Newmark(tolerance=1e-8, newton=newton, max_iterations=12)

        def tips(tensions, method=method):
            def one(x):
                pulled = eqx.tree_at(tensions_of, system, jnp.stack([x, x]))
                end = jax.tree.map(lambda y: y[-1], un.simulate(pulled, pulled.state(), dt, count, integrator=method))
                return un.kinematics.body_poses(pulled, end).position[-1]

            return jax.vmap(one)(tensions)

        for batch in (3,) if quick else (1000, 10_000, 100_000):
            tensions = jnp.linspace(0.5, 2.0, batch)
            started = time.perf_counter()
            compiled = jax.jit(tips).lower(tensions).compile()
            made = time.perf_counter() - started
            compiled(tensions).block_until_ready()
            started = time.perf_counter()
            out = compiled(tensions).block_until_ready()
            took = time.perf_counter() - started
            rate = batch * count / took
            ok = bool(jnp.isfinite(out).all())
            found.append(dict(newton=newton, batch=batch, per_s=rate, compile_s=made, finite=ok))
            print(
                f"{newton:8s} batch {batch:6d}: {rate:.3g} steps/s ({rate / PUBLISHED:.0f} times SoRoMoX's), "
                f"{1e3 * took / count:.2f} ms per step, compile {made:.0f} s, finite: {ok}",
                flush=True,
            )
    write("gpu_rods", dict(published_per_s=PUBLISHED, rows=found), quick)


if __name__ == "__main__":
    main()
