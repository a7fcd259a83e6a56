"""The first answer: nothing but a few programs of undula's own is compiled and run, everything else is NumPy."""

import warnings

import jax
import pytest

from eager import counted
from undula.core.startup import UndulaWarning
from undula.gallery import NAMES, load
from undula.numerics.programs import forget
from undula.numerics.quick import quick_options
from undula.scenario.scenario import run_scenario

PROGRAMS = 9  # of a run, with those that measure it
CURVED = {"tendon-spatial": 1}  # programs of entries that are built from functions of X: their slopes are derivatives
KINDS = ("satellite", "snake-acm", "bouncing-ball", "cantilever-soft", "four-bar", "climber")


def short_run(name):
    """An entry, run for a few steps, with its facts and metrics."""
    scenario = load(name)
    setup = scenario.setup()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndulaWarning)  # remarks on a run that ends too early
        return run_scenario(scenario, t_end=min(setup.t_end, 20 * setup.dt))


def test_building_an_entry_compiles_nothing():
    found = {}
    for name in NAMES:
        with counted() as counts:
            load(name).setup()
        if counts.eager or len(counts.programs) > CURVED.get(name, 0):
            found[name] = str(counts)
    assert not found


@pytest.mark.parametrize("name", KINDS)
def test_a_run_uses_few_programs_and_nothing_else(name):
    quick_options()  # asks XLA once what it knows
    with counted() as counts:
        short_run(name)
    assert counts.eager == 0, str(counts)
    assert len(counts.programs) <= PROGRAMS, str(counts)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_entry_compiles_few_programs_and_nothing_else(name, monkeypatch, tmp_path):
    monkeypatch.setenv("UNDULA_CACHE", str(tmp_path))
    quick_options()
    forget()
    jax.clear_caches()
    with counted() as counts:
        short_run(name)
    assert counts.eager == 0, str(counts)
    assert counts.compiled <= PROGRAMS, str(counts)
