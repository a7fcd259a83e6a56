"""Row models: functions of the motion that must vanish, or must not be negative, and the law of their multipliers.

A row model gives position residuals (`gap`, holonomic), velocity residuals (`rows`, non-holonomic and linear in the
velocities), both, or contact points of bodies (`touch`). The library derives everything else from them by
differentiation: Jacobians, their rates, ranks and reactions.
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array
from undula.core.errors import ModelError, shown
from undula.elements.element import Element, changed
from undula.elements.switching import Switching
from undula.elements.view import View, site_rate


class Touching(NamedTuple):
    """Possible contact points of two bodies, `slots` of them: gaps (k,) [m], unit normals (k, 3) out of the other body
    and points (k, 3) [m] of the first body, in the world; `radius` (k,) [m]: of the first body there, for rolling
    friction.

    An unused point has a gap of 1 m.
    """

    gap: Float[Array, "k"]
    normal: Float[Array, "k 3"]
    point: Float[Array, "k 3"]
    radius: Float[Array, "k"]


class RowModel(Element):
    """Base class. A subclass defines `gap`, `rows` or both, or `touch`.

    `law`: None if the multipliers enforce the rows exactly; a slip law, whose forces replace them (`slipping`); or a
    contact law, for a model that defines `touch`.
    `active`: when the rows are on: None (always), or a rule such as `Schedule` (`when`).
    """

    law: Any = eqx.field(default=None, kw_only=True)
    active: Any = eqx.field(default=None, kw_only=True)

    only_authored: ClassVar[tuple[str, ...]] = ("active",)
    slots: ClassVar[int] = 0  # number of possible contact points

    def gap(self, at: View) -> Float[Array, "g"]:
        """Position residuals that must vanish [m or rad]; the velocities in `at` must not be used."""
        return jnp.zeros(0)

    def rows(self, at: View) -> Float[Array, "r"]:
        """Velocity residuals that must vanish, linear in the velocities [m/s or rad/s]."""
        return jnp.zeros(0)

    def touch(self, at: View) -> Touching:
        """Possible contact points of its bodies; the other body must be the world or the body of the second site."""
        raise NotImplementedError

    def latch(self, at: View) -> Any:
        """The internal state z with which the rows begin when they are switched on, and at the start of a run."""
        raise NotImplementedError

    def undefined(self, at: View) -> str:
        """Why the rows are undefined in these poses, as a clause that follows the element's name; "" if they are
        defined.

        Called when a run fails, outside compiled functions; `at` has no velocities or coordinates.
        """
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Short names of the rows, those of `gap` first; "" for a single row. Empty: the rows are numbered."""
        return ()

    @property
    def turned(self) -> dict[str, int | None]:
        """Rows that only determine how fast a wheel turns, by label: which of the `coordinates` is the wheel's angle, or
        None if a law gives it. They do not restrict a vehicle and do not count in its classification."""
        return {}

    def when(self, rule: Switching) -> "RowModel":
        """The same rows, on only when the rule says so: `Schedule`, `WhilePushing` or `Condition`."""
        if not isinstance(rule, Switching):
            raise ModelError(
                f"rule of '{self.name}' = {shown(rule)}; it must be a Schedule, WhilePushing or Condition."
            )
        return changed(self, active=rule)

    def slipping(self, law: Any) -> "RowModel":
        """The same rows with forces given by a slip law, such as `Viscous`, instead of exact constraints."""
        if not callable(getattr(law, "force", None)):
            raise ModelError(f"slip law of '{self.name}' = {shown(law)}; it must be a slip law, e.g. Viscous(10.0).")
        return changed(self, law=law)


def along_rods(form: Element, at: View, found: tuple[int, ...]) -> list[Any]:
    """Speed of each site along its rod [m/s], None if it does not move. `found`: the sites with unknown abscissae."""
    if not found:
        return [s.dX for s in at.sites]
    rates = jax.tree.leaves(form.rate(at))
    return [rates[found.index(k)] if k in found else s.dX for k, s in enumerate(at.sites)]


def motion_of(form: Element, at: View, found: tuple[int, ...] = ()) -> View:
    """The rate of everything that a position residual may depend on: a tangent of `at` without accelerations."""
    sites = tuple(site_rate(s, dX) for s, dX in zip(at.sites, along_rods(form, at, found)))
    still = jax.tree.map(jnp.zeros_like, (at.z, at.whole))
    return View(jnp.ones(()), sites, at.v, jnp.zeros_like(at.v), *still)


def velocities(form: RowModel, at: View, found: tuple[int, ...] = ()) -> Float[Array, "k"]:
    """All the velocity residuals of a row model: the rates of its gaps, then its rows."""
    at = at._replace(t=jnp.asarray(at.t, dtype=float))
    rate = jax.jvp(form.gap, (at,), (motion_of(form, at, found),))[1]
    return jnp.concatenate([rate, form.rows(at)])
