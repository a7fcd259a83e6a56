"""Dynamics of random trees against Pinocchio.

The Pinocchio model always has a free flyer as its root, so that every kind of base is a selection of its rows: the
generalised velocities of undula are (directions of the base's group, coordinates).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from trees import (
    KINDS,
    full_mass_matrix,
    quaternion_to_pin,
    random_pair,
    random_rotation,
    random_state,
    random_tree,
    to_pin,
    unit,
)

TOLERANCE = 1e-9
GROUPS = {
    "R": [0],
    "R2": [0, 1],
    "R3": [0, 1, 2],
    "SO2": [5],
    "SO3": [3, 4, 5],
    "SE2": [0, 1, 5],
    "SE3": list(range(6)),
}
BRANCHES = (0, 1, 1, 3, 4, 3, 0, 7)  # depth first


def same(found, wanted, tolerance=TOLERANCE):
    """Equal within a tolerance relative to the largest entry."""
    wanted = np.asarray(wanted)
    assert np.shape(found) == wanted.shape
    assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1e-3, np.abs(wanted).max(initial=0.0)))


def acceleration_of(a):
    return un.Acceleration(jnp.asarray(a[:6]), jnp.asarray(a[6:]))


def forces(pair, external):
    """The wrenches on bodies as Pinocchio expects them: on joints, in their frames."""
    out = [np.zeros(6) for _ in range(pair.model.njoints)]
    for k, (joint, place) in enumerate(zip(pair.joints, pair.places)):
        out[joint] = out[joint] + place.act(pin.Force(np.asarray(external[k]))).vector
    vector = pin.StdVec_Force()
    for f in out:
        vector.append(pin.Force(f))
    return vector


@jax.jit
def everything(system, state, acceleration, efforts, external):
    """All the dynamics at once: one compilation per topology."""
    return dict(
        inverse=un.inverse_dynamics(system, state, acceleration, external),
        mass=un.mass_matrix(system, state),
        forward=un.forward_dynamics(system, state, efforts, external),
        bias=un.bias(system, state, external),
        gravity=un.gravity_efforts(system, state),
        poses=un.kinematics.body_poses(system, state),
        twists=un.kinematics.body_twists(system, state),
        gains=un.kinematics.body_accelerations(system, state, acceleration),
        momenta={frame: un.momentum(system, state, frame) for frame in ("base", "world", "centre")},
        centre=un.kinematics.centre_of_mass(system, state),
        kinetic=un.kinetic_energy(system, state),
        potential=un.potential_energy(system, state),
        locked=un.geometry.locomotion_inertia(system, state),
        force=un.geometry.locomotion_force(system, state, acceleration.v, external),
    )


@jax.jit
def essentials(system, state, acceleration, efforts):
    return (
        un.inverse_dynamics(system, state, acceleration),
        un.mass_matrix(system, state),
        un.forward_dynamics(system, state, efforts),
    )


def random_input(rng, pair):
    """A random state, acceleration (6 + nv), efforts (nv), wrenches; components that the base cannot have are zero."""
    system = pair.system
    state = random_state(rng, system)
    a = rng.normal(size=6 + system.nv)
    if system.topology.base_role == "fixed":
        a[:6] = 0
    return state, a, rng.normal(size=system.nv), rng.normal(size=(len(system.body_names), 6))


def rows(pair):
    """The rows of Pinocchio's equations that are undula's generalised velocities."""
    top = pair.system.topology
    base = GROUPS[top.base_group] if top.base_role == "free" else []
    return np.array([*base, *range(6, 6 + pair.system.nv)])


def check_everything(pair, rng):
    system, model = pair.system, pair.model
    data = model.createData()
    state, a, tau, external = random_input(rng, pair)
    q, v = to_pin(system, state, rooted=True)
    found = everything(system, state, acceleration_of(a), jnp.asarray(tau), jnp.asarray(external))
    sel, fext = rows(pair), forces(pair, external)

    needed = pin.rnea(model, data, q, v, a, fext)
    same(np.concatenate([found["inverse"].base, found["inverse"].v]), needed)
    for k, joint in enumerate(pair.joints):
        if pair.joints.count(joint) == 1:
            same(found["inverse"].wrenches[k], data.f[joint].vector)
    still = np.zeros_like(a)
    nle = pin.rnea(model, data, q, v, still, fext)
    same(found["bias"], nle[sel])
    same(found["gravity"], pin.computeGeneralizedGravity(model, data, q)[sel])
    M = full_mass_matrix(model, data, q)
    same(found["mass"], M[np.ix_(sel, sel)])
    same(found["mass"], found["mass"].T, 1e-14)
    moved = np.linalg.solve(M[np.ix_(sel, sel)], np.concatenate([np.zeros(6), tau])[sel] - nle[sel])
    full = np.zeros(6 + system.nv)
    full[sel] = moved
    same(np.concatenate([found["forward"].base, found["forward"].v]), full)
    same(found["locked"][0], M[:6, :6])
    same(found["locked"][1], M[:6, 6:])
    only_shape = np.concatenate([np.zeros(6), a[6:]])
    same(found["force"], -pin.rnea(model, data, q, v, only_shape, fext)[:6])

    pin.forwardKinematics(model, data, q, v, a)
    for k, (joint, place) in enumerate(zip(pair.joints, pair.places)):
        M_body = data.oMi[joint] * place
        same(found["poses"].position[k], M_body.translation)
        same(Rotation.from_quat(found["poses"].quaternion[k], scalar_first=True).as_matrix(), M_body.rotation)
        same(found["twists"][k], place.actInv(data.v[joint]).vector)
        same(found["gains"][k], place.actInv(data.a[joint]).vector)
    same(found["kinetic"], pin.computeKineticEnergy(model, data, q, v))
    same(found["potential"], pin.computePotentialEnergy(model, data, q))
    centre = pin.centerOfMass(model, data, q)
    same(found["centre"], centre)
    h = pin.computeCentroidalMomentum(model, data, q, v).vector
    same(found["momenta"]["centre"], h)
    same(found["momenta"]["world"], np.concatenate([h[:3], h[3:] + np.cross(centre, h[:3])]))
    same(found["momenta"]["base"], M[:6] @ v)
    return q, v, a, external, found["inverse"].wrenches


def test_all_the_dynamics_of_a_tree_of_all_kinds(rng):
    for _ in range(3):
        check_everything(random_pair(rng, KINDS, BRANCHES, "free"), rng)


@pytest.mark.long
def test_all_the_dynamics_with_fixed_joints(rng):
    # bodies 1, 2, 3 and 5 are one rigid piece, 4 hangs on 3; 0 and 6 another, 7 and 8 a third
    kinds = ("Revolute", "Fixed", "Fixed", "Spherical", "Fixed", "Fixed", "Prismatic", "Fixed")
    parents = (0, 1, 2, 3, 2, 0, 6, 7)
    for _ in range(3):
        pair = random_pair(rng, kinds, parents, "fixed")
        check_wrenches(pair, parents, *check_everything(pair, rng))


@pytest.mark.parametrize(
    "kinds, parents, base",
    [
        pytest.param(KINDS, range(8), "fixed", id="chain of all kinds"),
        pytest.param(("Revolute", "Prismatic", "Helical"), (0, 1, 2), "fixed", id="screws"),
        pytest.param(("Universal", "Universal"), (0, 0), "fixed", id="universal"),
        pytest.param(("Cylindrical", "Cylindrical"), (0, 1), "free", id="cylindrical"),
        pytest.param(("Planar", "Planar"), (0, 1), "fixed", id="planar"),
        pytest.param(("Spherical", "Spherical"), (0, 0), "free", id="spherical"),
        pytest.param(("Free", "Free"), (0, 1), "fixed", id="free"),
        pytest.param((), (), "free", id="one body"),
        pytest.param(
            ("Revolute",) * 17,
            (0, 1, 2, 3, 3, 2, 6, 6, 1, 9, 10, 9, 9, 0, 14, 14, 0),
            "free",
            id="many branches",
        ),
    ],
)
def test_chains_and_single_kinds(kinds, parents, base, rng):
    # other code paths than with mixed joints: no padding, no gathers, no branches; Pinocchio's own recursions
    for _ in range(3):
        system, model = random_tree(rng, kinds, parents, base)
        data = model.createData()
        state = random_state(rng, system)
        q, v = to_pin(system, state)
        a, tau, b = rng.normal(size=model.nv), rng.normal(size=model.nv), 6 if base == "free" else 0
        tau[:b] = 0
        given = un.Acceleration(jnp.asarray(a[:6]) if b else jnp.zeros(6), jnp.asarray(a[b:]))
        needed, M, moved = essentials(system, state, given, jnp.asarray(tau[b:]))
        same(np.concatenate([needed.base[:b], needed.v]), pin.rnea(model, data, q, v, a))
        same(M, full_mass_matrix(model, data, q))
        same(np.concatenate([moved.base[:b], moved.v]), pin.aba(model, data, q, v, tau))


def check_wrenches(pair, parents, q, v, a, external, found):
    """Each body satisfies Newton-Euler under the wrenches of its parent, its children and its surroundings."""
    system, model = pair.system, pair.model
    data = model.createData()
    pin.forwardKinematics(model, data, q, v, a)
    own, world = [], []
    for k, (joint, place) in enumerate(zip(pair.joints, pair.places)):
        here = data.oMi[joint] * place
        twist, gain = place.actInv(data.v[joint]), place.actInv(data.a[joint])
        gain -= here.actInv(pin.Motion(model.gravity.linear, np.zeros(3)))
        Y = pin.Inertia(float(system.mass[k]), np.asarray(system.com[k]), np.asarray(system.inertia[k]))
        own.append((Y * gain + twist.cross(Y * twist) - pin.Force(external[k])).vector)
        world.append(here)
    for k in range(len(own)):
        total = own[k].copy()
        for child, parent in enumerate(parents, start=1):
            if parent == k:
                total += (world[k].actInv(world[child])).act(pin.Force(np.asarray(found[child]))).vector
        same(found[k], total)


def test_jacobians(rng):
    kinds, parents = ("Revolute", "Spherical", "Fixed", "Planar"), (0, 1, 2, 2)
    pair = random_pair(rng, kinds, parents, "free")
    system, model = pair.system, pair.model
    data = model.createData()
    state = random_state(rng, system)
    q, _ = to_pin(system, state, rooted=True)
    point = rng.normal(size=3)

    @jax.jit
    def compute(system, state):
        return (
            {k: un.kinematics.body_jacobian(system, state, f"b{k}") for k in (0, 3, 4)},
            un.kinematics.point_jacobian(system, state, "b4", jnp.asarray(point)),
            un.kinematics.point_position(system, state, "b4", jnp.asarray(point)),
        )

    bodies, J_point, where = compute(system, state)
    for k, J in bodies.items():
        local = pin.computeJointJacobian(model, data, q, pair.joints[k])
        same(J, pair.places[k].toActionMatrixInverse() @ local)
    pin.forwardKinematics(model, data, q)
    joint = pair.joints[4]
    same(where, data.oMi[joint].act(point))

    def position(step):
        pin.forwardKinematics(model, data, pin.integrate(model, q, step))
        return data.oMi[joint].act(point)

    h = 1e-5
    differences = [(position(h * e) - position(-h * e)) / (2 * h) for e in np.eye(model.nv)]
    same(J_point, np.transpose(differences), 1e-8)


@pytest.mark.parametrize("group", [g for g in GROUPS if g != "SE3"])
def test_base_in_a_group(group, rng):
    # the base moves only in some directions of its twist: Pinocchio's free flyer, projected
    sel_base = GROUPS[group]
    for _ in range(2):
        pair = random_pair(rng, ("Revolute", "Prismatic"), (0, 0), "free", group)
        system, model = pair.system, pair.model
        data = model.createData()
        state, a, tau, external = random_input(rng, pair)
        q, v = to_pin(system, state, rooted=True)
        sel, fext = rows(pair), forces(pair, external)

        M, nle = full_mass_matrix(model, data, q), pin.rnea(model, data, q, v, 0 * a, fext)
        mass, bias, moved, A = in_group(system, state, jnp.asarray(tau), jnp.asarray(external))
        H = np.eye(6 + system.nv)[:, sel]
        same(mass, H.T @ M @ H)
        same(bias, H.T @ nle)
        wanted = H @ np.linalg.solve(H.T @ M @ H, H.T @ (np.concatenate([np.zeros(6), tau]) - nle))
        same(np.concatenate([moved.base, moved.v]), wanted)
        assert not np.any(np.delete(moved.base, sel_base))
        connection = np.zeros((6, system.nv))
        connection[sel_base] = np.linalg.solve(
            M[np.ix_(sel_base, sel_base)], M[np.ix_(sel_base, range(6, 6 + system.nv))]
        )
        same(A, connection)


@jax.jit
def in_group(system, state, efforts, external):
    return (
        un.mass_matrix(system, state),
        un.bias(system, state, external),
        un.forward_dynamics(system, state, efforts, external),
        un.geometry.connection(system, state),
    )


# Mimic joints


def test_mimic_joints(rng):
    kinds, parents = ("Revolute", "Prismatic", "Revolute", "Spherical", "Revolute"), (0, 1, 0, 3, 4)
    follow = {2: {"mimic": un.joints.Mimic("b1", 0.7, 0.2)}, 5: {"mimic": un.joints.Mimic("b3", -1.3, -0.4)}}
    # rates (b1, b2, b3, b4 x 3, b5) of the coordinates (b1, b3, b4 x 3)
    C = np.zeros((13, 11))
    C[:6, :6] = np.eye(6)
    for rate, coordinate, scale in (
        (0, 0, 1),
        (1, 0, 0.7),
        (2, 1, 1),
        (3, 2, 1),
        (4, 3, 1),
        (5, 4, 1),
        (6, 1, -1.3),
    ):
        C[6 + rate, 6 + coordinate] = scale
    for _ in range(3):
        pair = random_pair(rng, kinds, parents, "free", spare=follow)
        system, model = pair.system, pair.model
        assert system.coordinate_names == ("b1", "b3", "b4.rx", "b4.ry", "b4.rz")
        data = model.createData()
        state, a, tau, external = random_input(rng, pair)
        x = np.asarray(state.q)
        base = np.concatenate([state.base.position, quaternion_to_pin(np.asarray(state.base.quaternion))])
        ball = quaternion_to_pin(x[2:6])
        q = np.concatenate([base, [x[0], 0.7 * x[0] + 0.2, x[1]], ball, [-1.3 * x[1] - 0.4]])
        u = np.concatenate([state.base_twist, state.v])
        found = mimicking(system, state, acceleration_of(a), jnp.asarray(tau), jnp.asarray(external))
        needed, M, moved, locked, twists, kinetic = found
        fext = forces(pair, external)
        same(np.concatenate([needed.base, needed.v]), C.T @ pin.rnea(model, data, q, C @ u, C @ a, fext))
        M_wanted = C.T @ full_mass_matrix(model, data, q) @ C
        same(M, M_wanted)
        nle = C.T @ pin.rnea(model, data, q, C @ u, np.zeros(13), fext)
        same(
            np.concatenate([moved.base, moved.v]),
            np.linalg.solve(M_wanted, np.concatenate([np.zeros(6), tau]) - nle),
        )
        same(locked[1], M_wanted[:6, 6:])
        pin.forwardKinematics(model, data, q, C @ u)
        same(twists[5], data.v[pair.joints[5]].vector)
        same(kinetic, pin.computeKineticEnergy(model, data, q, C @ u))


@jax.jit
def mimicking(system, state, acceleration, efforts, external):
    return (
        un.inverse_dynamics(system, state, acceleration, external),
        un.mass_matrix(system, state),
        un.forward_dynamics(system, state, efforts, external),
        un.geometry.locomotion_inertia(system, state),
        un.kinematics.body_twists(system, state),
        un.kinetic_energy(system, state),
    )


@pytest.mark.parametrize("leader", ["cyl.angle", "cyl.slide"])
def test_mimic_of_one_coordinate_of_several(leader):
    # a screw with a nut: the follower moves with either coordinate of a cylindrical joint
    b = un.Builder("nut")
    b.base("ground")
    b.body("cyl", "ground", un.Cylindrical((0, 0, 1)), 1.0, (0.1, 0, 0), 0.1)
    b.body("follower", "ground", un.Prismatic((1, 0, 0), mimic=un.joints.Mimic(leader, 2.0, 0.5)), 3.0, (0, 0, 0), 0.1)
    system = b.build()
    state = system.state(position=[0.3, -0.4], velocity=[1.0, 10.0])
    poses, twists = jax.jit(un.kinematics.body_poses)(system, state), jax.jit(un.kinematics.body_twists)(system, state)
    x = {"cyl.angle": 0.3, "cyl.slide": -0.4}[leader]
    v = {"cyl.angle": 1.0, "cyl.slide": 10.0}[leader]
    assert_allclose(poses.position[2], [2 * x + 0.5, 0, 0], atol=1e-14)
    assert_allclose(twists[2], [2 * v, 0, 0, 0, 0, 0], atol=1e-14)


# Springs and dampers


def test_springs_and_dampers(rng):
    # bias at rest without gravity = gradient of the spring energy, by SciPy's rotation vectors and finite differences
    stiff = {
        1: dict(stiffness=3.0, damping=0.7, rest=0.4),
        2: dict(stiffness=(1.0, 2.5, 7.0), damping=(0.1, 0.2, 0.3), rest=(0.2, -0.1, 0.3)),
        3: dict(stiffness=(4.0, 5.0, 6.0, 1.5, 2.0, 3.5), damping=0.5, rest=(0.1, 0.2, 0.3, -0.2, 0.1, 0.0)),
        4: dict(stiffness=(1.0, 2.0, 3.0), damping=(0.3, 0.2, 0.1), rest=(0.5, 0.0, -0.5)),
    }
    kinds = ("Prismatic", "Spherical", "Free", "Planar")
    pair = random_pair(rng, kinds, (0, 1, 2, 3), "fixed", options=stiff, gravity=False)
    system, model = pair.system, pair.model
    state = random_state(rng, system)
    q, _ = to_pin(system, state, rooted=True)
    k, d, rest = (
        np.concatenate([np.broadcast_to(stiff[j][what], n) for j, n in ((1, 1), (2, 3), (3, 6), (4, 3))])
        for what in ("stiffness", "damping", "rest")
    )

    def energy(step):
        x = pin.integrate(model, q, np.concatenate([np.zeros(6), step]))[7:]
        ball = Rotation.from_quat(x[1:5]).as_rotvec()
        free = np.concatenate([x[5:8], Rotation.from_quat(x[8:12]).as_rotvec()])
        return (k * (np.concatenate([x[:1], ball, free, x[12:]]) - rest) ** 2).sum() / 2

    h = 1e-5
    gradient = np.array([energy(h * e) - energy(-h * e) for e in np.eye(13)]) / (2 * h)
    still = un.State(state.base, state.q, jnp.zeros(6), jnp.zeros(13))
    bias = jax.jit(un.bias)
    at_rest, moving = bias(system, still), bias(system, state)
    potential, held, pushed = springs(system, state)
    same(at_rest, gradient, 1e-8)
    same(potential, energy(np.zeros(13)))
    same(held, np.zeros(13))  # gravity alone: no springs
    data = model.createData()
    q, v = to_pin(system, state, rooted=True)
    nle = pin.rnea(model, data, q, v, np.zeros(19))[6:]
    same(moving, nle + np.asarray(at_rest) + d * v[6:])
    M = full_mass_matrix(model, data, q)[6:, 6:]
    same(pushed.v, np.linalg.solve(M, 1.0 - nle - np.asarray(at_rest) - d * v[6:]))


@jax.jit
def springs(system, state):
    return (
        un.potential_energy(system, state),
        un.gravity_efforts(system, state),
        un.forward_dynamics(system, state, jnp.ones(13)),
    )


# Roles


def dense(pair, solution, efforts, external):
    """Accelerations (6 + nv), actuator efforts (nv) and base wrench of the hybrid problem, through Pinocchio."""
    system, model = pair.system, pair.model
    top = system.topology
    data = model.createData()
    q, v = to_pin(system, solution.state, rooted=True)
    unknown = [*top.base_directions, *(6 + k for k, role in enumerate(top.roles) if role != "driven")]
    a = np.concatenate([solution.acceleration.base, solution.acceleration.v])
    a[unknown] = 0  # the others follow the laws and are checked in test_driven_motion
    M = full_mass_matrix(model, data, q)
    free = np.array(top.roles) == "free"  # these are PASSIVE
    spring, damper = 2.0 * (np.asarray(solution.state.q) - 0.1), 0.4 * np.asarray(solution.state.v)
    passive = np.where(free, -spring - damper, 0.0)
    right = np.concatenate([np.zeros(6), efforts + passive]) - pin.rnea(model, data, q, v, a, forces(pair, external))
    a[unknown] = np.linalg.solve(M[np.ix_(unknown, unknown)], right[unknown])
    needed = pin.rnea(model, data, q, v, a, forces(pair, external))
    return a, needed[6:] - passive, needed[:6]


hybrid = jax.jit(un.hybrid_dynamics)
SWING = un.laws.Sinusoid(0.4, 2.0, 0.3, 0.1)
PUSH = un.laws.Polynomial([0.5, 1.0])
DRIVEN, FORCED, PASSIVE = dict(motion=SWING), dict(effort=PUSH), dict(stiffness=2.0, damping=0.4, rest=0.1)
TWO = un.laws.stack([SWING, 2 * SWING])


def test_scalar_law_drives_every_coordinate_of_a_joint():
    b = un.Builder("cross")
    b.base("ground")
    b.body("cross", "ground", un.Universal((1, 0, 0), (0, 1, 0), motion=SWING), 1.0, inertia=0.1)
    b.body("wheel", "cross", un.Revolute((0, 0, 1)), 1.0, inertia=0.1)
    found = hybrid(b.build(), b.build().state(), 0.7)
    value, rate, gain = SWING(0.7)
    np.testing.assert_allclose(found.state.q, [value, value, 0.0], rtol=1e-14)
    np.testing.assert_allclose(found.state.v, [rate, rate, 0.0], rtol=1e-14)
    np.testing.assert_allclose(found.acceleration.v[:2], [gain, gain], rtol=1e-14)


@pytest.mark.parametrize(
    "base, group, joints",
    [
        pytest.param("free", "SE3", [DRIVEN, PASSIVE, FORCED], id="free base, mixed"),
        pytest.param("free", "R", [FORCED, dict(motion=TWO), PASSIVE], id="sliding base, mixed"),
        pytest.param("free", "SE2", [DRIVEN] * 3, id="planar base, all driven"),
        pytest.param("fixed", "SE3", [PASSIVE, DRIVEN, FORCED], id="fixed base, mixed"),
        pytest.param("fixed", "SE3", [DRIVEN] * 3, id="fixed base, all driven"),
        pytest.param("driven", "SE3", [FORCED, PASSIVE, DRIVEN], id="driven base, mixed"),
        pytest.param("driven", "SO3", [DRIVEN] * 3, id="driven base, all driven"),
    ],
)
def test_hybrid_dynamics(base, group, joints, rng):
    n = len(GROUPS[group])
    motion = un.laws.Sinusoid(np.linspace(0.2, 0.5, n), 1.5, np.linspace(0, 1, n)) if base == "driven" else None
    options = dict(enumerate(joints, start=1))
    for _ in range(2):
        external = rng.normal(size=(4, 6))
        kinds = ("Revolute", "Universal", "Prismatic")
        pair = random_pair(rng, kinds, (0, 1, 1), base, group, motion, options=options, pushed=external)
        system = pair.system
        t = rng.uniform(0, 3)
        found = hybrid(system, random_state(rng, system), t)
        efforts = np.where([role == "forced" for role in system.topology.roles], 0.5 + t, 0.0)
        a, tau, wrench = dense(pair, found, efforts, external)
        same(np.concatenate([found.acceleration.base, found.acceleration.v]), a)
        same(found.efforts, tau)
        same(found.base_wrench, wrench)
        assert_allclose(np.asarray(found.base_wrench)[list(system.topology.base_directions)], 0, atol=1e-12)


def test_partly_driven_joints(rng):
    # one coordinate of a joint driven, the other free
    b = un.Builder("random", gravity=(1.0, -2.0, -9.0))
    model = pin.Model()
    model.gravity.linear = np.array([1.0, -2.0, -9.0])
    m, c, I = 1.3, np.array([0.2, 0.1, -0.3]), np.diag([0.5, 0.6, 0.7])
    b.base("b0")
    b.body("u", "b0", un.Universal((1, 0, 0), (0, 1, 0)), m, c, I, (0.1, 0.2, 0.3))
    b.body("p", "u", un.Planar(), m, c, I, (0.3, 0.2, 0.1))
    b.drive(["u.second", "p.x"], TWO)
    b.force("p.angle", PUSH)
    system = b.build()
    assert system.topology.roles == ("free", "driven", "driven", "free", "forced")
    universal, planar = pin.JointModelComposite(), pin.JointModelComposite()
    for part in (pin.JointModelRX(), pin.JointModelRY()):
        universal.addJoint(part)
    for part in (pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ()):
        planar.addJoint(part)
    j = model.addJoint(0, universal, pin.SE3(np.eye(3), np.array([0.1, 0.2, 0.3])), "u")
    model.appendBodyToJoint(j, pin.Inertia(m, c, I), pin.SE3.Identity())
    j = model.addJoint(j, planar, pin.SE3(np.eye(3), np.array([0.3, 0.2, 0.1])), "p")
    model.appendBodyToJoint(j, pin.Inertia(m, c, I), pin.SE3.Identity())
    t = 0.7
    found = hybrid(system, random_state(rng, system), t)
    x = np.array([np.sin(2 * t + 0.3), 2 * np.cos(2 * t + 0.3), -4 * np.sin(2 * t + 0.3)]) * 0.4 + [0.1, 0, 0]
    assert_allclose(found.state.q[np.array([1, 2])], [x[0], 2 * x[0]], atol=1e-15)
    assert_allclose(found.state.v[np.array([1, 2])], [x[1], 2 * x[1]], atol=1e-15)
    assert_allclose(found.acceleration.v[np.array([1, 2])], [x[2], 2 * x[2]], atol=1e-15)
    data = model.createData()
    q, v = to_pin(system, found.state, rooted=False)
    needed = pin.rnea(model, data, q, v, np.asarray(found.acceleration.v))
    same(found.efforts, needed)
    assert_allclose(needed[[0, 3, 4]], [0, 0, 0.5 + t], atol=1e-9)


def test_mimic_of_a_driven_and_of_a_free_coordinate(rng):
    kinds, parents = ("Revolute", "Revolute", "Prismatic", "Revolute"), (0, 1, 2, 2)
    for base, options, index in (("free", {1: DRIVEN}, 0), ("fixed", {2: DRIVEN}, 0)):
        follow = {4: {"mimic": un.joints.Mimic("b1", 2.0, 0.1)}}
        external = rng.normal(size=(5, 6))
        pair = random_pair(rng, kinds, parents, base, options=options, spare=follow, pushed=external)
        system, model = pair.system, pair.model
        C = np.zeros((10, 9))
        C[:9, :9] = np.eye(9)
        C[9, 6 + index] = 2.0
        found = hybrid(system, random_state(rng, system), 0.4)
        at = found.state
        base_q = np.concatenate([at.base.position, quaternion_to_pin(np.asarray(at.base.quaternion))])
        q = np.concatenate([base_q, at.q, [2 * at.q[index] + 0.1]])
        u = np.concatenate([at.base_twist, at.v])
        data, fext = model.createData(), forces(pair, external)
        a = np.concatenate([found.acceleration.base, found.acceleration.v])
        unknown = [
            k for k in range(9) if (k < 6 and base == "free") or (k >= 6 and (k - 6) != (0 if base == "free" else 1))
        ]
        start = a.copy()
        start[unknown] = 0
        M = C.T @ full_mass_matrix(model, data, q) @ C
        right = -C.T @ pin.rnea(model, data, q, C @ u, C @ start, fext)
        wanted = start.copy()
        wanted[unknown] = np.linalg.solve(M[np.ix_(unknown, unknown)], right[unknown])
        same(a, wanted)
        needed = C.T @ pin.rnea(model, data, q, C @ u, C @ wanted, fext)
        same(found.efforts, needed[6:])
        same(found.base_wrench, needed[:6])


def expm_motion(law, t):
    """Rotation, body angular velocity and its derivative for a law of rotation vectors, by expm and complex steps."""

    def hat(a):
        return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])

    def omega(t):
        R = scipy.linalg.expm(hat(law(t + 1e-30j)))
        W = R.real.T @ (R.imag / 1e-30)
        return np.array([W[2, 1], W[0, 2], W[1, 0]])

    h = 1e-3  # sixth-order differences of the angular velocity
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    slope = sum(w * (omega(t + k * h) - omega(t - k * h)) for k, w in weights.items()) / h
    return scipy.linalg.expm(hat(law(t))).real, omega(t), slope


def test_driven_motion(rng):
    # a driven spherical joint, free joint and base: laws are rotation vectors, rates are body velocities
    amp, phase = rng.uniform(0.3, 1.0, 6), rng.uniform(0, 3, 6)
    law = un.laws.Sinusoid(amp, 1.3, phase)
    b = un.Builder("driven")
    p0, R0 = rng.normal(size=3), random_rotation(rng)
    b.base("b0", role="driven", motion=law, position=p0, rotation=R0)
    b.body("ball", "b0", un.Spherical(motion=un.laws.Sinusoid(amp[:3], 1.3, phase[:3])), 1.0, inertia=0.1)
    b.body("kite", "b0", un.Free(motion=law), 1.0, inertia=0.1)
    system = b.build()
    t = 0.9
    state, acceleration = jax.jit(un.kinematics.driven_motion)(system, system.state(), t)
    value = amp * np.sin(1.3 * t + phase)
    rate, gain = 1.3 * amp * np.cos(1.3 * t + phase), -(1.3**2) * value
    R, W, dW = expm_motion(lambda s: (amp * np.sin(1.3 * s + phase))[3:], t)
    # body velocity of the origin and its component derivative: V = R^T p', V' = R^T p'' - W x V
    V = R.T @ rate[:3]
    dV = R.T @ gain[:3] - np.cross(W, V)
    base = Rotation.from_quat(state.base.quaternion, scalar_first=True).as_matrix()
    same(base, R0 @ R, 1e-12)
    same(state.base.position, p0 + R0 @ value[:3], 1e-12)
    for twist, slope in ((state.base_twist, acceleration.base), (state.v[3:], acceleration.v[3:])):
        same(twist, np.concatenate([V, W]), 1e-12)
        same(slope, np.concatenate([dV, dW]), 1e-10)
    same(Rotation.from_quat(state.q[7:], scalar_first=True).as_matrix()[:, 2], R[:, 2], 1e-12)
    same(state.q[4:7], value[:3], 1e-12)
    R, W, dW = expm_motion(lambda s: (amp * np.sin(1.3 * s + phase))[:3], t)
    same(Rotation.from_quat(state.q[:4], scalar_first=True).as_matrix(), R, 1e-12)
    same(state.v[:3], W, 1e-12)
    same(acceleration.v[:3], dW, 1e-10)


def test_controller_efforts(rng):
    b = un.Builder("controlled", gravity=(0, 0, 0))
    b.base("ground")
    b.body("a", "ground", un.Prismatic((1, 0, 0), effort=un.forces.ProportionalDerivative(5.0, 2.0, SWING)), 2.0)
    b.body("b", "ground", un.Prismatic((1, 0, 0), effort=lambda t, x, v: t - x**3), 4.0)
    system = b.build()
    t, x, v = 0.6, np.array([0.3, -0.7]), np.array([1.1, -0.2])
    found = eqx.filter_jit(un.hybrid_dynamics)(system, system.state(x, v), jnp.asarray(t))
    goal, rate = 0.4 * np.sin(2 * t + 0.3) + 0.1, 0.8 * np.cos(2 * t + 0.3)
    efforts = np.array([-5 * (x[0] - goal) - 2 * (v[0] - rate), t - x[1] ** 3])
    same(found.efforts, efforts, 1e-14)
    same(found.acceleration.v, efforts / [2.0, 4.0], 1e-14)


def test_states_by_name_and_charts(rng):
    b = un.Builder("names")
    b.base("b0", role="free", mass=1.0, inertia=1.0)
    b.body("b1", "b0", un.Spherical(name="ball"), 1.0, inertia=0.1)
    b.body("b2", "b1", un.Free(), 1.0, inertia=0.1)
    system = b.build()
    assert system.coordinate_names[:4] == ("ball.rx", "ball.ry", "ball.rz", "b2.x")
    phi = rng.uniform(-1, 1, 3)
    named = system.state(
        dict(zip(("ball.rx", "ball.ry", "ball.rz"), phi)), {"b2.rz": 3.0}, base_quaternion=2 * unit(rng, 4)
    )
    rotvec = Rotation.from_quat(named.q[:4], scalar_first=True).as_rotvec()
    assert_allclose(rotvec, phi, atol=1e-15)
    assert_allclose(named.q[4:], [0, 0, 0, 1, 0, 0, 0], atol=0)
    assert_allclose(named.v, [0] * 8 + [3.0], atol=0)
    assert_allclose(np.linalg.norm(named.base.quaternion), 1, atol=1e-15)
    assert jax.tree.structure(named) == jax.tree.structure(system.state())
