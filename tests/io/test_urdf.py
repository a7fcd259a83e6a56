"""URDF import against Pinocchio on real robots, and the treatment of odd files."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import undula as un
from robots import ROBOTS, Twin, find, load, reference, undamped

BOTH = {
    "ur5": "ur_description/urdf/ur5_robot",
    "panda": "panda_description/urdf/panda",  # prismatic joints, one of them a mimic
    "anymal": "anymal_b_simple_description/robots/anymal",
    "solo12": "solo_description/robots/solo12",
    "talos": "talos_data/robots/talos_full_v2",  # 12 mimics
    "romeo": "romeo_description/urdf/romeo_small",  # unphysical inertias
}
CASES = {f"{name}-{base}": (file, base) for name, file in BOTH.items() for base in ("fixed", "free")}

# compiled once and run a few times: optimised code would cost more than it saves
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
quick = partial(jax.jit, compiler_options=QUICK)
body_poses, inverse_dynamics = quick(un.kinematics.body_poses), quick(un.inverse_dynamics)


@partial(quick, static_argnames="body")
def everything(system, state, acceleration, efforts, body):
    """The quantities that `reference` gets from Pinocchio."""
    needed = un.inverse_dynamics(system, state, acceleration)
    gained = un.forward_dynamics(system, state, efforts)
    directions = np.array(system.topology.base_directions, dtype=int)
    poses = un.kinematics.body_poses(system, state)
    columns = np.concatenate([directions, 6 + np.arange(system.nv)])
    return {
        "positions": poses.position,
        "rotations": jax.vmap(lambda pose: pose.rotation)(poses),
        "jacobian": un.kinematics.body_jacobian(system, state, body)[:, columns],
        "inverse": jnp.concatenate([needed.base[directions], needed.v]),
        "mass matrix": un.mass_matrix(system, state),
        "forward": jnp.concatenate([gained.base[directions], gained.v]),
        "centre": un.kinematics.centre_of_mass(system, state),
        "momentum": un.momentum(system, state, "centre"),
        "kinetic": un.kinetic_energy(system, state),
        "potential": un.potential_energy(system, state),
    }


def farthest_body(system):
    """The body with the most joints between itself and the base."""
    depth = [0]
    for parent, kind in zip(system.topology.parents, system.topology.kinds):
        depth.append(depth[parent] + (kind is not None))
    return system.body_names[int(np.argmax(depth))]


def relative_error(ours, theirs):
    return np.abs(np.asarray(ours) - theirs).max() / np.abs(theirs).max()


def random_motion(rng, twin):
    base = rng.normal(size=6) if twin.m else np.zeros(6)
    return un.Acceleration(jnp.asarray(base), jnp.asarray(rng.normal(size=twin.system.nv)))


QUICK_CASES = ("panda-fixed", "anymal-free", "talos-free", "romeo-fixed")


@pytest.mark.parametrize(
    ("file", "base"),
    [pytest.param(*x, id=k, marks=() if k in QUICK_CASES else pytest.mark.long) for k, x in CASES.items()],
)
def test_agrees_with_pinocchio(file, base):
    twin = Twin(find(file), base)
    body = farthest_body(twin.system)
    rng = np.random.default_rng(len(file))
    for _ in range(4):
        state, acceleration = twin.random_state(rng), random_motion(rng, twin)
        efforts = rng.normal(size=twin.system.nv)
        ours = everything(twin.system, state, acceleration, jnp.asarray(efforts), body)
        errors = {
            what: relative_error(ours[what], x)
            for what, x in reference(twin, state, acceleration, efforts, body).items()
        }
        assert max(errors.values()) < 1e-9, errors


MORE = {
    "hyq": "hyq_description/robots/hyq_no_sensors",
    "tiago": "tiago_description/robots/tiago_no_hand",  # continuous joints
    "pr2": "pr2_description/urdf/pr2",  # continuous and prismatic joints, mimics
    "romeo": "romeo_description/urdf/romeo",  # 22 mimics in fingers without mass: no forward dynamics
}


@pytest.mark.parametrize("file", MORE.values(), ids=MORE)
def test_inverse_dynamics_of_more_robots(file):
    twin = Twin(find(file), "free")
    rng = np.random.default_rng(len(file))
    for _ in range(3):
        state, acceleration = twin.random_state(rng), random_motion(rng, twin)
        ours = inverse_dynamics(twin.system, state, acceleration)
        q, v = twin.configuration(state), twin.velocity(state.base_twist, state.v)
        a = twin.velocity(acceleration.base, acceleration.v)
        theirs = twin.C.T @ pin.rnea(twin.model, twin.data, q, v, a)
        assert relative_error(jnp.concatenate([ours.base, ours.v]), theirs) < 1e-9


def test_massless_fingers_are_mentioned():
    with pytest.warns(un.UndulaWarning, match="'LFinger12Link' moves on the joint 'LFinger12'.* 0 kg") as caught:
        un.load_urdf(find(MORE["romeo"]))
    assert len(caught) == 1


def test_mimics_agree_with_pinocchios():
    """Pinocchio's own mimic joints, where it can build them."""
    path = find("panda_description/urdf/panda")
    system = load(path)
    system = undamped(system)
    model = pin.buildModelFromUrdf(str(path), mimic=True)
    rows = [model.joints[model.getJointId(name)].idx_v for name in system.coordinate_names]
    assert sorted(rows) == list(range(model.nv))  # Pinocchio has the same coordinates
    rng = np.random.default_rng(3)
    x, v, a = rng.normal(size=(3, system.nv))
    q_pin, v_pin, a_pin = (np.zeros(model.nv) for _ in range(3))
    q_pin[rows], v_pin[rows], a_pin[rows] = x, v, a
    data = model.createData()
    state, acceleration = system.state(x, v), un.Acceleration(jnp.zeros(6), jnp.asarray(a))
    tau = inverse_dynamics(system, state, acceleration).v
    assert relative_error(tau, pin.rnea(model, data, q_pin, v_pin, a_pin)[rows]) < 1e-9
    M = np.triu(pin.crba(model, data, q_pin))
    M = (M + np.triu(M, 1).T)[np.ix_(rows, rows)]
    assert relative_error(quick(un.mass_matrix)(system, state), M) < 1e-9


