"""The arrays that models are made of: NumPy arrays while a model is built, JAX arrays where it is traced or differentiated."""

from typing import TYPE_CHECKING

import jax
import numpy as np

if TYPE_CHECKING:
    Array = jax.Array  # the operations that both share
else:
    Array = jax.Array | np.ndarray
