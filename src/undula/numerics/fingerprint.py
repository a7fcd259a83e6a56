"""What a compiled program depends on, as a digest that is the same in every process.

Hashes of Python differ between processes, and pickles between equal objects; here an object is written as a sequence of
bytes that follows from its structure alone: arrays that are arguments by their shapes, all else by value. A function or a
class of this package, of JAX or of NumPy is written by its name, because their versions belong to the key; one of another
installed package by its name and its file's size and time; one of the user by its bytecode, constants, defaults, closure and
the globals that it uses.
"""

import contextlib
import dataclasses
import dis
import enum
import functools
import hashlib
import marshal
import os
import sys
import sysconfig
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

KNOWN = (
    "undula",
    "jax",
    "jaxlib",
    "equinox",
    "numpy",
    "jaxtyping",
    "builtins",
    "math",
    "functools",
    "operator",
    "typing",
    "abc",
)
GENERATED = frozenset(
    """
    __dict__ __weakref__ __doc__ __module__ __annotations__
    __dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl __match_args__
    __hash__ __eq__ __repr__ __parameters__ __orig_bases__
    __slots__ __firstlineno__ __static_attributes__ __annotate__ __annotate_func__
    __annotations_cache__
    """.split()
)  # attributes of classes that say nothing, or follow from others
PLAIN = (type(None), bool, int, float, complex, str, bytes)
INSTALLED = tuple({sysconfig.get_paths()[x] + os.sep for x in ("stdlib", "platstdlib", "purelib", "platlib")})
DEEP = 2  # how far objects without description are followed
WATCHED = 1000  # functions, classes and objects of the user
MOST = 3000  # objects that are followed from one of them: beyond, they are told apart by identity
# Objects of JAX around functions: attributes that say what they do
DERIVATIVES: dict[type, tuple[str, ...]] = {
    jax.custom_jvp: ("fun", "jvp", "nondiff_argnums", "nondiff_argnames", "symbolic_zeros"),
    jax.custom_vjp: ("fun", "fwd", "bwd", "nondiff_argnums", "nondiff_argnames", "symbolic_zeros", "optimize_remat"),
}
WRAPPERS = (type(jax.jit(lambda: None)), type(functools.cache(lambda: None)))  # they change no number


ELSEWHERE = {"globals", "locals", "vars", "eval", "exec", "open", "__import__"}  # functions whose results are not seen


class Unkeyable(Exception):
    """Something that has no description which is the same in every process."""


class Traced(Unkeyable):
    """A value that JAX traces, e.g. in a closure: the function is being differentiated by it."""


