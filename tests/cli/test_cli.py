"""The command line keeps its promises: exit status, one sentence, one JSON object, files."""

import json
import os
import subprocess
import sys

import pytest

from undula import gallery
from undula.cli import app as cli, doctor, output
from undula.core.errors import UndulaError
from undula.core.phases import PHASES
from undula.core.startup import FLAG, KEY, OPTION
from undula.numerics import store

PENDULUM = "double-pendulum"
SHORT = ("--t-end", "0.05", "--dt", "0.001")  # 51 samples: one chunk is one sample, also in failing runs
BLOWS_UP = ("--t-end", "100", "--dt", "2")
RUN_KEYS = [
    "scenario",
    "parameters",
    "class",
    "status",
    "message",
    "t_end",
    "dt",
    "steps",
    "compile_s",
    "wall_s",
]
RUN_KEYS += ["real_time_factor", "metrics", "reasons", "metric_units", "phases_s", "first_samples_s", "files"]


# Bad input


SET = ("run", PENDULUM, "--set")
RUN = ("run", PENDULUM)

REFUSED = {
    "scenario": (
        ("run", "duoble-pendulum"),
        ["'duoble-pendulum'", "did you mean 'double-pendulum'?", "satellite"],
    ),
    "scenario, far off": (("run", "zzz"), ["'zzz'", "falling-cat"]),
    "scenario to show": (("show", "chian", "--json"), ["'chian'", "did you mean 'chain'?"]),
    "parameter": ((*SET, "lenght=2"), ["'lenght'", "length, mass"]),
    "no equals sign": ((*SET, "length"), ["--set length", "key=value"]),
    "no key": ((*SET, "=3"), ["--set =3", "key=value"]),
    "twice": ((*SET, "mass=1", "--set", "mass=2"), ["mass = 2", "already"]),
    "not a number": ((*SET, "length=long"), ["length = long", "a number > 0 m"]),
    "nothing": ((*SET, "length="), ["length =", "a number > 0 m"]),
    "out of range": ((*SET, "length=-1"), ["length = -1", "> 0 m"]),
    "at an open limit": ((*SET, "length=0"), ["length = 0", "> 0 m"]),
    "nan": ((*SET, "mass=nan"), ["mass = nan", "> 0 kg"]),
    "short vector": ((*SET, "angles=1"), ["angles = 1", "2 numbers"]),
    "vector with a word": ((*SET, "angles=1,x"), ["angles = 1,x", "2 numbers"]),
    "not whole": (("run", "chain", "--set", "n=2.5"), ["n = 2.5", "a whole number"]),
    "infinite count": (("run", "chain", "--set", "n=inf"), ["n = inf", "a whole number"]),
    "too many": (("run", "chain", "--set", "n=1e6"), ["n = 1e6", "<= 1000"]),
    "not a choice": (("run", "chain", "--set", "joint=rope"), ["joint = rope", "planar, cardan"]),
    "dt zero": ((*RUN, "--dt", "0"), ["dt = 0 s", "positive"]),
    "dt negative": ((*RUN, "--dt", "-1"), ["dt = -1 s", "positive"]),
    "dt nan": ((*RUN, "--dt", "nan"), ["dt = nan s", "positive"]),
    "dt word": ((*RUN, "--dt", "fast"), ["dt = fast", "a number"]),
    "dt tiny": ((*RUN, "--dt", "1e-308"), ["dt = 1e-308 s", "at most 1e9"]),
    "dt too long": ((*RUN, "--dt", "2", "--t-end", "1"), ["dt = 2 s", "t_end = 1 s"]),
    "t_end infinite": ((*RUN, "--t-end", "inf"), ["t_end = inf s", "finite"]),
    "t_end zero": ((*RUN, "--t-end", "0"), ["t_end = 0 s", "positive"]),
    "save_every zero": ((*RUN, "--save-every", "0"), ["save_every = 0", "at least 1"]),
    "save_every negative": ((*RUN, "--save-every", "-3"), ["save_every = -3", "at least 1"]),
    "save_every fraction": ((*RUN, "--save-every", "1.5"), ["save_every = 1.5", "whole number"]),
    "save_every nan": ((*RUN, "--save-every", "nan"), ["save_every = nan", "whole number"]),
    "out in no folder": ((*RUN, "--out", "no/x.nc"), ["out = no/x.nc", "folder no does not exist"]),
    "out is a folder": ((*RUN, "--out", "folder.nc"), ["out = folder.nc", "must be a file"]),
    "out name": ((*RUN, "--out", "x.txt"), ["out = x.txt", "end in .nc"]),
    "out not writable": ((*RUN, "--out", "/proc/x.nc"), ["out = /proc/x.nc", "cannot be written"]),
    "html in no folder": ((*RUN, "--html", "no/x.html"), ["html = no/x.html", "does not exist"]),
    "html is a folder": ((*RUN, "--html", "folder.nc"), ["html = folder.nc", "must be a file"]),
    "html is out": ((*RUN, "--out", "x.nc", "--html", "./x.nc"), ["html = x.nc", "--out"]),
    "plot is a file": ((*RUN, "--plot", "text.nc"), ["plot = text.nc", "must be a folder"]),
    "plot under a file": ((*RUN, "--plot", "text.nc/a/b"), ["plot = text.nc/a/b", "must be a folder"]),
    "plot not writable": ((*RUN, "--plot", "/proc/x"), ["plot = /proc/x", "cannot be written"]),
    "no file to plot": (("plot", "no.nc"), ["no.nc", "undula run --out"]),
    "foreign file to plot": (("plot", "text.nc"), ["text.nc", "not a NetCDF-4 file"]),
    "foreign file to view": (("view", "text.nc"), ["text.nc", "not a NetCDF-4 file"]),
    "no file to view": (("view", "no.nc"), ["no.nc", "undula run --out"]),
    "port word": (("view", "text.nc", "--port", "http"), ["port = http", "a number"]),
    "port range": (("view", "text.nc", "--port", "70000"), ["port = 70000", "1 to 65535"]),
    "command": (("fly",), ["'fly'", "undula --help"]),
    "option": ((*RUN, "--speed", "3"), ["--speed", "undula run --help"]),
    "no name": (("run",), ["NAME", "undula run --help"]),
    "two names": ((*RUN, "chain"), ["chain", "undula run --help"]),
    "no value": ((*RUN, "--dt"), ["'--dt'", "--help"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_sentence(case, undula, here):
    (here / "folder.nc").mkdir()
    (here / "text.nc").write_text("not a result")
    arguments, words = REFUSED[case]
    json_too = ("--json",) if arguments[0] == "run" and arguments[-1] != "--dt" else ()
    code, out, err = undula(*arguments, *json_too)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("error: ") and err.endswith(".\n")
    for word in words:
        assert word in err
    assert sorted(p.name for p in here.iterdir()) == ["folder.nc", "text.nc"]
    assert (here / "text.nc").read_text() == "not a result"


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_folder_without_permission_is_refused(undula, here):
    (here / "locked").mkdir(mode=0o500)
    for option, name in (("--out", "x.nc"), ("--html", "x.html"), ("--plot", "figures")):
        code, _, err = undula(*RUN, option, f"locked/{name}")
        assert code == 2 and "Permission denied" in err


# Printed output


def test_list_json(undula):
    code, out, err = undula("list", "--json")
    rows = json.loads(out)["scenarios"]
    assert code == 0 and err == ""
    assert [row["name"] for row in rows] == list(gallery.NAMES)
    for row in rows:
        assert list(row) == ["name", "summary", "source", "class"]
        assert all(row.values())


def test_list_table(undula):
    code, out, _ = undula("list")
    assert code == 0
    assert all(name in out for name in gallery.NAMES)


def test_show_json(undula):
    code, out, err = undula("show", PENDULUM, "--json")
    found = json.loads(out)
    assert code == 0 and err == ""
    length = {"name": "length", "default": 1.0, "unit": "m", "meaning": "length of each rod"}
    length |= {"allowed": "a number > 0 m", "low": 0, "high": None, "open_low": True, "choices": []}
    assert found["parameters"][0] == length
    assert found["base"] == {"name": "pivot", "role": "fixed", "group": "SE3"}
    assert found["bodies"][1] == {"name": "upper", "mass": 1.0}
    assert found["joints"][1] == {"name": "lower", "type": "Revolute", "parent": "upper", "child": "lower"}
    assert found["coordinates"][0] == {"name": "upper", "role": "free", "unit": "rad"}
    assert found["class"].startswith("manipulator")
    assert found["t_end"] == 10.0 and found["dt"] == 1e-3


def test_show_table(undula):
    code, out, _ = undula("show", PENDULUM)
    assert code == 0
    for word in (
        "source: Boyer et al. 2019, figure 15",
        "Boyer et al. 2019: F. Boyer, J. Mauny, M. Porez",
        "a number > 0 m",
        "length of each rod",
        "mass [kg]",
        "Revolute",
        "free",
        "manipulator",
        "0.001 s",
    ):
        assert word in out


def test_version_and_help(undula):
    assert undula("--version")[:2] == (0, f"undula {cli.__version__}\n")
    for arguments in ((), ("--help",), ("run", "--help")):
        code, out, _ = undula(*arguments)
        assert code == 0 and "Usage: undula" in out
    assert "Simulated time [s]." in out and "Time step [s]." in out


def test_numbers_that_json_lacks_become_null():
    value = {"a": float("nan"), "b": (1.0, float("inf")), "c": {"d": True, "e": "x", "f": None}}
    assert output.plain(value) == {"a": None, "b": [1.0, None], "c": {"d": True, "e": "x", "f": None}}


# Runs


def test_run_json_and_file(undula, here):
    import xarray

    code, out, err = undula(*RUN, *SHORT, "--set", "angles=0.5,-0.5", "--set", "mass=2", "--out", "x.nc", "--json")
    found = json.loads(out)
    assert code == 0 and err == ""
    assert list(found) == RUN_KEYS
    assert found["parameters"] == {"length": 1.0, "mass": 2.0, "damping": 0.0, "angles": [0.5, -0.5]}
    assert (found["scenario"], found["status"], found["steps"]) == (PENDULUM, "ok", 50)
    assert (found["t_end"], found["dt"]) == (0.05, 0.001)
    assert found["real_time_factor"] == pytest.approx(0.05 / found["wall_s"])
    assert found["metrics"]["energy_drift"] < 1e-6 and found["metric_units"] == {
        "energy_drift": "J",
        "error_estimate": "1",
    }
    assert tuple(found["phases_s"]) == PHASES and min(found["phases_s"].values()) >= 0
    assert found["phases_s"]["run"] > 0 and found["first_samples_s"] > 0
    assert found["files"] == {"data": "x.nc"}
    with xarray.open_dataset("x.nc") as data:
        assert data.sizes["time"] == 51
        assert json.loads(data.attrs["parameters"]) == found["parameters"]
        assert data.attrs["class"] == found["class"]


def test_run_table_and_sampling(undula, here):
    code, out, err = undula(*RUN, *SHORT, "--save-every", "5", "--quiet", "--out", "x.nc")
    assert code == 0 and err == ""
    for word in ("ok: 50 steps", "energy_drift", " J ", "times real time", "whole command", "x.nc"):
        assert word in out
    from undula.record.netcdf import load

    assert load("x.nc").sizes["time"] == 11


def test_figures_and_page(undula, here, monkeypatch):
    """Both receive the samples of the run, and their output does not disturb the JSON."""
    from undula.view import page, plots

    seen = {}

    def write_figures(data, folder):
        print("drawing")
        seen["figures"] = data.sizes["time"]
        return [folder / "motion.png"]

    def write_html(data, path):
        print("serving")
        seen["page"] = data.sizes["time"]

    monkeypatch.setattr(plots, "write_figures", write_figures)
    monkeypatch.setattr(page, "write_html", write_html)
    code, out, err = undula(*RUN, *SHORT, "--plot", "new/figures", "--html", "x.html", "--json")
    assert code == 0 and err == "drawing\nserving\n"
    assert json.loads(out)["files"] == {
        "plots": [os.path.join("new", "figures", "motion.png")],
        "html": "x.html",
    }
    assert seen == {"figures": 51, "page": 51}


def test_plot_and_view_of_a_saved_run(undula, here, monkeypatch):
    from undula.view import page

    undula(*RUN, *SHORT, "--out", "x.nc", "--json")
    code, out, err = undula("plot", "x.nc")
    assert code == 0 and err == ""
    paths = out.splitlines()
    assert paths and all((here / path).stat().st_size > 0 for path in paths)
    assert all(path.startswith("x-plots") for path in paths)
    seen = {}
    monkeypatch.setattr(page, "serve", lambda data, port, block: seen.update(port=port, times=data.sizes["time"]))
    assert undula("view", "x.nc", "--port", "9000")[0] == 0
    assert seen == {"port": 9000, "times": 51}


# Failures


@pytest.mark.parametrize("as_json", [True, False])
def test_failed_computation_keeps_the_samples(as_json, undula, here):
    code, out, err = undula(*RUN, *BLOWS_UP, "--out", "x.nc", *(["--json"] if as_json else []))
    assert code == 3
    assert "t = " in err and "the samples before it are in x.nc" in err and "Traceback" not in err
    from undula.record.netcdf import load

    data = load("x.nc")
    assert 0 < data.sizes["time"] < 51
    assert data.attrs["status"] == "failed"
    if as_json:
        found = json.loads(out)
        assert list(found) == RUN_KEYS
        assert found["status"] == "failed" and found["message"] in data.attrs["message"]
        assert found["files"] == {"data": "x.nc"}
    else:
        assert "failed: " in out


def test_failed_computation_without_a_file(undula, here):
    code, _, err = undula(*RUN, *BLOWS_UP)
    assert code == 3 and "--out would have saved" in err
    assert not list(here.iterdir())


def test_a_start_that_cannot_be_computed_is_one_sentence(undula, here):
    code, out, err = undula(*SET, "length=1e-300", *SHORT, "--out", "x.nc", "--plot", "figures", "--json")
    assert code == 3 and err.count("\n") == 1 and "at the start" in err
    found = json.loads(out)
    assert found["status"] == "failed" and found["steps"] == 0 and found["files"] == {}
    assert not list(here.iterdir())


def test_doubtful_run_keeps_its_samples(undula, here, monkeypatch):
    from undula.integrate import engine
    from undula.record.netcdf import load
    from undula.view import plots

    monkeypatch.setattr(plots, "write_figures", lambda data, folder: [folder / data.attrs["status"]])
    monkeypatch.setattr(engine, "conclude", lambda *_: engine.Verdict("doubtful", "something was not solved."))
    code, out, err = undula(*RUN, *SHORT, "--out", "x.nc", "--plot", "figures", "--json")
    assert code == 3 and err == "doubtful: something was not solved; the samples are in x.nc.\n"
    found = json.loads(out)
    assert (
        found["status"] == "doubtful"
        and found["steps"] == 50
        and found["files"]["plots"] == [os.path.join("figures", "doubtful")]
    )
    assert load("x.nc").attrs["status"] == "doubtful" and load("x.nc").sizes["time"] == 51


def raising(error):
    def function(*_, **__):
        raise error

    return function


def test_error_of_the_compiler_is_a_failure(undula, here, monkeypatch):
    monkeypatch.setattr("undula.scenario.scenario.run_scenario", raising(RuntimeError("RESOURCE_EXHAUSTED")))
    code, out, err = undula(*RUN, "--out", "x.nc", "--json")
    assert code == 3 and "RESOURCE_EXHAUSTED" in err
    assert list(json.loads(out)) == RUN_KEYS
    assert not list(here.iterdir())


def test_full_disk_is_a_failure(undula, here, monkeypatch):
    monkeypatch.setattr("undula.record.netcdf.save", raising(UndulaError("cannot write x.nc: no space left.")))
    code, out, err = undula(*RUN, *SHORT, "--out", "x.nc", "--json")
    assert code == 3 and "no space left" in err
    assert json.loads(out)["files"] == {}


def test_interrupt(undula, here, monkeypatch):
    monkeypatch.setattr("undula.scenario.scenario.run_scenario", raising(KeyboardInterrupt()))
    code, out, err = undula(*RUN, "--json")
    assert code == 130 and out == "" and "interrupted" in err


# Whole processes


def test_process_prints_json_alone_and_keeps_what_it_compiled(here):
    environment = os.environ | {"XDG_CACHE_HOME": str(here), "LOCALAPPDATA": str(here), "HOME": str(here)}
    del environment["UNDULA_CACHE"]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-m", "undula", *RUN, *SHORT, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert list(json.loads(done.stdout)) == RUN_KEYS
    assert len([path.name for path in here.rglob("undula/programs/*.program")]) >= 2


def test_unusable_cache_folder_breaks_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("UNDULA_CACHE")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file"))
    assert store.folder() is None


# The doctor


def test_doctor_measures(undula):
    code, out, err = undula("doctor", "--json")
    found = json.loads(out)
    assert code == 0 and err == ""
    assert found["x64"] and found["fast_loops"] and KEY in found["xla_flags"]
    assert min(found["fast_us"], found["slow_us"], found["ratio"]) > 0 and found["verdict"]
    assert found["versions"]["jax"] and found["devices"]


def test_doctor_table(undula, monkeypatch):
    monkeypatch.setattr(doctor, "microseconds", lambda: 2.0)
    monkeypatch.setattr(doctor, "_microseconds_without", lambda: None)
    code, out, _ = undula("doctor")
    assert code == 0
    for word in ("jaxlib", "devices", OPTION, "2 us", "not measured", "could not be measured"):
        assert word in out


@pytest.mark.parametrize(
    ("active", "x64", "ratio", "well", "word"),
    [
        (True, True, 20.0, True, "20 times faster"),
        (True, True, 1.1, False, "only 1.1 times faster"),
        (True, True, None, False, "could not be measured"),
        (True, False, 20.0, False, "32 bits"),
        (False, True, 1.0, False, "import undula first"),
    ],
)
def test_verdict(active, x64, ratio, well, word):
    found, verdict = doctor.judge(active, x64, ratio)
    assert found == well and word in verdict


def test_doctor_accepts_a_jax_that_needs_no_option():
    well, verdict = doctor.judge(True, True, 1.0, fast=0.7)
    assert well and "without the fast-loop option" in verdict
    well, verdict = doctor.judge(True, True, 1.0, fast=21.0)
    assert not well and "may ignore it" in verdict


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{FLAG}={OPTION}", ""),
        (f"--other=1 {FLAG}=a=1,{OPTION},b=2", f"--other=1 {FLAG}=a=1,b=2"),
        ("--other=1", "--other=1"),
    ],
)
def test_option_can_be_taken_out(before, after):
    assert doctor.without_option(before) == after
