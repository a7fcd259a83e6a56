"""undula: locomotion dynamics of robots and animals that change shape.

Every public name is here, once. Start with `Builder` or `load_urdf`, then `run`. The first imports are `_early`, for the
command, and `_startup`, which sets options that JAX reads when it starts.
"""

from undula.core import early as _early  # noqa: F401, I001  (before all that is slow to import)

from undula.core.startup import UndulaWarning as UndulaWarning, fast_loops_active as fast_loops_active
from undula.core.version import __version__ as __version__
from undula.forces.controllers import ProportionalDerivative as ProportionalDerivative
from undula.laws.integral import Integral as Integral
from undula.laws.law import (
    Constant as Constant,
    Function as Function,
    Law as Law,
    Polynomial as Polynomial,
    Product as Product,
    Quintic as Quintic,
    Retimed as Retimed,
    Sinusoid as Sinusoid,
    SoftStart as SoftStart,
    Sum as Sum,
    TravellingWave as TravellingWave,
    Waiting as Waiting,
    stack as stack,
)
from undula.laws.splines import (
    CubicSpline as CubicSpline,
    QuinticSpline as QuinticSpline,
    Sampled as Sampled,
)
from undula.numerics.lanes import lanes as lanes
from undula.balance.admissible import admissible as admissible, assemble as assemble
from undula.balance.classes import Class as Class, classify as classify
from undula.rows.closure import (
    Anchor as Anchor,
    Closure as Closure,
    PrescribedFrame as PrescribedFrame,
)
from undula.elements.row import At as At, BodyMotion as BodyMotion, Constraint as Constraint
from undula.rows.wheels import (
    Coupling as Coupling,
    MecanumWheel as MecanumWheel,
    PointOnPlane as PointOnPlane,
    PrescribedPoint as PrescribedPoint,
    RollingDisc as RollingDisc,
    RollingSphere as RollingSphere,
    Skate as Skate,
    Wheel as Wheel,
)
from undula.balance.linearise import Linearised as Linearised, linearise as linearise
from undula.balance.reduced import (
    Solution as Solution,
    hybrid_dynamics as hybrid_dynamics,
    reaction_kernel as reaction_kernel,
)
from undula.rows.slip import RegularisedCoulomb as RegularisedCoulomb, Viscous as Viscous
from undula.contact.laws import ContactLaw as ContactLaw, Coulomb as Coulomb
from undula.balance.separate import contact_gaps as contact_gaps, separated as separated
from undula.contact.solve.solvers import (
    AcceleratedProx as AcceleratedProx,
    ContactSolver as ContactSolver,
    GaussSeidel as GaussSeidel,
)
from undula.contact.surfaces import (
    Ball as Ball,
    HeightField as HeightField,
    Plane as Plane,
    Post as Post,
    Posts as Posts,
    Surface as Surface,
)
from undula.tree.driven import driven_motion as driven_motion
from undula.tree.kinematics import (
    body_accelerations as body_accelerations,
    body_jacobian as body_jacobian,
    body_poses as body_poses,
    body_twists as body_twists,
    centre_of_mass as centre_of_mass,
    kinetic_energy as kinetic_energy,
    momentum as momentum,
    point_jacobian as point_jacobian,
    point_position as point_position,
    potential_energy as potential_energy,
)
from undula.balance.dynamics import (
    Efforts as Efforts,
    bias as bias,
    forward_dynamics as forward_dynamics,
    gravity_efforts as gravity_efforts,
    inverse_dynamics as inverse_dynamics,
    locomotion_force as locomotion_force,
    locomotion_inertia as locomotion_inertia,
    mass_matrix as mass_matrix,
)
from undula.geometry.connection import (
    connection as connection,
    kinematic_connection as kinematic_connection,
    resting_twist as resting_twist,
)
from undula.geometry.reconstruct import reconstruct as reconstruct
from undula.integrate.method import Integrator as Integrator, move as move
from undula.integrate.euler import SemiImplicitEuler as SemiImplicitEuler
from undula.integrate.implicit import (
    HHT as HHT,
    GeneralisedAlpha as GeneralisedAlpha,
    Implicit as Implicit,
    ImplicitMidpoint as ImplicitMidpoint,
    Newmark as Newmark,
)
from undula.integrate.moreau import Moreau as Moreau
from undula.integrate.run import Run as Run, run as run
from undula.integrate.runge_kutta import RungeKutta4 as RungeKutta4
from undula.integrate.loop import Sample as Sample, sample as sample, simulate as simulate
from undula.record.netcdf import load as load, save as save
from undula.io.urdf import load_urdf as load_urdf, read_urdf as read_urdf
from undula.joints.joint import (
    Cylindrical as Cylindrical,
    Fixed as Fixed,
    Free as Free,
    Helical as Helical,
    Mimic as Mimic,
    Planar as Planar,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Spherical as Spherical,
    Universal as Universal,
)
from undula.lie.se3 import Pose as Pose
from undula.model.builder import Builder as Builder
from undula.core.errors import ModelError as ModelError, UndulaError as UndulaError
from undula.model.flexible import add_beam as add_beam, add_flexible as add_flexible, clamped_modes as clamped_modes
from undula.core.solids import (
    box_inertia as box_inertia,
    cylinder_inertia as cylinder_inertia,
    planar_inertia as planar_inertia,
    sphere_inertia as sphere_inertia,
)
from undula.model.system import Acceleration as Acceleration, Shape as Shape, State as State, System as System
from undula.joints.rod.basis import (
    Basis as Basis,
    BSpline as BSpline,
    Chebyshev as Chebyshev,
    GivenBasis as GivenBasis,
    Legendre as Legendre,
    Monomial as Monomial,
    PiecewiseConstant as PiecewiseConstant,
    PiecewiseLinear as PiecewiseLinear,
)
from undula.tree.rod_error import SpatialError as SpatialError, spatial_error as spatial_error
from undula.joints.rod.rod import Rod as Rod
from undula.joints.rod.sections import (
    Annulus as Annulus,
    Circle as Circle,
    Ellipse as Ellipse,
    GivenSection as GivenSection,
    Rectangle as Rectangle,
    Section as Section,
)
from undula.balance.equilibrium import (
    Equilibrium as Equilibrium,
    Modes as Modes,
    continuation as continuation,
    equilibrium as equilibrium,
    natural_modes as natural_modes,
    tangent_stiffness as tangent_stiffness,
)
