"""The woodpecker toy: a bird on a spring hammers down a pole; its sleeve slides, falls and jams."""

import numpy as np

import undula as un
from undula.gallery.drawing import bar
from undula.scenario.scenario import Parameter, Scenario, Setup
from undula.scenario.undetermined import Undetermined

# the toy of Leine, Glocker and van Campen [m, kg, kg m^2]
SLEEVE, SLEEVE_INERTIA = 0.0003, 5e-9
BIRD, BIRD_INERTIA = 0.0045, 7e-7
HOLE, HALF_HEIGHT = 0.0031, 0.0058  # of the sleeve: radius inside, half its height
SPRING = 0.010  # from the middle of the sleeve to the spring
CENTRE = 0.015  # from the spring to the bird's centre of mass
BEAK = (-0.0201, 0.02)  # from there to the tip of the beak, along the bird and up
# a point of its limit cycle: the sleeve slides, its lower edge on the pole [rad, m/s, rad/s]
SLEEVE_ANGLE, BIRD_ANGLE, SPEED, BIRD_RATE = -0.1036, -0.2788, -0.3411, -7.4583

PITCH = (0, -1, 0)  # axis of both angles: positive lifts the bird
WOOD, RED, BLACK = (0.85, 0.7, 0.45), (0.8, 0.15, 0.1), (0.15, 0.15, 0.17)


def build(p: dict) -> Setup:
    r = p["pole"]
    b = un.Builder("woodpecker", gravity=(0, 0, -p["gravity"]))
    b.base("pole", shapes=[un.Shape("cylinder", (r, 0.3), (0, 0, -0.11), colour=WOOD)])
    b.body("height", "pole", un.Prismatic((0, 0, 1)))
    about_y = (SLEEVE_INERTIA / 2, SLEEVE_INERTIA, SLEEVE_INERTIA / 2)
    b.body("sleeve", "height", un.Revolute(PITCH), mass=SLEEVE, inertia=about_y, shapes=_sleeve())
    about_y = (BIRD_INERTIA / 2, BIRD_INERTIA, BIRD_INERTIA / 2)
    b.body(
        "bird",
        "sleeve",
        un.Revolute(PITCH, stiffness=p["stiffness"]),
        position=(SPRING, 0, 0),
        mass=BIRD,
        com=(CENTRE, 0, 0),
        inertia=about_y,
        shapes=_bird(),
    )
    side = un.contact.Plane(normal=(1, 0, 0), point=(r, 0, 0))
    b.add(
        un.contact.Contact(
            "beak", "bird", side, un.contact.Coulomb(p["mu"], restitution=p["restitution"]), centre=_beak()
        )
    )
    b.add(un.contact.Contact("lower", "sleeve", side, un.contact.Coulomb(p["mu"]), centre=(HOLE, 0, -HALF_HEIGHT)))
    b.add(un.contact.Contact("upper", "sleeve", side, un.contact.Coulomb(p["mu"]), centre=(HOLE, 0, HALF_HEIGHT)))
    system = b.build()
    start = system.state(
        {"sleeve": SLEEVE_ANGLE, "bird": BIRD_ANGLE - SLEEVE_ANGLE}, {"height": SPEED, "bird": BIRD_RATE}
    )
    method = un.integrators.Moreau(theta=0.5)  # nothing damps the spring, so its forces are those of mid-step
    # the published angle was rounded, and of linearised geometry
    return Setup(
        system, lambda s: un.contact.separated(s, start), p["duration"], dt=2e-5, save_every=20, integrator=method
    )


def _beak() -> tuple[float, float, float]:
    return CENTRE + BEAK[0], 0.0, BEAK[1]


def _sleeve() -> list[un.Shape]:
    wall = 0.0012
    out = [
        un.Shape("box", (wall, 2 * HOLE, 2 * HALF_HEIGHT), (i * (HOLE + wall / 2), 0, 0), colour=RED) for i in (1, -1)
    ]
    return [*out, bar((HOLE + wall, 0, 0), (SPRING, 0, 0), BLACK, 0.0006)]


def _bird() -> list[un.Shape]:
    x, _, z = _beak()
    head = np.array([x + 0.012, 0, z])
    return [
        bar((0, 0, 0), (CENTRE, 0, 0), BLACK, 0.0006),
        un.Shape("ellipsoid", (0.007, 0.007, 0.02), (CENTRE - 0.001, 0, 0.001), (0.985, 0, -0.17, 0), (0.25, 0.4, 0.3)),
        un.Shape("sphere", (0.006,), tuple(head), colour=RED),
        bar(head, (x + 0.0008, 0, z), (0.9, 0.75, 0.2), 0.0008),
        *[un.Shape("sphere", (0.0012,), tuple(head + (-0.003, s * 0.0048, 0.002)), colour=BLACK) for s in (1, -1)],
        bar((CENTRE + 0.003, 0, -0.015), (CENTRE + 0.008, 0, -0.032), (0.2, 0.3, 0.25), 0.002),
    ]


def metrics(setup: Setup, data) -> dict[str, float]:
    t, height = data.time.values, data.position.sel(coordinate="height").values
    gap = data.contact_gap.sel(contact="beak").values
    near = (gap[1:-1] <= gap[:-2]) & (gap[1:-1] < gap[2:]) & (gap[1:-1] < 3e-4)
    beats = t[1 + np.flatnonzero(near)]
    few = Undetermined("fewer than two beats in the run")
    period = np.diff(beats).mean() if len(beats) > 1 else few
    drop = -np.diff(np.interp(beats, t, height)).mean() if len(beats) > 1 else few
    bird = (data.position.sel(coordinate="sleeve") + data.position.sel(coordinate="bird")).values
    return {
        "beats": len(beats),
        "frequency": 1 / period,
        "drop": drop,
        "swing": bird.min(),
        "fall": height[0] - height[-1],
        "penetration_max": float(data.contact_penetration.max()),
    }


SCENARIO = Scenario(
    name="woodpecker",
    summary="The woodpecker toy hammers down its pole: impacts, slip and jamming in each beat of a limit cycle",
    source="Transeth et al. 2008, section V-B (laws); the toy of Leine et al. 2001",
    parameters=(
        Parameter("mu", 0.3, "", "coefficient of friction on the pole", low=0),
        Parameter("restitution", 0.5, "", "part of the beak's speed that an impact gives back", low=0, high=1),
        Parameter("stiffness", 0.0056, "N m/rad", "stiffness of the spring", low=0, open_low=True),
        Parameter("pole", 0.0025, "m", "radius of the pole, in a hole of 0.0031 m", low=0.001, high=0.003),
        Parameter("gravity", 9.81, "m/s^2", "gravity", low=0),
        Parameter("duration", 2.0, "s", "length of the run", low=0, open_low=True),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "beats": "1",
        "frequency": "Hz",
        "drop": "m",
        "swing": "rad",
        "fall": "m",
        "penetration_max": "m",
    },
)
