"""Compilation of functions that run a few times only: quick to compile, slow to run."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


def quick_options() -> dict[str, bool | int]:
    """Options of `jax.jit` that skip XLA's optimisations on a CPU."""
    on_cpu = jax.default_backend() == "cpu"
    return {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False} if on_cpu else {}


def quickly_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit` with XLA's optimisations off where the device is a CPU: several times quicker to compile."""
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not compiled:  # the backend is not asked before it is needed
            compiled.append(eqx.filter_jit(function, compiler_options=quick_options()))
        return compiled[0](*args)

    return call
