"""Rotations: unit quaternions (w, x, y, z), matrices, rotation vectors.

`exp`, `log` and their derivatives are smooth at the identity: below an angle of about 0.1 rad their coefficients
come from series, so that neither values nor derivatives of any order divide by zero.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from undula.core.arrays import Array, namespace
from undula.numerics.small import Mat3, Vec3, cross, hat, matmul
from undula.numerics.tracing import traced_once, traced_once_or_numpy

Quat = Float[Array, "4"]
Scalar = Float[Array, ""]

SERIES_BELOW = 1e-2  # on the squared angle; the first neglected term of the series is then below 1e-17


def _series(x, coefficients):
    out = namespace(x).full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def _blend(x, closed, coefficients):
    """closed(x) for large x = angle^2, its Taylor series for small x; the unused branch never sees a zero."""
    xp, small = namespace(x), x < SERIES_BELOW
    return xp.where(small, _series(xp.where(small, x, 0.0), coefficients), closed(xp.where(small, 1.0, x)))


_SMALL_SINE = 1e-4  # on the squared sine: below it the series of arcsin is accurate to rounding


def _arcsine(x):
    """Series of arcsin(s)/s with x = s^2."""
    return _series(x, (1, 1 / 6, 3 / 40, 15 / 336, 105 / 3456, 945 / 42240))


@traced_once_or_numpy
def sinc(x: Scalar) -> Scalar:
    """sin(a)/a with x = a^2."""
    xp = namespace(x)
    return _blend(
        x,
        lambda x: xp.sin(xp.sqrt(x)) / xp.sqrt(x),
        (1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800),
    )


@traced_once_or_numpy
def cosc(x: Scalar) -> Scalar:
    """(1 - cos(a))/a^2 with x = a^2."""
    xp = namespace(x)
    return _blend(
        x,
        lambda x: (1 - xp.cos(xp.sqrt(x))) / x,
        (1 / 2, -1 / 24, 1 / 720, -1 / 40320, 1 / 3628800, -1 / 479001600),
    )


@traced_once
def sincc(x: Scalar) -> Scalar:
    """(a - sin(a))/a^3 with x = a^2."""
    return _blend(
        x,
        lambda x: (jnp.sqrt(x) - jnp.sin(jnp.sqrt(x))) / (x * jnp.sqrt(x)),
        (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800),
    )


@traced_once
def cotc(x: Scalar) -> Scalar:
    """(1 - (a/2) cot(a/2))/a^2 with x = a^2, the coefficient of the inverse of dexp; regular up to a = 2 pi."""

    def closed(x):
        half = jnp.sqrt(x) / 2
        return (1 - half * jnp.cos(half) / jnp.sin(half)) / x

    return _blend(x, closed, (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000))


@traced_once_or_numpy
def exp(phi: Vec3) -> Quat:
    """Unit quaternion of the rotation vector phi [rad]."""
    quarter = (phi * phi).sum() / 4
    return namespace(phi).concatenate([_cos_of_square(quarter)[None], 0.5 * sinc(quarter) * phi])


def _cos_of_square(x):
    return 1 - x * cosc(x)


@traced_once
def log(q: Quat) -> Vec3:
    """Rotation vector [rad] of a unit quaternion, with an angle of at most pi."""
    q = jnp.where(q[0] < 0, -q, q)
    w, v = q[0], q[1:]
    s2 = (v * v).sum()
    small = s2 < _SMALL_SINE
    # angle/sin(angle/2) = 2 asin(s)/s, s = sin(angle/2): a series in s^2, or the half-angle formula
    series = 2 * _arcsine(jnp.where(small, s2, 0.0))
    s = jnp.sqrt(jnp.where(small, 1.0, s2))
    return jnp.where(small, series, 2 * jnp.arctan2(s, w) / s) * v


@jax.custom_jvp
def log_of_matrix(R: Mat3) -> Vec3:
    """Rotation vector [rad] of a rotation matrix, with an angle of at most pi; at pi itself, one of the two.

    Its derivative is `dexp_inverse`, which is regular everywhere and cheaper than differentiating the formulas here.
    """
    c = (R[0, 0] + R[1, 1] + R[2, 2] - 1) / 2
    v = jnp.stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2  # sin(angle) axis
    s2 = (v * v).sum()
    small = s2 < _SMALL_SINE
    s = jnp.sqrt(jnp.where(small, 1.0, s2))
    factor = jnp.where(small, _arcsine(jnp.where(small, s2, 0.0)), jnp.arctan2(s, c) / s)
    # near pi the axis comes from the symmetric part, (1 - cos(angle)) axis axis^T: its longest column
    P = (R + R.T) / 2 - c * jnp.eye(3)
    longest = jnp.where(P[1, 1] >= P[2, 2], P[1], P[2])
    longest = jnp.where((P[0, 0] >= P[1, 1]) & (P[0, 0] >= P[2, 2]), P[0], longest)
    axis = longest / jnp.sqrt(jnp.where(c < 0, (longest * longest).sum(), 1.0))
    axis = jnp.where((axis * v).sum() < 0, -axis, axis)
    return jnp.where(small & (c < 0), jnp.arctan2(jnp.sqrt(s2), c) * axis, factor * v)


@log_of_matrix.defjvp
def _rate_of_log(primals, tangents):
    """phi' = dexp_inverse(phi) Omega with Omega^ = R^T R' (document 002, (3.35))."""
    (R,), (dR,) = primals, tangents
    phi = log_of_matrix(R)
    S = matmul(R.T, dR)
    Omega = jnp.stack([S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]]) / 2
    turn = cross(phi, Omega)
    return phi, Omega + turn / 2 + cotc((phi * phi).sum()) * cross(phi, turn)


def tilt(axis: Vec3) -> Float[Array, "2"]:
    """Tilt of a unit vector from z: angle [rad] times the direction (x, y) of the tilt.

    It vanishes only for z itself. Within 0.01 rad of -z, where the direction is arbitrary, x is used.
    """
    x, y, z = axis
    s2 = x * x + y * y
    small = s2 < _SMALL_SINE
    s = jnp.sqrt(jnp.where(small, 1.0, s2))
    factor = jnp.where(small, _arcsine(jnp.where(small, s2, 0.0)), jnp.arctan2(s, z) / s)
    opposite = small & (z < 0)
    return jnp.stack([jnp.where(opposite, jnp.pi - x, factor * x), jnp.where(opposite, y, factor * y)])


@traced_once
def multiply(a: Quat, b: Quat) -> Quat:
    """Quaternion product: the rotation b followed, in the outer frame, by a."""
    w = a[0] * b[0] - (a[1:] * b[1:]).sum()
    return jnp.concatenate([w[None], a[0] * b[1:] + b[0] * a[1:] + cross(a[1:], b[1:])])


@traced_once
def normalise(q: Quat) -> Quat:
    """q divided by its norm."""
    return q / jnp.sqrt((q * q).sum())


@traced_once
def to_matrix(q: Quat) -> Mat3:
    """Rotation matrix of a unit quaternion."""
    w, x, y, z = q
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )


@traced_once
def from_matrix(R: Mat3) -> Quat:
    """Unit quaternion, w >= 0, of a rotation matrix (the best conditioned of Bar-Itzhack's four candidates)."""
    d = jnp.stack([R[0, 0], R[1, 1], R[2, 2]])
    t = jnp.concatenate([d.sum()[None], d])
    k = jnp.argmax(t)
    off = jnp.stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sxy, sxz, syz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    candidates = jnp.stack(
        [
            jnp.concatenate([(1 + t[0])[None], off]),
            jnp.stack([off[0], 1 + 2 * d[0] - t[0], sxy, sxz]),
            jnp.stack([off[1], sxy, 1 + 2 * d[1] - t[0], syz]),
            jnp.stack([off[2], sxz, syz, 1 + 2 * d[2] - t[0]]),
        ]
    )
    q = normalise(candidates[k])
    return jnp.where(q[0] < 0, -q, q)


@traced_once
def dexp(phi: Vec3) -> Mat3:
    """Matrix of the body angular velocity: Omega = dexp(phi) phi' for R = exp(phi)."""
    x, K = (phi * phi).sum(), hat(phi)
    return jnp.eye(3) - cosc(x) * K + sincc(x) * matmul(K, K)


@traced_once
def dexp_inverse(phi: Vec3) -> Mat3:
    """Inverse of `dexp`: phi' = dexp_inverse(phi) Omega, for angles below 2 pi."""
    x, K = (phi * phi).sum(), hat(phi)
    return jnp.eye(3) + K / 2 + cotc(x) * matmul(K, K)


@traced_once
def about_axis(axis: Vec3, angle: Scalar) -> Mat3:
    """Rotation matrix by an angle [rad] about a unit axis; the identity if the axis is zero."""
    K = hat(axis)
    return jnp.eye(3) + jnp.sin(angle) * K + (1 - jnp.cos(angle)) * matmul(K, K)
