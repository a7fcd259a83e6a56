"""What `import undula` does to JAX: float64, fast loops, and nothing that the user did not request."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import undula as un
from undula.core.startup import FLAG, KEY, OPTION, with_fast_loops

FULL = f"{FLAG}={OPTION}"
OTHER = "--xla_cpu_enable_fast_math=false"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", FULL),
        (" ", FULL),
        (OTHER, f"{OTHER} {FULL}"),
        (f"{FLAG}=a=1", f"{FLAG}=a=1,{OPTION}"),
        (f"{FLAG}=a=1,b=2 {OTHER}", f"{FLAG}=a=1,b=2,{OPTION} {OTHER}"),
        (f"{FLAG}=", FULL),
        (f"{FLAG}={KEY}=5", f"{FLAG}={KEY}=5"),
        (f"{FLAG}={KEY}=5,a=1 {OTHER}", f"{FLAG}={KEY}=5,a=1 {OTHER}"),
    ],
)
def test_option_is_added_to_what_the_user_has(before, after):
    assert with_fast_loops(before) == after
    assert with_fast_loops(after) == after


def test_numbers_have_64_bits():
    assert jax.config.read("jax_enable_x64")
    assert jnp.zeros(1).dtype == jnp.float64


def test_option_is_in_this_process():
    assert un.fast_loops_active() == (KEY in os.environ.get("XLA_FLAGS", ""))


REPORT = """
import json, os, sys, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    {before}
    import undula
    import jax, jax.numpy as jnp
print(json.dumps(dict(
    flags=os.environ.get("XLA_FLAGS"), active=undula.fast_loops_active(), dtype=str(jnp.zeros(1).dtype),
    cache=jax.config.jax_compilation_cache_dir, modules=list(sys.modules),
    warnings=[str(w.message) for w in seen if issubclass(w.category, undula.UndulaWarning)],
)))
"""


def imported(flags: str | None, before: str = "pass") -> dict:
    """What a fresh process sees after `import undula`."""
    drop = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR", "UNDULA_CACHE")
    environment = {k: v for k, v in os.environ.items() if k not in drop} | {"JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if flags is not None:
        environment["XLA_FLAGS"] = flags
    command = [sys.executable, "-c", REPORT.format(before=before)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def test_import_keeps_the_users_flags():
    found = imported(OTHER)
    assert found["flags"] == f"{OTHER} {FULL}"
    assert found["active"] and found["dtype"] == "float64" and not found["warnings"]
    assert found["cache"] is None  # only the command line keeps compiled programs


def test_import_leaves_an_option_that_is_there():
    flags = f"{FLAG}={KEY}=5000"
    found = imported(flags)
    assert found["flags"] == flags and found["active"] and not found["warnings"]


def test_import_after_jax_started_warns_once():
    found = imported(None, "import jax; jax.devices()")
    assert found["flags"] is None and not found["active"]
    assert found["dtype"] == "float64"
    assert len(found["warnings"]) == 1
    assert "import undula first" in found["warnings"][0] and FULL in found["warnings"][0]


def test_file_of_flags_is_left_alone(tmp_path):
    """XLA reads its options from a file if XLA_FLAGS does not start with a dash: nothing can be appended to its name."""
    file = tmp_path / "flags"
    file.write_text(f"{OTHER}\n")
    found = imported(str(file))
    assert found["flags"] == str(file) and not found["active"] and found["dtype"] == "float64"
    assert len(found["warnings"]) == 1
    for words in ("the name of a file", str(file), f"add {FULL} to that file"):
        assert words in found["warnings"][0]
    file.write_text(f"{OTHER}\n{FULL}\n")  # as the warning advised
    found = imported(str(file))
    assert found["flags"] == str(file) and found["active"] and not found["warnings"]


def test_what_is_heavy_and_not_needed_waits():
    names = "xarray pandas scipy.interpolate matplotlib viser trimesh yourdfpy".split()
    assert not set(names) & set(imported(None)["modules"])
