"""The system as a model-based controller sees it: what it may ask of the dynamics of that system."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array


class Plant(eqx.Module):
    """The controlled system at an instant, for elements that ask for it (`wants_plant`): `at.plant`.

    All quantities are those of the element's own c coordinates. A method that takes a `model` evaluates it with the numbers of
    that `System`, which must have the same coordinates, in place of those of the system itself. Controllers that see a plant
    are not part of it.

    This class itself is the stand-in with which elements are checked while no system exists: its answers have the right
    shapes, and are zero.
    """

    count: int = eqx.field(static=True)

    def rates(self, v: Float[Array, "c"]) -> Float[Array, "c"]:
        """Rates of the reported coordinates x, of the velocities v: they differ in spherical and free joints."""
        return v

    def efforts(self, acceleration: Float[Array, "c"], model: Any = None) -> Float[Array, "c"]:
        """Efforts [N m or N] that give the reported coordinates these second derivatives [rad/s^2 or m/s^2].

        All other coordinates, and the base, move in their own roles, under the constraints and all force models. Contacts
        are not taken into account.
        """
        return jnp.zeros(self.count)

    def weight(self, model: Any = None) -> Float[Array, "c"]:
        """Efforts [N m or N] that hold the tree of bodies at rest against gravity."""
        return jnp.zeros(self.count)

    def jacobian(self, site: int = 0) -> Float[Array, "6 c"]:
        """J in: twist of one of the element's sites, in the site's frame = J v, all else at rest."""
        return jnp.zeros((6, self.count))
