"""A block on a slope: it sticks for ever, slides down, or slides to a stop."""

import numpy as np

import undula as un
from undula.gallery.measures import halt
from undula.scenario.scenario import Parameter, Scenario, Setup

SIZE = (0.2, 0.15, 0.1)


def build(p: dict) -> Setup:
    a, m = p["slope"], p["mass"]
    b = un.Builder("block-on-slope")
    b.base(
        "block",
        role="free",
        mass=m,
        inertia=un.solids.box_inertia(m, SIZE),
        shapes=[un.Shape("box", SIZE, colour=(0.75, 0.45, 0.2))],
    )
    slope = un.contact.Plane(normal=(np.sin(a), 0, np.cos(a)))
    x, y, z = (s / 2 for s in SIZE)
    for k, (i, j) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        b.add(
            un.contact.Contact(f"corner{k + 1}", "block", slope, un.contact.Coulomb(p["mu"]), centre=(i * x, j * y, -z))
        )
    system = b.build()
    place, turn = z * np.array([np.sin(a), 0, np.cos(a)]), (np.cos(a / 2), 0, np.sin(a / 2), 0)
    start = system.state(base_position=place, base_quaternion=turn, base_twist=(p["v0"], 0, 0, 0, 0, 0))
    return Setup(system, start, t_end=p["duration"], dt=1e-3)


def metrics(setup: Setup, data) -> dict[str, float]:
    speed = np.sqrt((data.base_twist.values[:, :3] ** 2).sum(1))
    path = data.base_position.values
    stop = halt(data.time.values, speed)
    return {
        "final_speed": speed[-1],
        "stop_time": stop,
        "stop_distance": float(np.linalg.norm(path[-1] - path[0])) if np.isfinite(stop) else stop,
        "penetration_max": float(data.contact_penetration.max()),
        "residual_max": float(data.contact_residual.max()),
    }


SCENARIO = Scenario(
    name="block-on-slope",
    summary="A block on a slope: it sticks exactly where the slope is below the friction, and slides beyond",
    source="Transeth et al. 2008, section V-B (Coulomb's law; numbers are ours)",
    parameters=(
        Parameter("slope", 0.2, "rad", "angle of the slope, down along x", low=-1.5, high=1.5),
        Parameter("mu", 0.3, "", "coefficient of friction", low=0),
        Parameter("v0", 1.0, "m/s", "speed down the slope at the start"),
        Parameter("mass", 1.0, "kg", "mass of the block", low=0, open_low=True),
        Parameter("duration", 2.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "final_speed": "m/s",
        "stop_time": "s",
        "stop_distance": "m",
        "penetration_max": "m",
        "residual_max": "1",
    },
)
