from ..elements.switching import Condition as Condition, Schedule as Schedule, WhilePushing as WhilePushing
from .closure import Anchor as Anchor, Closure as Closure, Latch as Latch, PointOnPlane as PointOnPlane
from .couplings import Coupling as Coupling
from .imposed import PrescribedFrame as PrescribedFrame, PrescribedPoint as PrescribedPoint
from .rolling import RollingDisc as RollingDisc, RollingSphere as RollingSphere
from .slip import RegularisedCoulomb as RegularisedCoulomb, Viscous as Viscous
from .wheels import MecanumWheel as MecanumWheel, Skate as Skate, Wheel as Wheel
