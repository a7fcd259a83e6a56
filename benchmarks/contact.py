"""The snake robot Aiko on one core, compared with MuJoCo in the same run: wall seconds per simulated second.

    python benchmarks/contact.py [--quick]     (part of make bench)

Steps of 1/4000 s, excluding compilation. MuJoCo has the same links, spheres and gains, elliptic cones and its usual soft contact; it
has no friction that depends on a direction of the body, so only undula does the run with anisotropic friction. Then the cost
versus the number of links, the errors due to the step, and the cost of rolling friction.
"""

import sys
import time
from pathlib import Path

from record import exponent, one_core, options, write

one_core()

import undula as un  # sets options that JAX reads at start-up

import equinox as eqx  # isort: skip
import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from undula import gallery  # isort: skip

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from mujoco_aiko import Twin  # isort: skip

RUNS = ("aiko-sidewinding", "aiko-lateral-isotropic", "aiko-lateral", "aiko-slope", "aiko-obstacles")
TWINS = RUNS[:2]  # those that MuJoCo can also do
DT = 1 / 4000
DOCUMENT = {"aiko-sidewinding": 426.0, "aiko-lateral-isotropic": 78.0, "aiko-lateral": 78.0}


class Ours:
    """A compiled run of `seconds` of motion; `made`: seconds of compilation."""

    def __init__(self, name: str, seconds: float, dt: float = DT, **changes):
        setup = gallery.load(name).setup(**changes)
        method = un.integrators.Moreau()
        state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)

        def go(system, state, count):
            return un.advance(system, state, dt, count, integrator=method)

        started = time.perf_counter()
        self.given = setup.system, state
        self.compiled = eqx.filter_jit(go).lower(*self.given, jnp.asarray(1)).compile()
        self.made = time.perf_counter() - started
        self.seconds, self.dt = seconds, dt

    def run(self, start: float = 1.0) -> dict:
        """Wall seconds per simulated second, steps that miss the tolerance, and the mean velocity from `start` [s] on."""
        n, k = (jnp.asarray(round(x / self.dt)) for x in (self.seconds, start))
        started = time.perf_counter()
        end, _, report = jax.block_until_ready(self.compiled(*self.given, n))
        took = time.perf_counter() - started
        early, *_ = self.compiled(*self.given, k)
        centre = [np.asarray(un.kinematics.centre_of_mass(self.given[0], x)) for x in (early, end)]
        velocity = (centre[1] - centre[0]) / (self.seconds - start)
        missed = int(report.unsolved)
        return dict(wall=took / self.seconds, missed=missed, steps=int(n), velocity=velocity[:2].tolist())


def theirs(name: str, seconds: float, start: float = 1.0, **changes) -> tuple[float, list[float]]:
    """(wall seconds per simulated second, mean velocity) by MuJoCo, in a Python loop that sets the references."""
    twin = Twin(name, seconds, DT, **changes)
    started = time.perf_counter()
    centres = twin.centres()
    took = time.perf_counter() - started
    return took / seconds, ((centres[-1] - centres[round(start / DT)]) / (seconds - start))[:2].tolist()


def table(runs, seconds, repeats, changes):
    """Each run: undula and MuJoCo alternately, the best of several."""
    out = {}
    print(f"{'run':26s}{'undula':>9s}{'us/step':>9s}{'MuJoCo':>9s}{'document':>10s}   mean velocity [m/s], MuJoCo's")
    for name in runs:
        own, mine, other = Ours(name, seconds, **changes), [], []
        for _ in range(repeats):
            mine.append(own.run())
            if name in TWINS:
                other.append(theirs(name, seconds))
        wall = min(x["wall"] for x in mine)
        out[name] = mine[-1] | dict(wall=wall, us=1e6 * wall * DT, document=DOCUMENT.get(name), compile_s=own.made)
        out[name] |= dict(mujoco=min(x[0] for x in other), mujoco_velocity=other[-1][1]) if other else {}
        print(
            f"{name:26s}{wall:9.3f}{1e6 * wall * DT:9.1f}{out[name].get('mujoco', np.nan):9.3f}{DOCUMENT.get(name, np.nan):10.0f}   "
            f"{out[name]['velocity']}, {out[name].get('mujoco_velocity')}; compile {own.made:.1f} s",
            flush=True,
        )
    return out


