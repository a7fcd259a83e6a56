"""Speed of the recursions on one core, compared with Pinocchio in the same run; prints tables of ratios.

python benchmarks/run.py [--quick]     (part of make bench)
"""

from record import all_cores, best, exponent, one_core, options, write

one_core()  # for both programs

import re
import sysconfig
import tempfile
import time
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import undula as un
from models import chain, random_state
from undula.cli import doctor


def moved(state, x):
    """The state, slightly different in every iteration, so that nothing can be hoisted out of the timed loop."""
    e = 1e-12 * x[0]
    base = un.Pose(state.base.position + e, state.base.quaternion + e)
    return un.State(base, state.q + e, state.base_twist + e, state.v + e)


FUNCTIONS = {
    "inverse dynamics": lambda s, x, a: un.inverse_dynamics(s, x, un.Acceleration(a[0] * jnp.ones(6), a)).v,
    "mass matrix": lambda s, x, a: un.mass_matrix(s, x).sum(0)[: s.nv],  # the sum uses every entry
    "forward dynamics": lambda s, x, a: un.forward_dynamics(s, x, a).v,
}


def ours(f, system, state, calls=2000):
    """Seconds per call of f inside a compiled loop, and of compilation."""

    @jax.jit
    def loop(system, state, x, n):
        return jax.lax.fori_loop(0, n, lambda _, x: x + 1e-12 * f(system, moved(state, x), x), x)

    x = jnp.ones(system.nv)
    start = time.perf_counter()
    jax.block_until_ready(loop(system, state, x, 1))
    compiled = time.perf_counter() - start
    return best(lambda: loop(system, state, x, calls)) / calls, compiled


def theirs(model, calls=500):
    """Seconds per call of Pinocchio's functions, called from Python."""
    data, q, v = (
        model.createData(),
        pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)),
        np.ones(model.nv),
    )
    calls_of = {
        "inverse dynamics": lambda: pin.rnea(model, data, q, v, v),
        "mass matrix": lambda: pin.crba(model, data, q),
        "forward dynamics": lambda: pin.aba(model, data, q, v, v),
    }
    return {name: best(lambda f=f: [f() for _ in range(calls)]) / calls for name, f in calls_of.items()}


def to_pinocchio(system):
    """A chain of revolute joints as a Pinocchio model."""
    model = pin.Model()
    free = system.topology.base_role == "free"
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root") if free else 0
    if free:
        _append(model, joint, system, 0)
    for k in range(len(system.topology.parents)):
        axis = np.array(system.axis[k])
        place = pin.SE3(np.array(system.joint_rotation[k]), np.array(system.joint_position[k]))
        joint = model.addJoint(joint, pin.JointModelRevoluteUnaligned(axis), place, f"j{k}")
        _append(model, joint, system, k + 1)
    assert model.nv == 6 * free + system.nv
    return model


def _append(model, joint, system, k):
    inertia = pin.Inertia(float(system.mass[k]), np.array(system.com[k]), np.array(system.inertia[k]))
    model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())


def robots():
    """(name, system, Pinocchio model) of panda (fixed) and talos (free base).

    Without dampers, and fingers that follow another joint are independent joints, in both programs: Pinocchio's dynamics has
    neither.
    """
    folder = Path(sysconfig.get_path("purelib")) / "cmeel.prefix/share/example-robot-data/robots"
    warnings.simplefilter("ignore", un.UndulaWarning)  # talos has Coulomb friction, which both programs ignore
    for name, file, base in (("panda", "panda_description/urdf/panda.urdf", "fixed"),
                             ("talos", "talos_data/robots/talos_full_v2.urdf", "free")):  # fmt: skip
        root = (pin.JointModelFreeFlyer(),) if base == "free" else ()
        with tempfile.NamedTemporaryFile("w", suffix=".urdf") as independent:
            independent.write(re.sub(r"<(mimic|dynamics)\b[^>]*/>", "", (folder / file).read_text()))
            independent.flush()
            system = un.load_urdf(independent.name, base=base)
            model = pin.buildModelFromUrdf(independent.name, *root)
        yield name, system, model


