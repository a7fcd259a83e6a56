from ..balance.separate import contact_gaps as contact_gaps, separated as separated
from .laws import ContactLaw as ContactLaw, Coulomb as Coulomb
from .solve.solvers import (
    AcceleratedProx as AcceleratedProx,
    ContactSolver as ContactSolver,
    GaussSeidel as GaussSeidel,
)
from .spheres import Contact as Contact
from .surfaces import (
    HeightField as HeightField,
    Plane as Plane,
    Post as Post,
    Posts as Posts,
    Sphere as Sphere,
    Surface as Surface,
)
