"""Stress-free shapes of rods: strains of a curve through points, or from curvatures."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import namespace
from undula.core.errors import ModelError, as_vector, function_of, is_traced, numbers, positive, reason
from undula.joints.rod import magnus
from undula.joints.rod.magnus import GAUSS

if TYPE_CHECKING:
    from undula.joints.rod.plan import RodPlan

DEGREE = 12  # of the polynomials for the curvatures between two points
ALLOWED = 1e-3  # deviation of a rod from the points, relative to its length
PARALLEL = 1e-6  # sine of the smallest angle between the start of a curve and the direction of the section's y axis


def curved(curvature: Any) -> Callable[[Any], Any]:
    """The stress-free strain of a rod that is curved at rest: for `reference` of a `Rod`.

    - `curvature`: a function of X [m], or numbers: the curvature Kz [1/m] of a planar rod, or (Kx, Ky, Kz): twist about the rod
      and curvatures about the section's y and z axes.
    """
    if callable(curvature):
        function_of(curvature, ("X",), "the curvature of a rod")
    elif not any(is_traced(x) for x in jax.tree.leaves(curvature)):
        numbers(curvature, "the curvature of a rod")
    given = curvature if callable(curvature) else (lambda X: curvature)
    try:
        shape = jax.eval_shape(lambda X: jnp.asarray(given(X), dtype=float), jax.ShapeDtypeStruct((), float)).shape
    except Exception:  # functions that JAX cannot trace are evaluated
        try:
            shape = np.shape(given(0.0))
        except Exception as error:
            raise ModelError(f"the curvature of a rod cannot be computed: {reason(error)}.") from error
    if shape not in ((), (3,)):
        raise ModelError(f"the curvature of a rod has the shape {shape}; it must be a number Kz, or three: Kx, Ky, Kz.")

    def reference(X: Any) -> Any:
        K = given(X)
        xp = namespace(X, K)
        K = xp.asarray(K, dtype=float)
        K = xp.stack([xp.zeros(()), xp.zeros(()), K]) if shape == () else K
        return xp.concatenate([xp.array([1.0, 0.0, 0.0]), K])

    return reference


@dataclass(frozen=True, eq=False)
class RodShape:
    """The stress-free shape of a rod along a curve, by `shape_through`: `Rod(length=shape.length, reference=shape)`.

    - `length` [m] of the curve; `position` (3,) and `rotation` (3, 3) of its start, for the rod's joint: x along the curve.
    - `points` (n, 3) [m], and their abscissae `at` (n,) [m].
    - `tolerance` [m]: the largest deviation from the points that is accepted of a rod.
    """

    length: float
    position: np.ndarray
    rotation: np.ndarray
    points: np.ndarray
    at: np.ndarray
    tolerance: float
    curvatures: np.ndarray = field(repr=False)
    """(spans, DEGREE + 1, 2): Chebyshev coefficients of Ky and Kz between the points"""

    def __call__(self, X: Any) -> Any:
        """The stress-free strain (6,) at an abscissa X [m]."""
        xp = namespace(X)
        lo, hi = self.at[:-1], self.at[1:]
        inside = (X >= lo) & ((X < hi) | (np.arange(len(lo)) == len(lo) - 1))
        if xp is np:
            k = int(np.argmax(inside))
            x = 2 * (X - lo[k]) / (hi[k] - lo[k]) - 1
            Ky, Kz = np.polynomial.chebyshev.chebval(x, self.curvatures[k])
            return np.array([1.0, 0.0, 0.0, 0.0, Ky, Kz])
        # a product with booleans instead of a gather, which would prevent loops from being compiled as a whole
        x = xp.where(inside, 2 * (X - lo) / (hi - lo) - 1, 0.0)
        rows = [jnp.ones_like(x), x]
        for _ in range(DEGREE - 1):
            rows.append(2 * x * rows[-1] - rows[-2])
        K = (inside[:, None] * (self.curvatures * jnp.stack(rows, 1)[..., None]).sum(1)).sum(0)
        return jnp.concatenate([jnp.array([1.0, 0.0, 0.0, 0.0]), K])

    def deviation(self, plan: "RodPlan") -> tuple[float, int]:
        """The largest distance of the points from a planned rod [m], and which point has it."""
        away = np.linalg.norm(_rod_points(plan, self.at) @ self.rotation.T + self.position - self.points, axis=1)
        return float(away.max()), int(np.argmax(away))

    def check(self, plan: "RodPlan", what: str) -> None:
        """Raises a `ModelError` if a rod does not follow the points."""
        if not isinstance(plan.rod.length, int | float) or not math.isclose(plan.rod.length, self.length, rel_tol=1e-9):
            raise ModelError(f"length of {what} = {plan.rod.length} m; that of its shape is {self.length!r} m.")
        away, k = self.deviation(plan)
        if not away <= self.tolerance:
            raise ModelError(
                f"{what} with {len(plan.nodes)} nodes misses point {k + 1} of its shape by {away:.3g} m, where at most "
                f"{self.tolerance:.3g} m is allowed: use more nodes or `order=6`, smoother points, or a larger tolerance."
            )


def _rod_points(plan: "RodPlan", at: np.ndarray) -> np.ndarray:
    """(n, 3): positions of the stress-free rod at abscissae [m], in the frame of its root, by the rod's own increments."""
    nodes = np.concatenate([[0.0], plan.nodes]) * plan.length
    before = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 1)
    starts, ends = np.concatenate([nodes[:-1], nodes[before]]), np.concatenate([nodes[1:], at])
    strains = [
        np.array([plan.reference_at(lo + (hi - lo) * x) for lo, hi in zip(starts, ends)])
        for x in GAUSS[plan.rod.order][0]
    ]
    screws = [{c: xi[:, c] for c in range(6)} for xi in strains]
    R, p = magnus.pose(magnus.bend(screws, ends - starts), (len(starts),))
    A, a = np.eye(3), np.zeros(3)
    frames = [(A, a)]
    for k in range(len(plan.nodes)):
        A, a = A @ R[k], a + A @ p[k]
        frames.append((A, a))
    parts = p[len(plan.nodes) :]
    return np.array([frames[k][1] + frames[k][0] @ step for k, step in zip(before, parts)])


