"""GPU-only code, as far as it can be tested without a GPU: every kernel is lowered for CUDA.

Values are compared on a GPU by benchmarks/gpu_check.py, which lists the same paths, and interpreted by test_contact.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpu_check
import undula as un
from undula.numerics.lanes import ELEMENTWISE


def inner(program):
    """The programs inside the parameters of an operation."""
    for value in program.params.values():
        for part in value if isinstance(value, tuple | list) else [value]:
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def operations(program):
    """All operations inside kernels."""

    def walk(jaxpr, in_kernel):
        for eqn in jaxpr.eqns:
            if in_kernel:
                yield eqn
            for part in inner(eqn):
                yield from walk(part, in_kernel or eqn.primitive.name == "pallas_call")

    return list(walk(program, False))


def check(f, *args):
    """The function can be lowered, and no CUDA library function receives a weakly typed number.

    For such numbers Triton's table selects the first function of matching kind: that of float32.
    """
    traced = jax.jit(f).trace(*args)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "triton" in text
    names = {*ELEMENTWISE, "rsqrt"} - {"neg", "not", "and", "or", "eq", "ne", "lt", "le", "gt", "ge"}
    for eqn in operations(traced.jaxpr.jaxpr):
        if eqn.primitive.name in names:
            assert not all(v.aval.weak_type for v in eqn.invars), eqn


@pytest.mark.parametrize("double", [True, False], ids=["float64", "float32"])
class TestLowering:
    @pytest.fixture(autouse=True)
    def precision(self, double):
        with jax.enable_x64(double):
            yield

    def test_lanes(self, double):
        """The dynamics of a robot whose axes are normalised: square roots of constants."""
        x = tuple(jnp.zeros((2, 33)) for _ in range(3))
        for name, f in gpu_check.functions(gpu_check.chain(2)).items():
            if name == "inverse dynamics" or (double and name == "forward dynamics"):
                check(un.lanes(f, fused=True), *x)

    def test_kernels(self, double):
        dtype = jnp.zeros(()).dtype
        for path in gpu_check.kernel_paths(dtype, np.random.default_rng(0)):
            check(path.f, *path.args)

    def test_operations_on_constants(self, double):
        """Every operation on lanes, on constants, and on lanes selected among constants."""
        known = jnp.asarray(0.75)

        def f(x):
            chosen = jnp.where(x > 0, 0.5, 0.25)
            parts = []
            for y in (x, known, chosen):
                a = jnp.abs(y) + 0.1
                parts += [jnp.sin(y), jnp.cos(y), jnp.tan(y), jnp.sqrt(a), jax.lax.rsqrt(a), jnp.exp(y), jnp.log(a)]
                parts += [jnp.sign(y), jnp.tanh(y), jnp.arctan2(y, a), jnp.maximum(y, 0.3), jnp.minimum(y, 0.3)]
                parts += [jnp.arcsin(y), jnp.arccos(y), a**0.3, jnp.fmod(y, 0.2), jnp.square(y), y**3, -y, 1 / a]
                parts += [jnp.where((y > 0.3) & ~(y == 0.5) | (y <= 0.1), y, x)]
            return jnp.stack(parts)

        x = jnp.asarray(np.random.default_rng(0).uniform(-0.9, 0.9, 33))
        check(un.lanes(f, fused=True), x)
        if double:
            out, expected = (jax.jit(g)(x) for g in (un.lanes(f, fused=False), jax.vmap(f, out_axes=-1)))
            np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_gradient_on_lanes():
    """A backward scan over numbers: each iteration receives a scalar."""

    def f(x, c):
        return jax.lax.scan(lambda y, c: (jnp.sin(c * y), None), x, c)[0]

    x, c = jnp.linspace(0.1, 1.0, 5), jnp.linspace(0.5, 1.0, 15).reshape(3, 5)
    found = un.lanes(jax.grad(f, argnums=1), fused=False)(x, c)
    y = [x]
    for k in range(3):
        y.append(jnp.sin(c[k] * y[-1]))
    last = jnp.cos(c[2] * y[2])  # the chain rule, by hand
    middle = last * c[2] * jnp.cos(c[1] * y[1])
    first = middle * c[1] * jnp.cos(c[0] * y[0])
    np.testing.assert_allclose(found, [first * y[0], middle * y[1], last * y[2]], rtol=1e-12)
