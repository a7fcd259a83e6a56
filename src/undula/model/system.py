"""The frozen, validated model that all computations use."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from undula.core.arrays import Array, known, on_device, ones, stacked, with_entry, zeros
from undula.core.errors import UndulaError, a_name, is_traced, names_of, not_negative, positive, shown
from undula.elements.element import Element, changed
from undula.joints.rod.group import RodGroup
from undula.joints.rod.pieces import refuse_overwound
from undula.lie import se3, so3
from undula.model.labels import Labels
from undula.model.numbers import check_replaced, checked_array
from undula.model.packing import Group, Switch, member
from undula.model.reactions import Choice, choice_of
from undula.model.state import State, configuration
from undula.model.topology import Topology


class Drive(eqx.Module):
    """The motion law of some coordinates (indices `which`)."""

    law: Any
    which: tuple[int, ...] = eqx.field(static=True)


class System(eqx.Module):
    """A tree of bodies on a base, and what is attached to it: numbers that can be differentiated, and a static `topology`.

    Made by `Builder.build()` or `load_urdf`. Arrays over bodies are in the order of `body_names`, over joints in the order
    of `body_names[1:]` (a joint comes with the body it carries), over coordinates in the order of `coordinate_names`.
    """

    mass: Float[Array, "bodies"]
    """[kg]"""
    com: Float[Array, "bodies 3"]
    """Centre of mass in the body frame [m]"""
    inertia: Float[Array, "bodies 3 3"]
    """Inertia about the centre of mass, in the body's axes [kg m^2]"""
    joint_position: Float[Array, "joints 3"]
    """Origin of the joint frame in the parent body [m]"""
    joint_rotation: Float[Array, "joints 3 3"]
    """Axes of the joint frame in the parent body"""
    axis: Float[Array, "joints 3"]
    """Rotation axis of the joint (the first one of a universal joint); zero if it does not rotate about one"""
    second: Float[Array, "joints 3"]
    """Sliding axis (times the pitch of a helical joint), or the second axis of a universal joint"""
    armature: Float[Array, "nv"] | None
    """Inertia of each coordinate itself [kg m^2 or kg]; None if there is none"""
    mimic_scale: Float[Array, "terms"]
    mimic_offset: Float[Array, "rates"]
    base_pose: se3.Pose
    """Pose of a fixed base in the world; where a free base starts by default; the frame that a driven base moves in"""
    base_motion: Any
    """Law of a driven base (one component per direction of its group), or None"""
    motions: tuple[Drive, ...]
    """Motion laws of the driven coordinates"""
    rods: tuple[RodGroup, ...]
    """Rods, packed by their shape"""
    groups: tuple[Group, ...]
    """Everything else that is attached, packed by its form"""
    reaction_weights: Float[Array, "rows"]
    """Where reactions are not unique, the sum of weights times (reaction - static part)^2 is minimised"""
    static_reactions: Float[Array, "rows"]
    """The desired static part [N or N m]"""
    choice: Choice | None
    """How reactions and the efforts of led coordinates are chosen; None: by the two arrays above"""
    mask: Float[Array, "rows"] | None
    """1 for the rows that are on, 0 for those that are off; None: all are on"""
    switches: tuple[Switch, ...]
    """Rules that switch rows in a run"""
    least_squares: bool = eqx.field(static=True)
    topology: Topology = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    # Names

    @property
    def name(self) -> str:
        return self.labels.name

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.labels.bodies

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.labels.coordinates

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of constraints: those that hold, then those that slip."""
        return self.labels.rows

    @property
    def contact_names(self) -> tuple[str, ...]:
        return self.labels.contacts

    @property
    def lower(self) -> tuple[float, ...]:
        """Lower limits of the coordinates [rad or m]."""
        return self.labels.lower

    @property
    def upper(self) -> tuple[float, ...]:
        """Upper limits of the coordinates [rad or m]."""
        return self.labels.upper

    @property
    def nv(self) -> int:
        """Number of independent internal coordinates."""
        return self.topology.nv

    def body(self, name: str) -> int:
        """Index of a body."""
        return _index(self.body_names, name, "body")

    def coordinate(self, name: str) -> int:
        """Index of a coordinate."""
        return _index(self.coordinate_names, name, "coordinate")

    # What is attached

    @property
    def forces(self) -> tuple[Group, ...]:
        """Groups of force models."""
        return tuple(g for g in self.groups if g.kind == "force")

    @property
    def ideal(self) -> tuple[Group, ...]:
        """Groups of rows that hold."""
        return tuple(g for g in self.groups if g.kind == "ideal")

    @property
    def slipping(self) -> tuple[Group, ...]:
        """Groups of rows whose forces are given by a slip law."""
        return tuple(g for g in self.groups if g.kind == "slip")

    @property
    def contacts(self) -> tuple[Group, ...]:
        """Groups of contacts."""
        return tuple(g for g in self.groups if g.kind == "unilateral")

    @property
    def constrained(self) -> bool:
        """Whether it has constraints, ideal or slipping."""
        return bool(self.ideal or self.slipping)

    def element(self, name: str) -> Any:
        """An element with its current parameters."""
        group, k = self._find(name)
        return member(self.groups[group].form, k)

    def replace_element(self, name: str, **fields: Any) -> "System":
        """A copy in which an element has other parameters, e.g. `replace_element("gravity", g=(0, 0, -1.6))`.

        A field that is a law, or another tree of arrays, is replaced by one of the same form.
        """
        group, k = self._find(name)
        form = self.groups[group].form
        known = [f for f in form.__dataclass_fields__ if f not in Element.__dataclass_fields__]
        known = [f for f in known if jax.tree.leaves(getattr(form, f))]
        for key, value in fields.items():
            if key not in known:
                raise UndulaError(
                    f"'{name}' has no parameter {key}; its parameters are {', '.join(known) or '(none)'}."
                )
            old = getattr(form, key)
            numeric = isinstance(old, jax.Array | np.ndarray)
            new = checked_array(value, f"{key} of '{name}'") if numeric else value
            structure: Any = jax.tree.structure(new)
            if structure != jax.tree.structure(old):
                raise UndulaError(
                    f"{key} of '{name}' = {shown(value)}; it must have the same form as now: {member(old, k)}."
                )
            for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new)):
                if np.shape(b) != np.shape(a)[1:]:
                    raise UndulaError(f"{key} of '{name}' has the shape {np.shape(b)}; it must be {np.shape(a)[1:]}.")
            if numeric and key in form.not_negative:
                not_negative(new, f"{key} of '{name}'")
            if numeric and key in form.positive:
                positive(new, f"{key} of '{name}'")
            form = changed(form, **{key: jax.tree.map(lambda a, b: with_entry(a, k, b), old, new)})
        groups = list(self.groups)
        groups[group] = changed(groups[group], form=on_device(form))
        return changed(self, groups=tuple(groups))

    def _find(self, name: str) -> tuple[int, int]:
        a_name(name, "name of an element")
        for g, (_, names) in enumerate(self.labels.elements):
            if name in names:
                return g, names.index(name)
        known = [n for _, names in self.labels.elements for n in names]
        raise UndulaError(f"there is no element '{name}'; the elements are {', '.join(known) or '(none)'}.")

    def with_rows(self, on: str | Sequence[str] = (), off: str | Sequence[str] = ()) -> "System":
        """A copy in which rows of constraints are switched on or off, by their names or those of whole constraints.

        Only numbers change: compiled functions are reused (after the first switch). Rows that are off have no reaction.
        """
        held = self.row_names[: len(self.reaction_weights)]
        mask = np.ones(len(held)) if self.mask is None else np.array(self.mask)
        for names, value in ((on, 1.0), (off, 0.0)):
            for name in () if isinstance(names, list | tuple) and not names else names_of(names, "rows to switch"):
                which = [k for k, row in enumerate(held) if row == name or row.startswith(f"{name}.")]
                if not which:
                    raise UndulaError(
                        f"there is no row '{name}'; the rows that hold are {', '.join(held) or '(none)'}."
                    )
                mask[which] = value
        return changed(self, mask=on_device(mask))

    @property
    def on(self) -> Array:
        """(rows,): 1 for the rows of constraints that are on."""
        return ones(len(self.reaction_weights)) if self.mask is None else self.mask

    def at_time(self, t: Any) -> "System":
        """A copy in which the rows that rules switch are as they are when a run starts at time t [s]."""
        if not self.switches:
            return self
        mask = known(self.on)
        for x in self.switches:
            on = known(x.rule).on(t)
            for row in x.rows:
                mask = with_entry(mask, row, jnp.where(on, 1.0, 0.0) if is_traced(on) else float(on))
        return changed(self, mask=on_device(mask))

    def with_reactions(self, rule: Any) -> "System":
        """A copy with another rule for what the balance leaves open: reactions, and the efforts of led coordinates."""
        held = self.row_names[: len(self.reaction_weights)]
        weights, choice = choice_of(rule, held, self.coordinate_names, self.topology.driven | self.topology.led)
        return on_device(changed(self, reaction_weights=weights, choice=choice))

    # States

    def state(
        self,
        position: Any = None,
        velocity: Any = None,
        base_position: Any = None,
        base_quaternion: Any = None,
        base_twist: Any = None,
    ) -> State:
        """A state from the given values; everything else is zero, and the base is where the model places it.

        **Arguments:**

        - `position`, `velocity`: (nv,) or a dict from coordinate names to values [rad or m; per s]. The coordinates of a
          spherical joint are its rotation vector, those of a free joint its position and rotation vector.
        - `base_position` (3,) [m], `base_quaternion` (4,) (w, x, y, z), `base_twist` (6,) body twist [m/s, rad/s].

        Strains that turn a rod by more than pi between two nodes are rejected.
        """
        position_0 = self.base_pose.position if base_position is None else base_position
        quaternion_0 = self.base_pose.quaternion if base_quaternion is None else base_quaternion
        q = configuration(self.topology, self._by_name(position, "position"))
        refuse_overwound(self.rods, self.labels.rods, q, "the state cannot be represented")
        state = State(
            base=se3.Pose(_array(position_0, 3, "base_position"), _unit(_array(quaternion_0, 4, "base_quaternion"))),
            q=q,
            base_twist=_array(base_twist, 6, "base_twist"),
            v=self._by_name(velocity, "velocity"),
            z=tuple(g.begin for g in self.groups if g.remembers),
        )
        return on_device(state)

    def _by_name(self, values: Any, what: str) -> Array:
        if isinstance(values, dict):
            out: list[Any] = [0.0] * self.nv
            for name, value in values.items():
                out[self.coordinate(name)] = checked_array(value, f"{what} of '{name}'", ())
            return stacked(out) if out else zeros(0)
        return _array(values, self.nv, what)

    def replace(self, **changes: Any) -> "System":
        """A copy with other parameters, e.g. `system.replace(mass=..., com=...)`; shapes must stay the same.

        For those of attached elements, see `replace_element`.
        """
        for key, value in changes.items():
            if key not in PARAMETERS:
                raise UndulaError(
                    f"{key} is not a parameter of a system; the parameters are {', '.join(PARAMETERS)}; for those of attached "
                    "elements, such as gravity and springs, see replace_element."
                )
            old, new = getattr(self, key), checked_array(value, key)
            if old is None:
                raise UndulaError(f"the system '{self.name}' has no {key}; build it with one.")
            if new.shape != old.shape:
                raise UndulaError(f"{key} has the shape {new.shape}; it must be {old.shape}.")
            check_replaced(self.labels, key, new, old)
            changes[key] = new
        return changed(self, **on_device(changes))

    def bare(self) -> "System":
        """The same without names and shapes, so that a change of these causes no recompilation."""
        return changed(self, labels=Labels())


PARAMETERS = (
    "mass",
    "com",
    "inertia",
    "joint_position",
    "joint_rotation",
    "axis",
    "second",
    "armature",
    "reaction_weights",
    "static_reactions",
)


def _index(names: tuple[str, ...], name: str, what: str) -> int:
    a_name(name, f"name of a {what}")
    if name not in names:
        raise UndulaError(f"there is no {what} {shown(name)}; the names are {', '.join(names) or '(none)'}.")
    return names.index(name)


def _unit(quaternion: Array) -> Array:
    if is_traced(quaternion):
        return so3.normalise(quaternion)
    norm = np.linalg.norm(quaternion)
    if not norm > 0:
        raise UndulaError(f"base_quaternion = {np.asarray(quaternion).tolist()} is zero; it must be a rotation.")
    unit: Any = np.asarray(quaternion) / norm
    return unit


def _array(value: Any, size: int, what: str) -> Array:
    return zeros(size) if value is None else checked_array(value, what, (size,))
