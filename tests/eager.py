"""Counts what JAX does: compilations, operations outside compiled functions, and the programs that undula uses."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from jax._src import core, pjit

import undula
from undula.numerics.programs import Program

COMPILED = "/jax/core/compile/backend_compile_duration"
SOURCE = str(Path(undula.__file__).parent)
MADE_FOR_TRACES = ("lie", "numerics")  # rooms of functions that are compiled only so that they are traced once


class Counts:
    """Compilations and eager operations, each by the line of undula that caused it; names of the programs used.

    Programs are counted whether they are compiled, loaded from a file or known already; the others depend on that.
    """

    def __init__(self) -> None:
        self.compilations: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.programs: dict[Any, str] = {}

    @property
    def compiled(self) -> int:
        return self.compilations.total()

    @property
    def eager(self) -> int:
        return self.operations.total()

    def __str__(self) -> str:
        both = (("compiled", self.compilations), ("eager   ", self.operations))
        rows = [f"{n:5d} {what} {line}" for what, found in both for line, n in found.most_common()]
        rows += [f"      program  {name}" for name in self.programs.values()]
        return "\n".join(
            [f"{self.compiled} compilations, {self.eager} eager operations, {len(self.programs)} programs", *rows]
        )


def _line() -> str:
    """The innermost line of undula on the stack."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename.startswith(SOURCE) and "/numerics/" not in frame.filename:
            return f"{frame.filename[len(SOURCE) + 1 :]}:{frame.lineno}"
    return "elsewhere"


def _is_own(params: dict[str, Any]) -> bool:
    """Whether a compiled function is one of undula's programs rather than an operation of JAX."""
    source = str(params["jaxpr"].jaxpr.debug_info.func_src_info)
    rooms = any(f"{SOURCE}/{room}/" in source for room in MADE_FOR_TRACES)
    return "equinox" in source or (SOURCE in source and not rooms)


_listening: list[Counts] = []


def _on_duration(name: str, duration: float, **_: Any) -> None:
    if name == COMPILED and _listening:
        _listening[-1].compilations[_line()] += 1


jax.monitoring.register_event_duration_secs_listener(_on_duration)


@contextmanager
def counted() -> Iterator[Counts]:
    """Counts until the end of the block. Operations that JAX has seen before are counted, too, but compile nothing."""
    counts = Counts()
    operate, call, fast = core.EvalTrace.process_primitive, pjit._run_python_pjit, pjit._get_fastpath_data
    look_up = Program._known
    inside = [False]

    def noted(what: str, own: bool, work: Callable[[], Any]) -> Any:
        if own or inside[0]:
            return work()
        counts.operations[f"{_line()} {what}"] += 1
        inside[0] = True
        try:
            return work()
        finally:
            inside[0] = False

    def process_primitive(self: Any, primitive: Any, args: Any, params: Any, /) -> Any:
        own = primitive.name == "device_put" or (primitive.name == "jit" and _is_own(params))
        name = params["name"] if primitive.name == "jit" else primitive.name
        return noted(name, own, lambda: operate(self, primitive, args, params))

    def run(p: Any, *args: Any) -> Any:
        own = _is_own(p.params) or not core.trace_state_clean()  # then it becomes a primitive, noted above
        return noted(p.params["name"], own, lambda: call(p, *args))

    def known(self: Any, key: Any) -> Any:
        counts.programs.setdefault((id(self), key), self.name + (" (quick)" if self.quick else ""))
        return look_up(self, key)

    pjit._cpp_pjit_cache_fun_only.clear()  # else functions called before would not be seen
    pjit._cpp_pjit_cache_explicit_attributes.clear()
    core.EvalTrace.process_primitive, pjit._run_python_pjit = process_primitive, run
    pjit._get_fastpath_data = lambda *_, **__: None
    Program._known = known  # type: ignore[method-assign]
    _listening.append(counts)
    try:
        yield counts
    finally:
        _listening.pop()
        core.EvalTrace.process_primitive, pjit._run_python_pjit, pjit._get_fastpath_data = operate, call, fast
        Program._known = look_up  # type: ignore[method-assign]
