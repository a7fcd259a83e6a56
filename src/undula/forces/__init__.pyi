from ..elements.gravity import Gravity as Gravity
from ..elements.linear import Dampers as Dampers, Springs as Springs
from ..elements.weightless import AddedInertia as AddedInertia
from .controllers import (
    Follower as Follower,
    ProportionalDerivative as ProportionalDerivative,
    TwistFollower as TwistFollower,
)
from .host import HostForce as HostForce
from .internal import InternalWrench as InternalWrench, StressFreeStrain as StressFreeStrain
from .loads import LineLoad as LineLoad, Load as Load
from .springs import SpringDamper as SpringDamper
from .tendons import Chamber as Chamber, Tendon as Tendon
from .tracking import ComputedTorque as ComputedTorque, Impedance as Impedance
