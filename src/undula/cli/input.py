"""Input of the user: checked before anything runs, refused in one sentence."""

import difflib
import errno
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from undula.core.errors import OutputError, UndulaError
from undula.core.steps import check_times


def check_name(name: str) -> None:
    """Refuses a name that is not in the gallery, and suggests a similar one."""
    from undula import gallery

    if name not in gallery.NAMES:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), gallery.NAMES, 1, 0.5)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UndulaError(f"there is no scenario '{name}'{hint}; the gallery has {', '.join(gallery.NAMES)}.")


def check_run(name: str, settings: dict[str, str], times: dict[str, Any]) -> None:
    """Refuses parameters and times of a run, according to the catalogue: JAX is not needed yet.

    The library checks them again. Times that follow from parameters are left to it.
    """
    from undula.gallery import catalogue
    from undula.scenario.parameter import check_values

    check_name(name)
    check_values(name, catalogue.parameters(name), settings)
    usual = catalogue.catalogue().get(name, {})
    t_end, dt = (usual.get(k) if v is None and not settings else v for k, v in list(times.items())[:2])
    if t_end is not None and dt is not None:
        check_times(t_end, dt, times["save_every"])


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """The values of --set by name, as text."""
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not (key and equals):
            raise UndulaError(f"--set {pair} is not allowed; it must be key=value.")
        if key in out:
            raise UndulaError(f"{key} = {value} is not allowed; --set gave it the value {out[key]} already.")
        out[key] = value
    return out


def as_number(name: str, text: str | None) -> Any:
    # parsed here and not by typer, for a uniform error message; the library checks ranges
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UndulaError(f"{name} = {text} is not allowed; it must be a number.") from None


def as_whole(name: str, text: str | None) -> Any:
    number = as_number(name, text)
    if number is not None and not number.is_integer():
        raise UndulaError(f"{name} = {text} is not allowed; it must be a whole number.")
    return None if number is None else int(number)


def check_outputs(out: Path | None, plot: Path | None, html: Path | None) -> None:
    """Refuses files that cannot be written, before anything is computed."""
    if out is not None:
        if out.suffix != ".nc":
            raise UndulaError(f"out = {out} is not allowed; the name must end in .nc.")
        check_file("out", out)
    if html is not None:
        if out is not None and html.resolve() == out.resolve():
            raise UndulaError(f"html = {html} is not allowed; it must not be the file of --out.")
        check_file("html", html)
    if plot is not None:
        check_folder("plot", plot)


def check_file(name: str, path: Path) -> None:
    try:
        if path.exists():
            if not path.is_file():
                raise UndulaError(f"{name} = {path} is not allowed; it is a folder, and must be a file.")
            path.open("r+b").close()  # changes nothing
        if not path.parent.is_dir():
            raise UndulaError(f"{name} = {path} is not allowed; the folder {path.parent} does not exist.")
        check_writable(path.parent)
    except OSError as error:
        raise _refusal(name, path, error) from None


def check_folder(name: str, path: Path) -> None:
    """Refuses a folder that neither exists nor can be created."""
    try:
        first = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not first.is_dir():
            raise UndulaError(f"{name} = {path} is not allowed; {first} is a file, and must be a folder.")
        check_writable(first)
    except OSError as error:
        raise _refusal(name, path, error) from None


def _refusal(name: str, path: Path, error: OSError) -> UndulaError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(f"cannot write {name} = {path}: {str(error.strerror).lower()}.")
    return UndulaError(f"{name} = {path} is not allowed; it cannot be written ({error.strerror}).")


def check_writable(folder: Path) -> None:
    # permission bits are not reliable (read-only disks, root), so try: the file has no name or is removed at once
    tempfile.TemporaryFile(dir=folder).close()


def open_run(file: Path) -> Any:
    if not file.is_file():
        raise UndulaError(f"file = {file} is not allowed; it must be a file that `undula run --out` wrote.")
    from undula.record.netcdf import load

    return load(file)
