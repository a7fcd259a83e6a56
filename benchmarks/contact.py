"""The snake robot Aiko on one core, beside MuJoCo in the same run: wall seconds per simulated second.

    python benchmarks/contact.py

Steps of 1/4000 s, compilation apart. MuJoCo has the same links, spheres and gains, elliptic cones and its usual soft contact; it has
no friction that depends on a direction of the body, so that the run with anisotropic friction is undula's alone.
"""

import sys
import time
from pathlib import Path

import undula as un  # first: it sets what JAX reads when it starts

import equinox as eqx  # isort: skip
import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from undula import gallery  # isort: skip
from undula.integrate.base import Motion  # isort: skip
from undula.integrate.simulate import advance_steps  # isort: skip

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from mujoco_aiko import Twin  # isort: skip

RUNS = ("aiko-sidewinding", "aiko-lateral-isotropic", "aiko-lateral")
DT = 1 / 4000
DOCUMENT = {"aiko-sidewinding": 426.0, "aiko-lateral-isotropic": 78.0, "aiko-lateral": 78.0}


def ours(name: str, seconds: float, dt: float = DT, **changes) -> tuple[float, float, float, np.ndarray]:
    """(seconds a simulated second, of compilation, part of the steps not solved to the tolerance, mean velocity from t = 1 s
    on) of `seconds` of motion."""
    setup = gallery.load(name).setup(**changes)
    method = un.Moreau()
    memory = method.begin(Motion.of(setup.system), 0.0, setup.state)

    def go(system, state, memory, first, count):
        return advance_steps(system, state, memory, first, count, dt, integrator=method)

    started = time.perf_counter()
    zero, n = jnp.asarray(0), jnp.asarray(round(seconds / dt))
    compiled = eqx.filter_jit(go).lower(setup.system, setup.state, memory, zero, n).compile()
    made = time.perf_counter() - started
    best = np.inf
    for _ in range(2):
        started = time.perf_counter()
        end, after = jax.block_until_ready(compiled(setup.system, setup.state, memory, zero, n))
        best = min(best, time.perf_counter() - started)
    k = jnp.asarray(round(1 / dt))
    early, _ = compiled(setup.system, setup.state, memory, zero, k)
    centre = [np.asarray(un.centre_of_mass(setup.system, x)) for x in (early, end)]
    return best / seconds, made, int(after.unsolved) * dt / seconds, (centre[1] - centre[0]) / (seconds - 1)


def theirs(name: str, seconds: float) -> tuple[float, np.ndarray]:
    """The same by MuJoCo, in a loop of Python that sets the references."""
    twin = Twin(name, seconds, DT)
    started = time.perf_counter()
    centres = twin.centres()
    took = time.perf_counter() - started
    return took / seconds, (centres[-1] - centres[round(1 / DT)]) / (seconds - 1)


def main() -> None:
    print("wall seconds per simulated second, one core, steps of 1/4000 s (document 003: Matlab on a Pentium-M)")
    print(
        f"{'run':26s}{'undula':>9s}{'us/step':>9s}{'MuJoCo':>9s}{'ratio':>7s}{'document':>10s}   mean velocity [m/s], MuJoCo's"
    )
    for name in RUNS:
        seconds = 10.0
        mine, made, missed, v = ours(name, seconds)
        other, w = theirs(name, seconds) if name != "aiko-lateral" else (np.nan, np.full(3, np.nan))
        print(
            f"{name:26s}{mine:9.3f}{1e6 * mine * DT:9.1f}{other:9.3f}{other / mine:7.1f}{DOCUMENT[name]:10.0f}   "
            f"({v[0]:.4f}, {v[1]:.4f}), ({w[0]:.4f}, {w[1]:.4f}); not solved {missed:.3%}, compile {made:.1f} s",
            flush=True,
        )
    mine, _, _, v = ours("aiko-sidewinding", 10.0, 1 / 1000)
    print(f"sidewinding in steps of 1/1000 s: {mine:.4f}, mean velocity ({v[0]:.4f}, {v[1]:.4f})")
    links, times = (5, 10, 20, 50, 100), []
    for n in links:
        mine, made, missed, _ = ours("aiko-sidewinding", 2.0, n=n)
        times.append(mine * DT)
        print(
            f"sidewinding with {n:3d} links: {1e6 * mine * DT:8.1f} us a step, not solved {missed:.2%}, compile {made:.1f} s",
            flush=True,
        )
    print(f"exponent over the links: {np.polyfit(np.log(links), np.log(times), 1)[0]:.2f}")


if __name__ == "__main__":
    main()
