"""Settings of the whole test suite.

`pytest` alone is the quick suite: everything once, programs compiled with low optimisation, because most of its time
is compilation. `pytest --full` compiles as users do and adds the tests marked `long` (convergence studies); since
rounding differs between the two, a bound without a margin is exposed.

This file must not start JAX: undula sets options first, when a test imports it.
"""

import ctypes
import gc
import os
import tempfile
import zlib
from pathlib import Path

import hypothesis
import jax
import numpy as np
import pytest

QUICK_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
MEMORY = 1.9e9  # per process [bytes]; above it, compiled programs are dropped

jax.config.update("jax_enable_x64", True)

hypothesis.settings.register_profile(
    "undula", deadline=None, derandomize=True, max_examples=25, database=None, print_blob=False
)
hypothesis.settings.load_profile("undula")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="long tests too, and programs optimised as for users")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a study that only `make check` runs")
    full = config.getoption("full")
    if not full:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_FLAGS}".strip()
    # compiled programs are kept between runs of the suite
    user = os.getuid() if hasattr(os, "getuid") else "user"
    usual = os.path.join(tempfile.gettempdir(), f"undula-tests-{user}{'-full' if full else ''}")
    os.environ["UNDULA_CACHE"] = os.environ.get("UNDULA_TEST_CACHE", usual)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, the tests of a class, or of a file about a system of the gallery, run in one process, where they share
    compiled programs and runs; others run anywhere."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByClass(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _scope(nodeid)

    return ByClass(config, log)


def _scope(nodeid):
    plain = nodeid.split("[")[0]
    if "gallery/" in plain:
        return plain.split("::")[0]
    return plain.rsplit("::", 1)[0] if plain.count("::") > 1 else nodeid


def pytest_collection_modifyitems(config, items):
    """Any warning of undula is an error, unless a test expects it; long tests only run with `--full`.

    This uses a mark, not the configuration file, which would import undula before jaxtyping's import hook is in place.
    """
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("error::undula.UndulaWarning"))
    if not config.getoption("full"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Drops compiled programs between classes when they fill the memory: JAX itself never does."""
    if (nextitem is None or _scope(item.nodeid) != _scope(nextitem.nodeid)) and _resident() > MEMORY:
        from undula.numerics import programs

        programs.forget()
        jax.clear_caches()
        gc.collect()
        if os.path.exists("/lib/x86_64-linux-gnu/libc.so.6"):
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident():
    """Memory of this process [bytes]; 0 where the system does not report it."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


@pytest.fixture
def rng(request):
    """Random numbers, reproducible for each test but different between tests."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def wrong_types(monkeypatch):
    """Arguments of wrong types reach the library's own checks, also where a type checker would stop them first."""
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def undula(capfd):
    """Runs a command in this process: (exit status, stdout, stderr)."""
    from undula.cli import app as cli

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(list(arguments))
        out, err = capfd.readouterr()
        return end.value.code, out, err

    return call
