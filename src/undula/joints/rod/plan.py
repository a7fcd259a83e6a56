"""From the definition of a rod to arrays: nodes, quadratures, strains of unit coordinates, inertia, stiffness."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import any_traced, stacked
from undula.core.errors import ModelError, as_vector, function_of, instance, is_traced, positive, reason, shown, whole
from undula.core.shapes import ALONG_X, Shape
from undula.joints.rod.basis import COMPONENTS, bases, components
from undula.joints.rod.group import RodGroup
from undula.joints.rod.imposed import StrainField
from undula.joints.rod.law import SHEARED, SectionProperties, check_law
from undula.joints.rod.magnus import GAUSS
from undula.joints.rod.material import hooke, inertial, is_scalar, is_zero, refuse_unused, viscous
from undula.joints.rod.quadrature import gauss, radau
from undula.joints.rod.rod import Rod
from undula.joints.rod.sections import Rectangle, Section
from undula.joints.rod.shape import RodShape
from undula.laws.law import Law
from undula.numerics.programs import quickly_compiled

MOST_NODES = 2000  # of a rod: the points of its quadrature are eigenvalues of a matrix of this size
MOST_NUMBERS = 1_000_000  # nodes times coordinates: each node stores the strain that each coordinate causes
SAME = 1e-12  # fractions of a rod's length that differ by less are considered equal


class RodPlan:
    """The arrays of one rod.

    `extra`: abscissae [m] of additional nodes, which carry bodies and have no weight in the quadrature.
    """

    def __init__(self, name: str, rod: Rod, extra: Sequence[float] = ()):
        self.name, self.rod = name, rod
        what = f"the rod '{name}'"
        positive(rod.length, f"length of {what}", "m")
        _check_functions(rod, what)
        if whole(rod.order, f"order of {what}") not in GAUSS:
            raise ModelError(f"order of {what} = {shown(rod.order)}; it must be 4 or 6.")
        if rod.drawn is not None:
            for x in as_vector(rod.drawn, 2, f"drawn of {what}"):
                positive(x, f"drawn of {what}", "m")
        for field in ("rest", "mimic"):
            if getattr(rod, field) not in (0.0, None):
                raise ModelError(
                    f"{field} of {what} has no effect; use reference for a rod that is not straight at rest."
                )
        section = rod.section
        if isinstance(section, type) or not (section is None or callable(section) or isinstance(section, Section)):
            raise ModelError(f"section of {what} = {shown(section)}; it must be a section, e.g. Circle(0.01).")
        refuse_unused(rod, what)
        self.strains = components(rod.strains, what)
        if rod.shear_factor is not None and not set(self.strains) & set(SHEARED):
            raise ModelError(f"shear_factor of {what} would not be used: its strains include neither Gy nor Gz.")
        if rod.material is not None:
            self._check_material(what)
        if rod.strain is None:
            self.bases = bases(self.strains, rod.modes, rod.basis, what)
            breaks = sorted({0.0, 1.0, *(round(x, 12) for basis in self.bases for x in basis.breaks)})
            max_modes = max(b.count for b in self.bases)
        else:
            if rod.motion is not None or rod.effort is not None:
                raise ModelError(f"{what} has an imposed strain, so it cannot have another motion or an effort.")
            self.bases, breaks, max_modes = (), [0.0, 1.0], 1
        pieces = len(breaks) - 1
        count = max(10, 2 * max_modes + 6) if pieces == 1 else 3 * pieces
        count = count if rod.nodes is None else rod.nodes
        if rod.strain is not None and rod.nodes is None:
            count = 20
        count = whole(count, f"nodes of {what}", at_least=1)
        if count > MOST_NODES:
            raise ModelError(
                f"nodes of {what} = {count}; at most {MOST_NODES} are allowed: a quadrature of as many points as the basis has "
                "functions, and a few more, is exact."
            )
        if count < max(pieces, max_modes if pieces == 1 else pieces):
            raise ModelError(
                f"nodes of {what} = {count}; a basis of {max_modes} functions on {pieces} pieces needs at least "
                f"{max(max_modes, pieces)}."
            )
        share = [count // pieces + (k < count % pieces) for k in range(pieces)]
        at, parts = [], []
        for lo, hi, n in zip(breaks, breaks[1:], share):
            x, w = radau(n)
            at.append(lo + (hi - lo) * x)
            parts.append((hi - lo) * w)
        nodes, weights = np.concatenate(at), np.concatenate(parts)  # as fractions of the length
        nodes[-1] = 1.0
        more = [s for s in sorted(X / float(rod.length) for X in extra) if np.abs(nodes - s).min() > SAME]
        order = np.argsort(np.concatenate([nodes, more]), kind="stable")
        self.nodes = np.concatenate([nodes, more])[order]
        self.weights = np.concatenate([weights, np.zeros(len(more))])[order]
        self.extra = order >= len(nodes)  # which nodes are additional ones
        self.pieces = np.diff(np.concatenate([[0.0], self.nodes]))
        points, self.gauss_weights = GAUSS[rod.order]
        self.places = (
            np.concatenate([[0.0], self.nodes[:-1]])[:, None] + self.pieces[:, None] * points
        )  # (nodes, gauss)
        # a quadrature for stiffness that is exact for the basis, piece by piece
        x, w = gauss(max_modes + 4 if pieces == 1 else 6)
        self._fine = np.concatenate([lo + (hi - lo) * x for lo, hi in pairwise(breaks)])
        self._fine_weights = np.concatenate([(hi - lo) * w for lo, hi in pairwise(breaks)])
        if len(self.nodes) * self.count > MOST_NUMBERS:
            raise ModelError(
                f"{what} has {len(self.nodes)} nodes and {self.count} coordinates; their product is at most {MOST_NUMBERS}: "
                "use fewer nodes or modes."
            )
        if isinstance(rod.reference, RodShape):
            rod.reference.check(self, what)

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
        X = self.places.reshape(-1) * self.rod.length
        self._check_field(X)
        return StrainField(self.rod.strain, X, self._reference(self.places.reshape(-1)), self.strains)

    def _check_field(self, X: Any) -> None:
        """Rejects an imposed field of the wrong shape, or with strains that the rod does not have."""
        what, strain = f"strain of the rod '{self.name}'", self.rod.strain
        assert strain is not None
        try:
            shape = jax.eval_shape(lambda X, t: jnp.asarray(strain(X, t), dtype=float), X[0], np.zeros(())).shape
        except Exception as error:
            raise ModelError(f"{what} cannot be computed: {reason(error)}.") from error
        if shape != (6,):
            raise ModelError(f"{what} has the shape {shape}; it must be (6,): Gx, Gy, Gz, Kx, Ky, Kz.")
        if is_traced(X):
            return
        blocked = [c for c in range(6) if c not in self.strains]
        values = np.asarray(_strains_at(strain, X[[0, -1]], np.zeros(())))
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

    # Sections

    @property
    def length(self) -> Any:
        return self.rod.length

    def node_at(self, X: Any) -> int | None:
        """The node at an abscissa [m]; None if there is none."""
        near = np.abs(self.nodes - X / self.rod.length)
        return int(np.argmin(near)) if near.min() <= SAME else None

    def piece_before(self, X: float) -> dict[str, Any]:
        """The part before X [m] of the piece that contains X: index, arrays of `Pieces`, arrays for the strain at X."""
        s = X / self.rod.length
        starts = np.concatenate([[0.0], self.nodes[:-1]])
        k = int(np.searchsorted(starts, s, side="right")) - 1
        at = starts[k] + (s - starts[k]) * GAUSS[self.rod.order][0]
        end = np.clip(np.array([s]), 1e-12, 1 - 1e-12)
        return dict(
            piece=k,
            shapes=self._own_shapes(at)[:, :, None],
            reference=np.asarray(self._reference(at))[:, :, None],
            steps=np.array([X - starts[k] * self.rod.length]),
            end_shapes=self._own_shapes(end)[0],
            end_reference=np.asarray(self._reference(end))[0],
        )

    def _own_shapes(self, s: Any) -> Any:
        """(points, strains, count): unblocked strains of unit coordinates."""
        if self.rod.strain is not None:
            return self._interpolated(s).transpose(1, 0, 2)
        return self._shapes(s)[:, list(self.strains)]

    @property
    def reference_function(self) -> Any:
        """The stress-free strain as a function of X, or None if it is constant."""
        return self.rod.reference if callable(self.rod.reference) else None

    def anywhere(self) -> dict[str, Any]:
        """Arrays of the rod that are needed if X is not known in advance: its length, where its pieces start, as
        fractions,
        and its stress-free strain, if that is constant."""
        constant = np.zeros(6) if callable(self.rod.reference) else self._reference(np.zeros(1))[0]
        return dict(length=self.rod.length, starts=np.concatenate([[0.0], self.nodes[:-1]]), constant=constant)

    @property
    def points(self) -> tuple[float, ...]:
        """Fractions of the length at which an imposed field is given; () without one."""
        return tuple(float(x) for x in self.places.reshape(-1)) if self.rod.strain is not None else ()

    @property
    def gauss(self) -> tuple[float, ...]:
        """Gauss points of a piece, as fractions."""
        return tuple(float(x) for x in GAUSS[self.rod.order][0])

    # Fields along the rod

    def _reference(self, s: np.ndarray) -> Any:
        """(points, 6) stress-free strains."""
        if callable(self.rod.reference):
            found = [self.rod.reference(x * self.rod.length) for x in s]
            return self._stretched(_stack(found, 6, f"reference of the rod '{self.name}'"))
        value = self._stretched(as_vector(self.rod.reference, 6, f"reference of the rod '{self.name}'"))
        return jnp.broadcast_to(value, (len(s), 6)) if is_traced(value) else np.tile(value, (len(s), 1))

    def _stretched(self, reference: Any) -> Any:
        """Stress-free strains (..., 6), refused where the rod would have no length or run backwards."""
        if not is_traced(reference) and (reference[..., 0] <= 0).any():
            least = reference.reshape(-1, 6)[np.argmin(reference.reshape(-1, 6)[:, 0])]
            raise ModelError(
                f"reference of the rod '{self.name}' = {least.tolist()}; its stretch Gx must be positive, 1 "
                "if the abscissa is the arc length."
            )
        return reference

    @property
    def present(self) -> tuple[int, ...]:
        """Strains that are not identically zero."""
        reference = self._reference(self.places.reshape(-1))
        bent = range(6) if is_traced(reference) else np.flatnonzero(np.any(reference != 0, axis=0))
        return tuple(sorted({*self.strains, *(int(c) for c in bent)}))

    def section(self, X: Any) -> Section | None:
        """The section at an abscissa [m]; None if the rod has none."""
        if not callable(self.rod.section):
            return self.rod.section
        return instance(
            self.rod.section(X), Section, f"section of the rod '{self.name}' at X = {shown(X)} m", "a section"
        )

    def hooke(self, X: Any) -> Any:
        """Stiffness (6, 6) per length at an abscissa [m]: stress over strain [N, N m, N m^2]."""
        return hooke(self.rod, self.section(X), X, f"the rod '{self.name}'")

    @property
    def has_stiffness(self) -> bool:
        """Whether the stiffness of its sections is given: E and a section, or `stiffness`."""
        return not is_zero(self.rod.stiffness) or (self.rod.E is not None and self.rod.section is not None)

    def properties(self, X: Any) -> SectionProperties | None:
        """Area, second moments and torsion constant of the section at an abscissa [m]; None if the rod has no section."""
        section = self.section(X)
        return None if section is None else SectionProperties(section.area, *section.moments, section.torsion)

    def reference_at(self, X: Any) -> Any:
        """The stress-free strain (6,) at an abscissa [m]."""
        given = self.rod.reference
        return given(X) if callable(given) else as_vector(given, 6, f"reference of the rod '{self.name}'")

    def _check_material(self, what: str) -> None:
        stiffness = self.hooke(0.0) if self.has_stiffness else None
        damping = self.rod.damping
        multiple = is_scalar(damping) and not is_zero(damping)
        check_law(self.rod.material, stiffness, self.properties(0.0), multiple, what)

    def stiffness(self) -> tuple[Any, Any]:
        """K_ee and D_ee of (2.38), (2.39); K_ee is zero if the rod has a material law instead."""
        if self.rod.strain is not None:
            return np.zeros((self.count, self.count)), np.zeros((self.count, self.count))
        B, w = self._shapes(self._fine), self._fine_weights
        what, at = f"the rod '{self.name}'", [s * self.rod.length for s in self._fine]
        H = [self.hooke(X) for X in at]
        D = [viscous(self.rod.damping, h, X, what) for h, X in zip(H, at)]
        K, V = (sum(wk * b.T @ x @ b for wk, b, x in zip(w, B, xs)) * self.rod.length for xs in (H, D))
        return (np.zeros((self.count, self.count)) if self.rod.material is not None else K), V

    def inertials(self) -> list[tuple[Any, Any, Any, Any]]:
        """Mass, centre of mass and inertia about it of the nodes, and their weightless inertia (6, 6) or None."""
        rod, what = self.rod, f"the rod '{self.name}'"
        return [
            inertial(rod, self.section(s * rod.length), s * rod.length, w * rod.length, what)
            for s, w in zip(self.nodes, self.weights)
        ]

    def drawn(self) -> list[tuple[Shape, ...]]:
        """Shapes that a viewer shows for each node: half of the pieces on both sides, and all of the first one."""
        out: list[tuple[Shape, ...]] = []
        after = np.append(self.pieces[1:], 0.0) / 2
        before = self.pieces / 2
        before[0] *= 2
        for s, back, front in zip(self.nodes, before, after):
            section = self.section(s * self.rod.length)
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
        n, g = self.places.shape
        reference = self._reference(self.places.reshape(-1))
        return dict(
            shapes=self.shapes()[:, :, list(self.strains)].transpose(1, 2, 0, 3),
            reference=reference.reshape(n, g, 6).transpose(1, 2, 0),
            steps=self.pieces * self.rod.length,
            weights=self.weights * self.rod.length,
            gauss_weights=self.gauss_weights[:, None] * self.pieces * self.rod.length,
            gauss_abscissae=self.places.T * self.rod.length,
            **self.anywhere(),
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
        shapes = self._own_shapes(s)
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
        """Arrays for what is reported at the root and the nodes."""
        s = np.concatenate([[0.0], self.nodes])
        inside = np.clip(s, 1e-12, 1 - 1e-12)
        shapes = self._own_shapes(inside).transpose(1, 0, 2)
        reference = self._reference(inside)
        return dict(abscissae=s * self.rod.length, section_shapes=shapes, section_reference=reference.T)


def _stack(rows: Sequence[Any], size: int, what: str) -> Any:
    if any_traced(rows):
        return stacked(rows)
    return np.array([as_vector(x, size, what) for x in rows])


def _check_functions(rod: Rod, what: str) -> None:
    """Refuses fields of a rod that are functions of something other than X."""
    for name in ("section", "stiffness", "inertia", "mass", "damping", "shear_factor", "reference"):
        value = getattr(rod, name)
        if callable(value) and not isinstance(value, Section) and not (name == "section" and isinstance(value, type)):
            timed = name == "reference"
            remedy = "; a stress-free strain that changes with time is un.forces.StressFreeStrain" if timed else ""
            function_of(value, ("X",), f"{name} of {what}", remedy)
    if rod.strain is not None:
        function_of(rod.strain, ("X", "t"), f"strain of {what}")


@quickly_compiled
def _strains_at(field: Any, X: Any, t: Any) -> Any:
    """(points, 6) strains of an imposed field."""
    return jax.vmap(lambda X: jnp.asarray(field(X, t), dtype=float))(X)


def pack(plans: Sequence[RodPlan], links: Sequence[tuple[int, ...]], driven: Sequence[bool]) -> tuple[RodGroup, ...]:
    """Groups of rods of the same shape; `links`: of each rod's nodes; `driven`: whether all of its coordinates are."""
    sorted_: dict[Any, list[Any]] = {}
    first = 0
    for k, (plan, mine) in enumerate(zip(plans, links)):
        own = tuple(range(first, first + plan.count))
        first += plan.count
        kind = (*plan.places.shape, plan.count, plan.strains, plan.present)
        sorted_.setdefault(kind, []).append((plan.packed(), mine, own, k))
    groups = []
    for (*_, strains, present), members in sorted_.items():
        arrays = {key: stacked([m[0][key] for m in members]) for key in members[0][0]}
        places: dict[str, Any] = dict(links=tuple(m[1] for m in members), coordinates=tuple(m[2] for m in members))
        rods = tuple(m[3] for m in members)
        groups.append(
            RodGroup(
                **arrays,
                **places,
                strains=strains,
                present=present,
                total=first,
                rods=rods,
                elastic=not all(driven[k] for k in rods),
                gauss=plans[rods[0]].gauss,
                bases=tuple(plans[k].bases for k in rods),
                points=tuple(plans[k].points for k in rods),
                functions=tuple(plans[k].reference_function for k in rods),
            )
        )
    return tuple(groups)
