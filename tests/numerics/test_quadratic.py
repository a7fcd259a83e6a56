"""Small quadratic programs, against active-set enumeration and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

from undula.numerics.quadratic import minimise

solve = jax.jit(minimise)
together = jax.jit(jax.vmap(minimise))


def problem(rng, n, b, tight=True):
    """A random problem with an interior: P, q, G, h. `tight`: the constraints cut off the free minimum."""
    root = rng.normal(size=(n, n))
    P = root @ root.T / n + 0.3 * np.eye(n)
    q, G = rng.normal(size=n), rng.normal(size=(b, n)) * 10.0 ** rng.uniform(-1, 1, size=(b, 1))
    inside = rng.normal(size=n) if tight else -np.linalg.solve(P, q)
    return P, q, G, G @ inside + np.linalg.norm(G, axis=1) * rng.uniform(0.05, 0.5, size=b)


def enumerated(P, q, G, h):
    """The minimum by trying every active set."""
    n = len(q)
    best, least = None, np.inf
    for k in range(min(n, len(h)) + 1):
        for active in itertools.combinations(range(len(h)), k):
            A = G[list(active)]
            K = np.block([[P, A.T], [A, np.zeros((k, k))]])
            if np.linalg.matrix_rank(K) < n + k:
                continue
            found = np.linalg.solve(K, np.concatenate([-q, h[list(active)]]))
            x, dual = found[:n], found[n:]
            if (G @ x <= h + 1e-9).all() and (dual >= -1e-9).all():
                value = x @ P @ x / 2 + q @ x
                if value < least:
                    best, least = x, value
    return best


@pytest.mark.parametrize(("n", "b"), [(1, 1), (2, 6), (4, 8)])
def test_equals_the_enumeration_of_active_sets(rng, n, b):
    cases = [problem(rng, n, b, tight) for tight in (True, True, True, False)]
    found = np.asarray(together(*(jnp.asarray(np.stack(x)) for x in zip(*cases))))
    active = 0
    for x, case in zip(found, cases):
        assert_allclose(x, enumerated(*case), atol=1e-9)
        active += ((case[3] - case[2] @ x) / np.linalg.norm(case[2], axis=1) < 1e-9).sum()
    assert active  # some constraints matter
    assert_allclose(found[-1], -np.linalg.solve(cases[-1][0], cases[-1][1]), atol=1e-9)  # none does


@pytest.mark.parametrize(("n", "b"), [(7, 12), (20, 40)])
def test_satisfies_the_conditions_of_optimality(rng, n, b):
    """Stationary, feasible, multipliers of the active constraints not negative; SciPy finds no better point."""
    P, q, G, h = problem(rng, n, b)
    x = np.asarray(solve(*map(jnp.asarray, (P, q, G, h))))
    size = np.linalg.norm(G, axis=1)
    assert ((G @ x - h) / size).max() < 1e-9
    active = (h - G @ x) / size < 1e-8
    assert 0 < active.sum() <= n
    _, left = scipy.optimize.nnls(G[active].T / size[active], -(P @ x + q))
    assert left < 1e-8

    def value(x):
        return x @ P @ x / 2 + q @ x

    other = scipy.optimize.minimize(
        value,
        np.zeros(n),
        jac=lambda x: P @ x + q,
        constraints={"type": "ineq", "fun": lambda x: h - G @ x, "jac": lambda x: -G},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    if other.success:
        assert_allclose(x, other.x, atol=1e-5)
    assert value(x) < value(other.x) + 1e-8 or (G @ other.x - h).max() > 1e-9


def test_scaling_of_constraints_and_data_does_not_matter(rng):
    P, q, G, h = problem(rng, 4, 8)
    x = np.asarray(solve(*map(jnp.asarray, (P, q, G, h))))
    assert_allclose(solve(*map(jnp.asarray, (P, q, 1e6 * G, 1e6 * h))), x, atol=1e-9)
    for size in (1e-4, 1e4):  # forces of 1e4 N, or of 1e-4 N
        assert_allclose(solve(*map(jnp.asarray, (P, size * q, G, size * h))), size * x, atol=1e-9 * size)


def test_derivatives(rng):
    data = problem(rng, 4, 8)
    x = np.asarray(solve(*map(jnp.asarray, data)))
    assert ((data[3] - data[2] @ x) / np.linalg.norm(data[2], axis=1) < 1e-9).any()
    way = [rng.normal(size=np.shape(a)) for a in data]
    way[0] = way[0] + way[0].T
    w = rng.normal(size=4)

    @jax.jit
    def along(e):
        return w @ minimise(*(jnp.asarray(a) + e * b for a, b in zip(data, way)))

    eps = 1e-5
    expected = (along(eps) - along(-eps)) / (2 * eps)
    assert_allclose(jax.grad(along)(0.0), expected, rtol=1e-6, atol=1e-8)
    assert_allclose(jax.jvp(along, (0.0,), (1.0,))[1], expected, rtol=1e-6, atol=1e-8)
