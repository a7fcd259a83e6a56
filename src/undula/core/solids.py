"""Inertias of homogeneous solids about their centres [kg m^2], as three principal values, from masses [kg] and sizes [m]."""

from typing import Any


def box_inertia(mass: Any, size: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Inertia of a box with edges `size` along x, y, z."""
    x, y, z = (s * s for s in size)
    return mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12


def planar_inertia(about_z: Any) -> tuple[Any, Any, Any]:
    """Inertia of a flat body in the x-y plane with a given moment about z; the other two are half of it each."""
    return about_z / 2, about_z / 2, about_z


def cylinder_inertia(mass: Any, radius: Any, length: Any, axis: str = "z") -> tuple[Any, Any, Any]:
    """Inertia of a solid cylinder along an axis."""
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    return tuple(along if a == axis else across for a in "xyz")


def sphere_inertia(mass: Any, radius: Any) -> tuple[Any, Any, Any]:
    """Inertia of a solid sphere."""
    return (2 * mass * radius**2 / 5,) * 3
