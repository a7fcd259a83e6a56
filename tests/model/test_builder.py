"""Building models: every refusal names its cause, order does not matter, and models are differentiable pytrees."""

import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un

NAN = float("nan")
GOOD = dict(mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.05))
SWING = un.laws.Sinusoid(1.0, 2.0)


def one_joint(joint=None, base=None, **body):
    """A base called ground and a body called arm on a joint."""
    b = un.Builder("model")
    b.base("ground", **(base or {}))
    b.body("arm", "ground", joint or un.Revolute((0, 1, 0)), **(GOOD | body))
    return b


def refuse(builder, *words):
    """build() must raise one sentence that contains all the words."""
    with pytest.raises(un.ModelError) as caught:
        builder.build()
    says(caught, *words)


def says(caught, *words):
    message = str(caught.value)
    for word in words:
        assert re.search(word, message), f"{word!r} is not in: {message}"
    assert "\n" not in message and message.endswith(".")


# The tree


def test_cycle():
    b = one_joint()
    b.body("a", "c", un.Revolute(), **GOOD)
    b.body("b", "a", un.Revolute(), **GOOD)
    b.body("c", "b", un.Revolute(), **GOOD)
    refuse(b, "cycle", r"a -> c -> b -> a|b -> a -> c -> b|c -> b -> a -> c")


def test_body_on_itself():
    b = one_joint()
    b.body("loop", "loop", un.Revolute(), **GOOD)
    refuse(b, "cycle", "loop -> loop")


def test_unknown_parent():
    b = one_joint()
    b.body("hand", "elbow", un.Revolute(), **GOOD)
    refuse(b, "'hand'", "'elbow'", "arm, ground")


def test_two_bodies_of_one_name():
    b = one_joint()
    b.body("arm", "ground", un.Revolute(), **GOOD)
    refuse(b, "two bodies named 'arm'")


def test_body_named_like_the_base():
    b = one_joint()
    b.body("ground", "arm", un.Revolute(), **GOOD)
    refuse(b, "'ground'")


def test_two_joints_of_one_name():
    b = one_joint(un.Revolute((0, 1, 0), name="hinge"))
    b.body("hand", "arm", un.Revolute(name="hinge"), **GOOD)
    refuse(b, "two joints named 'hinge'")


def test_two_coordinates_of_one_name():
    # the coordinates of a ball joint "a" are a.rx, a.ry, a.rz
    b = one_joint(un.Spherical(name="a"))
    b.body("hand", "arm", un.Revolute(name="a.rx"), **GOOD)
    refuse(b, r"'a\.rx'")


def test_no_base():
    b = un.Builder("headless")
    b.body("arm", "ground", un.Revolute(), **GOOD)
    refuse(b, "'headless' has no base")


def test_two_bases():
    b = one_joint()
    with pytest.raises(un.ModelError) as caught:
        b.base("sky")
    says(caught, "'sky'", "'ground'")


def test_joint_that_is_none():
    b = un.Builder("model")
    b.base("ground")
    with pytest.raises(Exception, match="joint"):  # the type checker or the builder, whichever comes first
        b.body("arm", "ground", "Revolute", **GOOD)


# The base


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(role="floating"), ["role of base 'ground' = 'floating'", "fixed, driven, free"]),
        (dict(role="free", group="SE4"), ["group of base 'ground' = 'SE4'", "SE3"]),
        (dict(role="driven"), ["'ground' is driven but has no motion law"]),
        (dict(role="free", motion=SWING), ["'ground' is free", "motion law"]),
        (dict(motion=SWING), ["'ground' is fixed", "motion law"]),
        (
            dict(role="driven", group="SE2", motion=un.laws.Constant([0.0, 0.0])),
            ["motion of base 'ground'", r"\(2,\)", "SE2", r"\(3,\)"],
        ),
        (dict(role="driven", group="SO2", motion=SWING), ["motion of base 'ground'", r"\(\)", r"\(1,\)"]),
    ],
)
def test_base_is_refused(arguments, words):
    with pytest.raises(un.ModelError) as caught:
        un.Builder("model").base("ground", **arguments)
    says(caught, *words)


