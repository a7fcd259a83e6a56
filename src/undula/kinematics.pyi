from .balance.kinematics import (
    body_accelerations as body_accelerations,
    body_jacobian as body_jacobian,
    body_poses as body_poses,
    body_twists as body_twists,
    centre_of_mass as centre_of_mass,
    driven_motion as driven_motion,
    point_jacobian as point_jacobian,
    point_position as point_position,
    site_jacobian as site_jacobian,
    site_view as site_view,
)