class Fingerprint:
    """A digest under construction.

    `here`: what has no description is written by its identity, and the digest means nothing in another process
    (`portable`). `users` collects functions, classes and objects of the user: what they depend on may change.
    """

    def __init__(self, here: bool = False) -> None:
        self.here, self.portable = here, True
        self.users: list[Any] = []
        self.traced = False  # whether anything is being traced
        self._deep = 0  # objects without description around the present one
        self._depth = 0  # inside how many of them
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no identity is used twice

    def digest(self) -> bytes:
        return self._hash.digest()

    def word(self, *words: Any) -> None:
        for x in words:
            data = x if isinstance(x, bytes) else str(x).encode()
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def arguments(self, x: Any) -> None:
        """A tree of arguments: arrays by their shapes, static parts by value."""
        if isinstance(x, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct):
            self.word("array", x.shape, x.dtype)
        elif isinstance(x, eqx.Module):
            self.word("module")
            self._type(type(x))
            for f in dataclasses.fields(x):
                value = getattr(x, f.name, None)
                self.value(value) if f.metadata.get("static", False) else self.arguments(value)
        elif isinstance(x, tuple | list):
            self.word("sequence", len(x))
            self._type(type(x))
            for value in x:
                self.arguments(value)
        elif isinstance(x, dict):
            self.word("dictionary", len(x))
            for key in sorted(x):
                self.value(key)
                self.arguments(x[key])
        else:
            self.value(x)

    def value(self, x: Any) -> None:
        """Anything static, by value."""
        try:
            self._value(x)
        except Unkeyable as reason:
            if not self.here:
                raise
            self.portable = False
            self.traced = self.traced or isinstance(reason, Traced)
            self._kept.append(x)
            self.word("here", id(x))
            if hasattr(x, "__dict__") and not isinstance(x, types.ModuleType) and self._deep < DEEP:
                self._deep += 1
                with self._inside(x):
                    self.value(dict(vars(x)))
                self._deep -= 1

    def _value(self, x: Any) -> None:
        kind = type(x)
        if kind in PLAIN:
            self.word(kind.__name__, marshal.dumps(x, 2))
        elif kind in (tuple, list):
            if _is_plain(x):  # at once; version 2 of the format has no references to earlier objects
                self.word("plain", kind.__name__, marshal.dumps(x, 2))
            else:
                self._sequence(x)
        elif isinstance(x, np.ndarray | np.generic | jax.Array):
            if isinstance(x, jax.core.Tracer):
                raise Traced
            if isinstance(x, np.ndarray) and kind is not np.ndarray:
                raise Unkeyable(f"an array of the class {kind.__qualname__}")  # it may have more than numbers
            array = np.asarray(x)
            if array.dtype.hasobject or array.dtype.names:
                raise Unkeyable("an array of objects or records")
            self.word("numbers", array.shape, array.dtype.str, array.tobytes())
        elif isinstance(x, enum.Enum):
            self._type(kind)
            self.word("enum", x.name)
        elif isinstance(x, type):
            self._type(x)
        elif isinstance(x, tuple | list):
            self._sequence(x)
        elif isinstance(x, dict):
            self.word("dictionary", len(x))
            for key, item in x.items():
                self.value(key)
                self.value(item)
        elif isinstance(x, frozenset | set):
            self.word("set", *sorted(_alone(item) for item in x))
        elif isinstance(x, slice | range):
            self.word(kind.__name__)
            self._sequence((x.start, x.stop, x.step))
        elif isinstance(x, np.dtype) and not x.names:
            self.word("dtype", x.str)
        elif self._first(x):
            self._object(x)

    # Parts

    def _sequence(self, x: Any) -> None:
        self.word("sequence", len(x))
        if type(x) not in (tuple, list):
            self._type(type(x))
        for item in x:
            self.value(item)

    def _first(self, x: Any) -> bool:
        """Whether an object is met for the first time; otherwise its number is written."""
        if id(x) in self._seen:
            self.word("again", self._seen[id(x)])
            return False
        if len(self._seen) >= MOST:
            raise Unkeyable("too many objects")
        self._seen[id(x)] = len(self._seen)
        self._kept.append(x)
        return True

    def _object(self, x: Any) -> None:
        if isinstance(x, types.ModuleType):
            if not _is_known(x.__name__):
                raise Unkeyable(f"the module {x.__name__}")
            self.word("module", x.__name__)
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self.word("method")
            self.value(x.__func__)
            self.value(x.__self__)
        elif isinstance(x, types.BuiltinFunctionType | np.ufunc):
            owner = getattr(x, "__self__", None)
            self.word("builtin", getattr(x, "__module__", ""), x.__name__)
            self.value(None if isinstance(owner, types.ModuleType) else owner)  # the object of a method
        elif isinstance(x, types.CodeType):
            self._code(x)
        elif isinstance(x, functools.partial):
            self.word("partial")
            with self._inside(x):
                self._sequence((x.func, x.args, x.keywords, vars(x)))
        elif isinstance(x, property):
            self.word("property")
            self._sequence((x.fget, x.fset, x.fdel))
        elif isinstance(x, classmethod | staticmethod):
            self.word(type(x).__name__)
            self.value(x.__func__)
        elif isinstance(x, eqx.Module) or dataclasses.is_dataclass(x):
            self._type(type(x))
            if isinstance(x, eqx.Module) or _is_ours(type(x).__module__):
                self._record(x)
            else:
                with self._inside(x):
                    self._record(x)
        elif type(x) in DERIVATIVES:
            self.word("derivative", type(x).__name__)
            self._sequence([getattr(x, name, None) for name in DERIVATIVES[type(x)]])
        elif type(x) in WRAPPERS and isinstance(x.__wrapped__, types.FunctionType):
            self.word("wrapped", type(x).__name__)
            self.value(x.__wrapped__)
        elif isinstance(x, np.vectorize) or type(x) is jax.numpy.ufunc:  # they have the name of the user's function
            raise Unkeyable(f"a {type(x).__name__}")
        elif _is_known(type(x).__module__) and hasattr(x, "__name__"):
            self.word("named", type(x).__module__, x.__name__)
        elif _is_known(type(x).__module__) and hasattr(x, "method"):  # methods of equinox's modules
            self.value(x.method)
        else:
            raise Unkeyable(f"{type(x).__module__}.{type(x).__qualname__}")

    def _record(self, x: Any) -> None:
        self.word("record")
        fields = dataclasses.fields(x)
        for f in fields:
            # in this package, a field that is not compared holds what follows from others
            if f.compare or isinstance(x, eqx.Module) or not _is_ours(type(x).__module__):
                self.value(getattr(x, f.name, None))
        if not _is_ours(type(x).__module__):  # what a user's class keeps besides its fields
            names = {f.name for f in fields}
            self.value({k: v for k, v in sorted(getattr(x, "__dict__", {}).items()) if k not in names})

    @contextlib.contextmanager
    def _inside(self, x: Any) -> Iterator[None]:
        """Writes parts of an object of the user."""
        if not self._depth:
            self.users.append(x)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _function(self, f: types.FunctionType) -> None:
        if _is_named(f):
            self.word("named", f.__module__, f.__qualname__, _version(f.__module__))
            return
        if hasattr(f, "program"):  # a function that compiles itself
            self.word("compiled")
            self.value(f.program.function)
            return
        with self._inside(f):
            self._parts(f)

    def _parts(self, f: types.FunctionType) -> None:
        self.word("function")
        self._code(f.__code__)
        self.value(f.__defaults__)
        self.value(f.__kwdefaults__)
        for cell in f.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:  # an empty cell
                self.word("empty")
        names = sorted(_names(f.__code__))
        for name in names:
            if name in f.__globals__:
                self.word("global", name)
                x = f.__globals__[name]
                self.value(x)
                if isinstance(x, types.ModuleType) and not _is_known(x.__name__):  # it may be loaded again
                    self._sequence([vars(x).get(other) for other in names])
        self.value({k: v for k, v in sorted(vars(f).items()) if k != "__wrapped__"})

    def _code(self, code: types.CodeType) -> None:
        self.word("code", code.co_code, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
        self._sequence((code.co_names, code.co_varnames, code.co_freevars))
        odd = ELSEWHERE.intersection(code.co_names)
        if odd or not all(_is_known(name) for name in _imports(code)):
            raise Unkeyable("what a function imports or looks up by itself")
        for x in code.co_consts:
            self._code(x) if isinstance(x, types.CodeType) else self.value(x)

    def _type(self, cls: type) -> None:
        self.word("type", cls.__module__, cls.__qualname__)
        if _is_known(cls.__module__) and "<" not in cls.__qualname__:
            self.word(_version(cls.__module__))
            return
        if not self._first(cls):
            return
        with self._inside(cls):
            self._members(cls)

    def _members(self, cls: type) -> None:
        for base in cls.__bases__:
            self._type(base)
        for name, x in sorted(vars(cls).items()):
            # methods that dataclasses write; those that a user types into a prompt come from such a "file", too
            made = isinstance(x, types.FunctionType) and x.__code__.co_qualname.startswith("__create_fn__.<locals>")
            if name in GENERATED or made:
                continue
            self.word("member", name)
            self.value(x)
        if dataclasses.is_dataclass(cls):
            for f in dataclasses.fields(cls):
                self.word("field", f.name, bool(f.metadata.get("static", False)))


class Watched:
    """Functions, classes and objects of the user, and a digest of all that they depend on: it may change between two calls."""

    latest: ClassVar["OrderedDict[int, tuple[Any, bytes]]"] = (
        OrderedDict()
    )  # what each one was when it was last looked at

    def __init__(self, users: list[Any], traced: bool = False):
        self.users, self.traced = tuple(users), traced
        self.seen = self._look()

    def is_same(self) -> bool:
        return not self.users or self._look() == self.seen

    def _look(self) -> tuple[bytes, ...]:
        return tuple(map(self._one, self.users))

    def _one(self, x: Any) -> bytes:
        one = Fingerprint(here=True)
        with contextlib.suppress(RecursionError, TypeError):  # what was written until then counts
            one.value(x)
        found = one.digest()
        _, before = self.latest.get(id(x), (x, found))
        if found != before:  # JAX would trace the same function again as it was
            jax.clear_caches()
        self.latest[id(x)] = x, found
        self.latest.move_to_end(id(x))
        while len(self.latest) > WATCHED:
            self.latest.popitem(last=False)
        return found


def _is_plain(x: Any) -> bool:
    """Whether `x` consists of numbers, texts and sequences of them alone: marshal also takes arrays, without their shapes."""
    kind = type(x)
    return kind in PLAIN or (kind in (tuple, list) and all(map(_is_plain, x)))


def _alone(x: Any) -> bytes:
    one = Fingerprint()
    one.value(x)
    return one.digest()


def _is_named(f: types.FunctionType) -> bool:
    """Whether the name of a function says what it does: it is one of a package, or the wrapper of one (type checks)."""
    home = f.__globals__.get("__name__")  # a wrapper bears the name of what it wraps, and of its module
    if not (_is_known(f.__module__) and _is_known(home)) or "<" in f.__qualname__:
        return False
    if f.__closure__ is None or hasattr(f, "program"):
        return True
    inner = getattr(f, "__wrapped__", None)
    return isinstance(inner, types.FunctionType) and (inner.__module__, inner.__qualname__) == (
        f.__module__, f.__qualname__) and _is_named(inner)  # fmt: skip


@functools.cache
def _is_known(module: str | None) -> bool:
    """Whether a module belongs to a package that the user does not change: one of ours, or one that is installed."""
    if module is None:
        return False
    return _is_ours(module) or bool(_version(module))


def _is_ours(module: str) -> bool:
    """Whether its version is part of the key."""
    return module.split(".")[0] in KNOWN


@functools.cache
def _version(module: str) -> str:
    """Size and time of the file of an installed module; "" for others, and for packages that are part of the key."""
    if _is_ours(module):
        return ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or not file.startswith(INSTALLED):
        return ""
    found = os.stat(file)
    return f"{found.st_size} {found.st_mtime_ns}"


def _imports(code: types.CodeType) -> list[str]:
    """Modules that a function imports when it is called."""
    if not code.co_names:
        return []
    return [x.argval for x in dis.get_instructions(code) if x.opname == "IMPORT_NAME"]


def _names(code: types.CodeType) -> set[str]:
    """Names that a function and the functions inside it may look up among the globals."""
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))