@pytest.mark.parametrize("what", ["mass", "com", "inertia", "position", "rotation"])
def test_base_is_checked_like_a_body(what):
    value = {"mass": NAN, "inertia": NAN, "rotation": np.full((3, 3), NAN)}.get(what, (0.0, NAN, 0.0))
    refuse(one_joint(base={what: value}), f"{what} of body 'ground'")


def test_free_base_without_mass():
    b = un.Builder("model")
    b.base("hull", role="free")
    refuse(b, "'hull'", "0 kg", "positive")


@pytest.mark.parametrize("gravity", [(0.0, 0.0, NAN), (0.0, -9.81), "down", (0.0, 0.0, math.inf)])
def test_gravity(gravity):
    with pytest.raises(un.ModelError) as caught:
        un.Builder("model", gravity=gravity)
    says(caught, "gravity")


# Bodies


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(mass=-2.0), ["mass of body 'arm' = -2.0 kg"]),
        (dict(mass=0.0), ["'arm'", "0 kg", "positive"]),
        (dict(mass=NAN), ["mass of body 'arm'", "nan"]),
        (dict(mass=math.inf), ["mass of body 'arm'", "inf"]),
        (dict(mass="heavy"), ["mass of body 'arm' = 'heavy'"]),
        (dict(mass=(1.0, 2.0)), ["mass of body 'arm'", r"\(2,\)", "one number"]),
        (dict(com=(0.0, NAN, 0.0)), ["com of body 'arm'", "nan"]),
        (dict(com=(0.0, 1.0)), ["com of body 'arm'", r"\(2,\)", "3 numbers"]),
        (dict(inertia=-0.1), ["inertia of body 'arm'", "-0.1", "negative"]),
        (dict(inertia=NAN), ["inertia of body 'arm'", "nan"]),
        (dict(inertia=(0.1, NAN, 0.1)), ["inertia of body 'arm'", "nan"]),
        (dict(inertia=np.diag([0.1, NAN, 0.1])), ["inertia of body 'arm'", "finite"]),
        (dict(inertia=(0.1, 0.1, 0.3)), ["inertia of body 'arm'", "0.3", "triangle"]),
        (dict(inertia=(0.1, -0.1, 0.1)), ["inertia of body 'arm'", "-0.1", "negative"]),
        (dict(inertia=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), ["inertia of body 'arm'", "symmetric"]),
        (dict(inertia=(0.1, 0.1)), ["inertia of body 'arm'", r"\(2,\)"]),
        (dict(inertia=np.eye(2)), ["inertia of body 'arm'", r"\(2, 2\)"]),
        (dict(inertia="solid"), ["inertia of body 'arm'", "solid"]),
        (dict(position=(NAN, 0.0, 0.0)), ["position of body 'arm'", "nan"]),
        (dict(position=(0.0, 0.0)), ["position of body 'arm'", r"\(2,\)"]),
        (dict(rotation=np.eye(2)), ["rotation of body 'arm'", r"\(2, 2\)"]),
        (dict(rotation=2 * np.eye(3)), ["rotation of body 'arm'", "orthonormal"]),
        (dict(rotation=np.diag([1.0, 1.0, -1.0])), ["rotation of body 'arm'"]),  # a reflection
        (dict(rotation=np.full((3, 3), NAN)), ["rotation of body 'arm'"]),
        (dict(rotation=(0.0, 0.0, 0.0, 0.0)), ["rotation of body 'arm'"]),
        (dict(rotation=(1.0, NAN, 0.0, 0.0)), ["rotation of body 'arm'"]),
        (dict(rotation="upright"), ["rotation of body 'arm'", "upright"]),
    ],
)
def test_body_is_refused(arguments, words):
    refuse(one_joint(**arguments), *words)


