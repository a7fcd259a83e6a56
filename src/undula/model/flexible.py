"""Flexible bodies with assumed modes on a floating frame (document 001, appendix B).

The body is a set of material points; point i is displaced by sum_m modes[m, i] q_m from its rest position. This is
exactly a set of point masses on prismatic joints that follow the modal coordinates, so a flexible body needs no
dynamics of its own: the tree recursions for these masses yield the generalised Newton-Euler model (69).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, as_vector, is_traced, positive
from undula.core.shapes import Shape
from undula.elements.site import Site
from undula.joints.fixed import Fixed
from undula.joints.joint import Joint, Mimic, unit_vector
from undula.joints.rod.quadrature import radau
from undula.joints.screw import Prismatic, Revolute
from undula.model.builder import Builder
from undula.model.coordinates import each
from undula.model.sections import Sections

ABSENT = 1e-12  # a displacement below this fraction of the largest one of its mode is ignored


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


def clamped_modes(count: int = 1, length: float = 1.0, nodes: int = 8) -> ClampedModes:
    """The first `count` bending modes of a clamped-free Euler-Bernoulli beam, `length` [m], at `nodes` points."""
    from scipy.optimize import brentq

    for what, value in (("count", count), ("nodes", nodes)):
        if isinstance(value, bool) or value != int(value) or value < 1:
            raise ModelError(f"{what} of clamped_modes = {value}; it must be a whole number of at least 1.")
    if not length > 0:
        raise ModelError(f"length of clamped_modes = {length} m; it must be positive.")
    x, w = radau(nodes)  # one node is the tip
    # cos z cosh z = -1 has one root in each interval between multiples of pi
    roots = np.array(
        [brentq(lambda z: np.cos(z) + 1 / np.cosh(z), k * np.pi, (k + 1) * np.pi, xtol=1e-14) for k in range(count)]
    )
    tips = np.array([_clamped(z, 1.0) for z in roots])
    shapes = np.array([_clamped(z, x) / tip for z, tip in zip(roots, tips)])
    # with deflection 1 at the tip, the integrals of phi^2 and phi''^2 are length / 4 and beta^4 length / 4
    return ClampedModes(length * x, length * w, shapes, roots**4 / (4 * length**3), roots)


def _clamped(z: float, x: Any) -> Any:
    """cosh zx - cos zx - s (sinh zx - sin zx), with the growing exponentials cancelled analytically."""
    rest = (np.sin(z) - np.cos(z) - np.exp(-z)) / (np.sinh(z) + np.sin(z))  # 1 - s
    return np.exp(-z * x) + rest * np.sinh(z * x) - np.cos(z * x) + (1 - rest) * np.sin(z * x)


def _clamped_slope(z: float, x: Any) -> Any:
    """The derivative of that with respect to x."""
    rest = (np.sin(z) - np.cos(z) - np.exp(-z)) / (np.sinh(z) + np.sin(z))
    return z * (rest * np.cosh(z * x) - np.exp(-z * x) + np.sin(z * x) + (1 - rest) * np.cos(z * x))


def add_beam(
    builder: Builder,
    name: str,
    parent: str | Site,
    length: float,
    density: float,
    bending: Any,
    modes: int = 1,
    damping: float = 0.0,
    direction: Any = (1.0, 0.0, 0.0),
    bends: Any = (0.0, 1.0, 0.0),
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = None,
    joint: Joint | None = None,
    nodes: int = 8,
    width: float | None = None,
    colour: tuple[float, ...] | None = None,
) -> tuple[str, ...]:
    """Adds a uniform Euler-Bernoulli beam, clamped to a new body `name` and free at its tip.

    `on(name, X)` is the section at the distance X [m] from the clamp, which moves and turns with the beam: the parent of a tip
    mass or of another beam, or the site of a load, a constraint, a contact or a sensor.

    **Arguments:**

    - `length` [m], `density` [kg/m], `bending`: the stiffness EI [N m^2].
    - `modes`: number of clamped modes; each coordinate is the deflection of the tip in its mode [m].
    - `damping` [s]: stiffness-proportional; a modal damper is this time multiplied by the modal stiffness.
    - `direction` of the beam and `bends`, the direction of its deflection, in the frame of `name`; several directions (k, 3)
      give `modes` coordinates each, with `bending` one number or one per direction.
    - `position`, `rotation` of the clamp in `parent`; `joint`: what carries it (fixed by default).
    - `nodes`: number of material points; `width` [m] and `colour` of what is drawn.

    **Returns:**

    The names of the modal coordinates, `name.mode1`, ...
    """
    positive(length, f"length of the beam '{name}'", "m")
    positive(density, f"density of the beam '{name}'", "kg/m")
    found = clamped_modes(modes, length, nodes)
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


def add_flexible(
    builder: Builder,
    name: str,
    parent: str | Site,
    positions: Any,
    masses: Any,
    modes: Any,
    stiffness: Any,
    damping: Any = 0.0,
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = None,
    joint: Joint | None = None,
    shapes: Sequence[Sequence[Shape]] | None = None,
    rotations: Any = None,
    section: Callable[[float], tuple[Any, Any, Any]] | None = None,
    length: float | None = None,
) -> tuple[str, ...]:
    """Adds a body that deforms in given modes, e.g. those of a finite-element model, on a floating frame: a new body `name`.

    Bodies that it carries, loads, constraints and contacts are attached to the points, as the bodies `name.node1`, ..., which
    turn if `rotations` are given; or, given a `section`, at the sites `on(name, X)`.

    **Arguments:**

    - `positions` (N, 3) [m] at rest and `masses` (N,) [kg] of the material points, in the frame of `name`.
    - `modes` (M, N, 3): displacement of each point for a unit of each modal coordinate [m, if it is in m].
    - `stiffness` (M,) [N/m], `damping` (M,) [N s/m]: of the modal coordinates.
    - `position`, `rotation` of the frame in `parent`; `joint`: what carries it (fixed by default).
    - `shapes`: what is drawn at each point, N lists.
    - `rotations` (M, N, 3): small rotation of each point for a unit of each modal coordinate [rad].
    - `section`, `length` [m]: X from 0 to `length` -> the position at rest (3,) [m], the displacements (M, 3) and the small
      rotations (M, 3) there for units of the modal coordinates.

    **Returns:**

    The names of the modal coordinates, `name.mode1`, ...; the points are the bodies `name.node1`, ...
    """
    X, field = (np.asarray(x, dtype=float) for x in (positions, modes))
    m = masses if is_traced(masses) else np.asarray(masses, dtype=float)
    if X.ndim != 2 or X.shape[1] != 3 or not len(X):
        raise ModelError(f"positions of '{name}' have the shape {X.shape}; it must be (N, 3).")
    if m.shape != X.shape[:1] or not (is_traced(m) or np.all(m > 0)):
        raise ModelError(f"masses of '{name}' must be {len(X)} positive numbers, one per position.")
    if field.ndim != 3 or field.shape[1:] != X.shape:
        raise ModelError(f"modes of '{name}' have the shape {field.shape}; it must be (M, {len(X)}, 3).")
    turns = np.zeros_like(field) if rotations is None else np.asarray(rotations, dtype=float)
    if turns.shape != field.shape:
        raise ModelError(f"rotations of '{name}' have the shape {turns.shape}; it must be that of the modes, {field.shape}.")
    sizes = np.linalg.norm(field, axis=2)
    numbers = (X, field, turns) if is_traced(m) else (X, m, field, turns)
    if not all(np.all(np.isfinite(x)) for x in numbers) or sizes.max(1, initial=0.0).min(initial=1.0) == 0:
        raise ModelError(f"positions, masses and modes of '{name}' must be finite, and no mode may be zero.")
    if (section is None) != (length is None):
        raise ModelError(f"'{name}' has a section without a length, or a length without a section; give both.")
    count = len(field)
    k, d = (_per_mode(x, count, f"{what} of '{name}'") for what, x in (("stiffness", stiffness), ("damping", damping)))
    names = tuple(f"{name}.mode{j + 1}" for j in range(count))
    builder.body(name, parent, Fixed() if joint is None else joint, position=position, rotation=rotation)
    # a mode's own joint is at the last point or the one that it moves most; all other displacements are mimic joints
    lead = [len(X) - 1 if s[-1] >= 0.5 * s.max() else int(np.argmax(s)) for s in sizes]
    unit = sizes.max(1)
    for i in range(len(X)):
        rest = field[:, i].copy()
        joints: list[Joint] = []
        for j in (j for j in range(count) if lead[j] == i):
            joints.append(Prismatic(field[j, i], name=names[j], stiffness=k[j], damping=d[j]))
            rest[j] -= field[j, i] / sizes[j, i]
        joints += [*_followers(Prismatic, names, rest, unit), *_followers(Revolute, names, turns[:, i], np.ones(count))]
        node = f"{name}.node{i + 1}"
        steps = [f"{node}.{s}" for s in range(1, len(joints))]  # massless, between the joints of the node
        drawn = tuple(shapes[i]) if shapes is not None else ()
        at, where = name, X[i]
        for step, between in zip(steps, joints):
            builder.body(step, at, between, position=where)
            at, where = step, np.zeros(3)
        builder.body(node, at, joints[-1] if joints else Fixed(), m[i], position=where, shapes=drawn)
    if section is not None and length is not None:
        builder.sections(name, Sections(float(length), lambda x: _section(name, names, unit, *section(x))))
    return names


def _section(
    name: str, names: tuple[str, ...], unit: np.ndarray, position: Any, displacement: Any, rotation: Any
) -> tuple[np.ndarray, list[Joint]]:
    """The place of a section at rest, and the joints that displace and turn it with the modal coordinates."""
    found = [np.asarray(x, dtype=float) for x in (position, displacement, rotation)]
    count = len(names)
    if [x.shape for x in found] != [(3,), (count, 3), (count, 3)] or not all(np.all(np.isfinite(x)) for x in found):
        raise ModelError(
            f"the section of '{name}' must give finite arrays of the shapes (3,), ({count}, 3) and ({count}, 3); their shapes are "
            f"{', '.join(str(x.shape) for x in found)}."
        )
    p, moved, turned = found
    return p, [*_followers(Prismatic, names, moved, unit), *_followers(Revolute, names, turned, np.ones(count))]


def _followers(kind: Any, names: Sequence[str], field: np.ndarray, unit: np.ndarray) -> list[Joint]:
    """Joints that follow modal coordinates so that together they move by sum_m field[m] q_m: one per direction, at most three.

    Parts smaller than a tiny fraction of `unit` (M,) are left out. Rotations about several axes are done one after the other,
    which differs from the rotation by the sum in the second order.
    """
    sizes = np.linalg.norm(field, axis=1)
    which = [j for j in range(len(field)) if sizes[j] > ABSENT * unit[j]]
    directions: list[np.ndarray] = []
    for j in which:
        if not any(np.linalg.norm(np.cross(d, field[j])) <= ABSENT * sizes[j] for d in directions):
            directions.append(field[j] / sizes[j])
    if len(directions) > 1 and np.abs(np.array(directions) @ np.array(directions).T - np.eye(len(directions))).max() > 1e-9:
        directions = list(np.eye(3))
    out = []
    for d in directions:
        own = [j for j in which if abs(d @ field[j]) > ABSENT * unit[j]]
        if own:
            mimic = Mimic(tuple(names[j] for j in own), tuple(float(d @ field[j]) for j in own))
            out.append(kind(d, mimic=mimic))
    return out


def _per_mode(value: Any, count: int, what: str) -> Any:
    if any(is_traced(x) for x in (value if isinstance(value, list | tuple) else [value])):
        return jnp.broadcast_to(jnp.asarray(value, dtype=float), (count,))
    out = np.asarray(value, dtype=float)
    if out.shape not in ((), (count,)) or not np.all(np.isfinite(out)) or out.min(initial=0.0) < 0:
        raise ModelError(f"{what} = {value}; it must be one number or {count}, none negative.")
    return np.broadcast_to(out, (count,))


def _segment(width: float, length: float, along: np.ndarray, colour: tuple[float, ...] | None) -> Shape:
    """The drawing of a beam around a node: a box along the beam."""
    turn = np.array([1.0 + along[0], 0.0, -along[2], along[1]])  # the shortest rotation from x to the beam
    if turn[0] < 1e-12:
        turn = np.array([0.0, 0.0, 0.0, 1.0])
    return Shape("box", (length, width, width), quaternion=tuple(turn / np.linalg.norm(turn)), colour=colour)
