"""The numbers on the pages are those of the benchmark results, and no speed is claimed elsewhere."""

import json
import re
from pathlib import Path

import pytest

import blocks
import record
import report

ROOT = Path(__file__).parents[1]


def test_pages_have_the_numbers_of_the_results():
    """Recorded results include all that the pages need, none from a quick run, and the pages agree with them."""
    found = report.results()
    changed, _ = report.pages(found)
    assert not changed, f"run benchmarks/report.py: {', '.join(p.name for p in changed)}"
    assert not any(x["quick"] for x in found.values())
    assert not found or not blocks.missing(record.RESULTS)


def test_blocks_and_pages_know_each_other():
    used = {m[2] for page in report.PAGES for m in report.BLOCK.finditer(page.read_text())}
    assert used == set(blocks.BLOCKS)
    for page in report.PAGES:
        text = page.read_text()
        assert text.count("<!-- bench:") == text.count("<!-- /bench -->") == len(report.BLOCK.findall(text))
    assert {x for needed, _ in blocks.BLOCKS.values() for x in needed} | {"gallery"} == set(blocks.SCRIPTS)
    for script in blocks.SCRIPTS.values():
        assert (ROOT / "benchmarks" / script.split()[0]).exists()


@pytest.mark.parametrize("name, start", [("README.md", "## Speed"), ("docs/performance.md", "# Performance")])
def test_no_measured_number_stands_outside_the_blocks(name, start):
    text = (ROOT / name).read_text().partition(start)[2].partition("\n## Conventions")[0]
    text = re.sub(r"^```.*?^```$", "", report.BLOCK.sub("", text), flags=re.S | re.M)
    measured = r"\d[\d.e]* ?(?:us|µs|ms|ns|GB|%)(?!\w)|\d(?:\.\d+)?e[4-9]\b|\d(?:\.\d+)? (?:times|per second|a second)"
    assert not re.findall(measured, text)


def test_a_block_is_made_of_its_results():
    values = dict(batch=100_000, steps=500, wall_s=3.21, per_s=1.558e7)
    found = {"gpu_gaits": dict(values=values, device="GPU")}
    text = "before\n\n<!-- bench:gpu-gaits -->\nold\n<!-- /bench -->\n\n<!-- bench:gpu -->\nkept\n<!-- /bench -->\n"
    new, left = report.rewritten(text, found)
    assert "take 3.2 s: 1.6e7 steps per second" in new and "old" not in new and "kept" in new
    assert left == ["gpu (needs gpu)"]


@pytest.mark.parametrize(
    "printed, value, expected",
    [
        ("1.803", 1.8034, "1.803"),
        ("1.803", 1.9, "1.900"),
        ("22.0", 21.9, "21.9"),
        ("6e-10", 9e-12, "6e-10"),  # rounding errors
        ("1.2e-4", 1.3e-4, "1.2e-4"),  # an order of magnitude
        ("1.2e-4", 5e-4, "5.0e-4"),
        ("about 6", 5.4, "about 6"),
        ("about 6", 3.2, "about 3"),
        ("3", 3.0, "3"),
        ("none", 2.0, "none"),
    ],
)
def test_metrics_keep_their_digits(printed, value, expected):
    row = "| `a`, `b` | m | what | {}, 7.5 |"
    assert report.with_metrics(row.format(printed), {"a": value, "b": 7.5}) == row.format(expected)


def test_results_say_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "ROOT", tmp_path)
    found = json.loads(record.write("some", dict(a=1.0), quick=False).read_text())
    assert found["values"] == {"a": 1.0} and not found["quick"]
    assert {"commit", "changed", "date", "processor", "device", "versions"} <= set(found)
    assert record.write("some", {}, quick=True).parent.name == "quick"
