"""Functions that compile themselves once per structure of their arguments, and programs that are kept between processes.

A structure is everything except the values of numbers: shapes, and all static parts, among them what the user's functions
depend on when they are called: their code, closures and globals. A function looks for its program among
those of this process, then in the folder of the cache, and only then traces and compiles. Inside `jit`, `vmap` or `grad` of
a caller it is traced as if it were not decorated.

Programs are kept for the CPU alone; elsewhere, `equinox.filter_jit` and JAX's own cache are used.
"""

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from undula.core.phases import phase
from undula.numerics import store
from undula.numerics.fingerprint import Fingerprint, Watched
from undula.numerics.quick import quick_options

KEPT = 64  # programs of one function that a process keeps
TIMES = ("t", "t0", "dt", "t_end")  # arguments that are numbers, even if a caller writes whole ones
CALLBACKS = ("pure_callback", "io_callback", "debug_callback", "debug_print")

_all: list["Program"] = []
_by_digest: "OrderedDict[str, Loaded]" = OrderedDict()
_lock = threading.RLock()


class Loaded(NamedTuple):
    """A compiled program, and how its results are put together: a tree with the numbers of its outputs, or static leaves."""

    executable: Callable[..., Any]
    structure: Any
    leaves: tuple[Any, ...]  # per leaf of the result: None for the next array, otherwise (value,)

    def __call__(self, arrays: list[Any]) -> Any:
        found = iter(self.executable(*arrays))
        return jax.tree.unflatten(self.structure, [next(found) if x is None else x[0] for x in self.leaves])


class Kept(NamedTuple):
    """A program, and what the user may have changed since it was made."""

    program: Loaded
    watched: Watched


class Lowered(NamedTuple):
    """A traced program that is not yet compiled; `kept`: whether it means something in another process."""

    module: Any
    structure: Any
    leaves: tuple[Any, ...]
    kept: bool


