"""Views of the motion given to elements: frames at their sites, coordinates that they name, their internal state."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.plant import Plant
from undula.lie.se3 import bracket
from undula.numerics.small import cross, hat, matmul, matvec


class Slide(NamedTuple):
    """View of a site that moves along its rod: derivatives with respect to X of the section's strain, `slope`, of its
    rate, `slope_rate`, and the second derivative of the strain, `bend`; `offset` (6, 6): from strains in the section's
    frame to strains in the site's own."""

    slope: Float[Array, "6"]
    slope_rate: Float[Array, "6"]
    bend: Float[Array, "6"]
    offset: Float[Array, "6 6"] | None


class SiteView(NamedTuple):
    """Pose (R, p) of a site in the world and its twist (V, W) in its own frame [m, m/s, rad/s].

    On a rod also `X` [m], and the strain `xi` (6,) [1, 1/m] of the section and its rate `dxi`. If X moves: `slide`, and
    `dX` [m/s], None if X is unknown: then it is the rate of the element's own state.
    """

    R: Float[Array, "3 3"]
    p: Float[Array, "3"]
    V: Float[Array, "3"]
    W: Float[Array, "3"]
    X: Any = None
    xi: Any = None
    dxi: Any = None
    dX: Any = None
    slide: Any = None

    def point(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """World position of a point given in the site's frame [m]."""
        return self.p + matvec(self.R, x)

    def velocity(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """World velocity of the body's material point that is at x in the site's frame [m/s]."""
        return matvec(self.R, self.V + cross(self.W, x))

    def direction(self, a: Float[Array, "3"]) -> Float[Array, "3"]:
        """A vector of the site's frame in world axes."""
        return matvec(self.R, a)

    @property
    def spin(self) -> Float[Array, "3"]:
        """Angular velocity in world axes [rad/s]."""
        return matvec(self.R, self.W)

    @property
    def twist(self) -> Float[Array, "6"]:
        """(V, W) in the site's own frame [m/s, rad/s]."""
        return jnp.concatenate([self.V, self.W])


class Whole(NamedTuple):
    """The whole state: pose (R, position) and twist (6,) of the base; reported values `x` and rates `v` of all coordinates."""

    R: Float[Array, "3 3"]
    position: Float[Array, "3"]
    twist: Float[Array, "6"]
    x: Float[Array, "nv"]
    v: Float[Array, "nv"]


class View(NamedTuple):
    """The view of the motion given to an element.

    - `t` [s]; `sites`: one `SiteView` per site, in the order in which the element names them.
    - `x`, `v`: values [rad or m] and rates of the coordinates that it names.
    - `z`: its own internal state; `whole`: the state of the whole system, for elements that ask for it (`wants_whole`);
      `plant`: its dynamics, for those that ask for that (`wants_plant`).
    - In `observe` of row models only: `reaction` (rows,), multipliers of its rows or forces of its slip law
      [N or N m], and `effort` (c,), what the actuators of its coordinates supply [N m or N].
    """

    t: Any
    sites: tuple[SiteView, ...]
    x: Float[Array, "c"]
    v: Float[Array, "c"]
    z: Any = ()
    whole: Whole | None = None
    plant: Plant | None = None
    reaction: Any = None
    effort: Any = None


# what differs between the members of a group: neither time nor the whole state
MEMBERS = View(t=None, sites=0, x=0, v=0, z=0, whole=None, reaction=0, effort=0)  # type: ignore[arg-type]  # vmap axes


def each(function: Callable[..., Any], forms: Any, at: View, *more: Any) -> Any:
    """`function` (form, view, ...) for every member of a group, from stacked forms and views."""
    return jax.vmap(function, (0, MEMBERS, *(0,) * len(more)))(forms, at, *more)


def site_rate(s: SiteView, dX: Any, dV: Any = None, dW: Any = None, ddxi: Any = None, ddX: Any = None) -> SiteView:
    """The rate of a site's view: a tangent, with accelerations dV and dW of its twist's components (zero by default).

    `dX` [m/s], `ddX` [m/s^2]: of the motion along a rod, if there is one; `ddxi`: rate of `dxi`.
    """
    zero = jnp.zeros(3)
    out = s._replace(
        R=matmul(s.R, hat(s.W)), p=matvec(s.R, s.V), V=zero if dV is None else dV, W=zero if dW is None else dW
    )
    if s.X is None:
        return out
    still = jnp.zeros_like
    out = out._replace(X=still(s.X), xi=s.dxi, dxi=still(s.dxi) if ddxi is None else ddxi)
    if s.slide is None:
        return out
    # along the rod: dR/dX = R K^, dp/dX = R Gamma, and d(eta)/dX = xi' - ad(xi) eta, because the second derivatives commute
    xi, dxi = (x if s.slide.offset is None else matvec(s.slide.offset, x) for x in (s.xi, s.dxi))
    across = dxi - bracket(xi, s.twist)
    slide = Slide(
        s.slide.slope_rate + s.slide.bend * dX,
        still(s.slide.slope_rate),
        still(s.slide.bend),
        None if s.slide.offset is None else still(s.slide.offset),
    )
    return out._replace(
        R=out.R + matmul(s.R, hat(xi[3:])) * dX,
        p=out.p + matvec(s.R, xi[:3]) * dX,
        V=out.V + across[:3] * dX,
        W=out.W + across[3:] * dX,
        X=dX,
        xi=out.xi + s.slide.slope * dX,
        dxi=out.dxi + s.slide.slope_rate * dX,
        dX=None if s.dX is None else still(s.dX) if ddX is None else ddX,
        slide=slide,
    )
