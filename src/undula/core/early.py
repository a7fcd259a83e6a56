"""Handling of signals that reach the `undula` command while it is still being imported.

This module is imported before all others and itself imports almost nothing. Python's default response to Ctrl-C is an
exception, which during imports ends in a traceback or, if raised inside a callback, is lost. When undula is used as a
library, no handlers are installed. Later signals are handled by `undula.cli.signals`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

STARTED = time.perf_counter()  # [s]: when the command began, but for some hundredths of a second of the interpreter's
INTERRUPTED = 130  # exit status
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def is_command() -> bool:
    """Whether this process is the `undula` command or `python -m undula`, not a program that uses the library."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name == "-m":  # while Python imports the package that it was asked to run
        words = sys.orig_argv
        return "-m" in words and words[words.index("-m") + 1 : words.index("-m") + 2] == ["undula"]
    return name in ("undula", "undula.exe", "undula-script.py")


def answer(handler: Callable[[int, FrameType | None], None]) -> list[int]:
    """Installs `handler` for the signals that ask a process to terminate, and returns these signals.

    Signals that the process was started to ignore (nohup) stay ignored. Outside the main thread, where Python cannot
    install handlers, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    answered = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in answered:
        signal.signal(number, handler)
    return answered


def end_at_once(number: int, frame: FrameType | None = None) -> None:
    """Prints one sentence and exits: an exception could be lost inside a callback, or wait for compiling threads."""
    name = signal.Signals(number).name
    if os.isatty(2):  # a progress bar may have hidden the cursor
        os.write(2, b"\r\x1b[2K\x1b[?25h")
    try:
        os.write(2, f"interrupted by {name}; nothing was saved.\n".encode())
    except OSError:
        pass
    os._exit(INTERRUPTED)


def leave(status: int) -> None:
    """Ends the process of the command at once: all output is written, and JAX would take 0.3 s to clean up after itself."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


COMMAND = is_command()
if COMMAND:
    answer(end_at_once)
