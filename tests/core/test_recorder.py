"""The account of where the time goes, by a clock that the test moves."""

import threading

import pytest

from undula.core import phases
from undula.core.phases import PHASES, Recorder, phase


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(phases, "time", clock)
    return clock


def test_phases_exclude_those_inside_them_and_add_up(clock):
    with Recorder("import", since=98.0) as recorder:
        clock.now += 1
        with phase("run"):
            clock.now += 4
            with phase("compile"):
                clock.now += 16
            clock.now += 32
            with phase("run"):
                clock.now += 64
        with phase("write"):
            clock.now += 128
        with pytest.raises(KeyError), phase("build"):
            clock.now += 256
            raise KeyError
        assert recorder.count()["import"] == 3
    found = {"import": 3, "run": 4 + 32 + 64, "compile": 16, "write": 128, "build": 256}
    assert recorder.seconds == dict.fromkeys(PHASES, 0) | found
    assert sum(recorder.seconds.values()) == clock.now - 98


def test_nothing_is_recorded_outside_and_in_other_threads(clock):
    def other():
        with phase("compile"):
            clock.now += 1

    with phase("not checked where nothing is recorded"):
        clock.now += 1
    with Recorder() as recorder:
        with phase("run"):
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        with pytest.raises(ValueError, match="it must be one of import"), phase("lunch"):
            pass
    with phase("build"):
        clock.now += 1
    assert recorder.seconds == dict.fromkeys(PHASES, 0) | {"run": 1}
