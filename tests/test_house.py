"""The rules of the house, held; and each checker seen to fail on a planted fault."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import house_rules as rules
import pytest
from house_rules import tracked_files
from house_table import (
    MOST_FOLDS,
    REACHED,
    budget_faults,
    fold_faults,
    is_unlike_assignment,
    nested_folds,
    reach,
    single_importers,
)
from tuned_limits import MOST_TUNED_LIMITS, tuned_limits

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = {
    "AlignedToken",
    "AlignedWord",
    "Aligner",
    "Alignment",
    "AudioError",
    "BackendError",
    "BackendWarning",
    "CTCLoss",
    "ConfigError",
    "CtcAlignError",
    "Emissions",
    "EmissionsError",
    "InputError",
    "KernelError",
    "LanguageSpan",
    "LexiconError",
    "LostFolderError",
    "MissingExtraError",
    "MissingTierError",
    "OutputError",
    "Region",
    "Settings",
    "TooShortError",
    "Transcript",
    "TranscriptError",
    "UsageError",
    "WrongArrayError",
    "WrongFileError",
    "__version__",
    "align",
    "read_alignment",
}
"""A promise: what is here stays, and what is not here is nobody's to rely on."""
LIMITS = {
    rules.root_files: 12,
    rules.small_files: 10,
    rules.repeated_modules: 0,
    rules.repeated_classes: 0,
    rules.forbidden_modules: 0,
    rules.long_functions: 0,
    rules.loose_newlines: 0,
    rules.loose_printing: 0,
    rules.riddles: 1,
    single_importers: 41,
    nested_folds: 0,
}
"""How many each rule lets pass. The last six are faults that are left: lower a number, never raise
it."""
REACH = {"Aligner": (55, 105_000), "functional": (16, 20_000)}
"""The most files of the package, and tokens in them, that an import loads."""
HEAVY = ("torch", "numba", "soundfile", "soxr", "safetensors", "num2words")


def plant(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_imports_keep_the_borders() -> None:
    assert rules.import_faults(ROOT) == []


@pytest.mark.parametrize("rule", LIMITS, ids=lambda rule: rule.__name__)
def test_the_rules_of_the_house(rule: Callable[[Path], list[str]]) -> None:
    faults = rule(ROOT)
    assert len(faults) <= LIMITS[rule], "\n".join(
        [f"{len(faults)}, at most {LIMITS[rule]}:", *faults]
    )


def test_the_package_does_not_import_research() -> None:
    assert rules.research_imports(ROOT, tracked_files(ROOT)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from ctc_align import mismatches\n", 0),
        ("import numpy, mismatches\n", 1),
        ("def f():\n    from mismatches import KINDS\n", 1),
        ("import research.mismatches\n", 1),
    ],
)
def test_the_checker_of_research_fails_when_it_should(
    tmp_path: Path, text: str, found: int
) -> None:
    plant(tmp_path, "research/mismatches.py", "KINDS = ()\n")
    importers = (
        "research/other.py",
        "tests/research/test_mismatches.py",
        "ctc_align/words.py",
    )
    faults = rules.research_imports(tmp_path, [plant(tmp_path, name, text) for name in importers])
    assert [fault.split(":")[0] for fault in faults] == ["ctc_align/words.py"] * found


def test_the_code_keeps_its_budget() -> None:
    """A change that exceeds a budget takes something out, or its commit says why the budget
    grows."""
    assert budget_faults(ROOT) == []


@pytest.mark.parametrize("name", REACH)
def test_an_import_reaches_no_further(name: str) -> None:
    reached, (files, tokens) = reach(ROOT, REACHED[name]), REACH[name]
    assert reached.files <= files, f"{reached.files} files, at most {files}: import some later"
    assert reached.tokens <= tokens, f"{reached.tokens} tokens, at most {tokens}"


def test_reach_counts_what_an_import_loads(tmp_path: Path) -> None:
    plant(tmp_path, "ctc_align/__init__.py", "")
    plant(tmp_path, "ctc_align/text/__init__.py", "x = 1\n")
    plant(tmp_path, "ctc_align/text/words.py", '"""Words."""\ny = 2\n')
    late = "def f():\n    from ctc_align.text import words\n"
    plant(tmp_path, "ctc_align/late.py", late)
    plant(tmp_path, "ctc_align/early.py", "from ctc_align.text import words\n")
    assert reach(tmp_path, "ctc_align.late").files == 2
    early = reach(tmp_path, "ctc_align.early")
    assert (early.files, early.tokens) == (4, 12)


