"""Packing: elements of one form become one group, with stacked arrays, and with indices instead of names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from undula.core.arrays import known, namespace, stacked
from undula.core.errors import ModelError, shown
from undula.elements.along import Along
from undula.elements.element import Element, changed, defined
from undula.elements.force import ACCOUNTS, ForceModel
from undula.elements.row import RowModel
from undula.elements.site import Found
from undula.elements.switching import Switching
from undula.model.contracts import (
    check_force,
    check_found,
    check_recorded,
    check_rows,
    check_touch,
    row_shapes,
)
from undula.model.sites import PackedSite, PlannedRod, pack_sites, resolve


class Group(eqx.Module):
    """Elements of one form: parameters stacked, sites and coordinates as (static) indices.

    - `kind`: "force", "ideal", "slip" or "unilateral"; `does`: which methods their class defines.
    - `begin`: their internal states at the beginning of a run; `memory`: index of these in `State.z`, or -1.
    - `found`: which of their sites have an unknown abscissa, which is the first part of the internal state.
    - `rows`: indices of their rows in the system's list (m, k); `gaps`: how many of the k rows are rates of gaps. For
      contacts: indices of the contacts in the system's list (m, slots).
    - `rods`: for elements along rods, (group, member) among the system's packed rods; `gauss_table`, `node_table`:
      values tabulated at the Gauss points (m, gauss, nodes, ...) and at the nodes (m, nodes, ...).
    """

    form: Any
    sites: tuple[PackedSite, ...]
    begin: Any
    gauss_table: Any
    node_table: Any
    coordinates: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    does: tuple[str, ...] = eqx.field(static=True)
    memory: int = eqx.field(static=True)
    found: tuple[int, ...] = eqx.field(static=True)
    rows: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    gaps: int = eqx.field(static=True)
    rods: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Number of elements."""
        return len(self.coordinates)

    @property
    def remembers(self) -> bool:
        """Whether its elements have internal states."""
        return self.memory >= 0

    def call(self, method: str, *args: Any) -> Any:
        """A method of every element that takes no view, stacked over the elements; `args` are the same for all."""
        return jax.vmap(lambda form: getattr(form, method)(*args), axis_size=self.size)(self.form)

    @property
    def along(self) -> bool:
        """Whether its elements act along rods."""
        return bool(self.rods)


class Switch(eqx.Module):
    """The rule that switches the rows of one constraint: member `member` of group `group`."""

    rule: Switching
    group: int = eqx.field(static=True)
    member: int = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)


@dataclass
class Model:
    """The model that elements are attached to: names of bodies and coordinates, rods by name or by that of the tip."""

    bodies: tuple[str, ...]
    coordinates: tuple[str, ...]
    rods: dict[str, PlannedRod]
    packed_rods: tuple[Any, ...] = ()
    body_places: dict[str, int] = field(init=False)

    def __post_init__(self):
        self.body_places = {name: k for k, name in enumerate(self.bodies)}


@dataclass
class Packed:
    """The groups, and the names that belong to them: of rows that hold, of rows that slip, of contacts, of elements."""

    groups: tuple[Group, ...]
    held: tuple[str, ...]
    slipping: tuple[str, ...]
    contacts: tuple[str, ...]
    elements: tuple[tuple[str, tuple[str, ...]], ...]
    switches: tuple[Switch, ...]


@dataclass
class _Member:
    """An element to be packed into a group."""

    element: Any
    form: Any
    sites: list[Any]
    coordinates: tuple[int, ...]
    kind: str
    does: tuple[str, ...]
    begin: Any
    rod: tuple[int, int] | None
    rows: tuple[int, ...] = ()
    gaps: int = 0

    @property
    def key(self) -> Any:
        """The same for all members of a group."""
        leaves, structure = jax.tree.flatten(self.form)
        sizes = (self.gaps, len(self.rows), len(self.coordinates), len(self.sites))
        return (
            structure,
            tuple(np.shape(x) for x in leaves),
            jax.tree.structure(self.begin),
            (self.kind, self.does, *sizes),
            tuple(s.key for s in self.sites),
            None if self.rod is None else self.rod[0],
        )


