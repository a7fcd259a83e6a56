"""The same random tree described to undula and to Pinocchio."""

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

import undula as un

KINDS = ("Revolute", "Prismatic", "Helical", "Cylindrical", "Universal", "Spherical", "Planar", "Free")


def random_rotation(rng):
    return pin.Quaternion(unit(rng, 4)).toRotationMatrix()


def unit(rng, n=3):
    x = rng.normal(size=n)
    return x / np.linalg.norm(x)


def random_inertia(rng):
    A = rng.normal(size=(3, 3))
    J = A @ A.T  # a covariance: inertias made from one always satisfy the triangle inequality
    return np.trace(J) * np.eye(3) - J


def joint_pair(kind, rng, **options):
    """A joint for undula and the same one for Pinocchio."""
    a, b = unit(rng), unit(rng)
    revolute, prismatic = pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned
    if kind == "Revolute":
        return un.Revolute(a, **options), revolute(a)
    if kind == "Prismatic":
        return un.Prismatic(a, **options), prismatic(a)
    if kind == "Helical":
        return un.Helical(a, pitch=0.3, **options), pin.JointModelHelicalUnaligned(a, 0.3)
    if kind == "Cylindrical":
        return un.Cylindrical(a, **options), composite(revolute(a), prismatic(a))
    if kind == "Universal":
        return un.Universal(a, b, **options), composite(revolute(a), revolute(b))
    if kind == "Planar":
        return un.Planar(**options), composite(pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ())
    if kind == "Spherical":
        return un.Spherical(**options), pin.JointModelSpherical()
    if kind == "Free":
        return un.Free(**options), pin.JointModelFreeFlyer()
    return un.Fixed(**options), None


def composite(*joints):
    out = pin.JointModelComposite()
    for j in joints:
        out.addJoint(j)
    return out


@dataclass
class Pair:
    """A system and its model for Pinocchio; if the model is rooted, its first joint is a free flyer, the base.

    `joints[k]`, `places[k]`: the joint of Pinocchio that carries body k, and where the body is in its frame.
    """

    system: un.System
    model: pin.Model
    joints: list[int]
    places: list[pin.SE3]
    rooted: bool


def random_pair(
    rng,
    kinds,
    parents,
    base="fixed",
    group="SE3",
    motion=None,
    rooted=True,
    options=None,
    gravity=True,
    spare=None,
    pushed=None,
):
    """A random `Pair` with one joint per kind; parents[j] is the body that carries body j + 1 (0 = base).

    The parents must be in depth-first order: only then do Pinocchio and undula number joints alike. `options[j]`:
    further arguments of the joint that carries body j; `spare[j]`: the same, unknown to Pinocchio (mimic); `pushed`
    (bodies, 6): wrenches on the bodies, in their frames, also unknown to Pinocchio.
    """
    options, spare = options or {}, spare or {}
    model = pin.Model()
    model.gravity.linear = rng.normal(size=3) * 5 if gravity else np.zeros(3)
    b = un.Builder("random", gravity=model.gravity.linear)

    def inertia():
        return 0.5 + rng.random(), 0.3 * rng.normal(size=3), random_inertia(rng)

    m, c, I = inertia()
    p0, R0 = rng.normal(size=3), random_rotation(rng)
    b.base("b0", role=base, group=group, motion=motion, mass=m, com=c, inertia=I, position=p0, rotation=R0)
    if rooted:
        joints = [model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")]
        places = [pin.SE3.Identity()]
    else:
        joints, places = [0], [pin.SE3(R0, p0)]
    model.appendBodyToJoint(joints[0], pin.Inertia(m, c, I), places[0])
    for j, (kind, parent) in enumerate(zip(kinds, parents), start=1):
        m, c, I = inertia()
        p, R = 0.5 * rng.normal(size=3), random_rotation(rng)
        ours, theirs = joint_pair(kind, rng, **options.get(j, {}), **spare.get(j, {}))
        b.body(f"b{j}", f"b{parent}", ours, m, c, I, p, R)
        at = places[parent] * pin.SE3(R, p)
        if theirs is None:
            joints.append(joints[parent])
            places.append(at)
        else:
            joints.append(model.addJoint(joints[parent], theirs, at, f"j{j}"))
            places.append(pin.SE3.Identity())
        model.appendBodyToJoint(joints[j], pin.Inertia(m, c, I), places[j])
    for k, wrench in enumerate([] if pushed is None else pushed):
        b.add(un.forces.Load(f"b{k}", wrench[:3], wrench[3:], follows=True))
    return Pair(b.build(), model, joints, places, rooted)


def random_tree(rng, kinds, parents, base="fixed"):
    """(system, pinocchio model), rooted if the base is free."""
    pair = random_pair(rng, kinds, parents, base, rooted=base == "free")
    return pair.system, pair.model


def quaternion_to_pin(q):
    return np.concatenate([q[1:], q[:1]])


def to_pin(system, state, rooted=None):
    """(q, v) of Pinocchio for a state of undula; those of the base come first if the model is rooted."""
    q, v = [], []
    if system.topology.base_role == "free" if rooted is None else rooted:
        q += [np.asarray(state.base.position), quaternion_to_pin(np.asarray(state.base.quaternion))]
        v += [np.asarray(state.base_twist)]
    iq = 0
    x = np.asarray(state.q)
    for kind in system.topology.link_kinds:
        nq = kind.nq
        part = x[iq : iq + nq]
        iq += nq
        if kind.name == "spherical":
            part = quaternion_to_pin(part)
        elif kind.name == "free":
            part = np.concatenate([part[:3], quaternion_to_pin(part[3:])])
        q.append(part)
    return np.concatenate([*q, []]), np.concatenate([*v, np.asarray(state.v)])


def random_state(rng, system):
    """A random state, with the twist of a free base within its group."""
    top = system.topology
    free = top.base_role == "free"
    twist = np.zeros(6)
    twist[list(top.base_directions)] = rng.normal(size=len(top.base_directions))
    return system.state(
        position=rng.uniform(-1.2, 1.2, system.nv),
        velocity=rng.normal(size=system.nv),
        base_position=rng.normal(size=3) if free else None,
        base_quaternion=unit(rng, 4) if free else None,
        base_twist=twist if free else None,
    )


def full_mass_matrix(model, data, q):
    """Pinocchio's mass matrix, both triangles."""
    M = np.triu(pin.crba(model, data, q))
    return M + np.triu(M, 1).T
