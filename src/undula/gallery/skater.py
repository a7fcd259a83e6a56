"""A skater on one blade: glides on a curve, jumps, spins with the arms pulled in and lands (Ali 2011, section 2.3)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.gallery.drawing import bar
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

BLUE, RED, SKIN, STEEL = (0.20, 0.42, 0.70), (0.80, 0.27, 0.22), (0.93, 0.78, 0.66), (0.55, 0.57, 0.60)
CROUCH, PUSH, IN, OPEN, END = 0.3, 0.9, 1.07, 1.43, 2.4  # instants of the choreography [s]
LEG, HEIGHT = 0.9, 0.45  # of the leg and the trunk [m]


def build(p: dict) -> Setup:
    slope = p["slope"]
    b = un.Builder("skater", gravity=(p["gravity"] * np.sin(slope), 0, -p["gravity"] * np.cos(slope)))
    # the body stays upright: the base moves in the plane of the ice, a free joint lifts the blade off it
    b.base("ice", role="free", group="SE2")
    blade = [
        un.Shape("box", (0.3, 0.006, 0.03), (0, 0, 0.015), colour=STEEL),
        un.Shape("box", (0.25, 0.08, 0.09), (0, 0, 0.08), colour=STEEL),
    ]
    b.body("blade", "ice", un.Prismatic((0, 0, 1), name="height"), mass=p["mass_blade"], inertia=0.01, shapes=blade)
    # the leg bends slowly and stretches fast
    down = un.laws.Quintic(0.0, -p["stroke"], CROUCH, PUSH - 0.02)
    up = un.laws.Quintic(0.0, p["stroke"], PUSH, PUSH + p["push_time"])
    hips = [bar((0, 0, 0.1 - LEG), (0, 0, 0), BLUE, 0.07), un.Shape("sphere", (0.13,), (0, 0, 0), colour=BLUE)]
    b.body(
        "hips",
        "blade",
        un.Prismatic((0, 0, 1), motion=down + up, name="leg"),
        position=(0, 0, LEG),
        mass=p["mass_hips"],
        inertia=un.solids.cylinder_inertia(p["mass_hips"], 0.14, LEG),
        com=(0, 0, -0.3),
        shapes=hips,
    )
    # the trunk winds up against the hips, and unwinds in the air
    wind = un.laws.Quintic(0.0, -p["twist"], CROUCH, PUSH) + un.laws.Quintic(0.0, 2 * p["twist"], IN, OPEN)
    trunk = [
        bar((0, 0, 0.1), (0, 0, HEIGHT), RED, 0.13),
        un.Shape("sphere", (0.11,), (0, 0, HEIGHT + 0.28), colour=SKIN),
    ]
    b.body(
        "trunk",
        "hips",
        un.Revolute((0, 0, 1), motion=wind, name="twist"),
        mass=p["mass_trunk"],
        inertia=un.solids.cylinder_inertia(p["mass_trunk"], 0.15, HEIGHT),
        com=(0, 0, 0.3),
        shapes=trunk,
    )
    l = p["arm_length"]
    pull = un.laws.Quintic(0.0, p["pull"], IN, IN + 0.15) + un.laws.Quintic(0.0, -p["pull"], OPEN, OPEN + 0.15)
    for name, side in (("left", 1), ("right", -1)):
        b.body(
            name,
            "trunk",
            un.Revolute((-side, 0, 0), motion=pull),
            position=(0, 0.17 * side, HEIGHT),
            mass=p["mass_arm"],
            com=(0, side * l / 2, 0),
            inertia=un.solids.cylinder_inertia(p["mass_arm"], 0.04, l, "y"),
            shapes=[bar((0, 0, 0), (0, side * l, 0), SKIN, 0.04)],
        )
    edge = un.rows.Skate("edge", "blade", ground=0.0)
    b.add(edge.when(un.rows.WhilePushing("height")))
    system = b.build()
    start = system.state(base_twist=(p["speed"], 0, 0, 0, 0, p["spin"]))
    return Setup(system, start, END, dt=5e-4, save_every=4)


def metrics(setup: Setup, data) -> dict[str, float]:
    t, turned = data.time.values, measures.yaw(data)
    rate = data.base_twist.values[:, 5]
    up, down = flight(data)
    air = (t > up) & (t < down)
    why = next(
        (x for x in (up, down) if isinstance(x, Undetermined)), Undetermined("no flight of more than three samples")
    )
    out = {"flight_time": down - up, "jump_height": why, "spin_ratio": why, "turns": why, "landing_angle": why}
    if air.sum() > 3:
        # ballistic: three coefficients give the height of the centre of mass at take-off
        fall = np.polyfit(t[air] - up, data.mass_centre.values[air, 2], 2)
        out["jump_height"] = fall[1] ** 2 / (-4 * fall[0])
        most, before = np.abs(rate[air]).max(), abs(np.interp(up, t, rate))
        out["spin_ratio"] = most / before if before > 1e-6 * most else Undetermined("it does not turn at take-off")
        out["turns"] = (np.interp(down, t, turned) - np.interp(up, t, turned)) / (2 * np.pi)
        v = data.momentum.values[air][-1, :2]
        off = np.interp(down, t, turned) - np.arctan2(v[1], v[0])
        out["landing_angle"] = (off + np.pi / 2) % np.pi - np.pi / 2
    out["landing_loss"] = float(data.event_loss.sum())
    out["work"] = measures.work_between_events(data, "power_actuators")
    return out


def flight(data) -> tuple[float, float]:
    """Instants [s] of the take-off and of the landing of the longest flight; undetermined without them."""
    t, words = data.event_time.values, [str(x) for x in data.event.values]
    ups = [x for x, word in zip(t, words) if word.endswith("off")]
    downs = [x for x, word in zip(t, words) if word.endswith("on")]
    last = float(data.time[-1])
    flights = [(up, min([x for x in downs if x > up], default=np.inf)) for up in ups]
    if not flights:
        return Undetermined("it does not take off"), Undetermined("it does not take off")
    up, down = max(flights, key=lambda x: min(x[1], last) - x[0])
    return up, down if np.isfinite(down) else Undetermined("it does not land")


SCENARIO = Scenario(
    name="skater",
    summary="A skater glides on a blade, jumps off it, spins with the arms pulled in and lands: the class changes twice",
    source="Ali 2011, section 2.3 (named there; robot, choreography and numbers are ours)",
    parameters=(
        Parameter("speed", 1.5, "m/s", "speed along the blade at the start"),
        Parameter("spin", 5.75, "rad/s", "yaw rate at the start: the curve's radius is speed / spin"),
        Parameter("slope", 0.0, "rad", "slope of the ground, downhill along x: a skier", low=-1.5, high=1.5),
        Parameter("stroke", 0.45, "m", "by which the leg bends and stretches", low=0, high=0.6),
        Parameter("push_time", 0.26, "s", "duration of the stretch", low=0, open_low=True),
        Parameter("pull", 1.45, "rad", "by which the arms are lowered in the air; 0: they stay out", low=0, high=1.57),
        Parameter("twist", 0.5, "rad", "of the trunk against the hips: wound up before the jump, unwound in the air"),
        Parameter("mass_blade", 1.5, "kg", "mass of the blade with its boot", low=0, open_low=True),
        Parameter("mass_hips", 24.0, "kg", "mass of hips and legs", low=0, open_low=True),
        Parameter("mass_trunk", 27.0, "kg", "mass of trunk and head", low=0, open_low=True),
        Parameter("mass_arm", 4.0, "kg", "mass of each arm", low=0, open_low=True),
        Parameter("arm_length", 0.65, "m", "length of each arm", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "flight_time": "s",
        "jump_height": "m",
        "spin_ratio": "1",
        "turns": "1",
        "landing_angle": "rad",
        "landing_loss": "J",
        "work": "J",
    },
)
