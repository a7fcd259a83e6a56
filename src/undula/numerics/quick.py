"""Compilation with low optimisation, for functions that run only a few times."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


def quick_options() -> dict[str, bool | int]:
    """Compiler options of `jax.jit` that skip XLA's optimisations on a CPU."""
    return _known_options() if jax.default_backend() == "cpu" else {}


@functools.cache
def _known_options() -> dict[str, bool | int]:
    """Those that this version of JAX knows: they are not part of its interface, and JAX 0.11 has one fewer than 0.10."""
    found: dict[str, bool | int] = {}
    for name, value in {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}.items():
        try:
            jax.jit(lambda: 0, compiler_options=found | {name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        found[name] = value
    return found


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
