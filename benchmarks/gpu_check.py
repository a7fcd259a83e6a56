"""Runs every GPU path once and compares it with the same function on the CPU: exit status 1 if one fails or differs.

    PYTHONPATH=src python benchmarks/gpu_check.py [--full] [--only WORD] [--json FILE]

Needs a machine with an NVIDIA GPU, jax[cuda] and equinox; viewers and command line are not imported. Prints one line per path:
the largest difference, relative to the largest number of the result, and its tolerance. `--full` adds the paths whose kernels take
minutes to compile, `--only` takes those whose names contain a word. `--lower` needs no GPU: it only lowers each path for CUDA.
"""

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import undula as un  # first: sets options that JAX reads at start-up

import equinox as eqx  # isort: skip
import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from gpu import functions  # isort: skip
from models import chain  # isort: skip
from undula import gallery  # isort: skip
from undula.contact.solve import kernel  # isort: skip
from undula.contact.solve.accelerated import accelerated  # isort: skip
from undula.contact.solve.problem import Block, Problem  # isort: skip
from undula.numerics import dense  # isort: skip
from undula.numerics import kernels  # isort: skip

BATCH = 1003  # not a multiple of the instances per kernel program
FEW = 37
ROUNDING, SOLVED, SINGLE = 1e-9, 1e-6, 1e-3  # float64; iterations that end at a tolerance; float32


class Path(NamedTuple):
    """A function of arrays compiled for a GPU, and its reference on the CPU."""

    name: str
    f: Callable
    args: tuple
    plain: Callable  # the same on the CPU
    tolerance: float
    slow: bool = False


def batched(f: Callable) -> Callable:
    return jax.vmap(f, in_axes=-1, out_axes=-1)


def lanes_paths(dtype: Any, rng: np.random.Generator) -> Iterator[Path]:
    """Dynamics of chains: `lanes` as one kernel, `lanes` left to XLA, `jax.vmap`."""
    tolerance = ROUNDING if dtype == jnp.float64 else SINGLE
    kind = jnp.dtype(dtype).name
    for links, slow in ((4, False), (11, True)):
        x = tuple(jnp.asarray(rng.uniform(-1, 1, (links, BATCH)), dtype) for _ in range(3))
        for name, f in functions(chain(links)).items():
            late = slow and name != "inverse dynamics"
            label = f"{name}, chain of {links}, {kind}"
            yield Path(f"lanes fused: {label}", un.lanes(f, fused=True), x, batched(f), tolerance, late)
            if not slow:
                yield Path(f"lanes, XLA: {label}", un.lanes(f, fused=False), x, batched(f), tolerance)
                yield Path(f"vmap: {label}", batched(f), x, batched(f), tolerance)


def gradient_paths(rng: np.random.Generator) -> Iterator[Path]:
    """Gradients: of the dynamics on lanes, and through whole simulations."""
    x = tuple(jnp.asarray(rng.uniform(-1, 1, (3, BATCH))) for _ in range(3))
    inverse = functions(chain(3))["inverse dynamics"]
    forward = functions(chain(3))["forward dynamics"]
    for name, f in (("inverse", inverse), ("forward", forward)):
        slope = jax.grad(lambda q, v, a, f=f: (f(q, v, a) ** 2).sum(), argnums=(0, 1, 2))
        if name == "inverse":
            yield Path(
                "lanes fused: gradient of inverse dynamics", un.lanes(slope, fused=True), x, batched(slope), ROUNDING
            )
        yield Path(f"vmap: gradient of {name} dynamics", batched(slope), x, batched(slope), ROUNDING)
    system = chain(3, "free")

    def far(q):
        start = system.state(q, jnp.array([1.0, -2.0, 1.5]))  # at rest, the result would not depend on q
        return (un.simulate(system, start, 0.01, 10).base.position[-1] ** 2).sum()

    starts = jnp.asarray(rng.uniform(-1, 1, (FEW, 3)))
    yield same("gradient of a simulation", jax.vmap(jax.grad(far)), starts, tolerance=1e-7)


def same(name: str, f: Callable, *args: Any, tolerance: float = ROUNDING, slow: bool = False) -> Path:
    """A path with the same function on both devices."""
    return Path(f"vmap: {name}", f, args, f, tolerance, slow)


def kinematic_paths(rng: np.random.Generator) -> Iterator[Path]:
    system = chain(3, "free")

    def all_of_it(q, v):
        state = system.state(q, v, base_twist=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6))
        return [
            un.kinematics.body_poses(system, state), un.kinematics.body_twists(system, state), un.kinematics.body_jacobian(system, state, "link2"),
            un.momentum(system, state), un.kinematics.centre_of_mass(system, state), un.kinetic_energy(system, state),
            un.potential_energy(system, state), un.geometry.locomotion_inertia(system, state), un.bias(system, state),
            un.gravity_efforts(system, state), un.geometry.connection(system, state),
        ]  # fmt: skip

    yield same(
        "kinematics, momenta, energies, connection", jax.vmap(all_of_it), *jnp.asarray(rng.normal(size=(2, FEW, 3)))
    )


