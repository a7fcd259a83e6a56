"""Aiko sidewinding: a horizontal and a vertical wave, and most of the body off the ground."""

import undula as un
from undula.gallery import aiko
from undula.scenario.scenario import Setup


def build(p: dict) -> Setup:
    system = aiko.robot(p, [un.contact.Plane()], soft=True)
    middle = (p["n"] - 1) * p["length"] / 2
    start = system.state(base_position=(middle, 0, p["radius"]))  # straight
    return Setup(system, start, t_end=p["duration"], dt=1 / 4000)


SCENARIO = aiko.entry(
    "aiko-sidewinding",
    "The snake robot Aiko sidewinding, friction 0.2: along y, most of it in the air",
    "Transeth et al. 2008, section VIII-E",
    build,
    amplitude_v=10 * aiko.DEGREE,
    phase_0=90 * aiko.DEGREE,
)
