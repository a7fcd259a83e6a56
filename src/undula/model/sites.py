"""Sites as used by computations: bodies as indices, offsets as arrays, sections of rods as parts of their pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, stacked
from undula.core.errors import ModelError, is_traced
from undula.elements.site import WORLD, Found, Site
from undula.joints.rod.group import Pieces
from undula.joints.rod.plan import RodPlan
from undula.laws.law import Law
from undula.model.sections import section_name


@dataclass(frozen=True)
class PlannedRod:
    """A rod of a model: its plan, the bodies of its nodes, the joint that carries the first one (whose frame is the root),
    the body that carries that, its number, and the places of its coordinates among those of all rods."""

    plan: RodPlan
    nodes: tuple[int, ...]
    joint: int
    parent: int
    number: int
    coordinates: tuple[int, ...]


class Section(eqx.Module):
    """Sections at constant abscissae: the part of a piece between the frame before them and each of them.

    - `X` (m,) [m]; `end_shapes` (m, strains, modes) and `end_reference` (m, 6): for the strains there.
    """

    pieces: Pieces
    X: Float[Array, "m"]
    end_shapes: Float[Array, "m strains modes"]
    end_reference: Float[Array, "m 6"]


class MovingSection(eqx.Module):
    """Sections whose abscissae are laws of time, unknown, or traced: their piece is selected at run time.

    - `length` (m,) [m], `starts` (m, pieces): where the pieces start, as fractions; `constant` (m, 6): stress-free strains, if
      no `function` gives them.
    - `X`: a stacked law, an array (m,), or None if it is unknown.
    - `frames`: for each member, the body before each piece; the first is at the rod's root, the frame of joint `joints`.
    """

    length: Float[Array, "m"]
    starts: Float[Array, "m pieces"]
    constant: Float[Array, "m 6"]
    X: Any
    gauss: tuple[float, ...] = eqx.field(static=True)
    bases: tuple[Any, ...] = eqx.field(static=True)
    points: tuple[float, ...] = eqx.field(static=True)
    function: Any = eqx.field(static=True)
    strains: tuple[int, ...] = eqx.field(static=True)
    present: tuple[int, ...] = eqx.field(static=True)
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    total: int = eqx.field(static=True)
    frames: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    joints: tuple[int, ...] = eqx.field(static=True)


class PackedSite(eqx.Module):
    """One site of each of m elements.

    - `bodies`: their indices, the index after the last one being the world; `root`: joints in whose frames a rod
      begins, for sections that are in its first piece or move, else -1.
    - `position` (m, 3), `rotation` (m, 3, 3): offsets; None if all are zero.
    - `section`: the part of a rod between the body and the site, or None.
    """

    position: Float[Array, "m 3"] | None
    rotation: Float[Array, "m 3 3"] | None
    section: Section | MovingSection | None
    bodies: tuple[int, ...] = eqx.field(static=True)
    root: tuple[int, ...] = eqx.field(static=True)


@dataclass(frozen=True)
class _Resolved:
    """A site with its names replaced; sites of the same `key` can be packed together."""

    key: Any
    body: int
    root: int
    site: Site
    section: dict[str, Any] | None = None
    rod: PlannedRod | None = None


def resolve(site: Site, bodies: dict[str, int], rods: dict[str, PlannedRod], what: str) -> _Resolved:
    """Finds the body, or the part of a rod's piece, that a site is on."""
    if site.abscissa is None:
        if site.body == WORLD:
            return _Resolved("body", len(bodies), -1, site)
        if site.body not in bodies:
            raise ModelError(
                f"{what} is on the body '{site.body}', which does not exist; the bodies are {', '.join(bodies)}."
            )
        return _Resolved("body", bodies[site.body], -1, site)
    if site.body not in rods:
        if isinstance(site.abscissa, np.ndarray) and section_name(site) in bodies:
            return _Resolved("body", bodies[section_name(site)], -1, site)
        raise ModelError(
            f"{what} is on the rod or flexible body '{site.body}', which does not exist; the rods are "
            f"{', '.join(rods) or '(none)'}."
        )
    rod, X = rods[site.body], site.abscissa
    plan = rod.plan
    known = not isinstance(X, Law | Found) and not is_traced(X) and not is_traced(plan.length)
    first = X.start if isinstance(X, Found) else X
    if not isinstance(first, Law) and not is_traced(first) and not is_traced(plan.length):
        if not -1e-12 <= float(first) <= float(plan.length) * (1 + 1e-12):
            raise ModelError(
                f"{what} is at X = {float(first):g} m of the rod '{site.body}'; X must lie between 0 and {plan.length:g} m."
            )
    shape = (plan.places.shape[1], plan.count, plan.strains, plan.present)
    if not known:
        form = "found" if isinstance(X, Found) else _form(X) if isinstance(X, Law) else "traced"
        key = ("moving", form, len(plan.nodes), *shape, plan.bases, plan.points, plan.reference_function)
        return _Resolved(key, rod.parent, rod.joint, site, plan.anywhere(), rod)
    node = plan.node_at(float(X))
    if node is not None:
        return _Resolved("body", rod.nodes[node], -1, site)
    part = plan.piece_before(float(X))
    k = part.pop("piece")
    body, root = (rod.parent, rod.joint) if k == 0 else (rod.nodes[k - 1], -1)
    return _Resolved(("section", *shape), body, root, site, part | {"X": np.asarray(X)}, rod)


def _form(law: Law) -> Any:
    import jax

    leaves, structure = jax.tree.flatten(law)
    return structure, tuple(np.shape(x) for x in leaves)


def pack_sites(members: Sequence[_Resolved], total: int) -> PackedSite:
    """Packs sites of the same key; `total`: the number of coordinates of all rods."""
    import jax

    position, rotation = stacked([m.site.position for m in members]), stacked([m.site.rotation for m in members])
    if not is_traced(position) and not np.any(position):
        position = None
    if not is_traced(rotation) and np.array_equal(rotation, np.tile(np.eye(3), (len(members), 1, 1))):
        rotation = None
    section: Section | MovingSection | None = None
    first = members[0]
    if first.rod is not None and first.section is not None:
        plan = first.rod.plan
        rods = [m.rod for m in members if m.rod is not None]
        coordinates = tuple(rod.coordinates for rod in rods)
        shared: dict[str, Any] = dict(strains=plan.strains, present=plan.present, coordinates=coordinates, total=total)
        parts = [m.section or {} for m in members]
        if first.key[0] == "section":
            arrays = {k: stacked([p[k] for p in parts]) for k in parts[0]}
            pieces = Pieces(**{k: arrays.pop(k) for k in ("shapes", "reference", "steps")}, **shared)
            section = Section(pieces, **arrays)
        else:
            X = [m.site.abscissa for m in members]
            if isinstance(X[0], Found):
                where = None
            elif isinstance(X[0], Law):
                where = jax.tree.map(lambda *x: stacked(x), *X)
            else:
                where = stacked(X)
            section = MovingSection(
                **{k: stacked([p[k] for p in parts]) for k in parts[0]},
                X=where,
                gauss=plan.gauss,
                bases=plan.bases,
                points=plan.points,
                function=plan.reference_function,
                frames=tuple((rod.parent, *rod.nodes[:-1]) for rod in rods),
                joints=tuple(rod.joint for rod in rods),
                **shared,
            )
    return PackedSite(position, rotation, section, tuple(m.body for m in members), tuple(m.root for m in members))
