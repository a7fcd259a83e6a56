"""How long a user waits: `undula run NAME` with an empty cache (cold) and again (warm), phase by phase.

python benchmarks/first_answer.py [--quick] [--names a,b,...] [--before FOLDER]     (part of make bench)

Wall seconds of whole commands. `first`: until the first samples are there and the bar moves. Lines: of MLIR, of all programs
that the command compiles. `--before`: another checkout of the project, whose commands take their turns with these; only the
comparison is printed then, nothing is written.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from record import ROOT, options, write
from undula.gallery import NAMES

SOME = ("satellite", "snake-acm", "aiko-sidewinding", "hexapod", "drones-payload", "bicycle-whipple")
COUNT = """
import sys
import undula
from undula import gallery
from undula.numerics.programs import Program
from undula.scenario.scenario import run_scenario
lines, real = [], Program._lowered
def counted(self, *arguments):
    found = real(self, *arguments)
    lines.append(found.module.as_text().count("\\n"))
    return found
Program._lowered = counted
setup = gallery.load(sys.argv[1]).setup()
run_scenario(gallery.load(sys.argv[1]), t_end=min(setup.t_end, 20 * setup.dt), dt=setup.dt)
print(len(lines), sum(lines))
"""


def command(name: str, cache: str, root: Path = ROOT) -> dict:
    """One run: wall seconds, seconds until the first samples, seconds of each phase (None if the command does not tell)."""
    environment = os.environ | {"UNDULA_CACHE": cache, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(root / "src")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "undula", "run", name, "--json"], capture_output=True, text=True, env=environment
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    found = json.loads(done.stdout)
    return {"wall_s": wall, "first_s": found.get("first_samples_s"), "phases_s": found.get("phases_s")}


def compare(names: list[str], before: Path) -> None:
    """Prints the times of both checkouts, entry by entry, and their ratios."""
    ratios = []
    print(f"{'':24s} cold before   now  first | warm before   now")
    for name in names:
        with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
            (a, b), (c, d) = ((command(name, old, before), command(name, new)) for _ in range(2))
        ratios.append((b["first_s"] / a["wall_s"], b["wall_s"] / a["wall_s"], d["wall_s"] / c["wall_s"]))
        print(
            f"{name:24s}{a['wall_s']:12.1f} {b['wall_s']:5.1f} {b['first_s']:6.1f} |{c['wall_s']:12.1f} {d['wall_s']:5.1f}   "
            f"ratios {', '.join(f'{r:.2f}' for r in ratios[-1])}",
            flush=True,
        )
    for what, r in zip(
        ("first samples / whole command before, cold", "whole command, cold", "whole, warm"), zip(*ratios)
    ):
        print(f"{what}: median {np.median(r):.2f}, worst {max(r):.2f}")


def lines(name: str) -> tuple[int, int]:
    """Number of programs, and their lines of MLIR."""
    environment = os.environ | {"UNDULA_CACHE": "off", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, name], capture_output=True, text=True, env=environment, check=True
    )
    programs, count = map(int, done.stdout.split()[-2:])
    return programs, count


def main() -> None:
    given = options(__doc__, names={"default": ""}, before={"default": ""})
    names = given.names.split(",") if given.names else NAMES[:1] if given.quick else NAMES
    if given.before:
        return compare(list(names), Path(given.before))
    found = {}
    print(f"{'':24s} cold  first   warm  first  programs  lines   phases of the cold run")
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = command(name, cache), command(name, cache)
            size = sum(x.stat().st_size for x in Path(cache).rglob("*.program"))
        programs, count = lines(name)
        found[name] = {"cold": cold, "warm": warm, "programs": programs, "lines": count, "bytes": size}
        phases = ", ".join(f"{k} {v:.1f}" for k, v in cold["phases_s"].items() if v >= 0.05)
        print(
            f"{name:24s}{cold['wall_s']:5.1f} {cold['first_s']:6.1f} {warm['wall_s']:6.1f} {warm['first_s']:6.1f} "
            f"{programs:9d} {count:6d}   {phases}",
            flush=True,
        )
    summary = {
        f"{what}_{key}": {"median": float(np.median(x)), "worst": float(np.max(x))}
        for what in ("cold", "warm")
        for key in ("wall_s", "first_s")
        for x in [[entry[what][key] for entry in found.values()]]
    }
    for key, x in summary.items():
        print(f"{key:14s} median {x['median']:.1f}, worst {x['worst']:.1f}")
    write("first_answer", {"entries": found, "summary": summary}, given.quick)


if __name__ == "__main__":
    main()
