"""Tendons and fluid chambers along rods: a tension times the gradient of a length, a pressure times that of a volume.

A tendon at D(X) in the section has the length  int |u| dX,  u = Gamma + K x D + D'. The power extracted from the rod by its
tension T is T times the rate of this length: the actuation stress is Lambda_act = T (u ; D x u) / |u| of document 002,
eq. (2.32).
"""

import warnings
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, as_array, known, namespace, zeros
from undula.core.errors import ModelError, as_vector, function_of, is_traced, positive, real, reason
from undula.core.startup import UndulaWarning
from undula.elements.along import Along, SectionView
from undula.elements.observable import Observable
from undula.laws.law import Law, law_of
from undula.numerics.programs import quickly_compiled
from undula.numerics.small import cross


class Line(NamedTuple):
    """A line along a rod at one abscissa: its offset D and slope D' in the section [m, 1], and the fraction `share` of the
    quadrature weight it receives: 1 before its end, 0 beyond, between the two in the piece where it ends."""

    offset: Float[Array, "3"]
    slope: Float[Array, "3"]
    share: Float[Array, ""]


class _Routed(Along):
    """A line that runs along a rod off its centre line, up to the fraction `end` of its length."""

    law: Law
    routing: Any
    end: Any

    account: ClassVar[str] = "actuator"
    recorded: ClassVar[bool] = False
    only_authored: ClassVar[tuple[str, ...]] = ("routing", "end")

    def _route(self, name: str, rod: str, routing: Any, end: float, what: str) -> None:
        self.name, self.sites, self.coordinates, self.rod = name, (), (), rod
        real(end, f"end of {what}, a fraction of the rod's length,", above=0.0, high=1.0)
        if not callable(routing):
            as_vector(routing, 2, f"routing of {what}")
        else:
            function_of(routing, ("X",), f"routing of {what}")
        self.routing, self.end = routing, end
        try:
            shape = jax.eval_shape(lambda X: _place(routing, X), jax.ShapeDtypeStruct((), float)).shape
        except Exception as error:
            raise ModelError(f"routing of {what} cannot be computed: {reason(error)}.") from error
        if shape != (2,):
            raise ModelError(f"routing of {what} has the shape {shape}; it must be two numbers, y and z [m].")

    def tabulate(self, X, rod):
        value, slope = _line(self.routing, X)
        starts = np.concatenate([[0.0], rod.nodes[:-1]])
        shares = np.clip((self.end - starts) / np.where(rod.pieces > 0, rod.pieces, 1.0), 0.0, 1.0)
        s = X / rod.length
        inside = (s >= starts) & (s < np.append(starts[1:], np.inf))
        xp = namespace(value, slope)
        D, dD = (xp.concatenate([zeros(1), x]) for x in (value, slope))
        return Line(D, dD, (inside * shares).sum())

    def check(self, model):
        rod = model.rods.get(self.rod)
        if rod is None:
            return
        plan, what = rod.plan, f"the {self.family()} '{self.name}'"
        for s in plan.places.reshape(-1):
            X = s * plan.length
            section = plan.section(X)
            value, _ = _line(self.routing, X)
            if section is None or is_traced(value) or any(is_traced(x) for x in section.outline):
                return
            if not np.all(np.isfinite(value)):
                raise ModelError(f"routing of {what} is not finite.")
            (y, z), (a, b) = np.asarray(value), section.outline
            reach = max(abs(y) / a, abs(z) / b) if section.corners else np.hypot(y / a, z / b)
            if reach > 1 + 1e-9:
                warnings.warn(
                    f"{what} leaves the section at X = {X:.4g} m: (y, z) = ({y:.4g}, {z:.4g}) m, half widths "
                    f"({a:.4g}, {b:.4g}) m.",
                    UndulaWarning,
                    stacklevel=5,
                )
                return

    @staticmethod
    def _tangent(at: SectionView) -> Float[Array, "3"]:
        """u = Gamma + K x D + D': tangent of the line, in the section's frame."""
        xi = at.section.xi
        return xi[:3] + cross(xi[3:], at.table.offset) + at.table.slope


