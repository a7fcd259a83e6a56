"""Bending modes of uniform beams, and flexible bodies made of them (document 001, appendix B)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.polynomial.legendre import Legendre

from undula.core.errors import ModelError, is_traced, not_negative, numbers, one_of, positive, real, whole
from undula.core.shapes import Shape
from undula.elements.site import Site
from undula.joints.joint import Joint, unit_vector
from undula.joints.rod.quadrature import radau
from undula.model.builder import Builder
from undula.model.coordinates import each
from undula.model.flexible import add_flexible

MOST = 500  # modes, and nodes
LONGEST = 1e50  # [m]: powers of it stay finite


class ClampedModes(NamedTuple):
    """Bending modes of a beam that is clamped at X = 0 and free at X = length, with deflection 1 at the tip.

    - `positions` (nodes,) [m], the last one at the tip, and `weights` (nodes,) [m]: a Gauss-Radau quadrature.
    - `shapes` (count, nodes): deflections of the nodes.
    - `curvatures` (count,) [m^-3]: integral of the squared second derivative of each mode.
    - `roots` (count,): beta times length; the natural frequency is roots^2 sqrt(EI / (density length^4)) [rad/s].
    """

    positions: np.ndarray
    weights: np.ndarray
    shapes: np.ndarray
    curvatures: np.ndarray
    roots: np.ndarray

    def at(self, X: float) -> tuple[np.ndarray, np.ndarray]:
        """Deflections and slopes [1/m] (count,) of the modes at the abscissa X [m]."""
        length = float(self.positions[-1])
        tips = [_clamped(z, 1.0) for z in self.roots]
        deflections = [_clamped(z, X / length) / tip for z, tip in zip(self.roots, tips)]
        slopes = [_clamped_slope(z, X / length) / tip / length for z, tip in zip(self.roots, tips)]
        return np.array(deflections), np.array(slopes)


class PolynomialModes(NamedTuple):
    """Deflections of a clamped beam whose curvatures are Legendre polynomials, with largest deflection 1.

    All but the first two have neither deflection nor slope at the tip: any load at the tip bends the beam by the first two
    alone. The fields are those of `ClampedModes`.
    """

    positions: np.ndarray
    weights: np.ndarray
    shapes: np.ndarray
    curvatures: np.ndarray

    def at(self, X: float) -> tuple[np.ndarray, np.ndarray]:
        """Deflections and slopes [1/m] (count,) of the modes at the abscissa X [m]."""
        length = float(self.positions[-1])
        modes = [_polynomial(k) for k in range(len(self.shapes))]
        return np.array([w(X / length) for w in modes]), np.array([w.deriv()(X / length) / length for w in modes])


def clamped_modes(count: int = 1, length: float = 1.0, nodes: int = 8) -> ClampedModes:
    """The first `count` bending modes of a clamped-free Euler-Bernoulli beam, `length` [m], at `nodes` points."""
    from scipy.optimize import brentq

    count, nodes = _check(count, length, nodes, "clamped_modes")
    enough = (3 * count + 3) // 2  # the quadrature then gives the highest natural frequency of up to 8 modes to 1 %
    if nodes < enough:
        raise ModelError(f"nodes of clamped_modes = {nodes}; {count} modes need at least {enough}.")
    x, w = radau(nodes)  # one node is the tip
    # cos z cosh z = -1 has one root in each interval between multiples of pi
    roots = np.array(
        [brentq(lambda z: np.cos(z) + 1 / np.cosh(z), k * np.pi, (k + 1) * np.pi, xtol=1e-14) for k in range(count)]
    )
    tips = np.array([_clamped(z, 1.0) for z in roots])
    shapes = np.array([_clamped(z, x) / tip for z, tip in zip(roots, tips)])
    # with deflection 1 at the tip, the integrals of phi^2 and phi''^2 are length / 4 and beta^4 length / 4
    return ClampedModes(length * x, length * w, shapes, roots**4 / (4 * length**3), roots)


def polynomial_modes(count: int = 2, length: float = 1.0, nodes: int = 8) -> PolynomialModes:
    """The first `count` polynomial deflections of a beam clamped at X = 0, `length` [m], at `nodes` points."""
    count, nodes = _check(count, length, nodes, "polynomial_modes")
    if nodes < count + 2:
        raise ModelError(f"nodes of polynomial_modes = {nodes}; {count} modes need at least {count + 2}.")
    x, w = radau(nodes)
    modes = [_polynomial(k) for k in range(count)]
    scale = np.array([float(mode.deriv(2)(1.0)) for mode in modes])  # Legendre polynomials are 1 at the end,
    curvatures = scale**2 / (2 * np.arange(count) + 1) / length**3  # and the integral of their squares is 1 / (2k + 1)
    return PolynomialModes(length * x, length * w, np.array([mode(x) for mode in modes]), curvatures)


def _check(count: int, length: float, nodes: int, who: str) -> tuple[int, int]:
    for what, value in (("count", count), ("nodes", nodes)):
        whole(value, f"{what} of {who}", at_least=1, at_most=MOST)
    positive(length, f"length of {who}", "m")
    real(length, f"length of {who}", high=LONGEST, unit="m")
    return int(count), int(nodes)


def _clamped(z: float, x: Any) -> Any:
    """cosh zx - cos zx - s (sinh zx - sin zx), with the growing exponentials cancelled analytically."""
    rest = (np.sin(z) - np.cos(z) - np.exp(-z)) / (np.sinh(z) + np.sin(z))  # 1 - s
    return np.exp(-z * x) + rest * np.sinh(z * x) - np.cos(z * x) + (1 - rest) * np.sin(z * x)


def _clamped_slope(z: float, x: Any) -> Any:
    """The derivative of that with respect to x."""
    rest = (np.sin(z) - np.cos(z) - np.exp(-z)) / (np.sinh(z) + np.sin(z))
    return z * (rest * np.cosh(z * x) - np.exp(-z * x) + np.sin(z * x) + (1 - rest) * np.cos(z * x))


def _polynomial(k: int) -> Legendre:
    """The function of X / length, 0 and without slope at 0, with a Legendre polynomial as
    second derivative, and largest value 1."""
    bent = Legendre.basis(k, domain=[0, 1]).integ(2, lbnd=0)
    values = bent(np.linspace(0.0, 1.0, 1001))
    return bent / values[np.argmax(np.abs(values))]


MODES: dict[str, Callable[[int, float, int], ClampedModes | PolynomialModes]] = {
    "clamped": clamped_modes,
    "polynomial": polynomial_modes,
}


def add_beam(
    builder: Builder,
    name: str,
    parent: str | Site,
    length: Any,
    density: Any,
    bending: Any,
    modes: int = 1,
    damping: Any = 0.0,
    direction: Any = (1.0, 0.0, 0.0),
    bends: Any = (0.0, 1.0, 0.0),
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = None,
    joint: Joint | None = None,
    nodes: int = 8,
    width: float | None = None,
    colour: tuple[float, ...] | None = None,
    basis: str = "clamped",
) -> tuple[str, ...]:
    """Adds a uniform Euler-Bernoulli beam, clamped to a new body `name` and free at its tip.

    `on(name, X)` is the section at the distance X [m] from the clamp, which moves and turns with the beam: the parent of a tip
    mass or of another beam, or the site of a load, a constraint, a contact or a sensor.

    **Arguments:**

    - `length` [m], `density` [kg/m], `bending`: the stiffness EI [N m^2].
    - `modes`: their number; each coordinate is the largest deflection of its mode [m], at the tip for clamped modes.
    - `damping` [s]: stiffness-proportional; a modal damper is this time multiplied by the modal stiffness.
    - `direction` of the beam and `bends`, the direction of its deflection, in the frame of `name`; several directions (k, 3)
      give `modes` coordinates each, with `bending` one number or one per direction.
    - `position`, `rotation` of the clamp in `parent`; `joint`: what carries it (fixed by default).
    - `nodes`: number of material points, at least (3 modes + 2)/2 for clamped modes; `width` [m] and `colour` of what is drawn.
    - `basis`: "clamped", the natural modes of the bare beam; or "polynomial", which converges far faster for a beam that
      carries something, because the curvature of clamped modes vanishes at the tip. It needs `nodes` of `modes` + 2 or more.

    **Returns:**

    The names of the modal coordinates, `name.mode1`, ...
    """
    positive(length, f"length of the beam '{name}'", "m")
    positive(density, f"density of the beam '{name}'", "kg/m")
    one_of(basis, MODES, f"basis of the beam '{name}'")
    not_negative(real(damping, f"damping of the beam '{name}'"), f"damping of the beam '{name}'")
    bends = bends if is_traced(bends) else numbers(bends, f"bends of the beam '{name}'")
    found = MODES[basis](modes, length, nodes)
    along = unit_vector(direction, f"direction of the beam '{name}'")
    across = [unit_vector(d, f"bends of the beam '{name}'") for d in np.atleast_2d(bends)]
    if max(abs(np.dot(along, d)) for d in across) > 1e-9:
        raise ModelError(
            f"bends of the beam '{name}' = {bends}; a beam bends at right angles to its direction {direction}."
        )
    EI = each(bending, len(across), f"bending of the beam '{name}'")
    for x in EI:
        positive(x, f"bending of the beam '{name}'", "N m^2")
    xp = jnp if any(is_traced(x) for x in EI) else np
    stiffness = xp.concatenate([x * found.curvatures for x in EI])

    def section(X: float) -> tuple[Any, Any, Any]:
        deflections, slopes = found.at(X)
        moved = [deflections[:, None] * d for d in across]
        turned = [slopes[:, None] * np.cross(along, d) for d in across]
        return X * along, np.concatenate(moved), np.concatenate(turned)

    field = np.concatenate([found.shapes[:, :, None] * d for d in across])
    thick = 0.03 * length if width is None else width
    drawn = [[_segment(thick, w, along, colour)] for w in found.weights]
    return add_flexible(
        builder,
        name,
        parent,
        found.positions[:, None] * along,
        density * found.weights,
        field,
        stiffness,
        damping * stiffness,
        position,
        rotation,
        joint,
        drawn,
        section=section,
        length=length,
    )


def _segment(width: float, length: float, along: np.ndarray, colour: tuple[float, ...] | None) -> Shape:
    """The drawing of a beam around a node: a box along the beam."""
    turn = np.array([1.0 + along[0], 0.0, -along[2], along[1]])  # the shortest rotation from x to the beam
    if turn[0] < 1e-12:
        turn = np.array([0.0, 0.0, 0.0, 1.0])
    return Shape("box", (length, width, width), quaternion=tuple(turn / np.linalg.norm(turn)), colour=colour)
