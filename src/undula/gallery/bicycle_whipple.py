"""The Carvallo-Whipple bicycle: knife-edge wheels with exact contacts, steering and wheels free.

Its upright straight running is the benchmark of Meijaard, Papadopoulos, Ruina and Schwab (2007), whose names and default
values the parameters have. That paper points z down; here z points up.
"""

import functools

import numpy as np

import undula as un
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

LEAN_AND_STEER = ("base.rx", "steer")
FASTEST = 20.0  # critical speeds are looked for up to here [m/s]
DARK, FRAME, FORK = (0.15, 0.15, 0.17), (0.75, 0.2, 0.15), (0.2, 0.4, 0.75)


def build(p: dict) -> Setup:
    system = bicycle(p)
    return Setup(system, lambda system: running(system, p, p["v"], p["lean"]), t_end=5.0, dt=2e-3)


def bicycle(p: dict) -> un.System:
    """The system, with the reference frame at the centre of the rear wheel."""
    if p["mH"] <= 0 and p["mF"] <= 0:
        raise un.UndulaError("mH = 0 and mF = 0 are not allowed together; something must turn with the steering.")
    foot = p["w"] + p["c"]  # where the steering axis meets the ground
    up = (-np.sin(p["lam"]), 0.0, np.cos(p["lam"]))
    saddle = (p["xB"], 0, -p["zB"] - p["rR"])  # the mass centre of rider and frame
    b = un.Builder("bicycle-whipple", gravity=(0, 0, -p["g"]))
    b.base(
        "frame",
        role="free",
        mass=p["mB"],
        com=saddle,
        inertia=_upside_down(p["IBxx"], p["IBxz"], p["IByy"], p["IBzz"]),
        position=(0, 0, p["rR"]),
        shapes=[
            drawing.bar((0, 0, 0), saddle, FRAME),
            drawing.bar(saddle, (foot + 0.9 * up[0], 0, 0.9 * up[2] - p["rR"]), FRAME),
        ],
    )
    b.body(
        "rear_wheel",
        "frame",
        un.Revolute((0, 1, 0)),
        mass=p["mR"],
        inertia=(p["IRxx"], p["IRyy"], p["IRxx"]),
        shapes=_wheel(p["rR"]),
    )
    b.body(
        "fork",
        "frame",
        un.Revolute(up, name="steer"),
        mass=p["mH"],
        com=(p["xH"] - foot, 0, -p["zH"]),
        inertia=_upside_down(p["IHxx"], p["IHxz"], p["IHyy"], p["IHzz"]),
        position=(foot, 0, -p["rR"]),
        shapes=[
            drawing.bar((-p["c"], 0, p["rF"]), (0.95 * up[0], 0, 0.95 * up[2]), FORK),
            un.Shape("capsule", (0.015, 0.5), (0.95 * up[0], 0, 0.95 * up[2]), drawing.ALONG_Y, FORK),
        ],
    )
    b.body(
        "front_wheel",
        "fork",
        un.Revolute((0, 1, 0)),
        mass=p["mF"],
        inertia=(p["IFxx"], p["IFyy"], p["IFxx"]),
        position=(-p["c"], 0, p["rF"]),
        shapes=_wheel(p["rF"]),
    )
    b.add(un.rows.RollingDisc("rear", "rear_wheel", p["rR"]))
    b.add(un.rows.RollingDisc("front", "front_wheel", p["rF"]))
    return b.build()


def running(system: un.System, p: dict, v: float, lean: float = 0.0) -> un.State:
    """Straight running at the speed v, leaning to the right by `lean`."""
    return system.state(
        velocity={"rear_wheel": v / p["rR"], "front_wheel": v / p["rF"]},
        base_twist=(v, 0, 0, 0, 0, 0),
        base_position=(0, -p["rR"] * np.sin(lean), p["rR"] * np.cos(lean)),
        base_quaternion=(np.cos(lean / 2), np.sin(lean / 2), 0, 0),
    )


def _upside_down(xx: float, xz: float, yy: float, zz: float) -> np.ndarray:
    """An inertia given with z down, with z up."""
    return np.array([[xx, 0, -xz], [0, yy, 0], [-xz, 0, zz]])


def _wheel(radius: float) -> list[un.Shape]:
    spokes = [
        un.Shape("box", (1.9 * radius, 0.012, 0.012), (0, 0, 0), (np.cos(a / 2), 0, np.sin(a / 2), 0), (0.7, 0.7, 0.7))
        for a in (0.0, np.pi / 3, 2 * np.pi / 3)
    ]
    return [un.Shape("cylinder", (radius, 0.02), (0, 0, 0), drawing.ALONG_Y, DARK), *spokes]


def eigenvalues(system: un.System, p: dict, v: float) -> np.ndarray:
    """The four eigenvalues of lean and steer at the speed v, sorted by real part."""
    return un.linearise(system, running(system, p, v), keep=LEAN_AND_STEER).eigenvalues


