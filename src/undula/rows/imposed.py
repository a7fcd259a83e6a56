"""Imposed motions of points and frames."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, shown
from undula.elements.row import RowModel
from undula.elements.site import Site, as_site, moved_site
from undula.elements.view import View
from undula.laws.law import Law, motion_law
from undula.lie import so3
from undula.numerics.pick import pick, spread
from undula.numerics.small import matmul
from undula.rows.closure import COMPONENTS, components_of


class PrescribedPoint(RowModel):
    """Imposes the motion of a point of a body in the world; `holds`: which of x, y, z, one component of the law [m] each."""

    motion: Law
    holds: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, name: str, body: str | Site, motion: Law, point: Any = (0.0, 0.0, 0.0), holds: str = "xyz"):
        self.name, self.coordinates = name, ()
        if isinstance(body, Law):
            raise ModelError(
                f"the constraint '{name}' has the law {shown(body)} in the place of its body; the arguments are "
                "(name, body, motion, point)."
            )
        self.sites = (moved_site(body, point, None, f"the constraint '{name}'"),)
        axes = tuple(holds) if isinstance(holds, str) else holds
        self.holds = tuple("xyz".index(c) for c in components_of(axes, f"the constraint '{name}'", ("x", "y", "z")))
        self.motion = motion_law(motion, (len(self.holds),), f"the motion of the constraint '{name}'")

    def gap(self, at: View) -> Float[Array, "g"]:
        (b,) = at.sites
        return b.p[np.array(self.holds)] - self.motion.value(at.t)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple("xyz"[k] for k in self.holds) if len(self.holds) > 1 else ("",)


class PrescribedFrame(RowModel):
    """Imposes the motion of a body's frame in the world, by a law of position [m] and rotation vector [rad].

    `holds`: the imposed components among (x, y, z, rx, ry, rz), one component of the law each, in this order; the others
    are taken as zero in the rotation.
    """

    motion: Law
    holds: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, name: str, body: str | Site, motion: Law, holds: tuple[str, ...] = COMPONENTS):
        self.name, self.sites, self.coordinates = name, (as_site(body, f"the constraint '{name}'"),), ()
        self.holds = components_of(holds, f"the constraint '{name}'")
        self.motion = motion_law(motion, (len(self.holds),), f"the motion of the constraint '{name}'")

    def gap(self, at: View) -> Float[Array, "g"]:
        (b,) = at.sites
        which = np.array([COMPONENTS.index(c) for c in self.holds])
        wanted = spread(self.motion.value(at.t), which, jnp.zeros(6))
        R = matmul(so3.to_matrix(so3.exp(wanted[3:])).T, b.R)
        return pick(jnp.concatenate([b.p - wanted[:3], so3.log_of_matrix(R)]), which)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.holds if len(self.holds) > 1 else ("",)
