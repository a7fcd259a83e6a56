"""SO(3), SE(3) and small matrices against jaxlie, SciPy's matrix exponential, power series and identities."""

import math

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np
import pytest
import scipy.linalg
import scipy.special
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import undula as un
from undula.lie import se3, so3
from undula.numerics import small

SMALL = (
    0.0,
    1e-300,
    1e-12,
    1e-7,
    1e-4,
    0.0199,
    0.0201,
    0.0999,
    0.1,
    0.1001,
)  # also around the switches to series
LARGE = (0.5, 2.0, 3.0, math.pi - 1e-3, math.pi - 1e-7, math.pi - 1e-12)


class Jitted:
    """Every function of a module, compiled once."""

    def __init__(self, module):
        self._module, self._known = module, {}

    def __getattr__(self, name):
        if name not in self._known:
            self._known[name] = jax.jit(getattr(self._module, name))
        return self._known[name]


SO3, SE3, SMALL_MATRICES = Jitted(so3), Jitted(se3), Jitted(small)

number = st.floats(-2.0, 2.0, allow_subnormal=False)
component = st.floats(-5.0, 5.0, allow_subnormal=False)


def vectors(n, elements=component):
    return st.lists(elements, min_size=n, max_size=n).map(np.array)


rotation_vectors = vectors(3, st.floats(-1.8, 1.8)).filter(lambda x: np.linalg.norm(x) < math.pi - 1e-6)
twists = st.builds(lambda v, phi: np.concatenate([v, phi]), vectors(3), rotation_vectors)


def direction(seed=0):
    x = np.random.default_rng(seed).normal(size=3)
    return x / np.linalg.norm(x)


def hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def hat4(xi):
    """The 4x4 matrix of a twist."""
    out = np.zeros((4, 4), dtype=np.asarray(xi).dtype)
    out[:3, :3], out[:3, 3] = hat(xi[3:]), xi[:3]
    return out


def vee4(X):
    return np.concatenate([X[:3, 3], [X[2, 1], X[0, 2], X[1, 0]]])


def matrix(g):
    """The 4x4 matrix of a pose, by SciPy's conversion of the quaternion."""
    out = np.eye(4)
    out[:3, :3] = Rotation.from_quat(np.asarray(g.quaternion), scalar_first=True).as_matrix()
    out[:3, 3] = g.position
    return out


def pose(xi):
    return SE3.exp(jnp.asarray(xi))


compose, inverse, apply = jax.jit(lambda a, b: a @ b), jax.jit(un.Pose.inverse), jax.jit(un.Pose.apply)
rotation = jax.jit(lambda g: g.rotation)


# Rotations


@given(rotation_vectors)
def test_rotation_exponential_is_the_matrix_exponential(phi):
    q = SO3.exp(phi)
    assert_allclose(np.linalg.norm(q), 1, atol=1e-15)
    assert_allclose(SO3.to_matrix(q), scipy.linalg.expm(hat(phi)), atol=3e-15)
    assert_allclose(jaxlie.SO3(q).as_matrix(), SO3.to_matrix(q), atol=2e-15)


@pytest.mark.parametrize("angle", SMALL + LARGE)
def test_logarithm_undoes_exponential_without_loss(angle):
    phi = angle * direction()
    assert_allclose(SO3.log(SO3.exp(phi)), phi, rtol=2e-15 if angle < 3.1 else 1e-13, atol=0)


@pytest.mark.parametrize("angle", [*LARGE, math.pi, math.pi + 1e-12, math.pi + 1e-3, 4.0, 2 * math.pi - 1e-7])
def test_exponential_undoes_logarithm_up_to_and_beyond_pi(angle):
    q = SO3.exp(angle * direction(1))
    phi = SO3.log(q)
    again = SO3.exp(phi)
    assert np.linalg.norm(phi) <= math.pi * (1 + 1e-14)
    assert_allclose(again * np.sign(again @ q), q, atol=2e-15)


@given(rotation_vectors)
def test_rotation_logarithm_is_jaxlies(phi):
    q = SO3.exp(phi)
    assert_allclose(SO3.log(q), jaxlie.SO3(q).log(), rtol=1e-11, atol=1e-12)
    assert_allclose(SO3.log(-q), SO3.log(q), atol=1e-15)


