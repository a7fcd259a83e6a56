"""Strain fields on a basis: which strains a rod has, and the functions in which they are expanded.

A strain is xi = (Gx, Gy, Gz, Kx, Ky, Kz): stretch, two shears, torsion and two curvatures, of a rod along x.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import namespace
from undula.core.errors import ModelError, function_of, numbers, reason, shown, whole

USUAL = 3  # modes by default
MOST_MODES = 1000
DEGREE = 24  # of the polynomials that replace given functions at a traced abscissa
COMPONENTS = ("Gx", "Gy", "Gz", "Kx", "Ky", "Kz")

# Classes of rods: the unblocked strains. The first five are from document 000, table 5.1; the others are additions.
CLASSES: dict[str, tuple[str, ...]] = {
    "reissner": COMPONENTS,
    "extensible-kirchhoff": ("Gx", "Kx", "Ky", "Kz"),
    "kirchhoff": ("Kx", "Ky", "Kz"),
    "torsion-free": ("Ky", "Kz"),
    "planar-kirchhoff": ("Kz",),
    "planar-reissner": ("Gy", "Kz"),
    "bar": ("Gx",),
}


@dataclass(frozen=True)
class Basis(abc.ABC):
    """Functions on s = X / length in [0, 1]: `count` of them, smooth between the `breaks`."""

    count: int

    def __post_init__(self):
        object.__setattr__(self, "count", whole(self.count, "modes", at_least=1))
        if self.count > MOST_MODES:
            raise ModelError(f"modes = {shown(self.count)}; a basis has at most {MOST_MODES} functions.")

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where the functions are not smooth, inside (0, 1)."""
        return ()

    @abc.abstractmethod
    def values(self, s: Any) -> Any:
        """(count, points) values at the points s (points,), a NumPy array or traced by JAX."""


def _recurrence(s: Any, count: int, following: Callable[[int, Any, Any, Any], Any]) -> Any:
    """Polynomials of x = 2 s - 1 that start with 1 and x; `following(i, x, last, before)` gives the i-th."""
    x = 2 * s - 1
    rows = [0 * x + 1, x]
    for i in range(2, count):
        rows.append(following(i, x, rows[-1], rows[-2]))
    return namespace(s).stack(rows[:count])


class Legendre(Basis):
    """Legendre polynomials of 2 s - 1: orthogonal, so that the stiffness of a uniform rod is diagonal."""

    def values(self, s):
        return _recurrence(s, self.count, lambda i, x, a, b: (a * x * (2 * i - 1) - b * (i - 1)) / i)


class Chebyshev(Basis):
    """Chebyshev polynomials of 2 s - 1."""

    def values(self, s):
        return _recurrence(s, self.count, lambda i, x, a, b: 2 * x * a - b)


class Monomial(Basis):
    """1, s, s^2, ..."""

    def values(self, s):
        rows = [0 * s + 1]
        for _ in range(self.count - 1):
            rows.append(rows[-1] * s)
        return namespace(s).stack(rows)


class PiecewiseConstant(Basis):
    """`count` pieces of equal length, each of constant strain."""

    @property
    def breaks(self):
        return tuple(k / self.count for k in range(1, self.count))

    def values(self, s):
        xp = namespace(s)
        piece = xp.clip(xp.floor(s * self.count), 0, self.count - 1)
        return (piece == np.arange(self.count)[:, None]).astype(float)


class PiecewiseLinear(Basis):
    """Hat functions on `count` equidistant points, both ends included."""

    def __post_init__(self):
        super().__post_init__()
        if self.count < 2:
            raise ModelError(f"modes = {self.count}; a piecewise linear basis needs at least 2 points.")

    @property
    def breaks(self):
        return tuple(k / (self.count - 1) for k in range(1, self.count - 1))

    def values(self, s):
        xp = namespace(s)
        away = xp.abs(s * (self.count - 1) - np.arange(self.count)[:, None])
        return xp.maximum(1 - away, 0.0)


@dataclass(frozen=True)
class BSpline(Basis):
    """B-splines of the given `degree` on equidistant knots, clamped at the ends."""

    degree: int = 3

    def __post_init__(self):
        super().__post_init__()
        whole(self.degree, "degree of a B-spline", at_least=1)
        if self.count <= self.degree:
            raise ModelError(
                f"modes = {self.count}; a B-spline of degree {shown(self.degree)} needs at least {shown(self.degree + 1)}."
            )

    @property
    def breaks(self):
        pieces = self.count - self.degree
        return tuple(k / pieces for k in range(1, pieces))

    def values(self, s):
        # Cox-de Boor recursion, from the piece that contains s
        xp, d = namespace(s), self.degree
        knots = np.concatenate([np.zeros(d + 1), self.breaks, np.ones(d + 1)])
        pieces = self.count - d
        piece = xp.clip(xp.floor(s * pieces), 0, pieces - 1)
        rows = [(piece == k - d) * 1.0 for k in range(len(knots) - 1)]
        for p in range(1, d + 1):
            rows = [
                sum(
                    (
                        part
                        for part in (
                            (s - knots[i]) / (knots[i + p] - knots[i]) * rows[i] if knots[i + p] > knots[i] else None,
                            (knots[i + p + 1] - s) / (knots[i + p + 1] - knots[i + 1]) * rows[i + 1]
                            if knots[i + p + 1] > knots[i + 1]
                            else None,
                        )
                        if part is not None
                    ),
                    0 * s,
                )
                for i in range(len(rows) - 1)
            ]
        return xp.stack(rows)


