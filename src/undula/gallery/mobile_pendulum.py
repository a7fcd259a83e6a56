"""A cart on two driven wheels that carries a pendulum (Boyer & Belkhiri 2013, section VI.A)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

# Weights of the reactions of the front and the rear wheel: where one is zero, that wheel carries the whole traction
SHARES = {"equal": (1.0, 1.0), "front": (0.0, 1.0), "rear": (1.0, 0.0)}


def build(p: dict) -> Setup:
    l, R, half = p["length"], p["radius"], p["wheelbase"] / 2
    b = un.Builder("mobile-pendulum", gravity=(0, 0, -p["gravity"]))
    b.base(
        "cart",
        role="free",
        group="R",
        mass=p["cart_mass"],
        inertia=un.solids.box_inertia(p["cart_mass"], (2 * half, R, R)),
        position=(0, 0, R),
        shapes=[un.Shape("box", (2 * half + R, 0.5 * R, 0.5 * R), colour=(0.35, 0.4, 0.5))],
    )
    # the wheels are driven alike: two rows, one unknown, so that the torques of the wheels are not unique
    law = un.laws.Sinusoid(p["amplitude"], p["rate"], np.pi / 2, -p["amplitude"])
    for name, x in (("front", half), ("rear", -half)):
        b.body(
            name,
            "cart",
            un.Revolute((0, 1, 0), motion=law),
            p["wheel_mass"],
            inertia=un.solids.cylinder_inertia(p["wheel_mass"], R, 0.2 * R, "y"),
            position=(x, 0, 0),
            shapes=[
                un.Shape("cylinder", (R, 0.2 * R), (0, 0.4 * R, 0), drawing.ALONG_Y, (0.15, 0.15, 0.15)),
                un.Shape("box", (1.6 * R, 0.05 * R, 0.15 * R), (0, 0.52 * R, 0), colour=(0.9, 0.9, 0.9)),
            ],
        )
        b.add(un.rows.Wheel(f"{name}_contact", "cart", (x, 0, 0), radius=R, roll=name, side=False))
    b.body(
        "pendulum",
        "cart",
        un.Revolute((0, -1, 0)),
        p["pendulum_mass"],
        com=(0, 0, -l),
        shapes=[
            un.Shape("cylinder", (0.02 * l, l), (0, 0, -l / 2), colour=(0.5, 0.5, 0.5)),
            un.Shape("sphere", (0.12 * l,), (0, 0, -l), colour=(0.85, 0.3, 0.2)),
        ],
    )
    system = b.build().replace(reaction_weights=SHARES[p["share"]])
    cycle = 2 * np.pi / p["rate"]
    return Setup(system, system.state({"pendulum": p["angle"]}), t_end=4 * cycle, dt=cycle / 600)


def metrics(setup: Setup, data) -> dict[str, float]:
    torque = data.effort.sel(coordinate=["front", "rear"]).values
    return {
        "swing_max": np.abs(data.position.sel(coordinate="pendulum").values).max(),
        "torque_max": np.abs(torque).max(),
        "torque_difference": np.abs(torque[:, 0] - torque[:, 1]).max(),
        "energy_error": measures.energy_error(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="mobile-pendulum",
    summary="A cart on two driven wheels with a pendulum: the wheels' torques are not unique",
    source="Boyer & Belkhiri 2013, section VI.A (numbers are ours)",
    parameters=(
        Parameter("length", 0.5, "m", "length of the pendulum", low=0, open_low=True),
        Parameter("pendulum_mass", 0.4, "kg", "mass at its tip", low=0, open_low=True),
        Parameter("cart_mass", 1.5, "kg", "mass of the cart", low=0, open_low=True),
        Parameter("wheel_mass", 0.2, "kg", "mass of each wheel", low=0, open_low=True),
        Parameter("radius", 0.1, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("wheelbase", 0.4, "m", "distance of the axles", low=0, open_low=True),
        Parameter("amplitude", 3.0, "rad", "amplitude of the wheels' angle"),
        Parameter("rate", 3.0, "rad/s", "rate of the wheels' law", low=0, open_low=True),
        Parameter("angle", 0.0, "rad", "initial angle of the pendulum, from hanging"),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
        Parameter("share", "equal", "", "which wheels carry the traction", choices=tuple(SHARES)),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "swing_max": "rad",
        "torque_max": "N m",
        "torque_difference": "N m",
        "energy_error": "J",
        "residual": "mixed",
    },
)
