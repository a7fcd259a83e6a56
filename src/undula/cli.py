"""The `undula` command. It checks, calls the library and prints; it computes nothing itself.

Exit status: 0 done; 2 bad input, with one sentence on stderr and nothing written; 3 the computation failed,
and the samples before the failure are saved; 130 interrupted. What is slow to import is imported by the
command that needs it.
"""

import difflib
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undula._startup import UndulaWarning
from undula._version import __version__
from undula.model.errors import UndulaError

if TYPE_CHECKING:
    from undula.gallery.scenario import Scenario, ScenarioRun

DONE, REFUSED, FAILED, INTERRUPTED = 0, 2, 3, 130
STATUS = {"ok": DONE, "failed": FAILED, "interrupted": INTERRUPTED}
UsageError: Any = typer.BadParameter.__bases__[0]  # newer versions of typer have their own copy of click

app = typer.Typer(name="undula", add_completion=False, pretty_exceptions_enable=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name that `undula list` gives.")]
File = Annotated[Path, typer.Argument(metavar="FILE.nc", help="A file that `undula run --out` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command with these arguments (those of the process by default), then exits."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _complain(f"warning: {message}")
        warnings.filterwarnings("always", category=UndulaWarning)
        sys.exit(_status(arguments))


def _status(arguments: Sequence[str] | None) -> int:
    try:
        given = sys.argv[1:] if arguments is None else arguments
        return app(args=given or ["--help"], prog_name="undula", standalone_mode=False) or DONE
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "undula"
        return _refuse(f"{error.format_message().rstrip('.')}; see `{where} --help`.")
    except UndulaError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted.")
        return INTERRUPTED


# Commands


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"undula {__version__}")
        raise typer.Exit(DONE)
    return wanted


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Locomotion dynamics: how robots and animals that change shape are moved by the world."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The gallery: name, one line, document and section, class."""
    from undula import gallery
    from undula.model.classify import classify

    _keep_compiled()
    rows = []
    for scenario in map(gallery.load, gallery.NAMES):
        kind = classify(scenario.setup().system)
        rows.append(
            {"name": scenario.name, "summary": scenario.summary, "source": scenario.source, "class": kind}
        )
    if as_json:
        return _print_json({"scenarios": rows})
    _print_table(["name", "what it is", "document", "class"], [list(row.values()) for row in rows])


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """What a scenario is made of and what can be set: parameters, bodies, joints, roles, class."""
    _keep_compiled()
    found = _describe(_load(name))
    if as_json:
        return _print_json(found)
    print(f"{found['name']}: {found['summary']}\ndocument: {found['source']}\nclass: {found['class']}")
    print(f"by default t_end = {found['t_end']:g} s, dt = {found['dt']:g} s")
    base = found["base"]
    print(
        f"base: {base['name']}, {base['role']}" + (f" in {base['group']}" if base["role"] != "fixed" else "")
    )
    columns = {"parameters": ["name", "default", "unit", "meaning", "allowed"], "bodies": ["name", "mass"]}
    columns |= {"joints": ["name", "type", "parent", "child"], "coordinates": ["name", "role", "unit"]}
    for what, keys in columns.items():
        _print_table(
            [k if k != "mass" else "mass [kg]" for k in keys],
            [[r[k] for k in keys] for r in found[what]],
            what,
        )


@app.command()
def run(
    name: Name,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A parameter: number, true/false, word or vector (1,2,3)."
        ),
    ] = None,
    t_end: Annotated[str | None, typer.Option(metavar="S", help="Simulated time [s].")] = None,
    dt: Annotated[str | None, typer.Option(metavar="S", help="Time step [s].")] = None,
    save_every: Annotated[str | None, typer.Option(metavar="K", help="Steps between samples.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.nc", help="Save the samples (NetCDF).")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the standard figures.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a 3D page in a single file.")
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> int:
    """Simulates a scenario of the gallery, saves and draws what is asked for."""
    from undula.gallery.scenario import run_scenario

    scenario = _load(name)
    parameters = scenario.values(_settings(settings or []))
    times = dict(
        t_end=_number("t_end", t_end), dt=_number("dt", dt), save_every=_whole("save_every", save_every)
    )
    _check_outputs(out, plot, html)
    _keep_compiled()

    report = _empty_report(scenario.name, parameters, times)
    with redirect_stdout(sys.stderr):  # whatever a library prints must not get between us and the JSON
        try:
            with _progress(sys.stderr.isatty() and not (quiet or as_json)) as progress:
                result = run_scenario(scenario, parameters, **times, progress=progress)
        except KeyboardInterrupt:
            _complain("interrupted: nothing was saved.")
            return INTERRUPTED
        except (RuntimeError, MemoryError) as error:  # XLA's and equinox's errors are RuntimeErrors
            report["message"] = f"{type(error).__name__}: {error}"
        else:
            report |= _results(result, times)
            _write(result.run.data, report, out, plot, html)
    (_print_json if as_json else _print_summary)(report)
    if report["status"] != "ok":
        _complain(_failure(report))
    return STATUS[report["status"]]


@app.command()
def plot(
    file: File,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; FILE-plots by default.")] = None,
) -> None:
    """Draws the standard figures of a saved run."""
    folder = out or file.with_name(f"{file.stem}-plots")
    _check_folder("out", folder)
    data = _open(file)
    from undula.view.plots import write_figures

    for path in write_figures(data, folder):
        print(path)


@app.command()
def view(
    file: File,
    port: Annotated[str, typer.Option(metavar="N", help="Port of the page on this machine.")] = "8080",
) -> None:
    """Shows a saved run in 3D, on a page for the browser; Ctrl-C ends it."""
    number = _whole("port", port)
    if not 1 <= number <= 65535:
        raise UndulaError(f"port = {port} is not allowed; it must be a whole number from 1 to 65535.")
    data = _open(file)
    from undula.view.page import serve

    try:
        serve(data, port=number, block=True)
    except KeyboardInterrupt:  # the way to end it
        pass


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Versions, devices, and whether the fast-loop option is active (some 10 s)."""
    from undula.doctor import examine

    found = examine()
    if as_json:
        return _print_json(found)
    rows = [[package, number] for package, number in found["versions"].items()]
    rows += [["devices", ", ".join(found["devices"])], ["64-bit numbers", found["x64"]]]
    rows += [
        ["XLA_FLAGS", found["xla_flags"]],
        ["fast-loop option", "active" if found["fast_loops"] else "not active"],
    ]
    rows += [["inverse dynamics, 11 links", _with_unit(found["fast_us"], "us")]]
    rows += [["the same without the option", _with_unit(found["slow_us"], "us")]]
    rows += [["compiled programs are kept in", _cache_folder() or "nowhere"]]
    _print_table(["what", "found"], rows)
    print(found["verdict"])


# Input


def _load(name: str) -> "Scenario":
    from undula import gallery

    if name not in gallery.NAMES:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), gallery.NAMES, 1, 0.5)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UndulaError(f"there is no scenario '{name}'{hint}; the gallery has {', '.join(gallery.NAMES)}.")
    return gallery.load(name)


def _settings(pairs: Sequence[str]) -> dict[str, str]:
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


def _number(name: str, text: str | None) -> Any:
    # parsed here and not by typer, so that the sentence is ours; ranges are checked by the library
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UndulaError(f"{name} = {text} is not allowed; it must be a number.") from None


def _whole(name: str, text: str | None) -> Any:
    number = _number(name, text)
    if number is not None and not number.is_integer():
        raise UndulaError(f"{name} = {text} is not allowed; it must be a whole number.")
    return None if number is None else int(number)


def _check_outputs(out: Path | None, plot: Path | None, html: Path | None) -> None:
    """Refuses what cannot be written, before anything is computed."""
    if out is not None:
        if out.suffix != ".nc":
            raise UndulaError(f"out = {out} is not allowed; the name must end in .nc.")
        _check_file("out", out)
    if html is not None:
        if out is not None and html.resolve() == out.resolve():
            raise UndulaError(f"html = {html} is not allowed; it must not be the file of --out.")
        _check_file("html", html)
    if plot is not None:
        _check_folder("plot", plot)


def _check_file(name: str, path: Path) -> None:
    try:
        if path.exists():
            if not path.is_file():
                raise UndulaError(f"{name} = {path} is not allowed; it is a folder, and must be a file.")
            path.open("r+b").close()  # changes nothing
        if not path.parent.is_dir():
            raise UndulaError(f"{name} = {path} is not allowed; the folder {path.parent} does not exist.")
        _check_writable(path.parent)
    except OSError as error:
        raise UndulaError(
            f"{name} = {path} is not allowed; it cannot be written ({error.strerror})."
        ) from None


def _check_folder(name: str, path: Path) -> None:
    """The folder may not exist yet, but it must be possible to make it."""
    try:
        first = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not first.is_dir():
            raise UndulaError(f"{name} = {path} is not allowed; {first} is a file, and must be a folder.")
        _check_writable(first)
    except OSError as error:
        raise UndulaError(
            f"{name} = {path} is not allowed; it cannot be written ({error.strerror})."
        ) from None


def _check_writable(folder: Path) -> None:
    # permission bits do not tell (read-only disks, root), so try: the file has no name or is removed at once
    tempfile.TemporaryFile(dir=folder).close()


def _open(file: Path) -> Any:
    if not file.is_file():
        raise UndulaError(f"file = {file} is not allowed; it must be a file that `undula run --out` wrote.")
    from undula.io.netcdf import load

    return load(file)


# Output


def _describe(scenario: "Scenario") -> dict[str, Any]:
    from undula.model.classify import classify

    setup = scenario.setup()
    top = setup.system.topology
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "source": scenario.source,
        "class": classify(setup.system),
        "t_end": setup.t_end,
        "dt": setup.dt,
        "parameters": [
            {
                k: getattr(p, k)
                for k in ("name", "default", "unit", "meaning", "allowed", "low", "high", "choices")
            }
            for p in scenario.parameters
        ],
        "base": {"name": top.bodies[0], "role": top.base_role, "group": top.base_group},
        "bodies": [{"name": n, "mass": float(m)} for n, m in zip(top.bodies, setup.system.mass)],
        "joints": [
            {"name": n, "type": t, "parent": top.bodies[p], "child": c}
            for n, t, p, c in zip(top.joints, top.joint_types, top.parents, top.bodies[1:])
        ],
        "coordinates": [
            {"name": n, "role": r, "unit": u} for n, r, u in zip(top.coordinates, top.roles, top.units)
        ],
    }


def _write(data: Any, report: dict[str, Any], out: Path | None, plot: Path | None, html: Path | None) -> None:
    """Writes what was asked for and reports the files; a full disk is a failure, not bad input."""
    files = report["files"]
    try:
        if out is not None:
            from undula.io.netcdf import save

            save(data, out)
            files["data"] = str(out)
        if plot is not None and data.sizes["time"]:
            from undula.view.plots import write_figures

            files["plots"] = [str(path) for path in write_figures(data, plot)]
        if html is not None and data.sizes["time"]:
            from undula.view.page import write_html

            write_html(data, html)
            files["html"] = str(html)
    except (OSError, UndulaError) as error:
        report |= {"status": "failed", "message": f"the results could not be written: {error}"}


def _empty_report(name: str, parameters: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """What a run reports, before it is known."""
    return {
        "scenario": name,
        "parameters": parameters,
        "class": None,
        "status": "failed",
        "message": "",
        "t_end": times["t_end"],
        "dt": times["dt"],
        "steps": 0,
        "compile_s": 0.0,
        "wall_s": 0.0,
        "real_time_factor": 0.0,
        "metrics": {},
        "files": {},
    }


def _results(result: "ScenarioRun", times: dict[str, Any]) -> dict[str, Any]:
    done = result.run
    dt = result.setup.dt if times["dt"] is None else times["dt"]
    return {
        "class": done.data.attrs["class"],
        "status": done.status,
        "message": done.message,
        "t_end": result.setup.t_end if times["t_end"] is None else times["t_end"],
        "dt": dt,
        "steps": done.steps,
        "compile_s": done.compile_s,
        "wall_s": done.wall_s,
        "real_time_factor": done.steps * dt / done.wall_s,
        "metrics": result.metrics,
    }


def _failure(report: dict[str, Any]) -> str:
    """One sentence: what happened, and where the samples before it are."""
    if "data" in report["files"]:
        kept = f"; the samples before it are in {report['files']['data']}"
    else:
        kept = "; --out would have saved the samples before it" if report["steps"] else ""
    return f"{report['status']}: {report['message'].rstrip('.')}{kept}."


def _print_summary(report: dict[str, Any]) -> None:
    rows = [["status", f"{report['status']}: {report['message']}"], ["class", report["class"] or "unknown"]]
    rows += [[f"metric {name}", f"{value:.6g}"] for name, value in report["metrics"].items()]
    rows += [["compilation", f"{report['compile_s']:.2f} s"], ["computation", f"{report['wall_s']:.3f} s"]]
    rows += [["speed", f"{report['real_time_factor']:.3g} times real time"]]
    for what, paths in report["files"].items():
        rows += [[what, path] for path in ([paths] if isinstance(paths, str) else paths)]
    _print_table(["run", report["scenario"]], rows)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:  # Text: brackets are not markup
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_words(value)) for value in row))
    width = None if sys.stdout.isatty() else 160  # a pipe has no width, and lines should stay whole
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_words, value)) if isinstance(value, tuple | list) else str(value)


def _with_unit(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.3g} {unit}"


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """value in JSON's types; JSON has no word for infinite or not a number but null."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _refuse(sentence: str) -> int:
    _complain(f"error: {' '.join(sentence.split())}")
    return REFUSED


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[float], None] | None]:
    """A progress bar on stderr that says "compiling" until the first report."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        yield lambda fraction: bar.update(task, description="running", total=1.0, completed=fraction)


# Compiled programs are kept between runs of the command


def _cache_folder() -> Path | None:
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


def _keep_compiled() -> None:
    """Makes JAX reuse what an earlier run compiled; without a folder to keep it in, all works as before."""
    import jax

    folder = _cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_writable(folder)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
