"""A soft pendulum: a rod on a hinge, swinging under gravity."""

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    d = p["diameter"]
    b = un.Builder("pendulum-rod", gravity=(0, 0, -p["gravity"]))
    b.base("ground", shapes=[un.Shape("box", (4 * d, 4 * d, d), (0, 0, d), colour=rods.CLAMP)])
    hub = dict(mass=p["hub_mass"], inertia=0.4 * p["hub_mass"] * d * d)
    ball = [un.Shape("sphere", (0.8 * d,), colour=rods.STEEL)]
    b.body("hub", "ground", un.Revolute((0, 1, 0), name="hinge"), **hub, shapes=ball)
    elastic = rods.soft(p, "planar-kirchhoff")
    m = p["tip_mass"]
    weight = [un.Shape("sphere", (1.2 * d,), colour=rods.STEEL)] if m else []
    b.body("tip", "hub", elastic, mass=m, inertia=0.4 * m * (1.2 * d) ** 2, rotation=rods.DOWN, shapes=weight)
    system = b.build()
    return Setup(system, system.state({"hinge": -p["angle"]}), t_end=5.0, dt=0.005)


def metrics(setup: Setup, data) -> dict[str, float]:
    x, _, z = rods.tip(data)
    bent = data.rod_strain.sel(strain="Kz").values
    return {
        "tip_x": x,
        "tip_z": z,
        "curvature_max": abs(bent).max(),
        "energy_error": measures.energy_error(data),
        "iterations": data.iterations.values[1:].mean(),
    }


SCENARIO = Scenario(
    name="pendulum-rod",
    summary="A soft pendulum: a rubber rod with a weight swings on a hinge and whips",
    source="Gotelli 2024, section 3 (a rod behind a revolute joint; numbers are ours)",
    parameters=(
        *rods.material(1.0, 0.03, 2e6, 1100.0, 0.002),
        Parameter("hub_mass", 0.1, "kg", "mass of the hub", low=0, open_low=True),
        Parameter("tip_mass", 0.2, "kg", "mass of the weight at the tip", low=0),
        Parameter("angle", 1.2, "rad", "angle of the rod, from hanging, at the start"),
        rods.modes(4, "the curvature"),
        rods.nodes(16),
        Parameter("gravity", 9.81, "m/s^2", "gravity, along -z", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "tip_x": "m",
        "tip_z": "m",
        "curvature_max": "1/m",
        "energy_error": "J",
        "iterations": "1",
    },
)
