"""Rods on one core: wall seconds per simulated second, excluding compilation, compared with PyElastica and SoRoMoX.

python benchmarks/rods.py [--quick]     (part of make bench)

The four rods of Gotelli 2024, table 3.1, with its settings (dt = 0.01 s, 3 modes, 20 nodes); PyElastica with 50 elements and
its own largest stable step; SoRoMoX (cantilevers) with the order and step that were the quickest at PyElastica's
accuracy. Then the accuracy of these settings, the cost versus the numbers of modes and rods, and the inverse dynamics
of one rod of 21 nodes.
"""

from record import best, exponent, one_core, options, write

one_core()  # for all programs

import importlib.util
import os
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
from undula.numerics.programs import quickly_compiled

DOCUMENT = {
    "cantilever-stiff": (7.1, 4.5),
    "cantilever-soft": (9.1, 1.9),
    "flying-rod-stiff": (8.5, 7.2),
    "flying-rod-soft": (7.9, 1.8),
}
SOROMOX = {"cantilever-soft": ("soft", 8, 2.5e-3), "cantilever-stiff": ("stiff", 6, 3.85e-4)}


def steps(system, state, dt, count, method=None):
    """(seconds per step, seconds of compilation) of implicit steps in one compiled loop."""
    method = un.integrators.Newmark() if method is None else method
    memory = quickly_compiled(lambda s, x: method.init(s, jnp.zeros(()), x))(system, state)

    def go(system, state, memory):
        return un.advance(system, state, dt, count, 0.0, method, memory)

    started = time.perf_counter()
    compiled = eqx.filter_jit(go).lower(system, state, memory).compile()
    made = time.perf_counter() - started
    out, _, report = compiled(system, state, memory)
    assert bool(report.good) and bool(jnp.isfinite(out.q).all())
    return best(lambda: compiled(system, state, memory), 3) / count, made


def prepared(name, **parameters):
    """Setup and initial state of a gallery entry."""
    setup = gallery.load(name).setup(**parameters)
    return setup, setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)


def installed(package):
    """Whether it can be imported; the columns of missing programs stay empty."""
    return importlib.util.find_spec(package) is not None


def table_of_the_document(quick):
    """Wall seconds per simulated second: undula, PyElastica, SoRoMoX; those of the document."""
    out = {}
    print("wall seconds per simulated second (Gotelli 2024: its own Matlab, SoRoSim; other machines)")
    print(
        f"{'rod':18s}{'undula':>9s}{'PyElastica':>12s}{'SoRoMoX':>9s}{'document':>10s}{'SoRoSim':>9s}   ratios PyElastica, SoRoMoX"
    )
    for name, (doc, sim) in list(DOCUMENT.items())[: 1 if quick else None]:
        setup, state = prepared(name, modes=3)
        seconds = 0.02 if quick else min(setup.t_end, 2.0)
        ours = steps(setup.system, state, 0.01, round(seconds / 0.01))[0] / 0.01
        kind, hardness = ("cantilever", name.split("-")[1]) if "cantilever" in name else ("flying", name.split("-")[2])
        other = third = np.nan
        if installed("elastica"):
            import pyelastica_rods as elastica

            simulate = elastica.RODS[f"{hardness}_{kind}"][0]
            simulate(elastica.SAMPLE)  # compiles
            other = simulate(0.05 if kind == "cantilever" else 1.0)["wall_per_second"]
        if name in SOROMOX and installed("soromox"):
            word, order, dt = SOROMOX[name]
            command = [sys.executable, str(Path(__file__).with_name("soromox_rods.py")), word, str(order), str(dt)]
            environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            third = float(done.stdout.split()[-2]) if done.returncode == 0 else np.nan
        out[name] = dict(undula=ours, pyelastica=number(other), soromox=number(third), document=doc, sorosim=sim)
        print(
            f"{name:18s}{ours:9.4f}{other:12.3f}{third:9.3f}{doc:10.1f}{sim:9.1f}   {other / ours:.0f}, {third / ours:.0f}",
            flush=True,
        )
    return out


def number(x):
    """A number that JSON can hold."""
    return float(x) if np.isfinite(x) else None


