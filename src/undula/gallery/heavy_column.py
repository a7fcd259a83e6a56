"""A column under its own weight: Greenhill's problem, statics with an instability."""

import undula as un
from undula.gallery import rods
from undula.scenario.scenario import Parameter, Scenario, Setup

# weight per length times length^3 / EI at the critical height: (9/4) j^2, j the first zero of the Bessel function J_-1/3
GREENHILL = 7.837347


def column(p: dict, weight: float) -> un.System:
    """A column of a `weight` [N/m], with a small side force at its top."""
    L, EI = p["length"], p["EI"]
    b = un.Builder("heavy-column", gravity=(0, 0, -9.81))
    width = 0.02 * L
    b.base("ground", shapes=[un.Shape("box", (8 * width, 8 * width, width), (0, 0, -width / 2), colour=rods.CLAMP)])
    m = weight / 9.81
    elastic = un.Rod(
        length=L,
        stiffness=(EI, EI, EI, EI, EI, EI),
        inertia=(m, m, m, 0.0, 0.0, 0.0),
        damping=p["damping"],
        strains=("Ky",),
        modes=p["modes"],
        nodes=p["nodes"],
        order=6,
        colour=rods.RUBBER,
        drawn=(width, width),
    )
    b.body("tip", "ground", elastic, rotation=rods.UP)
    b.add(un.forces.Load("tip", (p["push"], 0, 0)))
    return b.build()


def critical(p: dict) -> float:
    """Weight per length [N/m] at which the upright column is no longer stable: where its smallest stiffness is zero."""
    from scipy.optimize import brentq

    upright = dict(p, push=0.0)
    guess = GREENHILL * p["EI"] / p["length"] ** 3

    def lowest(weight):
        system = column(upright, weight)
        return un.tangent_stiffness(system, system.state()).lowest

    return brentq(lowest, 0.1 * guess, 10 * guess, rtol=1e-9)


def build(p: dict) -> Setup:
    system = column(p, p["load"] * GREENHILL * p["EI"] / p["length"] ** 3)
    return Setup(system, system.state(), t_end=p["duration"], dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    weight = critical(p)
    x, _, z = rods.tip(data)
    return {
        "critical_weight": weight,
        "critical_number": weight * p["length"] ** 3 / p["EI"],
        "tip_x": x,
        "tip_z": z,
    }


SCENARIO = Scenario(
    name="heavy-column",
    summary="A column too tall for its own weight: it buckles beyond Greenhill's height and hangs over",
    source="Gotelli 2024, section 2 (statics with an instability; Greenhill 1881)",
    parameters=(
        Parameter("length", 1.0, "m", "height of the column", low=0, open_low=True),
        Parameter("EI", 1.0, "N m^2", "bending stiffness", low=0, open_low=True),
        Parameter("load", 1.5, "", "weight, in units of the critical one", low=0, open_low=True),
        Parameter("push", 1e-3, "N", "side force at the top, along x, which breaks the symmetry"),
        Parameter("damping", 0.1, "s", "Kelvin-Voigt damping: viscosity over elasticity", low=0),
        Parameter("duration", 10.0, "s", "length of the run", low=0, open_low=True),
        rods.modes(6, "the curvature"),
        rods.nodes(20),
    ),
    build=build,
    metrics=metrics,
    metric_units={"critical_weight": "N/m", "critical_number": "1", "tip_x": "m", "tip_z": "m"},
)
