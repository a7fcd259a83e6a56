"""A snakeboard whose rotor is two flexible beams (Boyer & Belkhiri 2013, section VII.A)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

BOARD, AXLE, BEAMS = (0.55, 0.4, 0.25), (0.2, 0.2, 0.22), ((0.85, 0.35, 0.15), (0.13, 0.47, 0.71))
HEIGHT = 0.12  # of the rotor above the board; nothing depends on it


def build(p: dict) -> Setup:
    l, m, axle, hub = p["half_length"], p["mass"], p["axle_inertia"], p["hub_inertia"]
    L, rho = p["beam_length"], p["beam_density"]
    own_mass = m - 2 * rho * L
    # as in the rigid snakeboard of the document's reference [1], the locked inertia is m l^2: the board gets the rest
    own = m * l * l - 2 * axle - hub - 2 * rho * L**3 / 3
    if own_mass <= 0 or own <= 0:
        raise un.UndulaError(
            f"mass = {m} is not allowed with these beams and axles; what is left for the board, {own_mass:g} kg and "
            f"{own:g} kg m^2, must be positive."
        )
    b = un.Builder("soft-snakeboard", gravity=(0, 0, 0))
    b.base(
        "board",
        role="free",
        group="SE2",
        mass=own_mass,
        inertia=un.solids.planar_inertia(own),
        shapes=[un.Shape("box", (2.2 * l, 0.12, 0.02), (0, 0, 0.05), colour=BOARD)],
    )
    steer = un.laws.Sinusoid(p["steer"], p["rate"], p["steer_phase"])
    for name, x, law in (("front", l, -steer), ("rear", -l, steer)):
        sides = [un.Shape("cylinder", (0.03, 0.02), (0, y, 0.03), drawing.ALONG_Y, AXLE) for y in (-0.08, 0.08)]
        bar = un.Shape("box", (0.02, 0.16, 0.02), (0, 0, 0.03), colour=AXLE)
        b.body(
            name,
            "board",
            un.Revolute((0, 0, 1), motion=law),
            inertia=un.solids.planar_inertia(axle),
            mass=1e-9,
            position=(x, 0, 0),
            shapes=[bar, *sides],
        )
        b.add(un.rows.Skate(f"{name}_wheels", name))
    b.body(
        "shaft",
        "board",
        un.Revolute((0, 0, 1), name="rotor", motion=un.laws.Sinusoid(p["swing"], p["rate"])),
        inertia=un.solids.planar_inertia(hub),
        position=(0, 0, HEIGHT),
        shapes=[un.Shape("cylinder", (0.03, 0.1), (0, 0, -0.02), colour=AXLE)],
    )
    for name, turn, colour in (("beam1", (1.0, 0, 0, 0), BEAMS[0]), ("beam2", (0, 0, 0, 1.0), BEAMS[1])):
        un.flexible.add_beam(
            b,
            name,
            "shaft",
            L,
            rho,
            p["stiffness"],
            damping=p["damping"],
            rotation=turn,
            nodes=5,
            width=0.02,
            colour=colour,
        )
    system = b.build()
    cycle = 2 * np.pi / p["rate"]
    # an explicit step must resolve the beams, clamped on a shaft that gives way a little, and their dampers
    fastest = 1.5 * un.flexible.clamped_modes(1, L).roots[0] ** 2 * np.sqrt(p["stiffness"] / (rho * L**4))
    per_cycle = max(400, int(np.ceil(max(1.0, p["damping"] * fastest) * fastest * cycle)))
    return Setup(system, system.state(), t_end=5 * cycle, dt=cycle / per_cycle)


def metrics(setup: Setup, data) -> dict[str, float]:
    modes = data.position.sel(coordinate=["beam1.mode1", "beam2.mode1"]).values
    return {
        "distance": np.linalg.norm(data.base_position.values[-1] - data.base_position.values[0]),
        "deflection_max": np.abs(modes).max(),
        "asymmetry": np.abs(modes[:, 0] - modes[:, 1]).max(),
        "rotor_torque_max": np.abs(data.effort.sel(coordinate="rotor").values).max(),
        "energy_error": measures.energy_error(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="soft-snakeboard",
    summary="A snakeboard whose rotor is two flexible beams, which store and give back energy",
    source="Boyer & Belkhiri 2013, section VII.A (numbers are ours)",
    parameters=(
        Parameter("stiffness", 0.15, "N m^2", "bending stiffness EI of the beams", low=0, open_low=True),
        Parameter("damping", 0.01, "s", "modal dampers over modal stiffnesses", low=0),
        Parameter("beam_length", 0.3, "m", "length of each beam", low=0, open_low=True),
        Parameter("beam_density", 1.0, "kg/m", "mass of the beams per length", low=0, open_low=True),
        Parameter("half_length", 0.2, "m", "from the centre of the board to the axles (l)", low=0, open_low=True),
        Parameter(
            "mass", 2.0, "kg", "mass of everything; the locked inertia is mass times half_length^2", 0, open_low=True
        ),
        Parameter("axle_inertia", 0.001, "kg m^2", "moment of each axle", low=0, open_low=True),
        Parameter("hub_inertia", 0.001, "kg m^2", "moment of the rotor's shaft", low=0),
        Parameter("steer", 0.5, "rad", "amplitude of the axles", low=-1.5, high=1.5),
        Parameter("steer_phase", 0.0, "rad", "phase of the axles before the rotor"),
        Parameter("swing", 0.7, "rad", "amplitude of the rotor"),
        Parameter("rate", 4.0, "rad/s", "rate of axles and rotor", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "distance": "m",
        "deflection_max": "m",
        "asymmetry": "m",
        "rotor_torque_max": "N m",
        "energy_error": "J",
        "residual": "mixed",
    },
)
