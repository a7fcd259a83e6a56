"""A hopper: one springy leg that pumps and swings in a fixed rhythm, and finds its gait by itself."""

import numpy as np

import undula as un
from undula.gallery.drawing import bar
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

METAL, RED = (0.35, 0.37, 0.4), (0.8, 0.2, 0.15)


def build(p: dict) -> Setup:
    length, rate = p["length"], 2 * np.pi * p["frequency"]
    b = un.Builder("hopper", gravity=(0, 0, -p["gravity"]))
    b.base("boom")
    b.body("x", "boom", un.Prismatic((1, 0, 0)))
    look = [
        un.Shape("box", (0.3, 0.16, 0.1), (0, 0, 0.06), colour=(0.2, 0.4, 0.65)),
        un.Shape("sphere", (0.05,), colour=METAL),
    ]
    b.body("body", "x", un.Prismatic((0, 0, 1), name="z"), mass=p["mass"], shapes=look)
    swing = un.laws.Sinusoid(p["swing"], rate, p["lead"])
    upper = [bar((0, 0, -0.6 * length), (0, 0, 0), METAL, 0.022)]
    b.body("leg", "body", un.Revolute((0, -1, 0), motion=swing, name="hip"), shapes=upper)
    pump = un.forces.ProportionalDerivative(p["stiffness"], p["damping"], un.laws.Sinusoid(p["stroke"], rate))
    lower = [
        bar((0, 0, 0.03), (0, 0, 0.55 * length), RED, 0.013),
        un.Shape("sphere", (0.03,), (0, 0, 0.03), colour=METAL),
    ]
    b.body(
        "foot",
        "leg",
        un.Prismatic((0, 0, -1), effort=pump, name="extension"),
        position=(0, 0, -length),
        mass=p["foot_mass"],
        shapes=lower,
    )
    b.add(un.contact.Contact("ground", "foot", un.contact.Plane(), un.contact.Coulomb(p["mu"])))
    system = b.build()
    height = length * np.cos(p["swing"] * np.sin(p["lead"])) + p["drop"]
    return Setup(system, system.state({"z": height}), p["duration"], dt=1e-4, save_every=20)


def metrics(setup: Setup, data) -> dict[str, float]:
    t, x = data.time.values, data.position.sel(coordinate="x").values
    body = data.position.sel(coordinate="z").values
    gap = data.contact_gap.values[:, 0]
    up = gap > 1e-4
    down = 1 + np.flatnonzero(up[:-1] & ~up[1:])
    # the gait: from the first touch-down of the second half to the last one
    late = down[t[down] > t[-1] / 2]
    first, last = (late[0], late[-1]) if len(late) > 1 else (0, 0)
    none = Undetermined("fewer than two touch-downs in the second half of the run")
    span = t[last] - t[first] if len(late) > 1 else none
    period = span / max(len(late) - 1, 1)
    return {
        "hops": len(down),
        "hop_period": period,
        "flight_time": period * up[first : last + 1].mean(),
        "clearance": gap[first : last + 1].max() if span > 0 else none,
        "bounce": np.ptp(body[first : last + 1]) if span > 0 else none,
        "speed": (x[last] - x[first]) / span,
        "penetration_max": float(data.contact_penetration.max()),
    }


SCENARIO = Scenario(
    name="hopper",
    summary="A one-legged hopper on a boom: the leg pumps and swings in a fixed rhythm, hops and runs lock to it",
    source="Transeth et al. 2008, section V-B (laws; robot and numbers are ours)",
    parameters=(
        Parameter("frequency", 2.5, "Hz", "rhythm of the leg", low=0, open_low=True),
        Parameter("stroke", 0.04, "m", "amplitude of the leg's rest length", low=0),
        Parameter("swing", 0.2, "rad", "amplitude of the hip; 0: hops on the spot", low=-1, high=1),
        Parameter("lead", 2.2, "rad", "phase of the hip, ahead of the stroke"),
        Parameter("stiffness", 1000.0, "N/m", "stiffness of the leg", low=0, open_low=True),
        Parameter("damping", 12.0, "N s/m", "damping of the leg", low=0),
        Parameter("mass", 3.0, "kg", "mass of the body", low=0, open_low=True),
        Parameter("foot_mass", 0.3, "kg", "mass of the foot", low=0, open_low=True),
        Parameter("length", 0.5, "m", "length of the leg at rest", low=0, open_low=True),
        Parameter("drop", 0.1, "m", "height of the foot at the start", low=0),
        Parameter("mu", 0.8, "", "coefficient of friction", low=0),
        Parameter("gravity", 9.81, "m/s^2", "gravity", low=0),
        Parameter("duration", 10.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "hops": "1",
        "hop_period": "s",
        "flight_time": "s",
        "clearance": "m",
        "bounce": "m",
        "speed": "m/s",
        "penetration_max": "m",
    },
)
