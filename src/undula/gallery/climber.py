"""A climber: two links that swing up a wall from claw to claw, as gibbons do in trees (Boyer & Belkhiri 2013, section I)."""

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import measures
from undula.gallery.drawing import bar
from undula.gallery.unused import refuse_unused
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

BLUE, RED, METAL = (0.20, 0.42, 0.70), (0.80, 0.27, 0.22), (0.35, 0.37, 0.40)
WALL = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])  # the plane of the base's motions: x and z of the world
# parameters that only some joints have
ONLY = {
    "amplitude": ("driven",),
    "frequency": ("driven",),
    "stiffness": ("sprung",),
    "damping": ("passive", "sprung"),
    "tail_mass": ("passive", "sprung"),
    "tail_amplitude": ("passive", "sprung"),
    "tail_frequency": ("passive", "sprung"),
}


def build(p: dict) -> Setup:
    refuse_unused(SCENARIO, p, "joint", ONLY)
    l, joint = p["length"], p["joint"]
    b = un.Builder("climber", gravity=(0, 0, -p["gravity"]))
    link = dict(mass=p["mass"], com=(0, -l / 2, 0), inertia=un.solids.planar_inertia(p["mass"] * l**2 / 12))
    c, s = np.cos(p["start"]), np.sin(p["start"])
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    b.base("upper", role="free", group="SE2", rotation=WALL @ turn, shapes=_link(l, BLUE), **link)
    elbow = {
        "driven": {"motion": un.laws.Sinusoid(p["amplitude"], 2 * np.pi * p["frequency"])},
        "passive": {"damping": p["damping"]},
        "sprung": {"stiffness": p["stiffness"], "damping": p["damping"]},
    }[joint]
    b.body(
        "lower",
        "upper",
        un.Revolute((0, 0, 1), name="elbow", **elbow),
        position=(0, -l, 0),
        shapes=_link(l, RED),
        **link,
    )
    if joint != "driven" and p["tail_mass"] > 0:
        swing = un.laws.Sinusoid(p["tail_amplitude"], 2 * np.pi * p["tail_frequency"])
        end = (0, -l / 2, 0)
        tail = [bar((0, 0, 0), end, METAL, 0.012), un.Shape("sphere", (0.05,), end, colour=METAL)]
        joint_of_tail = un.Revolute((0, 0, 1), motion=swing)
        b.body("tail", "upper", joint_of_tail, position=(0, -l, 0), mass=p["tail_mass"], com=end, shapes=tail)
    tips = {"upper": un.site("upper"), "lower": un.site("lower", (0, -l, 0))}
    for own, other in (("upper", "lower"), ("lower", "upper")):
        claw = un.rows.Latch(f"{own}-claw", tips[own], holds=("x", "z"), sees=(tips[other],))
        b.add(claw.when(_rule(p["rise"], begins=own == "upper")))
    system = b.build()
    return Setup(system, system.state(), p["duration"], dt=2e-3, save_every=2)


def _rule(rise: float, begins: bool) -> un.rows.Condition:
    """Grabs at the highest point of a swing, if that is high enough above the claw that holds; lets go when that one grabs."""

    def top(free, held):
        # positive as long as the free claw rises or is too low
        return jnp.maximum(free.velocity(jnp.zeros(3))[2], held.p[2] + rise - free.p[2])

    return un.rows.Condition(
        release=lambda at, reaction: top(at.sites[1], at.sites[0]),
        engage=lambda at: top(at.sites[0], at.sites[1]),
        begins=begins,
    )


def _link(length: float, colour: tuple[float, float, float]) -> list[un.Shape]:
    return [bar((0, 0, 0), (0, -length, 0), colour, 0.02)]


def holds(data) -> np.ndarray:
    """Position (samples, 3) [m] of the claw that holds."""
    active = data.constraint_active.values[:, [0, 2]] > 0  # two rows per claw
    return np.where(active[:, :, None], data.latch_state1.values, 0.0).sum(1)


def metrics(setup: Setup, data) -> dict[str, float]:
    held = holds(data)
    grabs = data.event_time.values
    force = data.reaction.values.reshape(len(held), 2, 2)
    shock = data.event_impulse.values.reshape(len(grabs), 2, 2)
    # the elbow's law goes on at a grab, so that its motor does impulsive work
    motors = measures.work_between_events(data, "power_actuators")
    motors += float((data.event_energy + data.event_loss).sum())
    rubbed = 0.0 - measures.work_between_events(data, "power_external")
    lost = float(data.event_loss.sum())
    energy = (data.energy_kinetic + data.energy_potential).values
    return {
        "climb": held[-1, 2] - held[0, 2],
        "sideways": held[-1, 0] - held[0, 0],
        "grabs": len(grabs),
        "grab_interval": (
            np.diff(grabs[-5:]).mean() if len(grabs) > 1 else Undetermined("fewer than two grabs in the run")
        ),
        "work": motors,
        "grab_loss": lost,
        "friction_loss": rubbed,
        "force_max": np.linalg.norm(force, axis=2).max(),
        "impulse_max": np.linalg.norm(shock, axis=2).max(initial=0.0),
        "energy_error": abs(energy[-1] - energy[0] - motors + lost + rubbed),
    }


SCENARIO = Scenario(
    name="climber",
    summary="Two links swing up a wall from claw to claw: rows that switch, a pendulum between grabs",
    source="Boyer & Belkhiri 2013, section I (animals that swing up; robot, gait and numbers are ours)",
    parameters=(
        Parameter(
            "joint",
            "driven",
            "",
            "the elbow: follows the gait, turns freely, or has a spring",
            choices=("driven", "passive", "sprung"),
        ),
        Parameter(
            "amplitude", 2.5, "rad", "amplitude of the elbow's law (driven); negative: to the left", low=-3, high=3
        ),
        Parameter("frequency", 0.65, "Hz", "frequency of the elbow's law (driven)", low=0, open_low=True),
        Parameter("rise", 0.1, "m", "least height of a grab above the claw that holds", low=0, open_low=True),
        Parameter("mass", 1.0, "kg", "mass of each link, uniform", low=0, open_low=True),
        Parameter("length", 0.5, "m", "length of each link", low=0, open_low=True),
        Parameter("start", 0.0, "rad", "angle of the upper link from the vertical at the start"),
        Parameter("stiffness", 10.0, "N m/rad", "of the elbow's spring (sprung)", low=0),
        Parameter("damping", 0.3, "N m s/rad", "of the elbow (passive, sprung)", low=0),
        Parameter(
            "tail_mass",
            2.0,
            "kg",
            "at the end of a tail on the elbow, half a link long; 0: no tail (passive, sprung)",
            low=0,
        ),
        Parameter("tail_amplitude", 2.65, "rad", "amplitude of the tail (passive, sprung)"),
        Parameter("tail_frequency", 1.35, "Hz", "frequency of the tail (passive, sprung)", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity", low=0),
        Parameter("duration", 12.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "climb": "m",
        "sideways": "m",
        "grabs": "1",
        "grab_interval": "s",
        "work": "J",
        "grab_loss": "J",
        "friction_loss": "J",
        "force_max": "N",
        "impulse_max": "N s",
        "energy_error": "J",
    },
)
