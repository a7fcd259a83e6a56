"""Classification of a system by the type of its problem (document 000, Table 3.1; document 001, section III)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.balance.admissible import instant
from undula.contact.carried import contact_count, over_unknowns, touch
from undula.core.arrays import Array, known
from undula.elements.element import changed
from undula.model.arguments import checked
from undula.model.prepare import prepare
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS
from undula.numerics.programs import quickly_compiled
from undula.numerics.row_space import TOLERANCE
from undula.tree.driven import driven_motion
from undula.tree.snapshot import place


@dataclass(frozen=True)
class Class:
    """How a system is actuated and constrained, and which model determines its motion.

    - `constraint`: "unconstrained", "under-constrained", "fully constrained" or "over-constrained".
    - `actuation`: of the base by driven wheels: "", "fully actuated" or "partially actuated".
    - `motion`: "kinematic" (the rows determine all unknown velocities) or "dynamic".
    - `statics`: "isostatic" (reactions are unique), "hyperstatic" (they are not), or "" without constraints.
    - `rows`, `m`, `m_locked`, `unknown`: number of rows, rank of the rows over all velocities (m), over the unknown ones
      (m degree), and the number of the latter (n + s_p); `base_rank`: rank of the rows over the base twist alone.
    - `kinematic`, `dynamic`: the passive coordinates that the rows determine, and those that they do not.
    - `residual`: largest remaining violation of a row if the driven motion is not compatible with them [m/s or rad/s].
    - `tolerance`: relative tolerance of the ranks; `problem`: the class in words.
    - `compatible` (modes, driven): rates of the driven coordinates, in their order, that the rows admit: an orthonormal
      basis of the kernel of document 004, (14); as many as driven coordinates unless the system is over-constrained.
    """

    constraint: str
    actuation: str
    motion: str
    statics: str
    rows: int
    m: int
    m_locked: int
    unknown: int
    base_rank: int
    kinematic: tuple[str, ...]
    dynamic: tuple[str, ...]
    residual: float
    tolerance: float
    problem: str
    compatible: Float[np.ndarray, "modes driven"]

    def __str__(self) -> str:
        return self.problem


@checked
def classify(system: System, state: State | None = None, t: float | None = None, start: float = 0.0) -> Class:
    """The class at a configuration and time [s].

    Without a time, the generic class: the one with the largest ranks at the `start` and shortly after, because many gaits
    start in a singular shape.
    """
    state = system.state() if state is None else state
    if not system.constrained:
        return _without(system)
    found = [_at(system, state, x) for x in ((start, start + 0.01, start + 0.1) if t is None else (t,))]
    return max(found, key=lambda c: (c.m_locked, c.m))


class Classes:
    """The classes that a system passes through in a run; `start` [s]: when it begins."""

    def __init__(self, system: System, state: State, start: float = 0.0):
        self.system, self.state, self.start = system, state, start
        self._known: dict[Any, str] = {}

    @cached_property
    def generic(self) -> str:
        """The class at the start and shortly after, in words."""
        try:
            return str(classify(self.system, self.state, start=self.start))
        except np.linalg.LinAlgError:  # a matrix that is not finite has no rank
            return "unknown"

    def along(self, samples: Any, mask: np.ndarray | None) -> tuple[np.ndarray, list[str]]:
        """The class at each sample as an index (times,) into a legend, and the legend.

        Samples with the same rank, rows (`mask`) and closed and slipping contacts have the same class; it is evaluated once
        for them.
        """
        rank = np.asarray(samples.rank)
        parts = [rank[:, None].astype(float)]
        closed = slips = None
        if mask is not None:
            parts.append(np.asarray(mask))
        if samples.contacts is not None:
            closed = np.any(np.asarray(samples.contacts.force) != 0, axis=-1)
            slips = np.asarray(samples.contacts.slips) > 0
            parts += [closed.astype(float), slips.astype(float)]
        keys = [x.tobytes() for x in np.concatenate(parts, axis=1)]
        for k, key in enumerate(keys):
            if key not in self._known:
                own = None if closed is None or slips is None else (closed[k], slips[k])
                self._known[key] = self._class_of(samples, k, None if mask is None else mask[k], own)
        legend = list(dict.fromkeys(self._known[key] for key in keys))
        return np.array([legend.index(self._known[key]) for key in keys], dtype=int), legend

    def _class_of(
        self, samples: Any, k: int, mask: np.ndarray | None, contacts: tuple[np.ndarray, np.ndarray] | None
    ) -> str:
        """The class at sample k; `contacts`: which are closed, and which slip."""
        system = self.system if mask is None else changed(self.system, mask=np.asarray(mask))
        state = jax.tree.map(lambda x: np.asarray(x[k]), samples.state)
        t = float(samples.t[k])
        touching = None
        if contacts is not None and contacts[0].any():
            touching = _stuck(np.asarray(_touching(system.bare(), state, np.asarray(t))), *contacts)
        if touching is None and not system.constrained:
            return self.generic
        try:
            return str(_at(system, state, t, touching))
        except np.linalg.LinAlgError:
            return "unknown"


@quickly_compiled
def _touching(system: System, state: State, t: Any) -> Array:
    """Rows (contacts, 3, 6 + nv) of contacts: normal, and across it as far as their laws have friction."""
    prepared = prepare(system)
    state, known = driven_motion(system, t, state)
    snap = place(prepared, t, state, known)
    out = []
    for group, places in prepared.grouped("unilateral"):
        _, _, seen, x = touch(prepared, snap, group, places, state.velocity)
        J = over_unknowns(prepared, snap, group, seen, x.rows, None)
        J = J.reshape(J.shape[0], -1, contact_count(group))[:, :3]
        missing = 3 - J.shape[1]
        out.append(jnp.pad(jnp.moveaxis(J, (0, 1, 2), (2, 1, 0)), ((0, 0), (0, missing), (0, 0))))
    return jnp.concatenate(out)


def _stuck(J: np.ndarray, closed: np.ndarray, slips: np.ndarray) -> np.ndarray:
    """Rows of closed contacts that do not slip; of those that slip, the normal rows."""
    pairs = zip(J[closed], slips[closed])
    return np.concatenate([rows[:1] if slip else rows[np.abs(rows).max(1) > 0] for rows, slip in pairs])


def _rank(A: np.ndarray) -> int:
    """Rank after scaling the rows to unit length."""
    size = np.linalg.norm(A, axis=1, keepdims=True)
    A = A / np.where(size > 1e-14, size, 1.0)
    return int(np.linalg.matrix_rank(A, tol=TOLERANCE)) if A.size else 0


def _at(system: System, state: State, t: float, touching: np.ndarray | None = None) -> Class:
    """The class at an instant; `touching` (rows, 6 + nv): rows of contacts."""
    top = system.topology
    A, explicit, u = np.zeros((0, 6 + system.nv)), np.zeros(0), np.zeros(6 + system.nv)
    if system.ideal:
        here = known(instant(system, state, t))
        A, explicit, u = here.A, here.driven, here.state.velocity
    held = len(A) if system.mask is None else int(np.asarray(system.mask).sum())
    if touching is not None:
        A, held = np.concatenate([A, touching]), held + len(touching)
        explicit = np.append(explicit, np.zeros(len(touching)))
    which = system.topology.unknown
    others = np.setdiff1d(np.arange(A.shape[1]), which)
    given = explicit + A[:, others] @ u[others]  # contribution of the driven motion and of laws inside constraints
    own = system.row_names[: len(system.reaction_weights)]
    names = (*own, *[""] * (len(A) - len(own)))
    turning, driven = _turning(system)
    # rows that only determine how fast a passive wheel turns do not constrain the vehicle
    shape = np.array([name not in turning for name in names], dtype=bool)
    sides = shape & np.array([name not in driven for name in names], dtype=bool)
    base = list(GROUPS[top.base_group]) if top.base_role == "free" else []
    n, m_locked = len(which), _rank(A[:, which])
    velocity = np.concatenate([A, explicit[:, None]], axis=1)
    m = max(_rank(velocity), m_locked)
    rho, rho_sides = _rank(A[shape][:, base]), _rank(A[sides][:, base])
    m_shape = max(_rank(velocity[shape]), rho)
    actuation = ""
    if base:
        if driven and rho_sides < len(base):
            actuation = "fully actuated" if rho == len(base) else "partially actuated"
        if actuation:
            word = "fully constrained" if rho == len(base) else "under-constrained"
        elif rho < len(base):
            word = "under-constrained"
        else:
            word = "fully constrained" if m_shape == len(base) else "over-constrained"
    elif m_locked < n:
        word = "under-constrained"
    else:
        word = "fully constrained" if m == m_locked else "over-constrained"
    if not held:
        word = "unconstrained"
    motion = "kinematic" if m_locked == n else "dynamic"
    # led coordinates have actuators of their own, so that their rows need not be the ones that hold them
    supported = which[~np.isin(which, 6 + np.flatnonzero(top.led))]
    statics = "" if not held else "isostatic" if _rank(A[:, supported]) == held else "hyperstatic"
    passive = [(k, name) for k, name in enumerate(system.coordinate_names) if top.roles[k] != "driven"]
    fixed = _determined(A[:, which])
    place = {int(i): j for j, i in enumerate(which)}
    kinematic = tuple(name for k, name in passive if fixed[place[6 + k]])
    dynamic = tuple(name for k, name in passive if not fixed[place[6 + k]])
    solution = np.linalg.lstsq(A[:, which], -given, rcond=TOLERANCE)[0] if n else np.zeros(0)
    residual = float(np.abs(A[:, which] @ solution + given).max()) if len(A) else 0.0
    model = _model(system, word, motion, m_locked, n)
    words = ", ".join(x for x in (word, actuation, statics) if x)
    carrier = f"base free in {top.base_group}" if top.base_role == "free" else f"{top.base_role} base"
    return Class(
        word, actuation, motion, statics, held, m, m_locked, n, rho, kinematic, dynamic, residual, TOLERANCE,
        f"{words}, {carrier}: {model}", _compatible(A[:, which], A[:, 6 + np.flatnonzero(top.driven)]),
    )  # fmt: skip


def _model(system: System, word: str, motion: str, m_locked: int, n: int) -> str:
    if word == "unconstrained":
        return "general dynamics with slipping contacts" if system.slipping else "general dynamics"
    if motion == "kinematic":
        return "kinematics of the loops" if system.topology.base_role != "free" else "kinematic connection"
    return f"reduced dynamics of {n - m_locked} of {n} velocities"


def _turning(system: System) -> tuple[set[str], set[str]]:
    """Names of the rolling rows of passive wheels, and of those of driven wheels."""
    passive: set[str] = set()
    driven: set[str] = set()
    for group in system.ideal:
        labels, turned = group.form.labels, group.form.turned
        for places, coordinates in zip(group.rows, group.coordinates):
            for label, row in zip(labels, places):
                if label in turned:
                    axle = turned[label]
                    free = axle is not None and system.topology.roles[coordinates[axle]] != "driven"
                    (passive if free else driven).add(system.row_names[row])
    return passive, driven


def _compatible(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Rates r' for which A u + B r' = 0 has a solution u: the kernel of (left kernel of A) B."""
    U, s, _ = np.linalg.svd(A) if A.size else (np.eye(len(A)), np.zeros(0), None)
    rank = int((s > TOLERANCE * s[0]).sum()) if s.size and s[0] > 0 else 0
    C = U[:, rank:].T @ B
    if not C.size:
        return np.eye(B.shape[1])
    _, s, Vt = np.linalg.svd(C)
    size = max(np.abs(B).max(initial=0.0), 1e-300)
    return Vt[int((s > 1e-7 * size).sum()) :]


