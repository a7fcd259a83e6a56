"""What the documentation says is true: its example runs, its tables are whole, its links lead somewhere."""

import re
from pathlib import Path

import pytest

import undula as un
from undula import gallery

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_example_of_the_readme_runs_as_printed(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert code is not None and len(code[1].strip().splitlines()) <= 12
    exec(compile(code[1], "README.md", "exec"), {})
    assert "[" in capsys.readouterr().out


@pytest.mark.parametrize("name", gallery.NAMES)
def test_gallery_pages_list_every_parameter_and_have_a_picture(name):
    page = (ROOT / "docs" / "gallery" / f"{name}.md").read_text()
    for parameter in gallery.load(name).parameters:
        assert f"| `{parameter.name}` |" in page
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size > 2000


def test_every_public_name_is_listed():
    page = (ROOT / "docs" / "api.md").read_text()
    public = set(re.findall(r" as (\w+)", (ROOT / "src" / "undula" / "__init__.py").read_text()))
    assert len(public) > 50
    for name in public - {"__version__"}:
        assert hasattr(un, name) and f"| `{name}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
