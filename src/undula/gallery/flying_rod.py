"""A rod that flies: loaded at one end for a while, then free (Gotelli 2024, section 3.9.1; Simo and Vu-Quoc, 1988)."""

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Scenario, Setup

INCLINED = np.stack([(-0.6, 0.8, 0), (-0.8, -0.6, 0), (0, 0, 1.0)], 1)  # from (0.6, 0) to (0, 0.8), times the length


def tent(t, half):
    """Rises by 80 a second until `half` [s], then falls as fast, to zero."""
    return jnp.where(t < half, 80 * t, jnp.where(t < 2 * half, 160 * half - 80 * t, 0.0))


def soft_force(t):
    return tent(t, 2.5) * jnp.array([0.1, 0.0, 0.0])


def soft_couple(t):
    return tent(t, 2.5) * jnp.array([0.0, -0.5, -1.0])


def stiff_force(t):
    return tent(t, 0.25) * jnp.array([0.5, 0.0, 0.0])


def stiff_couple(t):
    return tent(t, 0.25) * jnp.array([0.0, -0.025, -0.05])


def build(p: dict, length: float, force, couple, material: dict, width: float, duration: float) -> Setup:
    b = un.Builder("flying-rod", gravity=(0, 0, 0))
    b.base("root", role="free", position=(0.6 * length, 0, 0), rotation=INCLINED)
    elastic = un.Rod(
        length=length, strains="kirchhoff", modes=p["modes"], nodes=p["nodes"], colour=rods.RUBBER, drawn=(width, width),
        **material,
    )  # fmt: skip
    b.body("tip", "root", elastic)
    b.add(un.forces.Load("root", un.laws.Function(force, (3,)), un.laws.Function(couple, (3,))))
    system = b.build()
    return Setup(system, system.state(), t_end=duration, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    root, tip = rods.tip(data, "root"), rods.tip(data)
    energy = (data.energy_kinetic + data.energy_potential).values
    free = energy[data.time.values >= 0.5 * data.time.values[-1]]
    names = [f"{end}_{axis}" for end in ("root", "tip") for axis in "xyz"]
    return dict(zip(names, (*root, *tip))) | {
        "iterations": data.iterations.values[1:].mean(),
        "energy_end": energy[-1],
        "energy_drift_free": np.ptp(free),
        "energy_error": measures.energy_error(data),
    }


def scenario(name: str, summary: str, source: str, **what) -> Scenario:
    return Scenario(
        name=name,
        summary=summary,
        source=source,
        parameters=(rods.modes(3), rods.nodes(20)),
        build=lambda p: build(p, **what),
        metrics=metrics,
        metric_units={f"{end}_{axis}": "m" for end in ("root", "tip") for axis in "xyz"}
        | {"iterations": "1", "energy_end": "J", "energy_drift_free": "J", "energy_error": "J"},
    )