def test_code_over_its_budget_is_a_fault(tmp_path: Path) -> None:
    plant(tmp_path, "CONTRIBUTING.md", "| `ctc_align` | 6 |\n")
    plant(
        tmp_path,
        "ctc_align/a.py",
        '"""Docstrings do not count."""\n\nx = 1  # and comments do not\n',
    )
    plant(tmp_path, "ctc_align/text/words.py", "y = 2\n")
    assert budget_faults(tmp_path) == ["tests: no row in the table of budgets"]
    plant(tmp_path, "ctc_align/text/words.py", "y = -2\n")
    assert budget_faults(tmp_path) == [
        "ctc_align: 7 tokens, at most 6: take something out, or say why it grows",
        "tests: no row in the table of budgets",
    ]


def test_the_search_and_its_judges_decide_by_few_tuned_numbers() -> None:
    """One that is added takes another out, or its commit says why there are more."""
    names = [name for found in tuned_limits(ROOT).values() for name in found]
    assert len(names) <= MOST_TUNED_LIMITS, names


def test_tuned_numbers_are_counted(tmp_path: Path) -> None:
    code = "A, B = 1.5, -2\nC = 2 * A\nD = {'x': 0.4, 'y': A}\nMOST_CELLS = 10**9\nNAME = 'x'\n"
    plant(tmp_path, "ctc_align/alignment/presence.py", code)
    assert tuned_limits(tmp_path) == {"presence": ["A", "B", "D"]}


def test_code_is_not_folded() -> None:
    assert fold_faults(ROOT) == []


def test_folded_code_is_a_fault(tmp_path: Path) -> None:
    plant(tmp_path, "ctc_align/a.py", "x = 1\n" * 998 + "y = 1 if x else 2\na, b = f(x), y\n")
    assert fold_faults(tmp_path) == nested_folds(tmp_path) == []
    plant(tmp_path, "ctc_align/a.py", "y = 1 if x else 2\na, b = f(x), y\n")
    assert fold_faults(tmp_path) == [
        f"500.0 {kind} in 1,000 lines of code, at most {most:g}: unfold some"
        for kind, most in MOST_FOLDS.items()
    ]
    closure = "def outer():\n    def middle():\n        {}\n        return 1\n    return middle\n"
    plant(tmp_path, "ctc_align/a.py", closure.format("pass"))
    assert nested_folds(tmp_path) == []
    inner = closure.format("def inner(): return 2 if x else (3 if y else 4)")
    plant(tmp_path, "ctc_align/a.py", inner)
    assert nested_folds(tmp_path) == [
        "ctc_align/a.py:1: outer: a closure in a closure",
        "ctc_align/a.py:3: a ternary in a ternary",
    ]


@pytest.mark.parametrize(
    ("text", "is_unlike"),
    [
        ("a, b = x, y", True),
        ("a, b = [], 0", True),
        ("a, b = rows[0], len(rows)", True),
        ("a, b = p.x, q.y", True),
        ("a, b, c = 0, 0, 1.0", True),
        ("a, b = b, a", False),
        ("a, b = f(x)", False),
        ("low, high = 0.0, -1.5", False),
        ("a.x, a.y = b.x, b.y", False),
        ("first, last = min(times), max(times)", False),
        ("a, b = f(p.x, p), f(q.x, q)", False),
        ("pair = x, f(y)", False),
    ],
)
def test_what_is_unlike(text: str, is_unlike: bool) -> None:
    assert is_unlike_assignment(ast.parse(text).body[0]) == is_unlike


def test_files_can_be_read_in_one_sitting() -> None:
    assert rules.long_files(ROOT, tracked_files(ROOT)) == []


def test_no_file_is_heavy() -> None:
    assert rules.heavy_files(ROOT, tracked_files(ROOT)) == []


def test_no_file_names_a_machine() -> None:
    assert rules.machine_paths(ROOT, tracked_files(ROOT)) == []


def test_the_tree_is_seen() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in tracked_files(ROOT)}
    assert {"ctc_align/errors.py", "pyproject.toml", "tests/test_house.py"} <= names


def test_the_public_names() -> None:
    import ctc_align

    assert set(ctc_align.__all__) == PUBLIC
    assert [name for name in ctc_align.__all__ if not hasattr(ctc_align, name)] == []


def test_the_errors_are_public() -> None:
    import ctc_align
    from ctc_align import errors

    tree = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert tree == {name for name in ctc_align.__all__ if hasattr(errors, name)}


def test_functional_shows_its_functions_alone() -> None:
    functional = pytest.importorskip("ctc_align.functional")
    foreign = [
        name
        for name in dir(functional)
        if getattr(functional, name).__module__ != "ctc_align.functional"
    ]
    assert foreign == []
    assert "ctc_loss" in dir(functional)


