"""The snake robot Aiko in MuJoCo: the same links, spheres, gains and gait, with MuJoCo's own contact model."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from undula import gallery
from undula.gallery import aiko


class Twin:
    """The robot of a gallery entry, at its start.

    - `dt` [s]: must be small, since MuJoCo's proportional gains are explicit; `changes`: of the entry's parameters.
    - `stiff`: contacts with a time constant of 2 ms instead of 20, and friction ten times as stiff as the contacts.
    """

    def __init__(self, name: str, seconds: float, dt: float = 1 / 4000, stiff: bool = False, **changes):
        p = gallery.load(name).values(changes)
        self.model = mujoco.MjModel.from_xml_string(xml(p, dt, stiff))
        self.data = mujoco.MjData(self.model)
        self.wanted = _targets(p, name == "aiko-sidewinding", np.arange(round(seconds / dt)) * dt)
        start = gallery.load(name).setup(**changes).state
        self.data.qpos[:3], self.data.qpos[3:7] = np.asarray(start.base.position), np.asarray(start.base.quaternion)
        self.data.qpos[7:] = np.asarray(start.q)
        mujoco.mj_forward(self.model, self.data)

    def centres(self) -> np.ndarray:
        """(steps + 1, 3): the centre of mass at each step [m]."""
        out = [self.data.subtree_com[1].copy()]
        for target in self.wanted:
            self.data.ctrl[:] = target
            mujoco.mj_step(self.model, self.data)
            out.append(self.data.subtree_com[1].copy())
        return np.array(out)


def _targets(p: dict, soft: bool, times: np.ndarray) -> np.ndarray:
    """Targets of the position servos: the reference, plus its rate through the gains."""
    out = np.empty((len(times), 2 * (p["n"] - 1)))
    for k, (way, law) in enumerate(zip("hv", aiko.gait(p, soft))):
        value, rate = (np.asarray(x) for x in jax.jit(jax.vmap(lambda t, law=law: law(t)[:2]))(jnp.asarray(times)))
        out[:, k::2] = value + p[f"kd_{way}"] / p[f"kp_{way}"] * rate
    return out


def xml(p: dict, dt: float, stiff: bool) -> str:
    """The robot as MuJoCo XML."""
    L, r, s, m = p["length"], p["radius"], p["sphere_offset"], p["mass"] / p["n"]
    inertia = f"{p['inertia_long']} {p['inertia_across']} {p['inertia_across']}"

    def link(i: int) -> str:
        c = 0.0 if i == 1 else -L / 2
        joints = "<freejoint/>" if i == 1 else f'<joint name="h{i}" axis="0 0 1"/><joint name="v{i}" axis="0 -1 0"/>'
        place = f"0 0 {r}" if i == 1 else f"{-L / 2 if i == 2 else -L} 0 0"
        spheres = "".join(f'<geom type="sphere" size="{r}" pos="{c + x} 0 0" mass="0"/>' for x in (s, -s))
        inside = link(i + 1) if i < p["n"] else ""
        mass = f'<inertial pos="{c} 0 0" mass="{m}" diaginertia="{inertia}"/>'
        return f'<body pos="{place}">{joints}{mass}{spheres}{inside}</body>'

    motors = "".join(
        f'<position joint="{way}{i}" kp="{p[f"kp_{way}"]}" kv="{p[f"kd_{way}"]}"/>'
        for i in range(2, p["n"] + 1)
        for way in "hv"
    )
    friction = f'friction="{p["mu_x"]} 0 0"' + (' solref="0.002 1"' if stiff else "")
    return f"""<mujoco>
      <option timestep="{dt}" cone="elliptic" integrator="implicitfast" impratio="{10 if stiff else 1}"/>
      <compiler angle="radian"/>
      <default><geom {friction} condim="3" contype="1" conaffinity="2"/></default>
      <worldbody><geom type="plane" size="9 9 1" contype="2" conaffinity="1"/>{link(1)}</worldbody>
      <actuator>{motors}</actuator></mujoco>"""
