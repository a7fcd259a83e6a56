"""Settings of the whole test suite.

This file must not start JAX: undula sets options before, when a test imports it.
"""

import os
import tempfile
import zlib

import hypothesis
import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)

# compiled functions are kept between runs of the suite: most of its time is compilation
CACHE = os.path.join(tempfile.gettempdir(), f"undula-tests-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
jax.config.update("jax_compilation_cache_dir", os.environ.get("UNDULA_TEST_CACHE", CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

hypothesis.settings.register_profile(
    "undula", deadline=None, derandomize=True, max_examples=25, database=None, print_blob=False
)
hypothesis.settings.load_profile("undula")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `-n`, the tests of a class run in one process, where they share what they compile; others go anywhere."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByClass(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            plain = nodeid.split("[")[0]
            return plain.rsplit("::", 1)[0] if plain.count("::") > 1 else nodeid

    return ByClass(config, log)


def pytest_collection_modifyitems(items):
    """Any warning of undula is an error, unless a test expects it.

    A mark, not the configuration file: that would import undula before jaxtyping's import hook is in place.
    """
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("error::undula.UndulaWarning"))


@pytest.fixture
def rng(request):
    """Random numbers, the same at every run of a test, others for each test."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
