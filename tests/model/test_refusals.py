"""What cannot be meant is refused with a sentence that names it: models, numbers that replace others, arguments."""

import jax.numpy as jnp
import numpy as np
import pytest

import undula as un

pytestmark = pytest.mark.usefixtures("wrong_types")


def pendulum(gravity=(0, 0, -9.81), **joint):
    b = un.Builder("pendulum", gravity)
    b.base("ground")
    b.body("arm", "ground", un.Revolute((0, 1, 0), **joint), 1.0, (0, 0, -0.5), 0.1)
    return b


def with_body(*args, **kwargs):
    b = pendulum()
    b.body(*args, **{"mass": 1.0, "inertia": 0.1, **kwargs})
    return b.build()


def with_call(name, *args):
    b = pendulum()
    getattr(b, name)(*args)
    return b.build()


def free_body(**kwargs):
    b = un.Builder("body")
    b.base("body", role="free", **kwargs)
    return b.build()


class Wrong(un.laws.Law):
    @property
    def shape(self):
        return ()

    def value(self, t):
        return jnp.zeros(2)


class ByNumPy(un.Actuator):
    def effort(self, at):
        return np.sin(np.asarray(at.x))


class Branching(un.Actuator):
    def effort(self, at):
        return at.x if at.x[0] > 0 else -at.x


class Mismatched(un.ForceModel):
    def wrench(self, at):
        return jnp.ones(3) + jnp.ones(4)


class Listed(un.ForceModel):
    def wrench(self, at):
        return [0.0] * 6


class Scalar(un.RowModel):
    def gap(self, at):
        return at.sites[0].p[0]


HINGE = un.Revolute((0, 0, 1))

BUILDING = {
    "limits": (lambda: pendulum(limits=1.0).build(), "limits of joint 'arm' = 1.0; it must be a pair (lower, upper)"),
    "limits of words": (lambda: pendulum(limits=("a", "b")).build(), "limits of joint 'arm' = ('a', 'b'); its entries"),
    "bytes": (lambda: pendulum(stiffness=b"x").build(), "stiffness of joint 'arm' = b'x' is not numeric"),
    "mimic": (lambda: pendulum(mimic="arm").build(), "mimic of joint 'arm' = 'arm'; it must be un.joints.Mimic"),
    "name": (lambda: with_body(3, "arm", HINGE), "name of a body = 3; it must be a name"),
    "parent": (
        lambda: with_body("hand", None, HINGE),
        "parent of body 'hand' = None; it must be the name of a body, or a site",
    ),
    "class": (
        lambda: with_body("hand", "arm", un.Revolute),
        "joint of body 'hand' = the class Revolute; it must be a joint",
    ),
    "word": (lambda: with_body("hand", "arm", HINGE, mass="1.0"), "mass of body 'hand' = '1.0' is not numeric"),
    "shapes": (
        lambda: with_body("hand", "arm", HINGE, shapes=(3,)),
        "a shape of body 'hand' = 3; it must be an un.Shape",
    ),
    "planar inertia": (lambda: with_body("hand", "arm", HINGE, inertia=(0, 0, 1)), "give another axis the same moment"),
    "strict": (lambda: un.Builder("a", strict="yes"), "strict = 'yes'; it must be True or False"),
    "base motion": (lambda: un.Builder("a").base("b", "driven", motion=1.0), "it must be un.laws.Constant(1.0)"),
    "point mass": (lambda: free_body(mass=1.0), "inertia of the free base 'body' = [[0.0, 0.0, 0.0],"),
    "no mass": (free_body, "the free base 'body' has the mass 0 kg"),
    "driven by a function": (
        lambda: with_call("drive", "arm", lambda t: t),
        "it must be un.laws.Function(<lambda>, shape=())",
    ),
    "driven by a number": (
        lambda: with_call("drive", "arm", 1.0),
        "it must be un.laws.Constant(1.0), if it is constant",
    ),
    "driven by a tuple": (lambda: with_call("drive", "arm", (HINGE, lambda t: t)), "un.laws.stack([...]) joins laws"),
    "forced by a function of t": (
        lambda: with_call("force", "arm", lambda t: t),
        "is a function of (t); it must be a function of (t,",
    ),
    "controller": (
        lambda: with_call("force", "arm", lambda t, x, v: jnp.zeros(3)),
        "the controller of arm returns the shape (3,)",
    ),
    "raw": (
        lambda: with_call("force", "arm", lambda t, x, v: x @ v @ x),
        "effort of the called effort 'arm.effort' cannot be",
    ),
    "NumPy": (lambda: with_call("force", "arm", ByNumPy()), "use jax.numpy instead of numpy"),
    "branch": (lambda: with_call("force", "arm", Branching()), "use jnp.where instead of `if`"),
    "own law": (lambda: with_call("drive", "arm", Wrong()), "Wrong: value returns the shape (2,); it must be ()"),
    "no names": (lambda: with_call("lead", ()), "coordinates = (); at least one must be named"),
    "broadcasting": (
        lambda: with_call("add", Mismatched(sites="arm")),
        "wrench of the mismatched 'mismatched1' cannot be computed",
    ),
    "a list": (lambda: with_call("add", Listed(sites="arm")), "is a list, which is no array of JAX"),
    "a scalar gap": (
        lambda: with_call("add", Scalar(sites="arm")),
        "gap of the scalar 'scalar1' has the shape (); it must be a vector",
    ),
    "element's name": (lambda: with_call("add", un.Sensor(3, "arm")), "name of the sensor = 3; it must be a name"),
    "an element's class": (lambda: with_call("add", un.Sensor), "the class Sensor cannot be added"),
}


