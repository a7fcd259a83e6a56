"""A biped that skips: double support, single support, tiptoe and flight in every step (Boyer et al. 2019, remark 11)."""

import functools
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import undula as un
from undula.core.arrays import Array, as_array
from undula.gallery.drawing import bar
from undula.scenario.scenario import Parameter, Scenario, Setup

THIGH, SHANK, ANKLE, HEEL, TOE, TRUNK = 0.42, 0.42, 0.07, 0.08, 0.15, 0.5  # lengths [m]
THIGH_MASS, SHANK_MASS, FOOT_MASS = 6.0, 3.0, 1.0  # [kg]
PERIOD, LIFT, OFF, LAND = 0.95, 0.15, 0.45, 0.60  # of a step, and instants in it [s]
BEHIND = 0.2  # where a foot is put down behind the other one [m]
APART = 0.11  # of each leg from the middle, to the side [m]
PLANE = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])  # the plane of the base's motions: x and z of the world
COLOURS = {"left": (0.80, 0.27, 0.22), "right": (0.20, 0.42, 0.70)}
SKIN, GREY = (0.93, 0.78, 0.66), (0.45, 0.47, 0.52)
STILL = (0.0, 0.0, 0.0)


class Leg(un.laws.Law):
    """Angles of hip, knee and ankle [rad] that keep the foot of a leg on its path in the trunk's frame: inverse kinematics.

    `breaks` [s] and `coefficients` (pieces, 6, 3): the path of the ankle (x, z) [m] and the pitch [rad] of the foot, periodic.
    `ahead` [s]: by which the leg is ahead of it.
    """

    breaks: Float[Array, " instants"]
    coefficients: Float[Array, "pieces 6 3"]
    ahead: Float[Array, ""]

    @property
    def shape(self) -> tuple[int, ...]:
        return (3,)

    def value(self, t: Any) -> Float[Array, "3"]:
        inside = phase(t + self.ahead, self.breaks[-1])
        # the first and the last piece have no other end, because `inside` may be rounded to it
        inner = inside >= self.breaks[1:-1]
        piece = jnp.append(1.0, inner) - jnp.append(inner, 0.0)
        s = inside - self.breaks[:-1]
        powers = jnp.cumprod(jnp.stack([jnp.ones_like(s), *[s] * 5]), axis=0)
        # all pieces are evaluated: XLA may compute `inside` twice, rounded differently, so that a piece that were chosen once
        # for its start and once for its coefficients could be two, at a break
        x, z, pitch = piece @ jnp.einsum("kp,pkd->pd", powers, self.coefficients)
        bend = jnp.arccos((x**2 + z**2 - THIGH**2 - SHANK**2) / (2 * THIGH * SHANK))
        hip = jnp.arctan2(x, -z) + jnp.arctan2(SHANK * jnp.sin(bend), THIGH + SHANK * jnp.cos(bend))
        return jnp.stack([hip, -bend, pitch - hip + bend])


def phase(t: Any, span: Any) -> Any:
    """Time since the last multiple of a span [s]."""
    return t - span * jnp.floor(t / span)


def plan(p: dict) -> tuple[np.ndarray, np.ndarray]:
    """Instants [s] in a step, and paths there (instants, 3, 3): values, rates and accelerations of x, z [m] and pitch [rad].

    Three paths: of the hip, of the foot that stands in front at first, takes off and is put down behind the other one, and of
    that other foot, which is lifted, swings forward and lands.
    """
    # x, z and pitch, their rates, and their accelerations
    hip = _through(
        (0.0, -0.03, 0.8, 0.0, 0.5, 0.0, 0.0, *STILL),
        (LIFT, 0.05, 0.78, 0.0, 0.5, -0.1, 0.0, -0.24, 0.0, 0.0),
        (OFF, 0.217, 0.84, 0.0, 0.85, 0.75, 0.0, 0.0, -9.81, 0.0),
        (LAND, 0.3445, 0.822, 0.0, 0.85, -0.7215, 0.0, -2.0, 3.0, 0.0),
        (PERIOD, p["stride"] - 0.03, 0.8, 0.0, 0.5, 0.0, 0.0, *STILL),
    )
    back, landed = p["stride"] - BEHIND, _on_toe(p["stride"], -p["toe_down"])
    front = _through(
        (0.0, 0.0, ANKLE, 0.0, *STILL, *STILL),
        (OFF - 0.08, 0.0, ANKLE, 0.0, *STILL, *STILL),
        (OFF, *_on_toe(0.0, -0.3), *_on_toe(0.0, -0.3, -3.0, rates=True), *STILL),
        (0.62, back / 2, ANKLE + 0.15, -0.5, 1.5, 0.0, 0.5, *STILL),
        (PERIOD - 0.05, back, ANKLE, 0.0, *STILL, *STILL),
        (PERIOD, back, ANKLE, 0.0, *STILL, *STILL),
    )
    rear = _through(
        (0.0, -BEHIND, ANKLE, 0.0, *STILL, *STILL),
        (LIFT, -BEHIND, ANKLE, 0.0, *STILL, *STILL),
        ((LIFT + LAND) / 2, 0.22, ANKLE + 0.12, -0.2, 2.2, 0.0, 0.0, *STILL),
        (LAND, *landed, 0.0, -0.2, 0.0, *STILL),
        (LAND + 0.06, *landed, *STILL, *STILL),
        (PERIOD - 0.02, p["stride"], ANKLE, 0.0, *STILL, *STILL),
        (PERIOD, p["stride"], ANKLE, 0.0, *STILL, *STILL),
    )
    times = np.unique(np.concatenate([x.x for x in (hip, front, rear)]))
    return times, np.stack([np.stack([x(times, nu=k) for k in range(3)], 1) for x in (hip, front, rear)])


