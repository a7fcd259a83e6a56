"""A satellite turned by three rotors (Ali 2011, section 4.1), or by four control moment gyroscopes."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.gallery.unused import refuse_unused
from undula.scenario.scenario import Parameter, Scenario, Setup

COLOURS = ((0.80, 0.27, 0.22), (0.20, 0.60, 0.33), (0.13, 0.47, 0.71), (0.88, 0.62, 0.20))
TURNS = (
    (0.5**0.5, 0, 0.5**0.5, 0),
    (0.5**0.5, -(0.5**0.5), 0, 0),
    (1.0, 0, 0, 0),
)  # the cylinder's z to x, y, z
# parameters that only one kind of actuators has
ONLY = dict.fromkeys(("rotor_inertia", "rotor_angle", "rotor_rate", "rotor_phase"), ("rotors",)) | dict.fromkeys(
    ("gyro_inertia", "gyro_rate", "skew", "gimbal_angle", "gimbal_rate"), ("gyros",)
)
ROTOR_MASS, BODY_MASS = 1.0, 100.0  # ours: the rotation does not depend on them, all centres being one point


def build(p: dict) -> Setup:
    refuse_unused(SCENARIO, p, "actuators", ONLY)
    # Rotors are thin discs (axial moment twice the transverse one), centred at the total mass centre.
    b = un.Builder("satellite", gravity=(0, 0, 0))
    gyros = p["actuators"] == "gyros"
    discs = (
        gyro_discs(p)
        if gyros
        else [np.diag(np.where(np.eye(3)[j], x, x / 2)) for j, x in enumerate(p["rotor_inertia"])]
    )
    b.base(
        "satellite",
        role="free",
        group="SO3",
        mass=BODY_MASS,
        inertia=left_for_body(p, discs, "gyro_inertia" if gyros else "rotor_inertia"),
        shapes=[
            un.Shape("box", (1.0, 1.0, 1.0), colour=(0.75, 0.75, 0.78)),
            un.Shape("box", (0.03, 2.2, 0.7), (0, 1.65, 0), colour=(0.15, 0.2, 0.45)),
            un.Shape("box", (0.03, 2.2, 0.7), (0, -1.65, 0), colour=(0.15, 0.2, 0.45)),
        ],
    )
    if gyros:
        add_gyros(b, p)
    else:
        add_rotors(b, p, discs)
    return Setup(b.build(), measures.at_rest, t_end=4 * np.pi, dt=4 * np.pi / 1256)


def left_for_body(p: dict, discs: list[np.ndarray], culprit: str) -> np.ndarray:
    """Inertia of the body without its discs, refused if it is not physical."""
    locked = np.array(p["body_inertia"])
    own = np.diag(locked) - sum(discs)
    moments = np.linalg.eigvalsh(own)
    if moments.min() <= 0 or 2 * moments.max() > moments.sum():
        raise un.UndulaError(
            f"body_inertia = {locked.tolist()} is not allowed with {culprit} = {p[culprit]}; what is left for the "
            f"body without its discs, {moments.tolist()}, must be positive and obey the triangle inequality."
        )
    return own


def add_rotors(b: un.Builder, p: dict, discs: list[np.ndarray]) -> None:
    for j, axis in enumerate(np.eye(3)):
        b.body(
            f"rotor{j + 1}",
            "satellite",
            un.Revolute(tuple(axis)),
            mass=ROTOR_MASS,
            inertia=discs[j],
            shapes=[
                un.Shape("cylinder", (0.32, 0.08), tuple(0.56 * axis), TURNS[j], COLOURS[j]),
                un.Shape("box", (0.05, 0.05, 0.05), tuple(0.6 * axis + 0.25 * np.roll(axis, 1)), colour=(1, 1, 1)),
            ],
        )
    b.drive(
        ["rotor1", "rotor2", "rotor3"],
        un.laws.Sinusoid(list(p["rotor_angle"]), list(p["rotor_rate"]), list(p["rotor_phase"])),
    )


def gyro_frames(skew: float) -> list[np.ndarray]:
    """Axes of the gyroscopes of a pyramid, as columns: of spin at the start, of the torque that they give, of the gimbal."""
    frames = []
    for k in range(4):
        c, s = np.round(np.cos(k * np.pi / 2)), np.round(np.sin(k * np.pi / 2))
        spin, gimbal = np.array([-s, c, 0.0]), np.array([np.sin(skew) * c, np.sin(skew) * s, np.cos(skew)])
        frames.append(np.stack([spin, np.cross(gimbal, spin), gimbal], axis=1))
    return frames


def gyro_discs(p: dict) -> list[np.ndarray]:
    """Inertias of the wheels in the body's axes, gimbals at zero."""
    return [R @ np.diag([1.0, 0.5, 0.5]) @ R.T * p["gyro_inertia"] for R in gyro_frames(p["skew"])]


