"""The rules of the house as functions of a tree: each returns the faults it sees, as lines a reader
can act on."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "ctc_align"
GROUPS = {
    "ground": ("_version", "errors", "extras", "machine", "threads", "units"),
    "engine": ("ctc", "functional", "kernels", "lattice", "losses", "pipelines"),
    "core": (
        *(
            "alignment",
            "audio",
            "config",
            "files",
            "models",
            "reading",
            "text",
            "tokens",
            "types",
        ),
    ),
    "plug-ins": (
        *("files.elan", "files.epub", "files.page_spans", "files.pages", "files.read_aloud"),
        *("files.foreign_transcripts", "files.json_transcripts"),
        *("files.segments", "files.subtitles", "files.transcripts", "view"),
        *("models.huggingface", "models.onnx_description", "models.onnx_model"),
        *("models.torch_networks", "models.torchaudio_bundles", "text.library_readings"),
        *("text.sounds.abjads", "text.sounds.abugidas"),
        *("text.sounds.east_asia", "text.sounds.southeast_asia"),
    ),
    "below products": ("evaluate", "sources"),
    "products": ("corpus", "serve", "training"),
    "names": ("",),
    "cli": ("__main__", "cli", "demo"),
}
"""The groups of modules, lowest first, and the folders and modules of each; "" is the package's own
__init__.

A module imports from its own group and from those below. Core imports a plug-in only when it is
asked for one: inside a function. One product imports nothing of another.
"""
CORE, PLUG_INS, PRODUCTS = "core", "plug-ins", "products"

MAX_LINES = 900
MAX_STATEMENTS = 40
SMALL_FILE_LINES = 100
FORBIDDEN_NAMES = (
    *(
        "ahead",
        "assembling",
        "beside",
        "crew",
        "doubts",
        "evidence",
        "given",
        "intake",
        "members",
        "observed",
    ),
    *("padded", "spool", "workplace"),
)
"""Pictures of what a module holds; a module is named for what it holds."""
RIDDLES = ("What", "Whether", "Where", "Of")
"""How no docstring begins: it says `Return …`, `Write …`, or, of a class or a constant, what it
is."""
PRINTING = "cli/printing.py"
"""The door through which all goes that is printed."""
MAX_BYTES = 10_000_000
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)/(?=\w)[\w./-]*")


def import_faults(root: Path) -> list[str]:
    """Return imports that cross a border, modules that import each other in a circle, and modules
    of no group.

    Deferred imports and those for type checkers only count like any other, except that core may
    defer the import of a plug-in.
    """
    files = module_files(root)
    faults: list[str] = []
    for name, imported in imports_by_line(root).items():
        file, place = files[name].relative_to(root), place_of(name)
        if place is None:
            faults.append(f"{file}: belongs to no group: add it to GROUPS")
            continue
        late = _late_lines(files[name])
        for line, module in imported:
            if (fault := _border_fault(place, place_of(module), is_late=line in late)) is not None:
                faults.append(f"{file}:{line}: {fault}")
    return faults + [
        f"modules import each other in a circle: {' → '.join(circle)}"
        for circle in import_circles(root)
    ]


def place_of(module: str) -> tuple[str, str] | None:
    """Return the group of a module, and the row of the group that names it; None if none does."""
    inside = module.removeprefix(PACKAGE).removeprefix(".")
    places = [
        (group, row)
        for group, rows in GROUPS.items()
        for row in rows
        if inside == row or (row and inside.startswith(f"{row}."))
    ]
    return max(places, key=lambda place: len(place[1]), default=None)


def _border_fault(
    place: tuple[str, str], other: tuple[str, str] | None, *, is_late: bool
) -> str | None:
    """Return why a module may not import from another place, None if it may."""
    if other is None:
        return "imports a module of no group"
    group, row = place
    order = list(GROUPS)
    if (group, other[0]) == (CORE, PLUG_INS):
        return None if is_late else f"{CORE} must import {other[1]!r} inside a function"
    if group == other[0] == PRODUCTS and row != other[1]:
        return f"the product {row!r} must not import {other[1]!r}, another product"
    if order.index(other[0]) > order.index(group):
        return f"{group} ({row or PACKAGE!r}) must not import {other[0]} ({other[1] or PACKAGE!r})"
    return None


def _late_lines(path: Path) -> set[int]:
    """Return the lines of a file that run only when a function is called, or for type checkers."""
    late: set[int] = set()
    for node in _nodes_of(path.read_text(encoding="utf-8")):
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            late.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return late


def import_circles(root: Path) -> list[list[str]]:
    """Return a circle of modules for each group of modules that reach one another by their
    imports."""
    return _circles(
        {name: {module for _, module in lines} for name, lines in imports_by_line(root).items()}
    )


def module_files(root: Path) -> dict[str, Path]:
    """Return the file of each module of the package, by the module's dotted name."""
    return {
        _module_name(path.relative_to(root)): path
        for path in sorted((root / PACKAGE).rglob("*.py"))
    }