def coarse(seconds, changes):
    """Sidewinding with steps of 1/1000 s."""
    found = Ours("aiko-sidewinding", seconds, 1 / 1000, **changes).run()
    print(f"sidewinding in steps of 1/1000 s: {found['wall']:.4f}, mean velocity {found['velocity']}", flush=True)
    return found


def against_links(links, seconds):
    """Microseconds per step versus the number of links, undula and MuJoCo alternately."""
    us, mujoco = [], []
    for n in links:
        own = Ours("aiko-sidewinding", seconds, n=n)
        both = [
            (own.run(seconds / 2)["wall"], theirs("aiko-sidewinding", seconds, seconds / 2, n=n)[0]) for _ in range(2)
        ]
        mine, other = (1e6 * DT * min(x) for x in zip(*both))
        us.append(mine)
        mujoco.append(other)
        print(
            f"sidewinding with {n:3d} links: {mine:8.1f} us per step, MuJoCo {other:8.1f}, compile {own.made:.1f} s",
            flush=True,
        )
    return dict(links=list(links), us=us, mujoco=mujoco, exponent=exponent(links, us))


def errors(seconds, steps, changes):
    """Errors of displacements with steps of 1/1000 and 1/4000 s, relative to the distance, against the shortest step."""
    out = {}
    for name in ("aiko-lateral-isotropic", "aiko-sidewinding"):
        ways = []
        for per_second in steps:
            own = Ours(name, seconds, 1 / per_second, **changes)
            ways.append(seconds * np.array(own.run(0.0)["velocity"]))
        out[name] = [float(np.linalg.norm(w - ways[-1]) / np.linalg.norm(ways[-1])) for w in ways[:-1]]
        print(f"{name}: errors of {out[name]} of the distance with {steps[:-1]} steps per second", flush=True)
    return dict(steps=list(steps), errors=out)


def rolling(seconds, changes):
    """Ratio of iterations with rolling friction to those without, and the steps that miss the tolerance."""
    out = {}
    for name in ("aiko-lateral-isotropic", "aiko-sidewinding"):
        scenario, mean = gallery.load(name), []
        for mu in (0.0, 0.02):
            setup = scenario.setup(mu_roll=mu, **changes)
            state = setup.state if isinstance(setup.state, un.State) else setup.state(setup.system)
            run = un.run(setup.system, state, t_end=seconds, dt=DT, save_every=1)
            mean.append(float(run.data.iterations[1:].mean()))
        missed = int((run.data.contact_residual[1:] > un.contact.AcceleratedProx().tolerance).sum())
        out[name] = dict(ratio=mean[1] / mean[0], missed=missed, steps=run.steps)
        print(f"{name} with rolling friction: {out[name]}", flush=True)
    return out


def main() -> None:
    quick = options(__doc__).quick
    print(
        "wall seconds per simulated second, one core, steps of 1/4000 s, the best of 5 in turn (Transeth et al. 2008: Matlab)"
    )
    few = dict(n=2) if quick else {}
    found = dict(table=table(RUNS[:1] if quick else RUNS, 1.01 if quick else 10.0, 1 if quick else 5, few))
    found["coarse"] = coarse(1.01 if quick else 10.0, few)
    found["links"] = against_links(*(((2, 3), 0.01) if quick else ((5, 10, 20, 50, 100), 2.0)))
    found["errors"] = errors(*((0.02, (1000, 2000, 4000)) if quick else (15.0, (1000, 4000, 32_000))), few)
    found["rolling"] = rolling(0.005 if quick else 2.0, few)
    write("contact", found, quick)


if __name__ == "__main__":
    main()
