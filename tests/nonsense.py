"""Valid arguments of the constructors of undula, and values that make no sense among them."""

import jax.numpy as jnp
import numpy as np

import undula as un

C, F, I, L, R = un.contact, un.forces, un.integrators, un.laws, un.rows

NONSENSE = [
    None, float("nan"), float("inf"), -float("inf"), -1.0, -1, 0, 0.0, 1e300, 1e-300, 1e-12, 10**400, 1.5, 2, 7,
    "", "abc", "1.0", b"x", True, 1j, object(), int, un.Builder, range(3), {}, {"a": 1.0},
    [], (), [1, 2], (1, 2, 3, 4, 5), [float("nan")] * 3, [None] * 3, ["a", "b", "c"], (0, 0, 0), (1.0, 1.0, 1.0), (-1, 0, 0),
    [[1, 0], [0, 1]], [[1], [2, 3]], np.zeros(3), np.zeros((3, 3)), np.full(6, -1.0), np.array(["a"]), np.float32(2.0),
    jnp.ones(2), jnp.asarray(jnp.nan), (float("-inf"), 3.0), (3.0, float("inf")),
    lambda: 0.0, lambda t: t, lambda t, x: x, lambda t, x, v: 1.0 / 0, lambda a, b: np.zeros(6),
    L.Constant(1.0), L.Constant(np.zeros(3)), un.site("arm"), un.on("reed", 0.5), un.Revolute((0, 0, 1)), F.Load("arm"),
]  # fmt: skip

SIX, WORLD = L.Constant(np.zeros(6)), un.Pose.identity()
CIRCLE = un.rods.Circle(0.02)

