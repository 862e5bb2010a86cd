"""The rules of the house as functions of a tree: each returns the faults it sees, as lines a reader can act on."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "ctc_align"
FLOORS = (
    ("errors", "types", "units", "config", "_version"),
    ("audio", "text"),
    ("tokens",),
    ("lattice",),
    ("kernels",),
    ("models",),
    ("ctc", "functional", "losses"),
    ("alignment",),
    ("formats",),
    ("evaluate", "view"),
    ("corpus",),
    ("training",),
    ("",),  # the package's own __init__: the public names
    ("cli", "demo", "__main__"),
)
"""The rooms, lowest floor first: a room imports from its own floor or from below, never from above."""
UPSTAIRS = {("types", "formats")}
"""The one exception, deferred into `Alignment.to_dict` and `Alignment.save`."""

MAX_LINES = 400
MAX_BYTES = 10_000_000
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)/(?=\w)[\w./-]*")


def import_faults(root: Path) -> list[str]:
    """Imports that climb, imports that run in a circle between rooms, and rooms that stand on no floor."""
    floor_of = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
    faults, edges = [], set()
    for path in sorted((root / PACKAGE).rglob("*.py")):
        room = _room(path.relative_to(root / PACKAGE))
        if room not in floor_of:
            faults.append(f"{path.relative_to(root)}: the room {room!r} stands on no floor: add it to FLOORS")
            continue
        for line, other in _imported_rooms(path, root):
            if other == room or (room, other) in UPSTAIRS:
                continue
            edges.add((room, other))
            if other not in floor_of or floor_of[other] > floor_of[room]:
                faults.append(f"{path.relative_to(root)}:{line}: {room!r} must not import {other or PACKAGE!r}")
    return faults + [f"rooms import each other in a circle: {' → '.join(circle)}" for circle in _circles(edges)]


def _room(path: Path) -> str:
    """The room of a file inside the package; "" is the package's own __init__."""
    return "" if path.parts == ("__init__.py",) else path.parts[0].removesuffix(".py")


def _imported_rooms(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of everything that a file takes from the package, deferred imports included."""
    package = path.relative_to(root).parent.parts
    rooms = {_room(file.relative_to(root / PACKAGE)) for file in (root / PACKAGE).rglob("*.py")}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            names = [f"{module}.{alias.name}" for alias in node.names] if module == PACKAGE else [module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == PACKAGE:
                room = parts[1] if len(parts) > 1 else ""
                yield node.lineno, room if room in rooms or len(parts) > 2 else ""


def _circles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """One circle of rooms for each pair that reach each other through others."""
    found: list[list[str]] = []

    def walk(path: list[str]) -> None:
        for start, end in sorted(edges):
            if start != path[-1]:
                continue
            if end == path[0]:
                found.append([*path, end])
            elif end not in path and end > path[0]:
                walk([*path, end])

    for room in sorted({start for start, _ in edges}):
        walk([room])
    return found


def long_files(root: Path, files: list[Path]) -> list[str]:
    """Python files of the package and its tests that are two rooms."""
    faults = []
    for path in files:
        lines = len(path.read_text(encoding="utf-8").splitlines()) if path.suffix == ".py" else 0
        if lines > MAX_LINES:
            faults.append(f"{path.relative_to(root)}: {lines} lines, at most {MAX_LINES}: make it two")
    return faults


def heavy_files(root: Path, files: list[Path]) -> list[str]:
    """Files too large for a repository that is cloned."""
    return [
        f"{path.relative_to(root)}: {path.stat().st_size} bytes" for path in files if path.stat().st_size > MAX_BYTES
    ]


def machine_paths(root: Path, files: list[Path]) -> list[str]:
    """Text that names a folder of the machine that somebody worked on."""
    faults = []
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            for match in _MACHINE_PATH.finditer(line):
                faults.append(f"{path.relative_to(root)}:{number}: {match[0]}")
    return faults


def tracked_files(root: Path) -> list[Path]:
    """What git holds of the tree, or every file where there is no git (an unpacked source archive)."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
        files = [root / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
    if not files:
        files = [
            path for path in root.rglob("*") if not any(part.startswith(".") for part in path.relative_to(root).parts)
        ]
    return [path for path in files if path.is_file()]
