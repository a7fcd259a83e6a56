"""Writes measured numbers into the pages: the text between `<!-- bench:NAME -->` and `<!-- /bench -->`, and the gallery's metrics.

    python benchmarks/report.py            rewrites README.md and docs from benchmarks/results/*.json
    python benchmarks/report.py --check    changes nothing; exit status 1 if a page does not have the numbers of the results

Blocks whose results are missing are left unchanged and listed.
"""

import argparse
import json
import math
import re
import sys
from pathlib import Path

from blocks import BLOCKS, SCRIPTS
from record import RESULTS, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- bench:([\w-]+) -->\n)(.*?)(\n<!-- /bench -->)", re.S)
METRIC = re.compile(r"^(\| (?:`\w+`(?:, )?)+ \| [^|]* \| [^|]* \| )([^|]*)( \|)$", re.M)
ROUNDING = 1e-8  # smaller metrics are rounding errors, which differ from machine to machine


def results(folder: Path = RESULTS) -> dict[str, dict]:
    """The available results, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stem in SCRIPTS}


def rewritten(text: str, found: dict[str, dict]) -> tuple[str, list[str]]:
    """(a page with the numbers of the results, the blocks left unchanged because results are missing)."""
    kept = []

    def block(match: re.Match) -> str:
        name = match[2]
        needed, make = BLOCKS[name]
        if needed and not set(needed) <= set(found):
            kept.append(f"{name} (needs {', '.join(x for x in needed if x not in found)})")
            return match[0]
        given = [found[x]["values"] | {"device": found[x]["device"]} for x in needed] or [found]
        return f"{match[1]}{make(*given)}{match[4]}"

    return BLOCK.sub(block, text), kept


def with_metrics(text: str, metrics: dict[str, float]) -> str:
    """A page of the gallery whose column "by default" has these metrics, with as many digits as before."""

    def row(match: re.Match) -> str:
        names, printed = re.findall(r"`(\w+)`", match[1]), match[2].split(", ")
        if len(names) != len(printed) or not set(names) <= set(metrics):
            return match[0]
        return match[1] + ", ".join(number(p, metrics[n]) for n, p in zip(names, printed)) + match[3]

    return METRIC.sub(row, text)


def number(printed: str, value: float) -> str:
    """The value with as many digits as the printed one; the printed one, if both agree."""
    about, _, digits = printed.rpartition(" ")
    try:
        before = float(digits)
    except ValueError:
        return printed  # words
    if not math.isfinite(value):
        return printed if not math.isfinite(before) else "nan"
    mantissa, _, power = digits.partition("e")
    decimals = len(mantissa.partition(".")[2])
    if about:  # "about 6"
        return printed if abs(value - before) <= 1 else f"{about} {value:.{decimals}f}"
    if max(abs(value), abs(before)) < ROUNDING:
        return printed
    if power:  # an order of magnitude: within a half
        same = abs(value - before) <= 0.5 * abs(before)
        return printed if same else re.sub(r"e([-+])0*(\d)", r"e\1\2", f"{value:.{decimals}e}").replace("e+", "e")
    # half a unit of the last digit, and a margin for values between two digits
    if abs(value - before) <= 0.75 * 10.0**-decimals:
        return printed
    return f"{value:.{decimals}f}"


def pages(found: dict[str, dict]) -> tuple[dict[Path, str], list[str]]:
    """(new texts of the pages that change, blocks left unchanged)."""
    changed, left = {}, []
    for page in PAGES:
        text = page.read_text()
        new, kept = rewritten(text, found)
        left += [f"{page.relative_to(ROOT)}: {x}" for x in kept]
        if new != text:
            changed[page] = new
    for name, entry in found.get("gallery", {"values": {}})["values"].items():
        page = ROOT / "docs" / "gallery" / f"{name}.md"
        text = page.read_text()
        if (new := with_metrics(text, entry["metrics"])) != text:
            changed[page] = new
    return changed, left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, report what differs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    changed, left = pages(results(options.results))
    for line in left:
        print(f"left as it is: {line}")
    for page, text in changed.items():
        print(f"{'differs' if options.check else 'written'}: {page.relative_to(ROOT)}")
        if not options.check:
            page.write_text(text)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
