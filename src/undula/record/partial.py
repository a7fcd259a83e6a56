"""The samples of a run so far, in a file that can be opened at any time, even after the process was killed.

While `FILE.nc` is being computed, `FILE.partial.nc` holds the samples up to a few seconds ago; it is removed once `FILE.nc`
exists. An older `FILE.nc` stays until then. There are two copies of the partial file, and each append goes to the older one,
which then takes the name of the other: whenever the process ends, the file of that name is complete. So every number is
written twice, however long the run. HDF5 cannot cope with a failing disk, so it works on a file in memory (`Overlay`), whose
changes are written afterwards.
"""

import io
import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undula.core.startup import UndulaWarning
from undula.record.netcdf import ENGINE, reason

if TYPE_CHECKING:
    import xarray as xr

EVERY = 3.0  # shortest time between two appends [s]
SHARE = 0.03  # largest fraction of the time spent on appending; slow appends are made less often
CHUNK = 1 << 14  # bytes per chunk of a variable


class PartialFile:
    """The partial file of a run that will be saved as `target`."""

    def __init__(self, target: str | os.PathLike):
        self.path = Path(target).with_suffix(".partial.nc")
        self.spare = Path(target).with_suffix(".partial.nc~")
        self.published = False
        self._written = [0, 0]  # samples in the published file and in the spare one
        self._next: float | None = None  # time of the next append

    def offer(self, count: int, since: Callable[[int], "xr.Dataset"]) -> None:
        """Appends the samples up to number `count`, if it is time; `since` returns those from a number on.

        A full disk does not end the run: it continues without the file, or with the file as it is.
        """
        began = time.monotonic()
        if self._next is None:
            self._next = began + EVERY
        if began < self._next:
            return
        if count < max(self._written):  # the run was restarted
            self._written = [0, 0]
        try:
            new = since(self._written[1])
            with open(self.spare, "r+b" if self._written[1] else "w+b") as file:
                overlay = Overlay(file)
                _append(overlay, new, self._written[1])
                overlay.commit()
            self._publish()
        except (OSError, MemoryError) as problem:
            why = reason(problem) if isinstance(problem, OSError) else "there is not enough memory"
            warnings.warn(
                f"cannot write {self.path}: {why}; the run goes on, and its samples are saved at its end.",
                UndulaWarning,
                stacklevel=2,
            )
            self._next = math.inf
            self._remove(self.spare)
            return
        self._written = [count, self._written[0]]
        now = time.monotonic()
        self._next = now + max(EVERY, (now - began) / SHARE)

    def close(self, keep: bool) -> None:
        """Ends the writing; the file is removed unless `keep`."""
        self._next = math.inf
        if self.published:  # otherwise such files belong to other runs
            self._remove(self.spare)
        if self.published and not keep:
            self._remove(self.path)
            self.published = False

    def _publish(self) -> None:
        """Swaps the names of the spare file and the published file."""
        if not self.published:
            os.replace(self.spare, self.path)
            self.published = True
            return
        other = self.path.with_suffix(".nc~~")
        try:
            self._remove(other)
            os.link(self.path, other)
        except OSError:  # a file system without links: for a moment, no file has the name
            os.rename(self.path, other)
        os.replace(self.spare, self.path)
        os.replace(other, self.spare)

    @staticmethod
    def _remove(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


class Overlay(io.RawIOBase):
    """A binary file whose changes stay in memory until `commit` writes them."""

    PAGE = 1 << 12

    def __init__(self, file: io.BufferedRandom):
        self._file = file
        self._pages: dict[int, bytearray] = {}
        self._size = file.seek(0, os.SEEK_END)
        self._at = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        return self._size

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        wanted = max(0, min(len(view), self._size - self._at))
        while done < wanted:
            number, start = divmod(self._at, self.PAGE)
            length = min(self.PAGE - start, wanted - done)
            view[done : done + length] = self._page(number)[start : start + length]
            done, self._at = done + length, self._at + length
        return wanted

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        done = 0
        while done < len(view):
            number, start = divmod(self._at, self.PAGE)
            length = min(self.PAGE - start, len(view) - done)
            if number not in self._pages:
                self._pages[number] = bytearray(self._page(number))
            self._pages[number][start : start + length] = view[done : done + length]
            done, self._at = done + length, self._at + length
        self._size = max(self._size, self._at)
        return done

    def commit(self) -> None:
        """Writes the changes, through to the disk."""
        for number in sorted(self._pages):
            self._file.seek(number * self.PAGE)
            self._file.write(self._pages[number])
        self._file.truncate(self._size)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _page(self, number: int) -> bytes | bytearray:
        if number in self._pages:
            return self._pages[number]
        self._file.seek(number * self.PAGE)
        return self._file.read(self.PAGE).ljust(self.PAGE, b"\0")


def _append(file: Overlay, new: "xr.Dataset", begin: int) -> None:
    """Appends samples to the first `begin` samples of a file, which is created if `begin` is 0."""
    import h5netcdf

    if not begin:
        new.to_netcdf(file, engine=ENGINE, encoding=_encoding(new), unlimited_dims=["time"])
        return
    end = begin + new.sizes["time"]
    with h5netcdf.File(file, "r+") as opened:
        opened.resize_dimension("time", end)
        for name, variable in new.variables.items():
            if "time" in variable.dims:
                opened.variables[name][begin:end] = variable.values


def _encoding(data: "xr.Dataset") -> dict[str, dict]:
    """Chunks of a few samples, uncompressed, so that an append changes only the last chunks."""
    out = {}
    for name, variable in data.variables.items():
        if "time" in variable.dims and variable.size:
            sample = variable.nbytes // variable.sizes["time"]
            out[str(name)] = {"chunksizes": (max(1, CHUNK // sample), *variable.shape[1:])}
    return out
