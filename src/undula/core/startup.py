"""Settings made before JAX starts: float64, and the option that makes small loops fast on the CPU.

XLA's CPU backend dispatches the operations of a loop one by one, unless the loop is "small"; with the
option below it compiles a small loop into one native function, and a recursion over the bodies of a robot
becomes tens of times faster. XLA reads the option from the environment when JAX starts its backend.
"""

import os
import sys
import warnings

FLAG = "--xla_backend_extra_options"
KEY = "xla_cpu_small_while_loop_byte_threshold"
OPTION = f"{KEY}=1000000"


class UndulaWarning(UserWarning):
    """Any warning issued by undula; a class of its own, so that it can be filtered."""


def with_fast_loops(flags: str) -> str:
    """The value of XLA_FLAGS with the fast-loop option added; everything that the user has set is kept."""
    words = flags.split()
    for k, word in enumerate(words):
        name, _, value = word.partition("=")
        if name == FLAG:
            if KEY not in value:
                words[k] = f"{FLAG}={value},{OPTION}" if value else f"{FLAG}={OPTION}"
            return " ".join(words)
    return " ".join([*words, f"{FLAG}={OPTION}"])


def given_flags() -> tuple[str, str]:
    """(XLA options set by the user, name of the file that contains them or "").

    A value of XLA_FLAGS that does not start with a dash is the name of a file with the options.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if not flags.strip() or flags.lstrip().startswith("-"):
        return flags, ""
    try:
        with open(flags, encoding="utf-8", errors="replace") as file:
            return file.read(), flags
    except OSError:  # XLA itself reports this when it starts
        return "", flags


def fast_loops_active() -> bool:
    """Whether JAX's CPU backend runs (or will run) with the fast-loop option."""
    return _active


def _jax_has_started() -> bool:
    """Whether JAX's backend is already running; does not import JAX."""
    if "jax" not in sys.modules:
        return False
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def _use_float64() -> None:
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"  # read when JAX is imported


def _start() -> bool:
    flags, file = given_flags()
    if KEY in flags:
        return True
    slow = "loops will run tens of times slower on the CPU"
    if _jax_has_started():
        problem = (
            f"JAX was started before undula was imported, so {slow}; "
            f'import undula first, or set XLA_FLAGS="{FLAG}={OPTION}" in the environment.'
        )
    elif file:
        problem = (
            f"XLA_FLAGS is the name of a file, {file}, which undula does not change, so {slow}; "
            f"add {FLAG}={OPTION} to that file."
        )
    else:
        os.environ["XLA_FLAGS"] = with_fast_loops(flags)
        return True
    warnings.warn(problem, UndulaWarning, stacklevel=3)
    return False


_use_float64()
_active = _start()
