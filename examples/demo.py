"""The showcase: runs gallery entries and writes their figures and 3D pages to out/demo."""

import sys
from pathlib import Path

from rich.console import Console

from undula import gallery
from undula.scenario.scenario import run_scenario
from undula.view.page import write_html
from undula.view.plots import write_figures

NAMES = ("falling-cat", "satellite", "space-arm", "double-pendulum", "robot-arm")


def main(folder: Path = Path("out/demo")) -> int:
    console = Console()
    for name in NAMES:
        scenario = gallery.load(name)
        with console.status(f"{name}: {scenario.summary}"):
            result = run_scenario(scenario)
            figures = write_figures(result.run.data, folder / name)
            page = write_html(result.run.data, folder / name / "motion.html")
        numbers = ", ".join(f"{key} = {value:.4g}" for key, value in result.metrics.items())
        console.print(f"[bold]{name}[/bold]: {scenario.summary}\n  {numbers}")
        console.print(f"  {len(figures)} figures in {folder / name}, 3D page {page}", highlight=False)
        if not result.run.ok:
            console.print(f"  failed: {result.run.message}")
            return 3
    console.print(f"\nOpen [bold]{folder / NAMES[0] / 'motion.html'}[/bold] in a browser.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
