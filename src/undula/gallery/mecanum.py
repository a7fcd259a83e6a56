"""A platform on four mecanum wheels, driven: it goes anywhere without turning; four motors for three motions."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

# name, sign of x, sign of y, sign of the roller's angle, sign of the wheel's rate when the platform turns to the left
WHEELS = (
    ("front-left", 1, 1, -1, -1),
    ("front-right", 1, -1, 1, 1),
    ("rear-left", -1, 1, 1, -1),
    ("rear-right", -1, -1, -1, 1),
)


def build(p: dict) -> Setup:
    l, w, R = p["wheelbase"] / 2, p["track"] / 2, p["radius"]
    b = un.Builder("mecanum", gravity=(0, 0, 0))
    roller = np.pi / 4
    shapes = [
        un.Shape("box", (2.3 * l, 1.7 * w, 0.7 * R), (0, 0, 1.3 * R), colour=(0.90, 0.60, 0.15)),
        un.Shape("box", (0.5 * l, 0.3 * w, 0.1 * R), (0.8 * l, 0, 1.7 * R), colour=(0.95, 0.95, 0.95)),
    ]
    for _, x, y, _, _ in WHEELS:
        shapes += drawing.wheel(R, x * l, y * w, 0.7 * R)
    I = p["inertia"]
    b.base(
        "platform",
        role="free",
        group="SE2",
        mass=p["mass"],
        com=(*p["com"], 0),
        inertia=un.solids.planar_inertia(I),
        shapes=shapes,
    )
    # three patterns of the wheels' angles are compatible: all alike, along the rollers, and left against right
    ahead = un.laws.Sinusoid(p["ahead"], p["rate"])
    aside = un.laws.Sinusoid(p["aside"], p["rate"], np.pi / 2)
    turn = un.laws.Polynomial([0.0, p["turn"]])
    for name, x, y, slant, side in WHEELS:
        b.add(
            un.rows.MecanumWheel(
                name,
                "platform",
                (x * l, y * w, 0),
                radius=R,
                roll=ahead + float(slant) * aside + float(side) * turn,
                roller=slant * roller,
            )
        )
    system = b.build()
    cycle = 2 * np.pi / (abs(p["rate"]) or 1.0)
    return Setup(system, system.state(), t_end=cycle, dt=cycle / 600)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data)


SCENARIO = Scenario(
    name="mecanum",
    summary="A platform on four driven mecanum wheels runs a circle without turning: over-actuated",
    source="Ali 2011, section 3.6.2.2 (wheels with rollers, and all numbers, are ours)",
    parameters=(
        Parameter("mass", 20.0, "kg", "mass of the platform", low=0, open_low=True),
        Parameter("com", (0.05, 0.0), "m", "mass centre (x, y) from the middle of the wheels"),
        Parameter("inertia", 1.0, "kg m^2", "inertia about the vertical through it", low=0, open_low=True),
        Parameter("wheelbase", 0.5, "m", "distance of the axles", low=0, open_low=True),
        Parameter("track", 0.4, "m", "distance of the wheels of an axle", low=0, open_low=True),
        Parameter("radius", 0.08, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("ahead", 10.0, "rad", "amplitude of the wheels' angles that moves it ahead"),
        Parameter("aside", 10.0, "rad", "amplitude of the wheels' angles that moves it to the left"),
        Parameter("turn", 0.0, "rad/s", "rate of the wheels that turns it to the left"),
        Parameter("rate", 1.0, "rad/s", "rate of going ahead and aside"),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS,
)
