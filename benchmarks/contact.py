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


class Ours:
    """A compiled run of `seconds` of motion; `made`: seconds of compilation."""

    def __init__(self, name: str, seconds: float, dt: float = DT, **changes):
        setup = gallery.load(name).setup(**changes)
        method = un.Moreau()
        memory = method.begin(Motion.of(setup.system), 0.0, setup.state)

        def go(system, state, memory, first, count):
            return advance_steps(system, state, memory, first, count, dt, integrator=method)

        started = time.perf_counter()
        self.given = setup.system, setup.state, memory, jnp.asarray(0)
        self.compiled = eqx.filter_jit(go).lower(*self.given, jnp.asarray(1)).compile()
        self.made = time.perf_counter() - started
        self.seconds, self.dt = seconds, dt

    def run(self) -> tuple[float, float, np.ndarray]:
        """(wall seconds a simulated second, part of the steps not solved to the tolerance, mean velocity from t = 1 s on)."""
        n, k = (jnp.asarray(round(x / self.dt)) for x in (self.seconds, 1.0))
        started = time.perf_counter()
        end, after = jax.block_until_ready(self.compiled(*self.given, n))
        took = time.perf_counter() - started
        early, _ = self.compiled(*self.given, k)
        centre = [np.asarray(un.centre_of_mass(self.given[0], x)) for x in (early, end)]
        return took / self.seconds, int(after.since.unsolved) / int(n), (centre[1] - centre[0]) / (self.seconds - 1)


def theirs(name: str, seconds: float, **changes) -> tuple[float, np.ndarray]:
    """(wall seconds a simulated second, mean velocity) by MuJoCo, in a loop of Python that sets the references."""
    twin = Twin(name, seconds, DT, **changes)
    started = time.perf_counter()
    centres = twin.centres()
    took = time.perf_counter() - started
    return took / seconds, (centres[-1] - centres[round(1 / DT)]) / (seconds - 1)


def main() -> None:
    print(
        "wall seconds per simulated second, one core, steps of 1/4000 s, the best of 5 runs in turn (document 003: Matlab)"
    )
    print(
        f"{'run':26s}{'undula':>9s}{'us/step':>9s}{'MuJoCo':>9s}{'ratio':>7s}{'document':>10s}   mean velocity [m/s], MuJoCo's"
    )
    for name in RUNS:
        seconds = 10.0
        own, both = Ours(name, seconds), []
        for _ in range(5):
            both.append((own.run(), theirs(name, seconds) if name != "aiko-lateral" else (np.nan, np.full(3, np.nan))))
        mine, other = (min(x[i][0] for x in both) for i in (0, 1))
        (_, missed, v), (_, w) = both[-1]
        print(
            f"{name:26s}{mine:9.3f}{1e6 * mine * DT:9.1f}{other:9.3f}{other / mine:7.1f}{DOCUMENT[name]:10.0f}   "
            f"({v[0]:.4f}, {v[1]:.4f}), ({w[0]:.4f}, {w[1]:.4f}); not solved {missed:.3%}, compile {own.made:.1f} s",
            flush=True,
        )
    mine, _, v = Ours("aiko-sidewinding", 10.0, 1 / 1000).run()
    print(f"sidewinding in steps of 1/1000 s: {mine:.4f}, mean velocity ({v[0]:.4f}, {v[1]:.4f})")
    print("sidewinding with more or fewer links, 2 s of motion, the best of 2 runs in turn, us a step")
    print(f"{'links':>8s}{'undula':>9s}{'MuJoCo':>9s}{'ratio':>7s}")
    links, times = (5, 10, 20, 50, 100), []
    for n in links:
        own = Ours("aiko-sidewinding", 2.0, n=n)
        both = [(own.run(), theirs("aiko-sidewinding", 2.0, n=n)) for _ in range(2)]
        mine, other = (1e6 * DT * min(x[i][0] for x in both) for i in (0, 1))
        times.append(mine)
        print(
            f"{n:8d}{mine:9.1f}{other:9.1f}{other / mine:7.1f}   not solved {both[-1][0][1]:.2%}, compile {own.made:.1f} s",
            flush=True,
        )
    print(f"exponent over the links: {np.polyfit(np.log(links), np.log(times), 1)[0]:.2f}")


if __name__ == "__main__":
    main()
