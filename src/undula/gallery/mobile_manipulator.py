"""An RX-90-like arm on a car-like platform: each feels the other's motion (Ali 2011, section 4.4)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.gallery.car import add_platform
from undula.gallery.robot_arm import add_arm
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    l, L, R = p["wheelbase"], p["track"], p["wheel_radius"]
    b = un.Builder("mobile-manipulator", gravity=(0, 0, -p["gravity"]))
    deck = un.Shape("box", (1.3 * l, 0.75 * L, R), (0, 0, 1.6 * R), colour=(0.35, 0.38, 0.42))
    platform = dict(wheelbase=l, track=L, radius=R, mass=p["platform_mass"], inertia=p["platform_inertia"])
    steering = {x: p[x] for x in ("steer_amplitude", "steer_rate", "steer_phase")}
    add_platform(b, platform | steering, "platform", un.laws.Constant(p["speed"]), [deck])
    arm = dict(mass=p["arm_mass"], wrist_mass=p["wrist_mass"], radius=p["arm_radius"])
    add_arm(b, arm | dict(amplitude=p["arm_amplitude"], rate=p["arm_rate"]), "platform", height=2.1 * R)
    system = b.build()
    return Setup(system, system.state(), t_end=10.0, dt=0.01)


def motor_torque(p: dict, data) -> np.ndarray:
    """Torque [N m] of each front wheel's motor at each sample if both supply the same: the document's Gamma (figure 4.12b).

    Two motors turn for one velocity xi of the platform, so that only B_aa^T Gamma is determined (3.86). B_aa holds the rates of
    the wheels per xi (4.22).
    """
    torque = data.wheel_torque.sel(wheel=[f"front-{side}-wheel" for side in ("right", "left")]).values
    slope = np.tan(p["steer_amplitude"] * np.sin(p["steer_rate"] * data.time.values + p["steer_phase"]))
    offset = np.array([-0.5, 0.5]) * p["track"] / p["wheelbase"]
    B = np.hypot(1 - offset * slope[:, None], slope[:, None]) / p["wheel_radius"]
    return (B * torque).sum(1) / B.sum(1)


def metrics(setup: Setup, data) -> dict[str, float]:
    torque = np.abs(data.effort.sel(coordinate=[f"joint{j + 1}" for j in range(6)]).values).max(0)
    return (
        measures.journey(data)
        | {f"torque{j + 1}_max": torque[j] for j in range(6)}
        | {"wheel_torque_max": np.abs(motor_torque(setup.parameters, data)).max()}
    )


SCENARIO = Scenario(
    name="mobile-manipulator",
    summary="An RX-90-like arm works on a car that drives: torques of joints and wheels for given motions",
    source="Ali 2011, section 4.4 (masses, wheel radius, rates and the place of the arm are ours)",
    parameters=(
        Parameter("speed", 1.0, "m/s", "speed of the middle of the rear axle: the document's xi, 1 or 0"),
        Parameter("steer_amplitude", 1.0, "rad", "amplitude of the steering angle beta", low=-1.2, high=1.2),
        Parameter("steer_rate", 1.0, "rad/s", "rate of the steering"),
        Parameter("steer_phase", 0.0, "rad", "phase of the steering"),
        Parameter("arm_amplitude", (1.0, 1.0, 1.0), "rad", "amplitude of the joints 1 to 3"),
        Parameter("arm_rate", (1.0, 1.0, 1.0), "rad/s", "rate of the joints 1 to 3"),
        Parameter("wheelbase", 1.0, "m", "distance of the axles", low=0, open_low=True),
        Parameter("track", 0.5, "m", "distance of the wheels of an axle", low=0, open_low=True),
        Parameter("wheel_radius", 0.12, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("platform_mass", 400.0, "kg", "mass of the platform without its front wheels", low=0, open_low=True),
        Parameter(
            "platform_inertia",
            83.0,
            "kg m^2",
            "its inertia about the vertical: ten times that of the stretched arm",
            low=0,
            open_low=True,
        ),
        Parameter("arm_mass", (25.0, 15.0, 10.0), "kg", "masses of the links 1 to 3", low=0, open_low=True),
        Parameter("wrist_mass", 3.0, "kg", "mass of the wrist and the tool", low=0, open_low=True),
        Parameter("arm_radius", 0.07, "m", "radius of the links", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {f"torque{j + 1}_max": "N m" for j in range(6)} | {"wheel_torque_max": "N m"},
)