def _place(routing: Any, X: Any) -> Float[Array, "2"]:
    """Position of a line in the section at X."""
    return jnp.asarray(routing(X) if callable(routing) else routing, dtype=float)


def _line(routing: Any, X: Any) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    """Position of a line in the section at X, and its derivative by X."""
    if not callable(routing):
        return as_array(routing), zeros(2)
    return _curve(routing, X) if is_traced(X) else known(_curve_at(routing, np.asarray(X)))


def _curve(routing: Any, X: Any) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    return jax.jvp(lambda X: _place(routing, X), (X,), (jnp.ones_like(X),))


_curve_at = quickly_compiled(_curve)


class Tendon(_Routed):
    """A tendon along a rod, attached at the fraction `end` of the rod's length; it slides without friction up to there.

    **Arguments:**

    - `routing`: its position (y, z) in the section [m], or a function of X [m] that returns it: straight, helical, converging.
    - `tension` [N]: a number of at least 0, or a law, which is not clipped: a negative tension pushes, and the run warns. Or
      `length` [m]: a number or a law for a tendon driven by a winch; the tendon is elastic with the `stiffness` [N/m], and
      slack when `length` exceeds its path along the rod.
    """

    stiffness: Array | None

    observables: ClassVar[tuple[Observable, ...]] = (
        Observable("tension", "N", (), "tension of each tendon"),
        Observable("length", "m", (), "length of each tendon inside its rod"),
    )

    def __init__(
        self,
        name: str,
        rod: str,
        routing: Any,
        tension: Any = None,
        length: Any = None,
        stiffness: Any = None,
        end: float = 1.0,
    ):
        what = f"the tendon '{name}'"
        if (tension is None) == (length is None):
            raise ModelError(f"{what} must have either a tension or a length.")
        if (length is None) != (stiffness is None):
            raise ModelError(f"{what} must have a stiffness if, and only if, it has a length.")
        self._route(name, rod, routing, end, what)
        if length is None:
            self.law, self.stiffness = law_of(tension, (), f"tension of {what}", low=0.0), None
        else:
            positive(stiffness, f"stiffness of {what}", "N/m")
            self.law = law_of(length, (), f"length of {what}", low=0.0)
            self.stiffness = as_array(stiffness)

    def gather(self, at):
        u = self._tangent(at)
        return at.table.share * jnp.sqrt((u * u).sum())

    def tension(self, at: SectionView) -> Float[Array, ""]:
        """[N]"""
        given = self.law.value(at.t)
        return given if self.stiffness is None else jnp.maximum(self.stiffness * (at.total - given), 0.0)

    def stress(self, at):
        u = self._tangent(at)
        pull = at.table.share * self.tension(at) * u / jnp.sqrt((u * u).sum())
        return jnp.concatenate([pull, cross(at.table.offset, pull)])

    def observe(self, at):
        return {"tension": self.tension(at), "length": at.total}

    def remark(self, t, values):
        negative = values["tension"] < 0
        if not negative.any():
            return ""
        return f"pushes from t = {t[int(np.argmax(negative))]:.4g} s on: its tension is negative"


class Chamber(_Routed):
    """A fluid chamber along a rod: `routing` of its centre as for a tendon, `area` [m^2], `pressure` [Pa] or a law."""

    area: Array

    observables: ClassVar[tuple[Observable, ...]] = (
        Observable("pressure", "Pa", (), "pressure of each chamber"),
        Observable("volume", "m^3", (), "volume of each chamber inside its rod"),
    )

    def __init__(self, name: str, rod: str, routing: Any, area: Any, pressure: Any, end: float = 1.0):
        what = f"the chamber '{name}'"
        positive(area, f"area of {what}", "m^2")
        self._route(name, rod, routing, end, what)
        self.law, self.area = law_of(pressure, (), f"pressure of {what}"), as_array(area)

    def gather(self, at):
        return at.table.share * self.area * self._tangent(at)[0]

    def stress(self, at):
        push = jnp.stack([-at.table.share * self.law.value(at.t) * self.area, jnp.zeros(()), jnp.zeros(())])
        return jnp.concatenate([push, cross(at.table.offset, push)])

    def observe(self, at):
        return {"pressure": self.law.value(at.t), "volume": at.total}
