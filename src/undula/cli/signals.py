"""Signals that ask the command to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, all treated alike.

As long as nothing has been computed, the first one ends the command at once. Later it is remembered: the run stops at the
end of the chunk that is being computed, and everything that was asked for is written. A second one gives up the figures and
the page that are not written yet; the samples are written in any case, and further signals change nothing.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from undula.core import early

WAIT = b"stopping: the samples are written in any case; figures and pages are left out.\n"


class Signals:
    """What has been asked, and whether to remember it or to obey at once."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.patient = False  # remember
        self.raising = False  # or raise KeyboardInterrupt, for a command that Ctrl-C ends

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number).name)
        if self.patient:
            if len(self.received) == 2:
                os.write(2, WAIT)
        elif self.raising or not early.COMMAND:  # another program's process is not ours to end
            raise KeyboardInterrupt
        else:
            from undula.record.netcdf import remove_unfinished

            remove_unfinished()
            early.end_at_once(number)

    @property
    def source(self) -> str:
        """Who asked first."""
        return "the user" if self.received[0] == "SIGINT" else self.received[0]

    def stop_if_asked(self) -> None:
        """Ends the run that calls it, if a signal was received."""
        if self.received:
            raise KeyboardInterrupt(self.source)


_current = [Signals()]


def current() -> Signals:
    """What answers the signals of the command that is being run."""
    return _current[-1]


@contextmanager
def listening() -> Iterator[None]:
    """Answers the signals; afterwards the command's process ignores them until it has ended, others get their handlers back."""
    before = {number: signal.getsignal(number) for number in early.ENDING}
    _current.append(Signals())
    changed = early.answer(current())
    try:
        yield
    finally:
        _current.pop()
        for number in changed:
            signal.signal(number, signal.SIG_IGN if early.COMMAND else before[number])