def pack(elements: Sequence[Element], model: Model) -> Packed:
    """Checks the elements and packs those of one form together."""
    packed: dict[Any, list[_Member]] = {}
    names: dict[str, list[str]] = {"ideal": [], "slip": []}
    for element in elements:
        m = _resolved(element, model)
        if m.kind in names:
            labels, m.gaps = _rows(element, len(model.coordinates), _words(element))
            m.rows = tuple(range(len(names[m.kind]), len(names[m.kind]) + len(labels)))
            names[m.kind] += [f"{element.name}.{label}" if label else str(element.name) for label in labels]
        packed.setdefault(m.key, []).append(m)
    contacts: list[str] = []
    groups: list[Group] = []
    memory = 0
    for members in packed.values():
        first = members[0]
        _check(first, model)
        if first.kind == "unilateral":
            slots = first.element.slots
            for m in members:
                m.rows = tuple(range(len(contacts), len(contacts) + slots))
                contacts += [m.element.name] if slots == 1 else [f"{m.element.name}.{k + 1}" for k in range(slots)]
        remembers = bool(jax.tree.leaves(first.begin))
        groups.append(_group(members, model, memory if remembers else -1))
        memory += remembers
    families = tuple((ms[0].element.family(), tuple(str(m.element.name) for m in ms)) for ms in packed.values())
    switches = _switches(list(packed.values()))
    return Packed(tuple(groups), tuple(names["ideal"]), tuple(names["slip"]), tuple(contacts), families, switches)


def _switches(groups: list[list["_Member"]]) -> tuple[Switch, ...]:
    """The rules of the constraints that are not always on."""
    out = []
    for g, members in enumerate(groups):
        for k, m in enumerate(members):
            rule = getattr(m.element, "active", None)
            if rule is None:
                continue
            what = _words(m.element)
            if m.kind != "ideal":
                raise ModelError(
                    f"{what} cannot be switched: only constraints that hold can; contacts open by themselves."
                )
            labels = m.element.labels or (tuple(str(j + 1) for j in range(len(m.rows))) if len(m.rows) > 1 else ("",))
            out.append(Switch(rule.resolved(labels, what), g, k, m.rows))
    return tuple(out)


def _check(member: _Member, model: Model) -> None:
    """Checks what the methods of an element return; those of the other members of its group are the same."""
    element, what = member.element, _words(member.element)
    if member.kind == "force":
        rod = model.rods[element.rod].plan if isinstance(element, Along) else None
        check_force(element, member.does, len(model.coordinates), rod, what)
    else:
        check_found(element, member.does, what)
        if "gap" in member.does:
            check_rows(element, len(model.coordinates), what)
        if member.kind == "unilateral":
            check_touch(element, len(model.coordinates), what)
        else:
            check_recorded(element, member.does, len(model.coordinates), len(member.rows), what)


def _words(element: Element) -> str:
    return f"the {element.family().replace('_', ' ')} '{element.name}'"


def _resolved(element: Element, model: Model) -> _Member:
    """The element with its names replaced by indices, checked."""
    what = _words(element)
    element.check(model)
    kind, does = _kind(element)
    sites = [resolve(s, model.body_places, model.rods, what) for s in element.sites]
    where, rod = _coordinates(element, model, what), _rod(element, model, what)
    return _Member(element, anonymous(element), sites, where, kind, does, element.start(), rod)


def _group(members: Sequence[_Member], model: Model, memory: int) -> Group:
    first = members[0]
    total = sum(len(rod.coordinates) for rod in {r.number: r for r in model.rods.values()}.values())
    tables = _tables(members, model) if first.rod is not None else ((), ())
    return Group(
        form=_stacked([m.form for m in members]),
        sites=tuple(pack_sites([m.sites[s] for m in members], total) for s in range(len(first.sites))),
        begin=_stacked([m.begin for m in members]),
        gauss_table=tables[0],
        node_table=tables[1],
        coordinates=tuple(m.coordinates for m in members),
        kind=first.kind,
        does=first.does,
        memory=memory,
        found=tuple(k for k, s in enumerate(first.element.sites) if isinstance(s.abscissa, Found)),
        rows=tuple(m.rows for m in members),
        gaps=first.gaps,
        rods=tuple(m.rod for m in members if m.rod is not None),
    )