def single_and_batch(quick):
    """Microseconds per call of each function of each model: undula, Pinocchio, and undula in batches of 256."""
    out = {}
    print(
        f"{'model':24s} {'function':18s} {'undula':>9s} {'pinocchio':>10s} {'ratio':>6s} {'256: map':>9s} {'vmap':>9s} {'ratio':>6s}"
    )
    sizes, bases = ((3,), ("fixed",)) if quick else ((11, 50), ("fixed", "free"))
    chains = [(f"chain of {n}, {base} base", chain(n, base)) for n in sizes for base in bases]
    others = () if quick else robots()
    for name, system, model in [*((name, s, to_pinocchio(s)) for name, s in chains), *others]:
        reference = theirs(model)
        out[name] = {}
        state = random_state(system)
        for what, f in FUNCTIONS.items():
            t, _ = ours(f, system, state)
            mapped, batched = batch(f, system)
            r = reference[what]
            out[name][what] = dict(us=t * 1e6, pinocchio_us=r * 1e6, map_us=mapped * 1e6, vmap_us=batched * 1e6)
            print(
                f"{name:24s} {what:18s} {t * 1e6:6.2f} us {r * 1e6:7.2f} us {t / r:6.2f} {mapped * 1e6:6.2f} us "
                f"{batched * 1e6:6.2f} us {min(mapped, batched) / r:6.2f}",
                flush=True,
            )
    return out


def batch(f, system, size=256):
    """Seconds per instance in a batch, by a compiled loop over instances and by vmap."""
    states = jax.tree.map(lambda *x: jnp.stack(x), *(random_state(system, k) for k in range(size)))
    efforts = jnp.ones((size, system.nv))
    out = []
    for mapped in (True, False):

        @jax.jit
        def run(system, states, efforts, mapped=mapped):
            one = lambda x: f(system, x[0], x[1])  # noqa: E731
            return jax.lax.map(one, (states, efforts)) if mapped else jax.vmap(one)((states, efforts))

        jax.block_until_ready(run(system, states, efforts))
        out.append(best(lambda run=run: run(system, states, efforts)) / size)
    return out


def gradients(links=11, steps=200):
    """Ratio of the time of a gradient to that of a simulation, for two integrators."""
    out = {}
    print(f"\ngradient of {steps} steps with respect to the masses, chain of {links} links")
    for method in (un.integrators.RungeKutta4(), un.integrators.SemiImplicitEuler()):
        system = chain(links)
        state = random_state(system)

        def cost(mass, system, state, method=method):
            moved = eqx.tree_at(lambda s: s.mass, system, mass)
            return (un.simulate(moved, state, 1e-3, steps, integrator=method).v[-1] ** 2).sum()

        forward, reverse = jax.jit(cost), jax.jit(jax.grad(cost))
        times = []
        for f in (forward, reverse):
            start = time.perf_counter()
            jax.block_until_ready(f(system.mass, system, state))
            compiled = time.perf_counter() - start
            times += [best(lambda f=f: f(system.mass, system, state)), compiled]
        out[type(method).__name__] = dict(ratio=times[2] / times[0], compile_s=times[3])
        print(
            f"{type(method).__name__:18s} simulation {times[0] * 1e3:.2f} ms, gradient {times[2] * 1e3:.2f} ms, ratio "
            f"{times[2] / times[0]:.1f} (compiled in {times[1]:.1f} s and {times[3]:.1f} s)",
            flush=True,
        )
    return dict(links=links, steps=steps, methods=out)


def scaling(sizes):
    print(f"\n{'links':>6s}" + "".join(f"{name:>20s} {'compile':>8s}" for name in FUNCTIONS))
    table, compiled = [], []
    for n in sizes:
        system = chain(n)
        row = [ours(f, system, random_state(system), calls=max(20, 20_000 // n)) for f in FUNCTIONS.values()]
        table.append([t for t, _ in row])
        compiled.append([c for _, c in row])
        print(f"{n:6d}" + "".join(f"{t * 1e6:17.1f} us {c:6.1f} s" for t, c in row), flush=True)
    columns = dict(zip(FUNCTIONS, np.array(table).T))
    print("exponents: " + ", ".join(f"{name} {exponent(sizes, c):.2f}" for name, c in columns.items()))
    us = {name: [1e6 * t for t in column] for name, column in columns.items()}
    return dict(links=list(sizes), us=us, compile_s=float(np.max(compiled)))


def option():
    """Effect of the fast-loop option: microseconds per inverse dynamics with and without it, on all cores."""
    all_cores()  # without the option JAX dispatches to its threads, which would wait for each other on one core
    found = doctor.examine()
    print(f"\nwith the fast-loop option {found['fast_us']:.2f} us, without it {found['slow_us']:.2f} us")
    return dict(fast_us=found["fast_us"], slow_us=found["slow_us"])


if __name__ == "__main__":
    chosen = options(__doc__)
    print(f"JAX {jax.__version__}, Pinocchio {pin.__version__}, one core, float64; times per call or instance")
    found = dict(table=single_and_batch(chosen.quick))
    found["gradient"] = gradients(*((2, 5) if chosen.quick else ()))
    found["scaling"] = scaling((2, 4) if chosen.quick else (10, 30, 100, 300, 1000))
    found["option"] = option()
    write("dynamics", found, chosen.quick)
