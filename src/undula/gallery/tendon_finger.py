"""A finger with two antagonist tendons: held by constant tensions, then moved by tensions in turn (Gotelli 2024, (2.32))."""

import numpy as np

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    d = p["diameter"]
    b = un.Builder("tendon-finger", gravity=(0, 0, -p["gravity"]))
    b.base("palm", shapes=[un.Shape("box", (2.5 * d, 2.5 * d, d), (0, 0, d / 2), colour=rods.CLAMP)])
    elastic = rods.soft(p, "planar-kirchhoff")
    b.body("tip", "palm", elastic, rotation=rods.DOWN, shapes=[un.Shape("sphere", (0.55 * d,), colour=rods.STEEL)])
    T0, T1, w = p["tension"], p["amplitude"], p["rate"]
    for side, sign in (("front", 1), ("back", -1)):
        # (3.67): T = T0 + T1 sin(w t +- pi / 2), which starts with one tendon tight and the other slack
        pull = un.laws.Sinusoid(T1, w, sign * np.pi / 2, T0)
        b.add(un.forces.Tendon(side, "tip", (sign * p["offset"], 0.0), tension=pull))
    system = b.build()
    return Setup(system, lambda system: un.equilibrium(system).state, t_end=4.0, dt=0.005)


def metrics(setup: Setup, data) -> dict[str, float]:
    start = rods.tip(data, sample=0)
    angle = measures.headings(data, "tip", plane=(0, 2))
    return {
        "start_x": start[0],
        "start_z": start[2],
        "start_angle": angle[0] + np.pi / 2,
        "tip_x_max": data.body_position.sel(body="tip").values[:, 0].max(),
        "tip_x_min": data.body_position.sel(body="tip").values[:, 0].min(),
        "tension_max": data.tendon_tension.values.max(),
        "energy_error": measures.energy_error(data),
    }


SCENARIO = Scenario(
    name="tendon-finger",
    summary="A soft finger with two antagonist tendons: an equilibrium first, then bending to and fro",
    source="Gotelli 2024, section 2.3 and eq. (3.67) (numbers are ours)",
    parameters=(
        *rods.material(0.15, 0.015, 1e6, 1100.0, 0.01),
        Parameter("offset", 0.006, "m", "distance of the tendons from the axis", low=0),
        Parameter("tension", 2.0, "N", "mean tension", low=0),
        Parameter("amplitude", 2.0, "N", "amplitude of the tensions, at most the mean", low=0),
        Parameter("rate", 2 * np.pi, "rad/s", "rate of the tensions"),
        rods.modes(3, "the curvature"),
        rods.nodes(12),
        Parameter("gravity", 9.81, "m/s^2", "gravity, along -z", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "start_x": "m",
        "start_z": "m",
        "start_angle": "rad",
        "tip_x_max": "m",
        "tip_x_min": "m",
        "tension_max": "N",
        "energy_error": "J",
    },
)
