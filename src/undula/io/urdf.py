"""URDF import: a robot's description file becomes a `System`.

yourdfpy turns the XML into records, but it silently repairs broken XML and fills in missing values (an absent `ixx`
becomes 1 kg m^2). A file is therefore checked first, so that every refusal can name the offending element.
"""

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from undula.core.errors import ModelError, UndulaError
from undula.core.shapes import Shape
from undula.core.startup import UndulaWarning
from undula.joints.fixed import Fixed
from undula.joints.free import Free
from undula.joints.joint import Joint, Mimic, unit_vector
from undula.joints.planar import Planar
from undula.joints.screw import Prismatic, Revolute
from undula.laws.law import Law
from undula.model.arguments import checked
from undula.model.builder import Builder
from undula.model.checks import unique
from undula.model.system import System

JOINTS: dict[str, Callable[..., Joint]] = {
    "fixed": Fixed,
    "revolute": Revolute,
    "continuous": Revolute,
    "prismatic": Prismatic,
    "floating": Free,
    "planar": Planar,
}
SINGLE = ("revolute", "continuous", "prismatic")  # one coordinate: only these have axis, damping and mimic
UPRIGHT = (1.0, 0.0, 0.0, 0.0)

READ = {  # element -> children that are read; all others are removed before yourdfpy can stumble over them
    "robot": ("link", "joint", "material"),
    "link": ("inertial", "visual"),
    "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"),
}
MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
NEEDED = {  # element -> attributes and <elements> that it must have
    "link": ("name",),
    "inertial": ("<mass>", "<inertia>"),
    "mass": ("value",),
    "inertia": MOMENTS,
    "box": ("size",),
    "cylinder": ("radius", "length"),
    "sphere": ("radius",),
    "joint": ("name", "type", "<parent>", "<child>"),
    "parent": ("link",),
    "child": ("link",),
    "mimic": ("joint",),
}
ONE = "value radius length multiplier offset damping friction lower upper effort velocity".split()
NUMBERS = {"xyz": 3, "rpy": 3, "size": 3, "rgba": 4} | dict.fromkeys((*MOMENTS, *ONE), 1)  # in an attribute


@checked
def load_urdf(path: str | os.PathLike, **options: Any) -> System:
    """The system that a URDF file describes, with free coordinates; `options` are those of `read_urdf`."""
    return read_urdf(path, **options).build()


@checked
def read_urdf(
    path: str | os.PathLike,
    base: str = "fixed",
    group: str = "SE3",
    gravity: Any = (0.0, 0.0, -9.81),
    strict: bool = False,
    motion: Law | None = None,
    position: Any = (0.0, 0.0, 0.0),
    rotation: Any = None,
) -> Builder:
    """A `Builder` with everything that a URDF file describes: drive or force its joints, add bodies, then build.

    Bodies have the names of the links, joints and coordinates those of the joints (with .x, .y, ... if planar
    or floating), depth first in the order of the file; the root link is the base. Units: m, rad, kg, s.

    - Inertias are rotated into the link's axes; a link without `<inertial>` has no mass.
    - A mimic joint has no coordinate: it follows the joint at the head of its chain of mimics. Its damping
      acts on that joint, times multiplier^2; its limits are dropped.
    - The `axis` of a planar joint is the normal of the plane. If it is not z, the joint moves a massless body
      "<joint>.plane" whose z axis is the normal; the link is fixed to that body, with the orientation given in the URDF.
    - Boxes, cylinders and spheres are drawn. A link with only meshes, or no visuals, is drawn as a skeleton of
      capsules; mesh files are never opened.
    - Not read, as a `System` has no place for them: collision shapes, limits of effort and velocity, safety
      controllers, calibrations, transmissions, extensions (`<gazebo>`), and a fixed joint's axis, limits, ...

    **Arguments:**

    - `base`, `group`, `motion`: role, group and motion law of the root link, as in `Builder.base`.
    - `gravity`: acceleration of gravity in the world [m/s^2].
    - `strict`: irregularities raise a `ModelError` instead of an `UndulaWarning`: unphysical inertias and moving
      bodies without mass (kept as they are), Coulomb friction and the damping of planar and floating joints
      (ignored), mimics of a joint that does not move or exist (which get coordinates of their own).
    - `position` [m], `rotation` (3x3 matrix or quaternion w, x, y, z): pose of the root link in the world.
    """
    from scipy.spatial.transform import Rotation

    robot = _parsed(Path(path))
    root = _root(robot, path)
    links = {link.name: link for link in robot.links}
    mimics, orphans = _mimics(robot.joints)
    _mention(robot, orphans, strict)
    damping = _damping(robot.joints, mimics)
    shapes = _shapes(robot)
    b = Builder(robot.name, gravity, strict=strict)
    pose = dict(position=position, rotation=rotation)
    b.base(root.name, base, group, motion, **_inertial(root), **pose, shapes=shapes[root.name])
    for j in robot.joints:
        joint = _joint(j, mimics.get(j.name), damping.get(j.name, 0.0))
        place, inertial = _place(j.origin), _inertial(links[j.child])
        if j.type == "planar" and (turn := _from_z(j.axis, f"axis of joint '{j.name}'")) != UPRIGHT:
            plane, turn = f"{j.name}.plane", Rotation.from_quat(turn, scalar_first=True).as_matrix()
            b.body(plane, j.parent, joint, position=place["position"], rotation=place["rotation"] @ turn)
            b.body(j.child, plane, Fixed(name=plane), **inertial, rotation=turn.T, shapes=shapes[j.child])
        else:
            b.body(j.child, j.parent, joint, **inertial, **place, shapes=shapes[j.child])
    return b


