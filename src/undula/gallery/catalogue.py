"""The catalogue: what `undula list` and `undula show` print about the gallery, in a file, so that they need no JAX.

`python -m undula.gallery.catalogue [NAME ...]` writes the file anew, for all entries or for those named; the tests compare it
with the entries.
"""

import json
import math
import sys
from functools import cache
from pathlib import Path
from typing import Any

from undula import gallery
from undula.scenario.parameter import Parameter, from_record

FILE = Path(__file__).with_name("catalogue.json")


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """The descriptions of all entries by name, as `undula show --json` prints them."""
    with FILE.open(encoding="utf-8") as file:
        return json.load(file)


def description(name: str) -> dict[str, Any]:
    """The description of an entry; one that is not in the catalogue is built."""
    found = catalogue().get(name)
    if found is not None:
        return found
    from undula.scenario.describe import describe

    return describe(gallery.load(name))


def parameters(name: str) -> tuple[Parameter, ...]:
    """The parameters of an entry."""
    found = catalogue().get(name)
    return gallery.load(name).parameters if found is None else tuple(map(from_record, found["parameters"]))


def written(entries: dict[str, dict[str, Any]]) -> str:
    """The text of the file: a line for each parameter, body, joint and coordinate, so that a change shows what changed."""

    def lines(value: Any, indent: str) -> str:
        if isinstance(value, dict) and indent.count(" ") < 2:
            items = [f"{json.dumps(k)}: {lines(v, indent + ' ')}" for k, v in value.items()]
            return "{\n" + ",\n".join(indent + " " + item for item in items) + f"\n{indent}}}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = [json.dumps(v, ensure_ascii=False, allow_nan=False) for v in value]
            return "[\n" + ",\n".join(indent + " " + item for item in items) + f"\n{indent}]"
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    return lines(entries, "") + "\n"


def agree(one: Any, other: Any) -> bool:
    """Whether two descriptions are the same; numbers may differ by the rounding of another processor."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(agree(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(agree, one, other))
    return type(one) is type(other) and one == other


def main(names: list[str]) -> None:
    from undula.scenario.describe import describe

    entries = dict(catalogue()) if FILE.exists() else {}
    for name in names or gallery.NAMES:
        found = describe(gallery.load(name))
        if name not in entries or not agree(entries[name], found):  # no changes of the last digits only
            entries[name] = found
            print(name)
    FILE.write_text(written({name: entries[name] for name in gallery.NAMES if name in entries}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
