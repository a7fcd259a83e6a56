"""The snake robot Aiko on one core, beside MuJoCo in the same run: wall seconds per simulated second.

    python benchmarks/contact.py

Steps of 1/4000 s, compilation apart. MuJoCo has the same links, spheres and gains, elliptic cones and its usual soft contact; it has
no friction that depends on a direction of the body, so that the run with anisotropic friction is undula's alone.
"""

import time

import undula as un  # first: it sets what JAX reads when it starts

import equinox as eqx  # isort: skip
import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
import numpy as np  # isort: skip

from undula import gallery  # isort: skip
from undula.gallery import aiko  # isort: skip
from undula.integrate.base import Motion  # isort: skip
from undula.integrate.simulate import advance_steps  # isort: skip

RUNS = ("aiko-sidewinding", "aiko-lateral-isotropic", "aiko-lateral")
DT = 1 / 4000
DOCUMENT = {"aiko-sidewinding": 426.0, "aiko-lateral-isotropic": 78.0, "aiko-lateral": 78.0}


def defaults(name: str, **changes) -> dict:
    return {x.name: x.default for x in gallery.load(name).parameters} | changes


def ours(name: str, seconds: float, dt: float = DT, **changes) -> tuple[float, float, np.ndarray]:
    """(seconds a simulated second, of compilation, mean velocity from t = 1 s on) of `seconds` of motion."""
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
    assert int(after.unsolved) < 1e-3 * seconds / dt
    return best / seconds, made, (centre[1] - centre[0]) / (seconds - 1)


def theirs(name: str, seconds: float) -> tuple[float, np.ndarray]:
    """The same by MuJoCo, in a loop of Python that sets the references."""
    import mujoco

    p = defaults(name)
    model = mujoco.MjModel.from_xml_string(_xml(p))
    data = mujoco.MjData(model)
    soft = name == "aiko-sidewinding"
    horizontal, vertical = aiko.gait(p, soft)
    steps = round(seconds / DT)
    times = jnp.arange(steps) * DT
    both = [
        [np.asarray(x) for x in jax.jit(jax.vmap(lambda t, law=law: law(t)[:2]))(times)]
        for law in (horizontal, vertical)
    ]
    wanted = np.empty((steps, 2 * (p["n"] - 1)))
    for k, way in enumerate("hv"):
        value, rate = both[k]
        wanted[:, k::2] = value + p[f"kd_{way}"] / p[f"kp_{way}"] * rate
    start = gallery.load(name).setup().state
    data.qpos[:3], data.qpos[3:7] = np.asarray(start.base.position), np.asarray(start.base.quaternion)
    data.qpos[7:] = np.asarray(start.q)
    mujoco.mj_forward(model, data)
    marks = {}
    started = time.perf_counter()
    for k in range(steps):
        if k == round(1 / DT):
            marks["early"] = data.subtree_com[1].copy()
        data.ctrl[:] = wanted[k]
        mujoco.mj_step(model, data)
    took = time.perf_counter() - started
    return took / seconds, (data.subtree_com[1] - marks["early"]) / (seconds - 1)


def _xml(p: dict) -> str:
    """The robot in MuJoCo's language."""
    L, r, s, m = p["length"], p["radius"], p["sphere_offset"], p["mass"] / p["n"]
    inertia = f"{p['inertia_long']} {p['inertia_across']} {p['inertia_across']}"

    def link(i: int) -> str:
        c = 0.0 if i == 1 else -L / 2
        joints = "<freejoint/>" if i == 1 else f'<joint name="h{i}" axis="0 0 1"/><joint name="v{i}" axis="0 -1 0"/>'
        place = f"0 0 {r}" if i == 1 else f"{-L / 2 if i == 2 else -L} 0 0"
        spheres = "".join(f'<geom type="sphere" size="{r}" pos="{c + x} 0 0" mass="0"/>' for x in (s, -s))
        inside = link(i + 1) if i < p["n"] else ""
        return f'<body pos="{place}">{joints}<inertial pos="{c} 0 0" mass="{m}" diaginertia="{inertia}"/>{spheres}{inside}</body>'

    motors = "".join(
        f'<position joint="{way}{i}" kp="{p[f"kp_{way}"]}" kv="{p[f"kd_{way}"]}"/>'
        for i in range(2, p["n"] + 1)
        for way in "hv"
    )
    return f"""<mujoco><option timestep="{DT}" cone="elliptic" integrator="implicitfast"/>
      <compiler angle="radian"/>
      <default><geom friction="{p["mu_x"]} 0 0" condim="3" contype="1" conaffinity="2"/></default>
      <worldbody><geom type="plane" size="9 9 1" contype="2" conaffinity="1" friction="{p["mu_x"]} 0 0"/>{link(1)}</worldbody>
      <actuator>{motors}</actuator></mujoco>"""


def main() -> None:
    print("wall seconds per simulated second, one core, steps of 1/4000 s (document 003: Matlab on a Pentium-M)")
    print(
        f"{'run':26s}{'undula':>9s}{'us/step':>9s}{'MuJoCo':>9s}{'ratio':>7s}{'document':>10s}   mean velocity [m/s], MuJoCo's"
    )
    for name in RUNS:
        seconds = 10.0
        mine, made, v = ours(name, seconds)
        other, w = theirs(name, seconds) if name != "aiko-lateral" else (np.nan, np.full(3, np.nan))
        print(
            f"{name:26s}{mine:9.3f}{1e6 * mine * DT:9.1f}{other:9.3f}{other / mine:7.1f}{DOCUMENT[name]:10.0f}   "
            f"({v[0]:.4f}, {v[1]:.4f}), ({w[0]:.4f}, {w[1]:.4f}); compile {made:.1f} s",
            flush=True,
        )
    mine, _, v = ours("aiko-sidewinding", 10.0, 1 / 1000)
    print(f"sidewinding in steps of 1/1000 s: {mine:.4f}, mean velocity ({v[0]:.4f}, {v[1]:.4f})")
    links, times = (5, 10, 20, 50, 100), []
    for n in links:
        mine, made, _ = ours("aiko-sidewinding", 2.0, n=n)
        times.append(mine * DT)
        print(f"sidewinding with {n:3d} links: {1e6 * mine * DT:8.1f} us a step, compile {made:.1f} s", flush=True)
    print(f"exponent over the links: {np.polyfit(np.log(links), np.log(times), 1)[0]:.2f}")


if __name__ == "__main__":
    main()
