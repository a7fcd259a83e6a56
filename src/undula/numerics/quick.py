"""Compilation with low optimisation, for functions that run only a few times."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


def quick_options() -> dict[str, bool | int]:
    """Compiler options of `jax.jit` that skip XLA's optimisations on a CPU."""
    on_cpu = jax.default_backend() == "cpu"
    return {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False} if on_cpu else {}


def quickly_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit` with XLA's optimisations disabled on a CPU, which compiles several times faster."""
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not compiled:  # so that the backend is not initialised before it is needed
            jit: Any = eqx.filter_jit  # its stub lacks the options that it passes on to jax.jit
            compiled.append(jit(function, compiler_options=quick_options()))
        return compiled[0](*args)

    return call
