"""A thin disc that rolls on the ground on its exact contact (Boyer & Belkhiri 2013, section II: constraints, no actuator)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

RIM, SPOKE = (0.75, 0.55, 0.2), (0.25, 0.2, 0.1)


def build(p: dict) -> Setup:
    r, m, lean = p["radius"], p["mass"], p["lean"]
    b = un.Builder("rolling-disc", gravity=(0, 0, -p["gravity"]))
    b.base(
        "disc",
        role="free",
        mass=m,
        inertia=(m * r * r / 4, m * r * r / 2, m * r * r / 4),
        position=(0, 0, r * np.cos(lean)),
        rotation=(np.cos(lean / 2), np.sin(lean / 2), 0, 0),
        shapes=[
            un.Shape("cylinder", (r, 0.02 * r), (0, 0, 0), drawing.ALONG_Y, RIM),
            un.Shape("box", (1.9 * r, 0.05 * r, 0.08 * r), colour=SPOKE),
            un.Shape("box", (0.08 * r, 0.05 * r, 1.9 * r), colour=SPOKE),
        ],
    )
    b.add(un.rows.RollingDisc("ground", "disc", r))
    system = b.build()
    # spin about the axle (y) and turning about the vertical, in the disc's axes; its lowest point, at -r z, is at rest
    w = np.array([0.0, p["spin"] + p["turning"] * np.sin(lean), p["turning"] * np.cos(lean)])
    start = system.state(base_twist=(r * w[1], -r * w[0], 0.0, *w))
    return Setup(system, start, t_end=6.0, dt=2e-3)


def metrics(setup: Setup, data) -> dict[str, float]:
    from scipy.spatial.transform import Rotation

    axle = Rotation.from_quat(data.base_quaternion.values, scalar_first=True).apply((0, 1, 0))
    lean = np.arcsin(np.clip(axle[:, 2], -1, 1))
    return {
        "lean_min": lean.min(),
        "lean_max": lean.max(),
        "path": np.linalg.norm(np.diff(data.base_position.values[:, :2], axis=0), axis=1).sum(),
        "lift_force_min": data.reaction.values[:, 0].min(),
        "energy_drift": measures.energy_drift(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="rolling-disc",
    summary="A thin disc released leaning and spinning: rolls without slip on its exact contact, energy kept",
    source="Boyer & Belkhiri 2013, section II (constraints on a free body; numbers are ours)",
    parameters=(
        Parameter("radius", 0.3, "m", "radius of the disc", low=0, open_low=True),
        Parameter("mass", 1.0, "kg", "mass of the disc", low=0, open_low=True),
        Parameter("lean", 0.3, "rad", "initial lean of its plane from the vertical, to its right", low=-1.5, high=1.5),
        Parameter("spin", 8.0, "rad/s", "initial rate about its axle"),
        Parameter("turning", 0.0, "rad/s", "initial rate of its heading"),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "lean_min": "rad",
        "lean_max": "rad",
        "path": "m",
        "lift_force_min": "N",
        "energy_drift": "J",
        "residual": "mixed",
    },
)