# (callable, arguments that are accepted by it)
CONSTRUCTORS = [
    (un.Shape, dict(kind="box", size=(1.0, 1.0, 1.0), position=(0, 0, 0), quaternion=(1, 0, 0, 0), colour=(0, 0, 1))),
    (un.site, dict(body="arm", position=(0, 0, 1), rotation=(1, 0, 0, 0))),
    (un.on, dict(rod="reed", X=0.5, position=(0, 0, 1), rotation=np.eye(3))),
    (un.Found, dict(start=0.5)),
    (un.rods.Circle, dict(diameter=0.1)),
    (un.rods.Annulus, dict(diameter=0.1, inner=0.05)),
    (un.rods.Rectangle, dict(width=0.1, height=0.2)),
    (un.rods.Ellipse, dict(width=0.1, height=0.2)),
    (un.rods.GivenSection, dict(A=1.0, Iy=1.0, Iz=1.0, J=1.0, size=(0.1, 0.1))),
    (un.rods.Legendre, dict(count=3)),
    (un.rods.PiecewiseLinear, dict(count=3)),
    (un.rods.BSpline, dict(count=5, degree=2)),
    (un.rods.GivenBasis, dict(count=1, function=lambda s: np.ones((1, len(s))), corners=(0.5,))),
    (un.rods.NeoHookean, dict()),
    (un.rods.MooneyRivlin, dict(share=0.2)),
    (un.rods.Cubic, dict(coefficients=np.ones(6))),
    (un.rods.curved, dict(curvature=(0, 0, 1.0))),
    (un.rods.shape_through, dict(points=[(0, 0, 0), (1, 0, 0), (2, 1, 0)], y=(0, 1, 0), tolerance=0.1)),
    (L.Constant, dict(value=1.0)),
    (L.Sinusoid, dict(amplitude=1.0, rate=2.0, phase=0.0, offset=0.0)),
    (L.TravellingWave, dict(count=3, amplitude=1.0, rate=2.0, lag=0.1)),
    (L.Polynomial, dict(coefficients=[0.0, 1.0])),
    (L.Quintic, dict(start=0.0, end=1.0, t0=0.0, t1=1.0, start_rate=0.0)),
    (L.Function, dict(fn=lambda t: jnp.sin(t), shape=())),
    (L.stack, dict(laws=[1.0, L.Sinusoid(1.0, 1.0)])),
    (L.SoftStart, dict(duration=1.0, t0=0.0)),
    (L.Delayed, dict(law=1.0, until=1.0)),
    (L.Retimed, dict(law=1.0, pace=L.Sinusoid(1.0, 1.0))),
    (L.Integral, dict(rate=1.0)),
    (L.CubicSpline, dict(times=[0, 1, 2], values=[0, 1, 0], periodic=False)),
    (L.QuinticSpline, dict(times=[0, 1, 2, 3, 4, 5], values=[0, 1, 0, 1, 0, 1])),
    (L.Sampled, dict(times=[0, 1, 2], values=[0, 1, 0], names=["a"])),
    (L.Sampled.from_csv, dict(path="none.csv", columns="a", time="t")),
    (R.Viscous, dict(coefficient=1.0)),
    (R.RegularisedCoulomb, dict(friction=0.5, normal=1.0, speed=1e-3)),
    (C.Coulomb, dict(mu=0.5, across=0.2, along=(1, 0, 0), rolling=0.1, spinning=0.1, restitution=0.5, stribeck=(2.0, 0.1))),
    (C.Plane, dict(normal=(0, 0, 1), point=(0, 0, 0))),
    (C.Post, dict(place=(1, 1), radius=0.1)),
    (C.Posts, dict(places=[(1, 1), (2, 2)], radius=0.1)),
    (C.Sphere, dict(centre=(0, 0, 0), radius=0.1)),
    (C.HeightField, dict(height=lambda x, y: 0.1 * jnp.sin(x))),
    (C.AcceleratedProx, dict(tolerance=1e-6, max_iterations=100)),
    (C.GaussSeidel, dict(tolerance=1e-6, max_iterations=100)),
    (I.Moreau, dict(solver=C.GaussSeidel(), theta=1.0)),
    (I.ImplicitMidpoint, dict(tolerance=1e-9, max_iterations=40, newton="full", halvings=3, base="SE3")),
    (I.Newmark, dict(beta=0.25, gamma=0.5)),
    (I.HHT, dict(rho=0.8)),
    (I.GeneralisedAlpha, dict(rho=0.8)),
    (un.Phase, dict(duration=1.0)),
    (R.Schedule, dict()),
    (R.WhilePushing, dict(row="x", sign=1, begins=True)),
    (R.Condition, dict(release=lambda at, reaction: reaction[0], engage=lambda at: at.t, begins=True)),
]  # fmt: skip

