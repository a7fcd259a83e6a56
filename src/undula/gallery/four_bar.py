"""A four-bar linkage with a driven crank: a loop, cut at one of its joints (Ali 2011, appendix A.1)."""

import numpy as np

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup

GREY, COLOURS = (0.3, 0.3, 0.32), {"crank": (0.85, 0.3, 0.2), "coupler": (0.2, 0.45, 0.75), "rocker": (0.25, 0.6, 0.35)}
LENGTHWAYS = (0.5**0.5, 0, 0.5**0.5, 0)  # z to x
HINGE = (0.5**0.5, 0.5**0.5, 0, 0)  # z to -y: the axis of all the joints; angles go from x towards z

# for each place of the cut: the bars in the order of the tree, with what carries them (the joint is at a bar's far end or,
# if it is reached backwards, at its near end), then which bar closes the loop and on what
TREES = {
    "crank-coupler": ((("rocker", "ground"), ("coupler", "rocker")), ("coupler", "crank")),
    "coupler-rocker": ((("coupler", "crank"), ("rocker", "ground")), ("coupler", "rocker")),
    "rocker-ground": ((("coupler", "crank"), ("rocker", "coupler")), ("rocker", "ground")),
}
BACKWARDS = {("coupler", "rocker"), ("rocker", "coupler")}  # these hang on the far end of what they meet


def build(p: dict) -> Setup:
    length = dict(zip(("ground", "crank", "coupler", "rocker"), p["lengths"]))
    longest, shortest = max(p["lengths"]), min(p["lengths"])
    if 2 * (longest + shortest) >= sum(p["lengths"]) or length["crank"] > shortest:
        raise un.UndulaError(
            f"lengths = {list(p['lengths'])} is not allowed; the crank must be the shortest bar, and the shortest and the "
            "longest together shorter than the two others, or it cannot turn round."
        )
    b = un.Builder("four-bar", gravity=(0, 0, -p["gravity"]))
    b.base("ground", shapes=[_bar(length["ground"], GREY)])
    tree, (last, other) = TREES[p["cut"]]
    sides = {"ground": 1, "crank": 1}  # 1 if a bar's frame is at its near end, -1 if it was reached backwards
    for name, parent in (("crank", "ground"), *tree):
        l, m = length[name], p["density"] * length[name]
        sides[name] = -1 if (name, parent) in BACKWARDS else 1
        at = 0.0 if name == "crank" else length[parent]
        law = un.laws.Polynomial([p["angle"], p["speed"]]) if name == "crank" else None
        b.body(
            name,
            parent,
            un.Revolute((0, -1, 0), motion=law),
            mass=m,
            com=(sides[name] * l / 2, 0, 0),
            inertia=un.solids.cylinder_inertia(m, 0.01, l, "x"),
            position=(at, 0, 0),
            shapes=[_bar(sides[name] * l, COLOURS[name])],
        )
    here, there = (sides[last] * length[last], 0, 0), (length[other], 0, 0)
    b.add(un.rows.Closure("loop", un.site(last, here, HINGE), un.site(other, there, HINGE), p["closure"]))
    system = b.build()
    # a rough guess, which the library assembles: the rocker upright, the coupler from the crank to its top
    crank = length["crank"] * np.array([np.cos(p["angle"]), np.sin(p["angle"])])
    x, z = np.array([length["ground"], length["rocker"]]) - crank
    angles = {"ground": 0.0, "crank": p["angle"], "coupler": np.arctan2(z, x), "rocker": np.pi / 2}
    guess = {name: angles[name] - angles[parent] for name, parent in tree}
    cycle = 2 * np.pi / (abs(p["speed"]) or 6.0)  # a crank that stands still has none: any time will do
    return Setup(system, lambda system: un.assemble(system, system.state(guess)), t_end=2 * cycle, dt=cycle / 500)


def _bar(length: float, colour: tuple[float, ...]) -> un.Shape:
    return un.Shape("capsule", (0.012, abs(length)), (length / 2, 0, 0), LENGTHWAYS, colour)


def metrics(setup: Setup, data) -> dict[str, float]:
    torque = data.effort.sel(coordinate="crank").values
    return {
        "torque_max": np.abs(torque).max(),
        "rocker_swing": np.ptp(measures.headings(data, "rocker")),
        "reaction_max": np.abs(data.reaction.values).max(),
        "energy_error": measures.energy_error(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="four-bar",
    summary="A four-bar linkage with a driven crank: a closed loop, cut where you like",
    source="Ali 2011, appendix A.1 (numbers are ours)",
    parameters=(
        Parameter(
            "lengths",
            (0.4, 0.12, 0.42, 0.3),
            "m",
            "ground, crank, coupler, rocker; the crank the shortest",
            0,
            open_low=True,
        ),
        Parameter("density", 1.0, "kg/m", "mass of the bars per length", low=0, open_low=True),
        Parameter("angle", 0.5, "rad", "angle of the crank at the start"),
        Parameter("speed", 6.0, "rad/s", "speed of the crank"),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
        Parameter("cut", "coupler-rocker", "", "joint at which the loop is cut", choices=tuple(TREES)),
        Parameter(
            "closure",
            "line",
            "",
            "what closes it: a point on a line (isostatic), a ball joint or a hinge (hyperstatic)",
            choices=("line", "spherical", "revolute"),
        ),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "torque_max": "N m",
        "rocker_swing": "rad",
        "reaction_max": "N",
        "energy_error": "J",
        "residual": "mixed",
    },
)
