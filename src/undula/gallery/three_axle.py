"""Three wheeled bodies and two driven joints: the shape alone gives the motion (Ali 2011, section 3.3.1)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

RADIUS = 0.04  # of the wheels [m]
COLOURS = ((0.80, 0.27, 0.22), (0.20, 0.60, 0.33), (0.13, 0.47, 0.71))


def build(p: dict) -> Setup:
    l, m = p["half_length"], p["mass"]
    b = un.Builder("three-axle", gravity=(0, 0, 0))

    def body(k, centre):
        """A bar with its axle and its mass centre in the middle."""
        bar = un.Shape("box", (1.9 * l, 0.05, 0.025), (centre, 0, 2.2 * RADIUS), colour=COLOURS[k])
        return dict(
            mass=m,
            com=(centre, 0, 0),
            inertia=un.solids.box_inertia(m, (2 * l, 0.05, 0.025)),
            shapes=[bar, *drawing.axle(RADIUS, 0.15, centre)],
        )

    b.base("middle", role="free", group="SE2", **body(1, 0.0))
    b.body("front", "middle", un.Revolute((0, 0, 1), name="joint1"), position=(l, 0, 0), **body(0, l))
    b.body("rear", "middle", un.Revolute((0, 0, 1), name="joint2"), position=(-l, 0, 0), **body(2, -l))
    b.drive(
        ["joint1", "joint2"], un.laws.Sinusoid(list(p["amplitude"]), p["rate"], list(p["phase"]), list(p["offset"]))
    )
    for name, x in (("front", l), ("middle", 0.0), ("rear", -l)):
        b.add(un.rows.Skate(f"{name}-axle", name, (x, 0, 0)))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["rate"]) or 1.0)
    return Setup(system, system.state(), t_end=5 * cycle, dt=cycle / 400)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {"effort_max": np.abs(data.effort.values).max()}


SCENARIO = Scenario(
    name="three-axle",
    summary="Three wheeled bodies and two driven joints: fully constrained, the motion follows from the shape alone",
    source="Ali 2011, section 3.3.1 (numbers are ours)",
    parameters=(
        Parameter("half_length", 0.15, "m", "half the length of each body", low=0, open_low=True),
        Parameter("mass", 1.0, "kg", "mass of each body", low=0, open_low=True),
        Parameter("amplitude", (0.4, 0.4), "rad", "amplitudes of the front and the rear joint"),
        Parameter("rate", 2.0, "rad/s", "rate of the joints"),
        Parameter("phase", (0.0, np.pi / 2), "rad", "phases of the joints"),
        Parameter(
            "offset", (0.6, 0.6), "rad", "means of the joints; an arc (joint1 = -joint2) is singular: the axles meet"
        ),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {"effort_max": "N m"},
)
