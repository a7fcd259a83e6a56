from ..balance.dynamics import locomotion_force as locomotion_force, locomotion_inertia as locomotion_inertia
from .connections import (
    connection as connection,
    kinematic_connection as kinematic_connection,
    resting_twist as resting_twist,
)
from .reconstruction import reconstruct as reconstruct
