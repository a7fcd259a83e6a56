"""A shaft twisted at one end until it coils: Greenhill's shaft, an instability of a closed loop."""

import numpy as np

import undula as un
from undula.gallery import drawing, rods
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

# torque times length over EI at which a shaft between two clamps, one of which slides, buckles: 2 x with tan x = x
GREENHILL = 8.986819


def shaft(p: dict, twist) -> un.System:
    """A rod along x between a hand that turns by `twist` [rad] and a guide that lets the other end slide along x."""
    L, m, r = p["length"], p["mass"] / p["length"], 0.012 * p["length"]
    b = un.Builder("helical-buckling", gravity=(0, 0, -p["gravity"]))
    b.base("bench")
    b.body("hand", "bench", un.Revolute((1, 0, 0), motion=twist), shapes=_clamp(r, -1))
    turning = m * r**2 / 2  # of a round bar, per length
    elastic = un.Rod(
        length=L,
        stiffness=(1.0, 1.0, 1.0, p["GJ"], p["EI"], p["EI"]),  # of the first three nothing is used
        inertia=(m, m, m, turning, turning / 2, turning / 2),
        damping=p["damping"],
        strains="kirchhoff",
        modes=p["modes"],
        nodes=p["nodes"],
        order=6,
        colour=rods.RUBBER,
        drawn=(2 * r, 2 * r),
    )
    b.body("end", "hand", elastic, shapes=_clamp(r, 1))
    b.add(un.forces.Load("end", (p["pull"], 0, 0)))
    b.add(un.rows.Closure("guide", "end", holds=("y", "z", "rx", "ry", "rz")))
    return b.build()


def _clamp(r: float, side: int) -> list[un.Shape]:
    """A drum with a mark that shows its turns."""
    x = 3 * r * side
    return [
        un.Shape("cylinder", (2.5 * r, 6 * r), (x, 0, 0), drawing.ALONG_X, colour=rods.CLAMP),
        un.Shape("box", (6 * r, r, r), (x, 0, 2.5 * r), colour=(0.85, 0.65, 0.2)),
    ]


def critical(p: dict) -> float:
    """Twist [rad] at which the straight shaft without weight is no longer stable."""
    from scipy.optimize import brentq

    light = dict(p, gravity=0.0)
    guess = GREENHILL * p["EI"] / p["GJ"]

    def lowest(twist):
        system = shaft(light, un.laws.Constant(twist))
        straight = system.state({"hand": twist, "end.Kx1": -twist / p["length"]})  # the rod undoes the turn of the hand
        return un.tangent_stiffness(system, straight).lowest

    high = guess / 4
    while lowest(high) > 0:  # the first loss of stability: far beyond it, the modes no longer follow the twist
        high *= 1.25
        if high > 10 * guess:  # too few modes to coil
            return Undetermined("no loss of stability up to ten times the estimate: too few modes")
    return brentq(lowest, high / 1.25, high, rtol=1e-10)


def build(p: dict) -> Setup:
    final = p["turns"] * GREENHILL * p["EI"] / p["GJ"]
    twist = un.laws.Quintic(0.0, final, 0.0, 0.9 * p["duration"])
    system = shaft(p, twist)
    return Setup(system, system.state(), t_end=p["duration"], dt=0.005)


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    twist = critical(p)
    path = data.rod_position.values[-1]
    return {
        "critical_twist": twist,
        "critical_number": twist * p["GJ"] / p["EI"],
        "shortening": p["length"] - float(rods.tip(data, "end")[0]),
        "widest": float(np.hypot(path[..., 1], path[..., 2]).max()),
    }


SCENARIO = Scenario(
    name="helical-buckling",
    summary="A shaft between two clamps, one of which turns: it coils beyond Greenhill's torque",
    source="Gotelli 2024, section 2 (statics with an instability; Greenhill 1883)",
    parameters=(
        Parameter("length", 1.0, "m", "length of the shaft", low=0, open_low=True),
        Parameter("EI", 1.0, "N m^2", "bending stiffness", low=0, open_low=True),
        Parameter("GJ", 0.8, "N m^2", "torsional stiffness", low=0, open_low=True),
        Parameter("turns", 1.25, "", "twist at the end, in units of the critical one without pull", low=0),
        Parameter("pull", 10.0, "N", "force along x at the end that slides"),
        Parameter("mass", 1.0, "kg", "mass of the shaft", low=0, open_low=True),
        Parameter("gravity", 1.0, "m/s^2", "gravity, which breaks the symmetry"),
        Parameter("damping", 0.05, "s", "Kelvin-Voigt damping: viscosity over elasticity", low=0),
        Parameter(
            "duration", 8.0, "s", "length of the run; the hand turns for nine tenths of it", low=0, open_low=True
        ),
        rods.modes(8, "each curvature and of the twist"),
        rods.nodes(20),
    ),
    build=build,
    metrics=metrics,
    metric_units={"critical_twist": "rad", "critical_number": "1", "shortening": "m", "widest": "m"},
)