EMPTY = "ur_description/urdf/ur3.urdf"  # a <robot> without anything in it


def test_every_robot_imports():
    files = [f for f in sorted(ROBOTS.rglob("*.urdf")) if not f.match(EMPTY)]
    assert len(files) > 60
    for file in files:
        system = load(file, base="free")
        model = pin.buildModelFromUrdf(str(file))
        assert set(system.body_names) == {f.name for f in model.frames if f.type == pin.FrameType.BODY}, file
        assert set(system.coordinate_names) <= set(model.names), file
        assert np.isclose(system.mass.sum(), model.inertias[0].mass + pin.computeTotalMass(model)), file
    with pytest.raises(un.UndulaError, match=r"ur3\.urdf' has no links"):
        load(ROBOTS / EMPTY)


# Small files


LINK = (
    '<link name="{}"><inertial><mass value="2"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
ARM = LINK.format("base") + LINK.format("arm")


def joint(more="", name="hinge", kind="revolute", parent="base", child="arm"):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


@pytest.fixture
def loaded(tmp_path):
    """Loads a robot from the contents of its <robot> element."""

    def load(inside, **options):
        file = tmp_path / "robot.urdf"
        file.write_text(f'<robot name="small">{inside}</robot>')
        with warnings.catch_warnings():
            warnings.simplefilter("error", un.UndulaWarning)
            return un.load_urdf(file, **options)

    return load


def test_names_and_order(loaded):
    links = "".join(LINK.format(x) for x in ("tip", "left", "base", "right"))
    joints = (
        joint(name="c", parent="left", child="tip") + joint(name="a", child="right") + joint(name="b", child="left")
    )
    system = loaded(links + joints)
    assert system.name == "small"
    assert system.body_names == ("base", "right", "left", "tip")
    assert system.labels.joints == system.coordinate_names == ("a", "b", "c")


def test_damping_and_limits(loaded):
    more = '<limit lower="-0.5" upper="2" effort="9" velocity="9"/><dynamics damping="0.25"/>'
    system = loaded(ARM + joint(more))
    assert system.element("dampers").damping.tolist() == [0.25]
    assert (system.lower, system.upper) == ((-0.5,), (2.0,))
    turning = loaded(ARM + joint(more, kind="continuous"))
    assert (turning.lower, turning.upper) == ((-np.inf,), (np.inf,))
    unlimited = loaded(ARM + joint('<limit effort="9" velocity="9"/>'))
    assert (unlimited.lower, unlimited.upper) == ((-np.inf,), (np.inf,))


def test_damping_of_a_real_robot():
    system = load(find("panda_description/urdf/panda"))
    assert np.all(np.asarray(system.element("dampers").damping) > 0)
    assert system.upper[system.coordinate("panda_joint1")] == 2.8973


def test_chain_of_mimics_and_their_damping(loaded):
    """c = 3 b - 1 and b = -2 a + 0.5; dampers dissipate as much as those of the three joints."""
    links = "".join(LINK.format(x) for x in ("base", "one", "two", "three"))
    damper = '<dynamics damping="{}"/>'
    joints = [
        joint(
            damper.format(0.1) + '<mimic joint="b" multiplier="3" offset="-1"/>',
            "c",
            parent="two",
            child="three",
        ),
        joint(
            damper.format(0.2) + '<mimic joint="a" multiplier="-2" offset="0.5"/>',
            "b",
            parent="one",
            child="two",
        ),
        joint(damper.format(0.3), "a", child="one"),
    ]
    system = loaded(links + "".join(joints))
    assert system.coordinate_names == ("a",)
    poses = body_poses(system, system.state([0.4]))
    b = -2 * 0.4 + 0.5
    c = 3 * b - 1
    total = 0.4 + b + c  # all axes are x
    np.testing.assert_allclose(poses.quaternion[3], [np.cos(total / 2), np.sin(total / 2), 0, 0], atol=1e-14)
    assert np.isclose(system.element("dampers").damping[0], 0.3 + 0.2 * (-2) ** 2 + 0.1 * (3 * -2) ** 2)


def test_rotated_inertial(loaded):
    inertial = (
        '<inertial><origin xyz="1 2 3" rpy="0.3 -0.4 1.1"/><mass value="2"/>'
        '<inertia ixx="3" iyy="4" izz="5" ixy="0.1" ixz="0.2" iyz="0.3"/></inertial>'
    )
    system = loaded(f'<link name="base">{inertial}</link>')
    R = pin.rpy.rpyToMatrix(0.3, -0.4, 1.1)
    I = np.array([[3, 0.1, 0.2], [0.1, 4, 0.3], [0.2, 0.3, 5]])
    np.testing.assert_allclose(system.inertia[0], R @ I @ R.T, atol=1e-14)
    assert system.com[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (1, -2, 0.5)])
