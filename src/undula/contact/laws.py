"""Laws of contact: which impulses are allowed, and with which motions they go together.

An impulse P and the velocity g that it is conjugate to satisfy -g in N_C(P): P is the point of the set C that the motion
dissipates most with. The set of the normal impulse is P_N >= 0; those of the others are given by a law, which says how far a
point is from its set: a projection (document 003, section V-B).
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from undula.core.errors import ModelError, as_vector, is_traced
from undula.numerics.small import cross, matvec

NOT_ALONG = 1e-6  # length below which the projection of a direction on the tangent plane says nothing


class ContactLaw(eqx.Module):
    """How a contact resists motion along it. One of your own defines `rows`, `directions` and `project`.

    `restitution`: Newton's, of the normal velocity in an impact (0: none, 1: all of it).
    """

    restitution: eqx.AbstractVar[Float[Array, ""]]

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of velocities that are resisted, besides the normal one."""

    def sound(self) -> Bool[Array, ""]:
        """Whether its numbers are allowed: traced ones cannot be checked before. A law that is not must give NaN."""
        return jnp.asarray(True)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Rows that `project` treats together, e.g. (2, 1): each of these sets has one step of the solver."""
        return (self.rows,)

    @property
    def feels_slip(self) -> bool:
        """Whether `directions` depends on the slip; if not, that is not computed."""
        return False

    @abc.abstractmethod
    def directions(
        self, normal: Float[Array, "3"], R: Float[Array, "3 3"], radius: Float[Array, ""], slip: Float[Array, "3"]
    ) -> Float[Array, "rows 6"]:
        """Rows over (velocity of the contact point, angular velocity), both relative and in the world.

        - `normal`: unit vector out of what is touched; `R`: rotation of the body; `radius`: of its sphere [m].
        - `slip`: velocity along the contact at the start of the step [m/s].
        """

    @abc.abstractmethod
    def project(self, impulse: Float[Array, "rows"], normal: Float[Array, ""]) -> Float[Array, "rows"]:
        """The nearest allowed impulse, where the normal one is `normal`."""


class Coulomb(ContactLaw):
    """Coulomb's friction, with an ellipse of two coefficients; rolling and spinning friction on request.

    **Arguments:**

    - `mu`: coefficient of friction; `across`: another one, for the direction across `along`.
    - `along`: the direction of `mu`, a vector in the body, or in the world if `grounded`; its part along the surface counts.
    - `rolling`: coefficient against rolling, dimensionless: of the velocity radius times rate (document 003, (33)).
    - `spinning`: coefficient [m] against turning about the normal.
    - `restitution`: of the normal velocity in an impact, from 0 to 1.
    - `stribeck`: (factor, speed): friction at rest is `factor` times that at speeds well beyond `speed` [m/s].

    Numbers beyond these limits are refused. Where they are traced, in a fit or an optimisation, that is not possible: the
    motion is then NaN, from the first step on. A negative `mu` would otherwise act as its absolute value.
    """

    mu: Float[Array, "2"]
    along: Float[Array, "3"] | None
    rolling: Float[Array, ""] | None
    spinning: Float[Array, ""] | None
    stribeck: Float[Array, "2"] | None
    restitution: Float[Array, ""]
    grounded: bool = eqx.field(static=True)

    def __init__(
        self,
        mu: Any = 0.0,
        across: Any = None,
        along: Any = None,
        grounded: bool = False,
        rolling: Any = None,
        spinning: Any = None,
        restitution: Any = 0.0,
        stribeck: Any = None,
    ):
        if across is not None and along is None:
            raise ModelError(f"across = {across} needs a direction: along = (x, y, z) says where mu = {mu} holds.")
        both = [_coefficient(mu, "mu"), _coefficient(mu if across is None else across, "across")]
        self.mu = jnp.stack(both)
        self.along = None if along is None else jnp.asarray(as_vector(along, 3, "along"))
        self.rolling = None if rolling is None else _coefficient(rolling, "rolling")
        self.spinning = None if spinning is None else _coefficient(spinning, "spinning")
        self.restitution = _coefficient(restitution, "restitution", high=1.0)
        self.stribeck = None if stribeck is None else _stribeck(stribeck)
        self.grounded = grounded

    def sound(self) -> Bool[Array, ""]:
        out = (self.mu[0] >= 0) & (self.mu[1] >= 0) & (self.restitution >= 0) & (self.restitution <= 1)
        for x in (self.rolling, self.spinning):
            out = out if x is None else out & (x >= 0)
        return out if self.stribeck is None else out & (self.stribeck[0] >= 0) & (self.stribeck[1] > 0)

    @property
    def rows(self) -> int:
        return sum(self.blocks)

    @property
    def blocks(self) -> tuple[int, ...]:
        return (2,) + (2,) * (self.rolling is not None) + (1,) * (self.spinning is not None)

    @property
    def feels_slip(self) -> bool:
        return self.stribeck is not None

    def directions(self, normal, R, radius, slip):
        ahead = _tangent(normal, None if self.along is None else self.along if self.grounded else matvec(R, self.along))
        side = cross(normal, ahead)
        mu = jnp.where(self.sound(), self.mu, jnp.nan)
        if self.stribeck is not None:
            factor, speed = self.stribeck
            mu = mu * (1 + (factor - 1) * jnp.exp(-(slip * slip).sum() / speed**2))
        none = jnp.zeros(3)
        # rows times their coefficients: the ellipse becomes a disc of the radius P_N, and mu = 0 is no exception
        out = [jnp.concatenate([mu[0] * ahead, none]), jnp.concatenate([mu[1] * side, none])]
        if self.rolling is not None:  # r x omega along both tangents (33)
            out += [jnp.concatenate([none, self.rolling * radius * cross(x, normal)]) for x in (ahead, side)]
        if self.spinning is not None:
            out.append(jnp.concatenate([none, self.spinning * normal]))
        return jnp.stack(out)

    def project(self, impulse, normal):
        parts = [_disc(impulse[:2], normal)]
        if self.rolling is not None:
            parts.append(_disc(impulse[2:4], normal))
        if self.spinning is not None:
            parts.append(jnp.clip(impulse[-1:], -normal, normal))
        return jnp.concatenate(parts)


def _disc(x: Float[Array, "2"], radius: Float[Array, ""]) -> Float[Array, "2"]:
    """The nearest point of a disc."""
    square = (x * x).sum()
    inside = square <= radius * radius
    return x * jnp.where(inside, 1.0, radius * jax.lax.rsqrt(jnp.where(inside, 1.0, square)))


def _tangent(normal: Float[Array, "3"], wanted: Float[Array, "3"] | None) -> Float[Array, "3"]:
    """A unit vector along the surface, in the wanted direction if that has a part there: an upright link keeps its friction."""
    small = jnp.abs(normal)
    # the axis of the world that is least along the normal, the first of equals
    axis = jnp.where((small[0] <= small[1]) & (small[0] <= small[2]), 0, jnp.where(small[1] <= small[2], 1, 2))
    other = cross(cross(normal, (jnp.arange(3) == axis).astype(normal.dtype)), normal)
    if wanted is not None:
        part = wanted - normal * (normal * wanted).sum()
        other = jnp.where((part * part).sum() > NOT_ALONG**2, part, other)
    return other * jax.lax.rsqrt((other * other).sum())


def _stribeck(value: Any) -> Array:
    """Factor and speed of Stribeck's law."""
    out = as_vector(value, 2, "stribeck")
    if not is_traced(out) and not (out[0] >= 0 and out[1] > 0):
        raise ModelError(f"stribeck = {out.tolist()}; its factor must be at least 0, and its speed positive.")
    return jnp.asarray(out)


def _coefficient(value: Any, what: str, high: float = jnp.inf) -> Array:
    """A number of a law, refused if it is negative or beyond `high`."""
    out = as_vector(value, 0, what)
    if not is_traced(out) and not 0 <= out <= high:
        allowed = "at least 0" if high == jnp.inf else f"between 0 and {high:g}"
        raise ModelError(f"{what} = {float(out):g}; it must be {allowed}.")
    return jnp.asarray(out)