def member(tree: Any, k: int) -> Any:
    """One member of stacked arrays."""
    return jax.tree.map(lambda x: x[k], known(tree))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: stacked(x), *trees)


def anonymous(element: Element) -> Any:
    """The element without its names and sites, so that elements of one form compare equal."""
    fields: dict[str, Any] = {"name": "", "sites": (), "coordinates": ()} | dict.fromkeys(element.only_authored)
    form = changed(element, **fields, **({"rod": ""} if isinstance(element, Along) else {}))
    for leaf in jax.tree.leaves(form):
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | float | int):
            raise ModelError(
                f"{_words(element)} has a field {shown(leaf)} that is not a number; mark it static: equinox.field(static=True)."
            )
    return form


def _kind(element: Element) -> tuple[str, tuple[str, ...]]:
    """The kind of an element, and which methods of its base class it defines."""
    if isinstance(element, ForceModel):
        if element.account not in ACCOUNTS:
            raise ModelError(
                f"account of {type(element).__name__} = {element.account!r}; it must be one of {', '.join(ACCOUNTS)}."
            )
        does = defined(element, Along if isinstance(element, Along) else ForceModel)
        if "energy_density" in does:
            if "energy" in does:
                raise ModelError(
                    f"{type(element).__name__} defines both energy and energy_density; define one of them."
                )
            does = tuple(sorted({*does, "energy", "stress"}))  # both follow from the density
        return "force", does
    if isinstance(element, RowModel):
        kind = "unilateral" if element.slots else "ideal" if element.law is None else "slip"
        return kind, defined(element, RowModel)
    raise ModelError(f"{shown(element)} is neither a force model nor a row model.")


def _coordinates(element: Element, model: Model, what: str) -> tuple[int, ...]:
    for x in element.coordinates:
        if x not in model.coordinates:
            known = ", ".join(model.coordinates) or "(none)"
            raise ModelError(f"{what} uses the coordinate '{x}', which does not exist; the coordinates are {known}.")
    return tuple(model.coordinates.index(x) for x in element.coordinates)


def _rows(element: Any, nv: int, what: str) -> tuple[tuple[str, ...], int]:
    """Labels of the rows, and how many of them are rates of gaps."""
    gaps, rows = row_shapes(element, nv, what)
    count = gaps + rows
    if count == 0:
        raise ModelError(f"{what} has no rows: it must define gap or rows.")
    if element.law is not None and gaps:
        raise ModelError(f"{what} cannot slip: it holds positions, and a slip law gives forces for velocities alone.")
    labels = element.labels or (tuple(str(k + 1) for k in range(count)) if count > 1 else ("",))
    if len(labels) != count:
        raise ModelError(f"{what} has {count} rows but {len(labels)} labels: {', '.join(labels)}.")
    return labels, gaps


def _rod(element: Element, model: Model, what: str) -> tuple[int, int] | None:
    """(group, member) of the packed rod that an element acts along; None if it is not along a rod."""
    if not isinstance(element, Along):
        return None
    if element.rod not in model.rods:
        known = ", ".join(model.rods) or "(none)"
        raise ModelError(f"{what} is on the rod '{element.rod}', which does not exist; the rods are {known}.")
    number = model.rods[element.rod].number
    return next((g, group.rods.index(number)) for g, group in enumerate(model.packed_rods) if number in group.rods)


def _tables(members: Sequence[_Member], model: Model) -> tuple[Any, Any]:
    """Values that the elements tabulate at the Gauss points and at the nodes of their rods."""
    gauss, nodes = [], []
    for m in members:
        element, (g, k) = m.element, m.rod or (0, 0)
        plan, group = model.rods[element.rod].plan, model.packed_rods[g]

        def at(X, element=element, plan=plan):
            return element.tabulate(X, plan)

        gauss.append(_each(partial(_each, at), group.gauss_abscissae[k]))
        nodes.append(_each(at, group.abscissae[k][1:]))
    return _stacked(gauss), _stacked(nodes)


def _each(function: Callable[[Any], Any], X: Any) -> Any:
    """Values of a function along the first axis of X, stacked."""
    return jax.vmap(function)(X) if namespace(X) is jnp else _stacked([function(x) for x in X])
