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
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
MOST_FOLDS = {"ternaries": 25.0, "assignments": 4.5}
"""The most ternaries, and the most assignments of unlike things (`is_unlike_assignment`), in 1,000
lines of code of the package: what is folded is counted itself."""
REACHED = {"Aligner": f"{PACKAGE}.alignment.aligner", "functional": f"{PACKAGE}.functional"}
"""The modules whose reach is counted: the files that their import loads."""


@dataclass(slots=True)
class Lines:
    """Counts of files, of their lines, by kind, of the tokens of their code, and of what is folded
    there: ternaries and assignments of unlike things."""

    files: int = 0
    total: int = 0
    code: int = 0
    docstrings: int = 0
    comments: int = 0
    blank: int = 0
    tokens: int = 0
    ternaries: int = 0
    assignments: int = 0

    def add(self, other: Lines) -> None:
        """Add the counts of other files."""
        for name, count in zip(self.__slots__, astuple(other)):
            setattr(self, name, getattr(self, name) + count)


def lines_of(path: Path) -> Lines:
    """Return the counts of one file; a comment that follows code on its line counts as code."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    docstrings: set[int] = set()
    nodes = list(ast.walk(ast.parse(text)))
    ternaries = sum(isinstance(node, ast.IfExp) for node in nodes)
    assignments = sum(map(is_unlike_assignment, nodes))
    for node in nodes:
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
    return Lines(
        1, len(lines), code, len(docstrings), comments, blank, code_tokens, ternaries, assignments
    )


def is_unlike_assignment(node: ast.AST) -> bool:
    """Return whether a node assigns unlike things in one statement, as `a, b = x, f(y)` does.

    Values are alike if they are the targets in another order (a swap), constants of one type, or
    equal expressions but for one word, the same throughout: `left.x, left.y`, `rows[0], rows[1]`,
    `min(times), max(times)`. Bare names are never alike. A value that is unpacked is one thing.
    """
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    values = node.value.elts
    texts = [ast.unparse(value) for value in values]
    for target in node.targets:
        if not isinstance(target, ast.Tuple):
            continue
        if sorted(map(ast.unparse, target.elts)) == sorted(texts):
            continue
        kinds = {_constant_type(value) for value in values}
        if None in kinds or len(kinds) > 1:
            is_named = any(isinstance(value, ast.Name) for value in values)
            if is_named or not all(_differ_in_one_word(texts[0], text) for text in texts[1:]):
                return True
    return False


def _constant_type(value: ast.expr) -> type | None:
    """Return the type of a constant, which may have a sign; None for another expression."""
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    return type(value.value) if isinstance(value, ast.Constant) else None


def _differ_in_one_word(first: str, second: str) -> bool:
    """Return whether two expressions are equal when one word of one is replaced throughout."""
    words = [re.findall(r"\w+|\W", text) for text in (first, second)]
    if len(words[0]) != len(words[1]):
        return False
    replaced = {pair for pair in zip(*words) if pair[0] != pair[1]}
    return len(replaced) <= 1 and all(
        word[0].isidentifier() or word[0].isdigit() for word in replaced
    )


def fold_faults(root: Path) -> list[str]:
    """Return which kind of folded code the package has more of than `MOST_FOLDS`."""
    counts = sum_of(lines_by_folder(root).values())
    faults = []
    for kind, most in MOST_FOLDS.items():
        share = 1000 * getattr(counts, kind) / max(counts.code, 1)
        if share > most:
            faults.append(
                f"{share:.1f} {kind} in 1,000 lines of code, at most {most:g}: unfold some"
            )
    return faults


def nested_folds(root: Path) -> list[str]:
    """Return the ternaries within ternaries, and the functions within functions that hold further
    functions."""
    faults = []
    for path in module_files(root).values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.IfExp) and _inner(node, (ast.IfExp,)):
                faults.append(f"{place}: a ternary in a ternary")
            if isinstance(node, FUNCTIONS) and any(
                _inner(inner, FUNCTIONS) for inner in _inner(node, FUNCTIONS)
            ):
                faults.append(f"{place}: {node.name}: a closure in a closure")
    return faults


def _inner(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """Return the nodes of some kinds within a node, without itself."""
    return [inner for inner in ast.walk(node) if isinstance(inner, kinds) and inner is not node]


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
        f"{'ternaries':>11}{'assigned':>10}"
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
    """Return a line of the table; what is folded in 1,000 lines of code."""
    *counted, ternaries, assignments = astuple(counts)
    cells = [f"{count:{width}}" for count, width in zip(counted, (7, 8, 8, 8, 9, 7, 9))]
    shares = [1000 * count / max(counts.code, 1) for count in (ternaries, assignments)]
    return f"{name:14}{''.join(cells)}{shares[0]:11.1f}{shares[1]:10.1f}"


if __name__ == "__main__":
    main()