@pytest.mark.parametrize("case", BUILDING)
def test_building(case):
    call, words = BUILDING[case]
    with pytest.raises(un.UndulaError) as found:
        call()
    assert words in str(found.value)


def test_too_many_bodies_are_refused_before_anything_is_computed():
    b = pendulum()
    for k in range(10_001):
        b.body(f"b{k}", "arm", un.Fixed())
    with pytest.raises(un.ModelError, match="has 10003 bodies, nodes of rods included; at most 10000"):
        b.build()


@pytest.fixture(scope="module")
def system():
    return pendulum().build()


REPLACED = {
    "mass": ([0, -1.0], "mass of 'arm' = -1; it must not be negative"),
    "inertia": (-np.ones((2, 3, 3)), "inertia of body 'ground' has the principal moments"),
    "com": (np.full((2, 3), np.nan), "com = [[nan,"),
    "axis": ([[0, 0, 2.0]], "axis of joint 'arm' = [0.0, 0.0, 2.0]; it must be of length 1"),
    "joint_rotation": (np.zeros((1, 3, 3)), "it must be a rotation matrix"),
    "joint_position": ("here", "joint_position = 'here' is not numeric"),
}


@pytest.mark.parametrize("key", REPLACED)
def test_replaced_numbers(system, key):
    value, words = REPLACED[key]
    with pytest.raises(un.UndulaError) as found:
        system.replace(**{key: value})
    assert words in str(found.value)


def test_parameters_of_elements_keep_their_limits():
    b = pendulum()
    b.add(
        un.forces.SpringDamper("arm", "world", 1.0, name="spring"),
        un.rows.Wheel("wheel", "arm").slipping(un.rows.Viscous(1.0)),
    )
    system = b.build()
    for call, words in (
        (lambda: system.replace_element("spring", stiffness=-1.0), "stiffness of 'spring' = -1.0 is not allowed"),
        (lambda: system.replace_element("gravity", g=(0, 0, np.nan)), "g of 'gravity' = [0.0, 0.0, nan] is not finite"),
        (lambda: system.replace_element("wheel", radius=0), "radius of 'wheel' = 0"),
        (lambda: system.replace_element(3, g=1), "name of an element = 3"),
        (lambda: system.with_rows(on=3), "rows to switch = 3; it must be a name"),
        (lambda: system.state([np.nan]), "position = [nan] is not finite"),
        (lambda: system.state({"arm": "up"}), "position of 'arm' = 'up' is not numeric"),
    ):
        with pytest.raises(un.UndulaError) as found:
            call()
        assert words in str(found.value)


