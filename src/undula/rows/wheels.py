"""Wheels, skates and rollers on a body whose z axis is normal to the ground."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, as_vector, flag, shown
from undula.elements.observable import Observable
from undula.elements.row import RowModel
from undula.elements.site import Site, moved_site
from undula.elements.view import View
from undula.laws.law import Law
from undula.rows.vectors import dot, positive_number

ANGLE = Observable(
    "angle", "rad", (), "angle of each wheel about its axle; if it turns freely, since the first sample", "rate"
)
RATE = Observable("rate", "rad/s", (), "rate of each wheel about its axle; positive forwards")
MOTOR = (
    Observable("torque", "N m", (), "torque of the motor of each wheel; positive if it pushes forwards"),
    Observable("power", "W", (), "power of the motor of each wheel"),
)


class Wheel(RowModel):
    """A wheel on a body whose z axis is normal to the ground, modelled by rows only: it needs no body of its own.

    The rows constrain the contact point below `position`: no sideways sliding (if `side`), and rolling (if `roll` is given):
    forward speed = radius times rate. A castor has no row: leave it out.

    **Arguments:**

    - `body`: the body that carries it, a name or a site; `position` (3,) in that body [m].
    - `heading`: direction of rolling in the body [rad from x to y]; a number, a law of time, or the name of a coordinate
      (a steering angle, which is added to `offset`).
    - `radius` [m]; `roll`: None (turns freely, no row), the name of its axle's coordinate, or a law of its angle.

    Records the angle and the rate of the wheel and, if there is a `roll`, torque and power of its motor.
    """

    radius: Array
    offset: Array
    heading: Any
    roll: Any
    side: bool = eqx.field(static=True)
    steered: bool = eqx.field(static=True)
    rolls: str = eqx.field(static=True)

    positive = ("radius",)

    @classmethod
    def family(cls) -> str:
        return "wheel"

    def __init__(
        self,
        name: str,
        body: str | Site,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        radius: float = 0.1,
        roll: str | Law | None = None,
        side: bool = True,
        offset: float = 0.0,
    ):
        self.name = name
        self.sites = (moved_site(body, position, None, f"the wheel '{name}'"),)
        steer = (heading,) if isinstance(heading, str) else ()
        axle = (roll,) if isinstance(roll, str) else ()
        self.coordinates = steer + axle
        self.radius = positive_number(radius, f"radius of the wheel '{name}'")
        self.offset = as_vector(offset, 0, f"offset of the wheel '{name}'")
        if not isinstance(heading, str | Law):
            heading = as_vector(heading, 0, f"heading of the wheel '{name}'")
        if roll is not None and not isinstance(roll, str | Law):
            raise ModelError(f"roll of the wheel '{name}' = {shown(roll)}; it must be a coordinate, a law or None.")
        self.heading = None if isinstance(heading, str) else heading
        self.roll = roll if isinstance(roll, Law) else None
        self.side, self.steered = flag(side, f"side of the wheel '{name}'"), bool(steer)
        self.rolls = "law" if isinstance(roll, Law) else "coordinate" if axle else ""
        if not side and not self.rolls:
            raise ModelError(f"the wheel '{name}' neither rolls nor holds sideways, so it has no row; leave it out.")

    def directions(self, at: View) -> tuple[Array, Array, Array]:
        """Unit vectors forward and to the left, and velocity of the body at the contact, all in the body's axes."""
        angle = at.x[0] if self.steered else self.heading.value(at.t) if isinstance(self.heading, Law) else self.heading
        angle = angle + self.offset
        zero = jnp.zeros(())
        ahead = jnp.stack([jnp.cos(angle), jnp.sin(angle), zero])
        left = jnp.stack([-jnp.sin(angle), jnp.cos(angle), zero])
        return ahead, left, at.sites[0].V

    def turning(self, at: View) -> Array:
        """Angular rate of the wheel [rad/s]."""
        return self.roll(at.t)[1] if self.rolls == "law" else at.v[-1]

    @property
    def leverage(self) -> Array:
        """Torque of the motor per unit of the reaction of the rolling row [m]."""
        return self.radius

    def rows(self, at: View) -> Float[Array, "r"]:
        ahead, left, velocity = self.directions(at)
        out = [dot(left, velocity)] if self.side else []  # NS
        if self.rolls:
            out.append(dot(ahead, velocity) - self.leverage * self.turning(at))  # RWS
        return jnp.stack(out)

    @property
    def labels(self) -> tuple[str, ...]:
        return (("side",) if self.side else ()) + (("roll",) if self.rolls else ())

    @property
    def turned(self) -> dict[str, int | None]:
        # the axle's coordinate is the last one
        return {self.labels[-1]: int(self.steered) if self.rolls == "coordinate" else None} if self.rolls else {}

    @property
    def observables(self) -> tuple[Observable, ...]:  # type: ignore[override]  # depends on the wheel
        return (ANGLE, RATE, *MOTOR) if self.rolls else (ANGLE, RATE)

    def observe(self, at: View) -> dict[str, Array]:
        if not self.rolls:  # nothing slips along the heading, so the speed gives the rate (000, 3.40), (000, 3.50)
            ahead, _, velocity = self.directions(at)
            return {"rate": dot(ahead, velocity) / self.radius}
        rate = self.turning(at)
        if self.rolls == "coordinate":
            angle, torque = at.x[-1], at.effort[-1]
        else:
            # (000, 3.86) with the sign of the power balance: the row's power, reaction * leverage * rate, is the motor's
            angle, torque = self.roll.value(at.t), self.leverage * at.reaction[-1]
        return {"angle": angle, "rate": rate, "torque": torque, "power": torque * rate}


