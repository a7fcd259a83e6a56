"""Connections about the mass centre, against the locked inertia of the bodies computed with numpy."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from trees import random_inertia
from undula.numerics.programs import quickly_compiled


@pytest.fixture(scope="module")
def tree():
    """A branched tree with hinges, a slider and a ball joint."""
    rng = np.random.default_rng(3)
    b = un.Builder("tree", gravity=(0, 0, 0))
    b.base("b0", role="free", mass=2.0, com=(0.1, -0.2, 0.3), inertia=random_inertia(rng))
    joints = un.Revolute((0, 0.6, 0.8)), un.Spherical(), un.Prismatic((0.6, 0, 0.8)), un.Revolute((1, 0, 0))
    for k, (joint, parent) in enumerate(zip(joints, ("b0", "b1", "b1", "b0")), start=1):
        at, com = rng.normal(size=3), 0.3 * rng.normal(size=3)
        b.body(f"b{k}", parent, joint, 0.5 + 0.3 * k, com, random_inertia(rng), at)
    return b.build()


connection = quickly_compiled(un.geometry.connection)


@quickly_compiled
def moving(system, state):
    return un.kinematics.body_poses(system, state), un.kinematics.body_twists(system, state)


def locked_connection(system, state):
    """Angular part: A r' = I_locked^-1 (angular momentum about the mass centre with the base at rest), column by column."""
    poses, _ = moving(system, state)
    R = Rotation.from_quat(np.asarray(poses.quaternion), scalar_first=True).as_matrix()
    m, com, I = (np.asarray(x) for x in (system.mass, system.com, system.inertia))
    p = np.asarray(poses.position) + np.einsum("bij,bj->bi", R, com)
    r = p - m @ p / m.sum()
    own = R @ I @ R.transpose(0, 2, 1)
    locked = (own + m[:, None, None] * ((r**2).sum(1)[:, None, None] * np.eye(3) - r[:, :, None] * r[:, None])).sum(0)
    out = []
    for unit in np.eye(system.nv):
        _, twists = moving(system, state.replace(v=jnp.asarray(unit)))
        V, W = (np.einsum("bij,bj->bi", R, x) for x in np.split(np.asarray(twists), 2, axis=1))
        velocity = V + np.cross(W, np.einsum("bij,bj->bi", R, com))
        velocity = velocity - m @ velocity / m.sum()
        spin = (np.einsum("bij,bj->bi", own, W) + m[:, None] * np.cross(r, velocity)).sum(0)
        out.append(np.linalg.solve(locked, spin))
    return np.stack(out, 1)


def test_at_the_mass_centre_only_the_rotation_is_left(tree):
    x = np.random.default_rng(1).normal(size=tree.nv)
    state = tree.state(x)
    A = np.asarray(connection(tree, state, "mass centre"))
    assert_allclose(A[:3], 0, atol=1e-12)
    assert_allclose(A[3:], locked_connection(tree, state), atol=1e-12)
    assert_allclose(A[3:], connection(tree, state)[3:], atol=0)


def test_in_a_group_without_rotation_it_is_zero():
    """A base that only slides, along x: the mass centre of the whole stays at rest in that direction."""
    b = un.Builder("slider", gravity=(0, 0, 0))
    b.base("cart", role="free", group="R", mass=2.0, inertia=0.1)
    b.body("arm", "cart", un.Revolute((0, 1, 0)), 1.5, (0, 0, -0.6), 0.1)
    system = b.build()
    q, c = 0.4, 1.5 * 0.6 / 3.5
    A = np.asarray(connection(system, system.state([q]), "mass centre"))[:, 0]
    assert_allclose(A, [0, 0, -c * np.sin(q), 0, 0, 0], atol=1e-14)


def test_refusals(tree):
    with pytest.raises(un.UndulaError, match="at = 'tip'; it must be one of base, mass"):
        un.geometry.connection(tree, tree.state(), at="tip")
