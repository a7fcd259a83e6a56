"""Result files: the samples of a run as NetCDF-4, written completely or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import numpy as np

from undula.core.errors import OutputError, UndulaError, a_dataset, a_path
from undula.record.checksum import checksum_line, is_damaged

if TYPE_CHECKING:
    import xarray as xr

ENGINE: Literal["h5netcdf"] = "h5netcdf"
COMPRESS_FROM = 2000  # numbers in a variable; below, the overhead of compressed chunks outweighs the gain
EXPECTED = ("time", "base_position", "base_quaternion", "position", "body_position", "body_quaternion")


def save(data: "xr.Dataset", path: str | os.PathLike) -> Path:
    """Writes the samples of a run to a NetCDF-4 file and returns its path.

    Compression is lossless. The file appears under its name only once it is complete: a write that fails leaves nothing
    behind, and an older file of that name is untouched.
    """
    a_dataset(data, "data")
    a_path(path, "path")
    with replacing(path) as part:
        try:
            # HDF5 aborts the process if it cannot write to a file (a full disk), so it writes to memory, which takes no more
            # than the data themselves
            image = data.to_netcdf(engine=ENGINE, encoding=_encoding(data))
        except MemoryError:
            raise OutputError(f"cannot write {path}: there is not enough memory.") from None
        write_bytes(part, image, checksum_line(image))
    return Path(path)


def load(path: str | os.PathLike) -> "xr.Dataset":
    """The samples in a result file, loaded into memory; the file is closed."""
    import xarray as xr

    source = Path(a_path(path, "path"))
    try:
        if source.is_dir():
            raise UndulaError(f"cannot read {source}: it is a folder; give the name of a result file (.nc).")
        if is_damaged(source):
            raise UndulaError(f"cannot read {source}: it is damaged; its bytes do not match its checksum.")
        _check_opens(source)
        data = _with_text(xr.load_dataset(source, engine=ENGINE, decode_times=False))
    except FileNotFoundError:
        raise UndulaError(f"cannot read {source}: there is no such file.") from None
    except PermissionError as problem:
        raise UndulaError(f"cannot read {source}: {reason(problem)}.") from None
    except UndulaError:
        raise
    except Exception:  # readers raise all kinds of errors on foreign or damaged files
        raise UndulaError(f"cannot read {source}: it is not a NetCDF-4 file, or it is damaged.") from None
    missing = [name for name in EXPECTED if name not in data.variables]
    if missing:
        raise UndulaError(f"cannot read {source}: it is not a result file; it lacks {', '.join(missing)}.")
    return data


_unfinished: set[Path] = set()  # files now being written beside their targets


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A file to write beside `path`, which replaces it at the end; it is removed if writing fails."""
    target = Path(path)
    part = target.with_name(f".{uuid4().hex}.part")
    try:
        check_target(target)
        _unfinished.add(part)
        yield part
        os.replace(part, target)
    except OSError as problem:
        raise OutputError(f"cannot write {target}: {reason(problem)}.") from None
    finally:
        with suppress(OSError):
            part.unlink()
        _unfinished.discard(part)


def remove_unfinished() -> None:
    """Removes the unfinished files of `replacing`, for a process that ends without unwinding."""
    for part in list(_unfinished):
        with suppress(OSError):
            part.unlink()


def write_bytes(path: Path, *pieces: bytes | memoryview) -> None:
    """Writes a new file and syncs it to disk, so that failures show here."""
    with open(path, "xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def check_target(target: Path) -> None:
    """Refuses targets on which a rename would fail or, worse, which it would replace: a folder, a device, a missing parent."""
    if target.is_dir():
        raise UndulaError(f"cannot write {target}: it is a folder; give the name of a file.")
    if target.exists() and not target.is_file():
        raise UndulaError(f"cannot write {target}: it is not a regular file.")
    if not target.parent.is_dir():
        what = "is not a folder" if target.parent.exists() else "does not exist"
        raise UndulaError(f"cannot write {target}: the folder {target.parent} {what}.")


def _check_opens(path: Path) -> None:
    """Opens the file with h5py first, because h5netcdf prints tracebacks about files that it cannot open."""
    import h5py

    with h5py.File(path, "r") as file:
        file.attrs.get("_nc3_strict")


def _encoding(data: "xr.Dataset") -> dict[str, dict]:
    """Storage of each variable: numeric ones are compressed from `COMPRESS_FROM` numbers on."""
    zipped = {"zlib": True, "complevel": 4, "shuffle": True}
    names = (n for n, x in data.variables.items() if x.dtype.kind in "fiu" and x.size >= COMPRESS_FROM)
    return {str(n): dict(zipped) for n in names}


def _with_text(data: "xr.Dataset") -> "xr.Dataset":
    """Names as fixed-width text, as in a fresh run: some versions of xarray read them as Python objects."""
    text = {n: x.astype(str) for n, x in data.variables.items() if x.dtype == np.dtype(object)}
    return data.assign({n: x for n, x in text.items() if n not in data.coords}).assign_coords(
        {n: x for n, x in text.items() if n in data.coords}
    )


def reason(problem: OSError) -> str:
    """The operating system's reason why a file cannot be used, without h5py's internals."""
    known = problem.strerror if problem.errno is not None and problem.strerror else None
    if known and "(" not in known:
        return known[0].lower() + known[1:]
    return os.strerror(problem.errno).lower() if problem.errno else "the file system refused it"
