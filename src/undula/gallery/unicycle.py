"""A platform on two wheels of one axle and a castor: two motors give its whole motion, or one motor a part of it."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

SIDES = {"left": 1.0, "right": -1.0}


def build(p: dict) -> Setup:
    R, half = p["radius"], p["track"] / 2
    b = un.Builder("unicycle", gravity=(0, 0, 0))
    b.base(
        "platform",
        role="free",
        group="SE2",
        mass=p["mass"],
        com=(p["com"], 0, 0),
        inertia=(p["inertia"] / 2, p["inertia"] / 2, p["inertia"]),
        shapes=[
            un.Shape("cylinder", (1.1 * half, 0.8 * R), (0, 0, 1.4 * R), colour=(0.20, 0.60, 0.33)),
            un.Shape("box", (0.5 * half, 0.12 * half, 0.1 * R), (0.8 * half, 0, 1.85 * R), colour=(0.95, 0.95, 0.95)),
            un.Shape("sphere", (0.4 * R,), (0.8 * half, 0, 0.4 * R), colour=drawing.HUB),  # a castor: no constraint
            *drawing.axle(R, 2 * half),
        ],
    )
    # the angle of a wheel: a mean rate and a swing; a wheel without a motor turns as it must
    for k, (side, sign) in enumerate(SIDES.items()):
        angle = un.laws.Polynomial([0.0, p["rate"][k]]) + un.laws.Sinusoid(p["swing"][k], p["swing_rate"])
        motor = p["motors"] in ("both", side)
        b.add(un.rows.Wheel(side, "platform", position=(0, sign * half, 0), radius=R, roll=angle if motor else None))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["swing_rate"]) or 1.0)
    return Setup(system, system.state(), t_end=2 * cycle, dt=cycle / 600)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data)


SCENARIO = Scenario(
    name="unicycle",
    summary="A platform on two wheels of one axle: both driven, it follows its wheels; one driven, it also coasts",
    source="Ali 2011, sections 2.3.4 and 3.8.1 (numbers are ours)",
    parameters=(
        Parameter("mass", 10.0, "kg", "mass of the platform", low=0, open_low=True),
        Parameter("com", 0.05, "m", "distance of the mass centre in front of the axle"),
        Parameter("inertia", 0.3, "kg m^2", "inertia about the vertical through the mass centre", low=0, open_low=True),
        Parameter("radius", 0.1, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("track", 0.4, "m", "distance of the wheels", low=0, open_low=True),
        Parameter("rate", (3.0, 3.0), "rad/s", "mean rates of the left and the right wheel"),
        Parameter("swing", (3.0, -3.0), "rad", "amplitudes of the swings added to the wheels' angles"),
        Parameter("swing_rate", 1.0, "rad/s", "rate of the swings"),
        Parameter("motors", "both", "", "which wheels are driven", choices=("both", "left", "right")),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS,
)
