"""Public names that are imported when they are first used.

The stub of a module (`.pyi`) defines where its names come from; editors and type checkers read the same file. `import
undula` is therefore fast, and a command that does not need JAX does not import it.
"""

import ast
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of the module `name` in `file`, from the imports in its stub."""
    path = Path(file)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    origin: dict[str, tuple[str, str]] = {}
    for node in ast.parse(path.with_suffix(".pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            origin |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}

    def getattr_(wanted: str) -> Any:
        if wanted not in origin:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        module, own = origin[wanted]
        if module == package and own == wanted:  # from . import wanted
            value: Any = importlib.import_module(f"{module}.{own}")
        else:
            value = getattr(importlib.import_module(module), own)
        setattr(sys.modules[name], wanted, value)
        return value

    return getattr_, lambda: sorted(origin), sorted(origin)
