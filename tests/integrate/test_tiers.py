"""Runs that begin with quickly compiled code and go on with optimised code."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import undula as un
from undula.integrate import chunks, engine, tiers
from undula.numerics import programs, store


@pytest.fixture
def nothing_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("UNDULA_CACHE", str(tmp_path))
    programs.forget()
    yield
    for thread in list(tiers._beside):
        thread.join()
    store.finish()
    programs.forget()


def pendulum():
    b = un.Builder("pendulum")
    b.base("ground")
    b.body("bob", "ground", un.Revolute((0, 1, 0)), mass=1.0, com=(0, 0, -1.0))
    system = b.build()
    return system, system.state([0.5])


class Pace(engine.Pace):
    """Small chunks, so that the run has many."""

    def learn(self, seconds):
        self.samples = 8


def test_a_run_goes_on_with_optimised_code(nothing_kept, monkeypatch):
    """Both tiers compute the same motion; T = 2.0364 s at 0.5 rad, from the elliptic integral."""
    from scipy.special import ellipk

    monkeypatch.setattr(tiers, "WORTH", 0.0)
    monkeypatch.setattr(engine, "Pace", Pace)
    system, state = pendulum()
    used = []
    real = tiers.Tiers.consider

    def consider(self, left):
        if self._thread is not None:
            self._thread.join()  # otherwise the short run would end before
        real(self, left)
        used.append(self.call)

    monkeypatch.setattr(tiers.Tiers, "consider", consider)
    period = 4 * np.sqrt(1 / 9.81) * ellipk(np.sin(0.25) ** 2)
    run = un.run(system, state, t_end=5 * period, dt=period / 400, save_every=20)
    assert used[0] is chunks.QUICK and used[-1] is chunks.OPTIMISED
    assert_allclose(run.data.position.values[::20, 0], 0.5, atol=1e-8)
    again = un.run(system, state, t_end=5 * period, dt=period / 400, save_every=20, reproducible=True)
    assert_allclose(run.data.position.values, again.data.position.values, rtol=0, atol=1e-12)


def test_reproducible_runs_have_the_same_bits(nothing_kept):
    system, state = pendulum()
    runs = [un.run(system, state, t_end=1.0, dt=0.01, reproducible=True) for _ in range(2)]
    store.finish()
    programs.forget()  # the third comes from the file
    runs.append(un.run(system, state, t_end=1.0, dt=0.01, reproducible=True))
    for other in runs[1:]:
        assert other.data.position.values.tobytes() == runs[0].data.position.values.tobytes()
    assert not chunks.QUICK.kept and chunks.OPTIMISED.kept
