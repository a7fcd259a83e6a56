"""How a run goes on: how many samples the next chunk has, and who is told about them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    OnSamples = Callable[[int, Callable[[int], xr.Dataset]], None]
else:
    OnSamples = Callable

AIM = 1.0  # seconds that a chunk should take: as long as an interrupt waits, and as much as a killed process loses
GROWTH = 4  # of the chunks at most, while the time of a sample is still being learnt


class Pace:
    """The number of samples of each chunk: one at first, then as many as take about `AIM`, at most `largest`."""

    def __init__(self, largest: int):
        self.largest, self.samples = largest, 1

    def learn(self, seconds: float) -> None:
        """Chooses the next chunk by the time that this one took [s]."""
        fitting = self.samples * AIM / max(seconds, 1e-9)
        self.samples = int(max(1, min(fitting, GROWTH * self.samples, self.largest)))


def samples_from(parts: list[Any], count: int, first: int) -> Any:
    """The samples from number `first` on as one part, of `count` in all the parts; it looks at no more parts than it needs."""
    missing, taken = count - first, []
    for part in reversed(parts):
        taken.append(jax.tree.map(lambda x, n=missing: x[max(0, len(x) - n) :], part))
        missing -= len(part[0].t)
        if missing <= 0:
            break
    return jax.tree.map(lambda *x: np.concatenate(x), *reversed(taken))
