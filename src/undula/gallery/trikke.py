"""A trikke: three wheels, and a rider who steers and shifts from side to side (named in Ali 2011, section 2.3.6)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

RADIUS = 0.1  # of the wheels [m]
BAR, LEG, RIDER = (0.80, 0.27, 0.22), (0.35, 0.35, 0.4), (0.13, 0.47, 0.71)


def build(p: dict) -> Setup:
    l, half, trail = p["wheelbase"], p["track"] / 2, p["trail"]
    b = un.Builder("trikke", gravity=(0, 0, 0))

    def leg(y):
        """From the steering column back to a rear wheel."""
        angle = np.arctan2(y, -l)
        turn = (np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2))
        return un.Shape("box", (np.hypot(l, y), 0.06, 0.04), (l / 2, y / 2, 2.3 * RADIUS), turn, LEG)

    # the frame: its origin is between the rear wheels, x points to the steering column
    I = p["frame_inertia"]
    b.base(
        "frame",
        role="free",
        group="SE2",
        mass=p["frame_mass"],
        com=(p["frame_com"], 0, 0),
        inertia=un.solids.planar_inertia(I),
        shapes=[leg(half), leg(-half), *drawing.wheel(RADIUS, 0, half), *drawing.wheel(RADIUS, 0, -half)],
    )
    I = p["fork_inertia"]
    b.body(
        "fork",
        "frame",
        un.Revolute(
            (0, 0, 1), name="steer", motion=un.laws.Sinusoid(p["steer_amplitude"], p["rate"], p["steer_phase"])
        ),
        mass=p["fork_mass"],
        inertia=un.solids.planar_inertia(I),
        position=(l, 0, 0),
        shapes=[
            *drawing.wheel(RADIUS, -trail),
            un.Shape("cylinder", (0.02, 0.8), (0, 0, 0.6), colour=BAR),
            un.Shape("cylinder", (0.02, 0.5), (0, 0, 1.0), drawing.ALONG_Y, BAR),
        ],
    )
    # cylinder about the vertical: the rider stands between the legs
    b.body(
        "rider",
        "frame",
        un.Prismatic(
            (0, 1, 0), name="shift", motion=un.laws.Sinusoid(p["shift_amplitude"], p["rate"], p["shift_phase"])
        ),
        mass=p["rider_mass"],
        inertia=un.solids.cylinder_inertia(p["rider_mass"], 0.15, 1.7),
        position=(p["rider_place"], 0, 0),
        shapes=[
            un.Shape("capsule", (0.13, 0.9), (0, 0, 0.85), colour=RIDER),
            un.Shape("sphere", (0.12,), (0, 0, 1.6), colour=(0.90, 0.75, 0.62)),
        ],
    )
    b.add(un.rows.Wheel("front-wheel", "fork", (-trail, 0, 0), radius=RADIUS))
    b.add(un.rows.Wheel("left-wheel", "frame", (0, half, 0), radius=RADIUS))
    b.add(un.rows.Wheel("right-wheel", "frame", (0, -half, 0), radius=RADIUS))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["rate"]) or 1.0)
    return Setup(system, system.state(), t_end=8 * cycle, dt=cycle / 400)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {
        "speed_max": np.abs(data.base_twist.values[:, 0]).max(),
        "effort_max": np.abs(data.effort.values).max(),
    }


SCENARIO = Scenario(
    name="trikke",
    summary="A rider on three wheels steers and shifts from side to side, and so drives forward",
    source="Ali 2011, section 2.3.6 (only named there: the model, on level ground and without leaning, is ours)",
    parameters=(
        Parameter("wheelbase", 0.9, "m", "from the rear wheels to the steering column", low=0, open_low=True),
        Parameter("track", 0.6, "m", "distance of the rear wheels", low=0, open_low=True),
        Parameter("trail", 0.05, "m", "from the column back to the front wheel's contact"),
        Parameter("frame_mass", 8.0, "kg", "mass of the frame", low=0, open_low=True),
        Parameter("frame_com", 0.35, "m", "its mass centre in front of the rear wheels"),
        Parameter("frame_inertia", 1.0, "kg m^2", "its inertia about the vertical", low=0, open_low=True),
        Parameter("fork_mass", 2.0, "kg", "mass of the fork", low=0, open_low=True),
        Parameter("fork_inertia", 0.05, "kg m^2", "its inertia about the column", low=0, open_low=True),
        Parameter("rider_mass", 70.0, "kg", "mass of the rider", low=0, open_low=True),
        Parameter("rider_place", 0.2, "m", "the rider in front of the rear wheels"),
        Parameter("rate", 4.0, "rad/s", "rate of steering and shifting"),
        Parameter("steer_amplitude", 0.4, "rad", "amplitude of the steering", low=-1.2, high=1.2),
        Parameter("steer_phase", np.pi / 2, "rad", "phase of the steering"),
        Parameter("shift_amplitude", 0.1, "m", "amplitude of the shifting"),
        Parameter("shift_phase", np.pi / 2, "rad", "phase of the shifting"),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {"speed_max": "m/s", "effort_max": "N or N m"},
)
