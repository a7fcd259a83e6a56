"""Output for the user: files, tables, JSON, a progress bar."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undula.core.errors import UndulaError

if TYPE_CHECKING:
    from undula.cli.signals import Signals
    from undula.scenario.scenario import ScenarioRun

DONE, REFUSED, FAILED, INTERRUPTED = 0, 2, 3, 130  # exit status of the command
NOT_WRITTEN = "the results could not be written"


def write(
    data: Any, report: dict[str, Any], out: Path | None, plot: Path | None, html: Path | None, signals: "Signals"
) -> None:
    """Writes the requested files and reports them; a full disk is a failure, not bad input.

    The samples are written whatever signals arrive; one more signal after the one that stopped the run skips the figures.
    """
    files = report["files"]
    enough = 2 if report["status"] == "interrupted" else 1
    try:
        if out is not None and data.sizes["time"]:
            from undula.record.netcdf import save

            save(data, out)
            files["data"] = str(out)
        for key, where, draw in (("plots", plot, _draw_figures), ("html", html, _draw_page)):
            if where is None or not data.sizes["time"]:
                continue
            if len(signals.received) >= enough:
                stopped = report["message"] if enough == 2 else f"stopped by {signals.source} after the run."
                report |= {"status": "interrupted", "message": f"{stopped.rstrip('.')}; not everything was drawn."}
                break
            files[key] = draw(data, where)
    except (OSError, UndulaError) as error:
        report |= {"status": "failed", "message": f"{NOT_WRITTEN}: {error}"}


def _draw_figures(data: Any, folder: Path) -> list[str]:
    from undula.view.plots import write_figures

    return [str(path) for path in write_figures(data, folder)]


def _draw_page(data: Any, path: Path) -> str:
    from undula.view.page import write_html

    write_html(data, path)
    return str(path)


def empty_report(name: str, parameters: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """The report of a run before there are results."""
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
        "reasons": {},
        "metric_units": {},
        "phases_s": {},
        "first_samples_s": None,
        "files": {},
    }


def results(result: "ScenarioRun") -> dict[str, Any]:
    """What was actually done, not what was requested: `t_end` is the time of the last sample."""
    done = result.run
    units = result.scenario.metric_units | {"error_estimate": "1"}
    return {
        "class": done.data.attrs["class"],
        "status": done.status,
        "message": done.message,
        "t_end": float(done.data.time[-1]) if done.data.sizes["time"] else 0.0,
        "dt": done.dt,
        "steps": done.steps,
        "compile_s": done.compile_s,
        "wall_s": done.wall_s,
        "real_time_factor": done.steps * done.dt / done.wall_s,
        "metrics": result.metrics,
        "reasons": result.reasons,
        "metric_units": {name: units.get(name, "") for name in result.metrics},
    }


def failure(report: dict[str, Any], out: Path | None) -> str:
    """One sentence: what happened, and where the samples are."""
    files, kept = report["files"], ""
    samples = "the samples" if report["status"] == "doubtful" else "the samples before it"
    if "data" in files:
        kept = f"; {samples} are in {files['data']}"
    elif "partial" in files:
        kept = f"; the samples of its first part are in {files['partial']}"
    elif out is None and report["steps"] and not report["message"].startswith(NOT_WRITTEN):
        kept = f"; --out would have saved {samples}"
    return f"{report['status']}: {report['message'].rstrip('.')}{kept}."


def print_summary(report: dict[str, Any]) -> None:
    rows = [["status", f"{report['status']}: {report['message']}"], ["class", report["class"] or "unknown"]]
    units = {name: "" if unit == "1" else f" {unit}" for name, unit in report["metric_units"].items()}
    why = report["reasons"]
    rows += [
        [f"metric {name}", f"{value:.6g}: {why[name]}" if name in why else f"{value:.6g}{units[name]}"]
        for name, value in report["metrics"].items()
    ]
    rows += [["compilation", f"{report['compile_s']:.2f} s"], ["computation", f"{report['wall_s']:.3f} s"]]
    spent = {name: seconds for name, seconds in report["phases_s"].items() if seconds >= 0.005}
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    rows += [["whole command", f"{sum(report['phases_s'].values()):.2f} s: {parts}"]]
    rows += [["speed", f"{report['real_time_factor']:.3g} times real time"]]
    for what, paths in report["files"].items():
        rows += [[what, path] for path in ([paths] if isinstance(paths, str) else paths)]
    print_table(["run", report["scenario"]], rows)


def print_references(references: dict[str, str]) -> None:
    """The publications behind the short names of sources."""
    for short, full in references.items():
        print(f"{short}: {full}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:  # Text: brackets are not markup
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(words(value)) for value in row))
    width = None if sys.stdout.isatty() else 160  # a pipe has no width, and lines should not be wrapped
    console = Console(file=sys.stdout, width=width, highlight=False)
    with console.capture() as text:  # rich itself ends the process when a pipe is closed
        console.print(table)
    print(text.get(), end="")


def words(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(words, value)) if isinstance(value, tuple | list) else str(value)


def with_unit(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.3g} {unit}"


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """value in JSON types; infinite numbers and NaN become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def refuse(sentence: str) -> int:
    complain(f"error: {' '.join(sentence.split())}")
    return REFUSED


def fail(sentence: str) -> int:
    refuse(sentence)
    return FAILED


def complain(text: str) -> None:
    with suppress(OSError):  # there is nowhere left to print it
        print(text, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[float], None] | None]:
    """A progress bar on stderr that says "compiling" until the first report."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        yield lambda fraction: bar.update(task, description="running", total=1.0, completed=fraction)