class Program:
    """A function, and the programs that it was compiled to.

    `quick`: compiled with low optimisation. `nameless`: the result does not depend on the names in its arguments, but for
    error messages: what an argument is without them, it says by a method `bare`. `like`: another program of the same
    function, with which it shares its traces.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        quick: bool = False,
        nameless: bool = False,
        like: "Program | None" = None,
    ):
        self.function, self.quick, self.nameless = function, quick, nameless
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.kept: OrderedDict[Any, Kept] = OrderedDict()
        self.traces: dict[Any, Lowered] = {} if like is None else like.traces
        self.remembers = like is not None  # whether traces are kept for another compilation
        if like is not None:
            like.remembers = True
        names = list(inspect.signature(function).parameters)
        self.times = tuple(names.index(x) for x in TIMES if x in names)
        _all.append(self)

    @functools.cached_property
    def _traced(self) -> Callable[..., Any]:
        jit: Any = eqx.filter_jit  # its stub lacks the options that it passes on to jax.jit
        return jit(self.function, inline=True)

    @functools.cached_property
    def _elsewhere(self) -> Callable[..., Any]:
        jit: Any = eqx.filter_jit
        return jit(self.function, compiler_options=quick_options() if self.quick else {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = self._numbers(args, kwargs)
        bare = self._bare(*named)
        leaves, tree = jax.tree.flatten(bare)
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._traced(*named[0], **named[1])
        if not _is_ahead():
            return self._elsewhere(*named[0], **named[1])
        arrays, key = _split(leaves, tree)
        found = self._known(key)
        if found is None:
            digest, watched = self._digest(named)
            if watched.traced:
                return self._traced(*named[0], **named[1])
            load = self._kept(named, key, digest, watched) or self._made(named, key, digest, watched)
            found = load()
        return found(arrays)

    def _bare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments without names, if these do not matter."""
        if not self.nameless:
            return args, kwargs
        return tuple(map(_without_names, args)), {name: _without_names(x) for name, x in kwargs.items()}

    def find(self, *args: Any) -> Callable[[], Any] | None:
        """A function that returns the program, loaded if need be; None if there is none yet.

        Arguments may be `jax.ShapeDtypeStruct`s instead of arrays.
        """
        named = self._numbers(args, {})
        if not _is_ahead():
            return None
        _, key = _split(*jax.tree.flatten(self._bare(*named)))
        found = self._known(key)
        return (lambda: self) if found is not None else self._then(self._kept(named, key, *self._digest(named)))

    def make(self, *args: Any) -> Callable[[], Any]:
        """Traces the function; the result, called in any thread, compiles it and returns the program.

        Meanwhile other functions can be traced: compilation does not hold Python's lock.
        """
        named = self._numbers(args, {})
        if not _is_ahead():
            return lambda: self
        _, key = _split(*jax.tree.flatten(self._bare(*named)))
        made = self._then(self._made(named, key, *self._digest(named)))
        assert made is not None
        return made

    def _then(self, load: Callable[[], Loaded] | None) -> Callable[[], Any] | None:
        return None if load is None else (lambda: (load(), self)[1])

    def _numbers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Python's numbers among the arguments are arguments of the program, not constants in it."""
        times = self.times
        args = tuple(
            np.asarray(x, dtype=float) if type(x) is float or (k in times and type(x) is int) else x
            for k, x in enumerate(args)
        )
        for name, x in kwargs.items():
            if type(x) is float or (name in TIMES and type(x) is int):
                kwargs = kwargs | {name: np.asarray(x, dtype=float)}
        return args, kwargs

    def _known(self, key: Any) -> Loaded | None:
        with _lock:
            found = self.kept.get(key)
            if found is None or not found.watched.is_same():
                return None
            self.kept.move_to_end(key)
            return found.program

    def _keep(self, key: Any, digest: str | None, watched: Watched, found: Loaded) -> Loaded:
        with _lock:
            self.kept[key] = Kept(found, watched)
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
            if digest is not None:
                _by_digest[digest] = found
                while len(_by_digest) > 4 * KEPT:
                    _by_digest.popitem(last=False)
        return found

    def _kept(self, arguments: Any, key: Any, digest: str | None, watched: Watched) -> Callable[[], Loaded] | None:
        """A function that loads the program from what is kept; None if it is not kept."""
        if digest is None:
            return None
        with _lock:
            known = _by_digest.get(digest)
        if known is not None:
            return lambda: self._keep(key, digest, watched, known)
        if not store.has(digest):
            return None

        def load() -> Loaded:
            with phase("load"):
                found = store.load(digest)
            if found is None:  # damaged
                return self._made(arguments, key, digest, watched)()
            return self._keep(key, digest, watched, Loaded(*found))

        return load

    def _made(self, arguments: Any, key: Any, digest: str | None, watched: Watched) -> Callable[[], Loaded]:
        """Traces and lowers the function, unless that was done; the result compiles it."""
        lowered = self.traces.get((key, watched.seen)) or self._lowered(*jax.tree.flatten(arguments))
        if self.remembers:
            self.traces[key, watched.seen] = lowered
        if not lowered.kept:
            digest = None

        def compile_it() -> Loaded:
            with phase("compile"):
                options: Any = quick_options() if self.quick else {}
                borrowed = store.borrowed()
                executable = lowered.module.compile(compiler_options=options)
            found = Loaded(executable, lowered.structure, lowered.leaves)
            if digest is not None and store.borrowed() == borrowed:
                store.keep(digest, found.executable, found.structure, found.leaves)
            return self._keep(key, digest, watched, found)

        return compile_it

    def _lowered(self, leaves: list[Any], tree: Any) -> Lowered:
        where = [k for k, x in enumerate(leaves) if _is_array(x)]
        rest = [None if _is_array(x) else x for x in leaves]
        made: list[Any] = []

        def flat(*arrays: Any) -> list[Any]:
            whole = list(rest)
            for k, x in zip(where, arrays):
                whole[k] = x
            args, kwargs = jax.tree.unflatten(tree, whole)
            out, structure = jax.tree.flatten(self.function(*args, **kwargs))
            made[:] = structure, tuple(None if _is_array(x) else (x,) for x in out)
            return [x for x in out if _is_array(x)]

        flat.__name__ = flat.__qualname__ = self.function.__name__
        shapes = [jax.ShapeDtypeStruct(leaves[k].shape, _dtype(leaves[k])) for k in where]
        with phase("trace"):
            traced = jax.jit(flat).trace(*shapes)
            return Lowered(traced.lower(), made[0], made[1], not _calls_back(traced.jaxpr.jaxpr))

    def _digest(self, arguments: Any) -> tuple[str | None, Watched]:
        """The name under which the program is kept, None if it cannot be kept; and what it depends on of the user's."""
        one = Fingerprint(here=True)
        one.word(store.environment(), self.name, self.quick)
        try:
            one.value(self.function)  # names alone do not tell lambdas or derivatives from each other
            one.arguments(self._bare(*arguments))
            kept = one.portable and store.folder() is not None
        except (RecursionError, TypeError):
            kept = False
        return one.digest().hex() if kept else None, Watched(one.users, one.traced)