def shape_through(points: Any, y: Any = None, tolerance: float | None = None) -> RodShape:
    """The stress-free shape of a rod that passes through points: a cubic spline, as a function of its arc length.

        shape = un.rods.shape_through(points)
        rod = un.Rod(length=shape.length, reference=shape, ...)
        b.body("tip", "ground", rod, position=shape.position, rotation=shape.rotation)

    The sections do not twist about the curve (a rotation-minimising frame): Kx = 0, and Ky and Kz are its curvatures.

    **Arguments:**

    - `points` (n, 3) [m], in order, at least two; neighbours must differ.
    - `y` (3,): the direction to which the section's y axis is as close as possible at the start; by default the axis of the
      points' frame that is most nearly perpendicular to the curve there.
    - `tolerance` [m]: `Builder.body` refuses a rod that misses a point by more, because it has too few nodes; by default 1e-3
      of the length.
    """
    from scipy.interpolate import CubicSpline

    at = _checked(points)
    chord = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(at, axis=0), axis=1))])
    curve = CubicSpline(chord, at)  # over the length of the chords
    first, second = curve.derivative(), curve.derivative(2)
    if min(np.linalg.norm(first(np.linspace(0, chord[-1], 20 * len(at))), axis=1)) < PARALLEL:
        raise ModelError("the points of a shape cannot be joined by a smooth curve: it would reverse its direction.")
    tangent = _unit(first(0.0))
    start = _start(tangent, y)
    abscissae, curvatures, Y, s = [0.0], [], start, 0.0
    for lo, hi in pairwise(chord):
        u = (lo + hi) / 2 - (hi - lo) / 2 * np.cos(np.pi * np.arange(2 * DEGREE + 1) / (2 * DEGREE))
        lengths, frames = _along(first, second, u, Y)
        d1, d2 = first(u), second(u)
        speed = np.linalg.norm(d1, axis=1)
        bend = (d2 - d1 * ((d1 * d2).sum(1) / speed**2)[:, None]) / (speed**2)[:, None]  # dT/ds
        Z = np.cross(d1 / speed[:, None], frames)
        # R' = R K^: dT/ds = R (0, Kz, -Ky)
        K = np.stack([-(Z * bend).sum(1), (frames * bend).sum(1)], 1)
        x = 2 * lengths / lengths[-1] - 1
        curvatures.append(np.polynomial.chebyshev.chebfit(x, K, DEGREE))
        s, Y = s + lengths[-1], _unit(frames[-1])
        abscissae.append(s)
    rotation = np.stack([tangent, start, np.cross(tangent, start)], 1)
    allowed = ALLOWED * s if tolerance is None else tolerance
    positive(allowed, "tolerance of a shape", "m")
    return RodShape(float(s), at[0], rotation, at, np.array(abscissae), float(allowed), np.array(curvatures))


def _checked(points: Any) -> np.ndarray:
    if is_traced(points):
        raise ModelError("the points of a shape must be known numbers: JAX cannot differentiate by them.")
    at = numbers(points, "points of a shape")
    if at.ndim != 2 or at.shape[1] != 3 or len(at) < 2 or not np.all(np.isfinite(at)):
        raise ModelError(
            f"the points of a shape have the shape {at.shape}; it must be (n, 3), finite, with n at least 2."
        )
    steps = np.linalg.norm(np.diff(at, axis=0), axis=1)
    if steps.min() <= 1e-9 * steps.sum():
        k = int(np.argmin(steps))
        raise ModelError(f"points {k + 1} and {k + 2} of a shape are the same: {at[k].tolist()}.")
    return at


def _start(tangent: np.ndarray, y: Any) -> np.ndarray:
    """The section's y axis at the start: the part of a given direction across the tangent."""
    wanted = np.eye(3)[int(np.argmin(np.abs(tangent)))] if y is None else as_vector(y, 3, "y of a shape")
    across = wanted - tangent * (tangent @ wanted)
    if np.linalg.norm(across) <= PARALLEL * np.linalg.norm(wanted):
        raise ModelError(
            f"y of a shape = {y}; it must not be zero or along the start of the curve, {tangent.tolist()}."
        )
    return _unit(across)


def _along(first: Any, second: Any, u: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arc length from u[0] and rotation-minimising y axes at the parameters u of a curve, from its derivatives."""
    from scipy.integrate import solve_ivp

    def rate(x, state):
        d1, d2 = first(x), second(x)
        speed = np.linalg.norm(d1)
        T = d1 / speed
        dT = (d2 - T * (T @ d2)) / speed
        return np.concatenate([[speed], -(state[1:] @ dT) * T])

    found = solve_ivp(rate, (u[0], u[-1]), np.concatenate([[0.0], Y]), "DOP853", u, rtol=1e-12, atol=1e-14)
    lengths, frames = found.y[0], found.y[1:].T
    T = first(u) / np.linalg.norm(first(u), axis=1)[:, None]
    frames = frames - T * (T * frames).sum(1)[:, None]
    return lengths, frames / np.linalg.norm(frames, axis=1)[:, None]


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)
