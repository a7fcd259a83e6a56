"""Contact laws: the admissible impulses and the motions that go with them.

An impulse P and its conjugate velocity g satisfy -g in N_C(P): P is the point of the set C that maximises dissipation. For the
normal impulse the set is P_N >= 0; for the other impulses a law defines it by the projection onto it (document 003, section
V-B).
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from undula.core.arrays import Array, stacked
from undula.core.errors import ModelError, as_vector, is_traced, shown
from undula.numerics.small import cross, matvec

NOT_ALONG = 1e-6  # length below which the projection of a direction onto the tangent plane counts as zero


class ContactLaw(eqx.Module):
    """How a contact resists motion along the surface. A custom law defines `rows`, `directions` and `project`.

    `restitution`: Newton's coefficient, of the normal velocity in an impact (0: no rebound, 1: full rebound).
    """

    restitution: eqx.AbstractVar[Float[Array, ""]]

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of resisted velocity components besides the normal one."""

    def sound(self) -> Bool[Array, ""]:
        """Whether its parameters are valid, as traced ones cannot be checked earlier. An invalid law must return NaN."""
        sound: Any = np.asarray(True)
        return sound

    @property
    def blocks(self) -> tuple[int, ...]:
        """Sizes of the blocks of rows that `project` treats together, e.g. (2, 1): the solver uses one step size per block."""
        return (self.rows,)

    @property
    def feels_slip(self) -> bool:
        """Whether `directions` depends on the slip; if not, the slip is not computed."""
        return False

    @abc.abstractmethod
    def directions(
        self, normal: Float[Array, "3"], R: Float[Array, "3 3"], radius: Float[Array, ""], slip: Float[Array, "3"]
    ) -> Float[Array, "rows 6"]:
        """Rows over (velocity of the contact point, angular velocity), both relative and in the world.

        - `normal`: unit vector out of the touched surface; `R`: rotation of the body; `radius` of its sphere [m].
        - `slip`: tangential velocity at the start of the step [m/s].
        """

    def check(self, normal: np.ndarray | None, what: str) -> None:
        """Raises a `ModelError` if the law does not fit its contact; `normal` (3,) of the surface, if it is constant."""

    @abc.abstractmethod
    def project(self, impulse: Float[Array, "rows"], normal: Float[Array, ""]) -> Float[Array, "rows"]:
        """The nearest admissible impulse, given the normal impulse `normal`."""


class Coulomb(ContactLaw):
    """Coulomb friction, isotropic or with two coefficients (an ellipse); optionally rolling and spinning friction.

    **Arguments:**

    - `mu`: coefficient of friction; `across`: another one, for the direction perpendicular to `along`.
    - `along`: the direction of `mu`, a vector in the body, or in the world if `grounded`; only its tangential part counts.
    - `rolling`: dimensionless coefficient of rolling friction, on the velocity radius times rate (document 003, (33)).
    - `spinning`: coefficient [m] of friction against rotation about the normal.
    - `restitution`: of the normal velocity in an impact, from 0 to 1.
    - `stribeck`: (factor, speed): friction at rest is `factor` times that at speeds well above `speed` [m/s].

    Values outside these limits are refused. Traced values, in a fit or an optimisation, cannot be: the motion is then NaN
    from the first step on. A negative `mu` would otherwise act as its absolute value.
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
        self.mu = stacked(both)
        self.along = None if along is None else as_vector(along, 3, "along")
        if self.along is not None and not is_traced(self.along) and not np.any(self.along):
            raise ModelError(f"along = {shown(along)} is zero; it must be a direction.")
        self.rolling = None if rolling is None else _coefficient(rolling, "rolling")
        self.spinning = None if spinning is None else _coefficient(spinning, "spinning")
        self.restitution = _coefficient(restitution, "restitution", high=1.0)
        self.stribeck = None if stribeck is None else _stribeck(stribeck)
        self.grounded = grounded

    def check(self, normal, what):
        if self.along is None or not self.grounded or normal is None or is_traced(self.along):
            return
        along = np.asarray(self.along)
        if np.linalg.norm(np.cross(along, normal)) <= NOT_ALONG * np.linalg.norm(along):
            raise ModelError(
                f"the friction of {what} has the direction along = {along.tolist()}, which is the normal of its plane; it must "
                "lie in the plane, at least in part."
            )

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
        # rows scaled by their coefficients: the ellipse becomes a disc of radius P_N, and mu = 0 needs no special case
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
    """The nearest point in a disc."""
    square = (x * x).sum()
    inside = square <= radius * radius
    return x * jnp.where(inside, 1.0, radius * jax.lax.rsqrt(jnp.where(inside, 1.0, square)))


def _tangent(normal: Float[Array, "3"], wanted: Float[Array, "3"] | None) -> Float[Array, "3"]:
    """A unit tangent vector, in the wanted direction unless that is normal to the surface: an upright link keeps friction."""
    small = jnp.abs(normal)
    # the world axis least aligned with the normal, the first one in a tie
    axis = jnp.where((small[0] <= small[1]) & (small[0] <= small[2]), 0, jnp.where(small[1] <= small[2], 1, 2))
    other = cross(cross(normal, (jnp.arange(3) == axis).astype(normal.dtype)), normal)
    if wanted is not None:
        part = wanted - normal * (normal * wanted).sum()
        other = jnp.where((part * part).sum() > NOT_ALONG**2, part, other)
    return other * jax.lax.rsqrt((other * other).sum())


def _stribeck(value: Any) -> Array:
    """Factor and speed of the Stribeck law."""
    out = as_vector(value, 2, "stribeck")
    if not is_traced(out) and not (out[0] >= 0 and out[1] > 0):
        raise ModelError(f"stribeck = {out.tolist()}; its factor must be at least 0 and its speed positive.")
    return out


def _coefficient(value: Any, what: str, high: float = jnp.inf) -> Array:
    """A parameter of a law, refused if it is negative or above `high`."""
    out = as_vector(value, 0, what)
    if not is_traced(out) and not 0 <= out <= high:
        allowed = "at least 0" if high == jnp.inf else f"between 0 and {high:g}"
        raise ModelError(f"{what} = {float(out):g}; it must be {allowed}.")
    return out
