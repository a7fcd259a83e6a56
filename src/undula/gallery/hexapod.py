"""A Stewart platform on six legs of driven lengths: five independent loops (Ali 2011, appendix A.1)."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import measures
from undula.scenario.scenario import Parameter, Scenario, Setup

STEEL, ROD, PLATE = (0.35, 0.38, 0.42), (0.75, 0.75, 0.78), (0.85, 0.45, 0.15)


class LegLengths(un.laws.Law):
    """Lengths [m] of the legs that put the platform at `home` plus `pose`, a law of position and rotation vector."""

    feet: Any
    tips: Any
    home: Any
    pose: un.laws.Law

    @property
    def shape(self) -> tuple[int, ...]:
        return (6,)

    def value(self, t):
        x = self.pose.value(t)
        R = un.lie.so3.to_matrix(un.lie.so3.exp(x[3:]))
        legs = self.home + x[:3] + self.tips @ R.T - self.feet
        return jnp.sqrt((legs**2).sum(1))


def places(p: dict) -> tuple[np.ndarray, np.ndarray]:
    """Feet on the ground and ball joints on the platform, (6, 3) each [m]: pairs at thirds of a turn."""
    foot, tip = p["foot_angle"], p["tip_angle"]
    third = 2 * np.pi / 3 * np.repeat(np.arange(3), 2)
    feet = third + np.tile([-foot, foot], 3)
    tips = third + np.tile([tip - np.pi / 3, np.pi / 3 - tip], 3)
    zero = np.zeros(6)
    return (
        p["base_radius"] * np.stack([np.cos(feet), np.sin(feet), zero], 1),
        p["platform_radius"] * np.stack([np.cos(tips), np.sin(tips), zero], 1),
    )


def build(p: dict) -> Setup:
    feet, tips = places(p)
    home = np.array([0.0, 0.0, p["height"]])
    shift = [*p["shift"], *p["turn"]]
    pose = un.laws.Sinusoid(shift, p["rate"], [0.0, np.pi / 2, 0.0, np.pi / 2, 0.0, 0.0])
    law = LegLengths(feet, tips, home, pose)
    r, m, M = p["platform_radius"], p["leg_mass"] / 2, p["platform_mass"]
    b = un.Builder("hexapod", gravity=(0, 0, -p["gravity"]))
    b.base("ground", shapes=[un.Shape("cylinder", (1.1 * p["base_radius"], 0.02), (0, 0, -0.02), colour=STEEL)])
    b.body(
        "platform",
        "ground",
        un.Free(),
        mass=M,
        inertia=un.solids.cylinder_inertia(M, r, 0.05, "z"),
        shapes=[
            un.Shape("cylinder", (r, 0.03), (0, 0, 0.03), colour=PLATE),
            un.Shape("box", (0.5 * r, 0.05 * r, 0.02), (0.5 * r, 0, 0.055), colour=(1, 1, 1)),
        ],
    )
    for k, (foot, tip) in enumerate(zip(feet, tips), start=1):
        leg = home + tip - foot
        length = float(np.linalg.norm(leg))
        half, drawn = 0.55 * length, 0.65 * length  # drawn longer, so that the parts overlap when a leg is long
        solid = dict(mass=m, inertia=un.solids.cylinder_inertia(m, 0.02, half, "z"))
        z = leg / length
        x = np.cross((0.0, 0.0, 1.0), z)
        x = x / np.linalg.norm(x) if np.linalg.norm(x) > 1e-9 else np.array([1.0, 0, 0])
        b.body(
            f"cylinder{k}",
            "ground",
            un.Universal((1, 0, 0), (0, 1, 0), name=f"foot{k}"),
            com=(0, 0, half / 2),
            position=foot,
            rotation=np.stack([x, np.cross(z, x), z], 1),  # z along the leg when the platform is at home
            shapes=[un.Shape("cylinder", (0.025, drawn), (0, 0, drawn / 2), colour=STEEL)],
            **solid,
        )
        b.body(
            f"rod{k}",
            f"cylinder{k}",
            un.Prismatic((0, 0, 1), name=f"leg{k}"),
            com=(0, 0, -half / 2),
            shapes=[un.Shape("cylinder", (0.014, drawn), (0, 0, -drawn / 2), colour=ROD)],
            **solid,
        )
        b.add(un.rows.Closure(f"ball{k}", f"rod{k}", "platform", "spherical", other_position=tip))
    b.drive([f"leg{k}" for k in range(1, 7)], law)
    system = b.build()
    guess = {"platform.z": p["height"]}
    cycle = 2 * np.pi / p["rate"]
    return Setup(system, lambda system: un.assemble(system, system.state(guess)), t_end=2 * cycle, dt=cycle / 250)


def metrics(setup: Setup, data) -> dict[str, float]:
    legs = [f"leg{k}" for k in range(1, 7)]
    force = data.effort.sel(coordinate=legs).values
    return {
        "force_max": np.abs(force).max(),
        "power_max": np.abs(data.power_actuators.values).max(),
        "stroke": np.ptp(data.position.sel(coordinate=legs).values, axis=0).max(),
        "travel": np.ptp(data.body_position.sel(body="platform").values, axis=0).max(),
        "energy_error": measures.energy_error(data),
        "residual": data.constraint_residual.values.max(),
    }


SCENARIO = Scenario(
    name="hexapod",
    summary="A Stewart platform: six driven leg lengths move a platform in all six directions",
    source="Ali 2011, appendix A.1 (closed loops; numbers are ours)",
    parameters=(
        Parameter("base_radius", 0.6, "m", "radius of the circle of the feet", low=0, open_low=True),
        Parameter("platform_radius", 0.35, "m", "radius of the circle of the ball joints", low=0, open_low=True),
        Parameter("foot_angle", 0.25, "rad", "half the angle between two feet of a pair", low=0, high=1.0),
        Parameter("tip_angle", 0.25, "rad", "half the angle between two ball joints of a pair", low=0, high=1.0),
        Parameter("height", 0.7, "m", "height of the platform at home", low=0, open_low=True),
        Parameter("platform_mass", 10.0, "kg", "mass of the platform", low=0, open_low=True),
        Parameter("leg_mass", 2.0, "kg", "mass of each leg", low=0, open_low=True),
        Parameter("shift", (0.1, 0.1, 0.08), "m", "amplitudes of the platform's motion along x, y, z"),
        Parameter("turn", (0.2, 0.2, 0.3), "rad", "amplitudes of its rotation vector"),
        Parameter("rate", 2.0, "rad/s", "rate of its motion", low=0, open_low=True),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "force_max": "N",
        "power_max": "W",
        "stroke": "m",
        "travel": "m",
        "energy_error": "J",
        "residual": "mixed",
    },
)
