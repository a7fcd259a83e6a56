"""Constraints of wheels, rolling bodies, points and coordinates. The ground is the plane z = 0 unless a plane is given."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError, as_vector
from undula.elements.row import WORLD, At, BodyMotion, Constraint
from undula.laws.law import Law
from undula.numerics.small import cross

UP = np.array([0.0, 0.0, 1.0])
FLAT = np.cos(np.radians(10.0))  # a disc whose axis has a larger vertical component has fallen over


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum()


def _unit(a: Array) -> Array:
    return a / jnp.sqrt(_dot(a, a))


class Wheel(Constraint):
    """A wheel on a body whose z axis is normal to the ground, as rows alone: it needs no body of its own.

    The rows are about the contact point below `position`: no sliding sideways (if `side`), and rolling (if `roll` says what
    turns it): forward speed = radius times rate. A castor has no row: leave it out.

    **Arguments:**

    - `body`: what carries it; `position` (3,) in the body [m].
    - `heading`: direction of rolling in the body [rad from x to y]; a number, a law of time, or the name of a coordinate
      (a steering angle, which is added to `offset`).
    - `radius` [m]; `roll`: None (turns freely, no row), the name of the coordinate of its axle, or a law of its angle.
    """

    position: Array
    radius: Array
    offset: Array
    heading: Any
    roll: Any
    side: bool = eqx.field(static=True)
    steered: bool = eqx.field(static=True)
    rolls: str = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        body: str,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        radius: float = 0.1,
        roll: str | Law | None = None,
        side: bool = True,
        offset: float = 0.0,
    ):
        self.name, self.bodies = name, (body,)
        steer = (heading,) if isinstance(heading, str) else ()
        axle = (roll,) if isinstance(roll, str) else ()
        self.coordinates = steer + axle
        self.position = jnp.asarray(as_vector(position, 3, f"position of the wheel '{name}'"))
        self.radius = _positive(radius, f"radius of the wheel '{name}'")
        self.offset = jnp.asarray(as_vector(offset, 0, f"offset of the wheel '{name}'"))
        if not isinstance(heading, str | Law):
            heading = jnp.asarray(as_vector(heading, 0, f"heading of the wheel '{name}'"))
        self.heading = None if isinstance(heading, str) else heading
        self.roll = roll if isinstance(roll, Law) else None
        self.side, self.steered = side, bool(steer)
        self.rolls = "law" if isinstance(roll, Law) else "coordinate" if axle else ""
        if not side and not self.rolls:
            raise ModelError(f"the wheel '{name}' neither rolls nor holds sideways, so it has no row; leave it out.")

    def directions(self, at: At) -> tuple[Array, Array, Array]:
        """(forward, leftward) in the body's axes, and the velocity of the body at the contact."""
        angle = at.x[0] if self.steered else self.heading.value(at.t) if isinstance(self.heading, Law) else self.heading
        angle = angle + self.offset
        zero = jnp.zeros(())
        ahead = jnp.stack([jnp.cos(angle), jnp.sin(angle), zero])
        left = jnp.stack([-jnp.sin(angle), jnp.cos(angle), zero])
        b = at.bodies[0]
        return ahead, left, b.V + cross(b.W, self.position)

    def turning(self, at: At) -> Array:
        """Rate of the wheel's angle [rad/s]."""
        return self.roll(at.t)[1] if self.rolls == "law" else at.v[-1]

    def rows(self, at: At) -> Float[Array, "r"]:
        ahead, left, velocity = self.directions(at)
        out = [_dot(left, velocity)] if self.side else []  # NS
        if self.rolls:
            out.append(_dot(ahead, velocity) - self.radius * self.turning(at))  # RWS
        return jnp.stack(out)

    @property
    def labels(self) -> tuple[str, ...]:
        return (("side",) if self.side else ()) + (("roll",) if self.rolls else ())


class Skate(Wheel):
    """A blade or knife edge: moves along its heading, never sideways. Arguments as those of `Wheel`."""

    def __init__(
        self,
        name: str,
        body: str,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        offset: float = 0.0,
    ):
        super().__init__(name, body, position, heading, offset=offset)


