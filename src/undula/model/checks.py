"""Checks of a model before it is built; every error names the invalid item."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import Array, known
from undula.core.errors import ModelError, as_vector, is_traced, numbers
from undula.model.labels import Labels
from undula.model.topology import GROUPS, Topology

TOLERANCE = 1e-9  # relative, for symmetry and the triangle inequality of inertias


def refuse(sentence: str) -> None:
    """Raises a complaint as an error, instead of collecting it for a warning."""
    raise ModelError(sentence)


def unique(names: Sequence[str], what: str) -> None:
    """Rejects duplicate names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            plural = "bodies" if what == "body" else f"{what}s"
            raise ModelError(f"there are two {plural} named '{name}'; names must be unique.")
        seen.add(name)


def depth_first(bodies: Sequence[Any]) -> list[Any]:
    """The bodies sorted depth first from the base, children in the order in which they were added."""
    unique([b.name for b in bodies], "body")
    names = {b.name for b in bodies}
    children: dict[str, list[Any]] = {}
    for b in bodies[1:]:
        if b.parent not in names:
            raise ModelError(
                f"body '{b.name}' has the unknown parent '{b.parent}'; the bodies are {', '.join(sorted(names))}."
            )
        children.setdefault(b.parent, []).append(b)
    order, stack = [], [bodies[0]]
    while stack:
        b = stack.pop()
        order.append(b)
        stack += reversed(children.get(b.name, []))
    if len(order) < len(bodies):
        reached = {b.name for b in order}
        raise ModelError(f"the bodies {' -> '.join(_cycle(bodies, reached))} form a cycle; a tree has none.")
    return order


def _cycle(bodies: Sequence[Any], reached: set[str]) -> list[str]:
    parent = {b.name: b.parent for b in bodies}
    name = next(b.name for b in bodies if b.name not in reached)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = parent[name]
    return [*path[path.index(name) :], name]


def inertial(
    owner: str, mass: Any, com: Any, inertia: Any, complain: Callable[[str], None] = refuse
) -> tuple[Any, Any, Any]:
    """Mass, centre and 3x3 inertia about it, checked; a number or three values stand for a diagonal inertia.

    `owner`: the body, in words; `complain` is called for a physically impossible inertia; numbers that are not finite are
    always rejected.
    """
    m = as_vector(mass, 0, f"mass of {owner}")
    c = as_vector(com, 3, f"com of {owner}")
    what = f"inertia of {owner}"
    shape = inertia.shape if is_traced(inertia) else (len(inertia),) if _has_tracers(inertia) else _shape(inertia, what)
    if shape == ():
        I = as_vector(inertia, 0, what) * np.eye(3)
    elif shape == (3,):
        values = as_vector(inertia, 3, what)
        I = jnp.diag(values) if is_traced(values) else np.diag(values)
    elif shape == (3, 3):
        I = jnp.asarray(inertia, dtype=float) if is_traced(inertia) else numbers(inertia, what)
    else:
        raise ModelError(f"{what} has the shape {shape}; it must be a number, 3 values or a 3x3 matrix.")
    if not is_traced(m) and m < 0:
        raise ModelError(f"mass of {owner} = {float(m)} kg is negative.")
    if not is_traced(I):
        complaint = inertia_complaint(known(I))
        if complaint:
            (complain if np.all(np.isfinite(I)) else refuse)(f"{what} {complaint}")
    return m, c, I


def _shape(value: Any, what: str) -> tuple[int, ...]:
    return numbers(value, what).shape


def _has_tracers(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(is_traced(x) for x in value)


def inertia_complaint(I: Array) -> str | None:
    """Complaint about an inertia about a centre of mass, as the end of a sentence; None if it is valid."""
    if not np.all(np.isfinite(I)):
        return f"= {I.tolist()} is not finite."
    scale = np.abs(I).max()
    if np.abs(I - I.T).max() > TOLERANCE * scale:
        return f"= {I.tolist()} is not symmetric."
    low, mid, high = np.linalg.eigvalsh(I)
    moments = f"principal moments {low:.6g}, {mid:.6g}, {high:.6g} kg m^2"
    if low < -TOLERANCE * scale:
        return f"has the {moments}; none may be negative."
    if high > low + mid + TOLERANCE * scale:
        planar = (
            "; for a planar motion about that axis, give another axis the same moment"
            if mid <= TOLERANCE * high
            else ""
        )
        return (
            f"has the {moments}, which violate the triangle inequality: the largest may not exceed the sum of the others"
            f"{planar}."
        )
    return None


def masses(
    top: Topology, labels: Labels, mass: Any, inert: Sequence[int], complain: Callable[[str], None] = refuse
) -> None:
    """Complains about moving bodies without mass, including that of the bodies they carry; rejects such a free base.

    `inert`: bodies with another kind of inertia: weightless, or that of their joint.
    """
    if is_traced(mass):
        return
    total = np.asarray(mass).copy()
    total[list(inert)] += 1.0
    for j in reversed(range(len(top.parents))):
        total[top.parents[j]] += total[j + 1]
    bare = [
        f"body '{labels.bodies[j + 1]}' moves on the joint '{labels.joints[j]}'"
        for j, kind in enumerate(top.kinds)
        if kind is not None and total[j + 1] <= 0
    ]
    if bare:
        complain(f"{', '.join(bare)} but its mass, with all that it carries, is 0 kg; it must be positive.")
    if top.base_role == "free" and total[0] <= 0:
        raise ModelError(f"the free base '{labels.bodies[0]}' has the mass {total[0]:g} kg; it must be positive.")


def point_mass(top: Topology, labels: Labels, com: Array, inertia: Array, inert: Sequence[int]) -> None:
    """Rejects a single free body that can turn but has no inertia about some of its axes."""
    turns = [k - 3 for k in GROUPS[top.base_group] if k >= 3]
    if top.base_role != "free" or top.link_count > 1 or inert or not turns or is_traced(com) or is_traced(inertia):
        return
    if len(labels.bodies) == 1 and np.linalg.eigvalsh(np.asarray(inertia)[0][np.ix_(turns, turns)])[0] <= 0:
        raise ModelError(
            f"inertia of the free base '{labels.bodies[0]}' = {np.asarray(inertia)[0].tolist()} kg m^2; it must be positive "
            "about all axes that it turns about: give it an inertia, or a group without rotations such as R3."
        )
