"""A snake-like robot of wheeled modules: more constraints than motions (Ali 2011, section 4.3).

Bodies and joints have the document's numbers: S0, S2, ... are links, S1, S3, ... wheeled bodies, and joint r_j carries S_j. The
x axis of a link points from head to tail, so that the snake goes towards negative x. The head's frame is at its mass centre;
the frames of the other bodies are at their joints.

At t = 0, and every half cycle, the shape is symmetric and the axles of the first three modules meet in one point: velocities
have a limit there. With passive joints behind, reactions and torques grow as the inverse of the time to that instant; with
actuators that hold these joints, as in the document, torques stay bounded.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

WHEELED = 1 / 3  # part of a module's mass that its wheeled body has (ours)
RULES: dict[str, Callable[[int], Any]] = {  # for a number of modules
    "least reactions": lambda n: un.reactions.Least(),
    "least torques": lambda n: un.reactions.Least(reactions=0.0, efforts=1.0),
    "least power": lambda n: un.reactions.Least(reactions=0.0, power=1.0),
    # all wheels have the same friction, so that its size does not matter
    "largest margin": lambda n: un.reactions.Least(margin={f"wheels{k}": 1.0 for k in range(1, n + 1)}),
    "document": lambda n: un.reactions.Projected(),
}
TRACK, RADIUS = 0.9, 0.2  # of the wheels, in half-lengths, for the drawing and the inertias


def build(p: dict) -> Setup:
    n, l = p["modules"], p["half_length"]
    size, wheel = (2 * l, 0.35 * l, 0.35 * l), RADIUS * l
    link_mass, wheeled_mass = (1 - WHEELED) * p["module_mass"], WHEELED * p["module_mass"]
    b = un.Builder("snake-acm", gravity=(0, 0, 0))

    def link(k, centre):
        blend = k / (n - 1)
        return dict(
            mass=link_mass,
            com=(centre, 0, 0),
            inertia=un.solids.box_inertia(link_mass, size),
            shapes=[
                un.Shape(
                    "capsule",
                    (0.17 * l, 1.6 * l),
                    (centre, 0, 2.6 * wheel),
                    drawing.ALONG_X,
                    (0.15 + 0.75 * blend, 0.6 - 0.1 * blend, 0.35 + 0.2 * blend),
                )
            ],
        )

    b.base("S0", role="free", group="SE2", **link(0, 0.0))
    for k in range(1, n + 1):  # module k: link S_{2k-2}, wheeled body S_{2k-1}
        if k > 1:
            j = 2 * k - 2
            at = l if k == 2 else 2 * l
            b.body(f"S{j}", f"S{j - 2}", un.Revolute((0, 0, 1), name=f"r{j}"), position=(at, 0, 0), **link(k - 1, l))
        j = 2 * k - 1
        b.body(
            f"S{j}",
            f"S{j - 1}",
            un.Revolute((0, 0, 1), name=f"r{j}"),
            mass=wheeled_mass,
            inertia=un.solids.box_inertia(wheeled_mass, (2 * wheel, TRACK * l, 2 * wheel)),
            position=(l if k > 1 else 0, 0, 0),
            shapes=drawing.axle(wheel, TRACK * l),
        )
        b.add(un.rows.Skate(f"wheels{k}", f"S{j}"))
    # The gait drives the joints of the first three modules and all wheeled bodies. The wheels lead the joints r6, r8, ...
    # between the modules behind, as the compatibility of the document asks.
    b.drive([f"r{j}" for j in range(1, 6)], un.laws.Sinusoid(list(p["amplitude"]), p["rate"], list(p["phase"])))
    if n > 3:
        b.drive(
            [f"r{j}" for j in range(7, 2 * n, 2)],
            un.laws.Sinusoid([p["tail_amplitude"]] * (n - 3), p["rate"], p["tail_phase"]),
        )
        if p["tail"] == "actuated":
            b.lead([f"r{j}" for j in range(6, 2 * n, 2)])
    system = b.build().with_reactions(RULES[p["rule"]](n))
    return Setup(system, system.state(), t_end=20.0, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    return measures.journey(data) | {
        "tau_max": np.abs(data.effort).max(),
        "tau_median": np.median(np.abs(data.effort.values).max(1)),
        "reaction_max": np.abs(data.reaction).max(),
        "power_max": np.abs(data.power_actuators).max(),
        # zero unless the efforts are those of the printed recursion
        "power_error": np.abs((data.effort * data.velocity).sum("coordinate") - data.power_actuators).max(),
        "bend_max": np.abs(data.position).max(),
    }


SCENARIO = Scenario(
    name="snake-acm",
    summary="A snake of wheeled modules creeps by its shape: over-constrained, the tail follows the head",
    source="Ali 2011, section 4.3 (how a module's mass is shared is ours)",
    parameters=(
        Parameter("modules", 10, "", "number of modules", low=3, high=200),
        Parameter("half_length", 0.1, "m", "half the length of a link, the document's l", low=0, open_low=True),
        Parameter("module_mass", 0.3, "kg", "mass of a module: 2/3 its link, 1/3 its wheels", low=0, open_low=True),
        Parameter("amplitude", (0.2, 0.6, -0.2, 0.6, 0.2), "rad", "amplitudes of the joints r1 to r5"),
        Parameter("rate", 1.0, "rad/s", "rate of the gait"),
        Parameter(
            "phase",
            (np.pi / 16, 9 * np.pi / 16, 0.0, 7 * np.pi / 16, -np.pi / 16),
            "rad",
            "phases of the joints r1 to r5",
        ),
        Parameter(
            "tail",
            "actuated",
            "",
            "joints r6, r8, ... behind: held by actuators, as in the document, or without",
            choices=("actuated", "passive"),
        ),
        Parameter(
            "rule",
            "least reactions",
            "",
            "what chooses among the torques that fit: the least reactions, torques or powers (sums of squares), the least of "
            "the largest reactions, or the document's recursion (3.73) to (3.85) as printed, whose power does not balance",
            choices=tuple(RULES),
        ),
        Parameter("tail_amplitude", 0.0, "rad", "amplitude of the wheeled bodies behind: r7, r9, ..."),
        Parameter("tail_phase", -np.pi / 16, "rad", "their phase"),
    ),
    build=build,
    metrics=metrics,
    metric_units=measures.JOURNEY_UNITS
    | {
        "tau_max": "N m",
        "tau_median": "N m",
        "reaction_max": "N",
        "power_max": "W",
        "power_error": "W",
        "bend_max": "rad",
    },
)
