from .model.flexible import add_beam as add_beam, add_flexible as add_flexible, clamped_modes as clamped_modes