# Reading


def _parsed(path: Path) -> Any:
    """yourdfpy's record of the robot; refuses what yourdfpy would repair, fill in, or stumble over."""
    from lxml import etree  # slow to import, as is yourdfpy
    from yourdfpy import URDF

    if not path.is_file():
        raise UndulaError(f"there is no file '{path}'.")
    parser = etree.XMLParser(recover=True, remove_comments=True)
    robot = etree.fromstring(path.read_bytes() or b" ", parser)
    # elements with an undeclared prefix are extensions, which are ignored
    broken = [e for e in parser.error_log if e.type_name != "NS_ERR_UNDEFINED_NAMESPACE"]
    if broken:
        what = f"{broken[0].message.strip()} (line {broken[0].line})"
        raise UndulaError(f"'{path}' is not well-formed XML: {what}.")
    if robot.tag != "robot":
        raise UndulaError(f"'{path}' is not a URDF file: it contains <{robot.tag}> instead of <robot>.")
    _refuse_xacro(robot, path)
    for e in (robot, *robot.findall("link"), *robot.findall("joint")):
        for child in list(e):
            if child.tag not in READ[e.tag]:
                e.remove(child)
    for visual in robot.findall("link/visual"):
        solid = visual.find("geometry/*")
        if solid is None or solid.tag not in ("box", "cylinder", "sphere", "mesh"):
            visual.getparent().remove(visual)
    _check(robot, path)
    robot.set("name", robot.get("name") or path.stem)
    try:
        return URDF.load(io.BytesIO(etree.tostring(robot)), build_scene_graph=False, load_meshes=False).robot
    except Exception as error:
        raise UndulaError(f"'{path}' cannot be read: {error!r}.") from error


def _refuse_xacro(robot: Any, path: Path) -> None:
    """Refuses a file with macros, most of whose robot does not exist before they are expanded."""
    for e in robot.iter():
        tag = e.tag if isinstance(e.tag, str) else ""
        macro = "xacro" in tag.partition("}")[0] or tag.startswith("xacro:")
        found = f"<{tag.rpartition('}')[2]}>" if macro else next((v for v in e.values() if "${" in v or "$(" in v), "")
        if found:
            raise UndulaError(
                f"'{path}', line {e.sourceline}: {found} belongs to a xacro file, whose macros are not expanded here; run "
                f"`xacro {path} > {path.stem.removesuffix('.urdf')}.urdf` first, and read that file."
            )


