from . import (
    contact as contact,
    elements as elements,
    flexible as flexible,
    forces as forces,
    gallery as gallery,
    geometry as geometry,
    integrators as integrators,
    joints as joints,
    kinematics as kinematics,
    laws as laws,
    lie as lie,
    reactions as reactions,
    results as results,
    rods as rods,
    rows as rows,
    solids as solids,
)
from .balance.admissible import admissible as admissible, assemble as assemble
from .balance.classes import classify as classify
from .balance.continuation import continuation as continuation
from .balance.dynamics import (
    bias as bias,
    forward_dynamics as forward_dynamics,
    gravity_efforts as gravity_efforts,
    inverse_dynamics as inverse_dynamics,
    mass_matrix as mass_matrix,
)
from .balance.equilibrium import equilibrium as equilibrium, tangent_stiffness as tangent_stiffness
from .balance.kinematics import (
    kinetic_energy as kinetic_energy,
    momentum as momentum,
    potential_energy as potential_energy,
)
from .balance.linearise import linearise as linearise
from .balance.modes import natural_modes as natural_modes
from .balance.reduced_model import reduced as reduced
from .balance.solution import hybrid_dynamics as hybrid_dynamics, reaction_kernel as reaction_kernel
from .core.errors import ModelError as ModelError, UndulaError as UndulaError
from .core.shapes import Shape as Shape
from .core.startup import UndulaWarning as UndulaWarning, fast_loops_active as fast_loops_active
from .core.version import __version__ as __version__
from .elements.actuator import Actuator as Actuator
from .elements.along import Along as Along
from .elements.force import ForceModel as ForceModel
from .elements.observable import Observable as Observable
from .elements.row import RowModel as RowModel
from .elements.sensor import Sensor as Sensor
from .elements.site import Found as Found, Site as Site, on as on, site as site
from .integrate.carry import carry_over as carry_over
from .integrate.events import switch as switch
from .integrate.loop import advance as advance, simulate as simulate
from .integrate.phases import Phase as Phase, run_phases as run_phases
from .integrate.run import Run as Run, run as run
from .io.urdf import load_urdf as load_urdf, read_urdf as read_urdf
from .joints.cylindrical import Cylindrical as Cylindrical
from .joints.fixed import Fixed as Fixed
from .joints.free import Free as Free
from .joints.planar import Planar as Planar
from .joints.rod.rod import Rod as Rod
from .joints.screw import Helical as Helical, Prismatic as Prismatic, Revolute as Revolute
from .joints.spherical import Spherical as Spherical
from .joints.universal import Universal as Universal
from .lie.se3 import Pose as Pose
from .model.builder import Builder as Builder
from .model.prepare import prepare as prepare
from .model.state import Acceleration as Acceleration, State as State
from .model.system import System as System
from .numerics.batch import batch as batch
from .numerics.lanes import lanes as lanes
from .numerics.programs import compiled as compiled
from .record.netcdf import load as load, save as save
from .record.sample import sample as sample
from .view.page import write_html as write_html
from .view.plots import write_figures as write_figures
