"""A spatial arm with three tendons: two straight ones and a helical one, which twists it (Gotelli 2024, (2.32))."""

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import measures, rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    d, L, a = p["diameter"], p["length"], p["offset"]
    b = un.Builder("tendon-spatial", gravity=(0, 0, -p["gravity"]))
    b.base("palm", shapes=[un.Shape("box", (2.5 * d, 2.5 * d, d), (0, 0, d / 2), colour=rods.CLAMP)])
    elastic = rods.soft(
        p, "extensible-kirchhoff", modes={"Gx": 2, "Kx": p["modes"], "Ky": p["modes"], "Kz": p["modes"]}
    )
    b.body(
        "tip",
        "palm",
        elastic,
        rotation=rods.DOWN,
        shapes=[un.Shape("box", (0.3 * d, 2 * d, 0.4 * d), colour=rods.STEEL)],
    )
    turns = 2 * np.pi * p["turns"] / L

    def helix(X):
        return a * jnp.stack([jnp.cos(turns * X), jnp.sin(turns * X)])

    routes = {"straight": (a, 0.0), "aside": (-0.5 * a, 3**0.5 / 2 * a), "helical": helix}
    start = un.laws.SoftStart(p["start"])
    for k, (name, route) in enumerate(routes.items()):
        b.add(un.forces.Tendon(name, "tip", route, tension=p["tensions"][k] * start))
    system = b.build()
    return Setup(system, lambda system: un.equilibrium(system).state, t_end=2.0, dt=0.005)


def metrics(setup: Setup, data) -> dict[str, float]:
    x, y, z = rods.tip(data)
    twist = data.rod_strain.sel(strain="Kx").values[-1, 0]
    return {
        "tip_x": x,
        "tip_y": y,
        "tip_z": z,
        "twist_end": np.trapezoid(twist, data.rod_abscissa.values[0]),
        "shortening": float(data.tendon_length.values[0].max() - data.tendon_length.values[-1].min()),
        "energy_error": measures.energy_error(data),
    }


SCENARIO = Scenario(
    name="tendon-spatial",
    summary="A soft arm with two straight tendons and a helical one: it bends in space and twists",
    source="Gotelli 2024, section 2.3 (numbers are ours)",
    parameters=(
        *rods.material(0.3, 0.02, 1e6, 1100.0, 0.02),
        Parameter("offset", 0.008, "m", "distance of the tendons from the axis", low=0),
        Parameter(
            "tensions", (2.0, 1.0, 4.0), "N", "final tensions of the straight, the aside and the helical tendon", low=0
        ),
        Parameter("turns", 1.0, "", "turns of the helical tendon around the axis"),
        Parameter("start", 0.5, "s", "time in which the tensions grow", low=0, open_low=True),
        rods.modes(3, "torsion and curvatures"),
        rods.nodes(14),
        Parameter("gravity", 9.81, "m/s^2", "gravity, along -z", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "tip_x": "m",
        "tip_y": "m",
        "tip_z": "m",
        "twist_end": "rad",
        "shortening": "m",
        "energy_error": "J",
    },
)