def constraint_paths(rng: np.random.Generator) -> Iterator[Path]:
    for name, steps in (("snakeboard", 20), ("four-bar", 5)):
        setup = gallery.load(name).setup()
        system = setup.system
        start = setup.state(system) if callable(setup.state) else setup.state

        def end(scale, system=system, start=start, steps=steps, dt=setup.dt):
            heavier = eqx.tree_at(lambda s: s.inertia, system, system.inertia * scale)
            last = jax.tree.map(lambda x: x[-1], un.simulate(heavier, start, dt, steps))
            solution = un.hybrid_dynamics(heavier, last, steps * dt)
            return last, solution.reactions

        yield same(f"simulation and reactions, {name}", jax.vmap(end), jnp.linspace(0.5, 2.0, FEW), tolerance=1e-8)


def contact_paths(rng: np.random.Generator) -> Iterator[Path]:
    """Whole steps with contacts; the solvers stop at a tolerance, so rounding may change the number of iterations."""
    scenario = gallery.load("aiko-sidewinding")
    setup = scenario.setup(n=4)
    system, start = setup.system, setup.state
    for solver in (un.contact.AcceleratedProx(tolerance=1e-10), un.contact.GaussSeidel(tolerance=1e-10)):
        method = un.integrators.Moreau(solver)

        def end(yaw, method=method):
            turn = jnp.stack([jnp.cos(yaw / 2), 0 * yaw, 0 * yaw, jnp.sin(yaw / 2)])
            turned = start.replace(base=un.Pose(start.base.position, turn))
            return jax.tree.map(lambda x: x[-1], un.simulate(system, turned, 1 / 1000, 10, integrator=method))

        name = type(solver).__name__
        yield same(f"contact, 4 links, {name}", jax.vmap(end), jnp.linspace(0, 1, FEW), tolerance=SOLVED)


def rod_paths(rng: np.random.Generator) -> Iterator[Path]:
    system = gallery.load("tendon-finger").setup(nodes=5, modes=2).system
    methods = {
        "Newmark": un.integrators.Newmark(tolerance=1e-10),
        "Newmark, modified Newton": un.integrators.Newmark(tolerance=1e-10, newton="modified"),
        "ImplicitMidpoint": un.integrators.ImplicitMidpoint(tolerance=1e-10),
    }

    def tensions_of(system):
        (tendons,) = (g.form for g in system.groups if isinstance(g.form, un.forces.Tendon))
        return tendons.law.amplitude

    def tip(x, method):
        pulled = eqx.tree_at(tensions_of, system, jnp.stack([x, x]))
        end = jax.tree.map(lambda y: y[-1], un.simulate(pulled, pulled.state(), 0.005, 5, integrator=method))
        return un.kinematics.body_poses(pulled, end).position[-1]

    tensions = jnp.linspace(0.5, 2.0, FEW)
    for name, method in methods.items():
        yield same(
            f"rod with tendons, {name}", jax.vmap(functools.partial(tip, method=method)), tensions, tolerance=SOLVED
        )

    def slope(x):
        return jax.grad(lambda x: tip(x, methods["Newmark"])[0])(x)

    yield same("gradient of a rod's simulation", jax.vmap(slope), tensions, tolerance=1e-5)


def kernel_paths(dtype: Any, rng: np.random.Generator) -> Iterator[Path]:
    """The kernels alone, with a single problem and with a batch."""
    kind, tolerance = jnp.dtype(dtype).name, ROUNDING if dtype == jnp.float64 else SINGLE
    for n, m in ((26, 67), (5, 1), (32, 40)):
        A = rng.normal(size=(FEW, n, n + 17))
        H, B = jnp.asarray(A @ A.swapaxes(1, 2) / n, dtype), jnp.asarray(rng.normal(size=(FEW, n, m)), dtype)
        assert kernels.factors(H[0], B[0])

        def upper(H, B):
            U, X = dense._factor_by_rows(H, B)
            return jnp.triu(U), X  # below the diagonal it is zero up to rounding

        yield Path(
            f"kernel: factor {n} x {n}, {m} right sides, {kind}",
            jax.vmap(kernels.factor),
            (H, B),
            jax.vmap(upper),
            tolerance,
        )
        U, few = jnp.asarray(np.linalg.cholesky(np.asarray(H)).swapaxes(1, 2)), B[..., :2]
        yield Path(f"kernel: substitution {n} x {n}, {kind}", jax.vmap(kernels.back_substituted), (U, few),
                   jax.vmap(dense._substitute_by_rows), tolerance)  # fmt: skip
    yield Path(f"kernel: factor, one alone, {kind}", kernels.factor, (H[0], B[0]), upper, tolerance)
    laws = {
        "Coulomb": ((un.contact.Coulomb(0.5),), (5,), 20),
        "rolling and spinning": ((un.contact.Coulomb(0.5, rolling=0.1, spinning=0.2),), (3,), 17),
        "two laws": ((un.contact.Coulomb(0.5), un.contact.Coulomb(0.2, 0.4, (1, 0, 0), restitution=0.1)), (6, 3), 23),
    }
    for name, (given, counts, n) in laws.items():
        solve, numbers = contact_problem(rng, dtype, given, counts, n)
        fast, slow = (functools.partial(solve, how) for how in (kernel.solve, accelerated))
        label = f"kernel: contact solver, {name}, {kind}"
        yield Path(label, jax.vmap(fast), numbers, jax.vmap(slow), SOLVED if dtype == jnp.float64 else 1e-2)


