"""Everything about a system that is not a number: names, tree, kinds, roles, and the index plans derived from them.

A `Topology` is hashable, so that it can be a static part of a compiled function. Bodies joined by fixed joints move as
one *link*; the recursions run over links, numbered depth first, link 0 being the reference body's.
"""

from collections import defaultdict
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from undula.joints.kind import KINDS

# A group that the base moves in, as the components of its twist (Vx, Vy, Vz, Wx, Wy, Wz) that may differ from zero.
GROUPS: dict[str, tuple[int, ...]] = {
    "R": (0,),
    "R2": (0, 1),
    "R3": (0, 1, 2),
    "SO2": (5,),
    "SO3": (3, 4, 5),
    "SE2": (0, 1, 5),
    "SE3": (0, 1, 2, 3, 4, 5),
}

EFFORT_UNITS = {"rad": "N m", "m": "N", "1": "N m", "1/m": "N m^2"}  # of efforts: a power divided by a rate


@dataclass(frozen=True, eq=True)
class Topology:
    """Names, tree and roles. Body 0 is the reference body; joint j carries body j + 1."""

    name: str
    bodies: tuple[str, ...]
    parents: tuple[int, ...]  # parent body of body j + 1
    joints: tuple[str, ...]
    joint_types: tuple[str, ...]  # as the user wrote them: Revolute, Universal, ...
    kinds: tuple[str | None, ...]  # computational kind; None = fixed
    base_role: str  # fixed, driven or free
    base_group: str
    coordinates: tuple[str, ...]  # independent coordinates, in the order of their joints; those of rods come last
    units: tuple[str, ...]
    roles: tuple[str, ...]
    leaders: tuple[int, ...]  # independent coordinate that gives each joint rate; the identity without mimic joints
    mimics: tuple[int, ...]  # joint rates that follow a coordinate instead of having one
    strain_count: int = 0  # how many of the coordinates are those of rods
    rods: tuple[tuple[str, tuple[int, ...]], ...] = ()  # name of each rod, and the bodies of its nodes
    _hash: list = field(default_factory=list, compare=False, repr=False)

    def __hash__(self) -> int:
        if (
            not self._hash
        ):  # hashing a thousand names at every call of a compiled function would cost more than the call
            self._hash.append(hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare)))
        return self._hash[0]

    @property
    def effort_units(self) -> tuple[str, ...]:
        """Unit of the effort at each coordinate."""
        return tuple(EFFORT_UNITS[unit] for unit in self.units)

    # Sizes

    @property
    def nv(self) -> int:
        """Number of independent coordinates."""
        return len(self.coordinates)

    @cached_property
    def nq(self) -> int:
        """Length of the internal configuration."""
        return sum(q.size for _, q, _ in self.coordinate_groups)

    @property
    def base_directions(self) -> tuple[int, ...]:
        """Components of the base twist that are unknown: those of a free base's group, none otherwise."""
        return GROUPS[self.base_group] if self.base_role == "free" else ()

    # Links

    @cached_property
    def link_of_body(self) -> np.ndarray:
        """Link that each body belongs to."""
        link, count = [0], 1
        for parent, kind in zip(self.parents, self.kinds):
            link.append(link[parent] if kind is None else count)
            count += kind is not None
        return np.array(link)

    @cached_property
    def moving(self) -> np.ndarray:
        """Joints that move, in the order of the links 1, 2, ... that they carry."""
        return np.array([j for j, kind in enumerate(self.kinds) if kind is not None], dtype=int)

    @cached_property
    def link_parents(self) -> np.ndarray:
        """Parent link of the links 1, 2, ..."""
        return np.array([self.link_of_body[self.parents[j]] for j in self.moving], dtype=int)

    @cached_property
    def link_kinds(self) -> tuple[str, ...]:
        return tuple(k for k in self.kinds if k is not None)

    @cached_property
    def fixed_levels(self) -> list[np.ndarray]:
        """Bodies on fixed joints, grouped by how many fixed joints lie between them and their link's first body."""
        depth, levels = [0] * len(self.bodies), defaultdict(list)
        for j, (parent, kind) in enumerate(zip(self.parents, self.kinds)):
            if kind is None:
                depth[j + 1] = depth[parent] + 1
                levels[depth[j + 1]].append(j + 1)
        return [np.array(levels[d]) for d in sorted(levels)]

    # Joint rates: every coordinate of every moving joint, mimics included, in the order of the links

    @cached_property
    def columns(self) -> int:
        """Largest number of rates of a joint: the padded width of the screw columns."""
        return max(1, *(KINDS[k].dof for k in self.link_kinds), 1)

    @cached_property
    def rate_link(self) -> np.ndarray:
        """Link (from 1) that each joint rate moves."""
        return np.array([l + 1 for l, k in enumerate(self.link_kinds) for _ in range(KINDS[k].dof)], dtype=int)

    @cached_property
    def rate_column(self) -> np.ndarray:
        """Column of each joint rate within its joint."""
        return np.array([c for k in self.link_kinds for c in range(KINDS[k].dof)], dtype=int)

    @cached_property
    def kind_groups(self) -> list[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
        """(kind, links - 1, configuration indices (m, nq), rate indices (m, dof)) for each kind that occurs."""
        out: dict[str, tuple[list, list, list]] = {}
        iq = iv = 0
        for l, name in enumerate(self.link_kinds):
            kind = KINDS[name]
            ids, q, v = out.setdefault(name, ([], [], []))
            ids.append(l)
            q.append(range(iq, iq + kind.nq))
            v.append(range(iv, iv + kind.dof))
            iq, iv = iq + kind.nq, iv + kind.dof
        return [(name, np.array(i), np.array(q), np.array(v)) for name, (i, q, v) in out.items()]

    @cached_property
    def coordinate_groups(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """(kind, indices in q (m, nq), coordinates (m, dof)) of the joints that are not mimics, for each kind."""
        mimic_links = {self.rate_link[r] for r in self.mimics}
        out: dict[str, tuple[list, list]] = {}
        iq = iv = 0
        for l, name in enumerate(self.link_kinds, start=1):
            kind = KINDS[name]
            if l in mimic_links or kind.dof == 0:
                continue
            q, v = out.setdefault(name, ([], []))
            q.append(range(iq, iq + kind.nq))
            v.append(range(iv, iv + kind.dof))
            iq, iv = iq + kind.nq, iv + kind.dof
        if self.strain_count:
            more = np.arange(self.strain_count)[:, None]
            out["strain"] = (iq + more).tolist(), (iv + more).tolist()
        return [(name, np.array(q), np.array(v)) for name, (q, v) in out.items()]

    @cached_property
    def adds(self) -> bool:
        """Whether every coordinate simply adds: no spherical and no free joint."""
        return all(KINDS[k].bracket is None for k in self.link_kinds)

    @cached_property
    def mimic_sources(self) -> tuple[np.ndarray, np.ndarray]:
        """For joint configurations with mimics: the index in q that each comes from, and the places of the mimics."""
        whole: dict[int, list[int]] = {}  # first coordinate of a joint -> its configuration
        single: dict[int, int] = {}  # coordinate that adds -> its place
        for name, q, v in self.coordinate_groups:
            for qs, vs in zip(q.tolist(), v.tolist()):
                whole[vs[0]] = qs
                if KINDS[name].bracket is None:
                    single.update(zip(vs, qs))
        mimics = set(self.mimics)
        source: list[int] = []
        places: list[int] = []
        r = 0
        for name in self.link_kinds:
            if KINDS[name].dof == 0:
                continue
            if r in mimics:
                places.append(len(source))
                source.append(single[self.leaders[r]])
            else:
                source += whole[self.leaders[r]]
            r += KINDS[name].dof
        return np.array(source, dtype=int), np.array(places, dtype=int)

    @cached_property
    def link_order(self) -> np.ndarray:
        """Permutation that brings the concatenated kind groups back into the order of the links."""
        return np.argsort(np.concatenate([ids for _, ids, _, _ in self.kind_groups]))

    @cached_property
    def ancestry(self) -> np.ndarray:
        """(rates, rates) booleans: row's link is an ancestor of column's link, or the same link."""
        n = len(self.link_parents) + 1
        above = np.zeros((n, n), bool)
        above[0, 0] = True
        for l, parent in enumerate(self.link_parents, start=1):
            above[:, l] = above[:, parent]
            above[l, l] = True
        return above[np.ix_(self.rate_link, self.rate_link)]

    @cached_property
    def slots(self) -> "SlotPlan":
        """Plan of the scans over links."""
        return SlotPlan.of(self.link_parents)

    @cached_property
    def body_slots(self) -> "SlotPlan":
        """Plan of the scans over bodies, fixed joints included."""
        return SlotPlan.of(np.asarray(self.parents, dtype=int))

    @cached_property
    def own_rates(self) -> np.ndarray:
        """Joint rates that are coordinates, i.e. not mimics."""
        return np.setdiff1d(np.arange(len(self.leaders)), np.asarray(self.mimics, dtype=int))


@dataclass(frozen=True)
class SlotPlan:
    """Where a depth-first scan finds its parents.

    In depth-first order the parent of a link is the link before it, except after a leaf. Only the states of links that
    still await a further child must be kept, and few do so at a time (none in a chain): they live in `count` slots.
    Slot 0 is the link before. `read[l]` is the slot that holds the parent's state, `write[l]` the slot in which link
    l's own state must be kept (0: nowhere); `root_write` is the root's.
    """

    count: int
    read: np.ndarray
    write: np.ndarray
    root_write: int

    @staticmethod
    def of(parents: np.ndarray) -> "SlotPlan":
        n = len(parents) + 1
        last_child = {p: l for l, p in enumerate(parents, start=1) if l != p + 1}  # last use beyond the next link
        slot_of: dict[int, int] = {}
        free: list[int] = []
        count = 0
        read, write = np.zeros(n, int), np.zeros(n, int)
        for l in range(n):
            if l > 0 and (parent := int(parents[l - 1])) != l - 1:
                read[l] = slot_of[parent]
                if last_child[parent] == l:
                    free.append(slot_of.pop(parent))
            if l in last_child:
                if not free:
                    count += 1
                    free.append(count)
                slot_of[l] = write[l] = free.pop()
        return SlotPlan(count, read[1:], write[1:], int(write[0]))
