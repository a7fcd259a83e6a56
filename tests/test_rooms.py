"""The layers of the package: each imports only layers above it, and families do not import each other."""

import ast
import re
from pathlib import Path

import undula as un

SOURCE = Path(un.__file__).parent
ORDER = (
    ("core",),
    ("numerics",),
    ("lie",),
    ("laws",),
    ("elements",),
    ("joints",),
    ("model",),
    ("tree",),
    ("forces", "rows", "contact"),
    ("balance",),
    ("record",),
    ("integrate",),
    ("geometry",),
    ("scenario",),
    ("gallery", "io", "view"),
    ("cli",),
)
LEVEL = {room: k for k, rooms in enumerate(ORDER) for room in rooms}
PUBLIC = {"gallery", "cli"}  # layers that use the library and may import its public names


def imports(path: Path) -> set[str]:
    """Layers that a file imports, "" for the package itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "undula":
                names = [f"undula.{a.name}" for a in node.names]
        found |= {(name.split(".") + [""])[1] for name in names if name.split(".")[0] == "undula"}
    return found


def test_every_folder_is_a_room():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(LEVEL)


def test_rooms_import_only_what_is_above_them():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        if room not in LEVEL:
            continue
        for other in imports(path):
            if other == "":
                allowed = room in PUBLIC
            elif other not in LEVEL:
                allowed = room in PUBLIC
            else:
                allowed = other == room or LEVEL[other] < LEVEL[room]
            if not allowed:
                wrong.append(f"{path.relative_to(SOURCE)} imports {other or 'undula'}")
    assert not wrong


def test_families_import_contracts_and_nothing_that_knows_systems():
    wrong = []
    for room in ("forces", "rows", "contact"):
        for path in (SOURCE / room).rglob("*.py"):
            more = imports(path) - {"core", "numerics", "lie", "laws", "elements", room}
            if more and path.name not in ("carried.py", "record.py"):  # contacts in a snapshot
                wrong.append(f"{path.relative_to(SOURCE)} imports {', '.join(sorted(more))}")
    assert not wrong


def test_the_gallery_describes_and_does_not_compute():
    """Entries only use public names; they read parameters, not attributes or packed numbers."""
    wrong = []
    for path in (SOURCE / "gallery").glob("*.py"):
        more = imports(path) - {"", "gallery", "scenario", "core"}
        text = path.read_text()
        if more or "json.loads" in text or re.search(r"system\.(rods|groups|contacts|topology)\b", text):
            wrong.append(f"{path.name}: {', '.join(sorted(more))}")
    assert not wrong


def test_no_names_of_kinds_in_conditions():
    """The behaviour of a joint kind is in its own file."""
    kinds = r"[\"'](screw|cylindrical|universal|planar|spherical|free flyer|rod|segment)[\"']"
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        if room in ("joints", "gallery", "io", "rows"):
            continue
        for k, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(rf"(==|!=|\bin\b)\s*\(?{kinds}", line):
                wrong.append(f"{path.relative_to(SOURCE)}:{k}")
    assert not wrong


def test_runs_do_not_ask_what_a_method_is():
    for name in ("run.py", "chunks.py", "judge.py", "loop.py"):
        text = (SOURCE / "integrate" / name).read_text()
        assert not re.search(r"isinstance\(\w*method", text) and "isinstance(integrator" not in text
