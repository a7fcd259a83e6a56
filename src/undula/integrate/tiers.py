"""Two tiers of a compiled loop: one that is ready soon, and one that is quick, made beside the run if it is long enough."""

import threading
import time
from typing import Any

from undula.numerics.programs import Program

WORTH = 4.0  # optimised code is made if the rest of the run would take longer than this without it [s]

_beside: list[threading.Thread] = []
_slow: list[float] = [0.0]  # seconds that the last run has spent without it


class Tiers:
    """The program of a loop for arguments of one structure.

    Optimised code that is kept is used from the start. Otherwise the run begins with code of low optimisation, which compiles
    several times faster, and goes on with optimised code once that is ready, if the run is long enough for it. The two round
    differently: with `reproducible`, only optimised code is used.
    """

    def __init__(self, optimised: Program, quick: Program, args: tuple[Any, ...], reproducible: bool):
        self._optimised, self._args = optimised, args
        self._traces = quick.traces
        load = optimised.find(*args)
        self.best = load is not None or reproducible
        if not self.best:
            load = quick.find(*args)
        self.kept = load is not None
        self.prepare = load or (optimised if self.best else quick).make(*args)
        self._thread: threading.Thread | None = None
        self._ready: list[Program] = []
        self.call: Any = None
        self._began = 0.0

    def begin(self, found: Any) -> None:
        """Uses what `prepare` returned."""
        self.call = found
        self._began, _slow[0] = time.perf_counter(), 0.0

    def consider(self, left: float) -> None:
        """After each chunk: goes over to optimised code if it is ready; begins to make it if `left` [s] are worth it."""
        if self.best:
            return
        _slow[0] = time.perf_counter() - self._began
        if self._ready:
            self.best, self.call = True, self._ready[0]
            self._traces.clear()
        elif self._thread is None and left > WORTH:
            self._thread = threading.Thread(target=self._make, name="undula-optimise")
            _beside.append(self._thread)
            self._thread.start()

    def _make(self) -> None:
        self._ready.append(self._optimised.make(*self._args)())


def finish() -> None:
    """Before the process ends: waits for optimised code if the next run of the same kind would gain more than `WORTH`."""
    if _slow[0] > WORTH:
        for thread in _beside:
            thread.join()