def accuracy(quick):
    """Largest tip error of the soft cantilever over 2 s, relative to its length; wall seconds per second for each setting."""
    seconds, every = (0.1, 0.05) if quick else (2.0, 0.1)
    at = np.arange(1, round(seconds / every) + 1)

    def tips(modes, dt, method):
        setup, state = prepared("cantilever-soft", modes=modes, nodes=max(20, 3 * modes))
        count = round(seconds / dt)
        states = un.simulate(setup.system, state, dt, count, integrator=method)
        there = jax.tree.map(lambda x: x[at * round(every / dt)], states)
        place = jax.jit(jax.vmap(lambda s: un.kinematics.body_poses(setup.system, s).position[-1]))(there)
        return np.asarray(place), steps(setup.system, state, dt, count, method)[0] / dt

    exact = tips(4 if quick else 16, 0.01 if quick else 5e-4, un.integrators.ImplicitMidpoint())[0]
    out = {}
    for modes in (3, 6):
        found, wall = tips(modes, 0.01, un.integrators.Newmark())
        out[f"undula, {modes} modes"] = dict(error=float(np.abs(found - exact).max() / 10.0), wall=wall)
    if installed("elastica") and not quick:
        import pyelastica_rods as elastica

        found = elastica.soft_cantilever(seconds)["tip"][at * round(every / elastica.SAMPLE)]
        out["PyElastica"] = dict(error=float(np.abs(found - exact).max() / 10.0))
    for name, values in out.items():
        print(f"{name}: error of the tip {values['error']:.2%} of the length", flush=True)
    return out


def against_modes(counts):
    times = []
    for modes in counts:
        setup, state = prepared("cantilever-soft", modes=modes, nodes=max(20, modes + 10))
        seconds, made = steps(setup.system, state, 0.01, 50)
        times.append(seconds)
        print(f"modes {modes:3d}: {1e6 * seconds:8.0f} us per step, compile {made:.1f} s", flush=True)
    print(f"exponent over the modes: {exponent(counts, times):.2f}")
    return dict(modes=list(counts), us=[1e6 * t for t in times])


def fan(count):
    """Planar rods in parallel on one clamp."""
    b = un.Builder("fan")
    b.base("ground")
    for k in range(count):
        soft = un.Rod(
            length=1.0, section=un.rods.Circle(0.02), E=1e6, density=1e3, strains="planar-kirchhoff", modes=3, nodes=10
        )
        b.body(f"rod{k}", "ground", soft, position=(0, 0.1 * k, 0), rotation=[[0, 1, 0], [0, 0, -1], [-1, 0, 0]])
    return b.build()


def against_rods(counts):
    times = []
    for count in counts:
        system = fan(count)
        state = system.state({f"rod{k}.Kz1": 0.5 for k in range(count)})
        seconds, made = steps(system, state, 0.01, 100)  # one matrix serves all of them
        times.append(seconds)
        print(f"rods {count:4d}: {1e6 * seconds:8.0f} us per step, compile {made:.1f} s", flush=True)
    print(
        f"exponent over the rods: {exponent(counts, times):.2f}, over the last two {exponent(counts[-2:], times[-2:]):.2f}"
    )
    return dict(rods=list(counts), us=[1e6 * t for t in times], exponent=exponent(counts, times))


def one_rod(calls):
    """Microseconds of the inverse dynamics of a rod with 21 nodes and 15 coordinates."""
    b = un.Builder("rod")
    b.base("ground")
    b.body(
        "tip",
        "ground",
        un.Rod(section=un.rods.Circle(0.02), E=1e7, density=1e3, strains="kirchhoff", modes=5, nodes=21),
    )
    system = b.build()

    @jax.jit
    def loop(system, x):
        def body(_, x):
            state = un.State(system.base_pose, x, jnp.zeros(6), x)
            return x + 1e-12 * un.inverse_dynamics(system, state, un.Acceleration(jnp.zeros(6), x)).v

        return jax.lax.fori_loop(0, calls, body, x)

    x = 0.1 * jnp.ones(system.nv)
    jax.block_until_ready(loop(system, x))
    us = 1e6 * best(lambda: loop(system, x)) / calls
    print(
        f"inverse dynamics of a rod, 21 nodes, 15 coordinates: {us:.1f} us (Gotelli 2024, table 5.3: 500 us, C++)",
        flush=True,
    )
    return us


if __name__ == "__main__":
    quick = options(__doc__).quick
    found = dict(table=table_of_the_document(quick), inverse_us=one_rod(20 if quick else 2000))
    found["accuracy"] = accuracy(quick)
    found["modes"] = against_modes((2, 3) if quick else (3, 6, 12, 20, 30))
    found["rods"] = against_rods((1, 2) if quick else (1, 3, 10, 30, 100))
    write("rods", found, quick)
