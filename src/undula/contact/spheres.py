"""Contact between spheres on bodies and surfaces, or spheres on other bodies."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from undula.contact.laws import ContactLaw, Coulomb
from undula.contact.surfaces import Surface
from undula.core.arrays import Array
from undula.core.errors import ModelError, as_vector, is_traced, shown
from undula.elements.row import RowModel, Touching
from undula.elements.site import Site, moved_site, refuse_same
from undula.elements.view import View


class Contact(RowModel):
    """A sphere on a body that may touch a surface or a sphere on another body.

    **Arguments:**

    - `body`: a name or a site; `other`: `Plane()`, a `HeightField`, `Post`, `Sphere` or a custom surface; or the name of a
      body, or a site.
    - `law`: `Coulomb(mu)`, for instance; no friction and no restitution by default.
    - `centre` in the body [m], `radius` [m] of the sphere (0: a point); `other_centre`, `other_radius` for the other body.
    """

    radius: Array
    other_radius: Array
    surface: Surface | None
    law: ContactLaw

    slots: ClassVar[int] = 1
    not_negative: ClassVar[tuple[str, ...]] = ("radius", "other_radius")

    def __init__(
        self,
        name: str,
        body: str | Site,
        other: Surface | str | Site,
        law: ContactLaw | None = None,
        centre: Any = (0.0, 0.0, 0.0),
        radius: Any = 0.0,
        other_centre: Any = (0.0, 0.0, 0.0),
        other_radius: Any = 0.0,
    ):
        what = f"the contact '{name}'"
        law = Coulomb() if law is None else law
        if not isinstance(other, Surface | str | Site):
            raise ModelError(
                f"other of {what} = {shown(other)}; it must be a surface, e.g. Plane(), or the name of a body."
            )
        if not isinstance(law, ContactLaw):
            raise ModelError(f"law of {what} = {shown(law)}; it must be a law of contact, e.g. Coulomb(0.5).")
        self.name, self.coordinates, self.law = name, (), law
        sizes = [as_vector(x, 0, f"{n} of {what}") for n, x in (("radius", radius), ("other_radius", other_radius))]
        self.radius, self.other_radius = sizes
        for n, x in zip(("radius", "other_radius"), sizes):
            if not is_traced(x) and x < 0:
                raise ModelError(f"{n} of {what} = {float(x):g} m; it must be at least 0.")
        first = moved_site(body, centre, None, f"centre of {what}")
        if isinstance(other, Surface):
            self.surface, self.sites = other, (first,)
            direction = getattr(other, "direction", None)
            law.check(None if direction is None or is_traced(direction) else np.asarray(direction), what)
        else:
            self.surface, self.sites = None, (first, moved_site(other, other_centre, None, f"other_centre of {what}"))
            refuse_same(self.sites, what)

    @property
    def thickness(self) -> Any:
        """Length [m] of the way of the sphere's centre through the other shape and the sphere itself."""
        return 2 * self.radius + (2 * self.other_radius if self.surface is None else self.surface.thickness)

    def touch(self, at: View) -> Touching:
        centre = at.sites[0].p
        if self.surface is not None:
            distance, normal = self.surface.distance(centre), self.surface.normal(centre)
        else:
            away = centre - at.sites[1].p
            length = jnp.sqrt((away * away).sum())
            distance, normal = length - self.other_radius, away / length
        return Touching(
            (distance - self.radius)[None], normal[None], (centre - self.radius * normal)[None], self.radius[None]
        )