@given(vectors(4), vectors(4), vectors(4))
def test_quaternion_product_is_associative_and_a_rotation_product(a, b, c):
    a, b, c = (x + np.array([1e-3, 0, 0, 0]) for x in (a, b, c))
    for x in (a, b, c):
        if np.linalg.norm(x) < 1e-3:
            x[0] += 1
    a, b, c = (SO3.normalise(x) for x in (a, b, c))
    assert_allclose(SO3.multiply(SO3.multiply(a, b), c), SO3.multiply(a, SO3.multiply(b, c)), atol=1e-15)
    assert_allclose(SO3.multiply(a, b), (jaxlie.SO3(a) @ jaxlie.SO3(b)).wxyz, atol=1e-15)
    assert_allclose(SO3.to_matrix(SO3.multiply(a, b)), SO3.to_matrix(a) @ SO3.to_matrix(b), atol=3e-15)


@pytest.mark.parametrize("angle", SMALL + LARGE + (math.pi,))
@pytest.mark.parametrize("axis", [*np.eye(3), -np.eye(3)[1], direction(2), direction(3), direction(4)])
def test_quaternion_of_a_matrix(angle, axis):
    R = scipy.linalg.expm(angle * hat(axis))
    q = SO3.from_matrix(R)
    assert q[0] >= 0
    assert_allclose(np.linalg.norm(q), 1, atol=1e-15)
    assert_allclose(SO3.to_matrix(q), R, atol=2e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 0.3, math.pi, -2.5, 20.0])
def test_rotation_about_an_axis(angle):
    a = direction(5)
    assert_allclose(SO3.about_axis(a, angle), scipy.linalg.expm(angle * hat(a)), atol=5e-15)


@pytest.mark.parametrize("angle", SMALL + (0.5, 2.0, 3.1, 6.0))
def test_angular_velocity_of_a_rotation_vector(angle):
    # complex step: the derivative of expm is exact to rounding, whatever the angle
    phi, rate = angle * direction(6), 1.7 * direction(7)
    turned = scipy.linalg.expm(hat(phi + 1e-30j * rate))
    W = turned.real.T @ (turned.imag / 1e-30)
    omega = np.array([W[2, 1], W[0, 2], W[1, 0]])
    assert_allclose(SO3.dexp(phi) @ rate, omega, atol=1e-14)
    assert_allclose(SO3.dexp_inverse(phi) @ omega, rate, atol=1e-13)
    assert_allclose(SO3.dexp(phi) @ SO3.dexp_inverse(phi), np.eye(3), atol=1e-14)


def bernoulli_terms():
    B = np.abs(scipy.special.bernoulli(60))
    return [B[2 * k] / math.factorial(2 * k) for k in range(1, 31)]


SERIES = {
    "sinc": [(-1) ** k / math.factorial(2 * k + 1) for k in range(30)],
    "cosc": [(-1) ** k / math.factorial(2 * k + 2) for k in range(30)],
    "sincc": [(-1) ** k / math.factorial(2 * k + 3) for k in range(30)],
    "cotc": bernoulli_terms(),
}


@pytest.mark.parametrize("name", SERIES)
def test_coefficients_and_two_derivatives_against_their_power_series(name):
    f = getattr(so3, name)
    both = jax.jit(jax.vmap(lambda x: (f(x), jax.grad(f)(x), jax.grad(jax.grad(f))(x))))
    x = np.array([0.0, 1e-14, 1e-6, 9.99e-3, 1e-2, 1.01e-2, 0.05, 0.3, 1.0, 2.0])
    c = np.array(SERIES[name])
    k = np.arange(len(c))
    exact = [
        np.polyval(c[::-1], x),
        np.polyval((c * k)[:0:-1], x),
        np.polyval((c * k * (k - 1))[:1:-1], x),
    ]
    # each derivative of the closed form loses a factor x in relative accuracy just above the switch
    for found, wanted, tolerance in zip(both(x), exact, (5e-13, 5e-9, 5e-5)):
        assert_allclose(found, wanted, rtol=tolerance)


