"""A bicycle on an idealised line of contact, its handlebars and rear wheel driven (Boyer & Belkhiri 2013, section VI.B).

The document's frame: X up, Y forward, Z to the left, with the origin on the line through the two contacts. That line is
fixed in the frame, and the rows hold it in the frame's axes: true to the first order of the lean only, so that the line
leaves the ground slowly when the bicycle leans and turns. See `bicycle-whipple` for exact contacts.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

AXES = np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])  # X, Y, Z of the frame are z, x, y of the world
DARK, FRAME, FORK = (0.15, 0.15, 0.17), (0.13, 0.45, 0.35), (0.85, 0.5, 0.1)


class ContactLine(un.RowModel):
    """The six rows (46), (47) of the document: A eta + B_p r2' + B_a (r1', r3') = 0, in the axes of the frame."""

    l2: Any
    l3: Any
    h: Any
    alpha: Any

    def __init__(self, name: str, body: str, coordinates: tuple[str, str, str], l2: Any, l3: Any, h: Any, alpha: Any):
        self.name, self.sites, self.coordinates = name, (un.site(body),), coordinates
        self.l2, self.l3, self.h, self.alpha = (np.asarray(x, dtype=float) for x in (l2, l3, h, alpha))

    def rows(self, at: un.elements.View):
        (frame,), h = at.sites, self.h
        V, W = frame.V, frame.W
        steering, front, rear = at.v
        s, c, sa, ca = jnp.sin(at.x[0]), jnp.cos(at.x[0]), jnp.sin(self.alpha), jnp.cos(self.alpha)
        ahead, left = V[1], V[2] + self.l2 * W[0]  # velocity of the frame at the front contact
        up = V[0] - self.l2 * W[2]
        return jnp.stack(
            [
                V[0],
                V[1] - h * rear,
                V[2] - self.l3 * W[0],
                h * (front + sa * ca * s * steering) - c * ahead - ca * s * left,
                c * left - ca * s * ahead - sa * s * up,  # (46) prints l2 sa c1 for its last entry, l2 sa s1
                W[2],
            ]
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return "rear_height", "rear_roll", "rear_side", "front_roll", "front_side", "pitch"


def build(p: dict) -> Setup:
    l2, l3, h, alpha, m = p["l2"], p["l3"], p["radius"], p["tilt"], p["wheel_mass"]
    axis = np.array([np.cos(alpha), -np.sin(alpha), 0.0])
    head = np.array([h, l2, 0.0]) + 0.75 * axis
    seat = np.array([0.9, -0.6 * l3, 0.0])
    wheel = dict(mass=m, inertia=(m * h * h / 2, m * h * h / 2, m * h * h), shapes=_wheel(h))  # all mass at the rim
    b = un.Builder("bicycle", gravity=(0, 0, -p["gravity"]))
    b.base(
        "frame",
        role="free",
        mass=p["mass"],
        com=p["centre"],
        inertia=p["inertia"],
        rotation=AXES,
        shapes=[
            drawing.bar((h, -l3, 0), seat, FRAME),
            drawing.bar(seat, head, FRAME),
            drawing.bar((h, -l3, 0), (0.8 * h, 0, 0), FRAME),
            drawing.bar((0.8 * h, 0, 0), head, FRAME),
            un.Shape("box", (0.05, 0.25, 0.12), tuple(seat + (0.05, 0, 0)), colour=DARK),
        ],
    )
    # the steering axis goes through the centre of the front wheel; the fork has no inertia of its own
    b.body(
        "fork",
        "frame",
        un.Revolute(axis, name="steer", motion=un.laws.Sinusoid(p["steer"], p["steer_rate"])),
        position=(h, l2, 0),
        shapes=[
            drawing.bar((0, 0, 0), 0.85 * axis, FORK),
            drawing.bar(0.85 * axis - (0, 0, 0.25), 0.85 * axis + (0, 0, 0.25), FORK),
        ],
    )
    b.body("front_wheel", "fork", un.Revolute((0, 0, 1)), **wheel)
    drive = un.laws.Polynomial([0.0, p["speed"] / h])
    b.body("rear_wheel", "frame", un.Revolute((0, 0, 1), motion=drive), position=(h, -l3, 0), **wheel)
    b.add(ContactLine("ground", "frame", ("steer", "front_wheel", "rear_wheel"), l2, l3, h, alpha))
    system = b.build()
    start = system.state(base_twist=(0, 0, 0, 0, p["lean_rate"], 0))
    return Setup(system, start, t_end=4 * np.pi / 3, dt=np.pi / 1500)  # two cycles of the default steering


def _wheel(radius: float) -> list[un.Shape]:
    spoke = (1.7 * radius, 0.02, 0.03)
    return [
        un.Shape("cylinder", (radius, 0.02), colour=DARK),
        un.Shape("box", spoke, colour=(0.8, 0.8, 0.8)),
        un.Shape("box", (spoke[1], spoke[0], spoke[2]), colour=(0.8, 0.8, 0.8)),
    ]


def metrics(setup: Setup, data) -> dict[str, float]:
    from scipy.spatial.transform import Rotation

    R = Rotation.from_quat(data.base_quaternion.values, scalar_first=True).as_matrix()
    return {
        "lean_max": np.abs(np.arcsin(np.clip(R[:, 2, 2], -1, 1))).max(),
        "distance": np.linalg.norm(data.base_position.values[-1] - data.base_position.values[0]),
        "line_off_ground": np.abs(data.base_position.values[:, 2]).max(),
        "steer_torque_max": np.abs(data.effort.sel(coordinate="steer").values).max(),
        "energy_error": measures.energy_error(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="bicycle",
    summary="A steered bicycle on an idealised contact line: the front wheel follows, only the lean is dynamic",
    source="Boyer & Belkhiri 2013, section VI.B (numbers are ours)",
    parameters=(
        Parameter("l2", 0.5, "m", "from the origin to the front contact", low=0, open_low=True),
        Parameter("l3", 0.5, "m", "from the origin back to the rear contact", low=0, open_low=True),
        Parameter("radius", 0.35, "m", "radius of the wheels (h in the document)", low=0, open_low=True),
        Parameter("tilt", 0.3, "rad", "backward tilt of the steering axis (alpha)", low=-1.2, high=1.2),
        Parameter("mass", 80.0, "kg", "mass of frame and rider", low=0, open_low=True),
        Parameter("centre", (1.0, -0.1, 0.0), "m", "their centre of mass: up, forward, left"),
        Parameter("inertia", (3.0, 9.0, 11.0), "kg m^2", "their moments about it: yaw, roll, pitch", 0, open_low=True),
        Parameter("wheel_mass", 2.0, "kg", "mass of each wheel, at its rim", low=0, open_low=True),
        Parameter("speed", 5.0, "m/s", "radius times rate of the rear wheel"),
        Parameter("steer", 0.05, "rad", "amplitude of the steering angle", low=-1.4, high=1.4),
        Parameter("steer_rate", 3.0, "rad/s", "rate of the steering law"),
        Parameter(
            "lean_rate",
            -0.2294917,
            "rad/s",
            "initial rate of the lean to the right; the default keeps the slalom upright",
        ),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "lean_max": "rad",
        "distance": "m",
        "line_off_ground": "m",
        "steer_torque_max": "N m",
        "energy_error": "J",
        "residual": "mixed",
    },
)
