"""Failures of standard output: a full disk, a closed pipe."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from undula.core.errors import OutputError


class GuardedStream:
    """A text stream whose failures are `OutputError`s: rich and click would silently handle an OSError themselves."""

    def __init__(self, stream: Any):
        self._stream = stream
        self.failed = False

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as problem:
            raise self._failure(problem) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as problem:
            raise self._failure(problem) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _failure(self, problem: OSError) -> OutputError:
        self.failed = True
        return OutputError(f"cannot write to standard output: {(problem.strerror or str(problem)).lower()}.")


@contextmanager
def guarded_output() -> Iterator[GuardedStream]:
    """Guarded standard output; restored at the end."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: no other file may get its descriptor
            setattr(sys, name, open(os.devnull, "w"))
    stream = sys.stdout
    sys.stdout = guard = GuardedStream(stream)  # type: ignore[assignment]
    try:
        yield guard
    finally:
        sys.stdout = stream


def give_up_output() -> None:
    """Discards what is still in the buffer; otherwise Python would complain about it on exit."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