def _through(*keys: tuple[float, ...]) -> Any:
    """Polynomials of degree 5 through keys: instant [s], values, rates and accelerations."""
    from scipy.interpolate import BPoly

    return BPoly.from_derivatives([k[0] for k in keys], [np.reshape(k[1:], (3, 3)) for k in keys])


def _on_toe(x: float, pitch: float, rate: float = 0.0, rates: bool = False) -> tuple[float, float, float]:
    """Place of the ankle and pitch, or their rates, of a foot that stands on its toe; x: of the ankle if it stood flat [m]."""
    c, s = np.cos(pitch), np.sin(pitch)
    if rates:
        return rate * (TOE * s + ANKLE * -c), -rate * (ANKLE * s + TOE * c), rate
    return x + TOE - TOE * c - ANKLE * s, ANKLE * c - TOE * s, pitch


def legs(p: dict) -> dict[str, Leg]:
    """The laws of both legs, which are a step apart."""
    from scipy.interpolate import BPoly, PPoly

    times, (hip, front, rear) = plan(p)
    t = np.concatenate([times, PERIOD + times[1:]])
    path = PPoly.from_bernstein_basis(BPoly.from_derivatives(t, np.concatenate([front - hip, (rear - hip)[1:]])))
    pieces = np.swapaxes(path.c[::-1], 0, 1)
    return {name: Leg(as_array(t), as_array(pieces), as_array(x)) for name, x in (("left", 0.0), ("right", PERIOD))}


def build(p: dict) -> Setup:
    b = un.Builder("biped")
    mass = p["trunk_mass"]
    inertia = un.solids.planar_inertia(mass * TRUNK**2 / 12)
    head = un.Shape("sphere", (0.11,), (0, TRUNK + 0.22, 0), colour=SKIN)
    torso = [bar((0, 0.05, 0), (0, TRUNK, 0), GREY, 0.1), head]
    b.base(
        "trunk",
        role="free",
        group="SE2",
        rotation=PLANE,
        mass=mass,
        com=(0, TRUNK / 2, 0),
        inertia=inertia,
        shapes=torso,
    )
    for name, law in legs(p).items():
        _add_leg(b, name, law)
    # where two feet stand, the load is shared so that both push
    upward = [f"{side}-{x}" for side in COLOURS for x in ("toe.z", "heel.z")]
    pushing = [un.reactions.Bound(x, low=0.0) for x in upward]
    system = b.build().with_reactions(un.reactions.Least(limits=pushing))
    at, rate, _ = plan(p)[1][0][0]
    start = system.state(base_position=(at[0], 0, at[1]), base_twist=(*rate[:2], 0, 0, 0, 0))
    return Setup(system, start, p["steps"] * PERIOD, dt=1e-3, save_every=2)