class Skate(Wheel):
    """A blade or knife edge: moves along its heading, never sideways. Arguments as for `Wheel`.

    `ground` [m]: the contact point also stays at this height in the world (row `height`, before `side`), so that the blade can
    leave the ground and land: `when(WhilePushing("height"))`. None: something else carries the body.
    """

    ground: Any

    observables = ()  # it does not turn

    @classmethod
    def family(cls) -> str:
        return "skate"

    def __init__(
        self,
        name: str,
        body: str | Site,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        offset: float = 0.0,
        ground: float | None = None,
    ):
        super().__init__(name, body, position, heading, offset=offset)
        self.ground = None if ground is None else as_vector(ground, 0, f"ground of the skate '{name}'")

    def gap(self, at: View) -> Float[Array, "g"]:
        return jnp.zeros(0) if self.ground is None else (at.sites[0].p[2] - self.ground)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("side",) if self.ground is None else ("height", "side")

    def observe(self, at: View) -> dict[str, Array]:
        return {}


class MecanumWheel(Wheel):
    """A wheel with rollers: the contact is constrained along the axis of the lowest roller only.

    `roller` [rad]: angle from the heading to that axis (0: an omnidirectional wheel; pi/4: a mecanum wheel).
    """

    roller: Array

    def __init__(
        self,
        name: str,
        body: str | Site,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        radius: float = 0.1,
        roll: str | Law | None = None,
        roller: float = np.pi / 4,
        offset: float = 0.0,
    ):
        super().__init__(name, body, position, heading, radius, roll, side=False, offset=offset)
        self.roller = as_vector(roller, 0, f"roller of the wheel '{name}'")

    def rows(self, at: View) -> Float[Array, "r"]:
        ahead, left, velocity = self.directions(at)
        c, s = jnp.cos(self.roller), jnp.sin(self.roller)
        held = dot(c * ahead + s * left, velocity) - self.leverage * self.turning(at)
        return held[None]

    @property
    def leverage(self) -> Array:
        return jnp.cos(self.roller) * self.radius

    @property
    def labels(self) -> tuple[str, ...]:
        return ("roller",)
