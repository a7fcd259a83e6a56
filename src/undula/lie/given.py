"""Rotations given by users as quaternions or matrices, with checks."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, is_traced, numbers
from undula.lie import so3


def as_rotation(value: Any, what: str) -> Any:
    """A rotation matrix, from a matrix or a quaternion w, x, y, z (of any norm); raises a `ModelError` otherwise."""
    R = jnp.asarray(value, dtype=float) if is_traced(value) else numbers(value, what)
    if R.shape not in ((4,), (3, 3)):
        raise ModelError(f"{what} has the shape {R.shape}; it must be a quaternion or a 3x3 matrix.")
    if is_traced(R):
        return so3.to_matrix(so3.normalise(R)) if R.shape == (4,) else R
    if R.shape == (4,) and not R.any():
        raise ModelError(f"{what} = {R.tolist()} is not a rotation; it must not be zero.")
    if R.shape == (4,):
        w, x, y, z = R / np.linalg.norm(R)
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    if not np.allclose(R @ R.T, np.eye(3), atol=1e-6) or np.linalg.det(R) < 0:
        raise ModelError(f"{what} = {R.tolist()} is not orthonormal and right-handed.")
    return R


def quaternion_of(R: Any) -> Any:
    """Unit quaternion w, x, y, z of a rotation matrix, w >= 0."""
    if is_traced(R):
        return so3.from_matrix(R)
    # Bar-Itzhack's eigenvalue problem, in NumPy: each one-off operation in JAX costs a compilation
    R = np.asarray(R, dtype=float)
    t = np.trace(R)
    K = np.zeros((4, 4))
    K[0, 0] = t
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    K[1:, 1:] = R + R.T - t * np.eye(3)
    q = np.linalg.eigh(K)[1][:, -1]
    return q if q[np.flatnonzero(np.abs(q) > 1e-15)[0]] > 0 else -q
