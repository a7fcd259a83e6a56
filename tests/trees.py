"""The same random tree described to undula and to Pinocchio."""

import numpy as np
import pinocchio as pin

import undula as un

KINDS = ("Revolute", "Prismatic", "Helical", "Cylindrical", "Universal", "Spherical", "Planar", "Free")
EZ = np.array([0.0, 0.0, 1.0])


def random_rotation(rng):
    return pin.Quaternion(unit(rng, 4)).toRotationMatrix()


def unit(rng, n=3):
    x = rng.normal(size=n)
    return x / np.linalg.norm(x)


def random_inertia(rng):
    A = rng.normal(size=(3, 3))
    J = A @ A.T  # a covariance: inertias made from one always obey the triangle inequality
    return np.trace(J) * np.eye(3) - J


def joint_pair(kind, rng):
    """A joint for undula and the same one for Pinocchio."""
    a, b = unit(rng), unit(rng)
    if kind == "Revolute":
        return un.Revolute(a), pin.JointModelRevoluteUnaligned(a)
    if kind == "Prismatic":
        return un.Prismatic(a), pin.JointModelPrismaticUnaligned(a)
    if kind == "Helical":
        return un.Helical(a, pitch=0.3), pin.JointModelHelicalUnaligned(a, 0.3)
    if kind == "Cylindrical":
        return un.Cylindrical(a), composite(pin.JointModelRevoluteUnaligned(a), pin.JointModelPrismaticUnaligned(a))
    if kind == "Universal":
        return un.Universal(a, b), composite(pin.JointModelRevoluteUnaligned(a), pin.JointModelRevoluteUnaligned(b))
    if kind == "Planar":
        return un.Planar(), composite(pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ())
    if kind == "Spherical":
        return un.Spherical(), pin.JointModelSpherical()
    return un.Free(), pin.JointModelFreeFlyer()


def composite(*joints):
    out = pin.JointModelComposite()
    for j in joints:
        out.addJoint(j)
    return out


def random_tree(rng, kinds, parents, base="fixed"):
    """(system, pinocchio model) with one joint a kind; parents[j] is the body that carries body j + 1 (0 = base)."""
    model = pin.Model()
    model.gravity.linear = rng.normal(size=3) * 5
    b = un.Builder("random", gravity=model.gravity.linear)
    ids = []

    def inertia():
        return 0.5 + rng.random(), 0.3 * rng.normal(size=3), random_inertia(rng)

    m, c, I = inertia()
    b.base("b0", role=base, mass=m, com=c, inertia=I)
    if base == "free":
        ids.append(model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root"))
        model.appendBodyToJoint(ids[0], pin.Inertia(m, c, I), pin.SE3.Identity())
    else:
        ids.append(0)
    for j, (kind, parent) in enumerate(zip(kinds, parents), start=1):
        m, c, I = inertia()
        p, R = 0.5 * rng.normal(size=3), random_rotation(rng)
        ours, theirs = joint_pair(kind, rng)
        b.body(f"b{j}", f"b{parent}", ours, m, c, I, p, R)
        ids.append(model.addJoint(ids[parent], theirs, pin.SE3(R, p), f"j{j}"))
        model.appendBodyToJoint(ids[j], pin.Inertia(m, c, I), pin.SE3.Identity())
    return b.build(), model


def quaternion_to_pin(q):
    return np.concatenate([q[1:], q[:1]])


def to_pin(system, state):
    """(q, v) of Pinocchio for a state of undula."""
    q, v = [], []
    if system.topology.base_role == "free":
        q += [np.asarray(state.base.position), quaternion_to_pin(np.asarray(state.base.quaternion))]
        v += [np.asarray(state.base_twist)]
    iq = 0
    x = np.asarray(state.q)
    for kind in system.topology.link_kinds:
        nq = {"screw": 1, "cylindrical": 2, "universal": 2, "planar": 3, "spherical": 4, "free": 7}[kind]
        part = x[iq : iq + nq]
        iq += nq
        if kind == "spherical":
            part = quaternion_to_pin(part)
        elif kind == "free":
            part = np.concatenate([part[:3], quaternion_to_pin(part[3:])])
        q.append(part)
    return np.concatenate([*q, []]), np.concatenate([*v, np.asarray(state.v)])


def random_state(rng, system):
    free = system.topology.base_role == "free"
    return system.state(
        position=rng.uniform(-1.2, 1.2, system.nv),
        velocity=rng.normal(size=system.nv),
        base_position=rng.normal(size=3) if free else None,
        base_quaternion=unit(rng, 4) if free else None,
        base_twist=rng.normal(size=6) if free else None,
    )
