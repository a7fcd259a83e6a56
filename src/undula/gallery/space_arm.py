"""A six-joint arm on a free-flying base: the base reacts to every move of the arm (Ali 2011, section 3.4)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup

# name, joint axis, length of the link along z [m]: a shoulder, two long links and a wrist (our numbers)
LINKS = (
    ("shoulder", (0, 0, 1), 0.25),
    ("upper-arm", (0, 1, 0), 0.9),
    ("forearm", (0, 1, 0), 0.8),
    ("wrist1", (0, 0, 1), 0.15),
    ("wrist2", (0, 1, 0), 0.15),
    ("hand", (0, 0, 1), 0.2),
)
RADIUS = 0.06


def build(p: dict) -> Setup:
    size = (1.2, 0.9, 0.9)
    b = un.Builder("space-arm", gravity=(0, 0, 0))
    b.base(
        "spacecraft",
        role="free",
        mass=p["base_mass"],
        inertia=un.solids.box_inertia(p["base_mass"], size),
        shapes=[
            un.Shape("box", size, colour=(0.8, 0.8, 0.82)),
            un.Shape("box", (0.5, 3.0, 0.03), (0, 1.95, 0), colour=(0.15, 0.2, 0.45)),
            un.Shape("box", (0.5, 3.0, 0.03), (0, -1.95, 0), colour=(0.15, 0.2, 0.45)),
        ],
    )
    parent, at = "spacecraft", (0.3, 0, 0.45)
    for k, (name, axis, length) in enumerate(LINKS):
        mass = p["arm_mass"] * length / sum(l for _, _, l in LINKS)
        b.body(
            name,
            parent,
            un.Revolute(axis),
            mass=mass,
            com=(0, 0, length / 2),
            inertia=un.solids.cylinder_inertia(mass, RADIUS, length),
            position=at,
            shapes=[
                un.Shape(
                    "capsule",
                    (RADIUS, length),
                    (0, 0, length / 2),
                    colour=((0.90, 0.45, 0.13), (0.95, 0.95, 0.95))[k % 2],
                )
            ],
        )
        parent, at = name, (0, 0, length)
    # each joint goes to its goal at rest to rest, and comes back: a retraced path brings the base back too
    half = p["duration"] / 2
    goal = np.array(p["goal"])
    b.drive(
        [name for name, _, _ in LINKS],
        un.laws.Quintic(np.zeros(6), goal, 0.0, half) + un.laws.Quintic(np.zeros(6), -goal, half, 2 * half),
    )
    system = b.build()
    return Setup(system, measures.at_rest, t_end=p["duration"], dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    middle = int(np.abs(data.time.values - data.time.values[-1] / 2).argmin())
    return {
        "rotation_at_goal": measures.net_rotation(data, (0, middle)),
        "net_rotation": measures.net_rotation(data),
        "momentum_max": measures.angular_momentum(data).max(),
        "effort_max": np.abs(data.effort.values).max(),
    }


SCENARIO = Scenario(
    name="space-arm",
    summary="A six-joint arm on a free-flying base reaches out and back: the base turns and returns",
    source="Ali 2011, section 3.4.3 (numbers are ours)",
    parameters=(
        Parameter("base_mass", 200.0, "kg", "mass of the spacecraft", low=0, open_low=True),
        Parameter("arm_mass", 60.0, "kg", "mass of the arm, shared by length", low=0, open_low=True),
        Parameter("goal", (1.2, 1.0, -1.4, 0.5, 0.8, -0.6), "rad", "joint angles half-way"),
        Parameter("duration", 10.0, "s", "time of the move, out and back", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={"rotation_at_goal": "rad", "net_rotation": "rad", "momentum_max": "kg m^2/s", "effort_max": "N m"},
)
