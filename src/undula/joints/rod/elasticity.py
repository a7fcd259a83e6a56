"""The elements that a material law adds to a model: one for its energy, one for its stress without energy."""

from typing import Any, ClassVar

import jax

from undula.core.arrays import as_array
from undula.core.errors import ModelError
from undula.elements.along import Along, SectionView
from undula.joints.rod.law import MaterialLaw, SectionProperties, Strained, loses, stores


class _OfMaterial(Along):
    """What both have in common: the law, and what it reads."""

    law: MaterialLaw

    recorded: ClassVar[bool] = False

    def tabulate(self, X, rod):
        """The stress-free strain, the stiffness and the properties of the section; None for those that a rod lacks."""
        try:
            reference = rod.reference_at(X)
            stiffness = rod.hooke(X) if rod.has_stiffness else None
            properties = rod.properties(X)
        except jax.errors.JAXTypeError as error:
            raise ModelError(
                f"the section, stiffness and reference of the rod '{rod.name}' must be functions of X that JAX can trace, "
                "because it has a material law: use jax.numpy, e.g. jnp.where instead of if."
            ) from error
        if properties is not None:
            properties = SectionProperties(*(as_array(x) for x in properties))
        return as_array(reference), None if stiffness is None else as_array(stiffness), properties

    def _strained(self, at: SectionView) -> Strained:
        s: Any = at.section
        return Strained(at.X, s.xi, s.dxi, *at.table)


class MaterialElasticity(_OfMaterial):
    """The stored energy of a rod's material law."""

    account: ClassVar[str] = "conservative"

    def energy_density(self, at):
        return self.law.energy_density(self._strained(at))


class MaterialDissipation(_OfMaterial):
    """The stress of a rod's material law that no energy stores."""

    account: ClassVar[str] = "dissipative"

    def stress(self, at):
        return self.law.inelastic_stress(self._strained(at))


def material_elements(rod: str, law: MaterialLaw | None) -> list[Along]:
    """The elements of a rod's material law; none without one."""
    if law is None:
        return []
    out: list[Along] = []
    if stores(law):
        out.append(MaterialElasticity(law, rod=rod, name=f"{rod}.elasticity"))
    if loses(law):
        out.append(MaterialDissipation(law, rod=rod, name=f"{rod}.dissipation"))
    return out
