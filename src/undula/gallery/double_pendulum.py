"""Two free joints in gravity: chaotic, and its energy is kept."""

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    b = un.Builder("double-pendulum")
    b.base("pivot", shapes=[un.Shape("sphere", (0.04 * p["length"],), colour=(0.2, 0.2, 0.2))])
    for name, parent, at, colour in (
        ("upper", "pivot", 0.0, (0.90, 0.45, 0.13)),
        ("lower", "upper", -p["length"], (0.13, 0.47, 0.71)),
    ):
        m, l = p["mass"], p["length"]
        b.body(
            name,
            parent,
            un.Revolute((0, 1, 0), damping=p["damping"]),
            mass=m,
            com=(0, 0, -l / 2),
            inertia=(m * l**2 / 12, m * l**2 / 12, m * (0.04 * l) ** 2 / 2),
            position=(0, 0, at),
            shapes=[un.Shape("capsule", (0.03 * l, l), (0, 0, -l / 2), colour=colour)],
        )
    system = b.build()
    return Setup(system, system.state(position=p["angles"]), t_end=10.0, dt=1e-3)


def metrics(setup: Setup, data) -> dict[str, float]:
    return {"energy_drift": measures.energy_drift(data)}


SCENARIO = Scenario(
    name="double-pendulum",
    summary="Two free joints in gravity: chaotic motion, energy kept",
    source="Boyer et al. 2019, figure 15 (forward dynamics of a tree)",
    parameters=(
        Parameter("length", 1.0, "m", "length of each rod", low=0, open_low=True),
        Parameter("mass", 1.0, "kg", "mass of each rod", low=0, open_low=True),
        Parameter("damping", 0.0, "N m s/rad", "damper of each joint", low=0),
        Parameter("angles", (2.0, 1.0), "rad", "initial joint angles"),
    ),
    build=build,
    metrics=metrics,
    metric_units={"energy_drift": "J"},
)