@dataclass(frozen=True)
class GivenBasis(Basis):
    """User-defined functions: `function(s)` gives (count, points) values at points s (points,).

    They must be smooth between the `corners`: where s is traced, they are evaluated as polynomials of degree 24 through
    their values at the Chebyshev points.
    """

    function: Callable[[np.ndarray], np.ndarray] = lambda s: np.ones((1, len(s)))
    corners: tuple[float, ...] = ()

    def __post_init__(self):
        super().__post_init__()
        function_of(self.function, ("s",), "function of a given basis")
        at = numbers(self.corners, "corners of a given basis")
        if at.ndim != 1 or (at <= 0).any() or (at >= 1).any() or (np.diff(at) <= 0).any():
            raise ModelError(f"corners of a given basis = {shown(self.corners)}; they must increase between 0 and 1.")

    @property
    def breaks(self):
        return tuple(self.corners)

    def values(self, s):
        if namespace(s) is jnp:
            return self._interpolated(s)
        try:
            out = np.asarray(self.function(s), dtype=float)
        except Exception as error:
            raise ModelError(f"a given basis cannot be computed: {reason(error)}.") from error
        if out.shape != (self.count, len(s)) or not np.all(np.isfinite(out)):
            raise ModelError(
                f"a given basis returned the shape {out.shape}; it must be ({self.count}, {len(s)}) finite numbers."
            )
        return out

    def _interpolated(self, s):
        edges = np.array([0.0, *self.corners, 1.0])
        x = np.cos((np.arange(DEGREE + 1) + 0.5) * np.pi / (DEGREE + 1))
        total = 0.0
        for k, (lo, hi) in enumerate(pairwise(edges)):
            table = np.polynomial.chebyshev.chebfit(x, self.values((lo + hi) / 2 + (hi - lo) / 2 * x).T, DEGREE)
            basis = _recurrence((jnp.clip(s, lo, hi) - lo) / (hi - lo), DEGREE + 1, lambda i, x, a, b: 2 * x * a - b)
            inside = ((s >= lo) | (k == 0)) & ((s < hi) | (k == len(edges) - 2))
            total = total + inside * (jnp.asarray(table)[:, :, None] * basis[:, None]).sum(0)
        return total


BASES: dict[str, type[Basis]] = {
    "legendre": Legendre,
    "chebyshev": Chebyshev,
    "monomial": Monomial,
    "piecewise-constant": PiecewiseConstant,
    "piecewise-linear": PiecewiseLinear,
    "b-spline": BSpline,
}


def components(strains: str | Sequence[str], what: str) -> tuple[int, ...]:
    """Indices of the strains of a class, or of given names."""
    if not isinstance(strains, str | Sequence) or (isinstance(strains, str) and strains not in CLASSES):
        raise ModelError(
            f"strains of {what} = {shown(strains)}; it must be one of {', '.join(CLASSES)}, or names of strains."
        )
    names = CLASSES[strains] if isinstance(strains, str) else tuple(strains)
    for name in names:
        if name not in COMPONENTS:
            raise ModelError(f"strains of {what}: {shown(name)} is none of {', '.join(COMPONENTS)}.")
    if len(set(names)) < len(names) or not names:
        raise ModelError(f"strains of {what} = {', '.join(names) or '(none)'}; name at least one, each only once.")
    return tuple(COMPONENTS.index(name) for name in names)


def bases(strains: tuple[int, ...], modes: Any, basis: Any, what: str) -> tuple[Basis, ...]:
    """One basis per strain, from one number of modes or one per strain (by name or in order), and one kind of basis."""
    names = [COMPONENTS[c] for c in strains]
    if isinstance(basis, Basis):
        if modes is not None:
            raise ModelError(
                f"modes of {what} = {modes}, but its basis has a number of functions of its own; give one of them."
            )
        return (basis,) * len(names)
    modes = USUAL if modes is None else modes
    if isinstance(modes, dict):
        for name in modes:
            if name not in names:
                raise ModelError(
                    f"modes of {what}: it has no strain {shown(name)}; its strains are {', '.join(names)}."
                )
        missing = [name for name in names if name not in modes]
        if missing:
            raise ModelError(f"modes of {what}: none is given for {', '.join(missing)}.")
        counts = [modes[name] for name in names]
    else:
        several = (isinstance(modes, Sequence) and not isinstance(modes, str)) or getattr(modes, "ndim", 0) == 1
        counts = list(modes) if several else [modes] * len(names)
    if len(counts) != len(names):
        raise ModelError(f"modes of {what} has {len(counts)} values; it must have 1 or {len(names)}.")
    if isinstance(basis, str):
        if basis not in BASES:
            raise ModelError(f"basis of {what} = {shown(basis)}; it must be one of {', '.join(BASES)}, or a basis.")
        return tuple(BASES[basis](whole(count, f"modes of {what}", at_least=1)) for count in counts)
    raise ModelError(f"basis of {what} = {shown(basis)}; it must be one of {', '.join(BASES)}, or a basis.")
