"""Flexible bodies with assumed modes on a floating frame (document 001, appendix B).

The body is a set of material points; point i is displaced by sum_m modes[m, i] q_m from its rest position. This is
exactly a set of point masses on prismatic joints that follow the modal coordinates, so a flexible body needs no
dynamics of its own: the tree recursions for these masses yield the generalised Newton-Euler model (69).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from undula.core.errors import ModelError, as_vector
from undula.core.shapes import Shape
from undula.joints.fixed import Fixed
from undula.joints.joint import Joint, Mimic, unit_vector
from undula.joints.rod.quadrature import radau
from undula.joints.screw import Prismatic
from undula.model.builder import Builder

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


def add_beam(
    builder: Builder,
    name: str,
    parent: str,
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
    for what, value in (("length", length), ("density", density)):
        if not as_vector(value, 0, f"{what} of the beam '{name}'") > 0:
            raise ModelError(f"{what} of the beam '{name}' = {value}; it must be positive.")
    found = clamped_modes(modes, length, nodes)
    along = unit_vector(direction, f"direction of the beam '{name}'")
    across = [unit_vector(d, f"bends of the beam '{name}'") for d in np.atleast_2d(bends)]
    if max(abs(np.dot(along, d)) for d in across) > 1e-9:
        raise ModelError(
            f"bends of the beam '{name}' = {bends}; a beam bends at right angles to its direction {direction}."
        )
    EI = np.broadcast_to(np.asarray(bending, dtype=float), (len(across),))
    if not (np.all(np.isfinite(EI)) and EI.min() > 0):
        raise ModelError(f"bending of the beam '{name}' = {bending} N m^2; it must be positive.")
    stiffness = np.concatenate([x * found.curvatures for x in EI])
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
    )


def add_flexible(
    builder: Builder,
    name: str,
    parent: str,
    positions: Any,
    masses: Any,
    modes: Any,
    stiffness: Any,
    damping: Any = 0.0,
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = None,
    joint: Joint | None = None,
    shapes: Sequence[Sequence[Shape]] | None = None,
) -> tuple[str, ...]:
    """Adds a body that deforms in given modes, e.g. those of a finite-element model, on a floating frame: a new body `name`.

    **Arguments:**

    - `positions` (N, 3) [m] at rest and `masses` (N,) [kg] of the material points, in the frame of `name`.
    - `modes` (M, N, 3): displacement of each point for a unit of each modal coordinate [m, if it is in m].
    - `stiffness` (M,) [N/m], `damping` (M,) [N s/m]: of the modal coordinates.
    - `position`, `rotation` of the frame in `parent`; `joint`: what carries it (fixed by default).
    - `shapes`: what is drawn at each point, N lists.

    **Returns:**

    The names of the modal coordinates, `name.mode1`, ...; the points are the bodies `name.node1`, ...
    """
    X, m, field = (np.asarray(x, dtype=float) for x in (positions, masses, modes))
    if X.ndim != 2 or X.shape[1] != 3 or not len(X):
        raise ModelError(f"positions of '{name}' have the shape {X.shape}; it must be (N, 3).")
    if m.shape != X.shape[:1] or not np.all(m > 0):
        raise ModelError(f"masses of '{name}' must be {len(X)} positive numbers, one per position.")
    if field.ndim != 3 or field.shape[1:] != X.shape:
        raise ModelError(f"modes of '{name}' have the shape {field.shape}; it must be (M, {len(X)}, 3).")
    sizes = np.linalg.norm(field, axis=2)
    if not all(np.all(np.isfinite(x)) for x in (X, m, field)) or sizes.max(1, initial=0.0).min(initial=1.0) == 0:
        raise ModelError(f"positions, masses and modes of '{name}' must be finite, and no mode may be zero.")
    count = len(field)
    k, d = (_per_mode(x, count, f"{what} of '{name}'") for what, x in (("stiffness", stiffness), ("damping", damping)))
    names = tuple(f"{name}.mode{j + 1}" for j in range(count))
    builder.body(name, parent, Fixed() if joint is None else joint, position=position, rotation=rotation)
    # a mode's own joint is at the last point or the one that it moves most; all other displacements are mimic joints
    lead = [len(X) - 1 if s[-1] >= 0.5 * s.max() else int(np.argmax(s)) for s in sizes]
    for i in range(len(X)):
        slides: list[Joint] = []
        for j in range(count):
            axis, size = field[j, i], sizes[j, i]
            if size <= ABSENT * sizes[j].max():
                continue
            if lead[j] == i:
                slides.append(Prismatic(axis, name=names[j], stiffness=k[j], damping=d[j]))
                size = size - 1.0
            if abs(size) > ABSENT:
                slides.append(Prismatic(axis, mimic=Mimic(names[j], float(size))))
        node = f"{name}.node{i + 1}"
        steps = [f"{node}.{s}" for s in range(1, len(slides))]  # massless, between the joints of the node
        drawn = tuple(shapes[i]) if shapes is not None else ()
        at, where = name, X[i]
        for step, slide in zip(steps, slides):
            builder.body(step, at, slide, position=where)
            at, where = step, np.zeros(3)
        builder.body(node, at, slides[-1] if slides else Fixed(), float(m[i]), position=where, shapes=drawn)
    return names


def _per_mode(value: Any, count: int, what: str) -> np.ndarray:
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