def test_planar_joint(loaded, normal):
    """The link slides in the plane and rotates about its normal; at zero it is where the file places it."""
    axis = f'<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.4 1.1"/><axis xyz="{" ".join(map(str, normal))}"/>'
    system = loaded(ARM + joint(axis, kind="planar"))
    assert system.coordinate_names == ("hinge.x", "hinge.y", "hinge.angle")
    R, p = pin.rpy.rpyToMatrix(0.3, -0.4, 1.1), np.array([0.1, 0.2, 0.3])
    n = R @ normal / np.linalg.norm(normal)

    def place(*x):
        poses = body_poses(system, system.state(x))
        k = system.body("arm")
        return np.asarray(un.Pose(poses.position[k], poses.quaternion[k]).rotation), np.asarray(poses.position[k])

    at_zero = place(0, 0, 0)
    np.testing.assert_allclose(at_zero[0], R, atol=1e-14)
    np.testing.assert_allclose(at_zero[1], p, atol=1e-14)
    x, y = place(1, 0, 0)[1] - p, place(0, 1, 0)[1] - p
    np.testing.assert_allclose(np.cross(x, y), n, atol=1e-14)
    turned, where = place(0, 0, 0.7)
    np.testing.assert_allclose(turned, pin.exp3(0.7 * n) @ R, atol=1e-14)
    np.testing.assert_allclose(where, p, atol=1e-14)


def test_floating_joint_moves_like_a_free_base(loaded):
    system = loaded('<link name="base"/>' + LINK.format("arm") + joint(kind="floating"))
    assert system.nv == 6
    fall = quick(un.forward_dynamics)(system, system.state(), jnp.zeros(6))
    np.testing.assert_allclose(fall.v, [0, 0, -9.81, 0, 0, 0], atol=1e-12)


