"""A chain of equal links on a free base, driven by a travelling wave; also the benchmark of the recursions."""

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup


def build(p: dict) -> Setup:
    n, m, l, r = p["n"], p["mass"], p["length"], p["radius"]
    b = un.Builder("chain", gravity=(0, 0, 0))

    def link(k):
        blend = k / max(n - 1, 1)
        return dict(
            mass=m,
            com=(l / 2, 0, 0),
            inertia=un.solids.cylinder_inertia(m, r, l, "x"),
            shapes=[
                un.Shape(
                    "capsule", (r, l), (l / 2, 0, 0), drawing.ALONG_X, (0.1 + 0.8 * blend, 0.45, 0.7 - 0.5 * blend)
                )
            ],
        )

    b.base("link1", role="free", **link(0))
    yaw, pitch = [], []
    joint: un.joints.Joint
    for k in range(2, n + 1):
        if p["joint"] == "planar":
            joint = un.Revolute((0, 0, 1), name=f"joint{k - 1}")
            yaw.append(f"joint{k - 1}")
        else:
            joint = un.Universal((0, 0, 1), (0, 1, 0), name=f"joint{k - 1}")
            yaw.append(f"joint{k - 1}.first")
            pitch.append(f"joint{k - 1}.second")
        b.body(f"link{k}", f"link{k - 1}", joint, position=(l, 0, 0), **link(k - 1))
    wave = un.laws.TravellingWave(n - 1, p["amplitude"], p["rate"], p["lag"])
    b.drive(yaw, wave)
    if pitch:
        b.drive(pitch, un.laws.TravellingWave(n - 1, p["amplitude"], p["rate"], p["lag"], phase=np.pi / 2))
    system = b.build()
    cycle = 2 * np.pi / (abs(p["rate"]) or 2.0)  # a wave that stands still has none: any time will do
    return Setup(system, measures.at_rest, t_end=3 * cycle, dt=cycle / 600)


def metrics(setup: Setup, data) -> dict[str, float]:
    return {
        "net_rotation": measures.net_rotation(data),
        "momentum_max": measures.angular_momentum(data).max(),
        "effort_max": np.abs(data.effort.values).max(),
    }


SCENARIO = Scenario(
    name="chain",
    summary="A chain of links on a free base, driven by a travelling wave",
    source="Ali 2011, section 3.4 (unconstrained systems); link data of Transeth et al. 2008, section VIII",
    parameters=(
        Parameter("n", 11, "", "number of links", low=2, high=1000),
        Parameter("joint", "planar", "", "kind of the joints", choices=("planar", "cardan")),
        Parameter("length", 0.122, "m", "length of a link", low=0, open_low=True),
        Parameter("radius", 0.0525, "m", "radius of a link", low=0, open_low=True),
        Parameter("mass", 0.682, "kg", "mass of a link", low=0, open_low=True),
        Parameter("amplitude", 0.5, "rad", "amplitude of the wave"),
        Parameter("rate", 2.0, "rad/s", "rate of the wave"),
        Parameter("lag", 0.6, "rad", "lag of the wave from joint to joint"),
    ),
    build=build,
    metrics=metrics,
    metric_units={"net_rotation": "rad", "momentum_max": "kg m^2/s", "effort_max": "N m"},
)