def critical_speeds(system: un.System, p: dict) -> tuple[float, float]:
    """Speeds [m/s] above which weave is stable and capsize is not; undetermined where there is none up to 20 m/s."""
    from scipy.optimize import brentq

    @functools.cache  # both roots are sought at the same speeds first
    def coefficients(v):
        return np.poly(un.linearise(system, running(system, p, v), keep=LEAN_AND_STEER).matrix)

    def weave(v):  # a pair of eigenvalues is imaginary where Hurwitz' third determinant vanishes
        _, a3, a2, a1, a0 = coefficients(v)
        return a1 * a2 * a3 - a1**2 - a0 * a3**2

    def capsize(v):
        return coefficients(v)[-1]

    def root(f, rising):
        speeds = np.linspace(0.05, FASTEST, 120)
        values = np.array([f(v) for v in speeds])
        cross = (values[:-1] < 0) & (values[1:] >= 0) if rising else (values[:-1] > 0) & (values[1:] <= 0)
        if not cross.any():
            return Undetermined(f"no change of stability up to {FASTEST:g} m/s")
        k = int(np.argmax(cross))
        return float(brentq(f, speeds[k], speeds[k + 1], xtol=1e-12))

    return root(weave, True), root(capsize, False)


def facts(setup: Setup) -> dict[str, float]:
    """Of the upright bicycle at its speed: whatever becomes of the one that leans."""
    p = setup.parameters
    found = eigenvalues(setup.system, p, p["v"])
    out: dict[str, float] = {}
    for k, value in enumerate(found, start=1):
        out |= {f"eig{k}_re": value.real, f"eig{k}_im": value.imag}
    out["weave_speed"], out["capsize_speed"] = critical_speeds(setup.system, p)
    return out


def metrics(setup: Setup, data) -> dict[str, float]:
    w, x, y, z = data.base_quaternion.values.T
    lean = np.arcsin(np.clip(2 * (y * z + w * x), -1, 1))  # of the frame's y axis above the horizon
    return {
        "lean_end": lean[-1],
        "lean_max": np.abs(lean).max(),
        "speed_end": data.base_twist.values[-1, 0],
        "energy_drift": measures.energy_drift(data),
    }


SCENARIO = Scenario(
    name="bicycle-whipple",
    summary="A bicycle with exact knife-edge wheels, released with a lean: it falls, balances itself or capsizes",
    source="Meijaard et al. 2007, the Whipple benchmark; reduction of Boyer & Belkhiri 2013, section III",
    parameters=(
        Parameter("w", 1.02, "m", "wheel base", low=0, open_low=True),
        Parameter("c", 0.08, "m", "trail"),
        Parameter("lam", np.pi / 10, "rad", "tilt of the steering axis", low=-1.5, high=1.5),
        Parameter("g", 9.81, "m/s^2", "gravity", low=0),
        Parameter("v", 5.0, "m/s", "speed"),
        Parameter("lean", 0.02, "rad", "lean at the start; ours"),
        Parameter("rR", 0.3, "m", "radius of the rear wheel", low=0, open_low=True),
        Parameter("mR", 2.0, "kg", "mass of the rear wheel", low=0, open_low=True),
        Parameter("IRxx", 0.0603, "kg m^2", "inertia of the rear wheel about a diameter", low=0),
        Parameter("IRyy", 0.12, "kg m^2", "inertia of the rear wheel about its axle", low=0),
        Parameter("xB", 0.3, "m", "mass centre of rider and frame, forward of the rear contact"),
        Parameter("zB", -0.9, "m", "mass centre of rider and frame, downward from the ground"),
        Parameter("mB", 85.0, "kg", "mass of rider and frame", low=0, open_low=True),
        Parameter("IBxx", 9.2, "kg m^2", "inertia of rider and frame", low=0),
        Parameter("IBxz", 2.4, "kg m^2", "inertia of rider and frame (z down)"),
        Parameter("IByy", 11.0, "kg m^2", "inertia of rider and frame", low=0),
        Parameter("IBzz", 2.8, "kg m^2", "inertia of rider and frame", low=0),
        Parameter("xH", 0.9, "m", "mass centre of fork and handlebar, forward of the rear contact"),
        Parameter("zH", -0.7, "m", "mass centre of fork and handlebar, downward from the ground"),
        Parameter("mH", 4.0, "kg", "mass of fork and handlebar", low=0),
        Parameter("IHxx", 0.05892, "kg m^2", "inertia of fork and handlebar", low=0),
        Parameter("IHxz", -0.00756, "kg m^2", "inertia of fork and handlebar (z down)"),
        Parameter("IHyy", 0.06, "kg m^2", "inertia of fork and handlebar", low=0),
        Parameter("IHzz", 0.00708, "kg m^2", "inertia of fork and handlebar", low=0),
        Parameter("rF", 0.35, "m", "radius of the front wheel", low=0, open_low=True),
        Parameter("mF", 3.0, "kg", "mass of the front wheel", low=0, open_low=True),
        Parameter("IFxx", 0.1405, "kg m^2", "inertia of the front wheel about a diameter", low=0),
        Parameter("IFyy", 0.28, "kg m^2", "inertia of the front wheel about its axle", low=0),
    ),
    build=build,
    metrics=metrics,
    facts=facts,
    metric_units={
        "eig1_re": "1/s",
        "eig1_im": "1/s",
        "eig2_re": "1/s",
        "eig2_im": "1/s",
        "eig3_re": "1/s",
        "eig3_im": "1/s",
        "eig4_re": "1/s",
        "eig4_im": "1/s",
        "weave_speed": "m/s",
        "capsize_speed": "m/s",
        "lean_end": "rad",
        "lean_max": "rad",
        "speed_end": "m/s",
        "energy_drift": "J",
    },
)
