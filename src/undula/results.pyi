from .balance.classes import Class as Class
from .balance.dynamics import Efforts as Efforts
from .balance.equilibrium import Equilibrium as Equilibrium
from .balance.linearise import Linearised as Linearised
from .balance.modes import Modes as Modes
from .balance.solution import Solution as Solution
from .model.prepare import Prepared as Prepared
from .record.sample import Sample as Sample