def _check(robot: Any, path: Path) -> None:
    """Refuses missing elements and attributes, and malformed numbers."""

    def where(element: Any) -> str:
        owner = next((e for e in (element, *element.iterancestors()) if e.get("name")), robot)
        inside = "" if owner is element else f"<{element.tag}> of "
        return f"'{path}', line {element.sourceline}: {inside}{owner.tag} '{owner.get('name', '')}'"

    for e in robot.iter():
        for key in NEEDED.get(e.tag, ()):
            if (e.find(key[1:-1]) if key.startswith("<") else e.get(key)) is None:
                raise UndulaError(f"{where(e)} has no {key}.")
        for key in set(e.keys()) & NUMBERS.keys():
            count = NUMBERS[key]
            try:
                values = [float(x) for x in e.get(key).replace(",", " ").split()]
            except ValueError:
                values = []
            if len(values) != count or np.isnan(values).any():
                wanted = f"{count} number{'s' * (count > 1)}"
                raise UndulaError(f"{where(e)} has {key} = '{e.get(key)}'; it must be {wanted}.")


def _root(robot: Any, path: Any) -> Any:
    """The only link that is not the child of a joint."""
    names = [link.name for link in robot.links]
    if not names:
        raise UndulaError(f"'{path}' has no links.")
    unique(names, "link")
    unique([j.name for j in robot.joints], "joint")
    carrier: dict[str, str] = {}
    for j in robot.joints:
        for role, name in (("parent", j.parent), ("child", j.child)):
            if name not in names:
                raise UndulaError(f"the {role} of joint '{j.name}' is '{name}', which is no link of '{path}'.")
        if j.child in carrier:
            both = f"'{carrier[j.child]}' and '{j.name}'"
            raise UndulaError(f"link '{j.child}' is the child of two joints, {both}.")
        carrier[j.child] = j.name
    roots = [link for link in robot.links if link.name not in carrier]
    if not roots:
        raise UndulaError(f"'{path}' has no root: every link is the child of a joint, so they form a cycle.")
    if len(roots) > 1:
        raise UndulaError(f"'{path}' has several roots: {', '.join(r.name for r in roots)}; a robot has one.")
    return roots[0]


def _mention(robot: Any, orphans: list[Any], strict: bool) -> None:
    """Reports what is ignored, in one warning or refusal."""
    rubbing = [j.name for j in robot.joints if j.dynamics and float(j.dynamics.friction or 0)]
    undefined = [j.name for j in robot.joints if j.type in ("planar", "floating") and _own_damping(j)]
    follow = [f"{j.name} of '{j.mimic.joint}'" for j in orphans]
    left_out = [
        what.format(", ".join(names))
        for what, names in (
            ("the Coulomb friction of the joints {}", rubbing),
            ("the damping of the joints {} (undefined for their type)", undefined),
            ("the mimics {} (no moving joint has that name; they get coordinates of their own)", follow),
        )
        if names
    ]
    if left_out:
        sentence = f"URDF of '{robot.name}': ignored {' and '.join(left_out)}."
        if strict:
            raise ModelError(sentence)
        warnings.warn(sentence, UndulaWarning, stacklevel=3)


# Joints


def _joint(j: Any, mimic: Mimic | None, damping: float) -> Joint:
    if j.type not in JOINTS:
        types = ", ".join(JOINTS)
        raise UndulaError(f"joint '{j.name}' has the unknown type '{j.type}'; the types are {types}.")
    about: dict[str, Any] = dict(name=j.name)
    if j.type in SINGLE:
        about |= dict(axis=j.axis, mimic=mimic, damping=damping)
    limited = j.type in ("revolute", "prismatic") and j.limit and mimic is None
    # a missing limit is 0 in URDF, but if both are missing, no limits are meant: the joint could not move at all
    if limited and (j.limit.lower, j.limit.upper) != (None, None):
        about["limits"] = (j.limit.lower or 0.0, j.limit.upper or 0.0)
    return JOINTS[j.type](**about)


def _mimics(joints: list[Any]) -> tuple[dict[str, Mimic], list[Any]]:
    """The joint at the head of the chain of each mimic joint, and the mimics of joints that do not move or exist."""
    moving = {j.name: j for j in joints if j.type != "fixed"}
    followers = {n: j.mimic for n, j in moving.items() if j.mimic and j.mimic.joint in moving}
    mimics = {}
    for name in followers:
        leader, scale, offset, chain = name, 1.0, 0.0, []
        while leader in followers:
            chain.append(leader)
            step = followers[leader]
            leader, scale, offset = step.joint, scale * step.multiplier, offset + scale * step.offset
            if leader in chain:
                raise UndulaError(f"the joints {' -> '.join([*chain, leader])} mimic each other in a cycle.")
        mimics[name] = Mimic(leader, scale, offset)
    return mimics, [j for n, j in moving.items() if j.mimic and n not in followers]


