"""Inertias of homogeneous solids about their centres [kg m^2], as three principal values, from masses [kg] and sizes [m]."""

from typing import Any


def box_inertia(mass: Any, size: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Of a box with the edges `size` along x, y, z."""
    x, y, z = (s * s for s in size)
    return mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12


def planar_inertia(about_z: Any) -> tuple[Any, Any, Any]:
    """Of a flat body in the plane of x and y whose moment about z is given: the other two share it."""
    return about_z / 2, about_z / 2, about_z


def cylinder_inertia(mass: Any, radius: Any, length: Any, axis: str = "z") -> tuple[Any, Any, Any]:
    """Of a solid cylinder along an axis."""
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    return tuple(along if a == axis else across for a in "xyz")  # type: ignore[return-value]


def sphere_inertia(mass: Any, radius: Any) -> tuple[Any, Any, Any]:
    """Of a solid sphere."""
    return (2 * mass * radius**2 / 5,) * 3