# Elements for `model`: (class, arguments)
ELEMENTS = [
    (F.Load, dict(site="arm", force=(0, 0, 1.0), couple=(0, 0, 0), follows=True, name="push")),
    (F.LineLoad, dict(rod="reed", force=(0, 0, 1.0), couple=(0, 0, 0), follows=False)),
    (F.InternalWrench, dict(rod="reed", force=(0, 0, 1.0), couple=lambda X, t: jnp.zeros(3))),
    (F.StressFreeStrain, dict(rod="reed", strain=np.zeros(6))),
    (F.SpringDamper, dict(first="arm", second="world", stiffness=1.0, damping=1.0, rest=0.1, pulls_only=True)),
    (F.AddedInertia, dict(site="arm", matrix=np.eye(6))),
    (F.Gravity, dict(g=(0, 0, -1.0), name="moon")),
    (F.Follower, dict(site="arm", motion=SIX, stiffness=np.ones(6), damping=np.ones(6))),
    (F.TwistFollower, dict(site="arm", motion=SIX, gain=np.ones(6), integral_gain=np.ones(6))),
    (F.HostForce, dict(function=lambda t, p, R, v: np.zeros((1, 6)), sites="arm")),
    (F.Tendon, dict(name="cord", rod="reed", routing=(0.0, 0.005), tension=1.0, end=0.5)),
    (F.Tendon, dict(name="cord", rod="reed", routing=lambda X: (0.0, 0.001 * X), length=0.9, stiffness=100.0)),
    (F.Chamber, dict(name="room", rod="reed", routing=(0.0, 0.005), area=1e-5, pressure=1e3)),
    (un.Sensor, dict(name="eye", site="arm")),
    (
        R.Wheel,
        dict(name="w", body="body", position=(0, 0, 0), heading=0.0, radius=0.1, roll="arm", side=True, offset=0.0),
    ),
    (R.MecanumWheel, dict(name="w", body="body", heading="arm", radius=0.1, roll=L.Sinusoid(1.0, 1.0), roller=0.5)),
    (R.RollingDisc, dict(name="d", body="arm", radius=0.1, axis=(0, 1, 0), centre=(0, 0, 0), spins=True)),
    (R.RollingSphere, dict(name="s", body="arm", radius=0.1, centre=(0, 0, 0), spin=False)),
    (R.Skate, dict(name="k", body="body")),
    (R.Closure, dict(name="c", body="arm", other="world", kind="helical", position=(0, 0, 1), pitch=0.1)),
    (R.Closure, dict(name="c", body="arm", other="world", holds=("x", "rz"), rotation=(1, 0, 0, 0))),
    (R.Anchor, dict(name="a", body="arm", position=(0, 0, 1), holds=("x",), point=(0, 0, 0))),
    (R.Latch, dict(name="l", body="arm", point=(0, 0, 0), holds=("x", "y"), sees=("body",))),
    (R.PointOnPlane, dict(name="p", body="arm", point=(0, 0, 0), normal=(0, 0, 1), origin=(0, 0, 0), other="world")),
    (R.PrescribedPoint, dict(name="p", body="arm", motion=L.Constant(np.zeros(2)), point=(0, 0, 0), holds="xz")),
    (R.PrescribedFrame, dict(name="p", body="arm", motion=SIX)),
    (R.Coupling, dict(name="g", coordinates=("arm", "reed.Kz1"), coefficients=(1.0, 2.0), offset=0.1)),
    (C.Contact, dict(name="t", body="arm", other=C.Plane(), law=C.Coulomb(0.5), centre=(0, 0, 0), radius=0.1)),
    (C.Contact, dict(name="t", body="arm", other="body", other_centre=(0, 0, 0), radius=0.1, other_radius=0.1)),
]

# Efforts of the forced coordinate of `model`
CONTROLLERS = [
    (F.ProportionalDerivative, dict(kp=1.0, kd=1.0, reference=0.0)),
    (F.ComputedTorque, dict(kp=1.0, kd=1.0, reference=L.Sinusoid(1.0, 1.0), model=None)),
    (F.Impedance, dict(site="arm", K=np.ones(6), D=np.ones(6), target=SIX, gravity=True, model=None)),
]

