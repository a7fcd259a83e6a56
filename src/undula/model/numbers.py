"""Checks of numbers that replace others in a built system."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from undula.core.errors import ModelError, UndulaError, is_traced, numbers
from undula.model.checks import TOLERANCE, inertia_complaint
from undula.model.labels import Labels


def checked_array(value: Any, what: str, shape: tuple[int, ...] | None = None) -> Any:
    """Finite numbers as an array of a given shape, or of any; traced values are checked for their shape only."""
    if any(is_traced(x) for x in jax.tree.leaves(value)):
        out: Any = jnp.asarray(value, dtype=float)
    else:
        out = numbers(value, what)
    if shape is not None and out.shape != shape:
        raise UndulaError(f"{what} has the shape {out.shape}; it must be {shape}.")
    return out


def check_replaced(labels: Labels, key: str, new: Any, old: Any) -> None:
    """Refuses numbers that no system is built with; what a system built with `strict=False` had before is accepted."""
    if is_traced(new) or is_traced(old):
        return
    old = np.asarray(old)
    if key in ("mass", "armature", "reaction_weights") and (new < 0).any():
        k = int(np.argmin(new))
        names = {"mass": labels.bodies, "armature": labels.coordinates, "reaction_weights": labels.rows}[key]
        raise ModelError(f"{key} of '{_named(names, k)}' = {new[k]:g}; it must not be negative.")
    if key == "inertia":
        for k in np.flatnonzero((new != old).any((1, 2))).tolist():
            complaint = inertia_complaint(new[k])
            if complaint and not inertia_complaint(old[k]):
                raise ModelError(f"inertia of body '{_named(labels.bodies, k)}' {complaint}")
    if key == "joint_rotation":
        off = np.abs(new @ np.swapaxes(new, 1, 2) - np.eye(3)).max((1, 2), initial=0.0)
        off = np.where(np.linalg.det(new) > 0, off, 1.0)
        _refuse(off, 1e-6, "joint_rotation", labels, new, "a rotation matrix")
    if key == "axis":
        size, before = (np.linalg.norm(x, axis=1) for x in (new, old))
        _refuse(np.abs(size - (before > TOLERANCE)), 1e-6, "axis", labels, new, "of length 1, or 0 if it does not turn")
    if key == "second":
        size, before = (np.linalg.norm(x, axis=1) for x in (new, old))
        lost = (before > TOLERANCE) & (size <= TOLERANCE)
        _refuse(lost * 1.0, 0.5, "second", labels, new, "a vector other than zero")


def _refuse(off: np.ndarray, most: float, key: str, labels: Labels, new: np.ndarray, wanted: str) -> None:
    if off.max(initial=0.0) > most:
        k = int(np.argmax(off))
        raise ModelError(f"{key} of joint '{_named(labels.joints, k)}' = {new[k].tolist()}; it must be {wanted}.")


def _named(names: tuple[str, ...], k: int) -> str:
    """The name at an index; systems without names have none."""
    return names[k] if k < len(names) else str(k)
