"""Signals that ask the command to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, all treated alike.

As long as nothing has been computed, the first one ends the command at once. Later it is deferred: the run stops at the end
of the current chunk, and all requested files are written. A second one skips the figures and the page that are not written
yet; the samples are written in any case, and further signals have no effect.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from undula.core import early

WAIT = b"stopping: the samples are written in any case; figures and pages are skipped.\n"


class Signals:
    """Signals received, and whether to defer them or to act at once."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.patient = False  # defer
        self.raising = False  # or raise KeyboardInterrupt, for a command that is ended by Ctrl-C

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number).name)
        if self.patient:
            if len(self.received) == 2:
                os.write(2, WAIT)
        elif self.raising or not early.COMMAND:  # the process of another program must not be ended
            raise KeyboardInterrupt
        else:
            from undula.record.netcdf import remove_unfinished

            remove_unfinished()
            early.end_at_once(number)

    @property
    def source(self) -> str:
        """Source of the first signal."""
        return "the user" if self.received[0] == "SIGINT" else self.received[0]

    def stop_if_asked(self) -> None:
        """Ends the run that calls it, if a signal was received."""
        if self.received:
            raise KeyboardInterrupt(self.source)


_current = [Signals()]


def current() -> Signals:
    """The signal handler of the running command."""
    return _current[-1]


@contextmanager
def listening() -> Iterator[None]:
    """Handles the signals; afterwards the command's process ignores them until it ends, others get their handlers back."""
    before = {number: signal.getsignal(number) for number in early.ENDING}
    _current.append(Signals())
    changed = early.answer(current())
    try:
        yield
    finally:
        _current.pop()
        for number in changed:
            signal.signal(number, signal.SIG_IGN if early.COMMAND else before[number])
