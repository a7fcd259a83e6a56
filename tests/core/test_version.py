"""The version is one number everywhere."""

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import undula as un

ROOT = Path(__file__).parents[2]


def first(pattern: str, file: str) -> str:
    return re.search(pattern, (ROOT / file).read_text(), re.M)[1]


def test_files_agree():
    assert re.fullmatch(r"\d+\.\d+\.\d+", un.__version__)
    assert first(r"^version: (\S+)$", "CITATION.cff") == un.__version__
    assert first(r"^## (\S+)", "CHANGELOG.md") == un.__version__  # the newest section
    assert first(r'^__version__ = "(\S+)"$', "src/undula/core/version.py") == un.__version__


def test_package_takes_it_from_the_source():
    """The build reads the version; a package installed from this folder also has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/undula/core/version.py"
    try:
        installed = distribution("undula")
    except PackageNotFoundError:
        pytest.skip("undula is not installed, only on the path")
    source = json.loads(installed.read_text("direct_url.json") or "{}").get("url", "")
    if source != ROOT.as_uri():
        pytest.skip(f"undula is installed from {source or 'elsewhere'}, not from this folder")
    assert installed.version == un.__version__