def imports_by_line(root: Path) -> dict[str, list[tuple[int, str]]]:
    """Return (line, module) of everything that each module takes from the package, by the module's
    name."""
    files = module_files(root)
    return {name: list(_imported_modules(path, root, set(files))) for name, path in files.items()}


def _module_name(path: Path) -> str:
    """Return the dotted name of a file of the package, a package's own name for its __init__."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported_modules(path: Path, root: Path, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of everything that a file takes from the package, deferred imports
    included."""
    package = path.relative_to(root).parent.parts
    for node in _nodes_of(path.read_text(encoding="utf-8")):
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
    """Return the shortest path of imports from a module to itself, without its beginning; []
    without a circle."""
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


def research_imports(root: Path, files: list[Path]) -> list[str]:
    """Return the imports of modules of `research` by files that are neither there nor tests."""
    studies = {path.stem for path in (root / "research").glob("*.py")} | {"research"}
    allowed = [root / "research", root / "tests"]
    return [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}"
        for path in files
        if path.suffix == ".py" and not any(path.is_relative_to(folder) for folder in allowed)
        for node in _nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for names in [
            (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [each.name for each in node.names]
            )
        ]
        if studies & {name.split(".")[0] for name in names}
    ]


def long_files(root: Path, files: list[Path]) -> list[str]:
    """Return the Python files that are too long to be read in one sitting."""
    faults = []
    for path in files:
        lines = _lines(path) if path.suffix == ".py" else 0
        if lines > MAX_LINES:
            faults.append(
                f"{path.relative_to(root)}: {lines} lines, at most {MAX_LINES}: make it two"
            )
    return faults


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def root_files(root: Path) -> list[str]:
    """Return the Python files in the root of the package."""
    return sorted(path.name for path in (root / PACKAGE).glob("*.py"))


def small_files(root: Path) -> list[str]:
    """Return the modules of under 100 lines that exactly one module imports; `__init__` does not
    count."""
    importers = defaultdict(set)
    for name, imported in imports_by_line(root).items():
        for _, module in imported:
            importers[module].add(name)
    return [
        f"{path.relative_to(root)}: {_lines(path)} lines, imported by {next(iter(importers[name]))}"
        " alone: merge them"
        for name, path in module_files(root).items()
        if path.name != "__init__.py"
        and _lines(path) < SMALL_FILE_LINES
        and len(importers[name] - {name}) == 1
    ]


def repeated_modules(root: Path) -> list[str]:
    """Return the names that several modules or folders have; files of `cli` are named after their
    commands."""
    places = defaultdict(list)
    for name in module_files(root):
        if name.split(".")[1:2] != ["cli"]:
            places[name.rpartition(".")[2]].append(name)
    return [
        f"{name}: {', '.join(modules)}"
        for name, modules in sorted(places.items())
        if len(modules) > 1
    ]


def forbidden_modules(root: Path) -> list[str]:
    """Return the modules whose name is a picture in place of a noun of the field."""
    return [name for name in module_files(root) if name.rpartition(".")[2] in FORBIDDEN_NAMES]


