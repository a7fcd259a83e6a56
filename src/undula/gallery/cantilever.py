"""A hanging rod, bent by a horizontal force at its tip and released (Gotelli 2024, section 3.9.1)."""

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict, dt: float) -> Setup:
    def rod(force):
        width = p["drawn_diameter"]
        b = un.Builder("cantilever", gravity=(0, 0, -p["gravity"]))
        clamp = un.Shape("box", (6 * width, 6 * width, 2 * width), (0, 0, width), colour=rods.CLAMP)
        b.base("ground", shapes=[clamp])
        elastic = rods.soft(p, "planar-kirchhoff", drawn=(width, width))
        b.body("tip", "ground", elastic, rotation=rods.DOWN)
        if force:
            b.add(un.forces.Load("tip", (force, 0, 0)))
        return b.build()

    held = rod(p["force"])
    return Setup(rod(0.0), lambda system: un.equilibrium(held).state, t_end=p["duration"], dt=dt)


def metrics(setup: Setup, data) -> dict[str, float]:
    start, end = rods.tip(data, sample=0), rods.tip(data)
    return {
        "tip_x": end[0],
        "tip_z": end[2],
        "start_x": start[0],
        "start_z": start[2],
        "iterations": data.iterations.values[1:].mean(),
        "energy_drift": measures.energy_drift(data),
    }


def scenario(
    name: str, summary: str, length, diameter, E, density, force, modes, duration, source, dt=0.01
) -> Scenario:
    return Scenario(
        name=name,
        summary=summary,
        source=source,
        parameters=(
            *rods.material(length, diameter, E, density),
            Parameter("force", force, "N", "tip force along x before the release"),
            rods.modes(modes, "the curvature"),
            rods.nodes(20),
            Parameter("gravity", 9.81, "m/s^2", "gravity, along -z", low=0),
            Parameter("duration", duration, "s", "length of the run", low=0, open_low=True),
            Parameter(
                "drawn_diameter", max(diameter, 0.008 * length), "m", "diameter of the drawing", low=0, open_low=True
            ),
        ),
        build=lambda p: build(p, dt),
        metrics=metrics,
        metric_units={
            "tip_x": "m",
            "tip_z": "m",
            "start_x": "m",
            "start_z": "m",
            "iterations": "1",
            "energy_drift": "J",
        },
    )
