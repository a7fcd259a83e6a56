"""A two-wheeled inverted pendulum that balances, drives to a target and turns, by feedback of its whole state."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import undula as un
from undula.core.arrays import Array, as_array
from undula.gallery import drawing, measures
from undula.scenario.scenario import Parameter, Scenario, Setup

PAUSE, SETTLE = 1.0, 3.0  # before the first turn; after the drive, and at the end [s]


class Balance(un.Actuator):
    """Torques of the left and the right motor [N m], from the errors of the whole state.

    Their sum is -gain (lag, pitch, rate of the lag, rate of the pitch), their difference (right minus left) is -turn_gain
    (error of the heading, and its rate). The lag is how far the axle is ahead of the point that it follows, along the heading.

    - `target` (2,) [m]: the point moves from the origin to there with the law `progress` from 0 to 1; `heading`: a law [rad].
    """

    gain: Float[Array, "4"]
    turn_gain: Float[Array, "2"]
    target: Float[Array, "2"]
    progress: un.laws.Law
    heading: un.laws.Law

    wants_whole = True
    observables = (
        un.Observable("pitch", "rad", (), "lean of the body, forwards"),
        un.Observable("heading", "rad", (), "heading of the body"),
        un.Observable("lag", "m", (), "distance of the axle ahead of the point that it follows"),
    )

    def errors(self, at: Any) -> tuple[Any, ...]:
        """Lag, pitch, rates of both, heading, error of the heading, its rate."""
        w = at.whole
        yaw = jnp.arctan2(w.R[1, 0], w.R[0, 0])
        ahead = jnp.stack([jnp.cos(yaw), jnp.sin(yaw)])
        pitch = jnp.arctan2(-w.R[2, 0], w.R[:2, 0] @ ahead)
        velocity, spin = w.R @ w.twist[:3], w.R @ w.twist[3:]
        share, pace, _ = self.progress(at.t)
        wanted, turn, _ = self.heading(at.t)
        lag = ahead @ (w.position[:2] - share * self.target)
        speed = ahead @ (velocity[:2] - pace * self.target)
        off = jnp.arctan2(jnp.sin(yaw - wanted), jnp.cos(yaw - wanted))
        return lag, pitch, speed, w.twist[4], yaw, off, spin[2] - turn

    def effort(self, at):
        lag, pitch, speed, pitching, _, off, turning = self.errors(at)
        both = -self.gain @ jnp.stack([lag, pitch, speed, pitching])
        apart = -self.turn_gain @ jnp.stack([off, turning])
        return jnp.stack([both - apart, both + apart]) / 2

    def observe(self, at):
        lag, pitch, _, _, yaw, _, _ = self.errors(at)
        return {"pitch": pitch, "heading": yaw, "lag": lag}

    def followed(self):
        return self.progress, self.heading


def course(p: dict) -> tuple[un.laws.Law, un.laws.Law, float]:
    """Share of the way, heading, and duration: turn towards the target, drive there, turn to the final heading."""
    bearing = float(np.arctan2(p["target"][1], p["target"][0]))
    first = PAUSE + p["turn_time"]
    arrival = first + p["drive_time"]
    last = arrival + SETTLE
    there = un.laws.Quintic(0.0, bearing, PAUSE, first)
    end = un.laws.Quintic(0.0, p["final_heading"] - bearing, last, last + p["turn_time"])
    return un.laws.Quintic(0.0, 1.0, first, arrival), there + end, last + p["turn_time"] + SETTLE


def build(p: dict) -> Setup:
    R, half, l = p["radius"], p["track"] / 2, p["com_height"]
    b = un.Builder("segway", gravity=(0, 0, -p["gravity"]))
    b.base(
        "body",
        role="free",
        mass=p["body_mass"],
        com=(0, 0, l),
        inertia=p["body_inertia"],
        position=(0, 0, R),
        shapes=[
            un.Shape("box", (0.5 * R, 1.6 * half, 0.5 * R), (0, 0, 0.4 * R), colour=(0.25, 0.3, 0.38)),
            un.Shape("box", (0.3 * R, 0.7 * half, 1.2 * l), (0, 0, 0.6 * R + 0.6 * l), colour=(0.88, 0.62, 0.2)),
            un.Shape("sphere", (0.6 * R,), (0, 0, 0.9 * R + 1.2 * l), colour=(0.95, 0.95, 0.95)),
            un.Shape("box", (0.3 * R, 0.5 * R, 0.2 * R), (0.5 * R, 0, 1.0 * R + 1.2 * l), colour=(0.1, 0.1, 0.12)),
        ],
    )
    m, width = p["wheel_mass"], 0.25 * R
    for name, y in (("left", half), ("right", -half)):
        b.body(
            name,
            "body",
            un.Revolute((0, 1, 0)),
            m,
            inertia=un.solids.cylinder_inertia(m, R, width, "y"),
            position=(0, y, 0),
            shapes=[
                un.Shape("cylinder", (R, width), (0, 0, 0), drawing.ALONG_Y, drawing.TYRE),
                un.Shape("box", (1.5 * R, 1.15 * width, 0.16 * R), colour=drawing.HUB),
            ],
        )
        b.add(un.rows.RollingDisc(f"{name}_tyre", name, R))
    progress, heading, duration = course(p)
    gains = as_array(p["gain"]), as_array(p["turn_gain"]), as_array(p["target"])
    b.force(["left", "right"], Balance(*gains, progress, heading, name="balance"))
    system = b.build()
    lean = (np.cos(p["lean"] / 2), 0.0, np.sin(p["lean"] / 2), 0.0)
    return Setup(system, system.state(base_quaternion=lean), t_end=duration, dt=0.01)


def facts(setup: Setup) -> dict[str, float]:
    """Slowest rate of decay [1/s] of a small deviation from upright rest in place; negative if it falls."""
    system = setup.system.replace_element("balance", target=(0.0, 0.0))
    found = un.linearise(system, system.state(), keep=("base.x", "base.ry", "base.rz")).eigenvalues
    return {"decay_rate": -found.real.max()}


def metrics(setup: Setup, data) -> dict[str, float]:
    p = setup.parameters
    away = data.base_position.values[-1, :2] - np.array(p["target"])
    return measures.journey(data) | {
        "distance_to_target": np.linalg.norm(away),
        "pitch_max": np.abs(data.balance_pitch.values).max(),
        "torque_max": np.abs(data.effort.values).max(),
        "energy_error": measures.energy_error(data),
    }


SCENARIO = Scenario(
    name="segway",
    summary="A two-wheeled inverted pendulum balances, drives to a target and turns, by feedback of its whole state",
    source="a classic of mobile robotics (numbers are ours)",
    parameters=(
        Parameter("body_mass", 20.0, "kg", "mass of the body", low=0, open_low=True),
        Parameter("body_inertia", (1.6, 1.5, 0.3), "kg m^2", "moments about its mass centre", low=0, open_low=True),
        Parameter("com_height", 0.4, "m", "height of its mass centre above the axle", low=0, open_low=True),
        Parameter("wheel_mass", 1.5, "kg", "mass of each wheel, a disc", low=0, open_low=True),
        Parameter("radius", 0.15, "m", "radius of the wheels", low=0, open_low=True),
        Parameter("track", 0.5, "m", "distance of the wheels", low=0, open_low=True),
        Parameter("gain", (-22.4, -134.7, -31.3, -32.4), "N, N m, N s, N m s", "of lag, pitch and their rates"),
        Parameter("turn_gain", (14.1, 5.5), "N m, N m s", "of the error of the heading and its rate"),
        Parameter("target", (3.0, 2.0), "m", "where it drives, x and y"),
        Parameter("final_heading", -1.0, "rad", "heading at the end"),
        Parameter("turn_time", 2.0, "s", "duration of each turn", low=0, open_low=True),
        Parameter("drive_time", 5.0, "s", "duration of the drive", low=0, open_low=True),
        Parameter("lean", 0.1, "rad", "pitch at the start", low=-1.0, high=1.0),
        Parameter("gravity", 9.81, "m/s^2", "gravity, downwards", low=0),
    ),
    build=build,
    metrics=metrics,
    facts=facts,
    metric_units=measures.JOURNEY_UNITS
    | {
        "constraint_residual": "m or m/s",
        "decay_rate": "1/s",
        "distance_to_target": "m",
        "pitch_max": "rad",
        "torque_max": "N m",
        "energy_error": "J",
    },
)