class MecanumWheel(Wheel):
    """A wheel with rollers: the contact is held along the axis of the lowest roller only.

    `roller` [rad]: angle of that axis from the heading (0: an omnidirectional wheel; pi/4: a mecanum wheel).
    """

    roller: Array

    def __init__(
        self,
        name: str,
        body: str,
        position: Any = (0.0, 0.0, 0.0),
        heading: float | str | Law = 0.0,
        radius: float = 0.1,
        roll: str | Law | None = None,
        roller: float = np.pi / 4,
        offset: float = 0.0,
    ):
        super().__init__(name, body, position, heading, radius, roll, side=False, offset=offset)
        self.roller = jnp.asarray(as_vector(roller, 0, f"roller of the wheel '{name}'"))

    def rows(self, at: At) -> Float[Array, "r"]:
        ahead, left, velocity = self.directions(at)
        c, s = jnp.cos(self.roller), jnp.sin(self.roller)
        held = _dot(c * ahead + s * left, velocity) - c * self.radius * self.turning(at)
        return held[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("roller",)


class RollingDisc(Constraint):
    """A thin disc on the ground, with the exact contact: its lowest point, wherever the disc leans.

    The body turns with the disc, unless `spins` is False: then the disc turns freely on a body that does not (a knife edge
    on a tilted wheel), and only its height and its side are held.

    **Arguments:** `radius` [m]; `axis`: of the disc in the body; `centre` in the body [m].
    """

    radius: Array
    axis: Array
    centre: Array
    spins: bool = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        body: str,
        radius: float,
        axis: Any = (0.0, 1.0, 0.0),
        centre: Any = (0.0, 0.0, 0.0),
        spins: bool = True,
    ):
        self.name, self.bodies, self.coordinates = name, (body,), ()
        self.radius = _positive(radius, f"radius of the disc '{name}'")
        self.axis = _axis(axis, f"axis of the disc '{name}'")
        self.centre = jnp.asarray(as_vector(centre, 3, f"centre of the disc '{name}'"))
        self.spins = spins

    def _contact(self, b: BodyMotion) -> tuple[Array, Array]:
        """Axis of the disc, and the way from its centre to its lowest point, in the world."""
        a = b.direction(self.axis)
        return a, -self.radius * _unit(UP - a[2] * a)

    def gap(self, at: At) -> Float[Array, "1"]:
        (b,) = at.bodies
        _, down = self._contact(b)
        return (b.point(self.centre) + down)[2:]

    def rows(self, at: At) -> Float[Array, "r"]:
        (b,) = at.bodies
        a, down = self._contact(b)
        velocity = b.velocity(self.centre) + cross(b.spin, down)
        ahead = _unit(cross(a, jnp.asarray(UP)))
        side = _dot(cross(jnp.asarray(UP), ahead), velocity)
        return jnp.stack([side, _dot(ahead, velocity)]) if self.spins else side[None]

    def undefined(self, at: At) -> str:
        tilt = float(jnp.abs(at.bodies[0].direction(self.axis)[2]))
        if tilt < FLAT:
            return ""
        off = np.degrees(np.arccos(min(tilt, 1.0)))
        return f"has fallen over: its axis is {off:.1f} degrees from the vertical, and a flat disc has no lowest point"

    @property
    def labels(self) -> tuple[str, ...]:
        return ("height", "side", "roll") if self.spins else ("height", "side")


class RollingSphere(Constraint):
    """A ball on the ground. `radius` [m], `centre` in the body [m]; with `spin` it may not turn about the vertical either."""

    radius: Array
    centre: Array
    spin: bool = eqx.field(static=True)

    def __init__(self, name: str, body: str, radius: float, centre: Any = (0.0, 0.0, 0.0), spin: bool = False):
        self.name, self.bodies, self.coordinates = name, (body,), ()
        self.radius = _positive(radius, f"radius of the sphere '{name}'")
        self.centre = jnp.asarray(as_vector(centre, 3, f"centre of the sphere '{name}'"))
        self.spin = spin

    def gap(self, at: At) -> Float[Array, "1"]:
        return at.bodies[0].point(self.centre)[2:] - self.radius

    def rows(self, at: At) -> Float[Array, "r"]:
        (b,) = at.bodies
        slip = b.velocity(self.centre) - self.radius * cross(b.spin, jnp.asarray(UP))
        return jnp.concatenate([slip[:2], b.spin[2:]]) if self.spin else slip[:2]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("height", "x", "y", "spin") if self.spin else ("height", "x", "y")


