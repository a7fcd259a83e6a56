"""Options of compilation with low optimisation, for functions that run only a few times."""

import functools

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
