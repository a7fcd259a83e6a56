"""A ball that is thrown along the ground: it slides, then it rolls, then rolling friction stops it."""

import numpy as np

import undula as un
from undula.gallery.measures import halt
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined


def build(p: dict) -> Setup:
    m, r = p["mass"], p["radius"]
    b = un.Builder("rolling-ball")
    look = [un.Shape("sphere", (r,), colour=(0.15, 0.35, 0.6))]
    for side in (1, -1):  # a spot on each side shows how it turns
        look.append(un.Shape("sphere", (0.35 * r,), (0.5 * r, 0.6 * side * r, 0), colour=(0.95, 0.9, 0.75)))
    b.base("ball", role="free", mass=m, inertia=un.solids.sphere_inertia(m, r), shapes=look)
    b.add(
        un.contact.Contact(
            "ground", "ball", un.contact.Plane(), un.contact.Coulomb(p["mu"], rolling=p["mu_roll"]), radius=r
        )
    )
    system = b.build()
    start = system.state(base_position=(0, 0, r), base_twist=(p["speed"], 0, 0, 0, p["spin"], 0))
    return Setup(system, start, t_end=p["duration"], dt=1e-3)


def metrics(setup: Setup, data) -> dict[str, float]:
    from scipy.spatial.transform import Rotation

    t, x = data.time.values, data.base_position.values[:, 0]
    turns = Rotation.from_quat(data.base_quaternion.values, scalar_first=True)
    speed = turns.apply(data.base_twist.values[:, :3])[:, 0]
    slip = speed - setup.parameters["radius"] * data.base_twist.values[:, 4]
    rolls, stops = halt(t, slip), halt(t, speed)
    return {
        "roll_time": rolls,
        "roll_speed": _speed_at(rolls, t, speed),
        "stop_time": stops,
        "stop_distance": x[-1] - x[0] if np.isfinite(stops) else stops,
        "final_speed": speed[-1],
        "penetration_max": float(data.contact_penetration.max()),
    }


def _speed_at(start: float, t: np.ndarray, speed: np.ndarray) -> float:
    """The speed with which it begins to roll: back from the first two samples that roll."""
    first = np.searchsorted(t, start)
    if not np.isfinite(start):
        return start
    if first + 1 >= len(t):
        return Undetermined("it rolls only from the last samples on")
    rate = (speed[first + 1] - speed[first]) / (t[first + 1] - t[first])
    return speed[first] - rate * (t[first] - start)


SCENARIO = Scenario(
    name="rolling-ball",
    summary="A ball thrown along the ground: it slides, rolls at 5/7 of its speed, and is stopped by rolling friction",
    source="Transeth et al. 2008, section V-B (friction, rolling friction; numbers are ours)",
    parameters=(
        Parameter("speed", 2.0, "m/s", "speed along x at the start"),
        Parameter("spin", 0.0, "rad/s", "rate of rotation at the start, positive as if it rolled forward"),
        Parameter("mu", 0.2, "", "coefficient of friction", low=0),
        Parameter("mu_roll", 0.05, "", "coefficient of rolling friction: moment over radius and load", low=0),
        Parameter("radius", 0.05, "m", "radius of the ball", low=0, open_low=True),
        Parameter("mass", 0.1, "kg", "mass of the ball", low=0, open_low=True),
        Parameter("duration", 5.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "roll_time": "s",
        "roll_speed": "m/s",
        "stop_time": "s",
        "stop_distance": "m",
        "final_speed": "m/s",
        "penetration_max": "m",
    },
)
