"""undula: locomotion dynamics of robots and animals that change shape."""

import undula._startup as _startup  # first: it sets options that JAX reads when it starts
from undula._startup import UndulaWarning as UndulaWarning
from undula._startup import fast_loops_active as fast_loops_active
from undula.dynamics.model import (
    bias as bias,
    forward_dynamics as forward_dynamics,
    gravity_efforts as gravity_efforts,
    inverse_dynamics as inverse_dynamics,
    locomotion_force as locomotion_force,
    locomotion_inertia as locomotion_inertia,
    mass_matrix as mass_matrix,
)
from undula.joints.authoring import (
    Cylindrical as Cylindrical, Fixed as Fixed, Free as Free, Helical as Helical, Mimic as Mimic, Planar as Planar,
    Prismatic as Prismatic, Revolute as Revolute, Spherical as Spherical, Universal as Universal,
)
from undula.model.builder import Builder as Builder
from undula.model.errors import ModelError as ModelError, UndulaError as UndulaError
from undula.model.system import Acceleration as Acceleration, Shape as Shape, State as State, System as System