def compiled(function: Callable[..., Any] | None = None, *, nameless: bool = False) -> Callable[..., Any]:
    """A function that compiles itself, with full optimisation, once per structure of its arguments."""
    return _decorated(function, False, nameless)


def quickly_compiled(function: Callable[..., Any] | None = None, *, nameless: bool = False) -> Callable[..., Any]:
    """The same with low optimisation, which compiles several times faster, for functions that run only a few times."""
    return _decorated(function, True, nameless)


def _decorated(function: Callable[..., Any] | None, quick: bool, nameless: bool) -> Callable[..., Any]:
    if function is None:
        return lambda function: _decorated(function, quick, nameless)
    program = Program(function, quick, nameless)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return program(*args, **kwargs)

    call.program = program  # type: ignore[attr-defined]
    return call


def _without_names(x: Any) -> Any:
    return x.bare() if hasattr(x, "bare") else x


def side_by_side(tasks: list[Callable[[], Any]]) -> list[Any]:
    """The results of functions that load or compile programs, in threads of their own."""
    if len(tasks) == 1:
        return [tasks[0]()]
    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(lambda task: task(), tasks))


def forget() -> None:
    """Drops all programs of this process; those in the folder stay."""
    with _lock:
        _by_digest.clear()
        for program in _all:
            program.kept.clear()
            program.traces.clear()


def _is_array(x: Any) -> bool:
    return (
        isinstance(x, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct) and np.dtype(x.dtype).kind in "biufcV"
    )


def _dtype(x: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(x.dtype)


def _split(leaves: list[Any], tree: Any) -> tuple[list[Any], Any]:
    """The arrays among the arguments, and all else."""
    arrays = [x for x in leaves if _is_array(x)]
    kinds = tuple((x.shape, x.dtype) if _is_array(x) else (type(x), x) for x in leaves)
    config: Any = jax.config
    key = (tree, kinds, config.jax_enable_x64)
    try:
        hash(key)
    except TypeError:
        odd = next((x for x in leaves if not _is_array(x) and not _hashes(x)), None)
        raise TypeError(f"an argument contains {odd!r}, which is neither an array nor hashable.") from None
    return arrays, key


def _hashes(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _is_ahead() -> bool:
    """Whether programs are compiled ahead of their call: on one CPU device, without JAX's debugging switches."""
    config: Any = jax.config
    if (
        config.jax_default_device is not None
        or not config.jax_enable_x64  # arrays of 64 bits would have to be converted for each call
        or config.jax_disable_jit
        or config.jax_debug_nans
        or config.jax_debug_infs
    ):
        return False
    return _one_cpu()


@functools.cache
def _one_cpu() -> bool:
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def _calls_back(jaxpr: Any) -> bool:
    """Whether a program calls functions of this process: it means nothing in another one."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in CALLBACKS:
            return True
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns") and _calls_back(inner):
                    return True
    return False
