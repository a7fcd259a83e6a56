from .core.solids import (
    box_inertia as box_inertia,
    cylinder_inertia as cylinder_inertia,
    planar_inertia as planar_inertia,
    sphere_inertia as sphere_inertia,
)
