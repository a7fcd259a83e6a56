"""A spring and a damper between two points."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array, as_array
from undula.core.errors import as_vector, flag, not_negative
from undula.elements.force import ForceModel
from undula.elements.observable import Observable
from undula.elements.site import Site, as_site, refuse_same
from undula.numerics.small import tmatvec

SHORT = 1e-12  # distance below which the direction of the spring is undefined [m]


class SpringDamper(ForceModel):
    """A spring and a damper between the origins of two sites, along the line joining them.

    **Arguments:**

    - `first`, `second`: body names or sites; "world" is the inertial frame.
    - `stiffness` [N/m], `damping` [N s/m], `rest` [m]: length of the unloaded spring.
    - `pulls_only`: a cable or a rubber band, slack when shorter than `rest`.
    """

    stiffness: Float[Array, ""]
    damping: Float[Array, ""]
    rest: Float[Array, ""]
    pulls_only: Float[Array, ""]

    not_negative = ("stiffness", "damping", "rest")
    observables = (
        Observable("length", "m", (), "length of each spring"),
        Observable("tension", "N", (), "force of each spring and damper, positive if it pulls"),
    )

    def __init__(
        self,
        first: str | Site,
        second: str | Site,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        rest: Any = 0.0,
        pulls_only: bool = False,
        name: str | None = None,
    ):
        ends = tuple(as_site(x, "a spring") for x in (first, second))
        self.name, self.sites, self.coordinates = name, ends, ()
        what = f"the spring between {ends[0].words} and {ends[1].words}"
        refuse_same(ends, what)
        for key, value in (("stiffness", stiffness), ("damping", damping), ("rest", rest)):
            setattr(self, key, not_negative(as_vector(value, 0, f"{key} of {what}"), f"{key} of {what}"))
        self.pulls_only = as_array(float(flag(pulls_only, f"pulls_only of {what}")))

    def _line(self, at) -> tuple[Array, Array]:
        """Length and unit vector from the first end to the second, in the world."""
        a, b = at.sites
        d = b.p - a.p
        square = (d * d).sum()
        length = jnp.sqrt(jnp.where(square > SHORT**2, square, SHORT**2))
        return length, d / length

    def _tension(self, at) -> tuple[Array, Array]:
        a, b = at.sites
        length, along = self._line(at)
        rate = ((b.velocity(jnp.zeros(3)) - a.velocity(jnp.zeros(3))) * along).sum()
        taut = (length > self.rest) | (self.pulls_only == 0)
        pull = jnp.where(taut, self.stiffness * (length - self.rest) + self.damping * rate, 0.0)
        return jnp.where(self.pulls_only > 0, jnp.maximum(pull, 0.0), pull), along

    def wrench(self, at):
        pull, along = self._tension(at)
        zero = jnp.zeros(3)
        a, b = at.sites
        return jnp.stack(
            [jnp.concatenate([tmatvec(a.R, pull * along), zero]), jnp.concatenate([tmatvec(b.R, -pull * along), zero])]
        )

    def energy(self, at):
        length, _ = self._line(at)
        stretch = length - self.rest
        stretch = jnp.where(self.pulls_only > 0, jnp.maximum(stretch, 0.0), stretch)
        return self.stiffness * stretch**2 / 2

    def observe(self, at):
        return {"length": self._line(at)[0], "tension": self._tension(at)[0]}
