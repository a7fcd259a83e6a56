"""Internal actuation of rods: internal forces and couples (muscles) and stress-free strains, as fields of X and t."""

from typing import Any, ClassVar

import jax.numpy as jnp

from undula.core.arrays import as_array
from undula.core.errors import ModelError
from undula.elements.along import Along
from undula.laws.field import Field, field_of
from undula.numerics.small import matvec


class InternalWrench(Along):
    """An internal force [N] and couple [N m] along a rod, in addition to those of its material: muscles, for instance.

    Functions (X, t) -> (3,), laws of time, or numbers, in the section's frame and positive as a tension is: what the far side
    exerts on the near side. Their power counts as actuator power.
    """

    force: Field
    couple: Field

    account: ClassVar[str] = "actuator"

    def __init__(self, rod: str, force: Any = (0.0, 0.0, 0.0), couple: Any = (0.0, 0.0, 0.0), name: str | None = None):
        self.name, self.sites, self.coordinates, self.rod = name, (), (), rod
        what = f"the internal wrench of '{rod}'"
        self.force, self.couple = field_of(force, 3, f"force of {what}"), field_of(couple, 3, f"couple of {what}")

    def stress(self, at):
        return jnp.concatenate([self.force.value(at.X, at.t), self.couple.value(at.X, at.t)])


class StressFreeStrain(Along):
    """A change of a rod's stress-free strain, a function (X, t) -> (6,): growth, swelling, active materials.

    Components (Gx, Gy, Gz, Kx, Ky, Kz) [1, 1/m], added to the rod's `reference`. The stress is H (xi - reference - strain);
    the work of changing the strain counts as actuator work.
    """

    strain: Field

    account: ClassVar[str] = "actuator"

    def __init__(self, rod: str, strain: Any, name: str | None = None):
        self.name, self.sites, self.coordinates, self.rod = name, (), (), rod
        self.strain = field_of(strain, 6, f"strain of the stress-free strain of '{rod}'")

    def check(self, model):
        rod = model.rods.get(self.rod)
        if rod is not None and rod.plan.rod.material is not None:
            raise ModelError(
                f"the stress-free strain '{self.name}' is on the rod '{self.rod}', which has a material law; it is defined for "
                "linear elasticity only."
            )

    def tabulate(self, X, rod):
        return as_array(rod.hooke(X))

    def stress(self, at):
        return -matvec(at.table, self.strain.value(at.X, at.t))
