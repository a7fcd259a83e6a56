"""Prescribed forces and couples on bodies and along rods: dead (fixed in the world) or follower (fixed in the body)."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from undula.elements.along import Along
from undula.elements.force import ForceModel
from undula.elements.site import Site, as_site
from undula.laws.field import Field, field_of
from undula.laws.law import Law, law_of
from undula.numerics.small import tmatvec


class Load(ForceModel):
    """A force [N] and a couple [N m] at a site, as numbers or laws of time.

    **Arguments:**

    - `site`: a body's name or a site; the force acts at its origin.
    - `follows`: the components are in the site's frame (a follower load), not in the world (a dead load).
    """

    force: Law
    couple: Law
    follows: bool = eqx.field(static=True)

    stiff: ClassVar[bool] = False

    def __init__(
        self,
        site: str | Site,
        force: Any = (0.0, 0.0, 0.0),
        couple: Any = (0.0, 0.0, 0.0),
        follows: bool = False,
        name: str | None = None,
    ):
        place = as_site(site, "a load")
        self.name, self.sites, self.coordinates = name, (place,), ()
        what = f"the load on {place.words}"
        self.force, self.couple = law_of(force, (3,), f"force of {what}"), law_of(couple, (3,), f"couple of {what}")
        self.follows = follows

    def wrench(self, at):
        f, c = self.force.value(at.t), self.couple.value(at.t)
        if not self.follows:
            R = at.sites[0].R
            f, c = tmatvec(R, f), tmatvec(R, c)
        return jnp.concatenate([f, c])


class LineLoad(Along):
    """A force [N/m] and a couple [N] per unit length along a rod: functions (X, t) -> (3,), laws of time, or numbers.

    - `follows`: the components are in the section's frame, not in the world.
    """

    force: Field
    couple: Field
    follows: bool = eqx.field(static=True)

    def __init__(
        self,
        rod: str,
        force: Any = (0.0, 0.0, 0.0),
        couple: Any = (0.0, 0.0, 0.0),
        follows: bool = False,
        name: str | None = None,
    ):
        self.name, self.sites, self.coordinates, self.rod = name, (), (), rod
        what = f"the load along '{rod}'"
        self.force, self.couple = field_of(force, 3, f"force of {what}"), field_of(couple, 3, f"couple of {what}")
        self.follows = follows

    def wrench(self, at):
        f, c = self.force.value(at.X, at.t), self.couple.value(at.X, at.t)
        if not self.follows:
            f, c = tmatvec(at.section.R, f), tmatvec(at.section.R, c)
        return jnp.concatenate([f, c])
