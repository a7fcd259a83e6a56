"""What a compiled program depends on, as a digest that is the same in every process.

Hashes of Python differ between processes, and pickles between equal objects; here an object is written as a sequence of
bytes that follows from its structure alone: arrays that are arguments by their shapes, all else by value. A function or a
class of this package, of JAX or of NumPy is written by its name, because their versions belong to the key; one of the user
by its bytecode, constants, defaults, closure and the globals that it uses.
"""

import dataclasses
import enum
import functools
import hashlib
import marshal
import types
from typing import Any

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
GENERATED = {
    *(
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__annotations__",
        "__dataclass_fields__",
        "__dataclass_params__",
    ),
    *(
        "__abstractmethods__",
        "_abc_impl",
        "__match_args__",
        "__hash__",
        "__eq__",
        "__repr__",
        "__parameters__",
        "__orig_bases__",
    ),
    *(
        "__slots__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
    ),
}


class Unkeyable(Exception):
    """Something that has no description which is the same in every process."""


class Fingerprint:
    """A digest under construction."""

    def __init__(self) -> None:
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
        kind = type(x)
        if x is None or kind in (bool, int, float, complex, str, bytes):
            self.word(kind.__name__, marshal.dumps(x, 2))
        elif kind in (tuple, list):
            try:  # sequences of plain values, at once; version 2 of the format has no references to earlier objects
                self.word("plain", kind.__name__, marshal.dumps(x, 2))
            except ValueError:
                self._sequence(x)
        elif isinstance(x, np.ndarray | np.generic | jax.Array):
            if isinstance(x, jax.core.Tracer):
                raise Unkeyable("a traced value")
            array = np.asarray(x)
            if array.dtype.hasobject:
                raise Unkeyable("an array of objects")
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
        elif isinstance(x, np.dtype):
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
            self.word("builtin", getattr(x, "__module__", ""), x.__name__)
        elif isinstance(x, types.CodeType):
            self._code(x)
        elif isinstance(x, functools.partial):
            self.word("partial")
            self._sequence((x.func, x.args, x.keywords))
        elif isinstance(x, property):
            self.word("property")
            self._sequence((x.fget, x.fset, x.fdel))
        elif isinstance(x, classmethod | staticmethod):
            self.word(type(x).__name__)
            self.value(x.__func__)
        elif isinstance(x, eqx.Module) or dataclasses.is_dataclass(x):
            self.word("record")
            self._type(type(x))
            for f in dataclasses.fields(x):
                if f.compare or isinstance(
                    x, eqx.Module
                ):  # a field that is not compared holds what follows from others
                    self.value(getattr(x, f.name, None))
        elif callable(x) and isinstance(getattr(x, "__wrapped__", None), types.FunctionType):
            self.word("wrapped", type(x).__name__)  # a jitted function
            self.value(x.__wrapped__)
        elif _is_known(type(x).__module__) and hasattr(x, "__name__"):
            self.word("named", type(x).__module__, x.__name__)
        elif _is_known(type(x).__module__) and hasattr(x, "method"):  # methods of equinox's modules
            self.value(x.method)
        else:
            raise Unkeyable(f"{type(x).__module__}.{type(x).__qualname__}")

    def _function(self, f: types.FunctionType) -> None:
        plain = f.__closure__ is None or hasattr(f, "program")
        if _is_known(f.__module__) and "<" not in f.__qualname__ and plain:
            self.word("named", f.__module__, f.__qualname__)
            return
        if hasattr(f, "program"):  # a function that compiles itself
            self.word("compiled")
            self.value(f.program.function)
            return
        self.word("function")
        self._code(f.__code__)
        self.value(f.__defaults__)
        self.value(f.__kwdefaults__)
        for cell in f.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:  # an empty cell
                self.word("empty")
        for name in sorted(_names(f.__code__)):
            if name in f.__globals__:
                self.word("global", name)
                self.value(f.__globals__[name])

    def _code(self, code: types.CodeType) -> None:
        self.word("code", code.co_code, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
        self._sequence((code.co_names, code.co_varnames, code.co_freevars))
        for x in code.co_consts:
            self._code(x) if isinstance(x, types.CodeType) else self.value(x)

    def _type(self, cls: type) -> None:
        self.word("type", cls.__module__, cls.__qualname__)
        if _is_known(cls.__module__) and "<" not in cls.__qualname__:
            return
        if not self._first(cls):
            return
        for base in cls.__bases__:
            self._type(base)
        for name, x in sorted(vars(cls).items()):
            made = isinstance(x, types.FunctionType) and x.__code__.co_filename.startswith("<")
            if name in GENERATED or made:
                continue
            self.word("member", name)
            self.value(x)
        if dataclasses.is_dataclass(cls):
            for f in dataclasses.fields(cls):
                self.word("field", f.name, bool(f.metadata.get("static", False)))


def _alone(x: Any) -> bytes:
    one = Fingerprint()
    one.value(x)
    return one.digest()


def _is_known(module: str | None) -> bool:
    return module is not None and module.split(".")[0] in KNOWN


def _names(code: types.CodeType) -> set[str]:
    """Names that a function and the functions inside it may look up among the globals."""
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))
