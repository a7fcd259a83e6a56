"""Shared by the benchmarks: options, one core, timing, and result files with their provenance.

A script measures, prints as it goes, and writes `benchmarks/results/NAME.json`; `report.py` puts the numbers into the pages.
With `--quick` everything is small and takes seconds: it shows that the script works; its numbers, in a separate
folder, mean nothing.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "pin", "mujoco", "pyelastica", "soromox")


def one_core() -> None:
    """Pins this process to one core; to be called before JAX starts."""
    if CORES:
        os.sched_setaffinity(0, {min(CORES)})


def all_cores() -> None:
    """Lets it use all its cores again."""
    if CORES:
        os.sched_setaffinity(0, CORES)


def options(text: str, **more: dict) -> argparse.Namespace:
    """The options of a script; `text`: its docstring, `more`: additional arguments."""
    parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few repetitions, to check that it works")
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args()


def best(f: Callable[[], Any], repeats: int = 5) -> float:
    """Shortest of several timings of f() [s], including the wait for its result."""
    import jax

    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(f())
        times.append(time.perf_counter() - start)
    return min(times)


def exponent(x: Any, y: Any) -> float:
    """The power of x with which y grows, by a least-squares fit of the logarithms."""
    import numpy as np

    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def write(name: str, values: dict, quick: bool) -> Path:
    """Writes the values [SI units unless the key says otherwise] with commit, machine and versions."""
    import jax

    import undula as un

    whole = {
        "name": name,
        "commit": os.environ.get("UNDULA_COMMIT") or _git("rev-parse", "HEAD") or "unknown",
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "src", "benchmarks/*.py")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "device": jax.devices()[0].device_kind,
        "versions": {"python": platform.python_version(), "undula": un.__version__} | _versions(),
        "quick": quick,
        "values": values,
    }
    path = (RESULTS / "quick" if quick else RESULTS) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"written: {path.relative_to(ROOT)}", flush=True)
    return path


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), platform.machine())


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
