"""Force models: everything that pushes, pulls, resists or adds inertia."""

from typing import Any, ClassVar

from jaxtyping import Float

from undula.core.arrays import Array
from undula.elements.element import Element
from undula.elements.view import View
from undula.laws.law import Law

ACCOUNTS = ("conservative", "dissipative", "surroundings", "actuator")


class ForceModel(Element):
    """Base class. A subclass defines some of the methods below; derivatives, implicit steps, statics, linearisation,
    energies, recording and figures need no further code.

    `account` is how its power is accounted for: "conservative" (all of it changes its energy), "dissipative" or
    "surroundings" (`power_external`), or "actuator" (`power_actuators`). The part of the power of a model with an
    `energy` that is stored in that energy is not counted.
    """

    account: ClassVar[str] = "surroundings"
    recorded: ClassVar[bool] = True  # whether results contain its wrenches, efforts and power
    stiff: ClassVar[bool] = True  # whether time stepping with contacts treats it implicitly, by its derivatives

    def inertia(self) -> Float[Array, "s 6 6"]:
        """Weightless inertia at each site, constant in its frame [kg, kg m, kg m^2], over (V, W): added mass.

        It enters the balance as M eta' - ad(eta)^T M eta, like that of a body, but gravity does not act on it.
        """
        raise NotImplementedError

    def field(self, t: Any) -> Float[Array, "3"]:
        """Uniform acceleration in the world [m/s^2] of everything that has weight: gravity, a shaking ground."""
        raise NotImplementedError

    def wrench(self, at: View) -> Any:
        """Wrenches (force [N], couple [N m]) at the sites, in their frames: (6,) for one site, else (s, 6); or a dictionary
        of such arrays, which are recorded by name."""
        raise NotImplementedError

    def effort(self, at: View) -> Float[Array, "c"]:
        """Efforts on its coordinates, conjugate to their velocities [N m or N]."""
        raise NotImplementedError

    def pull(self, at: View) -> Float[Array, "c"]:
        """Efforts conjugate to the reported coordinates x: they differ from `effort` in spherical and free joints, whose
        velocities are not the rates of x."""
        raise NotImplementedError

    def energy(self, at: View) -> Float[Array, ""]:
        """Potential energy [J]; it must not depend on velocities."""
        raise NotImplementedError

    def linear(self) -> tuple[Array, Array]:
        """Constant stiffness K and damping D, (c,) or (c, c), of a model whose efforts are -K x - D v plus terms that do
        not depend on x and v; implicit methods then need no derivatives."""
        raise NotImplementedError

    def followed(self) -> tuple[Law, ...]:
        """Laws that it follows, e.g. the reference of a controller; a run rejects those too fast for its time step."""
        return ()
