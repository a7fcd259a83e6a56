from .joints.rod.basis import (
    Basis as Basis,
    BSpline as BSpline,
    Chebyshev as Chebyshev,
    GivenBasis as GivenBasis,
    Legendre as Legendre,
    Monomial as Monomial,
    PiecewiseConstant as PiecewiseConstant,
    PiecewiseLinear as PiecewiseLinear,
)
from .joints.rod.law import (
    Cubic as Cubic,
    MaterialLaw as MaterialLaw,
    MooneyRivlin as MooneyRivlin,
    NeoHookean as NeoHookean,
    SectionProperties as SectionProperties,
    Strained as Strained,
)
from .joints.rod.sections import (
    Annulus as Annulus,
    Circle as Circle,
    Ellipse as Ellipse,
    GivenSection as GivenSection,
    Rectangle as Rectangle,
    Section as Section,
)
from .joints.rod.shape import RodShape as RodShape, curved as curved, shape_through as shape_through
from .tree.rod_error import SpatialError as SpatialError, spatial_error as spatial_error
from .tree.rod_nodes import RodNodes as RodNodes, nodes as nodes
