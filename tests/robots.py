"""Robots of example-robot-data, loaded from their URDF files by undula and by Pinocchio."""

import sysconfig
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pinocchio as pin

import undula as un

ROBOTS = Path(sysconfig.get_path("purelib"), "cmeel.prefix", "share", "example-robot-data", "robots")


def find(name):
    return ROBOTS / f"{name}.urdf"


def load(path, **options):
    """The system, even if its file has defects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", un.UndulaWarning)
        return un.load_urdf(path, **options)


def undamped(system):
    """The same without dampers, which Pinocchio ignores."""
    if "dampers" not in [name for _, names in system.labels.elements for name in names]:
        return system
    return system.replace_element("dampers", damping=np.zeros(len(system.element("dampers").damping)))


def mimics(path):
    """{joint: (leader, multiplier, offset)} as given in the file."""
    out = {}
    for joint in ET.parse(path).getroot().findall("joint"):
        m = joint.find("mimic")
        if m is not None and joint.get("type") != "fixed":
            out[joint.get("name")] = (
                m.get("joint"),
                float(m.get("multiplier", 1)),
                float(m.get("offset", 0)),
            )
    return out


class Twin:
    """A robot in undula (without damping, as Pinocchio has none) and in Pinocchio (where mimics move freely).

    `C` maps undula's generalised velocities (base directions, coordinates) to Pinocchio's.
    """

    def __init__(self, path, base):
        self.system = load(path, base=base)
        self.system = undamped(self.system)
        root = (pin.JointModelFreeFlyer(),) if base == "free" else ()
        self.model = pin.buildModelFromUrdf(str(path), *root)
        self.data = self.model.createData()
        self.m = 6 if base == "free" else 0  # number of base directions
        self.followers = mimics(path)
        self.C = np.zeros((self.model.nv, self.m + self.system.nv))
        self.C[: self.m, : self.m] = np.eye(self.m)
        for j in range(1 + (self.m > 0), self.model.njoints):
            leader, scale, _ = self.rule(self.model.names[j])
            self.C[self.model.joints[j].idx_v, self.m + self.system.coordinate(leader)] = scale

    def rule(self, joint):
        return self.followers.get(joint, (joint, 1.0, 0.0))

    def random_state(self, rng):
        base = {}
        if self.m:
            quaternion = rng.normal(size=4)
            base = dict(base_position=rng.normal(size=3), base_quaternion=quaternion, base_twist=rng.normal(size=6))
        return self.system.state(rng.uniform(-1.5, 1.5, self.system.nv), rng.normal(size=self.system.nv), **base)

    def configuration(self, state):
        """Pinocchio's q."""
        q = pin.neutral(self.model)
        if self.m:
            w, *xyz = np.asarray(state.base.quaternion)
            q[:7] = [*np.asarray(state.base.position), *xyz, w]
        for j in range(1 + (self.m > 0), self.model.njoints):
            leader, scale, offset = self.rule(self.model.names[j])
            x = scale * float(state.q[self.system.coordinate(leader)]) + offset
            joint = self.model.joints[j]
            q[joint.idx_q : joint.idx_q + joint.nq] = [x] if joint.nq == 1 else [np.cos(x), np.sin(x)]
        return q

    def velocity(self, base, v):
        """Pinocchio's v (or its derivative)."""
        return self.C @ np.concatenate([np.asarray(base)[: self.m], np.asarray(v)])


def reference(twin, state, acceleration, efforts, body):
    """Pinocchio's results for a state, by name of the quantity."""
    model, data, C = twin.model, twin.data, twin.C
    q, v = twin.configuration(state), twin.velocity(state.base_twist, state.v)
    out = {}
    pin.forwardKinematics(model, data, q, v)
    pin.updateFramePlacements(model, data)
    frames = [data.oMf[model.getFrameId(name, pin.FrameType.BODY)] for name in twin.system.body_names]
    out["positions"] = np.array([f.translation for f in frames])
    out["rotations"] = np.array([f.rotation for f in frames])
    frame = model.getFrameId(body, pin.FrameType.BODY)
    out["jacobian"] = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL) @ C
    out["inverse"] = C.T @ pin.rnea(model, data, q, v, twin.velocity(acceleration.base, acceleration.v))
    M = np.triu(pin.crba(model, data, q))
    out["mass matrix"] = C.T @ (M + np.triu(M, 1).T) @ C
    tau = np.concatenate([np.zeros(twin.m), efforts])
    if twin.followers:  # Pinocchio has no forward dynamics for mimics: use the dense equations, projected
        out["forward"] = np.linalg.solve(out["mass matrix"], tau - C.T @ pin.rnea(model, data, q, v, 0 * v))
    else:
        out["forward"] = C.T @ pin.aba(model, data, q, v, C @ tau)
    # Pinocchio omits bodies fixed to the world
    still = model.inertias[0]
    pin.computeCentroidalMomentum(model, data, q, v)
    moving = pin.computeTotalMass(model)
    centre = pin.centerOfMass(model, data, q, v)
    out["centre"] = (moving * centre + still.mass * still.lever) / (moving + still.mass)
    h = data.hg.vector.copy()
    h[3:] += np.cross(centre - out["centre"], h[:3])
    out["momentum"] = h
    out["kinetic"] = pin.computeKineticEnergy(model, data, q, v)
    out["potential"] = pin.computePotentialEnergy(model, data, q) - still.mass * still.lever @ model.gravity.linear
    return out