# Bodies of `model`: arguments of `Builder.body`
JOINT = dict(
    axis=(0, 0, 1), name="j", role="free", stiffness=1.0, damping=1.0, rest=0.0, armature=0.1, limits=(-1.0, 1.0)
)
JOINTS = [
    (un.Revolute, JOINT),
    (un.Prismatic, JOINT),
    (un.Helical, dict(axis=(1, 0, 0), pitch=0.1)),
    (un.Universal, dict(axis=(1, 0, 0), second=(0, 1, 0))),
    (un.Cylindrical, dict(axis=(1, 0, 0))),
    (un.Spherical, dict(stiffness=(1.0, 2.0, 3.0))),
    (un.Planar, dict(damping=0.1)),
    (un.Revolute, dict(role="driven", motion=L.Sinusoid(1.0, 1.0))),
    (un.Revolute, dict(role="forced", effort=L.Sinusoid(1.0, 1.0))),
    (un.Revolute, dict(mimic=un.joints.Mimic("arm", 2.0, 0.1))),
    (un.joints.Mimic, dict(leader="arm", multiplier=2.0, offset=0.1)),
    (un.Rod, dict(length=1.0, section=CIRCLE, E=1e6, G=3e5, density=1e3, damping=0.1, strains=("Ky", "Kz"), modes=2, nodes=4)),
    (un.Rod, dict(name="r", stiffness=np.ones(6), inertia=(1, 1, 1, 0.1, 0.05, 0.05), reference=(1, 0, 0, 0, 0, 1.0), modes=1)),
    (un.Rod, dict(stiffness=np.eye(6), inertia=np.eye(6), mass=0.5, basis="b-spline", modes=4, order=6, strains="reissner")),
    (un.Rod, dict(section=CIRCLE, E=1e6, density=1e3, modes=1, drawn=(0.1, 0.1), colour=(1, 0, 0), shear_factor=0.9,
                  strains="planar-reissner", material=un.rods.NeoHookean())),
    (un.Rod, dict(section=CIRCLE, density=1e3, strain=lambda X, t: jnp.stack([1.0, 0, 0, 0, 0, jnp.sin(t)]), nodes=3)),
]  # fmt: skip
BODY = dict(name="new", parent="body", mass=1.0, com=(0, 0, 0.1), inertia=(0.1, 0.1, 0.1), position=(0, 0, 1),
            rotation=(1, 0, 0, 0), shapes=(un.Shape("sphere", (1.0,)),))  # fmt: skip
BASE = dict(name="base", role="free", group="SE3", motion=None, mass=1.0, com=(0, 0, 0), inertia=0.1, position=(0, 0, 1),
            rotation=np.eye(3), shapes=())  # fmt: skip


def model(rod: bool = True) -> un.Builder:
    b = un.Builder("model")
    b.base("body", role="free", mass=1.0, inertia=0.1)
    b.body("arm", "body", un.Revolute((0, 0, 1)), mass=1.0, inertia=0.1)
    if rod:
        reed = un.Rod(name="reed", section=CIRCLE, E=1e6, density=1e3, modes=1, nodes=3, strains=("Kz",))
        b.body("tip", "arm", reed)
    return b


def beam(**arguments) -> un.System:
    b = model(False)
    un.flexible.add_beam(b, parent="arm", **arguments)
    return b.build()


def flexible(**arguments) -> un.System:
    b = model(False)
    un.flexible.add_flexible(b, parent="arm", **arguments)
    return b.build()


def reactions(rule=un.reactions.Least, **arguments) -> un.System:
    given = arguments if rule is un.reactions.Least else {"limits": [rule(**arguments)]}
    b = model(False)
    b.add(R.PointOnPlane("row", "arm"))
    return b.build().with_reactions(un.reactions.Least(**given))


MORE = [
    (beam, dict(name="b", length=1.0, bending=1.0, density=1.0, modes=2, nodes=5, damping=0.1, bends=(0, 1, 0),
                basis="clamped")),
    (flexible, dict(name="f", positions=[(0, 0, 0), (1, 0, 0)], masses=[1.0, 1.0], modes=[[(0, 0, 0.1), (0, 0, 1.0)]],
                    stiffness=1.0, damping=0.1, position=(0, 0, 0), rotation=None)),
    (un.flexible.clamped_modes, dict(count=2, length=1.0, nodes=5)),
    (un.flexible.polynomial_modes, dict(count=2, length=1.0, nodes=5)),
    (un.solids.box_inertia, dict(mass=1.0, size=(1.0, 1.0, 1.0))),
    (un.solids.cylinder_inertia, dict(mass=1.0, radius=1.0, length=1.0, axis="x")),
    (reactions, dict(reactions=1.0, power=0.1, wanted=[0.0], margin={"row": 1.0})),
    (lambda **a: reactions(un.reactions.Bound, **a), dict(rows="row", low=-1.0, high=1.0)),
    (lambda **a: reactions(un.reactions.Cone, **a), dict(normal="row", sideways="row", mu=0.5)),
]  # fmt: skip