def test_mass_may_be_beyond_a_massless_body():
    b = one_joint(mass=0.0, inertia=0.0)
    b.body("hand", "arm", un.Revolute(), **GOOD)
    assert b.build().nv == 2


def test_largest_allowed_inertia():
    # a flat plate: the largest moment is exactly the sum of the others
    assert_allclose(one_joint(inertia=(0.1, 0.2, 0.1 + 0.2)).build().inertia[1], np.diag([0.1, 0.2, 0.3]), rtol=1e-15)


# Joints


@pytest.mark.parametrize(
    "joint, words",
    [
        (un.Revolute((0, 0, 0)), ["axis of joint 'arm'", r"\[0.0, 0.0, 0.0\]", "zero"]),
        (un.Prismatic((0, NAN, 1)), ["axis of joint 'arm'", "nan"]),
        (un.Helical((0, 1)), ["axis of joint 'arm'", r"\(2,\)"]),
        (un.Helical((0, 0, 1), pitch=NAN), ["pitch of joint 'arm'", "nan"]),
        (un.Cylindrical((0, 0, 0)), ["axis of joint 'arm'", "zero"]),
        (un.Universal((0, 0, 1), (0, 0, -2)), ["axes of joint 'arm'", "parallel"]),
        (un.Universal((0, 0, 1), (0, 0, 0)), ["second axis of joint 'arm'", "zero"]),
        (un.Revolute(stiffness=-1.0), ["stiffness of joint 'arm' = -1.0", "negative"]),
        (un.Revolute(damping=-0.5), ["damping of joint 'arm' = -0.5", "negative"]),
        (un.Revolute(damping=NAN), ["damping of joint 'arm'", "nan"]),
        (un.Revolute(rest=NAN), ["rest of joint 'arm'", "nan"]),
        (un.Revolute(stiffness="stiff"), ["stiffness of joint 'arm'", "stiff"]),
        (un.Spherical(stiffness=(1.0, 2.0)), ["stiffness of joint 'arm'", "2 values", "3"]),
        (un.Planar(rest=(1.0, 2.0)), ["rest of joint 'arm'", "2 values", "3"]),
        (un.Revolute(limits=(1.0, -1.0)), ["limits of joint 'arm'", r"\(1.0, -1.0\)"]),
        (un.Revolute(limits=(NAN, 1.0)), ["limits of joint 'arm'", "nan"]),
        (un.Spherical(limits=((1.0, 2.0), 3.0)), ["limits of joint 'arm'", "2 values"]),
        (un.Revolute(role="passive"), ["role of coordinate 'arm' = 'passive'", "free, driven, forced"]),
        (un.Planar(role=("free", "free")), ["role of joint 'arm'", "2 values", "3"]),
        (un.Revolute(role="driven"), ["'arm' is driven but has no motion law"]),
        (un.Revolute(role="forced"), ["'arm' is forced but has no effort law"]),
        (un.Revolute(role="driven", effort=SWING), ["'arm' is driven but has no motion law"]),
        (un.Revolute(role="forced", motion=SWING), ["'arm' is forced but has no effort law"]),
        (un.Revolute(motion=SWING, effort=SWING), ["'arm' has two laws"]),
        (un.Revolute(motion=un.laws.Constant([1.0, 2.0])), [r"law of arm", r"\(2,\)", r"\(1,\)"]),
        (un.Spherical(motion=un.laws.Constant([1.0, 2.0])), [r"law of arm\.rx, arm\.ry", r"\(2,\)", r"\(3,\)"]),
        (un.Revolute(motion=un.forces.ProportionalDerivative(1.0, 1.0, 0.0)), ["arm", "motion|law"]),
        (un.Revolute(motion="wave"), ["arm", "motion|law"]),
        (un.Revolute(effort="push"), ["arm", "effort|law"]),
        (un.Spherical(mimic=un.joints.Mimic("arm")), ["'arm' is a mimic", "one coordinate"]),
        (un.Fixed(mimic=un.joints.Mimic("arm")), ["'arm' is a mimic", "one coordinate"]),
        (un.Revolute(mimic=un.joints.Mimic("arm")), ["'arm' mimics 'arm'"]),
        (un.Revolute(mimic=un.joints.Mimic("elbow")), ["'arm' mimics 'elbow'"]),
        # arguments without effect are refused, not ignored
        (un.Fixed(stiffness=1.0), ["'arm'"]),
        (un.Fixed(role="driven"), ["'arm'"]),
        (un.Fixed(motion=SWING), ["'arm'"]),
    ],
)
def test_joint_is_refused(joint, words):
    refuse(one_joint(joint), *words)


