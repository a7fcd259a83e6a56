"""The catalogue says what the gallery says, and the command answers from it without JAX."""

import json
import os
import subprocess
import sys
import warnings

import pytest

import undula as un
from undula import gallery
from undula.core.startup import UndulaWarning
from undula.gallery import catalogue
from undula.gallery.sources import REFERENCES, cited
from undula.scenario.describe import describe
from undula.scenario.parameter import as_record, from_record
from undula.scenario.scenario import Parameter, Scenario, Setup, run_scenario

WITHOUT_JAX = """
import sys
from undula.cli.app import main

for arguments in {commands!r}:
    try:
        main(arguments)
    except SystemExit as end:
        print(arguments, end.code, file=sys.stderr)
slow = ("jax", "numpy", "scipy", "xarray", "equinox", "matplotlib")
print("slow:", [x for x in slow if x in sys.modules], file=sys.stderr)
"""
COMMANDS = {
    ("--version",): 0,
    ("--help",): 0,
    ("run", "--help"): 0,
    ("list",): 0,
    ("list", "--json"): 0,
    ("show", "hexapod"): 0,
    ("show", "aiko-slope", "--json"): 0,
    ("run", "hexapd"): 2,
    ("run", "hexapod", "--set", "hieght=1"): 2,
    ("run", "hexapod", "--set", "height=-1"): 2,
    ("run", "hexapod", "--set", "shift=1,2"): 2,
    ("run", "hexapod", "--dt", "0"): 2,
    ("run", "hexapod", "--t-end", "-1", "--dt", "1"): 2,
    ("run", "hexapod", "--out", "x.txt"): 2,
}


def test_nothing_slow_is_imported_to_list_to_show_and_to_refuse(here):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    code = WITHOUT_JAX.format(commands=[list(x) for x in COMMANDS])
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    for arguments, status in COMMANDS.items():
        assert f"{list(arguments)} {status}\n" in done.stderr
    assert done.stderr.endswith("slow: []\n")


@pytest.mark.parametrize("name", gallery.NAMES)
def test_parameters_and_units_are_those_of_the_entry(name):
    scenario, found = gallery.load(name), catalogue.catalogue()[name]
    assert catalogue.parameters(name) == scenario.parameters
    assert [repr(p.default) for p in catalogue.parameters(name)] == [repr(p.default) for p in scenario.parameters]
    assert (found["summary"], found["source"]) == (scenario.summary, scenario.source)
    assert {x["name"]: x["unit"] for x in found["metrics"]} == scenario.metric_units
    assert cited(scenario.source) or "classic" in scenario.source


SMALL = ("double-pendulum", "free-body", "four-bar")


@pytest.mark.parametrize("name", [n if n in SMALL else pytest.param(n, marks=pytest.mark.long) for n in gallery.NAMES])
def test_descriptions_are_those_of_the_entry(name):
    assert catalogue.agree(json.loads(json.dumps(describe(gallery.load(name)))), catalogue.catalogue()[name])


@pytest.mark.long
@pytest.mark.parametrize("name", gallery.NAMES)
def test_every_metric_has_a_unit(name):
    scenario = gallery.load(name)
    dt = scenario.setup().dt
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndulaWarning)  # remarks on a run that ends too early
        metrics = run_scenario(scenario, t_end=40 * dt, dt=dt).metrics
    assert set(metrics) == {*scenario.metric_units, "error_estimate"}


def test_the_file_is_as_it_would_be_written():
    assert list(catalogue.catalogue()) == list(gallery.NAMES)
    assert catalogue.written(catalogue.catalogue()) == catalogue.FILE.read_text(encoding="utf-8")


def test_descriptions_agree_but_for_rounding():
    one = {"a": [1.0, 1e-16], "b": 1}
    assert catalogue.agree(one, {"a": [1.0 + 1e-12, 0.0], "b": 1})
    for other in ({"a": [1.001, 1e-16], "b": 1}, {"a": [1.0], "b": 1}, {"b": 1, "a": [1.0, 0.0]}, one | {"b": 1.0}):
        assert not catalogue.agree(one, other)


PARAMETERS = (
    Parameter("number", 1.5, "m", "a limit of each kind", low=0, open_low=True, high=2.0),
    Parameter("count", 3, "", "no limits"),
    Parameter("vector", (1.0, 2.0), "m", "two numbers", low=-1.0),
    Parameter("switch", True, "", "true or false"),
    Parameter("word", "a", "", "one of two", choices=("a", "b")),
)


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda p: p.name)
def test_parameters_survive_the_file(parameter):
    back = from_record(json.loads(json.dumps(as_record(parameter))))
    assert back == parameter and type(back.default) is type(parameter.default)
    assert back.allowed == parameter.allowed


def test_an_entry_outside_the_catalogue_is_built(monkeypatch, undula):
    """A scenario that is not in the file yet is shown and run all the same, and its metrics may have no units."""

    def build(p):
        b = un.Builder("ball", gravity=(0, 0, -p["gravity"]))
        b.base("ball", role="free", mass=1.0, inertia=(1.0, 1.0, 1.0))
        system = b.build()
        return Setup(system, system.state(), t_end=1.0, dt=0.1)

    def metrics(setup, data):
        return {"z": data.base_position.values[-1, 2], "t": data.time.values[-1]}

    gravity = Parameter("gravity", 2.0, "m/s^2", "gravity", low=0)
    own = Scenario("ball", "A falling ball", "ours", (gravity,), build, metrics, metric_units={"z": "m"})
    load = gallery.load
    monkeypatch.setattr(gallery, "NAMES", (*gallery.NAMES, "ball"))
    monkeypatch.setattr(gallery, "load", lambda name: own if name == "ball" else load(name))
    assert run_scenario(own).metrics["z"] == pytest.approx(-1.0)
    assert json.loads(undula("show", "ball", "--json")[1])["metrics"] == [{"name": "z", "unit": "m"}]
    code, out, _ = undula("run", "ball", "--set", "gravity=4", "--json")
    found = json.loads(out)
    assert code == 0 and found["metrics"]["z"] == pytest.approx(-2.0)
    assert found["metric_units"] == {"z": "m", "t": "", "error_estimate": "1"}
    assert undula("run", "ball", "--set", "gravity=-1")[0] == 2


def test_references_are_those_of_the_page():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text().replace("*", "")
    for short, full in REFERENCES.items():
        assert short in page and full in page
