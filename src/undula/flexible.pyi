from .model.beam import add_beam as add_beam, clamped_modes as clamped_modes, polynomial_modes as polynomial_modes
from .model.flexible import add_flexible as add_flexible
