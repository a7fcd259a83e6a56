"""The `undula` command. It checks, calls the library and prints; it computes nothing itself.

Exit status: 0 done; 2 bad input, with one sentence on stderr and nothing written; 3 the computation failed (the samples
before the failure are saved) or is doubtful, or a requested file could not be written; 130 interrupted by a signal, samples
kept. Modules that are slow to import are imported by the command that needs them.
"""

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from undula.cli.input import (
    as_number,
    as_whole,
    check_folder,
    check_name,
    check_outputs,
    check_run,
    open_run,
    parse_settings,
)
from undula.cli.output import (
    DONE,
    FAILED,
    INTERRUPTED,
    complain,
    empty_report,
    fail,
    failure,
    print_json,
    print_references,
    print_summary,
    print_table,
    progress_bar,
    refuse,
    results,
    with_unit,
    write,
)
from undula.cli.signals import current, listening
from undula.cli.streams import give_up_output, guarded_output
from undula.core import early
from undula.core.errors import OutputError, UndulaError
from undula.core.phases import Recorder, phase
from undula.core.startup import UndulaWarning
from undula.core.steps import check_tolerance
from undula.core.version import __version__

STATUS = {"ok": DONE, "doubtful": FAILED, "failed": FAILED, "interrupted": INTERRUPTED}
UsageError: Any = typer.BadParameter.__bases__[0]  # newer versions of typer have their own copy of click

