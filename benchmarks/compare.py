"""Speed of two checkouts of the project, side by side: recursions, and one step of every gallery entry.

python benchmarks/compare.py --before FOLDER [--names a,b,...] [--rounds 7] [--quick]

Each side is a process of its own on the same core; they take turns, so that both see the same machine. Printed for each row: the
shortest time per call or step of either side, the ratio of these (this checkout over the other: below 1 is faster), the
median of the ratios of the rounds, and the ratios of the lines of MLIR and of the seconds of compilation. Nothing is written.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from record import ROOT, one_core, options

CHAIN = "chain-of-"
CHAINS = [f"{CHAIN}{n}-{what}" for n in (11, 50, 200) for what in ("inverse", "mass", "forward")]
PART = 100  # steps that are compiled together
SECONDS = 0.25  # of one timing


def recursion(row: str):
    """A loop over calls of a recursion, each with another state."""
    import jax
    import jax.numpy as jnp

    import undula as un
    from models import chain, random_state
    from run import FUNCTIONS, moved

    links, what = row.removeprefix(CHAIN).split("-")
    system = chain(int(links), "free")
    state = random_state(system)
    f = next(f for name, f in FUNCTIONS.items() if name.startswith(what))
    assert un.System is type(system)
    return (
        lambda system, state, n: jax.lax.fori_loop(
            0, n, lambda _, x: x + 1e-12 * f(system, moved(state, x), x), jnp.ones(system.nv)
        )
    ), (system, state)


def steps(row: str):
    """A loop over parts of a simulation."""
    import jax

    import undula as un
    from undula import gallery

    setup = gallery.load(row).setup()
    state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)

    def go(system, state, n):
        def part(_, state):
            states = un.simulate(system, state, setup.dt, PART, 0.0, setup.integrator)
            return jax.tree.map(lambda x: x[-1], states)

        return jax.lax.fori_loop(0, n, part, state)

    return go, (setup.system, state)


def work(row: str) -> None:
    """One side: compiles the row, says how large the program is, then times it whenever a line arrives."""
    one_core()
    sys.path.pop(0)  # that of this script: models and functions are those of the checkout
    sys.modules.pop("record")
    import equinox as eqx
    import jax

    run, given = (recursion if row.startswith(CHAIN) else steps)(row)
    calls = 1 if row.startswith(CHAIN) else PART
    lowered = eqx.filter_jit(run).lower(*given, jax.numpy.asarray(1))
    text = lowered.as_text()
    started = time.perf_counter()
    compiled = lowered.compile()
    took = time.perf_counter() - started

    def timed(n):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*given, jax.numpy.asarray(n)))
        return time.perf_counter() - began

    count = 1
    while (seconds := timed(count)) < SECONDS / 2 and count < 1e6:
        count = max(count + 1, int(count * min(SECONDS / seconds, 20.0)))
    print("ready", text.count("\n"), took, count * calls, flush=True)
    for line in sys.stdin:
        n = max(int(line) // calls, 1)
        print(timed(n) / n / calls, flush=True)


class Side:
    """A process that measures one row in one checkout."""

    def __init__(self, root: Path, row: str):
        path = os.pathsep.join([str(root / "src"), str(root / "benchmarks"), str(root / "tests")])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", row],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if "UNDULA_SHOW" not in os.environ else None,
            text=True,
            env=os.environ | {"PYTHONPATH": path, "UNDULA_CACHE": "off"},
        )

    def ready(self) -> tuple[int, float, int] | None:
        """Lines of MLIR, seconds of compilation, calls of one timing; None if this checkout has no such row."""
        for line in self.process.stdout:
            if line.startswith("ready"):
                lines, took, count = line.split()[1:]
                return int(lines), float(took), int(count)
        return None

    def time(self, count: int) -> float:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def compare(row: str, before: Path, rounds: int) -> tuple[float, float] | None:
    """Prints one row; returns its two ratios of time."""
    sides = [Side(before, row), Side(ROOT, row)]
    sizes = [side.ready() for side in sides]
    if None in sizes:
        missing = " and ".join(str(f) for f, x in zip((before, ROOT), sizes) if x is None)
        print(f"{row:26s} does not run in {missing}", flush=True)
        found = None
    else:
        count = min(size[2] for size in sizes)
        times = np.array([[side.time(count) for side in sides] for _ in range(rounds)])
        best, ratios = times.min(0), times[:, 1] / times[:, 0]
        found = best[1] / best[0], float(np.median(ratios))
        print(
            f"{row:26s} {best[0] * 1e6:10.2f} {best[1] * 1e6:10.2f} us   {found[0]:.3f}   {found[1]:.3f}"
            f"   lines {sizes[1][0] / sizes[0][0]:.2f}   compiled {sizes[1][1] / sizes[0][1]:.2f} ({sizes[1][1]:.1f} s)",
            flush=True,
        )
    for side in sides:
        side.end()
    return found


def main() -> None:
    given = options(
        __doc__,
        before={"default": str(ROOT)},
        names={"default": ""},
        rounds={"default": 7, "type": int},
        work={"default": ""},
    )
    if given.work:
        return work(given.work)
    from undula.gallery import NAMES

    names = given.names.split(",") if given.names else [CHAINS[0]] if given.quick else [*CHAINS, *NAMES]
    print(f"{'':26s} {'before':>10s} {'now':>10s}      best    median")
    found = [compare(name, Path(given.before).resolve(), given.rounds) for name in names]
    best, median = zip(*(x for x in found if x is not None))
    print(f"best over best: median {np.median(best):.3f}, worst {max(best):.3f}; medians: worst {max(median):.3f}")


if __name__ == "__main__":
    main()
