"""Stiffness, damping and inertia of a rod per unit length, from its material and section or as given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from undula.core.arrays import namespace, stacked
from undula.core.errors import ModelError, is_traced, not_negative, numbers, positive, real, shown
from undula.joints.rod.sections import Section

if TYPE_CHECKING:
    from undula.joints.rod.rod import Rod

ENTRIES = ("Vx", "Vy", "Vz", "Wx", "Wy", "Wz")
TOLERANCE = 1e-9  # relative, for entries that must be equal


def refuse_unused(rod: "Rod", what: str) -> None:
    """Rejects arguments that would have no effect beside the others, since their intent is unclear."""
    unset = ("E", "G", "density", "inertia", "mass", "modes", "section", "material", "shear_factor")
    given = [x for x in unset if getattr(rod, x) is not None]
    given += [x for x in ("stiffness", "damping") if not is_zero(getattr(rod, x))]
    given += [] if isinstance(rod.basis, str) and rod.basis == "legendre" else ["basis"]

    def refuse(names: Sequence[str], because: str) -> None:
        unused = [x for x in names if x in given]
        if unused:
            raise ModelError(f"{' and '.join(unused)} of {what} would not be used: {because}.")

    if rod.strain is not None:
        refuse(("E", "G", "stiffness", "damping", "material", "shear_factor"), "an imposed strain needs no elasticity")
        refuse(("modes", "basis"), "an imposed strain has no basis")
        if rod.role not in ("free", "driven"):
            raise ModelError(f"role of {what} = {shown(rod.role)}; a rod with an imposed strain is driven.")
    if "stiffness" in given:
        refuse(("E", "G", "shear_factor"), "its stiffness is given")
    if "inertia" in given:
        refuse(("density",), "its inertia is given")
    else:
        refuse(("mass",), "its inertia is not given")
    if "section" not in given and "inertia" in given:  # without both, it cannot be built anyway
        refuse(("E", "G", "shear_factor"), "it has no section")
    if "E" not in given:
        refuse(("G", "shear_factor"), "it has no E")
    if "E" not in given and "stiffness" not in given and is_scalar(rod.damping):
        refuse(("damping",), "it is a time constant, and there is no stiffness to be multiplied by it")


def is_scalar(value: Any) -> bool:
    """Whether a damping is one number, a time constant."""
    return not callable(value) and not isinstance(value, list | tuple) and np.ndim(value) == 0


def is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


def matrix(given: Any, X: Any, what: str) -> Any:
    """The matrix (6, 6) at an abscissa X [m], from one given as (6,), (6, 6) or a function of X."""
    value = given(X) if callable(given) else given
    value = value if is_traced(value) else numbers(value, what)
    if value.shape == (6,):
        value = jnp.diag(value) if is_traced(value) else np.diag(value)
    if value.shape != (6, 6):
        raise ModelError(f"{what} has the shape {value.shape}; it must be (6,) or (6, 6).")
    return value


def _symmetric(value: Any, what: str, low: str) -> Any:
    """The matrix, checked to be symmetric and without negative eigenvalues."""
    if not is_traced(value):
        if np.abs(value - value.T).max() > TOLERANCE * np.abs(value).max():
            i, j = np.unravel_index(int(np.argmax(np.abs(value - value.T))), (6, 6))
            raise ModelError(
                f"{what} is not symmetric: its entry ({i + 1}, {j + 1}) is {value[i, j]:g} and ({j + 1}, {i + 1}) is "
                f"{value[j, i]:g}."
            )
        if np.linalg.eigvalsh((value + value.T) / 2)[0] < 0:
            raise ModelError(f"{what} {low}.")
    return value


def hooke(rod: "Rod", section: Section | None, X: Any, what: str) -> Any:
    """H of (2.10), linear strains first."""
    if not is_zero(rod.stiffness):
        return _symmetric(matrix(rod.stiffness, X, f"stiffness of {what}"), f"stiffness of {what}", "is not positive")
    if section is None or rod.E is None:
        if rod.material is not None or rod.role == "driven" or rod.motion is not None or rod.strain is not None:
            return np.zeros((6, 6))  # given by the material law, or not needed by an imposed strain
        raise ModelError(f"{what} needs a section and E, or its stiffness.")
    positive(rod.E, f"E of {what}", "Pa")
    G = rod.E / 3 if rod.G is None else rod.G
    positive(G, f"G of {what}", "Pa")
    Iy, Iz = section.moments
    EA, GA, GJ = rod.E * section.area, G * section.area, G * section.torsion
    ky, kz = shear_factors(rod, section, X, what)
    return diagonal([EA, ky * GA, kz * GA, GJ, rod.E * Iy, rod.E * Iz])


def shear_factors(rod: "Rod", section: Section, X: Any, what: str) -> tuple[Any, Any]:
    """Factors of the shear stiffness G A along y and z at an abscissa X [m]."""
    given = rod.shear_factor(X) if callable(rod.shear_factor) else rod.shear_factor
    if given is None:
        return 1.0, 1.0
    name = f"shear_factor of {what}"
    if isinstance(given, str):
        if given != "cowper":
            raise ModelError(f"{name} = {shown(given)}; it must be a number, a pair of numbers, or 'cowper'.")
        return section.shear_factors(rod.E / (2 * rod.G) - 1 if rod.G is not None else 0.5)
    pair = tuple(given) if isinstance(given, Sequence) or np.ndim(given) == 1 else (given, given)
    if len(pair) != 2:
        raise ModelError(f"{name} = {given}; it must be a number, a pair of numbers along y and z, or 'cowper'.")
    for factor in pair:
        positive(factor, name)
    return pair


def viscous(mu: Any, H: Any, X: Any, what: str) -> Any:
    """D of (2.13): a time constant times H, or as given."""
    if is_scalar(mu):
        not_negative(mu, f"damping of {what}")
        return mu * H
    return _symmetric(matrix(mu, X, f"damping of {what}"), f"damping of {what}", "is negative in some strain")


def inertial(rod: "Rod", section: Section | None, X: Any, dX: Any, what: str) -> tuple[Any, Any, Any, Any]:
    """Mass, centre of mass and inertia about it of a length dX [m] at X, and the weightless inertia (6, 6) or None."""
    if rod.inertia is not None:
        M = matrix(rod.inertia, X, f"inertia of {what}")
        return _given_inertia(M, dX, what) if rod.mass is None else _weighing(M, rod.mass, X, dX, what)
    if section is None or rod.density is None:
        raise ModelError(f"{what} needs a section and a density, or its inertia.")
    positive(rod.density, f"density of {what}", "kg/m^3")
    Iy, Iz = section.moments
    inertia = diagonal([rod.density * dX * x for x in (Iy + Iz, Iy, Iz)])
    return rod.density * section.area * dX, np.zeros(3), inertia, None


def _weighing(M: Any, mass: Any, X: Any, dX: Any, what: str) -> tuple[Any, Any, Any, Any]:
    """The same from any symmetric positive matrix per unit length, of which a mass at the centre has weight."""
    _symmetric(M, f"inertia of {what}", "is not positive")
    m = mass(X) if callable(mass) else mass
    real(m, f"mass of {what}", low=0.0, unit="kg/m")
    xp = jnp if is_traced(M) or is_traced(m) else np
    heavy = xp.concatenate([m * np.ones(3), np.zeros(3)])
    return m * dX, np.zeros(3), np.zeros((3, 3)), (M - xp.diag(heavy)) * dX


def _given_inertia(M: Any, dX: Any, what: str) -> tuple[Any, Any, Any, Any]:
    """The same from the matrix per unit length, which must be that of a rigid section: [[m 1, -S^], [S^, J]] (2.11).

    The mass becomes NaN if a traced matrix is not.
    """
    xp = jnp if is_traced(M) else np
    m, S = M[0, 0], xp.stack([M[5, 1], M[3, 2], M[4, 0]])
    positive(m, f"inertia of {what}: the mass per length", "kg/m")
    hat = xp.stack([xp.stack([0 * m, -S[2], S[1]]), xp.stack([S[2], 0 * m, -S[0]]), xp.stack([-S[1], S[0], 0 * m])])
    J = (M[3:, 3:] + M[3:, 3:].T) / 2
    used = xp.block([[m * xp.eye(3), -hat], [hat, J]])
    off = xp.abs(M - used)
    if is_traced(M):
        m = jnp.where(off.max() > TOLERANCE * jnp.abs(M).max(), jnp.nan, m)
    elif off.max() > TOLERANCE * np.abs(M).max():
        i, j = np.unravel_index(int(np.argmax(off)), (6, 6))
        raise ModelError(
            f"inertia of {what}: the entry ({ENTRIES[i]}, {ENTRIES[j]}) = {M[i, j]:g} would not be used; a rigid section of "
            f"the mass per length (Vx, Vx) = {m:g} kg/m and its first moments has {used[i, j]:g} there; for any other "
            "inertia, give the part that has weight as mass [kg/m]."
        )
    K = hat / m
    return m * dX, S / m, (J + m * K @ K) * dX, None


def diagonal(parts: Sequence[Any]) -> Any:
    parts = stacked(parts)
    return namespace(parts).diag(parts)
