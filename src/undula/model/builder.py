"""Authoring: name bodies and joints in any order, then `build()` a validated, frozen `System`."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula._startup import UndulaWarning
from undula.actuation.laws import Law, stack
from undula.constraints.constraint import Constraint
from undula.constraints.rows import group_constraints
from undula.environment.load import Follower, Load, as_law
from undula.joints.authoring import ROLES, Fixed, Joint
from undula.lie import se3, so3
from undula.model import checks
from undula.model.errors import ModelError, as_vector, is_traced
from undula.model.system import Drive, Shape, System
from undula.model.topology import GROUPS, Topology
from undula.rods.actuators import Along, Pressure, Tension, Winch, place, scalar_law
from undula.rods.rod import Rod, RodPlan, Segment, pack

BASE_ROLES = ("fixed", "driven", "free")


@dataclass(frozen=True)
class _Body:
    name: str
    parent: str | None
    joint: Joint | None
    mass: Any
    com: Any
    inertia: Any
    position: Any
    rotation: Any
    shapes: tuple[Shape, ...]


class Builder:
    """Describes a system.

    The reference body comes from `base`, the others from `body`, in any order; `drive` and `force` give laws to several
    coordinates at once. `build` sorts the bodies depth first, checks everything and returns a `System`.

        b = Builder("pendulum")
        b.base("ground")
        b.body("arm", parent="ground", joint=Revolute((0, 1, 0)), mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        system = b.build()
    """

    def __init__(self, name: str, gravity: Any = (0.0, 0.0, -9.81), strict: bool = True, least_squares: bool = False):
        """`gravity`: acceleration of gravity in the world [m/s^2]. `strict=False` accepts, with one warning, inertias
        that no body has and bodies that move without mass: inverse dynamics works, forward dynamics need not.
        `least_squares`: a driven motion that violates constraints is then not refused; the rows are violated as little as
        possible, and `constraint_residual` says how much."""
        self.name = name
        self._strict = strict
        self._least_squares = least_squares
        self._gravity = as_vector(gravity, 3, "gravity")
        self._bodies: list[_Body] = []
        self._base: tuple[str, str, Any] | None = None
        self._drives: list[tuple[str, tuple[str, ...], Any]] = []
        self._constraints: list[tuple[Any, Any]] = []
        self._rods: list[tuple[RodPlan, tuple[str, ...]]] = []
        self._along: list[tuple[str, str, Any, float, dict[str, Any]]] = []
        self._loads: list[tuple[str, Law, Law, Any, bool, bool]] = []
        self._followers: list[tuple[str, Law, Any, Any]] = []

    def base(
        self,
        name: str = "base",
        role: str = "fixed",
        group: str = "SE3",
        motion: Law | None = None,
        mass: Any = 0.0,
        com: Any = (0.0, 0.0, 0.0),
        inertia: Any = 0.0,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = None,
        shapes: Sequence[Shape] = (),
    ) -> None:
        """The reference body.

        **Arguments:**

        - `role`: "fixed", "driven" or "free"; `group`: what it moves in, one of R, R2, R3, SO2, SO3, SE2, SE3 (x; x and y;
          x, y and z; about z; any rotation; x, y and about z; everything), in the axes of its initial pose.
        - `motion`: for a driven base, a law with one component a direction of the group: position [m] and rotation vector
          [rad] in the frame (`position`, `rotation`), in the order of the twist's components.
        - `position` [m] and `rotation` (3x3 matrix or quaternion) of the base in the world, where a free base starts.
        - `mass` [kg], `com` [m], `inertia` about the centre of mass [kg m^2] (a number, 3 principal values or a 3x3 matrix).
        """
        if self._base is not None:
            raise ModelError(f"base '{name}': the system already has the base '{self._bodies[0].name}'.")
        if role not in BASE_ROLES:
            raise ModelError(f"role of base '{name}' = {role!r}; it must be one of {', '.join(BASE_ROLES)}.")
        if group not in GROUPS:
            raise ModelError(f"group of base '{name}' = {group!r}; it must be one of {', '.join(GROUPS)}.")
        if role == "driven" and motion is None:
            raise ModelError(f"base '{name}' is driven but has no motion law.")
        if role != "driven" and motion is not None:
            raise ModelError(f"base '{name}' is {role}, so it cannot have a motion law.")
        if motion is not None and motion.shape != (len(GROUPS[group]),):
            raise ModelError(
                f"motion of base '{name}' has the shape {motion.shape}; the group {group} needs ({len(GROUPS[group])},)."
            )
        self._base = (role, group, motion)
        self._bodies.insert(0, _Body(name, None, None, mass, com, inertia, position, rotation, tuple(shapes)))

    def body(
        self,
        name: str,
        parent: str,
        joint: Joint,
        mass: Any = 0.0,
        com: Any = (0.0, 0.0, 0.0),
        inertia: Any = 0.0,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = None,
        shapes: Sequence[Shape] = (),
    ) -> None:
        """A body on a joint.

        **Arguments:**

        - `parent`: the body that carries it; `joint`: Fixed, Revolute, Prismatic, Helical, Cylindrical, Universal, Spherical,
          Planar, Free or Rod. The body's frame is the joint's frame, moved by the joint.
        - `mass` [kg], `com` in the body frame [m], `inertia` about the centre of mass, in the body's axes [kg m^2]: a number,
          3 principal values or a 3x3 matrix.
        - `position` [m] and `rotation` (3x3 matrix or quaternion w, x, y, z) of the joint frame in the parent.
        - `shapes`: what a viewer draws.
        """
        if not isinstance(joint, Joint):
            raise ModelError(f"joint of body '{name}' = {joint!r}; it must be a joint, e.g. Revolute((0, 0, 1)).")
        if isinstance(joint, Rod):
            parent, position, rotation = self._add_nodes(
                RodPlan(joint.name or name, joint), name, parent, position, rotation
            )
            joint = Fixed(name=joint.name)
        self._bodies.append(_Body(name, parent, joint, mass, com, inertia, position, rotation, tuple(shapes)))

    def _add_nodes(self, plan: RodPlan, name: str, parent: str, position: Any, rotation: Any) -> tuple[str, Any, Any]:
        """Adds the bodies of a rod's nodes; what is left for the body at its tip is to be fixed on the last one."""
        nodes = tuple(f"{name}.{k + 1}" for k in range(len(plan.nodes)))
        for node, (mass, com, inertia), shape in zip(nodes, plan.inertials(), plan.drawn()):
            self._bodies.append(_Body(node, parent, Segment(), mass, com, inertia, position, rotation, shape))
            parent, position, rotation = node, np.zeros(3), None
        self._rods.append((plan, nodes))
        return parent, position, rotation

    def drive(self, coordinates: str | Sequence[str], law: Law) -> None:
        """Makes coordinates driven: `law` gives their motion, one component a coordinate [rad or m]."""
        self._drives.append(("driven", _names(coordinates), law))

    def force(self, coordinates: str | Sequence[str], law: Any) -> None:
        """Makes coordinates forced: `law` (of time) or a controller gives their efforts [N m or N]."""
        self._drives.append(("forced", _names(coordinates), law))

    def constrain(self, constraint: Any, slip: Any = None) -> None:
        """Adds a constraint: a `Wheel`, `Closure`, ... or one of your own.

        With `slip`, a law such as `Viscous` or `RegularisedCoulomb`, it is not held: the law gives its forces.
        """
        if not isinstance(constraint, Constraint):
            raise ModelError(f"constraint = {constraint!r}; it must be a constraint, e.g. Skate('blade', 'body').")
        if slip is not None and not callable(getattr(slip, "force", None)):
            raise ModelError(
                f"slip of the constraint '{constraint.name}' = {slip!r}; it must be a slip law, e.g. Viscous(10.0)."
            )
        self._constraints.append((constraint, slip))

    # Rods: what acts along them

    def load(
        self,
        body: str,
        force: Any = (0.0, 0.0, 0.0),
        couple: Any = (0.0, 0.0, 0.0),
        point: Any = (0.0, 0.0, 0.0),
        follows: bool = False,
        along: bool = False,
    ) -> None:
        """A force [N] and a couple [N m], numbers or laws of time, on a body at a `point` of its frame [m].

        `follows`: their components are those in the body's frame, not in the world. `along`: `body` is the tip of a rod, and
        they act on all of the rod, per length [N/m, N].
        """
        what = f"the load on '{body}'"
        laws = as_law(force, f"force of {what}"), as_law(couple, f"couple of {what}")
        self._loads.append((body, *laws, as_vector(point, 3, f"point of {what}"), follows, along))

    def follow(self, body: str, motion: Law, stiffness: Any, damping: Any) -> None:
        """A controller at a body: springs and dampers pull its frame along a motion.

        `motion`: position [m] and rotation vector [rad] in the world, a law of six components; `stiffness` (6,) and
        `damping` (6,) [N/m, N m/rad; times s] on the errors of pose and twist, in the body's frame.
        """
        what = f"the controller of '{body}'"
        if not isinstance(motion, Law) or motion.shape != (6,):
            raise ModelError(f"motion of {what} must be a law of six components.")
        gains = [as_vector(x, 6, f"{n} of {what}") for n, x in (("stiffness", stiffness), ("damping", damping))]
        self._followers.append((body, motion, *gains))

    def _following(self, top: Topology, body: str, motion: Law, stiffness: Any, damping: Any) -> Follower:
        if body not in top.bodies:
            raise ModelError(
                f"the controller of '{body}': there is no such body; the bodies are {', '.join(top.bodies)}."
            )
        return Follower(motion, jnp.asarray(stiffness), jnp.asarray(damping), top.bodies.index(body))

    def tendon(
        self,
        name: str,
        rod: str,
        routing: Any,
        tension: Any = None,
        length: Any = None,
        stiffness: Any = None,
        end: float = 1.0,
    ) -> None:
        """A tendon along a rod, fixed at the fraction `end` of its length; it slides without friction before.

        **Arguments:**

        - `routing`: its place (y, z) in the section [m], or a function of X [m] that gives it: straight, helical, converging.
        - `tension` [N], a number or a law; or `length` [m], a number or a law, of a tendon that a winch winds: it is elastic
          with the `stiffness` [N/m], and slack when it is too long.
        """
        what = f"the tendon '{name}'"
        if (tension is None) == (length is None):
            raise ModelError(f"{what} must have either a tension or a length.")
        if (length is None) != (stiffness is None):
            raise ModelError(f"{what} must have a stiffness if, and only if, it has a length.")
        if tension is not None:
            options: dict[str, Any] = dict(law=scalar_law(tension, f"tension of {what}", 0.0))
        else:
            if not is_traced(stiffness) and not stiffness > 0:
                raise ModelError(f"stiffness of {what} = {stiffness} N/m; it must be positive.")
            options = dict(
                law=scalar_law(length, f"length of {what}", 0.0), stiffness=jnp.asarray(stiffness, dtype=float)
            )
        self._along.append((name, rod, routing, end, options))

    def chamber(self, name: str, rod: str, routing: Any, area: Any, pressure: Any, end: float = 1.0) -> None:
        """A fluid chamber along a rod: its centre's `routing` as for a tendon, `area` [m^2], `pressure` [Pa] or a law."""
        what = f"the chamber '{name}'"
        if not is_traced(area) and not area > 0:
            raise ModelError(f"area of {what} = {area} m^2; it must be positive.")
        options = dict(law=scalar_law(pressure, f"pressure of {what}"), area=jnp.asarray(area, dtype=float))
        self._along.append((name, rod, routing, end, options))

    def _plan(self, rod: str, what: str) -> RodPlan:
        names = [plan.name for plan, _ in self._rods]
        if rod not in names:
            raise ModelError(
                f"{what} acts on the rod '{rod}', which does not exist; the rods are {', '.join(names) or '(none)'}."
            )
        return self._rods[names.index(rod)][0]

    def _acting(self, groups: tuple[Any, ...], name: str, rod: str, routing: Any, end: float, options: dict) -> Along:
        kind = Winch if "stiffness" in options else Pressure if "area" in options else Tension
        what = f"the {'chamber' if kind is Pressure else 'tendon'} '{name}'"
        plan = self._plan(rod, what)
        offset, slope, weights = place(plan, routing, end, what)
        first = next(nodes[0] for p, nodes in self._rods if p is plan)
        at = [
            (g, m)
            for g, group in enumerate(groups)
            for m, links in enumerate(group.links)
            if links[0] == self._link[first]
        ]
        return kind(offset, slope, weights, name=name, group=at[0][0], member=at[0][1], **options)

    def _loading(
        self, top: Topology, body: str, force: Law, couple: Law, point: Any, follows: bool, along: bool
    ) -> Load:
        what = f"the load on '{body}'"
        if along:
            tips = [nodes[0].rpartition(".")[0] for _, nodes in self._rods]
            plan = self._rods[tips.index(body)][0] if body in tips else self._plan(body, what)
            nodes = next(nodes for p, nodes in self._rods if p is plan)
            weights = jnp.asarray(plan.weights * plan.rod.length)
            return Load(force, couple, jnp.asarray(point), weights, tuple(top.bodies.index(x) for x in nodes), follows)
        if body not in top.bodies:
            raise ModelError(f"{what}: there is no such body; the bodies are {', '.join(top.bodies)}.")
        return Load(force, couple, jnp.asarray(point), jnp.ones(1), (top.bodies.index(body),), follows)

    def build(self) -> System:
        """The frozen system, or a `ModelError` that names the culprit."""
        if self._base is None:
            raise ModelError(f"system '{self.name}' has no base: call base() first.")
        bodies = checks.depth_first(self._bodies)
        role, group, motion = self._base
        joints = [b.joint for b in bodies[1:] if b.joint is not None]
        joint_names = tuple(j.name or b.name for j, b in zip(joints, bodies[1:]))
        checks.unique(joint_names, "joint")
        table = _Coordinates(joint_names, joints, [plan for plan, _ in self._rods])
        drives = table.laws(self._drives)
        roles = tuple(table.roles)
        order = [b.name for b in bodies]
        topology = Topology(
            name=self.name,
            bodies=tuple(b.name for b in bodies),
            parents=tuple([b.name for b in bodies].index(str(b.parent)) for b in bodies[1:]),
            joints=joint_names,
            joint_types=tuple(type(j).__name__ for j in joints),
            kinds=tuple(j.kind.name if j.kind else None for j in joints),
            base_role=role,
            base_group=group,
            coordinates=tuple(table.names),
            units=tuple(table.units),
            roles=roles,
            leaders=tuple(table.leaders),
            mimics=tuple(table.mimics),
            strain_count=sum(plan.count for plan, _ in self._rods),
            rods=tuple((plan.name, tuple(order.index(x) for x in nodes)) for plan, nodes in self._rods),
        )
        self._link = {name: int(link) for name, link in zip(topology.bodies, topology.link_of_body)}
        rods = pack([plan for plan, _ in self._rods], [tuple(self._link[x] for x in nodes) for _, nodes in self._rods])
        checks.unique([x[0] for x in self._along], "actuator")
        complaints: list[str] = []
        complain = checks.refuse if self._strict else complaints.append
        inertials = [checks.inertial(b.name, b.mass, b.com, b.inertia, complain) for b in bodies]
        mass, com, inertia = _stacked(inertials)
        checks.masses(topology, mass, complain)
        if complaints:
            sentence = f"system '{self.name}' is not physical: {' '.join(complaints)}"
            warnings.warn(sentence, UndulaWarning, stacklevel=2)
        base_place, *place = [_placed(b.name, b.position, b.rotation) for b in bodies]
        vectors = [j.vectors(f"joint '{n}'") for j, n in zip(joints, joint_names)]
        checks.unique([c.name for c, _ in self._constraints], "constraint")
        ideal, held = group_constraints(
            [x for x in self._constraints if x[1] is None], topology.bodies, topology.coordinates
        )
        slipping, slips = group_constraints(
            [x for x in self._constraints if x[1] is not None], topology.bodies, topology.coordinates
        )
        return System(
            mass=mass,
            com=com,
            inertia=inertia,
            joint_position=_rows([p for p, _ in place], (3,)),
            joint_rotation=_rows([R for _, R in place], (3, 3)),
            axis=_rows([a for a, _ in vectors], (3,)),
            second=_rows([b for _, b in vectors], (3,)),
            stiffness=_rows(table.stiffness, ()),
            damping=_rows(table.damping, ()),
            rest=_rows(table.rest, ()),
            mimic_scale=_rows(table.scale, ()),
            mimic_offset=_rows(table.offset, ()),
            gravity=jnp.asarray(self._gravity),
            base_pose=se3.Pose(jnp.asarray(base_place[0]), _quaternion(base_place[1])),
            base_motion=motion,
            motions=drives["driven"],
            efforts=drives["forced"],
            rods=rods,
            along=tuple(self._acting(rods, *x) for x in self._along),
            loads=tuple(self._loading(topology, *x) for x in self._loads),
            followers=tuple(self._following(topology, *x) for x in self._followers),
            ideal=ideal,
            slipping=slipping,
            reaction_weights=jnp.ones(len(held)),
            static_reactions=jnp.zeros(len(held)),
            row_names=held + slips,
            least_squares=self._least_squares,
            lower=tuple(table.lower),
            upper=tuple(table.upper),
            shapes=tuple(b.shapes for b in bodies),
            topology=topology,
        )


class _Coordinates:
    """Expands joints into coordinates: names, roles, springs, laws, and who follows whom."""

    def __init__(self, joint_names: Sequence[str], joints: Sequence[Joint], rods: Sequence[RodPlan] = ()):
        self.names: list[str] = []
        self.units: list[str] = []
        self.roles: list[str] = []
        self.stiffness: list[Any] = []
        self.damping: list[Any] = []
        self.rest: list[Any] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.leaders: list[int] = []
        self.mimics: list[int] = []
        self.scale: list[float] = []
        self.offset: list[float] = []
        self._laws: list[tuple[str, tuple[str, ...], Any]] = []
        self._joint_of: list[str] = []
        self._indivisible: set[str] = set()
        followers: list[tuple[int, str, Any]] = []
        for name, joint in zip(joint_names, joints):
            if joint.mimic is not None or isinstance(joint, Fixed):
                _refuse_idle_options(name, joint)
            if joint.mimic is not None:
                if joint.kind is None or joint.kind.dof != 1:
                    raise ModelError(f"joint '{name}' is a mimic; only joints with one coordinate can be.")
                followers.append((len(self.leaders), name, joint.mimic))
                self.leaders.append(-1)
                self.mimics.append(len(self.leaders) - 1)
                self.scale.append(as_vector(joint.mimic.multiplier, 0, f"multiplier of the mimic joint '{name}'"))
                self.offset.append(as_vector(joint.mimic.offset, 0, f"offset of the mimic joint '{name}'"))
            elif not isinstance(joint, Fixed):
                self._add(name, joint)
        for plan in rods:
            self._add_rod(plan)
        checks.unique(self.names, "coordinate")
        for rate, name, mimic in followers:
            if mimic.leader not in self.names or self._joint_of[self.names.index(mimic.leader)] in self._indivisible:
                raise ModelError(
                    f"joint '{name}' mimics '{mimic.leader}', which is not a single coordinate of the system."
                )
            self.leaders[rate] = self.names.index(mimic.leader)

    def _add(self, name: str, joint: Joint) -> None:
        kind = joint.kind
        assert kind is not None
        names = tuple(f"{name}.{s}" if s else name for s in kind.suffixes)
        self._joint_of += [name] * kind.dof
        if kind.bracket is not None:
            self._indivisible.add(name)
        self.leaders += range(len(self.names), len(self.names) + kind.dof)
        self.scale += [1.0] * kind.dof
        self.offset += [0.0] * kind.dof
        self.names += names
        self.units += joint.units
        self.roles += _each(joint.role, kind.dof, f"role of joint '{name}'")
        for what in ("stiffness", "damping", "rest"):
            values = _each(getattr(joint, what), kind.dof, f"{what} of joint '{name}'")
            for v in values:
                as_vector(v, 0, f"{what} of joint '{name}'")
                if what != "rest" and not is_traced(v) and v < 0:
                    raise ModelError(f"{what} of joint '{name}' = {v} is negative.")
            getattr(self, what).extend(values)
        lower, upper = (_each(x, kind.dof, f"limits of joint '{name}'") for x in joint.limits)
        for lo, up in zip(lower, upper):
            if not lo <= up:
                raise ModelError(
                    f"limits of joint '{name}' = ({lo}, {up}); the lower one must not exceed the upper one."
                )
        self.lower += [float(x) for x in lower]
        self.upper += [float(x) for x in upper]
        if joint.motion is not None:
            self._laws.append(("driven", names, joint.motion))
        if joint.effort is not None:
            self._laws.append(("forced", names, joint.effort))

    def _add_rod(self, plan: RodPlan) -> None:
        """The coordinates of a rod; its stiffness and damping are its own."""
        names, rod = plan.coordinate_names, plan.rod
        self._joint_of += [plan.name] * plan.count
        self.names += names
        self.units += plan.units
        self.roles += _each("driven" if rod.strain else rod.role, plan.count, f"role of the rod '{plan.name}'")
        for values in (self.stiffness, self.damping, self.rest):
            values += [0.0] * plan.count
        lower, upper = (_each(x, plan.count, f"limits of the rod '{plan.name}'") for x in rod.limits)
        self.lower += [float(x) for x in lower]
        self.upper += [float(x) for x in upper]
        motion = plan.law or rod.motion
        for role, law in (("driven", motion), ("forced", rod.effort)):
            if law is not None:
                self._laws.append((role, names, law))

    def laws(self, given: Sequence[tuple[str, tuple[str, ...], Any]]) -> dict[str, tuple[Drive, ...]]:
        """Checks roles against laws and packs the laws into `Drive`s; scalar laws of one form become one vector law."""
        for k, role in enumerate(self.roles):
            if role not in ROLES:
                raise ModelError(
                    f"role of coordinate '{self.names[k]}' = {role!r}; it must be one of {', '.join(ROLES)}."
                )
        out: dict[str, list[Drive]] = {"driven": [], "forced": []}
        single: dict[str, list[tuple[int, Law]]] = {"driven": [], "forced": []}
        has_law: dict[int, str] = {}
        for role, names, law in [*self._laws, *given]:
            if not isinstance(law, Law) and (role == "driven" or not callable(law)):
                needed = "motion law" if role == "driven" else "effort law or controller"
                raise ModelError(f"the law of {', '.join(names)} = {law!r} is not a {needed}.")
            which = []
            for name in names:
                if name not in self.names:
                    raise ModelError(
                        f"there is no coordinate '{name}' to be {role}; the names are {', '.join(self.names)}."
                    )
                k = self.names.index(name)
                if k in has_law:
                    raise ModelError(f"coordinate '{name}' has two laws.")
                has_law[k] = role
                which.append(k)
            for k in which:
                self.roles[k] = role if self.roles[k] == "free" else self.roles[k]
            shape = getattr(law, "shape", None)
            if isinstance(law, Law) and shape == () and len(which) == 1:
                single[role].append((which[0], law))
            elif shape is not None and shape not in ((), (len(which),)):
                raise ModelError(f"the law of {', '.join(names)} has the shape {shape}; it must be ({len(which)},).")
            else:
                out[role].append(Drive(law, tuple(which)))
        for role, pairs in single.items():
            if pairs:
                out[role].append(Drive(stack([law for _, law in pairs]), tuple(k for k, _ in pairs)))
        for k, name in enumerate(self.names):
            if self.roles[k] == "driven" and has_law.get(k) != "driven":
                raise ModelError(f"coordinate '{name}' is driven but has no motion law.")
            if self.roles[k] == "forced" and has_law.get(k) != "forced":
                raise ModelError(f"coordinate '{name}' is forced but has no effort law.")
        for joint in self._indivisible:
            mine = {self.roles[k] for k in range(len(self.names)) if self._joint_of[k] == joint}
            if "driven" in mine and len(mine) > 1:
                raise ModelError(f"joint '{joint}' is driven in some coordinates only; drive all of them or none.")
        return {role: tuple(drives) for role, drives in out.items()}


def _refuse_idle_options(name: str, joint: Joint) -> None:
    """What would have no effect is refused: springs, laws and roles of joints that have no coordinate."""
    for what, default in (
        ("role", "free"),
        ("stiffness", 0.0),
        ("damping", 0.0),
        ("rest", 0.0),
        ("motion", None),
        ("effort", None),
    ):
        value = getattr(joint, what)
        if value is not default and (is_traced(value) or np.any(np.asarray(value != default))):
            kind = "a mimic" if joint.mimic is not None else "fixed"
            raise ModelError(
                f"joint '{name}' is {kind} and has no coordinate, so that its {what} = {value!r} has no effect."
            )
    if joint.limits != (-math.inf, math.inf):
        raise ModelError(f"joint '{name}' has no coordinate, so that its limits = {joint.limits} have no effect.")


def _names(coordinates: str | Sequence[str]) -> tuple[str, ...]:
    return (coordinates,) if isinstance(coordinates, str) else tuple(coordinates)


def _each(value: Any, count: int, what: str) -> list[Any]:
    """One value a coordinate, from one value or as many as there are coordinates."""
    if isinstance(value, str) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        return [value] * count
    if len(value) != count:
        raise ModelError(f"{what} has {len(value)} values; it must have 1 or {count}.")
    return list(value)


def _placed(name: str, position: Any, rotation: Any) -> tuple[Any, Any]:
    p = as_vector(position, 3, f"position of body '{name}'")
    if rotation is None:
        return p, np.eye(3)
    what = f"rotation of body '{name}'"
    try:
        R = jnp.asarray(rotation, dtype=float) if is_traced(rotation) else np.asarray(rotation, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} = {rotation!r} is not numeric.") from None
    if R.shape not in ((4,), (3, 3)):
        raise ModelError(f"{what} has the shape {R.shape}; it must be a quaternion or a 3x3 matrix.")
    if is_traced(R):
        return p, so3.to_matrix(so3.normalise(R)) if R.shape == (4,) else R
    if not np.all(np.isfinite(R)) or (R.shape == (4,) and not R.any()):
        raise ModelError(f"{what} = {R.tolist()} is not a rotation; it must be finite and not zero.")
    if R.shape == (4,):
        from scipy.spatial.transform import Rotation

        return p, Rotation.from_quat(R, scalar_first=True).as_matrix()
    if not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0:
        raise ModelError(f"{what} = {R.tolist()} is not orthonormal and right-handed.")
    return p, R


def _quaternion(R: Any) -> Any:
    if is_traced(R):
        return so3.from_matrix(R)
    # through SciPy where possible: one-off operations of JAX cost a compilation each
    from scipy.spatial.transform import Rotation

    return jnp.asarray(Rotation.from_matrix(R).as_quat(canonical=True, scalar_first=True))


def _rows(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    if any(is_traced(v) for v in values):
        return jnp.stack([jnp.asarray(v, dtype=float) for v in values])
    return jnp.asarray(np.array([np.asarray(v, dtype=float) for v in values]).reshape(len(values), *shape))


def _stacked(triples: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    mass, com, inertia = zip(*triples)
    return _rows(mass, ()), _rows(com, (3,)), _rows(inertia, (3, 3))
