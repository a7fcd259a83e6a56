"""Check of the installation: versions, devices, options, and a measurement of their effect."""

import os
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any

import jax
import jax.numpy as jnp

from undula.balance.dynamics import inverse_dynamics
from undula.core.cache import LIMIT, SWITCH
from undula.core.startup import FLAG, KEY, OPTION, fast_loops_active, given_flags
from undula.core.version import __version__
from undula.joints.screw import Revolute
from undula.model.builder import Builder
from undula.model.state import Acceleration, State
from undula.model.system import System
from undula.numerics import store

PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "xarray",
    "h5netcdf",
    "matplotlib",
    "viser",
    "typer",
    "rich",
)
CALLS = 20_000
WORTHWHILE = 3.0  # a smaller speed-up means that the option has no effect; typical values are in the tens
QUICK = 6.0  # time of an inverse dynamics of 11 links in a loop that is compiled whole, on slow processors too [us]

# JAX starts before undula is imported, so undula cannot set the option: the same measurement without it
WITHOUT = (
    "import warnings, jax; jax.devices(); warnings.simplefilter('ignore'); "
    "from undula.cli.doctor import microseconds; print(microseconds())"
)


def examine() -> dict[str, Any]:
    """Everything that determines whether undula runs well here; takes about 10 s.

    **Returns:**

    Versions, devices and options, `fast_us` and `slow_us` (microseconds per call of the inverse dynamics of
    an 11-link chain inside a compiled loop: as it runs here, and without the fast-loop option), their
    `ratio`, whether the installation is `well`, and a `verdict` in words.
    """
    fast = _microseconds_here()
    slow = _microseconds_without()
    ratio = slow / fast if slow and fast else None
    x64 = bool(jax.config.read("jax_enable_x64"))
    well, verdict = judge(fast_loops_active(), x64, ratio, fast)
    return {
        "versions": {"python": python_version(), "undula": __version__, **{p: _version(p) for p in PACKAGES}},
        "devices": [f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()],
        "x64": x64,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "fast_loops": fast_loops_active(),
        "fast_us": fast,
        "slow_us": slow,
        "ratio": ratio,
        "well": well,
        "cache": _cache(),
        "verdict": verdict,
    }


def _cache() -> dict[str, Any]:
    """Where compiled programs are kept (None: nowhere), how many there are, and their size [bytes]."""
    where = store.folder()
    sizes = [path.stat().st_size for path in where.glob(f"*{store.SUFFIX}")] if where is not None else []
    folder = None if where is None else str(where)
    return {"folder": folder, "programs": len(sizes), "bytes": sum(sizes), "limit": LIMIT, "switch": SWITCH}


def judge(active: bool, x64: bool, ratio: float | None, fast: float | None = None) -> tuple[bool, str]:
    """Whether all is well, and a sentence that says so or suggests a remedy; `fast`: as in `examine` [us]."""
    if not active:
        return False, (
            "Loops are slow: JAX was started before undula was imported, or XLA_FLAGS names a file without the option; "
            f'import undula first, or set XLA_FLAGS="{FLAG}={OPTION}" in the environment, or write it into the file.'
        )
    if not x64:
        return False, "Numbers have 32 bits: something switched jax_enable_x64 off after undula was imported."
    if ratio is None:
        return False, "The fast-loop option is set, but its effect could not be measured on the CPU."
    if ratio < WORTHWHILE and fast is not None and fast < QUICK:
        return True, "All is well: with this version of JAX, loops are as fast without the fast-loop option."
    if ratio < WORTHWHILE:
        return False, (
            f"The fast-loop option is set, but loops are only {ratio:.1f} times faster: this version of JAX may ignore it."
        )
    return (
        True,
        f"All is well: loops run {ratio:.0f} times faster than they would without the fast-loop option.",
    )


def microseconds(links: int = 11) -> float:
    """Time of one inverse dynamics of a chain, inside a compiled loop on the CPU [us]; best of three."""
    with jax.default_device(jax.devices("cpu")[0]):
        system = _chain(links)
        state = system.state(position=jnp.linspace(-0.5, 0.5, links), velocity=jnp.linspace(1.0, -1.0, links))
        jax.block_until_ready(_loop(system, state))  # compiles
        return min(_seconds(system, state) for _ in range(3)) / CALLS * 1e6


def without_option(flags: str) -> str:
    """The value of XLA_FLAGS without the fast-loop option; everything else is kept."""
    words = []
    for word in flags.split():
        name, _, value = word.partition("=")
        if name == FLAG:
            value = ",".join(pair for pair in value.split(",") if not pair.startswith(KEY))
            word = f"{name}={value}" if value else ""
        words.append(word)
    return " ".join(w for w in words if w)


def _microseconds_here() -> float | None:
    try:
        return microseconds()
    except RuntimeError:  # the CPU is disabled in JAX (JAX_PLATFORMS)
        return None


def _microseconds_without() -> float | None:
    environment = os.environ | {
        "XLA_FLAGS": without_option(given_flags()[0]),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "false",  # no programs that were compiled with the option
        SWITCH: "off",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),  # the undula under examination
    }
    command = [sys.executable, "-c", WITHOUT]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _chain(links: int) -> System:
    b = Builder("chain")
    b.base("base")
    for k in range(links):
        axis = (0, 1, 0) if k % 2 else (0, 0, 1)
        parent = f"link{k - 1}" if k else "base"
        b.body(
            f"link{k}",
            parent,
            Revolute(axis),
            1.0,
            com=(0.1, 0, 0),
            inertia=(0.01, 0.02, 0.02),
            position=(0.2, 0, 0),
        )
    return b.build()


@jax.jit
def _loop(system: System, state: State) -> State:
    # each call starts from the result of the previous one, so that nothing can be moved out of the loop
    def body(_, state):
        efforts = inverse_dynamics(system, state, Acceleration(jnp.zeros(6), state.v)).v
        return State(state.base, state.q + 1e-9 * efforts, state.base_twist, state.v - 1e-9 * efforts)

    return jax.lax.fori_loop(0, CALLS, body, state)


def _seconds(system: System, state: State) -> float:
    started = time.perf_counter()
    jax.block_until_ready(_loop(system, state))
    return time.perf_counter() - started


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
