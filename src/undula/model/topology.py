"""Everything about a system that is not a number: tree, kinds, roles, and the index plans derived from them.

A `Topology` is hashable, so that it can be a static part of a compiled function, and has no names: systems that differ in names
alone share their programs. Bodies joined by fixed joints move as one *link*; the recursions run over links, numbered depth
first, link 0 being the reference body's.
"""

from collections import defaultdict
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from undula.joints.kind import Chart, Kind
from undula.model.slots import SlotPlan

# Groups of motions of the base, as the components of its twist (Vx, Vy, Vz, Wx, Wy, Wz) that may be non-zero.
GROUPS: dict[str, tuple[int, ...]] = {
    "R": (0,),
    "R2": (0, 1),
    "R3": (0, 1, 2),
    "SO2": (5,),
    "SO3": (3, 4, 5),
    "SE2": (0, 1, 5),
    "SE3": (0, 1, 2, 3, 4, 5),
}


class Joints(NamedTuple):
    """All moving joints of one kind: the links that they carry (minus 1), and their indices in the configuration of all
    joints
    (m, nq) and among the joint rates (m, dof)."""

    kind: Kind
    ids: np.ndarray
    q: np.ndarray
    v: np.ndarray


class Charted(NamedTuple):
    """Joints of one kind, without mimics: indices in the configuration (m, nq) and among the coordinates (m, dof)."""

    kind: Kind
    q: np.ndarray
    v: np.ndarray


class Curved(NamedTuple):
    """The same for joints with a chart, by chart."""

    chart: Chart
    q: np.ndarray
    v: np.ndarray


class MimicSources(NamedTuple):
    """Configurations of all joints as sums of terms: for each term its source in q, the entry it is added to; which terms are
    scaled, those of mimics; the entries that have an offset, those of mimics; the number of entries."""

    source: np.ndarray
    entry: np.ndarray
    scaled: np.ndarray
    places: np.ndarray
    entries: int


