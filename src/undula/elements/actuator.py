"""Actuators: force models whose power counts as actuator power, and the efforts of forced coordinates."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, function_of, shown
from undula.elements.element import changed
from undula.elements.force import ForceModel
from undula.elements.view import View
from undula.laws.law import Law, instead_of


class Actuator(ForceModel):
    """A force model of an actuator: a motor, a controller, a muscle.

    Coordinates that it acts on become forced, and its output is recorded as their effort. It may also act at sites,
    including the base, have an internal state (`start`, `rate`, `update`), and see the whole state (`wants_whole`).
    """

    account: ClassVar[str] = "actuator"

    def over(self, coordinates: tuple[str, ...], name: str) -> "Actuator":
        """The same actuator, acting on these coordinates."""
        return changed(self, coordinates=coordinates, name=self.name or name)


class GivenEffort(Actuator):
    """Efforts given by a law of time, one component per coordinate [N m or N]; a scalar law applies to all."""

    law: Law

    recorded: ClassVar[bool] = False
    stiff: ClassVar[bool] = False

    def __init__(self, coordinates: tuple[str, ...], law: Law, name: str):
        self.name, self.sites, self.coordinates, self.law = name, (), coordinates, law

    def effort(self, at):
        return jnp.broadcast_to(self.law.value(at.t), at.x.shape)


class CalledEffort(Actuator):
    """Efforts given by a callable (t, positions, velocities) -> efforts, which is a pytree if it has parameters."""

    function: Callable[[Any, Array, Array], Array] | None
    plain: Callable[[Any, Array, Array], Array] | None = eqx.field(static=True)

    recorded: ClassVar[bool] = False

    def __init__(self, coordinates: tuple[str, ...], function: Any, name: str):
        self.name, self.sites, self.coordinates = name, (), coordinates
        has_leaves = bool(jax.tree.leaves(function)) and not jax.tree_util.all_leaves([function])
        self.function, self.plain = (function, None) if has_leaves else (None, function)

    def effort(self, at: View) -> Float[Array, "c"]:
        function = self.function if self.plain is None else self.plain
        assert function is not None
        found = jnp.asarray(function(at.t, at.x, at.v), dtype=float)
        if found.shape not in ((), at.x.shape):
            raise ModelError(
                f"the controller of {', '.join(self.coordinates)} returns the shape {found.shape}; it must be {at.x.shape}, or "
                "one number for all."
            )
        return jnp.broadcast_to(found, at.x.shape)


def actuator_of(coordinates: tuple[str, ...], given: Any, name: str) -> Actuator:
    """The actuator of forced coordinates, from a law, an actuator (which then acts on them) or a callable."""
    if isinstance(given, Law):
        return GivenEffort(coordinates, given, name)
    if isinstance(given, Actuator):
        return given.over(coordinates, name)
    what = f"the effort of {', '.join(coordinates)}"
    if callable(given):
        function_of(given, ("t", "x", "v"), what, " for a controller; for a law of time, give un.laws.Function")
        return CalledEffort(coordinates, given, name)
    instead = instead_of(given, (len(coordinates),)) or "un.laws.Sinusoid"
    raise ModelError(f"{what} = {shown(given)} is not an effort law or controller; it must be one, such as {instead}.")