class PointOnPlane(Constraint):
    """A point of a body stays on a plane of another one (or of the world): 1 row.

    `point` in the body [m]; `normal` and `origin` of the plane in `other`.
    """

    point: Array
    normal: Array
    origin: Array

    def __init__(
        self,
        name: str,
        body: str,
        point: Any = (0.0, 0.0, 0.0),
        normal: Any = UP,
        origin: Any = (0.0, 0.0, 0.0),
        other: str = WORLD,
    ):
        self.name, self.bodies, self.coordinates = name, (body, other), ()
        self.point = jnp.asarray(as_vector(point, 3, f"point of the constraint '{name}'"))
        self.normal = _axis(normal, f"normal of the constraint '{name}'")
        self.origin = jnp.asarray(as_vector(origin, 3, f"origin of the constraint '{name}'"))

    def gap(self, at: At) -> Float[Array, "1"]:
        b, other = at.bodies
        return _dot(other.direction(self.normal), b.point(self.point) - other.point(self.origin))[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("",)


class Coupling(Constraint):
    """A gear or linkage between coordinates: sum of coefficients times coordinates = `offset` [rad or m]."""

    coefficients: Array
    offset: Array

    def __init__(self, name: str, coordinates: tuple[str, ...], coefficients: Any, offset: float = 0.0):
        self.name, self.bodies, self.coordinates = name, (), tuple(coordinates)
        self.coefficients = jnp.asarray(
            as_vector(coefficients, len(self.coordinates), f"coefficients of the coupling '{name}'")
        )
        self.offset = jnp.asarray(as_vector(offset, 0, f"offset of the coupling '{name}'"))

    def gap(self, at: At) -> Float[Array, "1"]:
        return (_dot(self.coefficients, at.x) - self.offset)[None]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("",)


class PrescribedPoint(Constraint):
    """Imposes the motion of a point of a body in the world, by a law of 3 components [m]; `holds`: which of x, y, z."""

    point: Array
    law: Law
    holds: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, name: str, body: str, law: Law, point: Any = (0.0, 0.0, 0.0), holds: str = "xyz"):
        self.name, self.bodies, self.coordinates = name, (body,), ()
        if not holds or any(c not in "xyz" for c in holds):
            raise ModelError(f"the constraint '{name}' holds {holds!r}; it must be some of x, y, z.")
        self.holds = tuple("xyz".index(c) for c in holds)
        if law.shape != (len(self.holds),):
            raise ModelError(
                f"the law of the constraint '{name}' has the shape {law.shape}; it must be ({len(self.holds)},)."
            )
        self.point = jnp.asarray(as_vector(point, 3, f"point of the constraint '{name}'"))
        self.law = law

    def gap(self, at: At) -> Float[Array, "g"]:
        (b,) = at.bodies
        return b.point(self.point)[np.array(self.holds)] - self.law.value(at.t)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple("xyz"[k] for k in self.holds) if len(self.holds) > 1 else ("",)


def _positive(value: Any, what: str) -> Array:
    out = as_vector(value, 0, what)
    if isinstance(out, int | float | np.ndarray | np.floating) and not out > 0:
        raise ModelError(f"{what} = {float(out):g} m; it must be positive.")
    return jnp.asarray(out)


def _axis(value: Any, what: str) -> Array:
    a = as_vector(value, 3, what)
    if isinstance(a, np.ndarray):
        if not a.any():
            raise ModelError(f"{what} is zero; it must have a direction.")
        return jnp.asarray(a / np.linalg.norm(a))
    return _unit(a)
