"""The snake robot Aiko (Transeth et al. 2008, section VIII): links with two spheres each, cardan joints, no wheels."""

from typing import Any

import numpy as np

import undula as un
from undula.gallery import drawing
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

DEGREE = np.pi / 180
BODY, EDGE = (0.20, 0.22, 0.25), (0.80, 0.55, 0.15)


def parameters(**defaults) -> tuple[Parameter, ...]:
    """All the numbers of section VIII; those that differ between the runs are given."""
    d = dict(mu_x=0.2, mu_y=0.2, amplitude_h=30 * DEGREE, amplitude_v=0.0, phase_0=0.0) | defaults
    rate, lag = 80 * DEGREE, -50 * DEGREE
    size: dict[str, Any] = dict(low=0, open_low=True)
    angle: dict[str, Any] = dict(low=-np.pi / 2, high=np.pi / 2)
    return (
        Parameter("n", 11, "", "number of links", low=2, high=200),
        Parameter("length", 0.122, "m", "distance between joints", **size),
        Parameter("radius", 0.0525, "m", "radius of the spheres", **size),
        Parameter("sphere_offset", 0.0393, "m", "from a link's centre to those of its spheres", low=0),
        Parameter("mass", 7.5, "kg", "mass of the robot", **size),
        Parameter("inertia_long", 2.35e-4, "kg m^2", "inertia of a link about its long axis", **size),
        Parameter("inertia_across", 9.63e-4, "kg m^2", "inertia of a link about the others", **size),
        Parameter("kp_h", 40.0, "N m/rad", "proportional gain of the horizontal joints", low=0),
        Parameter("kd_h", 0.2, "N m s/rad", "derivative gain of the horizontal joints", low=0),
        Parameter("kp_v", 800.0, "N m/rad", "proportional gain of the vertical joints", low=0),
        Parameter("kd_v", 0.2, "N m s/rad", "derivative gain of the vertical joints", low=0),
        Parameter("mu_x", d["mu_x"], "", "friction along the links", low=0),
        Parameter("mu_y", d["mu_y"], "", "friction across the links", low=0),
        Parameter("mu_roll", 0.0, "", "rolling friction; the document does not give it", low=0),
        Parameter("amplitude_h", d["amplitude_h"], "rad", "amplitude of the horizontal wave", **angle),
        Parameter("amplitude_v", d["amplitude_v"], "rad", "amplitude of the vertical wave", **angle),
        Parameter("rate_h", rate, "rad/s", "rate of the horizontal wave", low=0),
        Parameter("rate_v", rate, "rad/s", "rate of the vertical wave", low=0),
        Parameter("phase_h", lag, "rad", "phase of the horizontal wave from joint to joint"),
        Parameter("phase_v", lag, "rad", "phase of the vertical wave from joint to joint"),
        Parameter("phase_0", d["phase_0"], "rad", "phase of the vertical wave against the horizontal one"),
        Parameter("duration", 15.0, "s", "length of the run", **size),
    )


def gait(p: dict, soft: bool) -> tuple[un.laws.Law, un.laws.Law]:
    """References of the horizontal and the vertical joints, (70) and (71)."""
    out = []
    for way, phase in (("h", 0.0), ("v", p["phase_0"])):
        amplitude, rate, lag = p[f"amplitude_{way}"], p[f"rate_{way}"], p[f"phase_{way}"]
        law = un.laws.TravellingWave(p["n"] - 1, amplitude, rate, -lag, phase)
        out.append(
            un.laws.Delayed(law, _first_small(amplitude, rate, phase + lag * np.arange(p["n"] - 1))) if soft else law
        )
    return out[0], out[1]


def _first_small(amplitude: float, rate: float, phases: np.ndarray, small: float = 3 * DEGREE) -> np.ndarray:
    """When |amplitude sin(rate t + phase)| is small for the first time: the soft start of section VIII-E [s]."""
    if abs(amplitude) <= small or rate == 0:
        return np.zeros(len(phases))
    edge, at = np.arcsin(small / abs(amplitude)), phases % np.pi
    return np.where((at <= edge) | (at >= np.pi - edge), 0.0, (np.pi - edge - at) / rate)


