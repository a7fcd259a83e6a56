from .integrate.alpha import HHT as HHT, GeneralisedAlpha as GeneralisedAlpha, Newmark as Newmark
from .integrate.euler import SemiImplicitEuler as SemiImplicitEuler
from .integrate.implicit import Implicit as Implicit
from .integrate.method import Integrator as Integrator, Report as Report, flow as flow, shifted as shifted
from .integrate.midpoint import ImplicitMidpoint as ImplicitMidpoint
from .integrate.moreau import Moreau as Moreau
from .integrate.runge_kutta import RungeKutta4 as RungeKutta4
