"""Aiko on a slope: how steep it can climb by lateral undulation."""

import numpy as np
from scipy.spatial.transform import Rotation

import undula as un
from undula.gallery import aiko
from undula.scenario.scenario import Parameter, Setup


def build(p: dict) -> Setup:
    """The slope goes up along x; the robot lies on it, turned by its heading."""
    tilt = Rotation.from_euler("y", -p["slope"])
    turn = tilt * Rotation.from_euler("z", p["heading"])
    system = aiko.robot(p, [un.contact.Plane(tilt.apply([0, 0, 1.0]))])
    flat = aiko.lying(system, p)
    attitude = turn * Rotation.from_quat(np.array(flat.base.quaternion), scalar_first=True)
    start = system.state(
        flat.q,
        base_position=turn.apply(np.array(flat.base.position)),
        base_quaternion=attitude.as_quat(scalar_first=True),
    )
    return Setup(system, start, t_end=p["duration"], dt=1 / 4000)


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    path = aiko.centres(data, p).mean(1)
    moved = path[-1] - path[0]
    a = p["slope"]
    return aiko.metrics(setup, data) | {
        "climbed": moved @ [np.cos(a), 0, np.sin(a)],
        "height_gained": moved[2],
    }


SCENARIO = aiko.entry(
    "aiko-slope",
    "The snake robot Aiko up a slope by lateral undulation, friction 0.1 along and 0.5 across",
    "Transeth et al. 2008, section VIII-B, on a slope of our own",
    build,
    more=(
        Parameter("slope", 0.1, "rad", "angle of the slope, up along x", low=-1.5, high=1.5),
        Parameter("heading", 0.0, "rad", "of the robot at the start: 0 up the slope, pi/2 along it"),
    ),
    metrics=metrics,
    metric_units=aiko.UNITS | {"climbed": "m", "height_gained": "m"},
    mu_x=0.1,
    mu_y=0.5,
)
