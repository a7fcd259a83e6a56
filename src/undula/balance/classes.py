"""Classification of a system by the type of its problem (document 000, Table 3.1; document 001, section III)."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.balance.rows import rows_of
from undula.model.prepare import prepare
from undula.model.state import State
from undula.model.system import System
from undula.model.topology import GROUPS
from undula.numerics.quick import quickly_compiled
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

    def __str__(self) -> str:
        return self.problem


def classify(system: System, state: State | None = None, t: float | None = None) -> Class:
    """The class at a configuration and time [s].

    Without a time, the generic class: the one with the largest ranks at the start and shortly after, because many gaits
    start in a singular shape.
    """
    state = system.state() if state is None else state
    if not system.constrained:
        return _without(system)
    found = [_at(system, state, x) for x in ((0.0, 0.01, 0.1) if t is None else (t,))]
    return max(found, key=lambda c: (c.m_locked, c.m))


@quickly_compiled
def _rows(system: System, state: State, t: Any):
    prepared = prepare(system)
    state, known = driven_motion(system, t, state)
    rows = rows_of(prepared, place(prepared, t, state, known))
    return rows.A, rows.driven, state.velocity


def _rank(A: np.ndarray) -> int:
    """Rank after scaling the rows to unit length."""
    size = np.linalg.norm(A, axis=1, keepdims=True)
    A = A / np.where(size > 1e-14, size, 1.0)
    return int(np.linalg.matrix_rank(A, tol=TOLERANCE)) if A.size else 0


def _at(system: System, state: State, t: float) -> Class:
    top = system.topology
    A, explicit, u = (np.asarray(x) for x in _rows(system, state, jnp.asarray(float(t))))
    which = system.topology.unknown
    others = np.setdiff1d(np.arange(A.shape[1]), which)
    known = explicit + A[:, others] @ u[others]  # contribution of the driven motion and of laws inside constraints
    names = system.row_names[: len(A)]
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
    if not system.ideal:
        word = "unconstrained"
    motion = "kinematic" if m_locked == n else "dynamic"
    statics = "" if not system.ideal else "isostatic" if m_locked == len(A) else "hyperstatic"
    passive = [(k, name) for k, name in enumerate(system.coordinate_names) if top.roles[k] != "driven"]
    fixed = _determined(A[:, which])
    place = {int(i): j for j, i in enumerate(which)}
    kinematic = tuple(name for k, name in passive if fixed[place[6 + k]])
    dynamic = tuple(name for k, name in passive if not fixed[place[6 + k]])
    solution = np.linalg.lstsq(A[:, which], -known, rcond=TOLERANCE)[0] if n else np.zeros(0)
    residual = float(np.abs(A[:, which] @ solution + known).max()) if len(A) else 0.0
    model = _model(system, word, motion, m_locked, n)
    words = ", ".join(x for x in (word, actuation, statics) if x)
    carrier = f"base free in {top.base_group}" if top.base_role == "free" else f"{top.base_role} base"
    return Class(
        word, actuation, motion, statics, len(A), m, m_locked, n, rho, kinematic, dynamic, residual, TOLERANCE,
        f"{words}, {carrier}: {model}",
    )  # fmt: skip


def _model(system: System, word: str, motion: str, m_locked: int, n: int) -> str:
    if word == "unconstrained":
        return "general dynamics with slipping contacts"
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
    return Class(word, "", motion, "", 0, 0, 0, n, 0, (), passive, 0.0, TOLERANCE, problem)
