"""A checksum behind the last byte of a result file, so that damage is noticed before HDF5 reads it.

HDF5 ends where its own header says, and ignores what follows; a program that changes the file cuts it off there, and the
checksum with it. A file without a checksum (an older one, one that others wrote or changed) is simply read.
"""

import os
import zlib
from pathlib import Path

MARK = b"\nundula crc32 "
SIZE = len(MARK) + 9  # the mark, eight hexadecimal digits, the end of the line
BLOCK = 1 << 20  # bytes that are read at once


def checksum_line(content: bytes | memoryview) -> bytes:
    """What is written behind these bytes."""
    return MARK + b"%08x\n" % zlib.crc32(content)


def is_damaged(path: str | os.PathLike) -> bool:
    """Whether a file has a checksum that its bytes do not have."""
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
