"""Sensors, which only record the motion of a site."""

from typing import ClassVar

import jax.numpy as jnp

from undula.elements.force import ForceModel
from undula.elements.observable import Observable
from undula.elements.site import Site, as_site
from undula.lie import so3
from undula.numerics.small import matvec


class Sensor(ForceModel):
    """Records the pose and twist of a site and, on a rod, its abscissa, strain and tangent.

    **Arguments:** `name`; `site`: the name of a body, or a site.
    """

    account: ClassVar[str] = "conservative"
    recorded: ClassVar[bool] = False
    observables: ClassVar[tuple[Observable, ...]] = (
        Observable("position", "m", ("axis",), "position of each sensor in the world"),
        Observable("quaternion", "1", ("quat",), "attitude of each sensor in the world"),
        Observable("twist", "m/s, rad/s", ("twist",), "twist of each sensor in its own frame"),
        Observable("abscissa", "m", (), "abscissa of each sensor on its rod"),
        Observable("strain", "1, 1/m", ("strain",), "strain of the section of each sensor"),
        Observable("tangent", "1", ("axis",), "derivative of the position with respect to the abscissa, in the world"),
    )

    def __init__(self, name: str, site: str | Site):
        self.name, self.sites, self.coordinates = name, (as_site(site, f"the sensor '{name}'"),), ()

    def observe(self, at):
        (s,) = at.sites
        out = {"position": s.p, "quaternion": so3.from_matrix(s.R), "twist": s.twist}
        if s.X is None:
            nothing = jnp.asarray(jnp.nan)
            return out | {"abscissa": nothing, "strain": jnp.full(6, nothing), "tangent": jnp.full(3, nothing)}
        return out | {"abscissa": s.X, "strain": s.xi, "tangent": matvec(s.R, s.xi[:3])}