def _own_damping(j: Any) -> float:
    return float(j.dynamics.damping or 0) if j.dynamics else 0.0


def _damping(joints: list[Any], mimics: dict[str, Mimic]) -> dict[str, float]:
    """Damping of each joint; that of a mimic is moved to its leader, where it dissipates the same power."""
    out = {j.name: _own_damping(j) for j in joints}
    for name, mimic in mimics.items():
        out[mimic.leader] += mimic.multiplier**2 * out.pop(name)
    return out


# Links


def _place(origin: np.ndarray | None) -> dict[str, np.ndarray]:
    T = np.eye(4) if origin is None else origin
    return dict(position=T[:3, 3], rotation=T[:3, :3])


def _inertial(link: Any) -> dict[str, Any]:
    """Mass, centre of mass, and inertia about it in the axes of the link."""
    if link.inertial is None:
        return {}
    place = _place(link.inertial.origin)
    R = place["rotation"]
    inertia = R @ link.inertial.inertia @ R.T
    return dict(mass=link.inertial.mass, com=place["position"], inertia=(inertia + inertia.T) / 2)


def _from_z(direction: Any, what: str) -> tuple[float, ...]:
    """Quaternion of the smallest rotation that turns z into a direction."""
    x, y, z = unit_vector(direction, what)
    q = np.array([1 + z, -y, x, 0.0])
    if not q.any():
        return 0.0, 1.0, 0.0, 0.0  # opposite to z: half a turn about x
    return tuple((q / np.linalg.norm(q)).tolist())


def _shapes(robot: Any) -> dict[str, tuple[Shape, ...]]:
    """Shapes of each link: its boxes, cylinders and spheres, or else bones towards the joints it carries."""
    from scipy.spatial.transform import Rotation

    def colour_of(material: Any) -> tuple[float, ...] | None:
        colour = (material.color or palette.get(material.name)) if material else None
        return tuple(colour.rgba[:3].tolist()) if colour else None

    # a material may be defined in one visual and named in another; the robot's own definitions take precedence
    inline = [v.material for link in robot.links for v in link.visuals if v.material]
    palette = {m.name: m.color for m in (*inline, *robot.materials) if m.color}
    ends: dict[str, list[np.ndarray]] = {link.name: [] for link in robot.links}
    for j in robot.joints:
        ends[j.parent].append(_place(j.origin)["position"])
    out = {}
    for link in robot.links:
        shapes = []
        for v in link.visuals:
            if solid := _solid(v.geometry):
                place = _place(v.origin)
                quaternion = Rotation.from_matrix(place["rotation"]).as_quat(scalar_first=True).tolist()
                position = place["position"].tolist()
                shapes.append(Shape(*solid, tuple(position), tuple(quaternion), colour_of(v.material)))
        if not shapes:
            bones = ends[link.name] or [_inertial(link).get("com", np.zeros(3))]
            colour = colour_of(next((v.material for v in link.visuals), None))
            shapes = [_bone(end, colour) for end in bones if np.linalg.norm(end) > 1e-3]
        out[link.name] = tuple(shapes)
    return out


def _solid(geometry: Any) -> tuple[str, tuple[float, ...]] | None:
    """Kind and size of a primitive; None for a mesh."""
    if geometry.box:
        return "box", tuple(geometry.box.size.tolist())
    if geometry.cylinder:
        return "cylinder", (geometry.cylinder.radius, geometry.cylinder.length)
    return ("sphere", (geometry.sphere.radius,)) if geometry.sphere else None


def _bone(end: np.ndarray, colour: tuple[float, ...] | None) -> Shape:
    """A thin capsule from the origin of a link to a point."""
    length = float(np.linalg.norm(end))
    return Shape("capsule", (0.06 * length, length), tuple((end / 2).tolist()), _from_z(end, "bone"), colour)