def _add_leg(b: un.Builder, name: str, law: Leg) -> None:
    colour, turning = COLOURS[name], (0, 0, 1)
    parent, place = "trunk", (0.0, 0.0, -APART if name == "left" else APART)
    for part, joint, length, mass in (("thigh", "hip", THIGH, THIGH_MASS), ("shank", "knee", SHANK, SHANK_MASS)):
        b.body(
            f"{name}-{part}",
            parent,
            un.Revolute(turning, name=f"{name}-{joint}"),
            position=place,
            mass=mass,
            com=(0, -length / 2, 0),
            inertia=un.solids.planar_inertia(mass * length**2 / 12),
            shapes=[bar((0, 0, 0), (0, -length, 0), colour, 0.045)],
        )
        parent, place = f"{name}-{part}", (0.0, -length, 0.0)
    foot, length, middle = f"{name}-foot", HEEL + TOE, (TOE - HEEL) / 2
    b.body(
        foot,
        parent,
        un.Revolute(turning, name=f"{name}-ankle"),
        position=place,
        mass=FOOT_MASS,
        com=(middle, -ANKLE / 2, 0),
        inertia=un.solids.planar_inertia(FOOT_MASS * length**2 / 12),
        shapes=[
            un.Shape("box", (length, 0.03, 0.09), (middle, 0.015 - ANKLE, 0), colour=colour),
            bar((0, 0, 0), (TOE / 2, -ANKLE / 2, 0), colour, 0.03),
        ],
    )
    b.drive([f"{name}-{x}" for x in ("hip", "knee", "ankle")], law)
    toe = un.rows.Latch(f"{name}-toe", un.site(foot, (TOE, -ANKLE, 0)), holds=("x", "z"))
    heel = un.rows.Latch(f"{name}-heel", un.site(foot, (-HEEL, -ANKLE, 0)), holds=("x", "z"))
    rule = _rule(float(law.ahead))
    b.add(toe.when(rule), heel.when(rule))


@functools.cache
def _rule(ahead: float) -> un.rows.Condition:
    """A foot lands where it touches the ground, and stands as long as the ground pushes.

    The clock puts it down behind the other one, and lifts it: how two feet share the load is not unique, so that the signs of
    their reactions do not say when.
    """

    def release(at, reaction):
        t = phase(at.t + ahead, 2 * PERIOD)
        clock = jnp.where(t < LIFT, 1.0, PERIOD + LIFT - t)  # and beyond its zero, which a step may end on by rounding
        return jnp.where((t < LIFT) | ((t > 0.9 * PERIOD) & (t < PERIOD + 2 * LIFT)), clock, reaction[-1])

    def engage(at):
        t = phase(at.t + ahead, 2 * PERIOD)
        return jnp.where(t < PERIOD + LIFT / 2, PERIOD - t, at.sites[0].p[2])

    return un.rows.Condition(release, engage)


def metrics(setup: Setup, data) -> dict[str, float]:
    """Times in the classes are means per step."""
    steps, t = setup.parameters["steps"], data.time.values
    known = un.results.class_names(data)
    # what a class lasts: up to the sample before which it changes, a sample at an event having the class after it
    spans = {x: float(np.diff(t)[known[:-1] == x].sum()) / steps for x in np.unique(known)}
    upward = [k for k, x in enumerate(data.constraint.values) if not x.endswith(".x")]
    shock = data.event_impulse.values[:, upward]
    lost = float(data.event_loss.sum())
    energy = (data.energy_kinetic + data.energy_potential).values
    return {
        "distance": data.base_position.values[-1, 0] - data.base_position.values[0, 0],
        "classes": len(spans),
        "class_changes": sum(a != b for a, b in itertools.pairwise(known)),
        "double_support": spans.get("over-constrained", 0.0),
        "single_support": spans.get("fully constrained", 0.0),
        "tiptoe": spans.get("under-constrained", 0.0),
        "flight": spans.get("unconstrained", 0.0),
        "force_max": data.reaction.values[:, upward].sum(1).max(),
        "force_min": np.where(data.constraint_active.values > 0, data.reaction.values, np.inf)[:, upward].min(),
        "impulse_max": shock.max(initial=0.0),
        "pull_max": -shock.min(initial=0.0),
        "work": energy[-1] - energy[0] + lost,
        "impact_loss": lost,
    }


SCENARIO = Scenario(
    name="biped",
    summary="A driven biped skips: double support, single support, tiptoe and flight, and the class changes with them",
    source="Boyer et al. 2019, remark 11 (robot, gait and numbers are ours)",
    parameters=(
        Parameter("stride", 0.565, "m", "from one step to the next", low=0.56, high=0.58),
        Parameter(
            "toe_down",
            0.02,
            "rad",
            "pitch of the foot that lands against the trunk, its toe down",
            low=0.015,
            high=0.03,
        ),
        Parameter("trunk_mass", 34.0, "kg", "mass of the trunk", low=30, high=60),
        Parameter("steps", 3, "", "number of steps", low=1, high=100),
    ),
    build=build,
    metrics=metrics,
    metric_units={
        "distance": "m",
        "classes": "1",
        "class_changes": "1",
        "double_support": "s",
        "single_support": "s",
        "tiptoe": "s",
        "flight": "s",
        "force_max": "N",
        "force_min": "N",
        "impulse_max": "N s",
        "pull_max": "N s",
        "work": "J",
        "impact_loss": "J",
    },
)
