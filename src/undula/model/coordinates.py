"""From joints and rods to coordinates: names, roles, springs, limits, laws and mimics."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from undula.core.errors import ModelError, as_vector, instance, is_traced, names_of, one_of, shown
from undula.elements.actuator import Actuator, actuator_of
from undula.joints.fixed import Fixed
from undula.joints.joint import ROLES, Joint, Mimic
from undula.joints.rod.plan import RodPlan
from undula.laws.combine import stack
from undula.laws.law import Law, motion_law
from undula.model import checks
from undula.model.system import Drive


class Coordinates:
    """Expands joints into coordinates: names, roles, springs, laws and mimics."""

    def __init__(self, joint_names: Sequence[str], joints: Sequence[Joint], rods: Sequence[RodPlan] = ()):
        self.names: list[str] = []
        self.units: list[str] = []
        self.roles: list[str] = []
        self.stiffness: list[Any] = []
        self.damping: list[Any] = []
        self.rest: list[Any] = []
        self.armature: list[Any] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.leaders: list[tuple[int, ...]] = []
        self.mimics: list[int] = []
        self.scale: list[float] = []
        self.offset: list[float] = []
        self._laws: list[tuple[str, tuple[str, ...], Any]] = []
        self._joint_of: list[str] = []
        self._indivisible: set[str] = set()
        followers: list[tuple[int, str, Any]] = []
        for name, joint in zip(joint_names, joints):
            if joint.mimic is not None:
                instance(joint.mimic, Mimic, f"mimic of joint '{name}'", "un.joints.Mimic(leader, multiplier)")
            if joint.mimic is not None or isinstance(joint, Fixed):
                _refuse_idle_options(name, joint)
            if joint.mimic is not None:
                if joint.kind is None or joint.kind.dof != 1:
                    raise ModelError(f"joint '{name}' is a mimic; only joints with one coordinate can be.")
                followers.append((len(self.leaders), name, joint.mimic))
                self.leaders.append(())
                self.mimics.append(len(self.leaders) - 1)
                self.scale += _multipliers(name, joint.mimic)
                self.offset.append(as_vector(joint.mimic.offset, 0, f"offset of the mimic joint '{name}'"))
            elif not isinstance(joint, Fixed):
                self._add(name, joint)
        for plan in rods:
            self._add_rod(plan)
        checks.unique(self.names, "coordinate")
        for rate, name, mimic in followers:
            for leader in mimic.leaders:
                if leader not in self.names or self._joint_of[self.names.index(leader)] in self._indivisible:
                    raise ModelError(
                        f"joint '{name}' mimics '{leader}', which is not a single coordinate of the system."
                    )
            self.leaders[rate] = tuple(self.names.index(leader) for leader in mimic.leaders)

    def _add(self, name: str, joint: Joint) -> None:
        kind = joint.kind
        assert kind is not None
        names = tuple(f"{name}.{s}" if s else name for s in kind.suffixes)
        self._joint_of += [name] * kind.dof
        if kind.chart is not None:
            self._indivisible.add(name)
        self.leaders += [(len(self.names) + k,) for k in range(kind.dof)]
        self.scale += [1.0] * kind.dof
        self.offset += [0.0] * kind.dof
        self.names += names
        self.units += joint.units
        self.roles += each(joint.role, kind.dof, f"role of joint '{name}'")
        for what in ("stiffness", "damping", "rest", "armature"):
            values = each(getattr(joint, what), kind.dof, f"{what} of joint '{name}'")
            for v in values:
                as_vector(v, 0, f"{what} of joint '{name}'")
                if what != "rest" and not is_traced(v) and v < 0:
                    raise ModelError(f"{what} of joint '{name}' = {v} is negative.")
            getattr(self, what).extend(values)
        self._limit(joint, kind.dof, f"limits of joint '{name}'")
        if joint.motion is not None:
            self._laws.append(("driven", names, joint.motion))
        if joint.effort is not None:
            self._laws.append(("forced", names, joint.effort))

    def _limit(self, joint: Joint, count: int, what: str) -> None:
        """Adds the limits of the coordinates of a joint."""
        given = joint.limits
        if not isinstance(given, list | tuple | np.ndarray) or len(given) != 2:
            raise ModelError(f"{what} = {shown(given)}; it must be a pair (lower, upper).")
        lower, upper = (each(x, count, what) for x in given)
        for lo, up in zip(lower, upper):
            for x in (lo, up):
                if isinstance(x, str | bool) or np.ndim(x) or not np.isreal(x):
                    raise ModelError(f"{what} = {shown(given)}; its entries must be numbers.")
            if not lo <= up:
                raise ModelError(f"{what} = ({lo}, {up}); the lower one must not exceed the upper one.")
        self.lower += [float(x) for x in lower]
        self.upper += [float(x) for x in upper]

    def _add_rod(self, plan: RodPlan) -> None:
        """Adds the coordinates of a rod, whose stiffness and damping are not those of joints."""
        names, rod = plan.coordinate_names, plan.rod
        self._joint_of += [plan.name] * plan.count
        self.names += names
        self.units += plan.units
        self.roles += each("driven" if rod.strain else rod.role, plan.count, f"role of the rod '{plan.name}'")
        for values in (self.stiffness, self.damping, self.rest, self.armature):
            values += [0.0] * plan.count
        self._limit(rod, plan.count, f"limits of the rod '{plan.name}'")
        motion = plan.law or rod.motion
        for role, law in (("driven", motion), ("forced", rod.effort)):
            if law is not None:
                self._laws.append((role, names, law))

    def laws(self, given: Sequence[tuple[str, tuple[str, ...], Any]]) -> tuple[tuple[Drive, ...], list[Actuator]]:
        """Checks roles against laws; returns the motions of driven coordinates and the actuators of forced ones.

        Scalar motion laws of the same form are merged into one vector law.
        """
        for k, role in enumerate(self.roles):
            one_of(role, ROLES, f"role of coordinate '{self.names[k]}'")
        drives: list[Drive] = []
        actuators: list[Actuator] = []
        single: list[tuple[int, Law]] = []
        has_law: dict[int, str] = {}
        for role, names, law in [*self._laws, *given]:
            if role == "led":
                for name in names:
                    self._take(name, role, has_law)
                continue
            if role == "driven":
                motion_law(law, None, f"the law of {', '.join(names)}")
            which = [self._take(name, role, has_law) for name in names]
            shape = law.shape if isinstance(law, Law) else ()
            if shape not in ((), (len(which),)):
                raise ModelError(f"the law of {', '.join(names)} has the shape {shape}; it must be ({len(which)},).")
            if role == "forced":
                actuators.append(actuator_of(names, law, f"{names[0]}.effort"))
            elif shape == () and len(which) == 1:
                single.append((which[0], law))
            else:
                drives.append(Drive(law, tuple(which)))
        if single:
            drives.append(Drive(stack([law for _, law in single]), tuple(k for k, _ in single)))
        self._check_roles(has_law)
        return tuple(drives), actuators

    def _take(self, name: str, role: str, has_law: dict[int, str]) -> int:
        """The index of a coordinate that gets a law."""
        if name not in self.names:
            raise ModelError(f"there is no coordinate '{name}' to be {role}; the names are {', '.join(self.names)}.")
        k = self.names.index(name)
        if k in has_law:
            if "led" in (role, has_law[k]):
                both = "led twice" if role == has_law[k] else f"both {has_law[k]} and {role}"
                raise ModelError(f"coordinate '{name}' is {both}; it must have one role.")
            raise ModelError(f"coordinate '{name}' has two laws.")
        has_law[k] = role
        self.roles[k] = role if self.roles[k] == "free" else self.roles[k]
        return k

    def _check_roles(self, has_law: dict[int, str]) -> None:
        for k, name in enumerate(self.names):
            if self.roles[k] == "driven" and has_law.get(k) != "driven":
                raise ModelError(f"coordinate '{name}' is driven but has no motion law.")
            if self.roles[k] == "forced" and has_law.get(k) != "forced":
                raise ModelError(f"coordinate '{name}' is forced but has no effort law.")
            if self.roles[k] == "led" and has_law.get(k, "led") != "led":
                raise ModelError(f"coordinate '{name}' is led by constraints, so it cannot have a law.")
        for joint in self._indivisible:
            mine = {self.roles[k] for k in range(len(self.names)) if self._joint_of[k] == joint}
            if "driven" in mine and len(mine) > 1:
                raise ModelError(f"joint '{joint}' is driven in some coordinates only; drive all of them or none.")


def _multipliers(name: str, mimic: Mimic) -> list[Any]:
    """One multiplier per leader of a mimic joint, checked."""
    names_of(mimic.leader, f"leader of the mimic joint '{name}'")
    count = len(mimic.leaders)
    if not count or len(set(mimic.leaders)) < count:
        raise ModelError(f"joint '{name}' mimics {mimic.leaders}; its leaders must be different coordinates.")
    values = each(mimic.multiplier, count, f"multiplier of the mimic joint '{name}'")
    return [as_vector(x, 0, f"multiplier of the mimic joint '{name}'") for x in values]


def _refuse_idle_options(name: str, joint: Joint) -> None:
    """Rejects options without effect: springs, laws and roles of joints that have no coordinate."""
    for what, default in (
        ("role", "free"),
        ("stiffness", 0.0),
        ("damping", 0.0),
        ("rest", 0.0),
        ("armature", 0.0),
        ("motion", None),
        ("effort", None),
    ):
        value = getattr(joint, what)
        if value is not default and (is_traced(value) or np.any(np.asarray(value != default))):
            kind = "a mimic" if joint.mimic is not None else "fixed"
            raise ModelError(
                f"joint '{name}' is {kind} and has no coordinate, so its {what} = {shown(value)} has no effect."
            )
    if joint.limits != (-math.inf, math.inf):
        raise ModelError(f"joint '{name}' has no coordinate, so its limits = {joint.limits} have no effect.")


def each(value: Any, count: int, what: str) -> list[Any]:
    """One value per coordinate, from one value or as many as there are coordinates."""
    if isinstance(value, str | bytes) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        return [value] * count
    if len(value) != count:
        raise ModelError(f"{what} has {len(value)} values; it must have 1 or {count}.")
    return list(value)
