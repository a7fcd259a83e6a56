"""`un.batch` against `jax.vmap`: values, axes, shared arguments, trees, compilation, derivatives, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undula as un


@pytest.fixture(scope="module")
def arm():
    b = un.Builder("arm")
    b.base("ground")
    b.body("upper", "ground", un.Revolute((0, 1, 0)), 1.0, (0, 0, -0.5), 0.1)
    b.body("lower", "upper", un.Revolute((0, 1, 0)), 1.0, (0, 0, -0.5), 0.1, position=(0, 0, -1))
    return b.build()


Q = np.random.default_rng(0).normal(size=(5, 2))


def test_like_vmap_with_shared_arguments_and_trees_of_axes(arm):
    def mass(system, q):
        return un.mass_matrix(system, system.state(q))

    wanted = jax.vmap(mass, (None, 0))(arm, Q)
    np.testing.assert_allclose(un.batch(mass, (None, 0))(arm, Q), wanted, atol=1e-12)
    np.testing.assert_allclose(un.batch(mass, (None, 1))(arm, Q.T), wanted, atol=1e-12)
    many = jax.tree.map(lambda *x: jnp.stack(x), *(arm.replace(mass=[0.0, 1.0, m]) for m in range(1, 6)))
    np.testing.assert_allclose(un.batch(mass)(many, Q), jax.vmap(mass)(many, Q), atol=1e-12)
    pair = un.batch(lambda x: x["a"] * x["b"], ({"a": 0, "b": None},))({"a": Q, "b": 2.0})
    np.testing.assert_array_equal(pair, 2 * Q)


def test_compiled_and_differentiated():
    def f(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) * y, x).sum()

    found = jax.jit(jax.value_and_grad(lambda x: un.batch(f)(x).sum()))(Q)
    wanted = jax.value_and_grad(lambda x: jax.vmap(f)(x).sum())(Q)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-13)
    np.testing.assert_allclose(jax.jacfwd(lambda x: un.batch(f)(x))(Q), jax.jacfwd(jax.vmap(f))(Q), atol=1e-14)
    slope = jax.grad(lambda x: un.batch(f)(x).sum())(Q)
    np.testing.assert_allclose(slope, jax.grad(lambda x: jax.vmap(f)(x).sum())(Q), atol=1e-14)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: un.batch(3), "f = 3; it must be a function"),
        (lambda: un.batch(jnp.sin, (0, 1))(Q), r"axes = \(0, 1\) has 2 entries"),
        (lambda: un.batch(jnp.sin, "a")(Q), "axes contains 'a'; its entries must be whole numbers, or None"),
        (lambda: un.batch(jnp.sin, 2)(Q), r"shape \(5, 2\) has no axis 2"),
        (lambda: un.batch(jnp.sin, None)(Q), "at least one array; they are none"),
        (lambda: un.batch(jnp.add)(Q, Q[:2]), r"same number of instances.*\(5, 2\), \(2, 2\)"),
        (lambda: un.batch(lambda x: "a")(Q), "cannot be computed: .*<class 'str'>"),
    ],
)
def test_refusals(call, words, wrong_types):
    with pytest.raises(un.UndulaError, match=words):
        call()
