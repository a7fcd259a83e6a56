"""Constrained systems on one core: time per step, share of the reduction, and cost versus number of bodies.

python benchmarks/constraints.py [--quick]     (part of make bench)
"""

from record import best, exponent, one_core, options, write

one_core()

import time

import jax
import jax.numpy as jnp

import undula as un
from undula import gallery
from undula.balance.look import hold

CASES = (
    ("snakeboard", {}),
    ("snake-acm", {"modules": 10}),
    ("snake-acm", {"modules": 100}),
    ("bicycle-whipple", {}),
    ("hexapod", {}),
)


def prepared(name, parameters):
    """System and admissible initial state of a gallery entry, and its own time step."""
    setup = gallery.load(name).setup(**parameters)
    state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)
    return setup.system, un.admissible(setup.system, state), setup.dt


def times(system, state, dt, steps=500):
    """Seconds per step, per reduction (rows, ranks, admissible velocities) and of compilation."""
    run = jax.jit(lambda system, state, n: un.advance(system, state, dt, n, dt)[0])

    @jax.jit
    def reduce(system, state, n):
        made = un.prepare(system)

        def body(k, state):
            moved = state.replace(q=state.q + 1e-12 * state.base_twist[0])
            return hold(made, 0.01 + k * 1e-6, moved).snap.state

        return jax.lax.fori_loop(0, n, body, state)

    start = time.perf_counter()
    jax.block_until_ready(run(system, state, 1))
    compiled = time.perf_counter() - start
    jax.block_until_ready(reduce(system, state, 1))
    step = best(lambda: run(system, state, steps)) / steps
    return step, best(lambda: reduce(system, state, steps)) / steps, compiled


def table(cases):
    """Size of each system, and microseconds per step and per reduction."""
    out = {}
    print(
        f"{'system':24s} {'bodies':>6s} {'rows':>5s} {'unknown':>8s} {'a step':>10s} {'a reduction':>12s} {'share':>6s} {'compile':>8s}"
    )
    for name, parameters in cases:
        system, state, dt = prepared(name, parameters)
        step, reduction, compiled = times(system, state, dt, 50 if parameters.get("modules", 0) > 50 else 500)
        label = name + "".join(f", {v} {k}" for k, v in parameters.items())
        unknown = len(system.topology.unknown)
        sizes = dict(bodies=len(system.body_names), rows=len(system.row_names), unknown=unknown)
        out[label] = sizes | dict(step_us=1e6 * step, reduction_us=1e6 * reduction)
        # a Runge-Kutta step makes four reductions, and one more where drift is removed
        print(
            f"{label:24s} {len(system.body_names):6d} {len(system.row_names):5d} {unknown:8d} {step * 1e6:7.1f} us "
            f"{reduction * 1e6:9.1f} us {4 * reduction / step:6.0%} {compiled:6.1f} s",
            flush=True,
        )
    return out


def trailer(links):
    """A board with two skates that carries a chain of driven links: always two rows, any number of bodies."""
    b = un.Builder("trailer", gravity=(0, 0, 0))
    b.base("board", role="free", group="SE2", mass=1.0, inertia=0.1)
    b.add(un.rows.Skate("front", "board", (0.2, 0, 0), heading=0.3))
    b.add(un.rows.Skate("rear", "board", (-0.2, 0, 0)))
    for k in range(links):
        parent = f"link{k - 1}" if k else "board"
        b.body(f"link{k}", parent, un.Revolute((0, 0, 1)), 0.1, (0.05, 0, 0), 1e-4, position=(0.1 if k else 0.0, 0, 0))
    b.drive([f"link{k}" for k in range(links)], un.laws.TravellingWave(links, 0.3, 2.0, 0.3))
    return b.build()


def scaling(sizes):
    """Microseconds per step with two rows, versus the number of driven links."""
    found = []
    for n in sizes:
        system = trailer(n)
        found.append(times(system, un.admissible(system, system.state()), 1e-3, 200)[0])
    slope = exponent(sizes, found)
    print(
        "two rows, driven links: "
        + ", ".join(f"{n}: {t * 1e6:.1f} us" for n, t in zip(sizes, found))
        + f"; exponent {slope:.2f}"
    )
    return dict(links=list(sizes), us=[1e6 * t for t in found], exponent=slope)


def long_run(steps):
    """Wall seconds of a run of snake-acm with steps of 1 ms."""
    system, state, _ = prepared("snake-acm", {})
    run = jax.jit(lambda system, state: un.advance(system, state, 1e-3, steps)[0])
    jax.block_until_ready(run(system, state))
    took = best(lambda: run(system, state), 3)
    print(f"{steps / 1000:g} s of snake-acm at dt = 1 ms: {took:.2f} s")
    return dict(simulated_s=steps / 1000, wall_s=took)


def gradient(steps):
    """Ratio of the time of a gradient of a snakeboard's displacement to that of its simulation; seconds of compilation."""
    system, state, dt = prepared("snakeboard", {})

    def way(scale, system, state):
        heavier = system.replace(mass=scale * system.mass)
        return (un.simulate(heavier, state, dt, steps).base.position[-1] ** 2).sum()

    given = jnp.asarray(1.0), system, state
    forward, reverse = jax.jit(way), jax.jit(jax.grad(way))
    jax.block_until_ready(forward(*given))
    start = time.perf_counter()
    jax.block_until_ready(reverse(*given))
    compiled = time.perf_counter() - start
    ratio = best(lambda: reverse(*given)) / best(lambda: forward(*given))
    print(f"gradient of {steps} steps of a snakeboard: {ratio:.1f} simulations, compiled in {compiled:.0f} s")
    return dict(steps=steps, ratio=ratio, compile_s=compiled)


if __name__ == "__main__":
    chosen = options(__doc__)
    print(f"JAX {jax.__version__}, one core, float64")
    found = dict(table=table((("snakeboard", {}), ("snake-acm", {"modules": 4})) if chosen.quick else CASES))
    found["driven"] = scaling((3, 6) if chosen.quick else (10, 30, 100, 300))
    found["long"] = long_run(20 if chosen.quick else 20_000)
    found["gradient"] = gradient(3 if chosen.quick else 200)
    write("constraints", found, chosen.quick)