@pytest.mark.parametrize(
    "joint, words",
    [
        (un.Prismatic(mimic=un.joints.Mimic("arm", NAN)), ["'hand'"]),
        (un.Prismatic(mimic=un.joints.Mimic("arm", 1.0, NAN)), ["'hand'"]),
        (un.Prismatic(mimic=un.joints.Mimic("arm"), stiffness=2.0), ["'hand'"]),
        (un.Prismatic(mimic=un.joints.Mimic("arm"), motion=SWING), ["'hand'"]),
        (un.Prismatic(mimic=un.joints.Mimic("arm"), role="driven"), ["'hand'"]),
    ],
)
def test_mimic_is_refused(joint, words):
    b = one_joint()
    b.body("hand", "arm", joint, **GOOD)
    refuse(b, *words)


def test_mimic_of_a_mimic():
    b = one_joint()
    b.body("hand", "arm", un.Revolute(mimic=un.joints.Mimic("arm")), **GOOD)
    b.body("finger", "hand", un.Revolute(mimic=un.joints.Mimic("hand")), **GOOD)
    refuse(b, "'finger' mimics 'hand'")


def test_mimic_of_a_rotation_vector():
    # the components of a ball joint's rotation vector are not angles that a joint could follow
    b = one_joint(un.Spherical())
    b.body("hand", "arm", un.Revolute(mimic=un.joints.Mimic("arm.rx")), **GOOD)
    refuse(b, "'hand'", r"arm\.rx")


def test_laws_given_to_the_builder():
    for change, words in (
        (lambda b: b.drive("elbow", SWING), ["'elbow'", "names are arm"]),
        (lambda b: b.force(["arm", "elbow"], SWING), ["'elbow'"]),
        (lambda b: (b.drive("arm", SWING), b.force("arm", SWING)), ["'arm' has two laws"]),
        (lambda b: (b.drive("arm", SWING), b.drive("arm", SWING)), ["'arm' has two laws"]),
        (lambda b: (b.drive("arm", SWING), b.lead("arm")), ["'arm' is both driven and led"]),
        (lambda b: (b.lead("arm"), b.lead("arm")), ["'arm' is led twice"]),
        (lambda b: b.drive(["arm", "arm"], un.laws.Constant([1.0, 2.0])), ["'arm' has two laws"]),
        (lambda b: b.drive("arm", un.laws.Constant([1.0, 2.0])), [r"\(2,\)", r"\(1,\)"]),
    ):
        b = one_joint()
        change(b)
        refuse(b, *words)
    b = one_joint(un.Revolute((0, 1, 0), motion=SWING))
    b.drive("arm", SWING)
    refuse(b, "'arm' has two laws")


def test_ball_joint_driven_in_part():
    b = one_joint(un.Spherical())
    b.drive(["arm.rx", "arm.ry"], un.laws.Constant([0.1, 0.2]))
    refuse(b, "'arm'", "some coordinates only")


# The frozen system


@pytest.fixture(scope="module")
def arm():
    return one_joint(un.Revolute((0, 1, 0), stiffness=2.0)).build()


