"""The folder in which compiled programs are kept between processes, its limit, and the switch that turns it off."""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

SWITCH = "UNDULA_CACHE"  # environment variable: a folder, or "off"
LIMIT = 500_000_000  # size of each kind of programs [bytes]; a gallery entry takes one or two million


def cache_folder() -> Path | None:
    """The user's choice, or the platform's usual place; None if the cache is turned off or there is no such place."""
    chosen = os.environ.get(SWITCH, "").strip()
    if chosen.lower() in ("off", "0", "no", "false", "none"):
        return None
    if chosen:
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
    return place / "undula"


def private_folder(path: Path) -> bool:
    """Makes a folder that only the user can write to, and says whether it is one: programs from it will be executed."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return False
    if not os.access(path, os.W_OK | os.X_OK):
        return False
    return not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def trim(folder: Path, pattern: str, limit: int = LIMIT) -> None:
    """Removes the least recently used files until the others take at most half of `limit` bytes.

    Nothing is removed while all take less than `limit`.
    """
    found = []
    for path in folder.glob(pattern):
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
