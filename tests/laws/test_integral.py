"""Integrals of laws."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

import undula as un
from undula.laws.integral import Integral


class TestIntegral:
    def test_value_rate_and_acceleration(self):
        law = Integral(un.laws.Sinusoid([0.3, 1.0], [2.0, 3.0], 0.4) + 1.0)
        for t in (0.0, 0.7, 12.0):
            value, rate, gain = (np.asarray(x) for x in law(t))
            a, w = np.array([0.3, 1.0]), np.array([2.0, 3.0])
            assert_allclose(value, t + a / w * (np.cos(0.4) - np.cos(w * t + 0.4)), rtol=1e-13, atol=1e-14)
            assert_allclose(rate, 1 + a * np.sin(w * t + 0.4), rtol=1e-14)
            assert_allclose(gain, a * w * np.cos(w * t + 0.4), rtol=1e-14)

    def test_derivatives_by_parameters(self):
        """The gradient of the integral of c0 + c1 t is (t, t^2 / 2)."""
        by_law = jax.grad(lambda c: Integral(un.laws.Polynomial(c)).value(3.0))(jnp.array([1.0, 2.0]))
        assert_allclose(by_law, [3.0, 4.5], rtol=1e-13)