def test_modules_of_functions_need_no_import_of_their_own() -> None:
    code = (
        "import ctc_align; print(ctc_align.functional.ctc_loss.__module__,"
        " ctc_align.losses.CTCLoss.__module__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["ctc_align.functional", "ctc_align.losses"]


@pytest.mark.parametrize("module", ["ctc_align", "ctc_align.cli"])
def test_imports_are_light(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        (
            "units.py",
            "import ctc_align.kernels.cpu.sums\n",
            "units.py:1: ground ('units') must not import engine ('kernels')",
        ),
        (
            "lattice/building.py",
            "from ctc_align import types\n",
            "building.py:1: engine ('lattice') must not import core ('types')",
        ),
        ("lattice/building.py", "from .. import types\n", "must not import core ('types')"),
        ("losses.py", "from .types import Word\n", "engine ('losses') must not import core"),
        (
            "kernels/batching.py",
            "def f():\n    from ctc_align import types\n",
            "batching.py:2: engine ('kernels') must not import core ('types')",
        ),
        (
            "text/words.py",
            "from ..evaluate import errors\n",
            "core ('text') must not import below products ('evaluate')",
        ),
        (
            "text/words.py",
            "def f():\n    from ctc_align.corpus import journal\n",
            "core ('text') must not import products ('corpus')",
        ),
        (
            "text/words.py",
            "from ctc_align.view import page\n",
            "core must import 'view' inside a function",
        ),
        (
            "files/words.py",
            "import ctc_align.files.elan\n",
            "core must import 'files.elan' inside a function",
        ),
        (
            "evaluate/errors.py",
            "from ctc_align.corpus import journal\n",
            "below products ('evaluate') must not import products ('corpus')",
        ),
        (
            "training/recipe.py",
            "def f():\n    from ctc_align.corpus.journal import Line\n",
            "recipe.py:2: the product 'training' must not import 'corpus', another product",
        ),
        (
            "serve/jobs.py",
            "from ctc_align.cli import main\n",
            "products ('serve') must not import cli ('cli')",
        ),
        (
            "lattice/building.py",
            "from ctc_align import align\n",
            "engine ('lattice') must not import names ('ctc_align')",
        ),
        ("attic.py", "", "ctc_align/attic.py: belongs to no group"),
        (
            "machine/memory.py",
            "import ctc_align.errors\n",
            "circle: ctc_align.errors → ctc_align.machine.memory → ctc_align.errors",
        ),
        (
            "lattice/arcs.py",
            "def f():\n    from ctc_align.lattice.topology import states\n",
            "circle: ctc_align.lattice.arcs → ctc_align.lattice.topology → ctc_align.lattice.arcs",
        ),
    ],
)
def test_the_import_checker_fails_when_it_should(
    tmp_path: Path, file: str, text: str, fault: str
) -> None:
    fine = {
        "__init__": "",
        "machine/memory": "",
        "errors": "from ctc_align.machine import memory\n",
        "kernels/cpu/sums": "from ctc_align.errors import CtcAlignError\n",
        "lattice/arcs": "",
        "lattice/topology": "from ctc_align.lattice.arcs import arcs\n",
        "losses": "import torch\nfrom ctc_align.kernels import cpu\nfrom . import errors\n",
        "types": "from ctc_align import errors, kernels\n",
        "files/elan": "import ctc_align.view.page\n",
        "view/page": "",
        "files/words": "def f():\n    from ctc_align.files import elan\n",
        "evaluate/errors": "import ctc_align.files.elan\n",
        "corpus/journal": "from ctc_align.files import words\n",
        "training/recipe": "import ctc_align.types\n",
        "cli/main": "from ctc_align import align\nimport ctc_align.corpus.journal\n",
    }
    folders = {name.rpartition("/")[0] for name in fine} | {"kernels", "text", "serve"}
    for name in filter(None, folders):
        plant(tmp_path, f"ctc_align/{name}/__init__.py", "")
    for name, code in fine.items():
        plant(tmp_path, f"ctc_align/{name}.py", code)
    assert rules.import_faults(tmp_path) == []
    plant(tmp_path, f"ctc_align/{file}", text)
    assert len(rules.import_faults(tmp_path)) == 1
    assert fault in rules.import_faults(tmp_path)[0]


LONG_FUNCTION = "def function():\n    'Do.'\n" + "    pass\n" * (rules.MAX_STATEMENTS + 1)


