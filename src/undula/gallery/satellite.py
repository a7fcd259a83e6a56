"""A satellite turned by three rotors (document 000, section 4.1)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup

COLOURS = ((0.80, 0.27, 0.22), (0.20, 0.60, 0.33), (0.13, 0.47, 0.71))
TURNS = (
    (0.5**0.5, 0, 0.5**0.5, 0),
    (0.5**0.5, -(0.5**0.5), 0, 0),
    (1.0, 0, 0, 0),
)  # the cylinder's z to x, y, z
ROTOR_MASS, BODY_MASS = 1.0, 100.0  # ours: the rotation does not depend on them, all centres being one point


def build(p: dict) -> Setup:
    # Rotors are thin discs (axial moment twice the transverse one), centred at the total mass centre.
    locked, axial = np.array(p["body_inertia"]), np.array(p["rotor_inertia"])
    discs = np.array([np.where(np.arange(3) == j, axial[j], axial[j] / 2) for j in range(3)])
    own = locked - discs.sum(0)
    if own.min() <= 0 or 2 * own.max() > own.sum():
        raise un.UndulaError(
            f"body_inertia = {locked.tolist()} is not allowed with rotor_inertia = {axial.tolist()}; what is left for the "
            f"body without its rotors, {own.tolist()}, must be positive and obey the triangle inequality."
        )
    b = un.Builder("satellite", gravity=(0, 0, 0))
    b.base(
        "satellite",
        role="free",
        group="SO3",
        mass=BODY_MASS,
        inertia=own,
        shapes=[
            un.Shape("box", (1.0, 1.0, 1.0), colour=(0.75, 0.75, 0.78)),
            un.Shape("box", (0.03, 2.2, 0.7), (0, 1.65, 0), colour=(0.15, 0.2, 0.45)),
            un.Shape("box", (0.03, 2.2, 0.7), (0, -1.65, 0), colour=(0.15, 0.2, 0.45)),
        ],
    )
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
    system = b.build()
    return Setup(system, measures.at_rest, t_end=4 * np.pi, dt=4 * np.pi / 1256)


def metrics(setup: Setup, data) -> dict[str, float]:
    return {
        "net_rotation": measures.net_rotation(data),
        "momentum_drift": measures.angular_momentum(data, "base").max(),
    }


SCENARIO = Scenario(
    name="satellite",
    summary="Three rotors turn a satellite: cyclic rotor angles, net rotation, zero momentum",
    source="000, section 4.1",
    parameters=(
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
    ),
    build=build,
    metrics=metrics,
)
