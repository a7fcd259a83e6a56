"""Signals that reach the `undula` command while it is still being imported.

This is imported first of all, and imports next to nothing itself. Python's own answer to Ctrl-C is an exception, which
during imports ends in a traceback or, raised inside a callback, is lost. Where undula is used as a library, nothing is
touched. What the command does with signals later is in `undula.cli.signals`.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130  # exit status
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def is_command() -> bool:
    """Whether this process is the `undula` command, or `python -m undula`, and not a program that uses the library."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name == "-m":  # while Python imports the package that it was told to run
        words = sys.orig_argv
        return "-m" in words and words[words.index("-m") + 1 : words.index("-m") + 2] == ["undula"]
    return name in ("undula", "undula.exe", "undula-script.py")


def answer(handler: Callable[[int, FrameType | None], None]) -> list[int]:
    """Lets `handler` answer the signals that ask a process to end, and returns which.

    Not those that the process was started to ignore (nohup), and none outside the main thread, where Python has no say.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    answered = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in answered:
        signal.signal(number, handler)
    return answered


def end_at_once(number: int, frame: FrameType | None = None) -> None:
    """Ends the process in one sentence: exceptions may be lost inside callbacks, and wait for threads that compile."""
    name = signal.Signals(number).name
    if os.isatty(2):  # a progress bar hides the cursor
        os.write(2, b"\r\x1b[2K\x1b[?25h")
    try:
        os.write(2, f"interrupted by {name}; nothing was saved.\n".encode())
    except OSError:
        pass
    os._exit(INTERRUPTED)


COMMAND = is_command()
if COMMAND:
    answer(end_at_once)
