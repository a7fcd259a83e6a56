"""Strain fields on a basis: which strains a rod has, and the functions that they are sums of.

A strain is xi = (Gx, Gy, Gz, Kx, Ky, Kz): stretch, two shears, torsion and two curvatures, of a rod along x.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from undula.core.errors import ModelError

USUAL = 3  # modes, if nothing is said
COMPONENTS = ("Gx", "Gy", "Gz", "Kx", "Ky", "Kz")

# Classes of rods: the strains that are not blocked. The first five are those of document 000, table 5.1; the others are ours.
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
        if isinstance(self.count, bool) or self.count != int(self.count) or self.count < 1:
            raise ModelError(f"modes = {self.count}; a basis needs a whole number of functions, at least 1.")

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where the functions are not smooth, inside (0, 1)."""
        return ()

    @abc.abstractmethod
    def values(self, s: np.ndarray) -> np.ndarray:
        """(count, points) values at the points s."""


class Legendre(Basis):
    """Legendre polynomials of 2 s - 1: orthogonal, so that the stiffness of a uniform rod is diagonal."""

    def values(self, s):
        return np.polynomial.legendre.legvander(2 * s - 1, self.count - 1).T


class Chebyshev(Basis):
    """Chebyshev polynomials of 2 s - 1."""

    def values(self, s):
        return np.polynomial.chebyshev.chebvander(2 * s - 1, self.count - 1).T


class Monomial(Basis):
    """1, s, s^2, ..."""

    def values(self, s):
        return np.vander(s, self.count, increasing=True).T


class PiecewiseConstant(Basis):
    """`count` pieces of equal length, each of a constant strain."""

    @property
    def breaks(self):
        return tuple(k / self.count for k in range(1, self.count))

    def values(self, s):
        piece = np.clip(np.floor(s * self.count), 0, self.count - 1)
        return (piece == np.arange(self.count)[:, None]).astype(float)


class PiecewiseLinear(Basis):
    """Hats on `count` equidistant points, both ends included."""

    def __post_init__(self):
        super().__post_init__()
        if self.count < 2:
            raise ModelError(f"modes = {self.count}; a piecewise linear basis needs at least 2 points.")

    @property
    def breaks(self):
        return tuple(k / (self.count - 1) for k in range(1, self.count - 1))

    def values(self, s):
        at = np.linspace(0, 1, self.count)
        return np.stack([np.interp(s, at, row) for row in np.eye(self.count)])


@dataclass(frozen=True)
class BSpline(Basis):
    """B-splines of a `degree` on equidistant knots, clamped at the ends."""

    degree: int = 3

    def __post_init__(self):
        super().__post_init__()
        if self.degree < 1 or self.count <= self.degree:
            raise ModelError(
                f"modes = {self.count}; a B-spline of degree {self.degree} needs at least {self.degree + 1}."
            )

    @property
    def breaks(self):
        pieces = self.count - self.degree
        return tuple(k / pieces for k in range(1, pieces))

    def values(self, s):
        from scipy.interpolate import BSpline as Spline

        knots = np.concatenate([np.zeros(self.degree + 1), self.breaks, np.ones(self.degree + 1)])
        return Spline.design_matrix(np.clip(s, 0, 1), knots, self.degree).toarray().T


@dataclass(frozen=True)
class GivenBasis(Basis):
    """Functions of your own: `function(s)` gives (count, points) values at points s (points,)."""

    function: Callable[[np.ndarray], np.ndarray] = lambda s: np.ones((1, len(s)))
    corners: tuple[float, ...] = ()

    @property
    def breaks(self):
        return tuple(self.corners)

    def values(self, s):
        out = np.asarray(self.function(s), dtype=float)
        if out.shape != (self.count, len(s)) or not np.all(np.isfinite(out)):
            raise ModelError(
                f"a given basis returned the shape {out.shape}; it must be ({self.count}, {len(s)}) finite numbers."
            )
        return out


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
    if isinstance(strains, str) and strains not in CLASSES:
        raise ModelError(
            f"strains of {what} = {strains!r}; it must be one of {', '.join(CLASSES)}, or names of strains."
        )
    names = CLASSES[strains] if isinstance(strains, str) else tuple(strains)
    for name in names:
        if name not in COMPONENTS:
            raise ModelError(f"strains of {what}: {name!r} is none of {', '.join(COMPONENTS)}.")
    if len(set(names)) < len(names) or not names:
        raise ModelError(
            f"strains of {what} = {', '.join(names) or '(none)'}; each may be named once, at least one must be."
        )
    return tuple(COMPONENTS.index(name) for name in names)


def bases(strains: tuple[int, ...], modes: Any, basis: Any, what: str) -> tuple[Basis, ...]:
    """One basis a strain, from one number of modes or one a strain (by name or in order), and one kind of basis."""
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
                raise ModelError(f"modes of {what}: it has no strain {name!r}; its strains are {', '.join(names)}.")
        missing = [name for name in names if name not in modes]
        if missing:
            raise ModelError(f"modes of {what}: none is given for {', '.join(missing)}.")
        counts = [modes[name] for name in names]
    else:
        counts = list(modes) if isinstance(modes, Sequence) else [modes] * len(names)
    if len(counts) != len(names):
        raise ModelError(f"modes of {what} has {len(counts)} values; it must have 1 or {len(names)}.")
    if isinstance(basis, str):
        if basis not in BASES:
            raise ModelError(f"basis of {what} = {basis!r}; it must be one of {', '.join(BASES)}, or a basis.")
        return tuple(BASES[basis](count) for count in counts)
    raise ModelError(f"basis of {what} = {basis!r}; it must be one of {', '.join(BASES)}, or a basis.")