# without rich's markup, which takes the brackets of units, and without rich, which takes time to import
app = typer.Typer(name="undula", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from `undula list`.")]
File = Annotated[Path, typer.Argument(metavar="FILE.nc", help="A file written by `undula run --out`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command with these arguments (by default, those of the process), then exits."""
    with warnings.catch_warnings(), listening(), guarded_output() as output:
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        warnings.filterwarnings("always", category=UndulaWarning)
        status = _status(arguments)
        if not output.failed:
            try:
                output.flush()
            except OutputError as error:
                status = fail(str(error))
        if output.failed:
            give_up_output()
    if early.COMMAND:
        for name in ("undula.integrate.tiers", "undula.numerics.store"):
            if module := sys.modules.get(name):
                module.finish()  # programs that are still being made, if it is worth it, or written
        early.leave(status)
    sys.exit(status)


def _status(arguments: Sequence[str] | None) -> int:
    try:
        given = sys.argv[1:] if arguments is None else arguments
        return app(args=given or ["--help"], prog_name="undula", standalone_mode=False) or DONE
    except OutputError as error:
        return fail(str(error))
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "undula"
        return refuse(f"{error.format_message().rstrip('.')}; see `{where} --help`.")
    except UndulaError as error:
        return refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted.")
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
    """Locomotion dynamics: how robots and animals move by changing shape."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Lists the gallery: name, summary, source, class."""
    from undula import gallery
    from undula.gallery.catalogue import description
    from undula.gallery.sources import REFERENCES

    found = map(description, gallery.NAMES)
    rows = [{key: entry[key] for key in ("name", "summary", "source", "class")} for entry in found]
    if as_json:
        return print_json({"scenarios": rows, "references": REFERENCES})
    print_table(["name", "what it is", "source", "class"], [list(row.values()) for row in rows])
    print_references(REFERENCES)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Describes a scenario: parameters, bodies, joints, roles, class."""
    from undula.gallery.catalogue import description
    from undula.gallery.sources import cited

    check_name(name)
    found = description(name)
    references = cited(found["source"])
    if as_json:
        return print_json(found | {"references": references})
    print(f"{found['name']}: {found['summary']}\nsource: {found['source']}\nclass: {found['class']}")
    print(f"by default t_end = {found['t_end']:g} s, dt = {found['dt']:g} s")
    base = found["base"]
    print(f"base: {base['name']}, {base['role']}" + (f" in {base['group']}" if base["role"] != "fixed" else ""))
    if found["ranks"]:
        r = found["ranks"]
        print(
            f"constraints: {', '.join(found['constraints'])}\n"
            f"ranks (tolerance {r['tolerance']:g}): {r['rows']} rows, m = {r['m']}, m° = {r['m_locked']}, "
            f"n + s_p = {r['unknown']}; {r['motion']}, {r['statics'] or 'all rows slip'}"
        )
        for what in ("kinematic", "dynamic"):
            if r[what]:
                print(f"passive coordinates, {what}: {', '.join(r[what])}")
        if r["residual"] > r["tolerance"]:
            print(f"the driven motion violates the rows by {r['residual']:.3g}: it is not compatible with them")
    columns = {"parameters": ["name", "default", "unit", "meaning", "allowed"], "metrics": ["name", "unit"]}
    columns |= {"bodies": ["name", "mass"]}
    columns |= {"joints": ["name", "type", "parent", "child"], "coordinates": ["name", "role", "unit"]}
    for what, keys in columns.items():
        print_table(
            [k if k != "mass" else "mass [kg]" for k in keys],
            [[r[k] for k in keys] for r in found[what]],
            what,
        )
    print_references(references)


@app.command()
def run(
    name: Name,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter: number, true/false, word or vector (1,2,3)."),
    ] = None,
    t_end: Annotated[str | None, typer.Option(metavar="S", help="Simulated time [s].")] = None,
    dt: Annotated[str | None, typer.Option(metavar="S", help="Time step [s].")] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="X", help="Allowed error, which chooses the step in place of --dt, e.g. 1e-3.")
    ] = None,
    save_every: Annotated[str | None, typer.Option(metavar="K", help="Steps between samples.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.nc", help="Save the samples (NetCDF).")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the standard figures.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a 3D page in a single file.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    reproducible: Annotated[
        bool, typer.Option("--reproducible", help="The same bits in every run: wait for optimised code.")
    ] = False,
) -> int:
    """Simulates a scenario of the gallery, saves and draws what is requested."""
    given = parse_settings(settings or [])
    times = dict(t_end=as_number("t_end", t_end), dt=as_number("dt", dt), save_every=as_whole("save_every", save_every))
    allowed = as_number("tolerance", tolerance)
    check_tolerance(allowed, times["dt"])
    check_run(name, given, times)
    check_outputs(out, plot, html)

    with Recorder("import", early.STARTED if early.COMMAND else None) as recorder:
        shown = sys.stderr.isatty() and not (quiet or as_json)
        report = _run(name, given, times, allowed, out, plot, html, shown, reproducible)
        report["phases_s"] |= recorder.count()
    (print_json if as_json else print_summary)(report)
    if report["status"] != "ok":
        complain(failure(report, out))
    return STATUS[report["status"]]


def _run(
    name: str,
    given: dict[str, str],
    times: dict[str, Any],
    tolerance: float | None,
    out: Path | None,
    plot: Path | None,
    html: Path | None,
    shown: bool,
    reproducible: bool,
) -> dict[str, Any]:
    """Runs a scenario and writes the files; returns the report."""
    from undula import gallery
    from undula.record.partial import PartialFile
    from undula.scenario.scenario import run_scenario

    scenario = gallery.load(name)
    parameters = scenario.values(given)

    report = empty_report(scenario.name, parameters, times)
    signals = current()
    partial = None if out is None else PartialFile(out)

    def on_samples(count: int, since: Callable[[int], Any]) -> None:
        if report["first_samples_s"] is None:
            report["first_samples_s"] = time.perf_counter() - early.STARTED
        signals.patient = True  # there is something to lose now
        if partial is not None:
            with phase("write"):
                partial.offer(count, since)
        signals.stop_if_asked()

    with redirect_stdout(sys.stderr):  # output of other libraries must not mix with the JSON
        try:
            with progress_bar(shown) as progress:
                result = run_scenario(
                    scenario,
                    parameters,
                    **times,
                    progress=progress,
                    on_samples=on_samples,
                    tolerance=tolerance,
                    reproducible=reproducible,
                )
        except KeyboardInterrupt:
            complain("interrupted: nothing was saved.")
            raise typer.Exit(INTERRUPTED) from None
        except (RuntimeError, MemoryError) as error:  # XLA's and equinox's errors are RuntimeErrors
            report["message"] = f"{type(error).__name__}: {error}"
        else:
            report |= results(result)
            with phase("write"):
                write(result.run.data, report, out, plot, html, signals)
        if partial is not None:
            with phase("write"):
                partial.close(keep="data" not in report["files"])
            if partial.published:
                report["files"]["partial"] = str(partial.path)
    return report


@app.command()
def plot(
    file: File,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the figures; FILE-plots by default.")
    ] = None,
) -> None:
    """Draws the standard figures of a saved run."""
    folder = out or file.with_name(f"{file.stem}-plots")
    check_folder("out", folder)
    data = open_run(file)
    from undula.view.plots import write_figures

    for path in write_figures(data, folder):
        print(path)


@app.command()
def view(
    file: File,
    port: Annotated[str, typer.Option(metavar="N", help="Port of the page on this machine.")] = "8080",
) -> None:
    """Shows a saved run in 3D on a page for the browser; Ctrl-C ends it."""
    number = as_whole("port", port)
    if not 1 <= number <= 65535:
        raise UndulaError(f"port = {port} is not allowed; it must be a whole number from 1 to 65535.")
    data = open_run(file)
    from undula.view.page import serve

    current().raising = True
    try:
        serve(data, port=number, block=True)
    except KeyboardInterrupt:  # the usual way to end it
        pass


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Prints versions, devices, and whether the fast-loop option is active (takes about 10 s)."""
    from undula.cli.doctor import examine

    found = examine()
    if as_json:
        return print_json(found)
    rows = [[package, number] for package, number in found["versions"].items()]
    rows += [["devices", ", ".join(found["devices"])], ["64-bit numbers", found["x64"]]]
    rows += [
        ["XLA_FLAGS", found["xla_flags"]],
        ["fast-loop option", "active" if found["fast_loops"] else "not active"],
    ]
    rows += [["inverse dynamics, 11 links", with_unit(found["fast_us"], "us")]]
    rows += [["the same without the option", with_unit(found["slow_us"], "us")]]
    cache = found["cache"]
    rows += [["compiled programs are kept in", cache["folder"] or "nowhere"]]
    if cache["folder"]:
        rows += [
            [
                "kept programs",
                f"{cache['programs']}, {cache['bytes'] / 1e6:.1f} MB of at most {cache['limit'] / 1e6:.0f} MB",
            ]
        ]
    print_table(["what", "found"], rows)
    print(found["verdict"])
