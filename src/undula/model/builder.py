"""Authoring: name bodies and joints in any order, then `build()` a validated, frozen `System`."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.balance.rows import group_constraints
from undula.contact.laws import ContactLaw, Coulomb
from undula.contact.spheres import Authored, group_candidates
from undula.contact.surfaces import Surface
from undula.core.errors import ModelError, as_vector, is_traced
from undula.core.startup import UndulaWarning
from undula.elements.row import Constraint
from undula.joints.joint import Fixed, Joint
from undula.joints.rod.pieces import refuse_overwound
from undula.joints.rod.rod import Rod, RodPlan, Segment
from undula.laws.law import Law
from undula.lie import se3, so3
from undula.model import checks
from undula.model.acting import Acting
from undula.model.coordinates import Coordinates
from undula.model.system import Shape, System
from undula.model.topology import GROUPS, Topology

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


class Builder(Acting):
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
        super().__init__()
        self.name = name
        self._strict = strict
        self._least_squares = least_squares
        self._gravity = as_vector(gravity, 3, "gravity")
        self._bodies: list[_Body] = []
        self._base: tuple[str, str, Any] | None = None
        self._drives: list[tuple[str, tuple[str, ...], Any]] = []
        self._constraints: list[tuple[Any, Any]] = []
        self._contacts: list[Authored] = []

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

    def contact(
        self,
        name: str,
        body: str,
        other: Surface | str,
        law: ContactLaw | None = None,
        centre: Any = (0.0, 0.0, 0.0),
        radius: Any = 0.0,
        other_centre: Any = (0.0, 0.0, 0.0),
        other_radius: Any = 0.0,
    ) -> None:
        """A sphere of a body that may touch a surface, or a sphere of another body.

        **Arguments:**

        - `other`: `Plane()`, a `HeightField`, `Post`, `Ball` or a surface of your own; or the name of a body.
        - `law`: `Coulomb(mu)`, for instance; without friction and restitution by default.
        - `centre` in the body [m], `radius` [m] of the sphere, 0: a point; `other_centre`, `other_radius` of the other body's.
        """
        what = f"the contact '{name}'"
        law = Coulomb() if law is None else law
        if not isinstance(other, Surface | str):
            raise ModelError(f"other of {what} = {other!r}; it must be a surface, e.g. Plane(), or the name of a body.")
        if not isinstance(law, ContactLaw):
            raise ModelError(f"law of {what} = {law!r}; it must be a law of contact, e.g. Coulomb(0.5).")
        sizes = [as_vector(x, 0, f"{n} of {what}") for n, x in (("radius", radius), ("other_radius", other_radius))]
        for n, x in zip(("radius", "other_radius"), sizes):
            if not is_traced(x) and x < 0:
                raise ModelError(f"{n} of {what} = {float(x):g} m; it must be at least 0.")
        places = [as_vector(x, 3, f"{n} of {what}") for n, x in (("centre", centre), ("other_centre", other_centre))]
        self._contacts.append(Authored(name, body, other, law, places[0], sizes[0], places[1], sizes[1]))

    def build(self) -> System:
        """The frozen system, or a `ModelError` that names the culprit."""
        if self._base is None:
            raise ModelError(f"system '{self.name}' has no base: call base() first.")
        bodies = checks.depth_first(self._bodies)
        role, group, motion = self._base
        joints = [b.joint for b in bodies[1:] if b.joint is not None]
        joint_names = tuple(j.name or b.name for j, b in zip(joints, bodies[1:]))
        checks.unique(joint_names, "joint")
        table = Coordinates(joint_names, joints, [plan for plan, _ in self._rods])
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
        checks.unique([c.name for c in self._contacts], "contact")
        contacts, touching = group_candidates(self._contacts, topology.bodies)
        system = System(
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
            **self._built(topology),
            ideal=ideal,
            slipping=slipping,
            contacts=contacts,
            contact_names=touching,
            reaction_weights=jnp.ones(len(held)),
            static_reactions=jnp.zeros(len(held)),
            row_names=held + slips,
            least_squares=self._least_squares,
            lower=tuple(table.lower),
            upper=tuple(table.upper),
            shapes=tuple(b.shapes for b in bodies),
            topology=topology,
        )
        refuse_overwound(system, _start(system), f"system '{self.name}' cannot be built", ModelError)
        return system


def _start(system: System) -> Any:
    """Coordinates at t = 0 as far as the model gives them: zero, or where motion laws put the strains of rods."""
    q = np.zeros(system.topology.nq)
    first = system.nv - system.topology.strain_count
    for drive in system.motions if system.rods else ():
        if any(k >= first for k in drive.which):
            value = drive.law.value(jnp.zeros(()))
            if is_traced(value):
                return value
            value = np.broadcast_to(np.asarray(value), (len(drive.which),))
            for k, x in zip(drive.which, value):
                if k >= first:
                    q[k - system.nv] = x
    return q


def _names(coordinates: str | Sequence[str]) -> tuple[str, ...]:
    return (coordinates,) if isinstance(coordinates, str) else tuple(coordinates)


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