@dataclass(frozen=True, eq=True)
class Topology:
    """Tree, kinds and roles. Body 0 is the reference body; joint j carries body j + 1."""

    parents: tuple[int, ...]  # parent body of body j + 1
    kinds: tuple[Kind | None, ...]  # None = fixed
    base_role: str  # fixed, driven or free
    base_group: str
    roles: tuple[str, ...]  # of the independent coordinates, in the order of their joints; those of rods come last
    leaders: tuple[
        tuple[int, ...], ...
    ]  # independent coordinates that give each joint rate: its own, or those it mimics
    mimics: tuple[int, ...]  # joint rates that follow coordinates instead of having one
    strain_count: int = 0  # number of coordinates that belong to rods
    rods: tuple[tuple[int, ...], ...] = ()  # bodies of the nodes of each rod
    _hash: list = field(default_factory=list, compare=False, repr=False)

    def __hash__(self) -> int:
        # kept: hashing a thousand joints at every call of a compiled function would cost more than the call
        if not self._hash:
            self._hash.append(hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare)))
        return self._hash[0]

    # Sizes

    @property
    def nv(self) -> int:
        """Number of independent coordinates."""
        return len(self.roles)

    @property
    def body_count(self) -> int:
        return len(self.parents) + 1

    @cached_property
    def link_count(self) -> int:
        return len(self.link_parents) + 1

    @cached_property
    def nq(self) -> int:
        """Length of the internal configuration."""
        return self.strain_count + sum(x.q.size for x in self.charted)

    @property
    def base_directions(self) -> tuple[int, ...]:
        """Components of the base twist that are unknown: those of a free base's group, none otherwise."""
        return GROUPS[self.base_group] if self.base_role == "free" else ()

    @cached_property
    def driven(self) -> np.ndarray:
        """(nv,) booleans: the coordinate's motion is given by a law."""
        return np.array([role == "driven" for role in self.roles], dtype=bool)

    @cached_property
    def led(self) -> np.ndarray:
        """(nv,) booleans: the coordinate's motion follows from constraints, and its effort is found."""
        return np.array([role == "led" for role in self.roles], dtype=bool)

    @cached_property
    def unknown(self) -> np.ndarray:
        """Indices, in (base twist, coordinates), of the velocities that are not given by laws: eta+ of document 001."""
        return np.array([*self.base_directions, *(6 + np.flatnonzero(~self.driven))], dtype=int)

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
    def link_kinds(self) -> tuple[Kind, ...]:
        return tuple(k for k in self.kinds if k is not None)

    @cached_property
    def fixed_levels(self) -> list[np.ndarray]:
        """Bodies on fixed joints, grouped by how many fixed joints lie between them and their link's first body."""
        depth, levels = [0] * self.body_count, defaultdict(list)
        for j, (parent, kind) in enumerate(zip(self.parents, self.kinds)):
            if kind is None:
                depth[j + 1] = depth[parent] + 1
                levels[depth[j + 1]].append(j + 1)
        return [np.array(levels[d]) for d in sorted(levels)]

    @cached_property
    def on_fixed_joint(self) -> np.ndarray:
        """(bodies,) booleans: the body's frame is not that of its link."""
        return np.array([False, *(kind is None for kind in self.kinds)], dtype=bool)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """(links, links) booleans: the column's link lies between the base (excluded) and the row's link, or is the same."""
        above = np.zeros((self.link_count, self.link_count), bool)
        for l, parent in enumerate(self.link_parents, start=1):
            above[l] = above[parent]
            above[l, l] = True
        return above

    # Joint rates: every coordinate of every moving joint, mimics included, in the order of the links

    @cached_property
    def columns(self) -> int:
        """Largest number of rates of a joint: the padded width of the screw columns."""
        return max(1, *(k.dof for k in self.link_kinds), 1)

    @cached_property
    def rate_link(self) -> np.ndarray:
        """Link (from 1) that each joint rate moves."""
        return np.array([l + 1 for l, k in enumerate(self.link_kinds) for _ in range(k.dof)], dtype=int)

    @cached_property
    def rate_column(self) -> np.ndarray:
        """Column of each joint rate within its joint."""
        return np.array([c for k in self.link_kinds for c in range(k.dof)], dtype=int)

    @cached_property
    def joints(self) -> list[Joints]:
        """The moving joints by kind; pieces of rods are left out."""
        out: dict[Kind, tuple[list, list, list]] = {}
        iq = iv = 0
        for l, kind in enumerate(self.link_kinds):
            if kind.dof == 0:
                continue
            ids, q, v = out.setdefault(kind, ([], [], []))
            ids.append(l)
            q.append(range(iq, iq + kind.nq))
            v.append(range(iv, iv + kind.dof))
            iq, iv = iq + kind.nq, iv + kind.dof
        return [Joints(kind, np.array(i), np.array(q), np.array(v)) for kind, (i, q, v) in out.items()]

    @cached_property
    def charted(self) -> list[Charted]:
        """The joints with coordinates of their own, by kind; the coordinates of rods, which come last, are left out."""
        mimic_links = {self.rate_link[r] for r in self.mimics}
        out: dict[Kind, tuple[list, list]] = {}
        iq = iv = 0
        for l, kind in enumerate(self.link_kinds, start=1):
            if l in mimic_links or kind.dof == 0:
                continue
            q, v = out.setdefault(kind, ([], []))
            q.append(range(iq, iq + kind.nq))
            v.append(range(iv, iv + kind.dof))
            iq, iv = iq + kind.nq, iv + kind.dof
        return [Charted(kind, np.array(q), np.array(v)) for kind, (q, v) in out.items()]

    @cached_property
    def curved(self) -> list[Curved]:
        """Those of them whose configuration is not a vector of coordinates: spherical and free joints."""
        return [Curved(x.kind.chart, x.q, x.v) for x in self.charted if x.kind.chart is not None]

    @cached_property
    def vector_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices in the configuration and among the coordinates of all others, where the two hold the same numbers."""
        q = np.setdiff1d(np.arange(self.nq), np.concatenate([x.q.reshape(-1) for x in self.curved] or [np.zeros(0)]))
        v = np.setdiff1d(np.arange(self.nv), np.concatenate([x.v.reshape(-1) for x in self.curved] or [np.zeros(0)]))
        return q.astype(int), v.astype(int)

    @cached_property
    def adds(self) -> bool:
        """Whether all coordinates are additive: there are no spherical or free joints."""
        return not self.curved

    @cached_property
    def terms(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums that give the joint rates: the rate that each term belongs to, and its coordinate."""
        rates = [r for r, leaders in enumerate(self.leaders) for _ in leaders]
        return np.array(rates, dtype=int), np.array([k for leaders in self.leaders for k in leaders], dtype=int)

    @cached_property
    def first_leaders(self) -> np.ndarray:
        """The first coordinate that each joint rate follows; without mimic joints, its own."""
        return np.array([leaders[0] for leaders in self.leaders], dtype=int)

    @cached_property
    def mimic_sources(self) -> "MimicSources":
        """The sums that give the joint configurations, with mimics."""
        whole: dict[int, list[int]] = {}  # first coordinate of a joint -> its configuration
        single: dict[int, int] = {}  # additive coordinate -> its place
        for kind, q, v in self.charted:
            for qs, vs in zip(q.tolist(), v.tolist()):
                whole[vs[0]] = qs
                if kind.chart is None:
                    single.update(zip(vs, qs))
        mimics = set(self.mimics)
        source: list[int] = []
        entry: list[int] = []
        scaled: list[int] = []
        places: list[int] = []
        r = count = 0
        for kind in self.link_kinds:
            if kind.dof == 0:
                continue
            if r in mimics:
                places.append(count)
                scaled += range(len(source), len(source) + len(self.leaders[r]))
                source += [single[k] for k in self.leaders[r]]
                entry += [count] * len(self.leaders[r])
            else:
                own = whole[self.leaders[r][0]]
                source += own
                entry += range(count, count + len(own))
            r, count = r + kind.dof, count + kind.nq
        index = [np.array(x, dtype=int) for x in (source, entry, scaled, places)]
        return MimicSources(index[0], index[1], index[2], index[3], count)

    @cached_property
    def ancestry(self) -> np.ndarray:
        """(rates, rates) booleans: the row's link is an ancestor of the column's link, or the same link."""
        return self.ancestors[np.ix_(self.rate_link, self.rate_link)].T

    @cached_property
    def slots(self) -> SlotPlan:
        """Plan of the scans over links."""
        return SlotPlan.of(self.link_parents)

    @cached_property
    def body_slots(self) -> SlotPlan:
        """Plan of the scans over bodies, fixed joints included."""
        return SlotPlan.of(np.asarray(self.parents, dtype=int))

    @cached_property
    def own_rates(self) -> np.ndarray:
        """Joint rates that are coordinates, i.e. not mimics."""
        return np.setdiff1d(np.arange(len(self.leaders)), np.asarray(self.mimics, dtype=int))
