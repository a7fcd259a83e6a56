"""A car: two front wheels, steered so that nothing slips and driven, and two rear wheels that follow (000, section 4.4)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.gallery.steering import FrontAngle, FrontSpeed
from undula.scenario.scenario import Parameter, Scenario, Setup

KNUCKLE = 0.02  # mass of a front wheel with its knuckle, as a part of the car's mass (ours)


def add_platform(b: un.Builder, p: dict, name: str, speed: un.laws.Law, shapes: list[un.Shape]) -> None:
    """The platform of the document, its frame midway between the axles, on four wheels of which the front ones are driven.

    `speed` [m/s] is that of the middle of the rear axle, along the car.
    """
    l, L, R, m = p["wheelbase"], p["track"], p["radius"], p["mass"]
    rear = [s for y in (-L / 2, L / 2) for s in drawing.wheel(R, -l / 2, y)]
    I = p["inertia"]
    b.base(name, role="free", group="SE2", mass=m, inertia=un.solids.planar_inertia(I), shapes=[*shapes, *rear])
    beta = un.laws.Sinusoid(p["steer_amplitude"], p["steer_rate"], p["steer_phase"])
    for side, y in (("right", -L / 2), ("left", L / 2)):
        knuckle = KNUCKLE * m
        b.body(
            f"front-{side}",
            name,
            un.Revolute((0, 0, 1), name=f"steer-{side}", motion=FrontAngle(beta, y / l)),
            mass=knuckle,
            inertia=un.solids.sphere_inertia(knuckle, R),
            position=(l / 2, y, 0),
            shapes=drawing.wheel(R),
        )
        turn = un.laws.Integral(speed * FrontSpeed(beta, y / l) * (1 / R))
        b.add(un.rows.Wheel(f"front-{side}-wheel", f"front-{side}", radius=R, roll=turn))
        b.add(un.rows.Wheel(f"rear-{side}-wheel", name, (-l / 2, y, 0), radius=R))


def build(p: dict) -> Setup:
    l, L, R = p["wheelbase"], p["track"], p["radius"]
    b = un.Builder("car", gravity=(0, 0, 0))
    body = [
        un.Shape("box", (1.35 * l, 0.75 * L, 0.9 * R), (0.02 * l, 0, 1.3 * R), colour=(0.13, 0.47, 0.71)),
        un.Shape("box", (0.65 * l, 0.65 * L, 0.9 * R), (-0.1 * l, 0, 2.2 * R), colour=(0.75, 0.83, 0.90)),
    ]
    add_platform(b, p, "car", p["speed"] * un.laws.SoftStart(p["start"]), body)
    system = b.build()
    return Setup(system, system.state(), t_end=20.0, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {"effort_max": np.abs(data.effort.values).max()}


SCENARIO = Scenario(
    name="car",
    summary="A car with two steered and driven front wheels: fully actuated, the wheels give the whole motion",
    source="Ali 2011, section 4.4 (the platform; masses, radius and laws are ours)",
    parameters=(
        Parameter("wheelbase", 1.0, "m", "distance of the axles", low=0, open_low=True),
        Parameter("track", 0.5, "m", "distance of the wheels of an axle", low=0, open_low=True),
        Parameter("radius", 0.12, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("mass", 40.0, "kg", "mass of the car without its front wheels", low=0, open_low=True),
        Parameter("inertia", 6.0, "kg m^2", "its inertia about the vertical", low=0, open_low=True),
        Parameter("speed", 1.0, "m/s", "speed of the middle of the rear axle"),
        Parameter("start", 2.0, "s", "time in which the speed is reached", low=0, open_low=True),
        Parameter("steer_amplitude", 0.5, "rad", "amplitude of the steering angle beta", low=-1.2, high=1.2),
        Parameter("steer_rate", 0.7, "rad/s", "rate of the steering"),
        Parameter("steer_phase", 0.0, "rad", "phase of the steering"),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {"effort_max": "N m"},
)