def repeated_classes(root: Path) -> list[str]:
    """Return the names that several classes of the package have."""
    places = defaultdict(list)
    for path, node in _nodes(root):
        if isinstance(node, ast.ClassDef):
            places[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return [
        f"{name}: {', '.join(lines)}" for name, lines in sorted(places.items()) if len(lines) > 1
    ]


def long_functions(root: Path) -> list[str]:
    """Return the functions outside `kernels` with too many statements, docstrings left out."""
    faults = []
    for path, node in _nodes(root):
        if not isinstance(node, ast.FunctionDef) or path.is_relative_to(root / PACKAGE / "kernels"):
            continue
        inside = sum(isinstance(each, ast.stmt) for each in ast.walk(node)) - 1
        statements = inside - (ast.get_docstring(node) is not None)
        if statements > MAX_STATEMENTS:
            place = f"{path.relative_to(root)}:{node.lineno}"
            faults.append(f"{place}: {node.name}: {statements} statements")
    return faults


def riddles(root: Path) -> list[str]:
    """Return the docstrings, those of constants and fields too, that begin with What, Whether,
    Where or Of."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {text.splitlines()[0]}"
        for path, node in _nodes(root)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for text in [node.value.value.strip()]
        if text.partition(" ")[0].rstrip(",:;.") in RIDDLES
    ]


def loose_newlines(root: Path) -> list[str]:
    """Return the calls that write text with the line ends of the system, which are CRLF on
    Windows."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)[:60]}"
        for path, node in _nodes(root)
        if isinstance(node, ast.Call)
        and _writes_text(node)
        and all(word.arg != "newline" for word in node.keywords)
    ]


def _writes_text(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    modes = [
        each.value
        for each in node.args[1:2]
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    opens = (
        name == "open" and bool(modes) and bool(set("wax") & set(modes[0])) and "b" not in modes[0]
    )
    return opens or name.endswith(".write_text")


def loose_printing(root: Path) -> list[str]:
    """Return the calls that print, outside `cli/printing.py`, what has not passed `printable`."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)[:60]}"
        for path, node in _nodes(root)
        if isinstance(node, (ast.Call, ast.Attribute)) and _prints(node)
        if path != root / PACKAGE / PRINTING
    ]


def _prints(node: ast.Call | ast.Attribute) -> bool:
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in ("sys.stdout.write", "sys.stderr.write", "sys.stderr.buffer")
    name = ast.unparse(node.func)
    if name == "print":
        return not all(
            isinstance(each, ast.Call) and ast.unparse(each.func) == "printable"
            for each in node.args
        )
    return name.rpartition(".")[2] in ("echo", "secho", "print_exc", "print_exception", "Console")


@functools.cache
def _nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Return the nodes of a file's syntax; each text is parsed once, for all rules."""
    return tuple(ast.walk(ast.parse(text)))


def _nodes(root: Path) -> Iterator[tuple[Path, ast.AST]]:
    """Yield (file, node) of the syntax of the whole package."""
    for path in module_files(root).values():
        for node in _nodes_of(path.read_text(encoding="utf-8")):
            yield path, node


def heavy_files(root: Path, files: list[Path]) -> list[str]:
    """Return the files that are too large for a repository that is cloned."""
    return [
        f"{path.relative_to(root)}: {path.stat().st_size} bytes"
        for path in files
        if path.stat().st_size > MAX_BYTES
    ]


def machine_paths(root: Path, files: list[Path]) -> list[str]:
    """Return the lines that name a folder of the machine that somebody worked on."""
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
    """Return the files that git holds, or every file where there is no git (an unpacked source
    archive)."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True
        ).stdout
        files = [root / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
    if not files:
        files = [
            path
            for path in root.rglob("*")
            if not any(
                part.startswith(".") or part == "__pycache__"
                for part in path.relative_to(root).parts
            )
        ]
    return [path for path in files if path.is_file()]
