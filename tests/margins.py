"""How close every comparison of the suite is to its bound: a plugin of pytest, used by `make margins`.

Processors round differently, so a bound needs a margin. The plugin rewrites `a < b` in assertions, and wraps
`assert_allclose` and `pytest.approx`, to record the ratio of value to bound; at the end it prints ratios above a
third. A person then decides: "something happens" and ratios of errors may be close, bounds on errors may not.
"""

import ast
import builtins
import json
import operator
import os
import sys
from pathlib import Path

import _pytest.assertion.rewrite as rewriting
import numpy as np
import pytest

CLOSE = 1 / 3
SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
FILE = Path(os.environ.get("UNDULA_MARGINS", "out/margins.jsonl"))
TESTS = str(Path(__file__).parent)
found: dict[tuple[str, int], tuple[float, str]] = {}  # the closest on each line
running = [""]


def note(file, line, ratio):
    if Path(file).parent == Path(TESTS) and not ratio <= found.get((file, line), (-1.0, ""))[0]:
        found[file, line] = float(ratio), running[0]


def compared(left, symbol, right, file, line):
    """left < right, recorded; values that are not numbers are only compared."""
    try:
        small, large = (np.asarray(x, dtype=float) for x in ((left, right) if "<" in symbol else (right, left)))
        with np.errstate(all="ignore"):
            ratio = np.where(large > 0, small / large, np.where(small < 0, large / small, 1.0))
        if ratio.size:
            note(file, line, np.nanmax(ratio))
    except (TypeError, ValueError):
        pass
    return COMPARE[symbol](left, right)


class Comparisons(ast.NodeTransformer):
    """Replaces comparisons inside assertions by calls to `compared`."""

    def __init__(self, file):
        self.file, self.inside = file, 0

    def visit_Assert(self, node):
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if not self.inside or not all(type(op) in SYMBOLS for op in node.ops):
            return node
        sides = [node.left, *node.comparators]
        calls = []
        for a, op, b in zip(sides, node.ops, sides[1:]):
            given = [a, ast.Constant(SYMBOLS[type(op)]), b, ast.Constant(self.file), ast.Constant(node.lineno)]
            calls.append(ast.Call(ast.Name("__compared__", ast.Load()), given, []))
        return ast.copy_location(calls[0] if len(calls) == 1 else ast.BoolOp(ast.And(), calls), node)


def caller():
    frame = sys._getframe(2)
    while frame is not None and Path(frame.f_code.co_filename).parent != Path(TESTS):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def install():
    builtins.__compared__ = compared
    rewrite, close, Approx = rewriting.rewrite_asserts, np.testing.assert_allclose, type(pytest.approx(1.0))
    equal = Approx.__eq__

    def rewritten(tree, source, module_path=None, config=None):
        ast.fix_missing_locations(Comparisons(str(module_path)).visit(tree))
        return rewrite(tree, source, module_path, config)

    def allclose(actual, desired, rtol=1e-7, atol=0, **more):
        a, d = np.asarray(actual), np.asarray(desired)
        if a.dtype.kind in "fiuc":
            with np.errstate(all="ignore"):
                off = np.abs(a - d)
                ratio = np.where(off == 0, 0.0, off / (atol + rtol * np.abs(d)))
            note(*caller(), np.nanmax(ratio, initial=0.0))
        return close(actual, desired, rtol=rtol, atol=atol, **more)

    def approximately(self, actual):
        if isinstance(actual, float | int | np.number | np.ndarray) and np.ndim(actual) == 0:
            note(*caller(), abs(float(actual) - float(self.expected)) / (self.tolerance or 1.0))
        return equal(self, actual)

    rewriting.rewrite_asserts, np.testing.assert_allclose, Approx.__eq__ = rewritten, allclose, approximately
    rewriting._read_pyc, rewriting._write_pyc = (
        lambda *_, **__: None,
        lambda *_, **__: False,
    )  # neither read nor left behind


install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    running[0] = item.nodeid


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text("")


def pytest_sessionfinish(session):
    if found:
        with FILE.open("a") as file:
            file.writelines(json.dumps([*key, *value]) + "\n" for key, value in found.items())


def pytest_terminal_summary(terminalreporter):
    rows = [json.loads(line) for line in FILE.read_text().splitlines()]
    rows = sorted((row for row in rows if row[2] > CLOSE), key=lambda row: -row[2])
    terminalreporter.write_line(f"{len(rows)} lines with a comparison above a third of its bound:")
    for file, line, ratio, test in rows:
        text = Path(file).read_text().splitlines()[line - 1].strip()
        terminalreporter.write_line(f"{ratio:.3f} {Path(file).name}:{line} ({test.split('::', 1)[-1]}): {text}")
