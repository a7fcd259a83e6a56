"""Aiko by lateral undulation with friction that is larger across its links than along them: it goes forward."""

import undula as un
from undula.gallery import aiko
from undula.scenario.scenario import Setup


def build(p: dict) -> Setup:
    system = aiko.robot(p, [un.contact.Plane()])
    return Setup(system, aiko.lying(system, p), t_end=p["duration"], dt=1 / 4000)


SCENARIO = aiko.entry(
    "aiko-lateral",
    "The snake robot Aiko by lateral undulation, friction 0.1 along and 0.5 across: forward along x",
    "Transeth et al. 2008, section VIII-B",
    build,
    mu_x=0.1,
    mu_y=0.5,
)
