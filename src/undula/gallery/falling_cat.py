"""Two bodies and a waist that bends all around without twisting: the cat turns over (Ali 2011, section 2.3.4)."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

FUR, PAW = (0.85, 0.55, 0.25), (0.98, 0.93, 0.85)


def build(p: dict) -> Setup:
    m, r, l = p["mass"] / 2, p["radius"], p["length"] / 2
    b = un.Builder("falling-cat")

    def half(side):
        """The half behind (side = -1) or before (+1) the waist; the spine is the x axis, the belly at z < 0."""
        shapes = [un.Shape("capsule", (r, l), (side * l / 2, 0, 0), drawing.ALONG_X, FUR)]
        for y in (-0.6 * r, 0.6 * r):
            shapes.append(un.Shape("capsule", (0.2 * r, 1.6 * r), (side * 0.7 * l, y, -1.5 * r), colour=PAW))
        if side > 0:
            shapes.append(un.Shape("sphere", (0.75 * r,), (1.25 * l, 0, 0.5 * r), colour=FUR))
        else:
            shapes.append(un.Shape("capsule", (0.15 * r, 0.8 * l), (-1.3 * l, 0, 0.4 * r), drawing.ALONG_X, FUR))
        return dict(mass=m, com=(side * l / 2, 0, 0), inertia=un.solids.cylinder_inertia(m, r, l, "x"), shapes=shapes)

    # it starts on its back: turned by pi about the spine
    b.base("rear", role="free", position=(0, 0, p["height"]), rotation=(0.0, 1.0, 0.0, 0.0), **half(-1))
    b.body("front", "rear", un.Spherical(name="waist"), **half(+1))

    # Bend, carry the bend once around the spine, stretch: the relative rotation vector stays normal to the spine, so that
    # the waist does not twist (Kane and Scher, 1969).
    T = p["duration"]
    bend = un.laws.Quintic(0.0, p["bend"], 0.0, T / 4) - un.laws.Quintic(0.0, p["bend"], 3 * T / 4, T)
    around = un.laws.Retimed(
        un.laws.Sinusoid([0.0, 1.0, 1.0], 1.0, [0.0, np.pi / 2, 0.0]), un.laws.Quintic(0.0, 2 * np.pi, T / 4, 3 * T / 4)
    )
    b.drive(["waist.rx", "waist.ry", "waist.rz"], bend * around)
    system = b.build()
    return Setup(system, measures.at_rest, t_end=T, dt=T / 1200)


def metrics(setup: Setup, data) -> dict[str, float]:
    return {
        "net_rotation": measures.net_rotation(data),
        "momentum_max": measures.angular_momentum(data).max(),
    }


SCENARIO = Scenario(
    name="falling-cat",
    summary="A cat falls on its back and turns over with zero angular momentum",
    source="Ali 2011, section 2.3.4 (numbers are ours)",
    parameters=(
        Parameter("mass", 4.0, "kg", "mass of the cat", low=0, open_low=True),
        Parameter("length", 0.5, "m", "length of the trunk", low=0, open_low=True),
        Parameter("radius", 0.07, "m", "radius of the trunk", low=0, open_low=True),
        Parameter(
            "bend",
            1.297621305164,
            "rad",
            "bend of the waist; the default turns the default cat by pi",
            low=-3.0,
            high=3.0,
        ),
        Parameter("duration", 0.6, "s", "time of the fall", low=0, open_low=True),
        Parameter("height", 2.0, "m", "height of the start"),
    ),
    build=build,
    metrics=metrics,
    metric_units={"net_rotation": "rad", "momentum_max": "kg m^2/s"},
)
