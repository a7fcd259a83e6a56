"""Compilation of functions that run a few times only: quick to compile, slow to run."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


def quickly_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit` with XLA's optimisations off where the device is a CPU: several times quicker to compile."""
    compiled: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not compiled:  # the backend is not asked before it is needed
            on_cpu = jax.default_backend() == "cpu"
            options = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False} if on_cpu else {}
            compiled.append(eqx.filter_jit(function, compiler_options=options))
        return compiled[0](*args)

    return call
