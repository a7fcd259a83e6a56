"""A checksum after the last byte of a result file, so that damage is detected before HDF5 reads it.

HDF5 data end where their header says, and whatever follows is ignored; a program that changes the file truncates it there and
so removes the checksum. A file without a checksum (older, or written or changed by another program) is read without a check.
"""

import os
import zlib
from pathlib import Path

MARK = b"\nundula crc32 "
SIZE = len(MARK) + 9  # the mark, eight hexadecimal digits, the end of the line
BLOCK = 1 << 20  # bytes read at once


def checksum_line(content: bytes | memoryview) -> bytes:
    """The line that follows these bytes."""
    return MARK + b"%08x\n" % zlib.crc32(content)


def is_damaged(path: str | os.PathLike) -> bool:
    """Whether a file has a checksum that does not match its bytes."""
    size = Path(path).stat().st_size - SIZE
    if size < 0:
        return False
    with open(path, "rb") as file:
        file.seek(size)
        line = file.read()
        if not line.startswith(MARK):
            return False
        file.seek(0)
        found = 0
        while size:
            block = file.read(min(BLOCK, size))
            if not block:
                return True
            found, size = zlib.crc32(block, found), size - len(block)
    return line[len(MARK) :] != b"%08x\n" % found
