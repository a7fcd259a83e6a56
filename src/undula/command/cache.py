"""Compiled programs are kept between runs of the command."""

import os
import sys
from pathlib import Path

from undula.command.input import check_writable


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
    """Makes JAX reuse what an earlier run compiled; without a folder to keep it in, all works as before."""
    import jax

    folder = cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
