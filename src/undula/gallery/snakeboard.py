"""The snakeboard: a rotor and two steered axles move a board that nothing pushes (Ali 2011, section 4.2).

The numbers and the gaits are near those of Ostrowski, Lewis, Murray and Burdick (1994): 6 kg in all, a rotor of
0.072 kg m^2. They satisfy what the document's closed form asks for: the inertia of the whole about the board's centre is
mass times half_length squared.
"""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

GAITS = {"drive": 1.0, "rotate": 2.0, "park": 1.5}  # rate of the rotor over rate of the axles
RADIUS, TRACK = 0.03, 0.14  # of the wheels, for the drawing alone


def build(p: dict) -> Setup:
    l = p["half_length"]
    b = un.Builder("snakeboard", gravity=(0, 0, 0))
    b.base(
        "board",
        role="free",
        group="SE2",
        mass=p["mass_board"],
        inertia=un.solids.planar_inertia(p["inertia_board"]),
        shapes=[
            un.Shape("box", (2 * l, 0.06, 0.015), (0, 0, 0.07), colour=(0.72, 0.53, 0.30)),
            un.Shape("ellipsoid", (0.11, 0.09, 0.008), (l, 0, 0.078), colour=(0.80, 0.27, 0.22)),
            un.Shape("ellipsoid", (0.11, 0.09, 0.008), (-l, 0, 0.078), colour=(0.72, 0.53, 0.30)),
        ],
    )
    b.body(
        "rotor",
        "board",
        un.Revolute((0, 0, 1), name="psi"),
        mass=p["mass_rotor"],
        inertia=un.solids.planar_inertia(p["inertia_rotor"]),
        shapes=[
            un.Shape("box", (0.05, 0.9 * l, 0.03), (0, 0, 0.16), colour=(0.13, 0.47, 0.71)),
            un.Shape("cylinder", (0.02, 0.1), (0, 0, 0.12), colour=(0.5, 0.5, 0.55)),
        ],
    )
    for name, x in (("front", l), ("rear", -l)):
        b.body(
            name,
            "board",
            un.Revolute((0, 0, 1)),
            mass=p["mass_axle"],
            inertia=un.solids.planar_inertia(p["inertia_axle"]),
            position=(x, 0, 0),
            shapes=drawing.axle(RADIUS, TRACK),
        )
        b.add(un.rows.Skate(f"{name}-wheels", name))
    phi = un.laws.Sinusoid(p["phi_amplitude"], p["phi_rate"], p["phi_phase"])
    psi = un.laws.Sinusoid(p["psi_amplitude"], rotor_rate(p), p["psi_phase"])
    b.drive(["psi", "front", "rear"], un.laws.stack([psi, -phi, phi]))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["phi_rate"]) or 1.0)
    return Setup(system, system.state(), t_end=4 * cycle, dt=cycle / 800)


def rotor_rate(p: dict) -> float:
    """Rate of the rotor's law [rad/s]: the one given, or that of a gait."""
    if not p["gait"]:
        return p["psi_rate"]
    if p["psi_rate"] != PSI_RATE:
        raise un.UndulaError(
            f"psi_rate = {p['psi_rate']:g} is not allowed with gait = {p['gait']}, which sets it; leave one of them out."
        )
    return GAITS[p["gait"]] * p["phi_rate"]


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {"effort_max": np.abs(data.effort.values).max()}


PSI_RATE = 1.0
SCENARIO = Scenario(
    name="snakeboard",
    summary="A rotor and two steered axles drive a board from rest: under-constrained, moved by momentum",
    source="Ali 2011, section 4.2 (numbers and gaits near those of Ostrowski et al. 1994)",
    parameters=(
        Parameter("mass_board", 2.0, "kg", "mass of the board", low=0, open_low=True),
        Parameter("mass_rotor", 2.0, "kg", "mass of the rotor", low=0, open_low=True),
        Parameter("mass_axle", 1.0, "kg", "mass of each axle", low=0, open_low=True),
        Parameter("half_length", 0.2, "m", "from the board's centre to each axle", low=0, open_low=True),
        Parameter("inertia_board", 0.0854, "kg m^2", "of the board about its centre", low=0, open_low=True),
        Parameter("inertia_rotor", 0.072, "kg m^2", "of the rotor about its centre", low=0, open_low=True),
        Parameter("inertia_axle", 0.0013, "kg m^2", "of each axle about its centre", low=0, open_low=True),
        Parameter("phi_amplitude", 0.3, "rad", "amplitude of the axles' angle (front -phi, rear +phi)"),
        Parameter("phi_rate", 1.0, "rad/s", "rate of the axles' law"),
        Parameter("phi_phase", 0.0, "rad", "phase of the axles' law"),
        Parameter("psi_amplitude", 0.7, "rad", "amplitude of the rotor's angle"),
        Parameter("psi_rate", PSI_RATE, "rad/s", "rate of the rotor's law"),
        Parameter("psi_phase", 0.0, "rad", "phase of the rotor's law"),
        Parameter(
            "gait",
            "",
            "",
            "sets the rotor's rate to 1 (drive), 2 (rotate) or 3/2 (park) times phi_rate; empty: psi_rate",
            choices=("", *GAITS),
        ),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS | {"effort_max": "N m"},
)
