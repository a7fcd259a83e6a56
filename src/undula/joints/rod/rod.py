"""A Cosserat rod as a joint whose coordinates are strains (document 002, chapters 2 and 3).

The strain is xi(X) = xi_ref(X) + A Phi(X) q (2.31). The rod is cut at its nodes, the points of a Gauss-Radau quadrature: a
node is a body with the section's inertia times its weight, and between two nodes the pose is a Magnus increment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.core.errors import ModelError, as_vector, is_traced, positive
from undula.core.shapes import ALONG_X, Shape
from undula.joints.joint import Joint
from undula.joints.kind import KINDS, Kind
from undula.joints.rod.basis import COMPONENTS, Basis, bases, components
from undula.joints.rod.group import RodGroup
from undula.joints.rod.magnus import GAUSS
from undula.joints.rod.material import hooke, inertial, refuse_unused, viscous
from undula.joints.rod.quadrature import gauss, radau
from undula.joints.rod.sections import Rectangle, Section
from undula.laws.law import Law

STRAIGHT = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Rod(Joint):
    """A Cosserat rod from the joint's frame (x along the rod) to the body that it carries: the section at its tip.

    In a builder, `body("tip", "hand", Rod(...))` adds the bodies `tip.1`, `tip.2`, ... at the nodes and `tip` at the end; any
    can carry bodies and rods. The coordinates are `tip.Kz1`, ...: a strain's coefficients on its basis [1/m or 1].

    **Arguments:**

    - `length` [m]; `section`: a `Circle`, `Annulus`, `Rectangle`, `Ellipse` or `GivenSection`, or a function of X [m] that
      returns one.
    - `E` [Pa], `G` [Pa] (E / 3 by default: incompressible), `density` [kg/m^3]. Instead of E and G, `stiffness` (6,) or
      (6, 6) [N, N m^2], over (Gx, Gy, Gz, Kx, Ky, Kz); instead of the density, `inertia` (6,) or (6, 6) [kg/m, kg, kg m], over
      (V, Omega), of a rigid section: [[m 1, -S^], [S^, J]] with the mass m, the first moments S and the moments J. Both are
      per length, constant or a function of X.
    - `damping`: time constant mu [s] of Kelvin-Voigt damping D = mu H (2.13), or a matrix as `stiffness` [N s, N m^2 s].
    - `strains`: "reissner", "extensible-kirchhoff", "kirchhoff", "torsion-free", "planar-kirchhoff" (bends about z),
      "planar-reissner" or "bar"; or names out of Gx, Gy, Gz (stretch, shears), Kx (torsion), Ky, Kz (curvatures).
    - `modes`: how many functions (3 by default), for all strains or for each; `basis`: "legendre", "chebyshev", "monomial",
      "piecewise-constant", "piecewise-linear", "b-spline", or a `Basis` object, which has its own number of functions.
    - `reference`: strain (6,) of the rod without stress, or a function of X: precurved and pretwisted rods.
    - `nodes`: how many; by default from the basis. `order`: 4 or 6, of the Magnus increments.
    - `strain`: an imposed field, a function (X, t) -> (6,); the rod is then driven and has no basis.
    - `role`, `motion`, `effort`: as for any joint, over all the coordinates; efforts are in N m^2 (curvatures, torsion) and
      N m (stretch, shears).

    An argument that the others leave without use is refused.
    - `colour`, and `drawn`: full widths along y and z [m] of what a viewer shows; those of the section by default.
    """

    length: Any = 1.0
    section: Section | Callable[[Any], Section] | None = None
    E: Any = None
    G: Any = None
    density: Any = None
    inertia: Any = None
    strains: str | Sequence[str] = "kirchhoff"
    modes: Any = None
    basis: str | Basis = "legendre"
    reference: Any = STRAIGHT
    nodes: int | None = None
    order: int = 4
    strain: Callable[[Any, Any], Any] | None = None
    colour: tuple[float, ...] | None = None
    drawn: tuple[float, float] | None = None

    @property
    def kind(self) -> Kind:
        return KINDS["segment"]


@dataclass(frozen=True)
class Segment(Joint):
    """The piece of a rod between two nodes; its coordinates are the rod's."""

    @property
    def kind(self) -> Kind:
        return KINDS["segment"]