def test_place_and_role_of_the_base(loaded):
    system = loaded(
        ARM + joint(), base="free", group="SE2", position=(1, 2, 3), rotation=(0, 0, 0, 1), gravity=(0, -1, 0)
    )
    assert (system.topology.base_role, system.topology.base_group) == ("free", "SE2")
    assert system.base_pose.position.tolist() == [1, 2, 3]
    np.testing.assert_allclose(system.base_pose.rotation, np.diag([-1, -1, 1]), atol=1e-14)
    assert system.element("gravity").g.tolist() == [0, -1, 0]
    driven = loaded(ARM + joint(), base="driven", group="R", motion=un.laws.Constant((0.5,)))
    assert driven.topology.base_role == "driven"


def test_shapes(loaded):
    def visual(solid, more=""):
        return f"<visual>{more}<geometry>{solid}</geometry></visual>"

    red = '<material name="red"/>'
    base = visual(
        '<box size="1 2 3"/>',
        '<origin xyz="0 0 1" rpy="1.2 0 0"/><material name="red"><color rgba="0 1 0 1"/></material>',
    )
    base += visual('<cylinder radius="0.1" length="2"/>', red) + visual('<sphere radius="0.3"/>')
    mesh = visual('<mesh filename="package://nowhere/at/all.dae"/>', red)
    system = loaded(
        '<material name="red"><color rgba="1 0 0 1"/></material>'
        f'<link name="base">{base}</link><link name="arm">{mesh}</link>'
        + LINK.format("tip")
        + joint('<origin xyz="0 0 9"/>')
        + joint('<origin xyz="0 -0.5 0"/>', name="end", parent="arm", child="tip")
    )
    box, cylinder, sphere = system.labels.shapes[0]
    assert (box.kind, box.size, box.position, box.colour) == ("box", (1, 2, 3), (0, 0, 1), (0, 1, 0))
    np.testing.assert_allclose(box.quaternion, [np.cos(0.6), np.sin(0.6), 0, 0])
    assert (cylinder.kind, cylinder.size, cylinder.colour) == ("cylinder", (0.1, 2), (1, 0, 0))
    assert (sphere.kind, sphere.size, sphere.colour) == ("sphere", (0.3,), None)
    (bone,) = system.labels.shapes[1]  # drawn for the missing mesh: towards the tip
    ends = [
        pin.Quaternion(*bone.quaternion).toRotationMatrix()[:, 2] * s * bone.size[1] / 2 + bone.position
        for s in (-1, 1)
    ]
    np.testing.assert_allclose(ends, [[0, 0, 0], [0, -0.5, 0]], atol=1e-12)
    assert bone.kind == "capsule" and bone.colour == (1, 0, 0)
    assert system.labels.shapes[2] == ()


# Defects


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        (LINK.replace('izz="1"', 'izz="3"').format("base"), "'base' .* violate the triangle inequality"),
        (LINK.replace('izz="1"', 'izz="-1"').format("base"), "'base' .* none may be negative"),
        (LINK.format("base") + '<link name="arm"/>' + joint(), "'arm' moves on the joint 'hinge' .* 0 kg"),
        (ARM + joint('<dynamics friction="0.5"/>'), "the Coulomb friction of the joints hinge"),
        (
            ARM + joint('<dynamics damping="0.5"/>', kind="planar"),
            "the damping of the joints hinge .*undefined for their type",
        ),
        (ARM + joint('<mimic joint="nobody"/>'), "the mimics hinge of 'nobody' .*coordinates of their own"),
    ],
    ids=["triangle", "negative", "massless", "friction", "planar-damping", "orphan"],
)
def test_defects_warn_once_or_are_refused(loaded, tmp_path, inside, sentence):
    with pytest.raises(un.ModelError, match=sentence):
        loaded(inside, strict=True)
    with pytest.warns(un.UndulaWarning, match=sentence) as caught:
        system = un.load_urdf(tmp_path / "robot.urdf")
    assert len(caught) == 1
    assert system.nv == inside.count("<joint") * (3 if "planar" in inside else 1)


