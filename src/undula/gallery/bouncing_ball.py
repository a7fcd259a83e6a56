"""A ball that bounces, with Newton's restitution, infinitely often in a finite time."""

import numpy as np

import undula as un
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    m, r = p["mass"], p["radius"]
    b = un.Builder("bouncing-ball", gravity=(0, 0, -p["gravity"]))
    look = [
        un.Shape("sphere", (r,), colour=(0.85, 0.35, 0.2)),
        un.Shape("sphere", (0.25 * r,), (0, 0.85 * r, 0), colour=(1, 1, 1)),
    ]
    b.base("ball", role="free", mass=m, inertia=un.solids.sphere_inertia(m, r), shapes=look)
    b.add(
        un.contact.Contact(
            "ground", "ball", un.contact.Plane(), un.contact.Coulomb(p["mu"], restitution=p["restitution"]), radius=r
        )
    )
    system = b.build()
    start = system.state(base_position=(0, 0, r + p["height"]), base_twist=(p["speed"], 0, 0, 0, 0, 0))
    return Setup(system, start, t_end=p["duration"], dt=1e-4)


def metrics(setup: Setup, data) -> dict[str, float]:
    gap = data.contact_gap.values[:, 0]
    bouncing = np.flatnonzero(gap > 1e-5)
    return {
        "rest_time": data.time.values[bouncing[-1]] if len(bouncing) else 0.0,
        "x": data.base_position.values[-1, 0],
        "spin": float(data.base_twist.values[-1, 4]),
        "penetration_max": float(data.contact_penetration.max()),
    }


SCENARIO = Scenario(
    name="bouncing-ball",
    summary="A ball that bounces to rest: infinitely many impacts in a finite time, friction that makes it roll",
    source="Transeth et al. 2008, section V-B1 (impact law; numbers are ours)",
    parameters=(
        Parameter("height", 1.0, "m", "height of the fall", low=0),
        Parameter("restitution", 0.8, "", "part of the speed that an impact gives back", low=0, high=1),
        Parameter("speed", 1.0, "m/s", "speed along x at the start"),
        Parameter("mu", 0.3, "", "coefficient of friction", low=0),
        Parameter("radius", 0.05, "m", "radius of the ball", low=0, open_low=True),
        Parameter("mass", 0.1, "kg", "mass of the ball", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity", low=0),
        Parameter("duration", 5.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={"rest_time": "s", "x": "m", "spin": "rad/s", "penetration_max": "m"},
)
