"""A cache of compiled programs between runs of the command."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from undula.cli.input import check_writable

LIMIT = 500_000_000  # size of the cache in bytes; a gallery entry takes about a million


def cache_folder() -> Path | None:
    """Where JAX keeps compiled programs: the user's choice, or the platform's usual place."""
    if chosen := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # an account without a home
        return None
    if sys.platform == "darwin":
        place = home / "Library" / "Caches"
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return place / "undula" / "jax"


def keep_compiled() -> None:
    """Makes JAX reuse what earlier runs compiled; does nothing if there is no folder for the cache."""
    import jax

    folder = cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
    except OSError:
        return
    trim(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # many tiny programs take seconds together


def trim(folder: Path, limit: int = LIMIT) -> None:
    """Removes the least recently used programs until the others take at most half of `limit` bytes.

    Nothing is removed while all take less than `limit`. JAX's own limit is not used: it needs another package and examines
    every file whenever it stores one.
    """
    found = []
    for path in folder.glob("*-cache"):
        try:
            state = path.stat()
        except OSError:  # another process was quicker
            continue
        found.append((max(state.st_atime, state.st_mtime), state.st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found):
        if total <= limit / 2:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
