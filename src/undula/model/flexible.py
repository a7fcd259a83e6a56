"""Flexible bodies with assumed modes on a floating frame (document 001, appendix B).

The body is a set of material points; point i is displaced by sum_m modes[m, i] q_m from its rest position. This is
exactly a set of point masses on prismatic joints that follow the modal coordinates, so a flexible body needs no
dynamics of its own: the tree recursions for these masses yield the generalised Newton-Euler model (69).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, is_traced, numbers, shown
from undula.core.shapes import Shape
from undula.elements.site import Site
from undula.joints.fixed import Fixed
from undula.joints.joint import Joint, Mimic
from undula.joints.screw import Prismatic, Revolute
from undula.model.builder import Builder
from undula.model.sections import Sections

ABSENT = 1e-12  # a displacement below this fraction of the largest one of its mode is ignored


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
    X, field = (numbers(x, f"{what} of '{name}'") for x, what in ((positions, "positions"), (modes, "modes")))
    m = masses if is_traced(masses) else numbers(masses, f"masses of '{name}'")
    if X.ndim != 2 or X.shape[1] != 3 or not len(X):
        raise ModelError(f"positions of '{name}' have the shape {X.shape}; it must be (N, 3).")
    if m.shape != X.shape[:1] or not (is_traced(m) or np.all(m > 0)):
        raise ModelError(f"masses of '{name}' must be {len(X)} positive numbers, one per position.")
    if field.ndim != 3 or field.shape[1:] != X.shape:
        raise ModelError(f"modes of '{name}' have the shape {field.shape}; it must be (M, {len(X)}, 3).")
    turns = np.zeros_like(field) if rotations is None else numbers(rotations, f"rotations of '{name}'")
    if turns.shape != field.shape:
        raise ModelError(
            f"rotations of '{name}' have the shape {turns.shape}; it must be that of the modes, {field.shape}."
        )
    sizes = np.linalg.norm(field, axis=2)
    if sizes.max(1, initial=0.0).min(initial=1.0) == 0:
        raise ModelError(f"modes of '{name}' contain one that is zero.")
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
            f"the section of '{name}' must give finite arrays of the shapes (3,), ({count}, 3) and ({count}, 3); "
            f"theirs are {', '.join(str(x.shape) for x in found)}."
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
    overlap = np.array(directions) @ np.array(directions).T if directions else np.eye(0)
    if np.abs(overlap - np.eye(len(directions))).max(initial=0.0) > 1e-9:  # not at right angles to each other
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
    out = numbers(value, what)
    if out.shape not in ((), (count,)) or out.min(initial=0.0) < 0:
        raise ModelError(f"{what} = {shown(value)}; it must be one number or {count}, none negative.")
    return np.broadcast_to(out, (count,))
