"""Tendons and fluid chambers along rods: a tension times the gradient of a length, a pressure times that of a volume.

A tendon at D(X) in the section has the length  int |u| dX,  u = Gamma + K x D + D'. The power that its tension T takes from the
rod is T times the rate of this length, so that its efforts are -T d(length)/dq; this is the actuation stress
Lambda_act = T (D x u ; u) / |u| of document 002, eq. (2.32), in the weak form, and its derivatives come with it.
"""

import abc
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError, as_vector, is_traced
from undula.core.startup import UndulaWarning
from undula.joints.rod.group import RodGroup, scatter
from undula.joints.rod.rod import RodPlan
from undula.laws.law import Law
from undula.numerics.small import cross


class Along(eqx.Module):
    """Something that acts along a rod through a functional of its strains, a `measure`."""

    offset: Float[Array, "gauss 3 nodes"]
    """D(X) at the Gauss points [m]"""
    slope: Float[Array, "gauss 3 nodes"]
    """D'(X)"""
    weights: Float[Array, "gauss nodes"]
    """Of the quadrature [m]; zero beyond the end"""
    law: Law
    name: str = eqx.field(static=True)
    group: int = eqx.field(static=True)
    member: int = eqx.field(static=True)

    def _line(self, xi: Float[Array, "gauss 6 nodes"]) -> Float[Array, "gauss 3 nodes"]:
        """u = Gamma + K x D + D': tangent of the line, in the section's frame."""
        turned = jax.vmap(jax.vmap(cross, 1, 1))(xi[:, 3:], self.offset)
        return xi[:, :3] + turned + self.slope

    @abc.abstractmethod
    def measure(self, xi: Float[Array, "gauss 6 nodes"]) -> Float[Array, ""]:
        """The functional of the strains: a length [m] or a volume [m^3]."""

    @abc.abstractmethod
    def intensity(self, t: Any, measure: Array) -> Array:
        """What multiplies the gradient of the measure [N or Pa], with the sign of a force that makes it grow."""


class Tension(Along):
    """A tendon of a given tension [N]."""

    def measure(self, xi):
        u = self._line(xi)
        return (self.weights * jnp.sqrt((u * u).sum(1))).sum()

    def intensity(self, t, measure):
        return -self.law.value(t)


class Winch(Tension):
    """A tendon that a winch gives a length [m]: elastic with a `stiffness` [N/m], and slack when it is too long."""

    stiffness: Float[Array, ""]

    def intensity(self, t, measure):
        return -jnp.maximum(self.stiffness * (measure - self.law.value(t)), 0.0)


class Pressure(Along):
    """A chamber of an `area` [m^2] under a given pressure [Pa], whose volume is int area u_x dX."""

    area: Float[Array, ""]

    def measure(self, xi):
        return self.area * (self.weights * self._line(xi)[:, 0]).sum()

    def intensity(self, t, measure):
        return self.law.value(t)


def actuation(
    groups: tuple[RodGroup, ...], along: tuple[Along, ...], q: Float[Array, "nq"], t: Any, size: int
) -> tuple[Float[Array, "nv"], Float[Array, "actuators"], Float[Array, "actuators"]]:
    """Efforts on all the coordinates; intensities (tensions, pressures) and measures (lengths, volumes) of the actuators."""
    forces = [jnp.zeros(g.stiffness.shape[:2]) for g in groups]
    strains = [g.bent(g.own(q)) for g in groups]
    sizes, measures = [], []
    for a in along:
        g = groups[a.group]

        def measure_of(xi, a=a, g=g):
            return a.measure(g.whole(xi)[a.member])

        measure, gradient = jax.value_and_grad(measure_of)(strains[a.group])
        size_ = a.intensity(t, measure)
        forces[a.group] = forces[a.group] + size_ * g.cofield(gradient)
        sizes.append(-size_ if isinstance(a, Tension) else size_)
        measures.append(measure)
    return scatter(groups, forces, size), jnp.stack(sizes), jnp.stack(measures)


def place(plan: RodPlan, routing: Any, end: float, what: str) -> tuple[Any, Any, Any]:
    """Offsets, slopes and weights at the Gauss points of a rod, of a line that ends at the fraction `end` of its length.

    `routing`: (y, z) or a function of X [m] that gives (y, z), in the section [m]; its slope is found by differentiation.
    """
    if not 0 < end <= 1:
        raise ModelError(f"end of {what} = {end}; it must be a fraction of the rod's length, above 0 and at most 1.")
    length = plan.rod.length
    n, g = plan.places.shape

    def at(s: Any) -> Any:
        value = routing(s * length) if callable(routing) else routing
        return jnp.asarray(value, dtype=float)

    if not callable(routing):
        as_vector(routing, 2, f"routing of {what}")
    if jax.eval_shape(at, jnp.zeros(())).shape != (2,):
        raise ModelError(f"routing of {what} must give two numbers, y and z [m].")
    values, slopes = jax.vmap(lambda s: jax.jvp(at, (s,), (jnp.ones(()),)))(jnp.asarray(plan.places.reshape(-1)))
    slopes = slopes / length
    if not is_traced(values):
        if not np.all(np.isfinite(values)):
            raise ModelError(f"routing of {what} is not finite.")
        _warn_outside(plan, np.asarray(values), what)
    zero = jnp.zeros((n * g, 1))
    D, dD = (jnp.concatenate([zero, x], axis=1).reshape(n, g, 3).transpose(1, 2, 0) for x in (values, slopes))
    # the line ends inside a piece: the weights of that piece are shortened
    start = np.concatenate([[0.0], plan.nodes[:-1]])
    share = np.clip((end - start) / plan.pieces, 0.0, 1.0)
    return D, dD, jnp.asarray(plan.gauss_weights[:, None] * plan.pieces * share) * length


def warn_of_pushing(along: tuple[Along, ...], t: np.ndarray, recorded: Any) -> None:
    """A warning for tendons whose law of tension became negative: no tendon pushes."""
    found = []
    for k, a in enumerate(along):
        negative = np.asarray(recorded[0])[:, k] < 0 if isinstance(a, Tension) else np.zeros(1, bool)
        if negative.any():
            found.append(f"'{a.name}' from t = {t[int(np.argmax(negative))]:.4g} s")
    if found:
        warnings.warn(
            f"tendons that push, because their tension is negative: {', '.join(found)}.", UndulaWarning, stacklevel=3
        )


def _warn_outside(plan: RodPlan, values: np.ndarray, what: str) -> None:
    for s, (y, z) in zip(plan.places.reshape(-1), values):
        section = plan.section(s)
        if section is None or any(is_traced(x) for x in section.outline):
            return
        a, b = section.outline
        reach = max(abs(y) / a, abs(z) / b) if section.corners else np.hypot(y / a, z / b)
        if reach > 1 + 1e-9:
            warnings.warn(
                f"{what} leaves the section at X = {s * plan.rod.length:.4g} m: (y, z) = ({y:.4g}, {z:.4g}) m, "
                f"half widths ({a:.4g}, {b:.4g}) m.",
                UndulaWarning,
                stacklevel=5,
            )
            return