@pytest.mark.parametrize(
    ("rule", "fine", "faulty", "fault"),
    [
        (rules.root_files, {}, {"attic.py": ""}, "attic.py"),
        (
            rules.small_files,
            {
                "a.py": "x = 1\n" * 100,
                "b.py": "",
                "c.py": "from ctc_align import a, b\n",
                "d.py": "import ctc_align.b\n",
            },
            {"d.py": ""},
            "ctc_align/b.py: 0 lines, imported by ctc_align.c alone: merge them",
        ),
        (
            single_importers,
            {"a.py": "", "b.py": "from ctc_align import a\n", "c.py": "from ctc_align import a\n"},
            {"c.py": ""},
            "ctc_align.a",
        ),
        (
            rules.repeated_modules,
            {"text/words.py": "", "text/__init__.py": "", "cli/words.py": ""},
            {"files/words.py": ""},
            "words: ctc_align.files.words, ctc_align.text.words",
        ),
        (
            rules.repeated_modules,
            {"text/__init__.py": ""},
            {"models/text.py": ""},
            "text: ctc_align.models.text, ctc_align.text",
        ),
        (
            rules.forbidden_modules,
            {"corpus/worker.py": ""},
            {"corpus/crew.py": ""},
            "ctc_align.corpus.crew",
        ),
        (
            rules.repeated_classes,
            {"a.py": "class Row:\n    x = 1\n"},
            {"b.py": "def f():\n    class Row: ...\n"},
            "Row: ctc_align/a.py:1, ctc_align/b.py:2",
        ),
        (
            rules.long_functions,
            {"a.py": LONG_FUNCTION.removesuffix("    pass\n"), "kernels/b.py": LONG_FUNCTION},
            {"a.py": LONG_FUNCTION},
            f"ctc_align/a.py:1: function: {rules.MAX_STATEMENTS + 1} statements",
        ),
        (
            rules.loose_newlines,
            {
                "a.py": (
                    "open(a, 'wb')\nopen(a)\nopen(a, 'w', newline='')\npath.write_text(b, 'utf-8',"
                    " newline='')\n"
                )
            },
            {"a.py": "path.write_text(b, 'utf-8')\n"},
            "ctc_align/a.py:1: path.write_text(b, 'utf-8')",
        ),
        (
            rules.loose_newlines,
            {},
            {"a.py": "open(a, 'x', encoding='a')\n"},
            "ctc_align/a.py:1: open(a, 'x', encoding='a')",
        ),
        (
            rules.loose_printing,
            {
                "cli/printing.py": "print(1)\n",
                "a.py": "print(printable('a'), file=f)\nconsole.print(table)\n",
            },
            {"a.py": "import sys\nprint(f'{name}')\n"},
            "ctc_align/a.py:2: print(f'{name}')",
        ),
        (
            rules.riddles,
            {
                "a.py": (
                    '"""Whatever comes."""\nx = "What is this?"\ndef f():\n    """Return what is'
                    ' there."""\n'
                )
            },
            {"a.py": '"""Words."""\ndef f():\n    """\n    What is there.\n    """\n'},
            "ctc_align/a.py:3: What is there.",
        ),
        (
            rules.riddles,
            {},
            {"a.py": '"""Words."""\nx = 1\n"""Of each word, one."""\n'},
            "ctc_align/a.py:3: Of each word, one.",
        ),
    ],
)
def test_each_rule_is_broken_by_a_fault(tmp_path, rule, fine, faulty, fault):
    for name, text in fine.items():
        plant(tmp_path, f"ctc_align/{name}", text)
    assert rule(tmp_path) == []
    for name, text in faulty.items():
        plant(tmp_path, f"ctc_align/{name}", text)
    assert rule(tmp_path) == [fault]


def test_the_other_checkers_fail_when_they_should(tmp_path: Path) -> None:
    fine = plant(tmp_path, "fine.py", "x = 1\n" * rules.MAX_LINES)
    long = plant(tmp_path, "long.py", "x = 1\n" * (rules.MAX_LINES + 1))
    assert rules.long_files(tmp_path, [fine, long]) == [
        f"long.py: {rules.MAX_LINES + 1} lines, at most {rules.MAX_LINES}: make it two"
    ]
    heavy = plant(tmp_path, "heavy.bin", "\0" * (rules.MAX_BYTES + 1))
    assert rules.heavy_files(tmp_path, [fine, heavy]) == [f"heavy.bin: {rules.MAX_BYTES + 1} bytes"]
    path = "/".join(["", "home", "me", "data.wav"])
    named = plant(
        tmp_path, "named.md", f"fine: a/home/b, https://x.org/home/y\nsee `{path}` here\n"
    )
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff" + path.encode())
    assert rules.machine_paths(tmp_path, [fine, named, binary]) == [f"named.md:2: {path}"]
    assert set(tracked_files(tmp_path)) == {fine, long, heavy, named, binary}
