"""Where the time of a command goes: seconds of each phase, exclusive of the phases inside it.

    with Recorder() as recorder:
        with phase("build"):
            ...
    recorder.seconds  # {"import": ..., "build": ..., ...}

`phase` may be called anywhere in the library: where nothing is recorded, and in other threads than the recorder's, it does
nothing. So phases of a thread that compiles beside the run are not counted: what is counted adds up to the wall time.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

# interpreter and modules; the system; checks, assembly, initial state; JAX's tracing and lowering; XLA's compilation; compiled
# programs from the cache; the steps; metrics and dataset; files
PHASES = ("import", "build", "start", "trace", "compile", "load", "run", "report", "write")

_current: ContextVar["Recorder | None"] = ContextVar("phases", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()


class Recorder:
    """Records phases within a `with` block. `outer`: the phase of all that is in no other; `since`: when it began [s].

    Times are those of `time.perf_counter`.
    """

    def __init__(self, outer: str = "import", since: float | None = None):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._stack = [outer]
        self._since = time.perf_counter() if since is None else since

    def __enter__(self) -> "Recorder":
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.count()
        _current.reset(self._token)

    def count(self) -> dict[str, float]:
        """Counts the time up to now, and returns the seconds of all phases."""
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now
        return self.seconds

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Counts the time of this block as that of the phase `name`."""
        if name not in self.seconds:
            raise ValueError(f"phase = {name!r}; it must be one of {', '.join(PHASES)}")
        self.count()
        self._stack.append(name)
        try:
            yield
        finally:
            self.count()
            self._stack.pop()


def phase(name: str) -> AbstractContextManager[None]:
    """Counts the time of a `with` block as that of a phase, if phases are recorded in this thread."""
    recorder = _current.get()
    return _NOTHING if recorder is None else recorder.inside(name)
