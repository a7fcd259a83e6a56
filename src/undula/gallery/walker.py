"""A passive walker, the compass: two stiff legs walk down a slope on their own, over tiles that let the swinging foot pass."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import undula as un
from undula.core.arrays import Array, as_array
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

LENGTH, CENTRE = 1.0, 0.5  # of a leg, and from the hip to its centre of mass [m]
APART = 0.12  # half the distance of the legs, sideways [m]
TILE, PIT = 0.4, 0.05  # length of a tile and depth of the pits between tiles [m]
UPRIGHT = (0.5**0.5, 0.5**0.5, 0, 0)  # turns the plane of a planar joint into that of x and z
COLOURS = {"left": (0.8, 0.45, 0.15), "right": (0.2, 0.4, 0.65)}


class Tiles(un.contact.Surface):
    """Tiles of a slope that goes down along x, at the distances `first`, `first` + `spacing`, ... [m]; pits between them."""

    slope: Float[Array, ""]
    first: Float[Array, ""]
    spacing: Float[Array, ""]

    def distance(self, x):
        way = x[0] * jnp.cos(self.slope) - x[2] * jnp.sin(self.slope)
        beside = (way - self.first + self.spacing / 2) % self.spacing - self.spacing / 2
        return (x * self.normal(x)).sum() + jnp.where(jnp.abs(beside) <= TILE / 2, 0.0, PIT)

    def normal(self, x):
        return jnp.stack([jnp.sin(self.slope), jnp.zeros_like(self.slope), jnp.cos(self.slope)])


def build(p: dict) -> Setup:
    step, slope = p["step"], p["slope"]
    b = un.Builder("walker")
    count = int(0.7 * p["duration"]) + 3
    shapes = _tiles("left", slope, 2 * step * np.arange(count)) + _tiles(
        "right", slope, step * (2 * np.arange(count) - 1)
    )
    b.base("ground", shapes=shapes)
    leg = dict(mass=p["leg_mass"], com=(0, -CENTRE, 0))
    b.body("left", "ground", un.Planar(), rotation=UPRIGHT, shapes=_leg("left"), **leg)
    hip = [un.Shape("sphere", (0.09,), colour=(0.3, 0.3, 0.33))]
    b.body("hip", "left", un.Fixed(), mass=p["hip_mass"], shapes=hip)
    b.body("right", "hip", un.Revolute((0, 0, 1)), shapes=_leg("right"), **leg)
    for name, first in (("left", 0.0), ("right", step)):
        ground = Tiles(*(as_array(x) for x in (slope, first, 2 * step)))
        b.add(
            un.contact.Contact(
                f"{name}_foot", name, ground, un.contact.Coulomb(p["mu"]), centre=(0, -LENGTH, _side(name))
            )
        )
    system = b.build()
    # both feet on the slope, the left one ahead; angles of the legs from the vertical, forward positive
    half = np.arcsin(step / (2 * LENGTH))
    stance, swing = slope - half, slope + half
    rate, swing_rate = p["stance_rate"], p["swing_rate"]
    ahead, up = LENGTH * np.sin(stance), LENGTH * np.cos(stance)
    start = system.state(
        {"left.x": ahead, "left.y": up, "left.angle": -stance, "right": stance - swing},
        {"left.x": up * rate, "left.y": -ahead * rate, "left.angle": -rate, "right": rate - swing_rate},
    )
    return Setup(system, start, p["duration"], dt=1e-4, save_every=20)


def _side(name: str) -> float:
    return -APART if name == "left" else APART


def _leg(name: str) -> list[un.Shape]:
    z = _side(name)
    lying = (0.5**0.5, 0.5**0.5, 0, 0)  # a capsule along y
    return [
        un.Shape("capsule", (0.025, LENGTH), (0, -LENGTH / 2, z), lying, COLOURS[name]),
        un.Shape("sphere", (0.06,), (0, -CENTRE, z), colour=COLOURS[name]),
        un.Shape("capsule", (0.03, APART), (0, 0, z / 2), colour=(0.3, 0.3, 0.33)),
    ]


def _tiles(name: str, slope: float, ways: np.ndarray) -> list[un.Shape]:
    thick, turn = PIT, (np.cos(slope / 2), 0, np.sin(slope / 2), 0)
    out = []
    for way in ways:
        x, z = way * np.cos(slope) - thick / 2 * np.sin(slope), -way * np.sin(slope) - thick / 2 * np.cos(slope)
        out.append(un.Shape("box", (TILE, 1.4 * APART, thick), (x, -_side(name), z), turn, (0.55, 0.52, 0.45)))
    return out


def metrics(setup: Setup, data) -> dict[str, float]:
    hip = data.body_position.sel(body="hip").values
    slope = setup.parameters["slope"]
    height = hip[:, 0] * np.sin(slope) + hip[:, 2] * np.cos(slope)
    way = hip[:, 0] * np.cos(slope) - hip[:, 2] * np.sin(slope)
    low = np.flatnonzero(height < LENGTH / 2)
    end = low[0] if len(low) else len(height)  # where it has fallen
    # the feet change where both are on the ground: the one that swings comes down, the other lifts
    between = (data.contact_gap.values @ [1, -1])[:end]
    before = np.flatnonzero(between[1:-1] * between[2:] < 0) + 1
    clear = [np.abs(x).max() > 0.01 for x in np.split(between, before + 1)[1:]]  # a foot that slips is no step
    before = before[np.array(clear, dtype=bool)]
    part = between[before] / (between[before] - between[before + 1])
    when, where = (x[before] + part * (x[before + 1] - x[before]) for x in (data.time.values, way))
    many = len(before) > 1
    few = Undetermined("fewer than two steps in the run")
    period = np.diff(when).mean() if many else few
    length = np.diff(where).mean() if many else few
    return {
        "steps": len(before),
        "step_period": period,
        "step_length": length,
        "speed": length / period,
        "lowest_hip": height.min(),
        "penetration_max": float(data.contact_penetration[:end].max()),
    }


SCENARIO = Scenario(
    name="walker",
    summary="A passive compass walks down a slope of 3 degrees: its gait is a limit cycle of falls and impacts",
    source="Transeth et al. 2008, section V-B (laws); the compass of Goswami et al. 1998",
    parameters=(
        Parameter("slope", 0.05235988, "rad", "angle of the slope, down along x", low=0, high=0.2),
        Parameter(
            "step",
            0.5354454,
            "m",
            "length of the first step, and from a tile to the next one of the other leg",
            low=0.45,
            high=0.9,
        ),
        Parameter("stance_rate", 1.092384, "rad/s", "rate of the leg that stands at the start, forward positive"),
        Parameter("swing_rate", 0.377374, "rad/s", "rate of the other leg"),
        Parameter("hip_mass", 10.0, "kg", "mass at the hip", low=0, open_low=True),
        Parameter("leg_mass", 5.0, "kg", "mass of a leg, in its middle", low=0, open_low=True),
        Parameter("mu", 0.6, "", "coefficient of friction", low=0),
        Parameter("duration", 10.0, "s", "length of the run", low=0, open_low=True, high=100),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "steps": "1",
        "step_period": "s",
        "step_length": "m",
        "speed": "m/s",
        "lowest_hip": "m",
        "penetration_max": "m",
    },
)
