"""Compiled programs in files.

A file holds a magic word, the SHA-256 of its name and of the rest, and the compressed program: XLA aborts on damaged ones, so
the sum is checked first. Files are written aside and put in place at once; two processes may write the same one. Loading runs
code: the folder must belong to the user, and nobody else may write to it.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from undula.core.cache import cache_folder, private_folder, trim

MAGIC = b"undula programs 2\n"
SUFFIX = ".program"
ABANDONED = 3600.0  # age of a file that nobody is writing any more [s]

_writers: list[ThreadPoolExecutor] = []
_pending: list[Future] = []


def folder() -> Path | None:
    """The folder of programs; None if the cache is off, or the folder is not the user's alone."""
    return _usable(os.environ.get("UNDULA_CACHE"), os.environ.get("HOME"), os.environ.get("XDG_CACHE_HOME"))


@functools.lru_cache(maxsize=8)
def _usable(*environment: str | None) -> Path | None:
    root = cache_folder()
    if root is None or not private_folder(root / "programs"):
        return None
    trim(root / "programs", f"*{SUFFIX}")
    for path in (root / "programs").glob("*.part"):  # of a process that ended while it wrote
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()
    return root / "programs"


@functools.cache
def environment() -> str:
    """All that a program depends on besides its function and arguments: code, versions, options, processor."""
    import equinox
    import jaxlib

    one = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        one.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    config: Any = jax.config
    parts = (
        MAGIC,
        (jax.__version__, jaxlib.__version__, equinox.__version__, np.__version__, sys.version),
        os.environ.get("XLA_FLAGS", ""),
        (config.jax_enable_x64, config.jax_default_matmul_precision, config.jax_numpy_dtype_promotion),
        processor(),
    )
    one.update(repr(parts).encode())
    return one.hexdigest()


def processor() -> tuple[str, ...]:
    """Model and features of the processor: XLA loads a program for features that are missing, which then crashes."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        return tuple(x for x in lines if x.startswith(("model", "flags", "Features", "CPU", "vendor_id", "cpu family")))
    return platform.machine(), platform.processor(), platform.version()


_hits = threading.local()


def _notice(event: str, **_: Any) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        _hits.count = getattr(_hits, "count", 0) + 1


@functools.cache
def _listen() -> None:
    jax.monitoring.register_event_listener(_notice)


def borrowed() -> int:
    """How many programs this thread has got from JAX's own cache, if the user has one.

    XLA does not write such a program a second time as a whole: functions are missing in it, and it would fail when it runs.
    """
    _listen()
    return getattr(_hits, "count", 0)


def has(digest: str) -> bool:
    """Whether there is a file for a program."""
    where = folder()
    return where is not None and (where / f"{digest}{SUFFIX}").exists()


def load(digest: str) -> tuple[Callable[..., Any], Any, tuple[Any, ...]] | None:
    """A program, the structure of its results and their static leaves; None if the file is missing or damaged."""
    from jax.experimental.serialize_executable import deserialize_and_load

    where = folder()
    if where is None:
        return None
    path = where / f"{digest}{SUFFIX}"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or _sum(digest, body) != data[len(MAGIC) : len(MAGIC) + 32]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    try:
        payload, count, example, kinds = pickle.loads(zlib.decompress(body))
        structure = jax.tree.structure(example)
        inside, outside = (
            jax.tree.structure(((0,) * count, {})),
            jax.tree.structure([0] * sum(x is None for x in kinds)),
        )
        _start_lapack()
        executable = deserialize_and_load(payload, inside, outside)
    except Exception:  # a file of another version, or of classes that are gone: it is made again
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return executable, structure, kinds


@functools.cache
def _start_lapack() -> None:
    """Programs that call LAPACK need its addresses, which JAX otherwise looks up while it traces."""
    from jaxlib import lapack

    lapack._lapack.initialize()


def keep(digest: str, executable: Any, structure: Any, kinds: tuple[Any, ...]) -> None:
    """Writes a program into the folder, in another thread; a program that cannot be written is not kept."""
    if not _writers:
        _writers.append(ThreadPoolExecutor(1, thread_name_prefix="undula-cache"))
    _pending[:] = [x for x in _pending if not x.done()]
    try:
        _pending.append(_writers[0].submit(_write, digest, executable, structure, kinds))
    except RuntimeError:  # the interpreter is about to end
        _write(digest, executable, structure, kinds)


def _sum(digest: str, body: bytes) -> bytes:
    """What tells damaged programs, and those of other names."""
    return hashlib.sha256(digest.encode() + body).digest()


def finish() -> None:
    """Waits until all programs are written."""
    for x in list(_pending):
        x.result()


def _write(digest: str, executable: Any, structure: Any, kinds: tuple[Any, ...]) -> None:
    from jax.experimental.serialize_executable import serialize

    where = folder()
    if where is None:
        return
    example = jax.tree.unflatten(structure, range(structure.num_leaves))
    try:
        payload, inside, _ = serialize(executable)
        body = zlib.compress(pickle.dumps((payload, inside.num_leaves, example, kinds)), 1)
        data = MAGIC + _sum(digest, body) + body
        number, name = tempfile.mkstemp(dir=where, suffix=".part")
    except Exception:  # a full disk, or a result that only means something in this process
        return
    try:
        with open(number, "wb") as file:
            file.write(data)
        os.replace(name, where / f"{digest}{SUFFIX}")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