def test_names(arm):
    assert (arm.name, arm.body_names, arm.coordinate_names) == ("model", ("ground", "arm"), ("arm",))
    assert arm.body("arm") == 1 and arm.coordinate("arm") == 0
    for ask, words in (
        (lambda: arm.body("leg"), ["body 'leg'", "ground, arm"]),
        (lambda: arm.coordinate("leg"), ["coordinate 'leg'", "names are arm"]),
        (lambda: arm.state({"leg": 1.0}), ["coordinate 'leg'"]),
        (lambda: arm.state([1.0, 2.0]), ["position", r"\(2,\)", r"\(1,\)"]),
        (lambda: arm.state(velocity=[1.0, 2.0]), ["velocity", r"\(2,\)"]),
        (lambda: arm.state(base_position=[1.0]), ["base_position", r"\(3,\)"]),
        (lambda: arm.state(base_quaternion=[1.0, 0.0, 0.0]), ["base_quaternion", r"\(4,\)"]),
        (lambda: arm.state(base_twist=[1.0]), ["base_twist", r"\(6,\)"]),
        (lambda: un.kinematics.point_position(arm, arm.state(), "leg", jnp.zeros(3)), ["body 'leg'"]),
        (lambda: un.kinematics.body_jacobian(arm, arm.state(), "leg"), ["body 'leg'"]),
        (lambda: un.momentum(arm, arm.state(), "moon"), ["moon", "base", "world", "centre"]),
        (lambda: un.geometry.connection(arm, arm.state()), ["'model'", "fixed base"]),
    ):
        with pytest.raises(un.UndulaError) as caught:
            ask()
        says(caught, *words)


def test_replace(arm):
    other = arm.replace(mass=[1.0, 3.0]).replace_element("springs", stiffness=[5.0])
    assert_allclose(other.mass, [1.0, 3.0])
    assert_allclose(other.element("springs").stiffness, [5.0])
    assert_allclose(arm.mass, [0.0, 1.0])  # the old one is unchanged
    assert other.topology == arm.topology and other.mass.dtype == jnp.float64
    assert jax.tree.structure(arm.replace()) == jax.tree.structure(arm)
    for change, words in (
        (dict(colour=1.0), ["colour", "mass, com, inertia"]),
        (dict(topology=None), ["topology"]),
        (dict(mass=[1.0]), ["mass", r"\(1,\)", r"\(2,\)"]),
        (dict(axis=[0.0, 0.0, 1.0]), ["axis", r"\(3,\)", r"\(1, 3\)"]),
    ):
        with pytest.raises(un.UndulaError) as caught:
            arm.replace(**change)
        says(caught, *words)


def test_system_is_a_pytree_and_compiles_once(arm):
    traced = []

    @jax.jit
    def weight(system):
        traced.append(1)
        return system.mass.sum() * system.element("gravity").g[2]

    for mass in (1.0, 2.0, 3.0):
        again = one_joint(un.Revolute((0, 1, 0), stiffness=2.0), mass=mass).build()
        assert_allclose(weight(again), -9.81 * mass)
    assert len(traced) == 1  # equal topologies share a compilation
    weight(one_joint(un.Prismatic((0, 1, 0))).build())
    assert len(traced) == 2
    leaves = jax.tree.leaves(arm)
    assert leaves and all(isinstance(x, jax.Array) and x.dtype == jnp.float64 for x in leaves)
    batch = jax.tree.map(lambda *x: jnp.stack(x), arm, arm.replace(mass=[0.0, 5.0]))
    assert_allclose(jax.vmap(lambda s: s.mass.sum())(batch), [1.0, 5.0])


def test_axes_are_normalised_and_quaternions_are_rotations():
    c, s = math.cos(0.3), math.sin(0.3)
    quaternion = np.array([math.cos(0.15), 0, 0, math.sin(0.15)])
    matrix = [[c, -s, 0], [s, c, 0], [0, 0, 1]]
    turned = one_joint(un.Revolute((0, 3, 0)), rotation=3 * quaternion).build()
    same = one_joint(un.Revolute((0, 1, 0)), rotation=matrix).build()
    assert_allclose(turned.joint_rotation, same.joint_rotation, atol=1e-15)
    assert_allclose(turned.axis, [[0, 1, 0]], atol=1e-15)
    moved = one_joint(base=dict(position=(1, 2, 3), rotation=matrix)).build()
    assert_allclose(moved.state().base.quaternion, quaternion, atol=1e-15)
    assert_allclose(moved.state().base.position, [1, 2, 3])


