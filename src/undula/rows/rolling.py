"""Discs and balls rolling on the ground, the plane z = 0."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.observable import Observable
from undula.elements.row import RowModel
from undula.elements.site import Site, moved_site
from undula.elements.view import SiteView, View
from undula.numerics.small import cross
from undula.rows.vectors import UP, direction, dot, positive_number, unit
from undula.rows.wheels import ANGLE, RATE

FLAT = np.cos(np.radians(10.0))  # a disc whose axis has a larger vertical component has fallen over


class RollingDisc(RowModel):
    """A thin disc on the ground, in contact at its lowest point whatever its lean.

    The body turns with the disc, unless `spins` is False: then the disc turns freely on a body that does not spin (a knife
    edge on a tilted wheel), and only its height and its sideways velocity are constrained.

    Records its rate, the forward speed of its centre over the radius, and its angle, the integral of the rate.

    **Arguments:** `radius` [m]; `axis` of the disc in the body; `centre` in the body [m].
    """

    radius: Array
    axis: Array
    spins: bool = eqx.field(static=True)

    observables: ClassVar[tuple[Observable, ...]] = (ANGLE, RATE)
    positive: ClassVar[tuple[str, ...]] = ("radius",)

    @classmethod
    def family(cls) -> str:
        return "wheel"

    def __init__(
        self,
        name: str,
        body: str | Site,
        radius: float,
        axis: Any = (0.0, 1.0, 0.0),
        centre: Any = (0.0, 0.0, 0.0),
        spins: bool = True,
    ):
        self.name, self.coordinates = name, ()
        self.sites = (moved_site(body, centre, None, f"the disc '{name}'"),)
        self.radius = positive_number(radius, f"radius of the disc '{name}'")
        self.axis = direction(axis, f"axis of the disc '{name}'")
        self.spins = spins

    def _contact(self, b: SiteView) -> tuple[Array, Array]:
        """Axis of the disc and vector from its centre to its lowest point, in the world."""
        a = b.direction(self.axis)
        return a, -self.radius * unit(UP - a[2] * a)

    def gap(self, at: View) -> Float[Array, "1"]:
        (b,) = at.sites
        _, down = self._contact(b)
        return (b.p + down)[2:]

    def rows(self, at: View) -> Float[Array, "r"]:
        (b,) = at.sites
        a, down = self._contact(b)
        velocity = b.velocity(jnp.zeros(3)) + cross(b.spin, down)
        ahead = _ahead(a)
        side = dot(cross(jnp.asarray(UP), ahead), velocity)
        return jnp.stack([side, dot(ahead, velocity)]) if self.spins else side[None]

    def observe(self, at: View) -> dict[str, Array]:
        (b,) = at.sites
        a, _ = self._contact(b)
        return {"rate": dot(_ahead(a), b.velocity(jnp.zeros(3))) / self.radius}

    def undefined(self, at: View) -> str:
        tilt = float(jnp.abs(at.sites[0].direction(self.axis)[2]))
        if tilt < FLAT:
            return ""
        off = np.degrees(np.arccos(min(tilt, 1.0)))
        return f"has fallen over: its axis is {off:.1f} degrees from the vertical, and a flat disc has no lowest point"

    @property
    def labels(self) -> tuple[str, ...]:
        return ("height", "side", "roll") if self.spins else ("height", "side")


def _ahead(axis: Float[Array, "3"]) -> Float[Array, "3"]:
    """The direction in which a disc rolls that turns about its axis in the positive sense."""
    return unit(cross(axis, jnp.asarray(UP)))


class RollingSphere(RowModel):
    """A ball on the ground. `radius` [m], `centre` in the body [m]; `spin`: rotation about the vertical is blocked, too."""

    radius: Array
    spin: bool = eqx.field(static=True)

    positive: ClassVar[tuple[str, ...]] = ("radius",)

    def __init__(self, name: str, body: str | Site, radius: float, centre: Any = (0.0, 0.0, 0.0), spin: bool = False):
        self.name, self.coordinates = name, ()
        self.sites = (moved_site(body, centre, None, f"the sphere '{name}'"),)
        self.radius = positive_number(radius, f"radius of the sphere '{name}'")
        self.spin = spin

    def gap(self, at: View) -> Float[Array, "1"]:
        return at.sites[0].p[2:] - self.radius

    def rows(self, at: View) -> Float[Array, "r"]:
        (b,) = at.sites
        slip = b.velocity(jnp.zeros(3)) - self.radius * cross(b.spin, jnp.asarray(UP))
        return jnp.concatenate([slip[:2], b.spin[2:]]) if self.spin else slip[:2]

    @property
    def labels(self) -> tuple[str, ...]:
        return ("height", "x", "y", "spin") if self.spin else ("height", "x", "y")
