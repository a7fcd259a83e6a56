"""An RX-90-like arm on a fixed base, in gravity: three joints move, three are held (Ali 2011, section 4.4)."""

import numpy as np

import undula as un
from undula.scenario.scenario import Parameter, Scenario, Setup

R2, D3, R4 = 0.42, 0.45, 0.45  # m, the document's: shoulder height, upper arm, forearm
# Khalil's modified Denavit-Hartenberg table (alpha, d, r) of the RX-90; the wrist is held at zero
TABLE = (
    (0.0, 0.0, R2),
    (np.pi / 2, 0.0, 0.0),
    (0.0, D3, 0.0),
    (-np.pi / 2, 0.0, R4),
    (np.pi / 2, 0.0, 0.0),
    (-np.pi / 2, 0.0, 0.0),
)


def add_arm(b: un.Builder, p: dict, parent: str, height: float = 0.0) -> None:
    """The arm, standing on a body at a height [m]; its joints are driven, those of the wrist at zero."""
    # cylinders (the document says no more): mass, radius, then centre, length and axis in the frame of the link
    radius = p["radius"]
    solids = (
        (p["mass"][0], (0, 0, -R2 / 2), R2, "z"),
        (p["mass"][1], (D3 / 2, 0, 0), D3, "x"),
        (p["mass"][2], (0, R4 / 2, 0), R4, "y"),
        (p["wrist_mass"] / 3, (0, 0, 0), 2 * radius, "z"),
        (p["wrist_mass"] / 3, (0, 0, 0), 2 * radius, "z"),
        (p["wrist_mass"] / 3, (0, 0, 0.05), 0.1, "z"),
    )
    turn = {"z": (1.0, 0, 0, 0), "x": (0.5**0.5, 0, 0.5**0.5, 0), "y": (0.5**0.5, -(0.5**0.5), 0, 0)}
    for j, ((alpha, d, r), (m, centre, length, axis)) in enumerate(zip(TABLE, solids), start=1):
        c, s = np.cos(alpha), np.sin(alpha)
        name = f"link{j}"
        width = radius if j < 4 else 0.6 * radius
        b.body(
            name,
            parent,
            un.Revolute((0, 0, 1), name=f"joint{j}"),
            mass=m,
            com=centre,
            inertia=un.solids.cylinder_inertia(m, width, length, axis),
            position=(d, -r * s, r * c + (height if j == 1 else 0.0)),
            rotation=np.array([[1, 0, 0], [0, c, -s], [0, s, c]]),
            shapes=[
                un.Shape(
                    "capsule",
                    (0.92 * width if j == 2 else width, length),  # or the skins of crossing links would flicker
                    centre,
                    turn[axis],
                    ((0.93, 0.76, 0.2), (0.85, 0.5, 0.1))[j % 2],
                )
            ],
        )
        parent = name
    b.drive(["joint1", "joint2", "joint3"], un.laws.Sinusoid(list(p["amplitude"]), list(p["rate"])))
    b.drive(["joint4", "joint5", "joint6"], un.laws.Constant([0.0, 0.0, 0.0]))


def build(p: dict) -> Setup:
    b = un.Builder("robot-arm", gravity=(0, 0, -p["gravity"]))
    b.base("ground", shapes=[un.Shape("cylinder", (0.16, 0.04), (0, 0, 0.02), colour=(0.3, 0.3, 0.3))])
    add_arm(b, p, "ground")
    system = b.build()
    return Setup(system, system.state(), t_end=10.0, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    work = np.trapezoid(data.power_actuators.values, data.time.values)
    out = {f"torque{j + 1}_max": np.abs(data.effort.values[:, j]).max() for j in range(6)}
    return out | {"work": work}


SCENARIO = Scenario(
    name="robot-arm",
    summary="An RX-90-like arm on a fixed base: joint torques of a given motion in gravity",
    source="Ali 2011, section 4.4 (masses and radii are ours)",
    parameters=(
        Parameter("amplitude", (1.0, 1.0, 1.0), "rad", "amplitude of the joints 1 to 3"),
        Parameter("rate", (1.0, 1.0, 1.0), "rad/s", "rate of the joints 1 to 3"),
        Parameter("mass", (25.0, 15.0, 10.0), "kg", "masses of the links 1 to 3", low=0, open_low=True),
        Parameter("wrist_mass", 3.0, "kg", "mass of the wrist and the tool", low=0, open_low=True),
        Parameter("radius", 0.07, "m", "radius of the links", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={f"torque{j + 1}_max": "N m" for j in range(6)} | {"work": "J"},
)
