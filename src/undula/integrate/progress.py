"""Progress of a run: the number of samples in the next chunk, and the callback that receives them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    OnSamples = Callable[[int, Callable[[int], xr.Dataset]], None]
else:
    OnSamples = Callable

AIM = 1.0  # target duration of a chunk [s]: an interrupt waits, and a killed process loses, this much
GROWTH = 4  # largest growth factor of the chunks, while the time per sample is still being learnt


class Pace:
    """The number of samples per chunk: one at first, then as many as take about `AIM`, at most `largest`."""

    def __init__(self, largest: int):
        self.largest, self.samples = largest, 1

    def learn(self, seconds: float) -> None:
        """Chooses the size of the next chunk from the duration of this one [s]."""
        fitting = self.samples * AIM / max(seconds, 1e-9)
        self.samples = int(max(1, min(fitting, GROWTH * self.samples, self.largest)))


def samples_from(parts: list[Any], count: int, first: int) -> Any:
    """The samples from number `first` on, of `count` in all parts, as one part; only the parts needed are read."""
    missing, taken = count - first, []
    for part in reversed(parts):
        taken.append(jax.tree.map(lambda x, n=missing: x[max(0, len(x) - n) :], part))
        missing -= len(part[0].t)
        if missing <= 0:
            break
    return jax.tree.map(lambda *x: np.concatenate(x), *reversed(taken))