@jax.jit
def derivatives_at_zero():
    along = lambda t: so3.exp(t * jnp.asarray(direction()))  # noqa: E731
    zero, one = jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0])
    return (
        jax.jacfwd(so3.exp)(zero),
        jax.jacrev(so3.exp)(zero),
        jax.hessian(so3.exp)(zero),
        jax.jacfwd(jax.jacfwd(jax.jacfwd(along)))(0.0),
        jax.jacrev(so3.log)(one),
    )


def test_derivatives_at_the_identity():
    forward, reverse, second, third, log = derivatives_at_zero()
    assert_allclose(forward, np.vstack([np.zeros(3), np.eye(3) / 2]), atol=0)
    assert_allclose(reverse, np.vstack([np.zeros(3), np.eye(3) / 2]), atol=0)
    assert_allclose(second[0], -np.eye(3) / 4, atol=1e-16)
    assert_allclose(second[1:], 0, atol=0)
    assert_allclose(third, np.concatenate([[0], -direction() / 8]), atol=1e-16)
    assert_allclose(log[:, 1:], 2 * np.eye(3), atol=0)


def test_logarithm_of_exponential_has_the_derivatives_of_the_identity(rng):
    f = lambda y: se3.log(se3.exp(y))  # noqa: E731
    d, w = rng.normal(size=6), rng.normal(size=6)

    def derivatives(x):
        along = lambda y: jax.jvp(f, (y,), (d,))[1]  # noqa: E731
        against = lambda y: jax.vjp(f, y)[1](w)[0]  # noqa: E731
        return along(x), against(x), jax.jvp(along, (x,), (d,))[1], jax.jvp(against, (x,), (d,))[1]

    angles = np.array([0.0, 1e-12, 1e-7, 0.02, 0.0999, 0.1001, 1.0, 3.0])
    x = np.concatenate([np.tile([0.3, -0.2, 0.5], (8, 1)), angles[:, None] * direction(8)], axis=1)
    forward, reverse, second, mixed = jax.jit(jax.vmap(derivatives))(x)
    assert_allclose(forward, np.tile(d, (8, 1)), rtol=0, atol=1e-12)
    assert_allclose(reverse, np.tile(w, (8, 1)), rtol=0, atol=1e-12)
    assert_allclose(second, 0, atol=1e-9)
    assert_allclose(mixed, 0, atol=1e-9)


# Poses


@given(twists)
def test_pose_exponential_is_the_matrix_exponential(xi):
    g = pose(xi)
    assert_allclose(matrix(g), scipy.linalg.expm(hat4(xi)), atol=2e-14)
    other = jaxlie.SE3.exp(jnp.asarray(xi))
    assert_allclose(g.position, other.translation(), atol=2e-14)