ARGUMENTS = {
    "builder": (
        lambda s, x: un.mass_matrix(pendulum(), x),
        "system = a Builder; it must be a System: call its build() first",
    ),
    "attribute of a builder": (
        lambda s, x: pendulum().state(),
        "the Builder 'pendulum' has no state, which a System has",
    ),
    "nothing": (lambda s, x: un.run(None), "system = None; it must be a System; run takes (system, state, t_end,"),
    "array as state": (
        lambda s, x: un.run(s, x.q),
        "state = [0.0]; it must be a State, such as system.state(position)",
    ),
    "q of a connection": (lambda s, x: un.geometry.connection(s, x.q), "connection takes (system, state, at, t)"),
    "time and state": (lambda s, x: un.hybrid_dynamics(s, 0.1, x), "state = 0.1; it must be a State"),
    "state as time": (lambda s, x: un.bias(s, x, None, x), "t = a State; it must be a time [s]"),
    "times": (lambda s, x: un.hybrid_dynamics(s, x, np.zeros(3)), "it must be one time [s] (for many, use un.batch)"),
    "word as time": (lambda s, x: un.linearise(s, x, "now"), "t = 'now' s is not allowed"),
    "other state": (
        lambda s, x: un.mass_matrix(s, with_body("c", "arm", HINGE).state()),
        "it has 2 coordinates and 0 internal",
    ),
    "batch": (lambda s, x: un.bias(s, x.replace(q=jnp.zeros((4, 1)))), "it must be one state: for many, use un.batch"),
    "accelerations": (
        lambda s, x: un.inverse_dynamics(s, x, un.Acceleration(jnp.zeros(6), jnp.zeros(3))),
        "v of the acceleration has the shape (3,); it must be (1,)",
    ),
    "acceleration": (lambda s, x: un.inverse_dynamics(s, x, [0.0]), "it must be an un.Acceleration(base, v)"),
    "wrenches": (lambda s, x: un.bias(s, x, np.zeros((3, 6))), "wrenches has the shape (3, 6); it must be (2, 6)"),
    "efforts": (lambda s, x: un.forward_dynamics(s, x, np.zeros(2)), "efforts has the shape (2,); it must be (1,)"),
    "body": (lambda s, x: un.kinematics.body_jacobian(s, x, 1), "body = 1; it must be a name"),
    "frame": (lambda s, x: un.momentum(s, x, "tip"), "frame = 'tip'; it must be one of base, world, centre"),
    "start of an equilibrium": (
        lambda s, x: un.equilibrium(s, x.replace(q=x.q * np.nan)),
        "the start of the equilibrium of 'pendulum': position = [nan] is not finite",
    ),
    "tolerance": (lambda s, x: un.equilibrium(s, x, tolerance=-1e-9), "tolerance = -1e-09 is not allowed"),
    "iterations": (lambda s, x: un.equilibrium(s, x, max_iterations=1.5), "max_iterations = 1.5 is not allowed"),
    "keep": (lambda s, x: un.linearise(s, x, keep=3), "keep = 3; it must be a name"),
    "path": (lambda s, x: un.load(3), "path = 3; it must be the path of a file"),
    "data": (lambda s, x: un.save(s, "x.nc"), "data is of the type System; it must be a dataset, as a run records it"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(system, case):
    call, words = ARGUMENTS[case]
    with pytest.raises(un.UndulaError) as found:
        call(system, system.state())
    assert words in str(found.value)