def _determined(A: np.ndarray) -> np.ndarray:
    """Which unknowns the rows determine: those on which the kernel of A has no component."""
    if not A.size:
        return np.zeros(A.shape[1], bool)
    _, s, Vt = np.linalg.svd(A)
    kernel = Vt[int((s > TOLERANCE * s[0]).sum()) if s[0] > 0 else 0 :]
    return np.abs(kernel).max(0, initial=0.0) < 1e-7


def _without(system: System) -> Class:
    """The class of a tree without constraints."""
    top = system.topology
    n = len(system.topology.unknown)
    roles = set(top.roles)
    if roles == {"driven"}:
        shape = "driven shape"
    elif "driven" in roles:
        shape = "partly driven shape"
    else:
        shape = "free shape" if roles else "no shape"
    if top.base_role == "free":
        word = "unconstrained"
        weightless = not any("field" in g.does for g in system.forces)
        if roles == {"driven"}:
            first = "mechanical connection from rest, locomotion dynamics otherwise"
            model = first if weightless else "locomotion dynamics"
        else:
            model = "general dynamics" if roles else "rigid-body dynamics"
        problem = f"unconstrained, base free in {top.base_group}, {shape}: {model}"
    else:
        word = "manipulator"
        where = "fixed base" if top.base_role == "fixed" else f"base driven in {top.base_group}"
        if roles <= {"driven"} and (roles or top.base_role == "driven"):
            model = "inverse dynamics"
        else:
            model = "hybrid dynamics" if "driven" in roles or top.base_role == "driven" else "forward dynamics"
        problem = f"manipulator, {where}, {shape}: {model}"
    passive = tuple(name for name, role in zip(system.coordinate_names, top.roles) if role != "driven")
    motion = "dynamic" if n else "kinematic"
    every = np.eye(int(top.driven.sum()))
    return Class(word, "", motion, "", 0, 0, 0, n, 0, (), passive, 0.0, TOLERANCE, problem, every)
