"""A short piece of a rod as a joint: from the strains at its Gauss points to a relative pose and its rates.

With g' = g xi^, the pose across a piece of length h is exp(psi), psi a Magnus series in the strains at 2 or 3 Gauss points
(order 4 or 6). The relative twist is T(psi) dpsi, T being the right-trivialised differential of exp. Everything is made of
brackets of se(3) and of power series in the squared angle: no branches, no trigonometric functions.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from undula.lie.se3 import bracket, cobracket
from undula.lie.small import cross

# Gauss points and weights on [0, 1]
_R3, _R15 = math.sqrt(3.0), math.sqrt(15.0)
GAUSS: dict[int, tuple[np.ndarray, np.ndarray]] = {
    4: (np.array([0.5 - _R3 / 6, 0.5 + _R3 / 6]), np.array([0.5, 0.5])),
    6: (np.array([0.5 - _R15 / 10, 0.5, 0.5 + _R15 / 10]), np.array([5, 8, 5]) / 18),
}

TERMS = 14  # of the series in the squared angle: rounding remains for angles up to about pi in one piece


def increment(xi: Float[Array, "g 6"], h: Float[Array, ""]) -> Float[Array, "6"]:
    """psi of one piece. As frames are multiplied on the right, brackets have the opposite sign of the usual formulas."""
    if xi.shape[0] == 2:
        return h / 2 * (xi[0] + xi[1]) + (_R3 / 12) * h**2 * bracket(xi[0], xi[1])
    a, b, c = h * xi[1], _R15 / 3 * h * (xi[2] - xi[0]), 10 / 3 * h * (xi[2] - 2 * xi[1] + xi[0])
    first = bracket(b, a)
    second = -bracket(2 * c + first, a) / 60
    return a + c / 12 + bracket(b + second, -20 * a - c + first) / 240


def _series(terms: list[float], x: Array) -> Array:
    out = jnp.full_like(x, terms[-1])
    for a in reversed(terms[:-1]):
        out = out * x + a
    return out


_f = math.factorial
_SIN = [(-1) ** k / _f(2 * k + 1) for k in range(TERMS)]  # sin t / t, and so on, in x = t^2
_COS = [(-1) ** k / _f(2 * k + 2) for k in range(TERMS)]  # (1 - cos t) / t^2
_REST = [(-1) ** k / _f(2 * k + 3) for k in range(TERMS)]  # (t - sin t) / t^3
# T = 1 - T1 ad + T2 ad^2 - T3 ad^3 + T4 ad^4: the characteristic polynomial of ad has degree 5 in effect
_T1 = [(-1) ** (k + 1) * (2 - k) / _f(2 * k) for k in range(1, TERMS + 1)]
_T2 = [(-1) ** k * (k - 2) / _f(2 * k + 1) for k in range(1, TERMS + 1)]
_T3 = [(-1) ** (k + 1) * (1 - k) / _f(2 * k) for k in range(2, TERMS + 2)]
_T4 = [(-1) ** k * (k - 1) / _f(2 * k + 1) for k in range(2, TERMS + 2)]


def pose(psi: Float[Array, "6"]) -> tuple[Float[Array, "3 3"], Float[Array, "3"]]:
    """exp(psi) as rotation and position."""
    v, w = psi[:3], psi[3:]
    x = (w * w).sum()
    a, b, c = (_series(terms, x) for terms in (_SIN, _COS, _REST))
    wv = cross(w, v)
    p = v + b * wv + c * cross(w, wv)
    square = b * (w[:, None] * w[None, :] - x * jnp.eye(3))
    turn = a * jnp.stack(
        [jnp.stack([0 * x, -w[2], w[1]]), jnp.stack([w[2], 0 * x, -w[0]]), jnp.stack([-w[1], w[0], 0 * x])]
    )
    return jnp.eye(3) + turn + square, p


def _coefficients(psi: Float[Array, "6"]) -> tuple[Array, ...]:
    x = (psi[3:] * psi[3:]).sum()
    return tuple(_series(terms, x) for terms in (_T1, _T2, _T3, _T4))


def differential(psi: Float[Array, "6"], y: Float[Array, "6"]) -> Float[Array, "6"]:
    """T(psi) y: the body twist of exp(psi) when psi has the rate y."""
    a, b, c, d = _coefficients(psi)
    # Horner in ad
    z = c * y - d * bracket(psi, y)
    z = b * y - bracket(psi, z)
    z = a * y - bracket(psi, z)
    return y - bracket(psi, z)


def codifferential(psi: Float[Array, "6"], F: Float[Array, "6"]) -> Float[Array, "6"]:
    """T(psi)^T F."""
    a, b, c, d = _coefficients(psi)
    z = c * F - d * cobracket(psi, F)
    z = b * F - cobracket(psi, z)
    z = a * F - cobracket(psi, z)
    return F - cobracket(psi, z)


def twist(xi: Float[Array, "g 6"], rate: Float[Array, "g 6"], h: Any) -> Float[Array, "6"]:
    """Relative body twist across the piece, for strains xi that change at `rate`; linear in `rate`."""
    psi, dpsi = jax.jvp(lambda x: increment(x, h), (xi,), (rate,))
    return differential(psi, dpsi)


def bias(xi: Float[Array, "g 6"], rate: Float[Array, "g 6"], h: Any) -> Float[Array, "6"]:
    """Rate of `twist` while the strains change at a constant `rate`."""
    return jax.jvp(lambda x: twist(x, rate, h), (xi,), (rate,))[1]


def strain_forces(xi: Float[Array, "g 6"], F: Float[Array, "6"], h: Any) -> Float[Array, "g 6"]:
    """The transpose of `twist`: forces conjugate to the strains, from the wrench F on the far end of the piece."""
    psi, pull = jax.vjp(lambda x: increment(x, h), xi)
    return pull(codifferential(psi, F))[0]
