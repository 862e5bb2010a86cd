"""The rules of the house, held; and each checker seen to fail on a planted fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import house_rules as rules
import pytest
from house_rules import tracked_files
from house_table import budget_faults, single_importers

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = {
    "Aligner",
    "Alignment",
    "CTCLoss",
    "CtcAlignError",
    "Emissions",
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
}
"""How many each rule lets pass. The last six are faults that are left: lower a number, never raise
it."""
HEAVY = ("torch", "numba", "soundfile", "soxr", "safetensors", "num2words")


def plant(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_imports_point_one_way() -> None:
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
            "lattice/building.py",
            "from ctc_align.kernels import cpu\n",
            "'lattice' must not import 'kernels'",
        ),
        (
            "lattice/building.py",
            "import ctc_align.kernels.cpu.cpu_backend\n",
            "'lattice' must not import 'kernels'",
        ),
        ("lattice/building.py", "from .. import kernels\n", "'lattice' must not import 'kernels'"),
        (
            "lattice/building.py",
            "from ..kernels.cpu import f\n",
            "'lattice' must not import 'kernels'",
        ),
        (
            "lattice/building.py",
            "def f():\n    from ctc_align import kernels\n",
            "building.py:2: 'lattice' must not",
        ),
        (
            "lattice/building.py",
            "from ctc_align import align\n",
            "'lattice' must not import 'ctc_align'",
        ),
        ("text/words.py", "from ..kernels import cpu\n", "'text' must not import 'kernels'"),
        ("types.py", "from ctc_align.kernels import cpu\n", "'types' must not import 'kernels'"),
        ("attic.py", "", "the room 'attic' stands on no floor"),
        (
            "errors.py",
            "import ctc_align.types\n",
            "circle: ctc_align.errors → ctc_align.types → ctc_align.errors",
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
    for name in (
        "__init__",
        "kernels/__init__",
        "kernels/cpu/sums",
        "lattice/__init__",
        "lattice/arcs",
        "errors",
    ):
        plant(tmp_path, f"ctc_align/{name}.py", "")
    plant(tmp_path, "ctc_align/types.py", "from ctc_align.errors import CtcAlignError\n")
    plant(tmp_path, "ctc_align/lattice/topology.py", "from ctc_align.lattice.arcs import arcs\n")
    plant(
        tmp_path,
        "ctc_align/losses.py",
        "import torch\nfrom ctc_align.kernels import cpu\nfrom . import types\n",
    )
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