def test_unphysical_inertia_is_kept(loaded, tmp_path):
    with pytest.raises(un.UndulaWarning):
        loaded(LINK.replace('izz="1"', 'izz="3"').format("base"))
    assert load(tmp_path / "robot.urdf").inertia[0, 2, 2] == 3


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        ("", "has no links"),
        ('<link name="a"/><link name="b"/>', "several roots: a, b"),
        (
            ARM + joint(kind="ball"),
            "joint 'hinge' has the unknown type 'ball'; the types are fixed, revolute",
        ),
        (ARM + joint(child="leg"), "child of joint 'hinge' is 'leg', which is no link"),
        (ARM + joint() + joint(name="other"), "link 'arm' is the child of two joints, 'hinge' and 'other'"),
        (ARM + joint() + joint(name="back", parent="arm", child="base"), "no root"),
        (ARM + LINK.format("arm") + joint(), "two links named 'arm'"),
        (ARM + LINK.format("leg") + joint() + joint(child="leg"), "two joints named 'hinge'"),
        (ARM + joint().replace("<parent", "<elder"), "joint 'hinge' has no <parent>"),
        (ARM + joint().replace('type="revolute"', ""), "joint 'hinge' has no type"),
        (LINK.replace('ixx="1"', "").format("base"), "<inertia> of link 'base' has no ixx"),
        (LINK.replace('<mass value="2"/>', "").format("base"), "<inertial> of link 'base' has no <mass>"),
        (
            LINK.replace('"2"', '"two"').format("base"),
            "<mass> of link 'base' has value = 'two'; it must be 1 number",
        ),
        (LINK.replace('"2"', '"nan"').format("base"), "<mass> of link 'base' has value = 'nan'"),
        (LINK.replace('"2"', '"-2"').format("base"), "mass of body 'base' = -2.0 kg is negative"),
        (
            ARM + joint('<origin xyz="1 2"/>'),
            "<origin> of joint 'hinge' has xyz = '1 2'; it must be 3 numbers",
        ),
        (ARM + joint('<axis xyz="0 0 0"/>'), "axis of joint 'hinge' .* is zero"),
        (ARM + joint('<limit lower="1" upper="-1"/>'), "limits of joint 'hinge'"),
        (ARM + joint('<mimic joint="hinge"/>'), "hinge -> hinge mimic each other"),
        (ARM + joint() + "<joint", "not well-formed XML.*line 1"),
    ],
)
def test_refusals_name_the_culprit(loaded, inside, sentence):
    with pytest.raises(un.UndulaError, match=sentence) as caught:
        loaded(inside)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(un.UndulaError, match=r"there is no file .*missing\.urdf"):
        un.load_urdf(tmp_path / "missing.urdf")
    (tmp_path / "empty.urdf").write_text("")
    with pytest.raises(un.UndulaError, match=r"empty\.urdf' is not well-formed XML"):
        un.load_urdf(tmp_path / "empty.urdf")
    (tmp_path / "world.sdf").write_text("<sdf/>")
    with pytest.raises(un.UndulaError, match="<sdf> instead of <robot>"):
        un.load_urdf(str(tmp_path / "world.sdf"))


def test_extensions_with_undeclared_prefixes_do_no_harm(loaded):
    assert loaded(f'{ARM}{joint()}<controller:old plugin="x"/><gazebo/><!-- a comment -->').nv == 1


@pytest.mark.parametrize(
    "body, words",
    [
        ('<xacro:macro name="leg"><link name="x"/></xacro:macro><xacro:leg/>', "<macro> belongs to a xacro file"),
        ('<joint name="a" type="fixed"><origin xyz="${2 * pi} 0 0"/></joint>', "2 \\* pi.* belongs to a xacro file"),
    ],
)
def test_a_xacro_file_is_refused(tmp_path, body, words):
    """Its macros are not expanded: it would be read as a robot of one link."""
    file = tmp_path / "robot.urdf.xacro"
    file.write_text(f'<robot name="a" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="base"/>{body}</robot>')
    with pytest.raises(un.UndulaError, match=f"line 1: .*{words}.*`xacro .* > robot.urdf` first"):
        un.load_urdf(file)
    file.write_text('<robot name="a" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="base"/></robot>')
    assert un.load_urdf(file).body_names == ("base",)  # expanded: only the declaration is left