@given(twists)
def test_pose_logarithm(xi):
    g = pose(xi)
    assert_allclose(SE3.log(g), xi, rtol=1e-9, atol=1e-11)
    other = jaxlie.SE3(jnp.concatenate([g.quaternion, g.position]))
    assert_allclose(SE3.log(g), other.log(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("angle", SMALL + LARGE)
def test_pose_logarithm_near_identity_and_near_pi(angle):
    xi = np.concatenate([[0.7, -1.2, 0.4], angle * direction(9)])
    assert_allclose(SE3.log(pose(xi)), xi, rtol=1e-13, atol=1e-15)


@given(twists, twists, twists, vectors(3))
def test_group_axioms(a, b, c, point):
    a, b, c = pose(a), pose(b), pose(c)
    left, right = matrix(compose(compose(a, b), c)), matrix(compose(a, compose(b, c)))
    assert_allclose(left, right, atol=1e-13)
    assert_allclose(matrix(compose(a, b)), matrix(a) @ matrix(b), atol=2e-14)
    assert_allclose(matrix(compose(a, inverse(a))), np.eye(4), atol=2e-14)
    assert_allclose(matrix(compose(inverse(a), a)), np.eye(4), atol=2e-14)
    assert_allclose(matrix(compose(a, un.Pose.identity())), matrix(a), atol=0)
    assert_allclose(apply(a, jnp.asarray(point)), (matrix(a) @ np.append(point, 1))[:3], atol=1e-14)
    assert_allclose(rotation(a), matrix(a)[:3, :3], atol=2e-15)


@jax.jit
def everything(a, b, point):
    return a.rotation, a @ b, a.inverse(), a.apply(point), se3.log(a), se3.adjoint(a)


@pytest.mark.parametrize("batch", [(), (1,), (2,), (4,), (8,), (3, 4)])
def test_poses_in_batches(batch, rng):
    """Leading axes are a batch, also of size four; against SciPy's rotations, pose by pose."""
    p, x = rng.normal(size=(*batch, 3)), rng.normal(size=(*batch, 3))
    q = rng.normal(size=(*batch, 4))
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    a, b = (un.Pose(jnp.asarray(p), jnp.asarray(q)), un.Pose(jnp.asarray(x), jnp.asarray(np.roll(q, 1, -1))))
    R, product, inverse, moved, xi, Ad = everything(a, b, jnp.asarray(x))
    shapes = [y.shape[len(batch) :] for y in (R, product.position, product.quaternion, inverse.position, moved, xi, Ad)]
    assert shapes == [(3, 3), (3,), (4,), (3,), (3,), (6,), (6, 6)]
    for k in np.ndindex(batch):
        S, T = (Rotation.from_quat(g.quaternion[k], scalar_first=True) for g in (a, b))
        assert_allclose(R[k], S.as_matrix(), atol=1e-14)
        assert_allclose(product.position[k], p[k] + S.apply(x[k]), atol=1e-14)
        both = Rotation.from_quat(product.quaternion[k], scalar_first=True)
        assert_allclose(both.as_matrix(), (S * T).as_matrix(), atol=1e-14)
        assert_allclose(inverse.position[k], -S.inv().apply(p[k]), atol=1e-14)
        assert_allclose(moved[k], p[k] + S.apply(x[k]), atol=1e-14)
        assert_allclose(np.abs(xi[k][3:]), np.abs(S.as_rotvec()), atol=1e-12)
        assert_allclose(Ad[k][:3, 3:], hat(p[k]) @ S.as_matrix(), atol=1e-14)
    one = un.Pose.identity()
    mixed = jax.eval_shape(lambda a: ((one @ a).position, (a @ one).position, one.apply(a.position)), a)
    assert {y.shape for y in mixed} == {(*batch, 3)}


def test_single_poses_trace_as_plain_formulas():
    """Batch support costs nothing for single poses: the same operations as the plain formulas."""
    p, q, x = jnp.zeros(3), jnp.array([1.0, 0, 0, 0]), jnp.ones(3)
    pose = jax.make_jaxpr(lambda p, q, x: un.Pose(p, q).apply(x))(p, q, x)
    plain = jax.make_jaxpr(lambda p, q, x: p + small.matvec(so3.to_matrix(q), x))(p, q, x)
    assert str(pose) == str(plain)


@given(twists, twists, vectors(6), vectors(6))
def test_adjoint_identities(x, y, eta, F):
    g, h = pose(x), pose(y)
    R = rotation(g)
    Ad = SE3.adjoint(g)
    scale = 1 + np.abs(Ad).max() * (1 + np.abs(SE3.adjoint(h)).max())
    assert_allclose(SE3.adjoint(compose(g, h)), Ad @ SE3.adjoint(h), atol=1e-14 * scale)
    moved = matrix(g) @ hat4(eta) @ np.linalg.inv(matrix(g))
    assert_allclose(Ad @ eta, vee4(moved), atol=1e-13 * scale)
    assert_allclose(Ad, jaxlie.SE3(jnp.concatenate([g.quaternion, g.position])).adjoint(), atol=1e-14 * scale)
    assert_allclose(Ad, scipy.linalg.expm(SE3.ad(x)), atol=1e-13 * scale)
    # a twist and a wrench transformed from the outer frame into g, and their power (L870-874)
    back = SE3.pull_back(R, g.position, jnp.asarray(eta))
    assert_allclose(Ad @ back, eta, atol=1e-13 * scale)
    pushed = SE3.push_wrench(R, g.position, jnp.asarray(F))
    assert_allclose(pushed, np.linalg.inv(Ad).T @ F, atol=1e-13 * scale)
    assert_allclose(F @ back, pushed @ eta, atol=1e-12 * scale)


@given(vectors(6), vectors(6), vectors(6), vectors(6))
def test_bracket_identities(a, b, c, F):
    A, B = hat4(a), hat4(b)
    assert_allclose(SE3.bracket(a, b), vee4(A @ B - B @ A), atol=1e-13)  # (B.4) = (B.8)
    assert_allclose(SE3.ad(a) @ b, SE3.bracket(a, b), atol=1e-13)
    assert_allclose(SE3.bracket(a, b), -np.asarray(SE3.bracket(b, a)), atol=1e-13)
    jacobi = sum(np.asarray(SE3.bracket(x, SE3.bracket(y, z))) for x, y, z in ((a, b, c), (b, c, a), (c, a, b)))
    assert_allclose(jacobi, 0, atol=2e-12)
    assert_allclose(SE3.cobracket(a, F), SE3.ad(a).T @ F, atol=1e-13)


@given(st.floats(0.1, 5), vectors(3), vectors(3), vectors(6))
def test_inertia_and_gyroscopic_wrench(m, com, moments, eta):
    ms, I = m * com, np.diag(np.abs(moments)) - m * hat(com) @ hat(com)
    M = SE3.spatial_inertia(m, ms, I)
    V, W = eta[:3], eta[3:]
    energy = m * np.sum((V + np.cross(W, com)) ** 2) / 2 + W @ np.diag(np.abs(moments)) @ W / 2
    scale = 1 + np.abs(M).max() * (eta @ eta)
    assert_allclose(M, M.T, atol=0)
    assert_allclose(eta @ M @ eta / 2, energy, atol=1e-14 * scale)
    assert_allclose(SE3.momentum(m, ms, I, eta), M @ eta, atol=1e-14 * scale)
    # (3.13) = ad^T M eta, and it does no work (fact 2)
    printed = -np.concatenate(
        [
            np.cross(W, np.cross(W, ms)) + np.cross(W, m * V),
            np.cross(W, I @ W) + np.cross(ms, np.cross(W, V)),
        ]
    )
    found = SE3.cobracket(eta, SE3.momentum(m, ms, I, eta))
    assert_allclose(found, printed, atol=1e-14 * scale)
    assert_allclose(eta @ found, 0, atol=1e-14 * scale * (1 + np.linalg.norm(eta)))


# Small matrices


def positive_definite(rng, k):
    A = rng.normal(size=(k, k))
    return A @ A.T + 0.1 * np.eye(k)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("columns", [None, 1, 7])
def test_positive_definite_solve(size, columns, rng):
    B = rng.normal(size=size if columns is None else (size, columns))
    for _ in range(5):
        D = positive_definite(rng, size)
        x = SMALL_MATRICES.solve_spd(D, B)
        assert x.shape == B.shape
        assert_allclose(D @ x, B, rtol=0, atol=1e-13 * np.linalg.cond(D))


def test_positive_definite_solve_of_a_heavy_body_with_small_inertia(rng):
    # mass 1e3 kg, inertia 1e-4 kg m^2: the range of scales in a 6x6 inertia
    scale = np.diag([30.0] * 3 + [1e-2] * 3)
    D = scale @ positive_definite(rng, 6) @ scale
    b = rng.normal(size=6)
    x = np.asarray(SMALL_MATRICES.solve_spd(D, b))
    assert_allclose(scale @ x, scale @ np.linalg.solve(D, b), rtol=1e-10)


def test_three_by_three_inverse_and_products(rng):
    A, B, a, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    assert_allclose(SMALL_MATRICES.inverse3(A), np.linalg.inv(A), rtol=1e-12)
    assert_allclose(SMALL_MATRICES.matmul(A, B), A @ B, atol=1e-15)
    assert_allclose(SMALL_MATRICES.matvec(A, a), A @ a, atol=1e-15)
    assert_allclose(SMALL_MATRICES.tmatvec(A, a), A.T @ a, atol=1e-15)
    assert_allclose(SMALL_MATRICES.outer(a, b), np.outer(a, b), atol=0)
    assert_allclose(SMALL_MATRICES.cross(a, b), np.cross(a, b), atol=1e-16)
    assert_allclose(SMALL_MATRICES.hat(a) @ b, np.cross(a, b), atol=1e-15)
