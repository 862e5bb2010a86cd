"""Figures of the package's structure, read from the code: what a plan of the architecture sets
targets for.

python tests/support/house_table.py [ROOT]
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from house_rules import PACKAGE, import_circles, imports_by_line, module_files

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that are not code."""
REACHED = {"Aligner": f"{PACKAGE}.alignment.aligner", "functional": f"{PACKAGE}.functional"}
"""The modules whose reach is counted: the files that their import loads."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Lines:
    """Counts of files, of their lines, by kind, and of the tokens of their code."""

    files: int = 0
    total: int = 0
    code: int = 0
    docstrings: int = 0
    comments: int = 0
    blank: int = 0
    tokens: int = 0

    def add(self, other: Lines) -> None:
        """Add the counts of other files."""
        for name, count in zip(self.__slots__, astuple(other)):
            setattr(self, name, getattr(self, name) + count)


def lines_of(path: Path) -> Lines:
    """Return the counts of one file; a comment that follows code on its line counts as code."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        first = node.body[0] if isinstance(node, DOCUMENTED) and node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = sum(
        token.type == tokenize.COMMENT and lines[token.start[0] - 1].strip()[0] == "#"
        for token in tokens
    )
    blank = sum(
        not line.strip() for number, line in enumerate(lines, 1) if number not in docstrings
    )
    code = len(lines) - len(docstrings) - comments - blank
    code_tokens = sum(
        token.type not in LAYOUT and token.start[0] not in docstrings for token in tokens
    )
    return Lines(1, len(lines), code, len(docstrings), comments, blank, code_tokens)


def lines_by_folder(root: Path, top: str = PACKAGE) -> dict[str, Lines]:
    """Return the counts of each folder of `top`; "." for the files that lie in `top` itself."""
    counts: dict[str, Lines] = {}
    for path in sorted((root / top).rglob("*.py")):
        parts = path.relative_to(root / top).parts
        counts.setdefault(parts[0] if len(parts) > 1 else ".", Lines()).add(lines_of(path))
    return counts


def budget_faults(root: Path) -> list[str]:
    """Return what has more tokens of code than the table of budgets in CONTRIBUTING.md allows, or
    no row there."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|$", text, re.MULTILINE)
    budgets = {name: int(number.replace(",", "")) for name, number in rows}
    faults = []
    for top in (PACKAGE, "tests"):
        tokens = sum_of(lines_by_folder(root, top).values()).tokens
        if top not in budgets:
            faults.append(f"{top}: no row in the table of budgets")
        elif tokens > budgets[top]:
            faults.append(
                f"{top}: {tokens} tokens, at most {budgets[top]}: take something out, or say why it"
                " grows"
            )
    return faults


def sum_of(counts: Iterable[Lines]) -> Lines:
    """Return the sum of several counts."""
    whole = Lines()
    for each in counts:
        whole.add(each)
    return whole


def single_importers(root: Path) -> list[str]:
    """Return the modules that exactly one other module imports, packages' own files left out."""
    importers: dict[str, set[str]] = {}
    for name, imported in imports_by_line(root).items():
        for _, module in imported:
            if module != name:
                importers.setdefault(module, set()).add(name)
    files = module_files(root)
    return sorted(
        name
        for name, users in importers.items()
        if len(users) == 1 and files[name].name != "__init__.py"
    )


def reach(root: Path, module: str) -> Lines:
    """Return the counts of the files of the package that an import of a module loads, in a process
    of its own; deferred imports are not among them."""
    code = (
        f"import sys, {module}\n"
        f"names = [name for name in sys.modules if name.partition('.')[0] == {PACKAGE!r}]\n"
        "print(*(sys.modules[name].__file__ for name in names), sep='\\n')"
    )
    files = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return sum_of(lines_of(Path(file)) for file in files)


def dataclass_count(root: Path) -> int:
    """Return the number of dataclasses of the package."""
    return sum(
        isinstance(node, ast.ClassDef)
        and any("dataclass" in ast.unparse(each) for each in node.decorator_list)
        for path in module_files(root).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Figures of the package's structure.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    root = parser.parse_args().root.resolve()
    folders = lines_by_folder(root)
    print(
        f"{'':14}{'files':>7}{'total':>8}{'code':>8}{'docstr.':>8}{'comments':>9}{'blank':>7}{'tokens':>9}"
    )
    for folder, counts in sorted(folders.items()):
        print(row(folder, counts))
    print(row("all", sum_of(folders.values())))
    print(row("tests", sum_of(lines_by_folder(root, "tests").values())))
    print(f"modules with one importer  {len(single_importers(root))}")
    print(f"dataclasses                {dataclass_count(root)}")
    for name, module in REACHED.items():
        reached = reach(root, module)
        print(f"reach of {name:17} {reached.files} files, {reached.tokens} tokens")
    print(f"circles of imports         {len(import_circles(root))}")


def row(name: str, counts: Lines) -> str:
    """Return a line of the table."""
    return f"{name:14}" + "".join(
        f"{count:{width}}" for count, width in zip(astuple(counts), (7, 8, 8, 8, 9, 7, 9))
    )


if __name__ == "__main__":
    main()