def robot(p: dict, ground: list[un.contact.Surface], soft: bool = False, gravity=(0.0, 0.0, -9.81)) -> un.System:
    """Aiko with link 1 ahead, at the +x end, so that (e_z of the document) = -x and (e_y) = z."""
    n, L, r, s = p["n"], p["length"], p["radius"], p["sphere_offset"]
    b = un.Builder("aiko", gravity=gravity)
    inertia = (p["inertia_long"], p["inertia_across"], p["inertia_across"])
    same = p["mu_x"] == p["mu_y"]
    friction = un.contact.Coulomb(
        p["mu_x"], None if same else p["mu_y"], None if same else (1, 0, 0), rolling=p["mu_roll"] or None
    )
    for i in range(1, n + 1):
        centre = 0.0 if i == 1 else -L / 2  # a link's frame is at the joint that carries it
        hull = un.Shape("capsule", (0.96 * r, 2 * s), (centre, 0, 0), drawing.ALONG_X, BODY if i > 1 else EDGE)
        stripe = un.Shape("box", (1.2 * s, 0.4 * r, 0.1 * r), (centre, 0, 0.93 * r), colour=EDGE)
        body = dict(mass=p["mass"] / n, com=(centre, 0, 0), inertia=inertia, shapes=[hull, stripe])
        if i == 1:
            b.base("link1", role="free", **body)
        else:
            cardan = un.Universal((0, 0, 1), (0, -1, 0))
            b.body(f"link{i}", f"link{i - 1}", cardan, position=(-L / 2 if i == 2 else -L, 0, 0), **body)
        for k, surface in enumerate(ground):
            for end, x in (("front", s), ("rear", -s)):
                name = f"link{i}.{end}" + (f".{k}" if k else "")
                b.add(un.contact.Contact(name, f"link{i}", surface, friction, centre=(centre + x, 0, 0), radius=r))
    horizontal, vertical = gait(p, soft)
    names = [f"link{i}" for i in range(2, n + 1)]
    b.force([f"{x}.first" for x in names], un.forces.ProportionalDerivative(p["kp_h"], p["kd_h"], horizontal))
    b.force([f"{x}.second" for x in names], un.forces.ProportionalDerivative(p["kp_v"], p["kd_v"], vertical))
    return b.build()


def centres(data, p: dict) -> np.ndarray:
    """(time, links, 3): centres of the links [m]."""
    w, x, y, z = np.moveaxis(data.body_quaternion.values, -1, 0)
    ahead = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], -1)
    back = np.where(np.arange(p["n"]) == 0, 0.0, p["length"] / 2)
    return data.body_position.values - back[:, None] * ahead


def laid(p: dict) -> tuple[np.ndarray, np.ndarray, float]:
    """(coordinates, centres (n, 2) of the links [m], heading of link 1 [rad]) of the shape of the references at t = 0.

    On the plane, the centre line along x, its middle at the origin.
    """
    q = np.stack([x.value(0.0) for x in gait(p, False)], 1).reshape(-1)
    angle = np.concatenate([[0.0], np.cumsum(q[::2])])  # headings of the links
    ahead = np.stack([np.cos(angle), np.sin(angle)], 1)
    middle = np.concatenate([[[0.0, 0.0]], -np.cumsum((ahead[:-1] + ahead[1:]) / 2, 0)]) * p["length"]
    around = middle - middle.mean(0)
    direction = np.linalg.svd(around)[2][0]
    direction *= np.sign(direction[0])
    turn = -np.arctan2(direction[1], direction[0])
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return q, around @ R.T, turn


def lying(system: un.System, p: dict) -> un.State:
    """On the ground in the shape of the references at t = 0, its centre line along x, its middle at the origin."""
    q, centres, turn = laid(p)
    return system.state(
        q, base_position=(*centres[0], p["radius"]), base_quaternion=(np.cos(turn / 2), 0, 0, np.sin(turn / 2))
    )


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    path = centres(data, p)
    k = min(5, p["n"] - 1)  # the middle link, the sixth of eleven
    moved = path[-1, k] - path[0, k]
    period = 2 * np.pi / p["rate_h"] if p["rate_h"] else Undetermined("rate_h is 0: no cycles")
    time = data.time.values
    steps = np.round(np.diff(time, prepend=time[0]) / data.attrs["dt"])
    lines = path[:, 0] - path[:, -1]
    heading = np.unwrap(np.arctan2(lines[:, 1], lines[:, 0]))
    return {
        "link6_dx": moved[0],
        "link6_dy": moved[1],
        "speed": np.hypot(*(path[-1].mean(0) - path[0].mean(0))[:2]) * period / time[-1],
        "heading_change": heading[-1] - heading[0],
        "penetration_max": float(data.contact_penetration.max()),
        "contacts_mean": float(data.contact_closings.sum() / max(steps.sum(), 1)),
        "residual_max": float(data.contact_residual.max()),
        "iterations_mean": float(data.iterations.values[1:].mean()),
    }


UNITS = {
    "link6_dx": "m",
    "link6_dy": "m",
    "speed": "m",  # a gait period
    "heading_change": "rad",
    "penetration_max": "m",
    "contacts_mean": "1",
    "residual_max": "1",
    "iterations_mean": "1",
}


def entry(
    name: str, summary: str, source: str, build, more=(), metrics=metrics, metric_units=UNITS, **defaults
) -> Scenario:
    """A gallery entry of the robot; `more`: parameters of its own."""
    return Scenario(
        name=name,
        summary=summary,
        source=source,
        parameters=(*parameters(**defaults), *more),
        build=build,
        metrics=metrics,
        metric_units=metric_units,
    )