class StrainField(Law):
    """Values of an imposed strain field at the Gauss points of a rod: the motion of its coordinates."""

    function: Callable[[Any, Any], Any] = eqx.field(static=True)
    places: Float[Array, "points"]
    reference: Float[Array, "points 6"]
    strains: tuple[int, ...] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.places.shape[0] * len(self.strains),)

    def value(self, t: Any) -> Array:
        field = jax.vmap(lambda X: jnp.asarray(self.function(X, t), dtype=float))(self.places) - self.reference
        return jnp.stack([field[:, c] for c in self.strains]).reshape(-1)


class RodPlan:
    """The numbers of one rod."""

    def __init__(self, name: str, rod: Rod):
        self.name, self.rod = name, rod
        what = f"the rod '{name}'"
        positive(rod.length, f"length of {what}", "m")
        if rod.order not in GAUSS:
            raise ModelError(f"order of {what} = {rod.order}; it must be 4 or 6.")
        for field in ("rest", "mimic"):
            if getattr(rod, field) not in (0.0, None):
                raise ModelError(
                    f"{field} of {what} has no effect; use reference for a rod that is not straight at rest."
                )
        if not (rod.section is None or callable(rod.section) or isinstance(rod.section, Section)):
            raise ModelError(f"section of {what} = {rod.section!r}; it must be a section, e.g. Circle(0.01).")
        refuse_unused(rod, what)
        self.strains = components(rod.strains, what)
        if rod.strain is None:
            self.bases = bases(self.strains, rod.modes, rod.basis, what)
            breaks = sorted({0.0, 1.0, *(round(x, 12) for basis in self.bases for x in basis.breaks)})
            most = max(b.count for b in self.bases)
        else:
            if rod.motion is not None or rod.effort is not None:
                raise ModelError(f"{what} has an imposed strain, so that it can have no other motion or effort.")
            self.bases, breaks, most = (), [0.0, 1.0], 1
        pieces = len(breaks) - 1
        count = max(10, 2 * most + 6) if pieces == 1 else 3 * pieces
        count = count if rod.nodes is None else rod.nodes
        if rod.strain is not None and rod.nodes is None:
            count = 20
        if isinstance(count, bool) or count != int(count) or count < 1:
            raise ModelError(f"nodes of {what} = {count}; it must be a whole number of at least 1.")
        if count < max(pieces, most if pieces == 1 else pieces):
            raise ModelError(
                f"nodes of {what} = {count}; a basis of {most} functions on {pieces} pieces needs at least {max(most, pieces)}."
            )
        share = [count // pieces + (k < count % pieces) for k in range(pieces)]
        at, weights = [], []
        for lo, hi, n in zip(breaks, breaks[1:], share):
            x, w = radau(n)
            at.append(lo + (hi - lo) * x)
            weights.append((hi - lo) * w)
        self.nodes, self.weights = np.concatenate(at), np.concatenate(weights)  # as fractions of the length
        self.nodes[-1] = 1.0
        self.pieces = np.diff(np.concatenate([[0.0], self.nodes]))
        points, self.gauss_weights = GAUSS[rod.order]
        self.places = (
            np.concatenate([[0.0], self.nodes[:-1]])[:, None] + self.pieces[:, None] * points
        )  # (nodes, gauss)
        # a quadrature for stiffness that is exact for the basis, piece by piece
        x, w = gauss(most + 4 if pieces == 1 else 6)
        self._fine = np.concatenate([lo + (hi - lo) * x for lo, hi in pairwise(breaks)])
        self._fine_weights = np.concatenate([(hi - lo) * w for lo, hi in pairwise(breaks)])

    # Coordinates

    @property
    def count(self) -> int:
        return self.places.size * len(self.strains) if self.rod.strain is not None else sum(b.count for b in self.bases)

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        if self.rod.strain is not None:
            n = self.places.size
            return tuple(f"{self.name}.{COMPONENTS[c]}{k + 1}" for c in self.strains for k in range(n))
        return tuple(
            f"{self.name}.{COMPONENTS[c]}{k + 1}" for c, b in zip(self.strains, self.bases) for k in range(b.count)
        )

    @property
    def units(self) -> tuple[str, ...]:
        each = [self.places.size] * len(self.strains) if self.rod.strain is not None else [b.count for b in self.bases]
        return tuple("1" if c < 3 else "1/m" for c, n in zip(self.strains, each) for _ in range(n))

    @property
    def law(self) -> Law | None:
        """The motion of an imposed strain field."""
        if self.rod.strain is None:
            return None
        X = jnp.asarray(self.places.reshape(-1) * self.rod.length)
        self._check_field(X)
        return StrainField(self.rod.strain, X, jnp.asarray(self._reference(self.places.reshape(-1))), self.strains)

    def _check_field(self, X: Any) -> None:
        """Refuses an imposed field of another shape, or with strains that the rod does not have."""
        what = f"strain of the rod '{self.name}'"
        try:
            shape = jax.eval_shape(lambda: jnp.asarray(self.rod.strain(X[0], jnp.zeros(())), dtype=float)).shape
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise ModelError(f"{what} cannot be computed: {reason}") from error
        if shape != (6,):
            raise ModelError(f"{what} has the shape {shape}; it must be (6,): Gx, Gy, Gz, Kx, Ky, Kz.")
        if is_traced(X):
            return
        blocked = [c for c in range(6) if c not in self.strains]
        values = np.array([np.asarray(self.rod.strain(x, jnp.zeros(()))) for x in (X[0], X[-1])])
        away = np.abs(values - np.asarray(self._reference(self.places.reshape(-1)))[[0, -1]])[:, blocked]
        if blocked and away.max() > 1e-12:
            names = ", ".join(COMPONENTS[c] for c in blocked)
            raise ModelError(f"{what} differs from the reference in strains that it does not have ({names}).")

    def _shapes(self, s: np.ndarray) -> np.ndarray:
        """(points, 6, count) strains of unit coordinates at fractions s of the length."""
        out = np.zeros((len(s), 6, sum(b.count for b in self.bases)))
        k = 0
        for c, basis in zip(self.strains, self.bases):
            out[:, c, k : k + basis.count] = basis.values(s).T
            k += basis.count
        return out

    def shapes(self) -> np.ndarray:
        """(nodes, gauss, 6, count)."""
        n, g = self.places.shape
        if self.rod.strain is None:
            return self._shapes(self.places.reshape(-1)).reshape(n, g, 6, -1)
        unit = np.eye(n * g).reshape(n, g, n * g)
        out = np.zeros((n, g, 6, self.count))
        for k, c in enumerate(self.strains):
            out[:, :, c, k * n * g : (k + 1) * n * g] = unit
        return out

    # Fields along the rod

    def _reference(self, s: np.ndarray) -> Any:
        """(points, 6) strains without stress."""
        if callable(self.rod.reference):
            return _stack([jnp.asarray(self.rod.reference(x * self.rod.length), dtype=float) for x in s], 6)
        value = as_vector(self.rod.reference, 6, f"reference of the rod '{self.name}'")
        return jnp.broadcast_to(value, (len(s), 6)) if is_traced(value) else np.tile(value, (len(s), 1))

    @property
    def present(self) -> tuple[int, ...]:
        """Strains that are not zero throughout."""
        reference = self._reference(self.places.reshape(-1))
        bent = range(6) if is_traced(reference) else np.flatnonzero(np.any(reference != 0, axis=0))
        return tuple(sorted({*self.strains, *(int(c) for c in bent)}))

    def section(self, s: float) -> Section | None:
        return self.rod.section(s * self.rod.length) if callable(self.rod.section) else self.rod.section

    def stiffness(self) -> tuple[Any, Any]:
        """K_ee and D_ee of (2.38), (2.39)."""
        if self.rod.strain is not None:
            return np.zeros((self.count, self.count)), np.zeros((self.count, self.count))
        B, w = self._shapes(self._fine), self._fine_weights
        what, at = f"the rod '{self.name}'", [s * self.rod.length for s in self._fine]
        H = [hooke(self.rod, self.section(s), X, what) for s, X in zip(self._fine, at)]
        D = [viscous(self.rod.damping, h, X, what) for h, X in zip(H, at)]
        K, V = (sum(wk * b.T @ x @ b for wk, b, x in zip(w, B, xs)) * self.rod.length for xs in (H, D))
        return K, V

    def inertials(self) -> list[tuple[Any, Any, Any]]:
        """Mass, centre and inertia about it of the nodes."""
        rod, what = self.rod, f"the rod '{self.name}'"
        return [
            inertial(rod, self.section(s), s * rod.length, w * rod.length, what)
            for s, w in zip(self.nodes, self.weights)
        ]

    def drawn(self) -> list[tuple[Shape, ...]]:
        """What a viewer shows of each node: half of the pieces on both sides, and the whole first one."""
        out: list[tuple[Shape, ...]] = []
        after = np.append(self.pieces[1:], 0.0) / 2
        before = self.pieces / 2
        before[0] *= 2
        for s, back, front in zip(self.nodes, before, after):
            section = self.section(s)
            y, z = section.outline if section is not None else (0.01, 0.01)
            if self.rod.drawn is not None:
                y, z = self.rod.drawn[0] / 2, self.rod.drawn[1] / 2
            if any(is_traced(x) for x in (y, z, self.rod.length)):
                out.append(())  # drawings are static
                continue
            length, centre = (float(x * self.rod.length) for x in (back + front, (front - back) / 2))
            if isinstance(section, Rectangle):
                shape = Shape("box", (length, 2 * y, 2 * z), (centre, 0, 0), colour=self.rod.colour)
            else:
                shape = Shape("capsule", (max(y, z), length), (centre, 0, 0), ALONG_X, self.rod.colour)
            out.append((shape,))
        return out

    def packed(self) -> dict[str, Any]:
        """Arrays of a `RodGroup`, without the axis of rods."""
        K, D = self.stiffness()
        n, g = self.places.shape
        reference = self._reference(self.places.reshape(-1))
        return dict(
            shapes=self.shapes()[:, :, list(self.strains)].transpose(1, 2, 0, 3),
            reference=reference.reshape(n, g, 6).transpose(1, 2, 0),
            steps=self.pieces * self.rod.length,
            stiffness=K,
            damping=D,
            **self._sections(),
            **self._halves(),
        )

    def _halves(self) -> dict[str, Any]:
        """Strains at the Gauss points of pieces of half the length."""
        points = GAUSS[self.rod.order][0]
        starts = np.concatenate([[0.0], self.nodes[:-1]])
        starts = np.stack([starts, starts + self.pieces / 2], 1).reshape(-1)
        s = (starts[:, None] + np.repeat(self.pieces / 2, 2)[:, None] * points).reshape(-1)
        n, g = len(starts), len(points)
        if self.rod.strain is None:
            shapes = self._shapes(s)[:, list(self.strains)]
        else:
            shapes = self._interpolated(s).transpose(1, 0, 2)
        return dict(
            half_shapes=shapes.reshape(n, g, len(self.strains), -1).transpose(1, 2, 0, 3),
            half_reference=self._reference(s).reshape(n, g, 6).transpose(1, 2, 0),
        )

    def _interpolated(self, s: np.ndarray) -> np.ndarray:
        """(strains, points, count): values of an imposed field between the Gauss points."""
        points = self.places.reshape(-1)
        rows = np.stack([np.interp(s, points, unit) for unit in np.eye(len(points))], 1)
        out = np.zeros((len(self.strains), len(s), self.count))
        for k in range(len(self.strains)):
            out[k, :, k * len(points) : (k + 1) * len(points)] = rows
        return out

    def _sections(self) -> dict[str, Any]:
        """What is reported of the root and the nodes."""
        s = np.concatenate([[0.0], self.nodes])
        inside = np.clip(s, 1e-12, 1 - 1e-12)
        if self.rod.strain is None:
            shapes = self._shapes(inside)[:, list(self.strains)].transpose(1, 0, 2)
        else:
            shapes = self._interpolated(inside)
        reference = self._reference(inside)
        return dict(abscissae=s * self.rod.length, section_shapes=shapes, section_reference=reference.T)


def _stack(rows: Sequence[Any], size: int) -> Any:
    if any(is_traced(x) for x in rows):
        return jnp.stack(rows)
    return np.array([as_vector(np.asarray(x), size, "a strain") for x in rows])


def pack(plans: Sequence[RodPlan], links: Sequence[tuple[int, ...]]) -> tuple[RodGroup, ...]:
    """Groups of rods that have the same shape; `links`: those of each rod's nodes."""
    sorted_: dict[Any, list[Any]] = {}
    first = 0
    for plan, mine in zip(plans, links):
        own = tuple(range(first, first + plan.count))
        first += plan.count
        kind = (*plan.places.shape, plan.count, plan.strains, plan.present)
        sorted_.setdefault(kind, []).append((plan.packed(), mine, own))
    groups = []
    for (*_, strains, present), members in sorted_.items():
        arrays = {
            key: jnp.stack([jnp.asarray(m[0][key], dtype=float) for m in members])
            if any(is_traced(m[0][key]) for m in members)
            else jnp.asarray(np.stack([np.asarray(m[0][key], dtype=float) for m in members]))
            for key in members[0][0]
        }
        places = dict(links=tuple(m[1] for m in members), coordinates=tuple(m[2] for m in members))
        groups.append(RodGroup(**arrays, **places, strains=strains, present=present, total=first))
    return tuple(groups)
