"""A rigid body with four soft arms, free in space: two arms are moved by tendons, the others follow."""

import numpy as np

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    r, d, m = p["radius"], p["diameter"], p["mass"]
    b = un.Builder("rod-tree", gravity=(0, 0, 0))
    hull = un.Shape("cylinder", (r, 0.6 * r), colour=(0.80, 0.27, 0.22))
    b.base("body", role="free", mass=m, inertia=un.solids.cylinder_inertia(m, r, 0.6 * r, "z"), shapes=[hull])
    soft = rods.soft(p, "kirchhoff")
    for k in range(4):
        c, s = np.cos(k * np.pi / 2), np.sin(k * np.pi / 2)
        out = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
        b.body(f"arm{k + 1}", "body", soft, position=(r * c, r * s, 0), rotation=out)
        if k % 2 == 0:  # a tendon on top of the arms 1 and 3: they flap
            pull = un.laws.Sinusoid(p["tension"] / 2, p["rate"], -np.pi / 2, p["tension"] / 2)
            b.add(un.forces.Tendon(f"tendon{k + 1}", f"arm{k + 1}", (0.0, 0.4 * d), tension=pull))
    system = b.build()
    return Setup(system, system.state(), t_end=4.0, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    return {
        "body_z_range": np.ptp(data.base_position.values[:, 2]),
        "arm2_tip_z_range": np.ptp(data.body_position.sel(body="arm2").values[:, 2]),
        "momentum_max": np.abs(data.momentum.values).max(),
        "energy_error": measures.energy_error(data),
        "iterations": data.iterations.values[1:].mean(),
    }


SCENARIO = Scenario(
    name="rod-tree",
    summary="A free body with four soft arms, two of them flapped by tendons: a jellyfish in vacuum",
    source="Gotelli 2024, section 3 (rods on a floating base; numbers are ours)",
    parameters=(
        Parameter("mass", 0.5, "kg", "mass of the body", low=0, open_low=True),
        Parameter("radius", 0.08, "m", "radius of the body", low=0, open_low=True),
        *rods.material(0.4, 0.025, 1e6, 1100.0, 0.01),
        Parameter("tension", 8.0, "N", "largest tension of the tendons", low=0),
        Parameter("rate", 6.0, "rad/s", "rate of the tensions"),
        rods.modes(2),
        rods.nodes(10),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "body_z_range": "m",
        "arm2_tip_z_range": "m",
        "momentum_max": "kg m/s, kg m²/s",
        "energy_error": "J",
        "iterations": "1",
    },
)
