"""Inertias of homogeneous solids about their centres [kg m^2], as three principal values, from masses [kg] and sizes [m]."""

from typing import Any

from undula.core.errors import ModelError, is_traced, one_of, real, shown


def _not_negative(**given: Any) -> None:
    """Refuses masses and sizes that are no numbers, or negative."""
    for name, value in given.items():
        if not is_traced(value):
            real(value, name, low=0.0, high=1e100)


def box_inertia(mass: Any, size: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Inertia of a box with edges `size` along x, y, z."""
    array = hasattr(size, "dtype") and size.shape == (3,)
    if not array and not (isinstance(size, list | tuple) and len(size) == 3):
        raise ModelError(f"size = {shown(size)}; it must be three edges along x, y, z.")
    _not_negative(mass=mass, **dict(zip("xyz", size)))
    x, y, z = (s * s for s in size)
    return mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12


def planar_inertia(about_z: Any) -> tuple[Any, Any, Any]:
    """Inertia of a flat body in the x-y plane with a given moment about z; the other two are half of it each."""
    _not_negative(about_z=about_z)
    return about_z / 2, about_z / 2, about_z


def cylinder_inertia(mass: Any, radius: Any, length: Any, axis: str = "z") -> tuple[Any, Any, Any]:
    """Inertia of a solid cylinder along an axis."""
    _not_negative(mass=mass, radius=radius, length=length)
    one_of(axis, ("x", "y", "z"), "axis")
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    return tuple(along if a == axis else across for a in "xyz")


def sphere_inertia(mass: Any, radius: Any) -> tuple[Any, Any, Any]:
    """Inertia of a solid sphere."""
    _not_negative(mass=mass, radius=radius)
    return (2 * mass * radius**2 / 5,) * 3
