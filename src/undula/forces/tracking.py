"""Model-based controllers: computed torque in joint space, impedance at a site."""

from typing import Any

import equinox as eqx
import numpy as np

from undula.core.arrays import Array, as_array, namespace
from undula.core.errors import ModelError, as_vector, flag, is_traced, not_negative, numbers, shown
from undula.elements.actuator import Actuator
from undula.elements.element import changed
from undula.elements.site import Site, as_site
from undula.forces.controllers import as_pose_law, pose_errors
from undula.laws.law import Constant, Law, as_law
from undula.numerics.small import matvec, tmatvec


class ComputedTorque(Actuator):
    """Makes coordinates track a motion by inverse dynamics, so that on a perfect model e'' + kd e' + kp e = 0.

    The effort is that which the model needs for the acceleration r_d'' + kd (r_d' - r') + kp (r_d - r) of its coordinates, all
    others, and the base, moving in their own roles. It knows all force models, constraints and other actuators of the system,
    but no contacts. Several of its kind do not know of each other: let one track all coordinates.

    **Arguments:**

    - `kp` [1/s^2], `kd` [1/s]: one number, or one per coordinate.
    - `reference`: a law of the coordinates, or constant coordinates [rad or m].
    - `model`: what the controller believes the system to be, a `System` with the same coordinates, e.g. without the loads or
      with other masses; None: the system itself. Its motion laws and roles are not used.
    """

    kp: Array
    kd: Array
    reference: Law
    model: Any
    known: tuple[str, ...] = eqx.field(static=True)

    wants_plant = True
    only_authored = ("known",)
    not_negative = ("kp", "kd")

    def __init__(self, kp: Any, kd: Any, reference: Any, model: Any = None, name: str | None = None):
        for what, gain in (("kp", kp), ("kd", kd)):
            not_negative(gain, f"ComputedTorque: {what}")
        self.name, self.sites, self.coordinates = name, (), ()
        self.kp, self.kd = as_array(kp), as_array(kd)
        self.reference = as_law(reference)
        self.model, self.known = as_model(model, "ComputedTorque")

    def over(self, coordinates, name):
        n, words = len(coordinates), ", ".join(coordinates)
        for what, x in (("kp", self.kp), ("kd", self.kd), ("reference", self.reference)):
            if x.shape not in ((), (n,)):
                raise ModelError(f"{what} of the controller of {words} has the shape {x.shape}; it must be ({n},).")
        gains = {what: namespace(x).broadcast_to(x, (n,)) for what, x in (("kp", self.kp), ("kd", self.kd))}
        return changed(super().over(coordinates, name), **gains)

    def check(self, model):
        if not self.coordinates:
            raise ModelError(
                f"the computed torque '{self.name}' has no coordinates: give it to them with Builder.force(names, controller)."
            )
        check_model(self.known, model.coordinates, f"the computed torque '{self.name}'")

    def effort(self, at):
        wanted, rate, gain = self.reference(at.t)
        return at.plant.efforts(gain + self.kd * (rate - at.plant.rates(at.v)) + self.kp * (wanted - at.x), self.model)

    def followed(self):
        return (self.reference,)


class Impedance(Actuator):
    """Lets a site behave like a spring and a damper between it and a wanted pose: efforts J^T F on its coordinates.

    F = K e + D e' in the site's frame, with e the displacement of the origin and the rotation vector from the site to the
    wanted pose. Given with `Builder.force(names, controller)`; J is the Jacobian of the site over these coordinates, so that
    F is produced exactly if they can produce it: at rest a load on the site displaces it by K^-1 times the load.

    **Arguments:**

    - `site`: a body's name or a site; `target`: a law (6,), or six numbers, of position [m] and rotation vector [rad] in the
      world.
    - `K` [N/m, N m/rad] and `D` [N s/m, N m s/rad]: (6,) or (6, 6), over (translation, rotation) in the site's frame.
    - `gravity`: whether the weight of the tree is added (its bodies alone; contacts and loops do not help to carry it);
      `model`: the `System` whose weight that is; None: the system itself.
    """

    K: Array
    D: Array
    target: Law
    model: Any
    gravity: bool = eqx.field(static=True)
    known: tuple[str, ...] = eqx.field(static=True)

    wants_plant = True
    only_authored = ("known",)

    def __init__(
        self,
        site: str | Site,
        K: Any,
        D: Any,
        target: Any,
        gravity: bool = True,
        model: Any = None,
        name: str | None = None,
    ):
        place = as_site(site, "an impedance")
        self.name, self.sites, self.coordinates = name, (place,), ()
        what = f"the impedance at {place.words}"
        self.target = as_pose_law(
            target if isinstance(target, Law) else Constant(as_vector(target, 6, f"target of {what}")), what
        )
        self.K, self.D = (_six(x, f"{n} of {what}") for n, x in (("K", K), ("D", D)))
        self.gravity = flag(gravity, f"gravity of {what}")
        if model is not None and not gravity:
            raise ModelError(f"{what} has a model but gravity=False, so that the model has no effect.")
        self.model, self.known = as_model(model, what)

    def check(self, model):
        if not self.coordinates:
            raise ModelError(
                f"the impedance '{self.name}' has no coordinates: give it to them with Builder.force(names, controller)."
            )
        check_model(self.known, model.coordinates, f"the impedance '{self.name}'")

    def effort(self, at):
        pose, twist = pose_errors(at.sites[0], self.target(at.t))
        found = tmatvec(at.plant.jacobian(), matvec(self.K, pose) + matvec(self.D, twist))
        return found + at.plant.weight(self.model) if self.gravity else found

    def followed(self):
        return (self.target,)


def _six(value: Any, what: str) -> Array:
    """A matrix (6, 6), from itself or its diagonal."""
    M = as_array(value if is_traced(value) else numbers(value, what))
    if M.shape not in ((6,), (6, 6)):
        raise ModelError(f"{what} has the shape {M.shape}; it must be (6,) or (6, 6).")
    M = namespace(M).diag(M) if M.ndim == 1 else M
    if not is_traced(M) and np.linalg.eigvalsh((M + M.T) / 2)[0] < -1e-9 * np.abs(M).max():
        raise ModelError(f"{what} has a negative eigenvalue; it must not push away from the target.")
    return M


def as_model(model: Any, what: str) -> tuple[Any, tuple[str, ...]]:
    """The model of a controller without names, and the names of its coordinates."""
    if model is None:
        return None, ()
    if not hasattr(model, "bare") or not hasattr(model, "coordinate_names"):
        raise ModelError(f"{what}: model = {shown(model)}; it must be a System, or None for the system itself.")
    return model.bare(), model.coordinate_names


def check_model(known: tuple[str, ...], coordinates: tuple[str, ...], what: str) -> None:
    """Refuses a model with other coordinates than those of the system."""
    if known and known != coordinates:
        raise ModelError(
            f"the model of {what} has the coordinates {', '.join(known)}; those of the system are {', '.join(coordinates)}."
        )