def add_gyros(b: un.Builder, p: dict) -> None:
    own = p["gyro_inertia"]
    for k, R in enumerate(gyro_frames(p["skew"]), start=1):
        # drawn outside of the body on the axis of its gimbal, with a wheel whose spin is too fast to be seen
        at = (0.0, 0.0, 1.0)
        shapes = [
            un.Shape("cylinder", (0.26, 0.09), at, drawing.ALONG_X, COLOURS[k - 1]),
            un.Shape("cylinder", (0.05, 0.3), at, drawing.ALONG_X, drawing.HUB),
            un.Shape("cylinder", (0.03, 0.55), (0, 0, 0.55), colour=(0.35, 0.35, 0.38)),
        ]
        b.body(f"gimbal{k}", "satellite", un.Revolute((0, 0, 1)), rotation=R, shapes=shapes)
        b.body(f"wheel{k}", f"gimbal{k}", un.Revolute((1, 0, 0)), ROTOR_MASS, inertia=(own, own / 2, own / 2))
    # gimbals start and stop at rest: amplitude (1 - cos) / 2; at zero the momenta of the wheels cancel
    half = np.array(p["gimbal_angle"]) / 2
    swing = un.laws.Sinusoid(list(-half), p["gimbal_rate"], np.pi / 2, list(half))
    b.drive([f"gimbal{k}" for k in range(1, 5)], swing)
    b.drive([f"wheel{k}" for k in range(1, 5)], un.laws.Polynomial([0.0, p["gyro_rate"]]))


def metrics(setup: Setup, data) -> dict[str, float]:
    return {
        "net_rotation": measures.net_rotation(data),
        "momentum_drift": measures.angular_momentum(data, "base").max(),
    }


SCENARIO = Scenario(
    name="satellite",
    summary="Three rotors, or four control moment gyroscopes, turn a satellite: cyclic angles, net rotation, zero momentum",
    source="Ali 2011, section 4.1 (the gyroscopes are ours)",
    parameters=(
        Parameter("actuators", "rotors", "", "what turns the satellite", choices=("rotors", "gyros")),
        Parameter(
            "body_inertia",
            (10.0, 12.0, 15.0),
            "kg m^2",
            "diagonal of the locked inertia about the mass centre",
            0,
            open_low=True,
        ),
        Parameter("rotor_inertia", (0.5, 0.5, 0.5), "kg m^2", "axial inertia of each rotor", low=0, open_low=True),
        Parameter("rotor_angle", (20.0, 20.0, 5.0), "rad", "amplitude of each rotor's angle"),
        Parameter("rotor_rate", (1.0, 1.0, 1.0), "rad/s", "rate of each rotor's law"),
        Parameter("rotor_phase", (0.0, np.pi / 2, 0.0), "rad", "phase of each rotor's law"),
        Parameter("gyro_inertia", 0.05, "kg m^2", "gyros: axial inertia of each wheel", low=0, open_low=True),
        Parameter("gyro_rate", 100.0, "rad/s", "gyros: constant spin of the wheels"),
        Parameter("skew", 0.9553, "rad", "gyros: angle of the gimbal axes from z", low=0, high=1.5708),
        Parameter("gimbal_angle", (0.4, 0.4, 0.1, 0.1), "rad", "gyros: largest angle of each gimbal"),
        Parameter("gimbal_rate", 1.0, "rad/s", "gyros: rate of the gimbals' laws"),
    ),
    build=build,
    metrics=metrics,
    metric_units={"net_rotation": "rad", "momentum_drift": "kg m^2/s"},
)
