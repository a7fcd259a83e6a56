"""Force models along rods: loads, internal couples and drag as functions of (X, t) and of the view of a section."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.force import ForceModel
from undula.elements.view import SiteView, Whole


class SectionView(NamedTuple):
    """The view of a section of a rod.

    - `t` [s], `X` [m]; `section`: pose, twist, strain `xi` and its rate `dxi` (at Gauss points only the last two).
    - `table`: result of the element's `tabulate` for this X; `total`: integral over the rod of its `gather`.
    - `x`, `v`: values and rates of the element's coordinates; `z`: its internal state; `whole`: as for any element.
    """

    t: Any
    X: Float[Array, ""]
    section: SiteView
    table: Any
    total: Any
    x: Float[Array, "c"]
    v: Float[Array, "c"]
    z: Any = ()
    whole: Whole | None = None


class Along(ForceModel):
    """A force model along a whole rod. A subclass defines some of these methods, each of which sees one section.

    - `rod`: name of the rod.
    """

    rod: str = eqx.field(static=True, kw_only=True)

    def tabulate(self, X: Float[Array, ""], rod: Any) -> Any:
        """Data that depend on X [m] only, computed once. `rod` has `length`, `section(X)` and `hooke(X)` (6, 6)."""
        return ()

    def gather(self, at: SectionView) -> Any:
        """A density per unit length, a function of the strain; `at.total` is its integral over the rod."""
        raise NotImplementedError

    def inertia(self, table: Any) -> Float[Array, "6 6"]:  # type: ignore[override]  # per section
        """Weightless inertia per unit length, constant in the section's frame [kg/m, kg, kg m]."""
        raise NotImplementedError

    def wrench(self, at: SectionView) -> Any:  # type: ignore[override]  # sees a section
        """Force and couple per unit length in the section's frame [N/m, N], (6,); or a dictionary of such arrays."""
        raise NotImplementedError

    def stress(self, at: SectionView) -> Float[Array, "6"]:
        """Internal wrench in addition to that of the material, positive in tension [N, N m]: muscles, tendons."""
        return jax.grad(lambda xi: self.energy_density(at._replace(section=at.section._replace(xi=xi))))(at.section.xi)

    def energy_density(self, at: SectionView) -> Float[Array, ""]:
        """Potential energy per unit length [J/m], a function of X, the strain and the time, but not of `at.total`.

        The energy of the element is its integral over the rod, and its stress, unless the class defines `stress`, the
        derivative by the strain.
        """
        raise NotImplementedError

    def energy(self, at: SectionView) -> Float[Array, ""]:  # type: ignore[override]  # sees a section
        """Potential energy of the whole element [J], from `at.total`; X and section in `at` are None."""
        raise NotImplementedError

    def observe(self, at: SectionView) -> dict[str, Array]:  # type: ignore[override]  # sees a section
        """Values of the `observables`, from `at.total`; X and section in `at` are None."""
        return {}
