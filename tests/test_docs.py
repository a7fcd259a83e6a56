"""The documentation is correct: its examples run, its tables are complete, its links work."""

import ast
import operator
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import undula as un
from undula import gallery

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def blocks(page: Path) -> list[str]:
    """The Python code blocks of a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.S | re.M)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


def test_the_example_of_the_readme_runs_as_printed(capsys):
    (code,) = blocks(ROOT / "README.md")
    assert len(code.strip().splitlines()) <= 12
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    capsys.readouterr()
    data = names["run"].data
    said = [float(x) for line in code.splitlines()[-2:] for x in re.findall(r"\d+\.\d+", line.partition("#")[2])]
    w, x, y, z = data.base_quaternion.values[-1]
    found = [w, z, 2 * np.arctan2(z, w), *np.abs(data.effort.values).max(0)]
    np.testing.assert_allclose(found, said, atol=0.006)
    assert x == y == 0


@each_page
def test_code_compiles(page):
    for code in blocks(page):
        ast.parse(code)


@each_page
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("name", gallery.NAMES)
def test_gallery_pages_are_whole(name):
    page = DOCS / "gallery" / f"{name}.md"
    text = page.read_text()
    scenario = gallery.load(name)
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*\|$", text, re.M)}
    for parameter in scenario.parameters:
        row = rows[parameter.name]
        assert f"| {parameter.unit or '-'} | {parameter.meaning} | {parameter.allowed} |" in row
        default = row.split("|")[2].strip()
        if not isinstance(parameter.default, str):
            np.testing.assert_allclose(parameter.parse(default.replace(" ", "")), parameter.default, rtol=1e-5)
    table = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|.*\|.*\|$", text[text.index("| metric | unit |") :], re.M)
    units = {metric: unit for row, unit in table for metric in re.findall(r"`(\w+)`", row)}
    assert units == scenario.metric_units
    assert f"undula run {name}" in text and f"](../images/{name}.png)" in text
    assert f"gallery/{name}.md" in (ROOT / "mkdocs.yml").read_text()
    assert f"gallery/{name}.md" in (ROOT / "README.md").read_text()


def test_pictures_are_small_and_all_are_shown():
    shown = {Path(x).name for page in PAGES for x in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())}
    pictures = sorted((DOCS / "images").iterdir())
    assert {p.name for p in pictures} == shown
    for picture in pictures:
        assert 2_000 < picture.stat().st_size < 150_000, picture.name
    assert sum(p.stat().st_size for p in pictures) < 4_000_000


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS)}\n" in menu


def test_every_public_name_is_documented():
    listed = re.findall(r"^::: undula\.([\w.]+)$", (DOCS / "api.md").read_text(), re.M)
    spaces = [name for name in un.__all__ if isinstance(getattr(un, name), ModuleType) and name != "gallery"]
    public = [name for name in un.__all__ if name not in (*spaces, "gallery", "__version__")]
    public += [f"{space}.{name}" for space in spaces for name in getattr(un, space).__all__]
    assert len(public) > 150 and sorted(listed) == sorted(public)
    assert all(operator.attrgetter(name)(un).__doc__ for name in listed)
    found = [operator.attrgetter(name)(un) for name in public]
    places = [f"{x.__module__}.{x.__qualname__}" for x in found if not isinstance(x, ModuleType)]
    assert len(places) == len(set(places))  # each name has one import path


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_examples_compile_and_have_a_title(example):
    text = example.read_text()
    title = ast.get_docstring(ast.parse(text))
    assert title and len(text.splitlines()) <= 65


def test_the_first_example_runs_and_its_result_is_documented(capsys):
    names = runpy.run_path(str(ROOT / "examples" / "01_pendulum.py"))
    assert names["run"].ok
    assert names["period"] == pytest.approx(names["theory"], rel=1e-6)
    page, data = (DOCS / "results.md").read_text(), names["run"].data
    for variable in data.data_vars:
        assert f"| `{variable}` | {', '.join(data[variable].dims)} |" in page
    for dimension in data.dims:
        assert f"| {dimension} |" in page
    assert not [x for x in data.attrs if f"`{x}`" not in page]


@pytest.mark.long
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if blocks(p)], ids=lambda p: p.stem)
def test_pages_run(page, tmp_path):
    """Runs the blocks of a page in order, in a separate process and folder. The README has its own test."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    code = "\n".join(blocks(page))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
