"""Two wheeled bodies and one driven joint: two constraints for three motions (Ali 2011, section 3.3.1)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

RADIUS = 0.05  # of the wheels [m]


def build(p: dict) -> Setup:
    front, rear, track = p["front_length"], p["rear_length"], p["track"]
    b = un.Builder("two-axle", gravity=(0, 0, 0))

    def inertial(k, centre):
        I = p["inertia"][k]
        return dict(mass=p["mass"][k], com=(centre, 0, 0), inertia=un.solids.planar_inertia(I))

    def beam(length, colour):
        return un.Shape("box", (length, 0.25 * track, 0.03), (-length / 2, 0, 2.2 * RADIUS), colour=colour)

    # the front body's frame is at its axle, the rear body's at the joint; mass centres are at the axles
    b.base(
        "front",
        role="free",
        group="SE2",
        **inertial(0, 0.0),
        shapes=[beam(front, (0.80, 0.27, 0.22)), *drawing.axle(RADIUS, track)],
    )
    b.body(
        "rear",
        "front",
        un.Revolute((0, 0, 1), name="joint"),
        **inertial(1, -rear),
        position=(-front, 0, 0),
        shapes=[beam(rear, (0.13, 0.47, 0.71)), *drawing.axle(RADIUS, track, -rear)],
    )
    b.drive("joint", un.laws.Sinusoid(p["amplitude"], p["rate"], p["phase"], p["offset"]))
    # one wheel can stand for an axle: its side row is that of both
    angle = un.laws.Polynomial([0.0, p["wheel_rate"]]) if p["motor"] else None
    wheels = [
        un.rows.Wheel("front-axle", "front", radius=RADIUS, roll=angle),
        un.rows.Wheel("rear-axle", "rear", (-rear, 0, 0), radius=RADIUS),
    ]
    slip = un.rows.Viscous(p["friction"])
    b.add(*(wheel.slipping(slip) if p["friction"] else wheel for wheel in wheels))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["rate"]) or 1.0)
    return Setup(system, system.state(), t_end=5 * cycle, dt=cycle / 600)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {"effort_max": np.abs(data.effort.values).max()}


SCENARIO = Scenario(
    name="two-axle",
    summary="Two wheeled bodies wriggle about one driven joint: under-constrained, so that dynamics decides",
    source="Ali 2011, section 3.3.1 (numbers are ours)",
    parameters=(
        Parameter("mass", (3.0, 1.0), "kg", "masses of the front and the rear body", low=0, open_low=True),
        Parameter(
            "inertia", (0.03, 0.01), "kg m^2", "inertias about their mass centres (at the axles)", low=0, open_low=True
        ),
        Parameter("front_length", 0.15, "m", "from the front axle back to the joint", low=0),
        Parameter("rear_length", 0.2, "m", "from the joint back to the rear axle", low=0),
        Parameter("track", 0.2, "m", "distance of the wheels, for the drawing", low=0, open_low=True),
        Parameter("amplitude", 0.8, "rad", "amplitude of the joint"),
        Parameter("rate", 3.0, "rad/s", "rate of the joint"),
        Parameter("phase", np.pi / 2, "rad", "phase of the joint; the default starts with the joint at rest"),
        Parameter("offset", 0.0, "rad", "mean of the joint"),
        Parameter("motor", False, "", "whether a motor turns the front wheels: then the motion is fully constrained"),
        Parameter("wheel_rate", 4.0, "rad/s", "rate of the front wheels with the motor"),
        Parameter("friction", 0.0, "N s/m", "viscous friction of wheels that slip; 0: ideal wheels", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {"effort_max": "N m"},
)