def test_any_order_of_bodies(rng):
    bodies = {
        "a": ("root", un.Revolute((0, 1, 0))),
        "b": ("a", un.Prismatic((1, 0, 0))),
        "c": ("a", un.Revolute((0, 0, 1))),
        "d": ("c", un.Revolute((1, 0, 0))),
        "e": ("root", un.Revolute((0, 1, 1))),
    }
    shift = {name: rng.normal(size=3) for name in bodies}

    def build(order, base_last):
        b = un.Builder("tree")
        if not base_last:
            b.base("root", role="free", **GOOD)
        for name in order:
            b.body(name, *bodies[name], position=shift[name], **GOOD)
        if base_last:
            b.base("root", role="free", **GOOD)
        return b.build()

    position = {name: float(x) for name, x in zip(bodies, rng.normal(size=5))}
    mass = jax.jit(un.mass_matrix)

    def by_name(system):
        """The mass matrix with its coordinates in alphabetical order."""
        order = [6 + system.coordinate(name) for name in sorted(bodies)]
        rows = [*range(6), *order]
        return np.asarray(mass(system, system.state(position)))[np.ix_(rows, rows)]

    first = by_name(build("abcde", base_last=False))
    assert_allclose(by_name(build("dbcea", base_last=True)), first, atol=1e-13)
    # children in the order in which they were added
    assert build("edcba", True).body_names == ("root", "e", "a", "c", "d", "b")


def test_build_twice_gives_equal_systems():
    b = one_joint()
    assert eqx.tree_equal(b.build(), b.build())
    b.body("hand", "arm", un.Revolute(), **GOOD)
    assert b.build().nv == 2


# Differentiating through the builder


def closed_form(m, l, I, k):
    """Acceleration of a pendulum with a spring at 0.7 rad."""
    return -(m * 9.81 * l * jnp.sin(0.7) + k * 0.7) / (I + m * l**2)


def built(m, l, I, k):
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0), stiffness=k), m, (0, 0, -l), (I, I, I))
    system = b.build()
    return un.forward_dynamics(system, system.state([0.7]), jnp.zeros(1)).v[0]


@pytest.mark.parametrize("which", ["mass", "length", "inertia", "stiffness"])
def test_gradient_through_the_builder(which):
    values = dict(mass=1.3, length=0.8, inertia=0.2, stiffness=0.5)

    def at(f):
        return lambda x: f(*(values | {which: x}).values())

    wanted = jax.value_and_grad(at(closed_form))(values[which])
    found = jax.jit(jax.value_and_grad(at(built)))(values[which])
    assert_allclose(found, wanted, rtol=1e-12)


def test_gradient_through_the_builder_of_geometry_and_laws():
    def effort(x):
        b = un.Builder("crank", gravity=(0.0, 0.0, -10.0 * x))
        b.base("ground")
        b.body(
            "a",
            "ground",
            un.Revolute((0, 1, 0), motion=un.laws.Sinusoid(x, 2.0)),
            2.0,
            position=(x, 0, 0),
            inertia=1.0,
        )
        b.body("b", "a", un.Prismatic((0, 0, x), rest=x, motion=un.laws.Constant(0.5)), 3.0, position=(0, 0, x))
        return un.hybrid_dynamics(b.build(), b.build().state(), 0.4).efforts

    found, slope = jax.jit(lambda x: jax.jvp(effort, (x,), (1.0,)))(0.6)
    h = 1e-5
    differences = (jax.jit(effort)(0.6 + h) - jax.jit(effort)(0.6 - h)) / (2 * h)
    assert np.all(np.isfinite(found))
    assert_allclose(slope, differences, rtol=1e-8)
