"""Nothing crashes and nothing is lost: full disks, signals, killed processes, damaged files."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import undula as un
from undula.cli import app as cli
from undula.core import early as _early
from undula.integrate import progress
from undula.record import checksum, netcdf, partial
from undula.view import checked, page, plots, shapes

RUN = ("run", "double-pendulum", "--t-end", "0.05", "--dt", "0.001", "--json")
SAMPLES = 51


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The samples of a run, as read from a file."""
    path = tmp_path_factory.mktemp("run") / "x.nc"
    with pytest.raises(SystemExit):
        cli.main([*RUN, "--out", str(path)])
    return un.load(path)


@pytest.fixture
def one_figure(monkeypatch):
    """Draws only the energy figure, to save time."""
    for name in ("_motion", "_path", "_coordinates", "_efforts"):
        monkeypatch.setattr(plots, name, lambda data: None)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def one_sentence(text):
    return text.count("\n") == 1 and text.endswith(".\n") and "Traceback" not in text


# A full disk


@contextmanager
def small_disk(size):
    """Files of this process cannot grow beyond this many bytes; to HDF5 this looks like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("write", [un.save, plots.write_figures, page.write_html])
def test_a_full_disk_is_an_error_and_leaves_the_older_files(write, data, here, one_figure):
    target = old = here / "old"
    if write is plots.write_figures:
        target.mkdir()
        old = target / "energy.png"
    old.write_text("old")
    with small_disk(5000), pytest.raises(un.UndulaError, match=r"cannot write .*: file too large"):
        write(data, target)
    assert [p.read_text() for p in here.rglob("*") if p.is_file()] == ["old"]


@pytest.mark.parametrize("option", ["--out", "--plot", "--html"])
def test_a_run_on_a_full_disk_ends_in_one_sentence(option, undula, here, data, one_figure):
    with small_disk(5000):
        code, out, err = undula(*RUN, option, "x.nc")
    assert code == 3 and one_sentence(err) and "x.nc" in err and "file too large" in err and "--out would" not in err
    assert json.loads(out)["status"] == "failed" and json.loads(out)["files"] == {}
    assert not names(here)


def test_figures_of_a_saved_run_on_a_full_disk(undula, here, data, one_figure, monkeypatch):
    un.save(data, "x.nc")

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, out, err = undula("plot", "x.nc")
    assert code == 3 and out == "" and one_sentence(err) and "no space left on device" in err
    assert names(here) == ["x.nc"]


# Standard output


class TestOutput:
    COMMANDS = (("list",), ("list", "--json"), ("show", "double-pendulum"), RUN, RUN[:-1], ("--help",), ("--version",))

    @pytest.mark.parametrize("where", ["full", "closed"])
    @pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
    def test_output_that_cannot_be_written(self, where, arguments, undula, here, monkeypatch):
        if where == "full":
            number, reason = os.open("/dev/full", os.O_WRONLY), "no space left on device"
        else:
            reader, number = os.pipe()
            os.close(reader)
            reason = "broken pipe"
        monkeypatch.setattr(un.gallery, "NAMES", ("chain", "double-pendulum"))
        with open(number, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            code, _, err = undula(*arguments)
        assert code == 3 and err == f"error: cannot write to standard output: {reason}.\n"

    def test_the_process_ends_quietly_too(self):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "undula", "--version"]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment())
        assert done.returncode == 3 and one_sentence(done.stderr)


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


# Signals


def send(*signals):
    for number in signals:
        os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def usual_signals():
    """Signals are answered even if the tests were started by a shell that ignores them (nohup, background jobs)."""
    before = {n: signal.getsignal(n) for n in _early.ENDING}
    for n in _early.ENDING:
        signal.signal(n, signal.default_int_handler if n == signal.SIGINT else signal.SIG_DFL)
    yield
    for n, handler in before.items():
        signal.signal(n, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_imports_ends_the_command_at_once(number):
    code = (
        "import os, sys; sys.argv = ['/usr/bin/undula']; "
        f"exec(open({_early.__file__!r}).read()); os.kill(os.getpid(), {int(number)}); print('not reached')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 130 and done.stdout == ""
    assert done.stderr == f"interrupted by {number.name}; nothing was saved.\n"
    first = next(x for x in Path(un.__file__).read_text().splitlines() if x.startswith(("import ", "from ")))
    assert first.startswith("from undula.core import early")


def test_only_the_command_answers_signals_while_it_is_imported(monkeypatch):
    for argv, orig, expected in (
        (["-m"], ["python", "-m", "undula", "list"], True),
        (["-m"], ["python", "-m", "undula.cli.doctor"], False),
        (["/opt/bin/undula", "run"], [], True),
        (["/home/me/undula.py"], [], False),
        ([""], [], False),
        ([], [], False),
    ):
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.setattr(sys, "orig_argv", orig)
        assert _early.is_command() is expected
    assert not _early.COMMAND  # this process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_a_run_and_keep_its_samples(number, undula, here, monkeypatch):
    """Several signals, at once and while the file is written, lose nothing."""
    before = [signal.getsignal(n) for n in _early.ENDING]
    written = netcdf.write_bytes
    counts = []

    def offer(self, count, since):
        counts.append(count)
        if len(counts) == 2:
            send(number, number)

    def write_bytes(*args):
        send(number, signal.SIGINT)
        written(*args)
        send(number)

    monkeypatch.setattr(partial.PartialFile, "offer", offer)
    monkeypatch.setattr(netcdf, "write_bytes", write_bytes)
    code, out, err = undula(*RUN, "--out", "x.nc", "--plot", "figures")
    assert code == 130 and "Traceback" not in err
    found, data = json.loads(out), un.load("x.nc")
    source = "the user" if number == signal.SIGINT else number.name
    assert found["status"] == data.attrs["status"] == "interrupted"
    assert f"stopped by {source} after t = " in err and "the samples before it are in x.nc" in err
    assert len(counts) == 2 and data.sizes["time"] == counts[-1] < SAMPLES
    assert names(here) == ["x.nc"]  # the second signal cancelled the figures
    assert [signal.getsignal(n) for n in _early.ENDING] == before


def test_one_signal_still_draws_what_there_is(undula, here, monkeypatch):
    monkeypatch.setattr(partial.PartialFile, "offer", lambda self, count, since: send(signal.SIGTERM))
    monkeypatch.setattr(plots, "write_figures", lambda data, folder: [folder / f"{data.sizes['time']}.png"])
    code, out, _ = undula(*RUN, "--out", "x.nc", "--plot", "figures")
    assert code == 130 and json.loads(out)["files"]["plots"] == [os.path.join("figures", "1.png")]


def test_runs_in_threads_leave_signals_alone(data):
    scenario = un.gallery.load("double-pendulum")
    found = []

    def stop(fraction):
        raise KeyboardInterrupt

    def work():
        setup = scenario.setup()
        found.append(_early.answer(print))
        found.append(un.run(setup.system, setup.state, t_end=0.05, progress=stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] == [] and found[1].status == "interrupted" and found[1].data.sizes["time"] == 1


def test_chunks_take_about_a_second():
    pace, seen = progress.Pace(500), []
    for _ in range(12):
        seen.append(pace.samples)
        pace.learn(0.01 * pace.samples)  # seconds per sample
    assert seen[0] == 1 and seen[-1] == 100
    pace.learn(1000.0)
    assert pace.samples == 1


def test_the_length_of_the_chunks_changes_no_sample(monkeypatch):
    """Nor contact quantities accumulated between samples: a bouncing ball."""
    setup = un.gallery.load("bouncing-ball").setup()
    runs = []
    for aim in (0.0, np.inf):
        monkeypatch.setattr(progress, "AIM", aim)
        monkeypatch.setattr(progress, "GROWTH", 3)
        calls = []
        done = un.run(setup.system, setup.state, 1.0, setup.dt, 37, setup.integrator, progress=calls.append)
        runs.append(done.data.drop_attrs())
        assert calls[-1] == 1.0 and len(calls) == (done.data.sizes["time"] if aim == 0 else len(calls))
    assert float(runs[0]["contact_closings"].sum()) > 0
    xr.testing.assert_identical(*runs)


# Partial files


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(partial, "EVERY", 0.0)
    monkeypatch.setattr(partial, "SHARE", np.inf)


def opened(path):
    with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as found:
        return found.load()


def test_partial_files_hold_what_was_offered(data, here, often):
    file = partial.PartialFile(here / "x.nc")
    for count in (1, 2, 30, 51):
        file.offer(count, lambda first, n=count: data.isel(time=slice(first, n)))
        found = opened("x.partial.nc")
        xr.testing.assert_identical(found.drop_attrs(deep=False), data.isel(time=slice(count)).drop_attrs(deep=False))
        assert found.attrs == data.attrs
    assert names(here) == ["x.partial.nc", "x.partial.nc~"]
    file.close(keep=True)
    assert names(here) == ["x.partial.nc"]
    file.close(keep=False)
    assert not names(here)


class Killed(BaseException):
    """The process ends here."""


class Fuse:
    """Lets some file operations pass; the next one is only half done, and everything ends."""

    def __init__(self, operations):
        self.left = operations

    def wrap(self, function, half=lambda *args: None):
        def call(*args):
            self.left -= 1
            if self.left < 0:
                half(*args)
                raise Killed
            return function(*args)

        return call


class Disk:
    """A file behind a fuse."""

    def __init__(self, file, fuse):
        self.file, self.seek, self.fileno = file, file.seek, file.fileno
        self.write = fuse.wrap(file.write, lambda page: (file.write(page[: len(page) // 2]), file.flush()))
        self.truncate, self.flush = fuse.wrap(file.truncate), fuse.wrap(file.flush)


def test_a_process_that_ends_anywhere_leaves_the_partial_file_whole(data, here, often, monkeypatch):
    monkeypatch.setattr(partial, "CHUNK", 256)  # many pages are changed
    file = partial.PartialFile(here / "x.nc")
    for count in (10, 20):
        file.offer(count, lambda first, n=count: data.isel(time=slice(first, n)))
    before = {p: p.read_bytes() for p in here.iterdir()}
    written = list(file._written)
    commit = partial.Overlay.commit

    def append(fuse):
        """Appends ten samples; returns the operations left."""

        def commit_behind(overlay):
            overlay._file = Disk(overlay._file, fuse)
            commit(overlay)

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(partial.Overlay, "commit", commit_behind)
            for name in ("link", "replace", "fsync"):
                patch.setattr(os, name, fuse.wrap(getattr(os, name)))
            file.offer(30, lambda first: data.isel(time=slice(first, 30)))
        return fuse.left

    operations = 1000 - append(Fuse(1000))
    assert operations > 10 and opened("x.partial.nc").sizes["time"] == 30
    after = (here / "x.partial.nc").read_bytes()
    for end in {0, 1, operations // 2, *range(operations - 6, operations)}:
        for path in here.iterdir():
            path.unlink()
        for path, content in before.items():
            path.write_bytes(content)
        file._written = list(written)
        assert append(Fuse(end)) < 0
        found = (here / "x.partial.nc").read_bytes()
        assert found in (before[here / "x.partial.nc"], after)


def test_a_disk_that_fills_up_does_not_end_the_run(data, here, often):
    file = partial.PartialFile(here / "x.nc")
    file.offer(20, lambda first: data.isel(time=slice(first, 20)))
    with small_disk(5000), pytest.warns(un.UndulaWarning, match=r"x\.partial\.nc: file too large; the run goes on"):
        file.offer(40, lambda first: data.isel(time=slice(first, 40)))
    file.offer(51, lambda first: data.isel(time=slice(first, 51)))
    assert names(here) == ["x.partial.nc"] and opened("x.partial.nc").sizes["time"] == 20


def test_appending_costs_the_same_however_long_the_file_is(data, here, often, monkeypatch):
    costs = []
    commit = partial.Overlay.commit

    def counted(self):
        costs.append(len(self._pages))
        commit(self)

    monkeypatch.setattr(partial.Overlay, "commit", counted)
    monkeypatch.setattr(partial, "CHUNK", 256)
    long = xr.concat([data] * 12, "time", data_vars="minimal", coords="minimal", compat="override")
    file = partial.PartialFile(here / "x.nc")
    for count in range(51, 613, 51):
        file.offer(count, lambda first, n=count: long.isel(time=slice(first, n)))
    assert len(costs) == 12 and max(costs[7:]) < 1.5 * np.median(costs[2:7])


def test_a_run_writes_as_it_goes_and_ends_under_its_name_alone(undula, here, often, data, monkeypatch):
    (here / "x.nc").write_text("older")
    seen, offer = [], partial.PartialFile.offer

    def watched(self, count, since):
        seen.append(count)
        if len(seen) < 4:
            offer(self, count, since)
        if len(seen) == 3:
            found = opened("x.partial.nc")
            assert found.attrs["status"] == "incomplete" and "killed" in found.attrs["message"]
            assert found.attrs["scenario"] == "double-pendulum" and found.sizes["time"] == count
            assert (here / "x.nc").read_text() == "older"

    monkeypatch.setattr(partial.PartialFile, "offer", watched)
    code, out, err = undula(*RUN, "--out", "x.nc")
    assert code == 0 and err == "" and len(seen) > 3 and seen[-1] == SAMPLES
    assert names(here) == ["x.nc"] and json.loads(out)["files"] == {"data": "x.nc"}
    xr.testing.assert_identical(un.load("x.nc").drop_attrs(deep=False), data.drop_attrs(deep=False))


def test_samples_of_a_run_that_cannot_be_saved_stay_in_the_partial_file(undula, here, often, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    offer = partial.PartialFile.offer
    monkeypatch.setattr(
        partial.PartialFile, "offer", lambda self, count, since: offer(self, count, since) if count == SAMPLES else None
    )
    monkeypatch.setattr(netcdf, "write_bytes", full)
    code, out, err = undula(*RUN, "--out", "x.nc")
    assert code == 3 and one_sentence(err) and "the samples of its first part are in x.partial.nc" in err
    assert json.loads(out)["files"] == {"partial": "x.partial.nc"} and names(here) == ["x.partial.nc"]
    assert opened("x.partial.nc").sizes["time"] == SAMPLES


def test_a_killed_process_leaves_a_file_that_opens(data, here):
    un.save(data, "x.nc")
    code = (
        "import sys, undula as un; from undula.record import partial; partial.EVERY, partial.SHARE = 0, 1e9\n"
        "data, file = un.load('x.nc'), partial.PartialFile('y.nc')\n"
        "for n in range(1, 10**6):\n"
        "    file.offer(n, lambda k: data.isel(time=[j % 51 for j in range(k, n)])); print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment())
    for line in process.stdout:
        if int(line) == 8:
            break
    process.kill()
    process.communicate()
    found = opened("y.partial.nc")
    assert found.sizes["time"] >= 8
    count = found.sizes["time"]
    np.testing.assert_array_equal(found["position"], data["position"].values[np.arange(count) % SAMPLES])


# Damaged files


def test_the_checksum_disturbs_no_other_reader(data, here):
    un.save(data, "x.nc")
    xr.testing.assert_identical(opened("x.nc"), data)
    with h5py.File("x.nc", "r+") as file:  # a change removes the checksum
        file["position"][0] = 3.0
    assert float(un.load("x.nc")["position"][0, 0]) == 3.0


def prepare(data):
    """Everything that figures and pages compute from a run before drawing it."""
    checked.check_poses(data)
    checked.check_signals(data)
    low, high = shapes.bounds(data)
    for shape in shapes.surroundings(data):
        shapes.outline(shape, 0, 1)
    shapes.sticks(data), shapes.attitude(data["base_quaternion"].values)
    shapes.resample(data, shapes.frame_times(data, 30.0, 10))
    return low, high


@pytest.mark.parametrize("sealed", [True, False])
def test_changed_bytes_give_a_result_or_one_sentence(sealed, data, here, rng, capfd):
    un.save(data.isel(time=slice(6)), "x.nc")
    whole = (here / "x.nc").read_bytes()
    whole = whole if sealed else whole[: -checksum.SIZE]
    refused = 0
    for _ in range(300 if sealed else 40):
        content = bytearray(whole)
        for k in rng.integers(0, len(content), rng.integers(1, 20)):
            content[k] = (content[k] + int(rng.integers(1, 256))) % 256
        (here / "x.nc").write_bytes(content)
        try:
            prepare(un.load("x.nc"))
        except un.UndulaError as error:
            refused += 1
            assert str(error).endswith(".") and "\n" not in str(error)
    assert refused == 300 if sealed else refused > 0
    assert capfd.readouterr() == ("", "")


def changed(data, name, index, value):
    out = data.copy(deep=True)
    out[name].values[index] = value
    return out


BROKEN = {
    "not a number": (lambda d: changed(d, "body_position", (3, 1, 2), np.nan), "body_position is nan at t = 0.003 s"),
    "infinite": (lambda d: changed(d, "effort", (2, 0), np.inf), "effort is inf at t = 0.002 s"),
    "no rotation": (lambda d: changed(d, "body_quaternion", (1, 0), 0.0), "t = 0.001 s has the length 0; it must be 1"),
    "constant time": (lambda d: d.assign_coords(time=0 * d["time"]), "time must increase, and t = 0 s follows t = 0 s"),
    "reversed time": (lambda d: d.isel(time=slice(None, None, -1)), "t = 0.049 s follows t = 0.05 s"),
    "bad JSON": (lambda d: d.assign_attrs(shapes="[[{"), "attribute shapes is not a list in JSON"),
    "other JSON": (lambda d: d.assign_attrs(shapes="[[3], [], []]"), "cannot draw the shape None of size None"),
    "no JSON": (lambda d: d.assign_attrs(parents=3), "attribute parents is not a list in JSON"),
    "circle of parents": (lambda d: d.assign_attrs(parents="[-1, 2, 1]"), "the parent of body 1 is 2"),
    "surroundings": (
        lambda d: d.assign_attrs(surroundings='[{"kind": "post", "place": [1], "radius": 1}]'),
        "place of a post of the surroundings is [1]; it must be 2 numbers",
    ),
    "missing": (lambda d: d.drop_vars("effort"), "it lacks effort (time, coordinate)"),
    "text": (lambda d: d.assign(velocity=d["velocity"].astype(str)), "velocity does not consist of numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(case, data, here, undula):
    change, words = BROKEN[case]
    un.save(change(data), "x.nc")
    code, out, err = undula("plot", "x.nc")
    assert code == 2 and out == "" and one_sentence(err) and words in err
    assert names(here) == ["x.nc"]
    if case not in ("infinite", "missing", "text"):  # a page shows no efforts
        code, out, err = undula("view", "x.nc")
        assert code == 2 and out == "" and words in err
