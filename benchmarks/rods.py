"""Rods on one core: wall seconds per simulated second, compilation apart, side by side with PyElastica and SoRoMoX.

make bench

The four rods of document 002, table 3.1, with its settings (dt = 0.01 s, 3 modes, 20 nodes); PyElastica with 50 elements and
its own largest stable step; SoRoMoX (cantilevers) with the order and step that were the quickest at PyElastica's accuracy.
Then the cost against modes and against the number of rods, and the inverse dynamics of one rod of 21 nodes.
"""

import os

os.sched_setaffinity(0, {0}) if hasattr(os, "sched_setaffinity") else None  # one core, for all

import subprocess
import sys
import time
from pathlib import Path

import undula as un  # isort: skip

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula import gallery
from undula._quick import quickly_compiled
from undula.integrate.base import Motion
from undula.integrate.simulate import advance_steps

DOCUMENT = {
    "cantilever-stiff": (7.1, 4.5),
    "cantilever-soft": (9.1, 1.9),
    "flying-rod-stiff": (8.5, 7.2),
    "flying-rod-soft": (7.9, 1.8),
}
SOROMOX = {"cantilever-soft": ("soft", 8, 2.5e-3), "cantilever-stiff": ("stiff", 6, 3.85e-4)}


def steps(system, state, dt, count, method=None):
    """(seconds a step, seconds of compilation, mean iterations) of implicit steps in one compiled loop."""
    method = un.Newmark() if method is None else method
    found = quickly_compiled(lambda s, x: Motion.of(s).flow(jnp.zeros(()), x))(system, state)
    memory = method.begin(Motion.of(system), 0.0, state, found)

    def go(system, state, memory):
        return advance_steps(system, state, memory, 0, count, dt, integrator=method)

    started = time.perf_counter()
    compiled = eqx.filter_jit(go).lower(system, state, memory).compile()
    made = time.perf_counter() - started
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        out, after = jax.block_until_ready(compiled(system, state, memory))
        best = min(best, time.perf_counter() - started)
    assert not bool(after.failed) and bool(jnp.isfinite(out.q).all())
    return best / count, made


def table_of_the_document():
    import pyelastica_rods as elastica

    print("wall seconds per simulated second (document 002: its own Matlab, SoRoSim; other machines)")
    print(
        f"{'rod':18s}{'undula':>9s}{'PyElastica':>12s}{'SoRoMoX':>9s}{'document':>10s}{'SoRoSim':>9s}   ratios PyElastica, SoRoMoX"
    )
    for name, (doc, sim) in DOCUMENT.items():
        setup = gallery.load(name).setup(modes=3)
        state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)
        seconds = min(setup.t_end, 2.0)
        ours = steps(setup.system, state, 0.01, round(seconds / 0.01))[0] / 0.01
        kind, hardness = ("cantilever", name.split("-")[1]) if "cantilever" in name else ("flying", name.split("-")[2])
        simulate = elastica.RODS[f"{hardness}_{kind}"][0]
        simulate(elastica.SAMPLE)  # compiles
        other = simulate(0.05 if kind == "cantilever" else 1.0)["wall_per_second"]
        third = np.nan
        if name in SOROMOX:
            word, order, dt = SOROMOX[name]
            command = [sys.executable, str(Path(__file__).with_name("soromox_rods.py")), word, str(order), str(dt)]
            environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
            out = subprocess.run(command, capture_output=True, text=True, env=environment)
            third = float(out.stdout.split()[-2]) if out.returncode == 0 else np.nan
        print(
            f"{name:18s}{ours:9.4f}{other:12.3f}{third:9.3f}{doc:10.1f}{sim:9.1f}   {other / ours:.0f}, {third / ours:.0f}",
            flush=True,
        )


def exponent(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def against_modes():
    counts, times = (3, 6, 12, 20, 30), []
    for modes in counts:
        setup = gallery.load("cantilever-soft").setup(modes=modes, nodes=max(20, modes + 10))
        state = setup.state(setup.system)
        seconds, made = steps(setup.system, state, 0.01, 50)
        times.append(seconds)
        print(f"modes {modes:3d}: {1e6 * seconds:8.0f} us a step, compile {made:.1f} s", flush=True)
    print(f"exponent over the modes: {exponent(counts, times):.2f}")


def fan(count):
    """Planar rods side by side on one clamp."""
    b = un.Builder("fan")
    b.base("ground")
    for k in range(count):
        soft = un.Rod(
            length=1.0, section=un.Circle(0.02), E=1e6, density=1e3, strains="planar-kirchhoff", modes=3, nodes=10
        )
        b.body(f"rod{k}", "ground", soft, position=(0, 0.1 * k, 0), rotation=[[0, 1, 0], [0, 0, -1], [-1, 0, 0]])
    return b.build()


def against_rods():
    counts, times = (1, 3, 10, 30, 100), []
    for count in counts:
        system = fan(count)
        state = system.state({f"rod{k}.Kz1": 0.5 for k in range(count)})
        seconds, made = steps(system, state, 0.01, 100)  # one matrix serves them all
        times.append(seconds)
        print(f"rods {count:4d}: {1e6 * seconds:8.0f} us a step, compile {made:.1f} s", flush=True)
    print(
        f"exponent over the rods: {exponent(counts, times):.2f}, over the last two {exponent(counts[-2:], times[-2:]):.2f}"
    )


def one_rod():
    b = un.Builder("rod")
    b.base("ground")
    b.body("tip", "ground", un.Rod(section=un.Circle(0.02), E=1e7, density=1e3, strains="kirchhoff", modes=5, nodes=21))
    system = b.build()

    @jax.jit
    def loop(system, x):
        def body(_, x):
            state = un.State(system.base_pose, x, jnp.zeros(6), x)
            return x + 1e-12 * un.inverse_dynamics(system, state, un.Acceleration(jnp.zeros(6), x)).v

        return jax.lax.fori_loop(0, 2000, body, x)

    x = 0.1 * jnp.ones(system.nv)
    jax.block_until_ready(loop(system, x))
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        jax.block_until_ready(loop(system, x))
        best = min(best, time.perf_counter() - started)
    print(
        f"inverse dynamics of a rod, 21 nodes, 15 coordinates: {1e6 * best / 2000:.1f} us (document 002, table 5.3: 500 us, C++)"
    )
    state = system.state({"tip.Ky1": 0.5, "tip.Kz1": 0.5})
    for newton in ("modified", "full"):
        seconds, made = steps(system, state, 0.01, 50, un.ImplicitMidpoint(newton=newton))
        print(f"a whole step, {newton} Newton: {1e6 * seconds:.0f} us, compile {made:.1f} s", flush=True)


if __name__ == "__main__":
    table_of_the_document()
    one_rod()
    against_modes()
    against_rods()
