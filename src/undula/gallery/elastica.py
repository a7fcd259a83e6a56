"""Euler's elastica: a planar inextensible rod with a dead force at its end, in equilibrium."""

import undula as un
from undula.gallery import rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    L, EI = p["length"], p["EI"]
    b = un.Builder("elastica", gravity=(0, 0, 0))
    width = 0.02 * L
    b.base("ground", shapes=[un.Shape("box", (width, 6 * width, 6 * width), (-width / 2, 0, 0), colour=rods.CLAMP)])
    elastic = un.Rod(
        length=L,
        stiffness=(EI / L**2, EI / L**2, EI / L**2, EI, EI, EI),  # of the curvature Ky alone something is used
        inertia=(p["mass"] / L, p["mass"] / L, p["mass"] / L, 0.0, 0.0, 0.0),
        strains=("Ky",),
        modes=p["modes"],
        nodes=p["nodes"],
        order=6,
        colour=rods.RUBBER,
        drawn=(width, width),
    )
    b.body("tip", "ground", elastic)
    b.add(un.forces.Load("tip", (p["force_x"], 0, p["force_z"])))
    system = b.build()
    # at rest in its equilibrium, it stays there: the run shows it
    return Setup(system, lambda system: un.equilibrium(system, tolerance=1e-12).state, t_end=0.1, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    tip, L = rods.tip(data, sample=0), setup.parameters["length"]
    q = data.position.values[0]
    return {
        "tip_x": tip[0],
        "tip_z": tip[2],
        "tip_angle": -L
        * q[0],  # the integral of a Legendre series is its first coefficient; a turn about y goes from z to x
        "moved": abs(rods.tip(data) - tip).max(),
    }


SCENARIO = Scenario(
    name="elastica",
    summary="Euler's elastica: a clamped rod in equilibrium with a dead force at its end",
    source="Gotelli 2024, section 2 (statics; numbers are ours)",
    parameters=(
        Parameter("length", 1.0, "m", "length of the rod", low=0, open_low=True),
        Parameter("EI", 1.0, "N m^2", "bending stiffness", low=0, open_low=True),
        Parameter("force_x", 0.0, "N", "force at the end along x, the direction of the clamp"),
        Parameter("force_z", 5.0, "N", "force at the end along z"),
        rods.modes(14, "the curvature"),
        rods.nodes(40),
        Parameter("mass", 1.0, "kg", "mass of the rod, which plays no part in the equilibrium", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={"tip_x": "m", "tip_z": "m", "tip_angle": "rad", "moved": "m"},
)
