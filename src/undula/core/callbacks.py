"""Python functions that compiled programs call: what becomes of their errors.

An error that is raised inside a callback reaches the caller as an error of XLA, with a traceback of ours. A run collects such
errors instead: the callback returns NaN, which ends the run at the sample where it occurred, with the reason.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from undula.core.errors import UndulaError

_collecting: list[list[str]] = []


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collects the errors of callbacks, in words, until the end of the block."""
    found: list[str] = []
    _collecting.append(found)
    try:
        yield found
    finally:
        _collecting.remove(found)


def guarded(work: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The result of `work`; NaN if that raises an `UndulaError` while errors are collected."""
    try:
        return work()
    except UndulaError as error:
        if not _collecting:
            raise
        _collecting[-1].append(str(error))
        return np.full(shape, np.nan)
