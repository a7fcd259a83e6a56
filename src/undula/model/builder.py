"""Authoring: name bodies and joints in any order, attach elements, then `build()` a validated, frozen `System`."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import any_traced, on_device, ones, stacked, zeros
from undula.core.errors import ModelError, UndulaError, a_name, as_vector, flag, instance, is_traced, one_of, shown
from undula.core.shapes import Shape
from undula.core.startup import UndulaWarning
from undula.elements.element import Element, changed
from undula.elements.force import ForceModel
from undula.elements.gravity import Gravity
from undula.elements.linear import Dampers, Springs
from undula.elements.site import Site
from undula.elements.weightless import AddedInertia
from undula.joints.fixed import Fixed
from undula.joints.joint import Joint
from undula.joints.rod.elasticity import material_elements
from undula.joints.rod.pieces import refuse_overwound
from undula.joints.rod.plan import RodPlan, pack as pack_rods
from undula.joints.rod.rod import Rod, Segment
from undula.laws.law import Law, law_value, motion_law
from undula.lie import se3
from undula.lie.given import as_rotation, quaternion_of
from undula.model import checks
from undula.model.coordinates import Coordinates
from undula.model.labels import Labels
from undula.model.packing import Model, pack
from undula.model.sections import Sections, frames_for, section_name
from undula.model.sites import PlannedRod
from undula.model.system import System
from undula.model.topology import GROUPS, Topology

BASE_ROLES = ("fixed", "driven", "free")
LARGEST = 10_000  # bodies, nodes of rods included


class NotBuilt(UndulaError, AttributeError):
    """A Builder used as a System."""


@dataclass(frozen=True)
class _Body:
    name: str
    parent: Any  # a name or a site; None for the base
    joint: Joint | None
    mass: Any
    com: Any
    inertia: Any
    position: Any
    rotation: Any
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class _Expanded:
    """The bodies with rods replaced by their nodes; each rod's plan, the name of its tip, and the names of its nodes; the
    names of massless bodies in sections of flexible ones."""

    bodies: list[_Body]
    rods: list[tuple[RodPlan, str, tuple[str, ...]]]
    added: list[Element]
    frames: list[str]


class Builder:
    """Describes a system.

    The reference body comes from `base`, the others from `body`, in any order; `drive` and `force` give laws to several
    coordinates at once; `add` attaches loads, constraints, contacts and everything else. `build` sorts the bodies depth first,
    checks everything and returns a `System`.

        b = Builder("pendulum")
        b.base("ground")
        b.body("arm", parent="ground", joint=Revolute((0, 1, 0)), mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        system = b.build()
    """

    def __init__(self, name: str, gravity: Any = (0.0, 0.0, -9.81), strict: bool = True, least_squares: bool = False):
        """`gravity`: acceleration of gravity in the world [m/s^2]. `strict=False` accepts, with one warning, physically
        impossible inertias and bodies that move without mass: inverse dynamics works, forward dynamics may not.
        `least_squares`: a driven motion that violates constraints is accepted; the violation of the rows is minimised
        and reported as `constraint_residual`."""
        self.name = a_name(name, "name of the system")
        self._strict = flag(strict, "strict")
        self._least_squares = flag(least_squares, "least_squares")
        self._gravity = as_vector(gravity, 3, "gravity")
        self._bodies: list[_Body] = []
        self._base: tuple[str, str, Any] | None = None
        self._drives: list[tuple[str, tuple[str, ...], Any]] = []
        self._elements: list[Element] = []
        self._sections: dict[str, Sections] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(System, name) | (name in System.__dataclass_fields__):
            raise NotBuilt(f"the Builder '{self.name}' has no {name}, which a System has: call build() first.")
        remedy = (
            "" if name.startswith("_") else "; elements (loads, springs, constraints, contacts) are attached with add"
        )
        raise AttributeError(f"a Builder has no attribute {name!r}{remedy}.")

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

        - `role`: "fixed", "driven" or "free"; `group`: its group of motions, one of R, R2, R3, SO2, SO3, SE2, SE3 (x; x
          and y; x, y and z; about z; any rotation; x, y and about z; everything), in the axes of its initial pose.
        - `motion`: for a driven base, a law with one component per direction of the group: position [m] and rotation vector
          [rad] in the frame (`position`, `rotation`), in the order of the twist's components.
        - `position` [m] and `rotation` (3x3 matrix or quaternion) of the base in the world, where a free base starts.
        - `mass` [kg], `com` [m], `inertia` about the centre of mass [kg m^2] (a number, 3 principal values or a 3x3 matrix).
        """
        if self._base is not None:
            raise ModelError(f"base '{name}': the system already has the base '{self._bodies[0].name}'.")
        a_name(name, "name of the base")
        one_of(role, BASE_ROLES, f"role of base '{name}'")
        one_of(group, GROUPS, f"group of base '{name}'")
        if role == "driven" and motion is None:
            raise ModelError(f"base '{name}' is driven but has no motion law.")
        if role != "driven" and motion is not None:
            raise ModelError(f"base '{name}' is {role}, so it cannot have a motion law.")
        if motion is not None:
            motion_law(motion, None, f"motion of base '{name}'")
            if motion.shape != (len(GROUPS[group]),):
                raise ModelError(
                    f"motion of base '{name}' has the shape {motion.shape}; the group {group} needs ({len(GROUPS[group])},)."
                )
        drawn = _drawn(shapes, name)
        self._base = (role, group, motion)
        self._bodies.insert(0, _Body(name, None, None, mass, com, inertia, position, rotation, drawn))

    def body(
        self,
        name: str,
        parent: str | Site,
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

        - `parent`: the body that carries it, or a site: a frame of a body, or the section of a rod at a constant abscissa.
        - `joint`: Fixed, Revolute, Prismatic, Helical, Cylindrical, Universal, Spherical, Planar, Free, Rod or a
          user-defined one. The body's frame is the joint's frame, moved by the joint.
        - `mass` [kg], `com` in the body frame [m], `inertia` about the centre of mass, in the body's axes [kg m^2]: a number,
          3 principal values or a 3x3 matrix.
        - `position` [m] and `rotation` (3x3 matrix or quaternion w, x, y, z) of the joint frame in the parent.
        - `shapes`: shapes that a viewer draws.
        """
        a_name(name, "name of a body")
        if not isinstance(parent, str | Site):
            raise ModelError(f"parent of body '{name}' = {shown(parent)}; it must be the name of a body, or a site.")
        if not isinstance(joint, Joint):
            raise ModelError(f"joint of body '{name}' = {shown(joint)}; it must be a joint, e.g. Revolute((0, 0, 1)).")
        if joint.name is not None:
            a_name(joint.name, f"name of the joint of body '{name}'")
        if isinstance(joint, Rod):
            RodPlan(joint.name or name, joint)  # only for its checks
        self._bodies.append(_Body(name, parent, joint, mass, com, inertia, position, rotation, _drawn(shapes, name)))

    def add(self, *elements: Element) -> None:
        """Attaches elements: loads, springs, controllers, tendons, constraints, contacts, sensors, or your own."""
        for element in elements:
            if not isinstance(element, Element):
                raise ModelError(
                    f"{shown(element)} cannot be added; it must be an element, e.g. Load('body', (0, 0, -1.0))."
                )
            self._elements.append(element)

    def sections(self, body: str, sections: Sections) -> None:
        """Gives a flexible body sections: `on(body, X)` then is a site, where others may be carried and elements attached."""
        self._sections[body] = sections

    def drive(self, coordinates: str | Sequence[str], law: Law) -> None:
        """Makes coordinates driven: `law` gives their motion, one component per coordinate [rad or m]."""
        self._drives.append(("driven", _names(coordinates), law))

    def force(self, coordinates: str | Sequence[str], law: Any) -> None:
        """Makes coordinates forced: `law` (of time) or a controller gives their efforts [N m or N]."""
        self._drives.append(("forced", _names(coordinates), law))

    def lead(self, coordinates: str | Sequence[str]) -> None:
        """Makes coordinates led: constraints determine their motion while actuators hold them, whose efforts are found.

        Efforts and reactions are then not unique: `System.with_reactions` chooses among them.
        """
        self._drives.append(("led", _names(coordinates), None))

    def build(self) -> System:
        """The frozen system; raises a `ModelError` that names the invalid item."""
        if self._base is None:
            raise ModelError(f"system '{self.name}' has no base: call base() first.")
        expanded = self._expand()
        if len(expanded.bodies) > LARGEST:  # tables of which body carries which grow with the square of their number
            raise ModelError(
                f"system '{self.name}' has {len(expanded.bodies)} bodies, nodes of rods included; at most {LARGEST} can be."
            )
        bodies = checks.depth_first(expanded.bodies)
        role, group, motion = self._base
        order = [b.name for b in bodies]
        place = {name: k for k, name in enumerate(order)}
        joints = [b.joint for b in bodies[1:] if b.joint is not None]
        names = tuple(j.name or b.name for j, b in zip(joints, bodies[1:]))
        checks.unique(names, "joint")
        plans = [plan for plan, _, _ in expanded.rods]
        table = Coordinates(names, joints, plans)
        drives, actuators = table.laws(self._drives)
        topology = Topology(
            parents=tuple(place[str(b.parent)] for b in bodies[1:]),
            kinds=tuple(j.kind for j in joints),
            base_role=role,
            base_group=group,
            roles=tuple(table.roles),
            leaders=tuple(table.leaders),
            mimics=tuple(table.mimics),
            strain_count=sum(plan.count for plan in plans),
            rods=tuple(tuple(place[x] for x in nodes) for _, _, nodes in expanded.rods),
        )
        rods, planned = _planned(expanded, topology, table)
        elements = _named([*self._own_elements(table, plans), *actuators, *expanded.added, *self._elements])
        packed = pack(elements, Model(tuple(order), tuple(table.names), planned, rods))
        if topology.led.any() and not packed.held:
            led = table.names[int(np.argmax(topology.led))]
            raise ModelError(
                f"coordinate '{led}' is led, but the system '{self.name}' has no constraints that lead it."
            )
        labels = Labels(
            name=self.name,
            bodies=tuple(order),
            joints=names,
            joint_types=tuple(type(j).__name__ for j in joints),
            coordinates=tuple(table.names),
            units=tuple(table.units),
            rods=tuple(plan.name for plan in plans),
            rows=packed.held + packed.slipping,
            contacts=packed.contacts,
            elements=packed.elements,
            lower=tuple(table.lower),
            upper=tuple(table.upper),
            shapes=tuple(b.shapes for b in bodies),
        )
        sections = {
            x: f"the section of the rod '{plan.name}' at X = {_metres(s * plan.length)}"
            for plan, _, nodes in expanded.rods
            for x, s in zip(nodes, plan.nodes)
        }
        inertials = self._inertials(bodies, sections, topology, labels, elements, table, expanded.frames)
        mass, com, inertia = inertials
        base_place, *places = [_placed(b.name, b.position, b.rotation) for b in bodies]
        vectors = [j.vectors(f"joint '{n}'") for j, n in zip(joints, names)]
        system = System(
            mass=mass,
            com=com,
            inertia=inertia,
            joint_position=_rows([p for p, _ in places], (3,)),
            joint_rotation=_rows([R for _, R in places], (3, 3)),
            axis=_rows([a for a, _ in vectors], (3,)),
            second=_rows([b for _, b in vectors], (3,)),
            armature=None if _all_zero(table.armature) else _rows(table.armature, ()),
            mimic_scale=_rows(table.scale, ()),
            mimic_offset=_rows(table.offset, ()),
            base_pose=se3.Pose(base_place[0], quaternion_of(base_place[1])),
            base_motion=motion,
            motions=drives,
            rods=rods,
            groups=packed.groups,
            reaction_weights=ones(len(packed.held)),
            static_reactions=zeros(len(packed.held)),
            choice=None,
            mask=None,
            switches=packed.switches,
            least_squares=self._least_squares,
            topology=topology,
            labels=labels,
        )
        what = f"system '{self.name}' cannot be built"
        refuse_overwound(system.rods, labels.rods, _start(system), what, ModelError)
        return on_device(system.at_time(0.0))

    def _expand(self) -> _Expanded:
        """Replaces rods by their nodes, and sites that carry bodies by bodies with an offset."""
        carried = [b.parent for b in self._bodies if isinstance(b.parent, Site)]
        carried += [s for e in self._elements if _is_inert(e) for s in e.sites]
        names = [b.joint.name or b.name for b in self._bodies if isinstance(b.joint, Rod)]
        extra: dict[str, list[float]] = {}
        for site in carried:
            if site.abscissa is not None and site.body not in self._sections:
                if not isinstance(site.abscissa, np.ndarray):
                    raise ModelError(f"a body is carried by {site.words}; its abscissa must be a constant number.")
                if site.body not in names:
                    there = ", ".join([*names, *self._sections]) or "(none)"
                    raise ModelError(f"there is no rod or flexible body '{site.body}'; there are {there}.")
                extra.setdefault(site.body, []).append(float(site.abscissa))
        frames = frames_for([*carried, *(s for e in self._elements for s in e.sites)], self._sections)
        out = _Expanded([], [], [], [f.name for f in frames])
        for b in self._bodies:
            if isinstance(b.joint, Rod):
                self._add_nodes(b, extra.get(b.joint.name or b.name, []), out)
            else:
                out.bodies.append(b)
        out.bodies.extend(_Body(f.name, f.parent, f.joint, 0.0, np.zeros(3), 0.0, f.position, None, ()) for f in frames)
        known = {plan.name: (plan, nodes) for plan, _, nodes in out.rods}
        out.bodies[:] = [_resolved(b, known) for b in out.bodies]
        return out

    def _add_nodes(self, b: _Body, extra: list[float], out: _Expanded) -> None:
        """Adds the bodies of a rod's nodes, and the body at its tip, fixed on the last one."""
        rod = b.joint
        assert isinstance(rod, Rod)
        plan = RodPlan(rod.name or b.name, rod, extra)
        count, nodes = 0, []
        for X, further in zip(plan.nodes, plan.extra):
            count += not further
            nodes.append(f"{b.name}@{X * plan.length:g}" if further else f"{b.name}.{count}")
        parent, position, rotation = b.parent, b.position, b.rotation
        for node, (mass, com, inertia, added), shape in zip(nodes, plan.inertials(), plan.drawn()):
            out.bodies.append(_Body(node, parent, Segment(), mass, com, inertia, position, rotation, shape))
            if added is not None:
                out.added.append(AddedInertia(node, added))
            parent, position, rotation = node, np.zeros(3), None
        tip = replace(b, joint=Fixed(name=rod.name), parent=parent, position=position, rotation=rotation)
        out.bodies.append(tip)
        out.rods.append((plan, b.name, tuple(nodes)))

    def _own_elements(self, table: Coordinates, plans: list[RodPlan]) -> list[Element]:
        """Gravity, the springs and dampers of joints, the elasticity and viscosity of rods."""
        out: list[Element] = []
        if is_traced(self._gravity) or np.any(self._gravity):
            out.append(Gravity(self._gravity))
        names = np.array(table.names, dtype=object)
        for what, values in (("springs", table.stiffness), ("dampers", table.damping)):
            which = [k for k, x in enumerate(values) if is_traced(x) or np.any(np.asarray(x) != 0)]
            if which:
                own = tuple(names[which]), _rows([values[k] for k in which], ())
                rest = _rows([table.rest[k] for k in which], ())
                out.append(Springs(*own, rest, what) if what == "springs" else Dampers(*own, what))
        for plan in plans:
            K, D = plan.stiffness()
            if is_traced(K) or np.any(K):
                out.append(Springs(plan.coordinate_names, K, np.zeros(plan.count), f"{plan.name}.elasticity"))
            if is_traced(D) or np.any(D):
                out.append(Dampers(plan.coordinate_names, D, f"{plan.name}.viscosity"))
            out.extend(material_elements(plan.name, plan.rod.material))
        return out

    def _inertials(
        self,
        bodies: list[_Body],
        rods: dict[str, str],
        top: Topology,
        labels: Labels,
        elements: list[Element],
        table: Coordinates,
        frames: list[str],
    ) -> tuple[Any, Any, Any]:
        """Masses, centres and inertias of the bodies, checked; `rods`: for each node, the section it belongs to, in words."""
        complaints: list[str] = []
        complain = checks.refuse if self._strict else complaints.append
        owner = {b.name: f"body '{b.name}'" for b in bodies} | rods
        inertials = [checks.inertial(owner[b.name], b.mass, b.com, b.inertia, complain) for b in bodies]
        mass, com, inertia = (_rows(x, s) for x, s in zip(zip(*inertials), ((), (3,), (3, 3))))
        inert = [
            labels.bodies.index(s.body) for e in elements if _is_inert(e) for s in e.sites if s.body in labels.bodies
        ]
        inert += [labels.bodies.index(x) for x in frames]  # they have no coordinates of their own
        for rate, leader in zip(*top.terms):  # a joint's own inertia
            own = table.armature[leader]
            if is_traced(own) or own != 0:
                inert.append(int(top.moving[top.rate_link[rate] - 1]) + 1)
        checks.masses(top, labels, mass, inert, complain)
        checks.point_mass(top, labels, com, inertia, inert)
        if complaints:
            sentence = f"system '{self.name}' is not physical: {' '.join(complaints)}"
            warnings.warn(sentence, UndulaWarning, stacklevel=3)
        return mass, com, inertia


def _is_inert(element: Element) -> bool:
    """Whether a force model at sites adds inertia there."""
    return isinstance(element, ForceModel) and bool(element.sites) and type(element).inertia is not ForceModel.inertia


def _resolved(b: _Body, rods: dict[str, tuple[RodPlan, tuple[str, ...]]]) -> _Body:
    """A body whose parent is a site, as a body with an offset in another body."""
    if not isinstance(b.parent, Site):
        return b
    site = b.parent
    parent = site.body
    if site.abscissa is not None and site.body not in rods:
        parent = section_name(site)
    elif site.abscissa is not None:
        plan, nodes = rods[site.body]
        node = plan.node_at(float(site.abscissa))
        if node is None:
            raise ModelError(
                f"body '{b.name}' is carried at X = {float(site.abscissa):g} m of the rod '{site.body}'; X must lie between 0 "
                f"and {plan.length:g} m."
            )
        parent = nodes[node]
    p, R = _placed(b.name, b.position, b.rotation)
    return replace(b, parent=parent, position=site.position + site.rotation @ p, rotation=site.rotation @ R)


def _planned(expanded: _Expanded, top: Topology, table: Coordinates) -> tuple[tuple[Any, ...], dict[str, PlannedRod]]:
    """Packed rods, and each rod by its name and by that of its tip."""
    plans = [plan for plan, _, _ in expanded.rods]
    links = [tuple(int(top.link_of_body[x]) for x in nodes) for nodes in top.rods]
    first = len(table.names) - top.strain_count
    planned: dict[str, PlannedRod] = {}
    at, driven = 0, []
    for k, ((plan, tip, _), nodes) in enumerate(zip(expanded.rods, top.rods)):
        own = tuple(range(at, at + plan.count))
        driven.append(all(table.roles[first + c] == "driven" for c in own))
        rod = PlannedRod(plan, nodes, nodes[0] - 1, top.parents[nodes[0] - 1], k, own)
        planned[plan.name] = rod
        planned.setdefault(tip, rod)
        at += plan.count
    return pack_rods(plans, links, driven), planned


def _named(elements: Sequence[Element]) -> list[Element]:
    """The elements, those without a name named after their families; rejects two of the same name."""
    counts: Counter[str] = Counter()
    taken = {e.name for e in elements if e.name is not None}
    out = []
    for e in elements:
        if e.name is not None:
            a_name(e.name, f"name of a {e.family().replace('_', ' ')}")
        else:
            family = e.family()
            while True:
                counts[family] += 1
                name = f"{family}{counts[family]}"
                if name not in taken:
                    break
            e = changed(e, name=name)
        out.append(e)
    for family in dict.fromkeys(e.family() for e in out):
        checks.unique([str(e.name) for e in out if e.family() == family], family.replace("_", " "))
    checks.unique([str(e.name) for e in out], "element")
    return out


def _start(system: System) -> Any:
    """Coordinates at t = 0 as far as the model defines them: zero, or strains of rods as given by motion laws."""
    q = np.zeros(system.topology.nq)
    first = system.nv - system.topology.strain_count
    for drive in system.motions if system.rods else ():
        if any(k >= first for k in drive.which):
            if any_traced(drive.law):
                return drive.law.value(jnp.zeros(()))
            value = law_value(drive.law, np.zeros(()))
            value = np.broadcast_to(np.asarray(value), (len(drive.which),))
            for k, x in zip(drive.which, value):
                if k >= first:
                    q[k - system.nv] = x
    return q


def _metres(X: Any) -> str:
    return "a traced abscissa" if is_traced(X) else f"{X:.3g} m"


def _names(coordinates: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(coordinates, str):
        return (coordinates,)
    instance(coordinates, Sequence, "coordinates", "names of coordinates")
    if not coordinates:
        raise ModelError(f"coordinates = {shown(coordinates)}; at least one must be named.")
    return tuple(a_name(x, "name of a coordinate") for x in coordinates)


def _drawn(shapes: Any, name: str) -> tuple[Shape, ...]:
    """The shapes of a body, checked."""
    given = instance(shapes, list | tuple, f"shapes of body '{name}'", "a sequence of un.Shape")
    return tuple(instance(x, Shape, f"a shape of body '{name}'", "an un.Shape") for x in given)


def _placed(name: str, position: Any, rotation: Any) -> tuple[Any, Any]:
    p = as_vector(position, 3, f"position of body '{name}'")
    return p, np.eye(3) if rotation is None else as_rotation(rotation, f"rotation of body '{name}'")


def _all_zero(values: Sequence[Any]) -> bool:
    return not any(is_traced(x) or np.any(np.asarray(x) != 0) for x in values)


def _rows(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    return stacked(values) if values else np.zeros((0, *shape))