def contact_problem(rng: np.random.Generator, dtype: Any, laws: tuple, counts: tuple, n: int) -> tuple[Callable, tuple]:
    """(solve, numbers): impulses as a function of a solver and the numbers of one problem; the numbers of a batch."""
    blocks, first = [], 0
    for law, count in zip(laws, counts):
        blocks.append(Block(jax.tree.map(lambda x, m=count: jnp.asarray([x] * m, dtype), law), first, count))
        first += count * blocks[-1].rows
    A, J = rng.normal(size=(FEW, n, n + 5)), 0.6 * rng.normal(size=(FEW, n, first))
    right = np.concatenate([J, 10 * rng.normal(size=(FEW, n, 1))], axis=2)
    Z = np.linalg.solve(np.linalg.cholesky(A @ A.swapaxes(1, 2)), right)
    closed = np.ones((FEW, first))
    for b in blocks:
        closed[:, b.first : b.first + b.count * b.rows] = np.tile(rng.random((FEW, b.count)) > 0.2, b.rows)

    def solve(how, Z, w, offset, closed, guess):
        problem = Problem(Z, w, offset, closed, tuple(blocks))
        assert kernel.takes(problem)
        tolerance, most = (1e-10, 2000) if dtype == jnp.float64 else (1e-5, 2000)
        return how(problem, problem.metric(), guess, jnp.ones((), dtype), tolerance, most)[0]

    offset, guess = rng.normal(size=(2, FEW, first))
    return solve, tuple(jnp.asarray(x, dtype) for x in (Z[..., :-1], Z[..., -1], offset, closed, guess))


def paths() -> Iterator[tuple[Path, bool]]:
    """(path, whether it is in float64): lanes and kernels in float64 and, with 64-bit mode disabled, in float32; then the rest."""
    for double in (True, False):
        dtype = jnp.float64 if double else jnp.float32
        for group in (lanes_paths, kernel_paths):
            with jax.enable_x64(double):
                made = list(group(dtype, np.random.default_rng(0)))
            yield from ((path, double) for path in made)
    for group in (kinematic_paths, constraint_paths, contact_paths, rod_paths, gradient_paths):
        yield from ((path, True) for path in group(np.random.default_rng(0)))


def difference(path: Path) -> float:
    """Largest difference between GPU and CPU relative to the largest number; the worst over the arrays of the result."""
    cpu = jax.devices("cpu")[0]
    found = jax.device_get(jax.jit(path.f)(*path.args))
    with jax.default_device(cpu):
        expected = jax.device_get(jax.jit(path.plain)(*jax.device_put(path.args, cpu)))
    worst = 0.0
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise TypeError(f"{a.dtype}{a.shape} on the GPU, {b.dtype}{b.shape} on the CPU")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ArithmeticError("results that are not finite")
        if a.size:
            worst = max(worst, float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)))
    return worst


def lowered(path: Path) -> float:
    """Computes nothing: only checks whether the path can be lowered for CUDA."""
    jax.jit(path.f).trace(*path.args).lower(lowering_platforms=("cuda",))
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also paths that take minutes to compile")
    parser.add_argument("--only", default="", metavar="WORD", help="only paths whose name contains it")
    parser.add_argument("--json", metavar="FILE", help="write the differences to this file")
    parser.add_argument("--lower", action="store_true", help="without a GPU: only lower each path for CUDA")
    options = parser.parse_args()
    if options.lower:
        kernels.available = lambda: True
    elif not kernels.available():
        print(
            f"no NVIDIA GPU of compute capability 8 or more: JAX computes on {jax.devices()[0].device_kind}.",
            file=sys.stderr,
        )
        return 1
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, undula {un.__version__}")
    results, failed = [], 0
    for path, double in paths():
        if options.only not in path.name or (path.slow and not options.full):
            continue
        start, error, reason = time.perf_counter(), np.nan, ""
        try:
            with jax.enable_x64(double):
                error = lowered(path) if options.lower else difference(path)
        except Exception as problem:  # the other paths are still tried
            reason = f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
        good = error <= path.tolerance
        failed += not good
        took = time.perf_counter() - start
        results.append(dict(path=path.name, difference=error, tolerance=path.tolerance, ok=good, seconds=took))
        line = f"{'ok    ' if good else 'FAILED'} {error:8.1e} of {path.tolerance:.0e}  {took:6.1f} s  {path.name}"
        print(f"{line}  {reason}".rstrip(), flush=True)
    print(f"{len(results)} paths, {failed} failed")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(device=jax.devices()[0].device_kind, jax=jax.__version__, paths=results), file, indent=1)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
