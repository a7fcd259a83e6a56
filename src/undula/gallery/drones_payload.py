"""Two drones carry a payload between two soft rods (Gotelli 2024, section 3.9.2)."""

import jax.numpy as jnp
import numpy as np

import undula as un
from undula.gallery import rods
from undula.scenario.scenario import Parameter, Scenario, Setup


def lifted(rate, x):
    """Goes up as the integral of sin(rate t) [m], at the abscissa x [m]."""

    def place(t):
        return jnp.stack([x + 0 * t, 0 * t, (1 - jnp.cos(rate * t)) / rate, 0 * t, 0 * t, 0 * t])

    return un.laws.Function(place, (6,))


def drone(p: dict) -> dict:
    m, r = p["drone_mass"], p["drone_radius"]
    arms = [
        un.Shape("cylinder", (0.3 * r, 0.02), (r * np.cos(a), r * np.sin(a), 0.03), colour=rods.STEEL)
        for a in np.arange(6) * np.pi / 3
    ]
    hull = un.Shape("box", (r, 0.6 * r, 0.06), colour=(0.75, 0.2, 0.2))
    return dict(mass=m, inertia=un.solids.cylinder_inertia(m, r, 0.1, "z"), shapes=[hull, *arms])


def build(p: dict) -> Setup:
    L, half = p["length"], p["payload_size"][0] / 2
    b = un.Builder("drones-payload", gravity=(0, 0, 0))
    b.base("drone1", role="free", **drone(p))
    soft = rods.soft(p, "kirchhoff", basis="chebyshev")
    b.body("rod1", "drone1", soft)
    m, size = p["payload_mass"], p["payload_size"]
    box = [un.Shape("box", size, (half, 0, 0), colour=(0.85, 0.65, 0.2))]
    b.body("payload", "rod1", un.Fixed(), mass=m, com=(half, 0, 0), inertia=un.solids.box_inertia(m, size), shapes=box)
    b.body("rod2", "payload", soft, position=(2 * half, 0, 0))
    b.body("drone2", "rod2", un.Fixed(), **drone(p))
    # (3.65), (3.66): V_0 = sin(pi t), V_6 = sin(pi t / 2) upwards
    gains = np.full(6, p["gain"]), np.full(6, p["integral_gain"])
    b.add(un.forces.TwistFollower("drone1", lifted(np.pi, 0.0), *gains, name="control1"))
    b.add(un.forces.TwistFollower("drone2", lifted(np.pi / 2, 2 * L + 2 * half), *gains, name="control2"))
    system = b.build()
    return Setup(system, system.state(), t_end=10.0, dt=0.01)


def metrics(setup: Setup, data) -> dict[str, float]:
    out = {f"{body}_z": rods.tip(data, body)[2] for body in ("drone1", "payload", "drone2")}
    path = data.body_position.sel(body="payload").values
    return out | {
        "payload_range_x": np.ptp(path[:, 0]),
        "payload_range_z": np.ptp(path[:, 2]),
        "speed_error": np.sqrt((data.twist_follower_error.values[..., :3] ** 2).sum(-1).mean()),
        "iterations": data.iterations.values[1:].mean(),
    }


SCENARIO = Scenario(
    name="drones-payload",
    summary="Two drones fly up and down at different rates, with a payload between two soft rods",
    source="Gotelli 2024, section 3.9.2 (masses, sizes and damping are ours)",
    parameters=(
        *rods.material(1.0, 0.07, 0.25e6, 950.0, 0.0),
        Parameter("payload_mass", 2.0, "kg", "mass of the payload", low=0, open_low=True),
        Parameter("payload_size", (0.4, 0.25, 0.2), "m", "size of the payload", low=0, open_low=True),
        Parameter("drone_mass", 1.5, "kg", "mass of each drone", low=0, open_low=True),
        Parameter("drone_radius", 0.25, "m", "radius of each drone", low=0, open_low=True),
        Parameter("gain", 20.0, "N s/m", "gain of the error of the twist, for all components", low=0),
        Parameter("integral_gain", 2.5, "N/m", "gain of its integral, for all components", low=0),
        rods.modes(3, basis="Chebyshev"),
        rods.nodes(12),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "drone1_z": "m",
        "payload_z": "m",
        "drone2_z": "m",
        "payload_range_x": "m",
        "payload_range_z": "m",
        "speed_error": "m/s",
        "iterations": "1",
    },
)
