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
    ("formats",),
    ("tokens",),
    ("lattice",),
    ("kernels",),
    ("models",),
    ("ctc", "functional", "losses"),
    ("alignment",),
    ("evaluate", "view"),
    ("corpus",),
    ("training",),
    ("",),  # the package's own __init__: the public names
    ("cli", "demo", "__main__"),
)
"""The rooms, lowest floor first: a room imports from its own floor or from below, never from above."""

MAX_LINES = 400
MAX_BYTES = 10_000_000
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)/(?=\w)[\w./-]*")


def import_faults(root: Path) -> list[str]:
    """Return imports that climb, modules that import each other in a circle, and folders that stand on no floor.

    Deferred imports and those for type checkers only count like any other.
    """
    modules = {_module_name(path.relative_to(root)) for path in (root / PACKAGE).rglob("*.py")}
    floor_of = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
    faults: list[str] = []
    imports: dict[str, set[str]] = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = _module_name(path.relative_to(root))
        room = _room(name)
        if room not in floor_of:
            faults.append(f"{path.relative_to(root)}: the room {room!r} stands on no floor: add it to FLOORS")
            continue
        imports[name] = set()
        for line, imported in _imported_modules(path, root, modules):
            imports[name].add(imported)
            other = _room(imported)
            if other != room and (other not in floor_of or floor_of[other] > floor_of[room]):
                faults.append(f"{path.relative_to(root)}:{line}: {room!r} must not import {other or PACKAGE!r}")
    return faults + [f"modules import each other in a circle: {' → '.join(circle)}" for circle in _circles(imports)]


def _module_name(path: Path) -> str:
    """Return the dotted name of a file of the package, a package's own name for its __init__."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    """Return the first folder or file inside the package; "" is the package's own __init__."""
    return module.split(".")[1] if "." in module else ""


def _imported_modules(path: Path, root: Path, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of everything that a file takes from the package, deferred imports included."""
    package = path.relative_to(root).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield node.lineno, name if name in modules else name.rpartition(".")[0] or name


def _circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return a circle of modules for each group of modules that reach one another."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in sorted(imports):
        path = [] if start in done else _way_back(imports, start)
        if path:
            circles.append([start, *path])
            done |= {start, *path}
    return circles


def _way_back(imports: dict[str, set[str]], start: str) -> list[str]:
    """Return the shortest path of imports from a module to itself, without its beginning; [] where there is none."""
    before: dict[str, str] = {}
    waiting = [start]
    for module in waiting:
        for imported in sorted(imports.get(module, ())):
            if imported not in before:
                before[imported] = module
                waiting.append(imported)
    if start not in before:
        return []
    path = [start]
    while before[path[0]] != start:
        path.insert(0, before[path[0]])
    return path


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
