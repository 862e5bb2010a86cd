"""Documents and cards of models name what is there, and the examples run."""

from __future__ import annotations

import fnmatch
import re
import runpy
import sys
from pathlib import Path

import pytest
from house_rules import tracked_files

import ctc_align

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
_FOLDERS = "(?:ctc_align|tests|research|examples|configs|docs)/"
_PATH = re.compile(rf"(?:(?<=`){_FOLDERS}[\w./-]*(?=`)|(?<![\w/]){_FOLDERS}[\w./-]+\.\w+)")
_COMMAND = re.compile(r"python ((?:research|tests)/[\w/]+\.py)([^`\n]*)")
_OPTION = re.compile(r"--[a-z][a-z-]*")
CARDS = sorted((ROOT / "ctc_align" / "models").rglob("README.md"))
MODEL_CARD = "ctc_align/models/english/README.md"
PAGES = ("docs/corpora.md", "docs/formats.md", "docs/pytorch.md")
"""Pages of promises, each with the test that holds it."""


def faults_of(text: str) -> list[str]:
    """The files of the repository that a text names and that are not there, and options that their
    scripts lack."""
    faults = [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    for name, arguments in _COMMAND.findall(text):
        script = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else ""
        faults += [
            f"{name} {option}"
            for option in _OPTION.findall(arguments)
            if f'"{option}"' not in script
        ]
    return faults


def test_files_and_options_of_scripts_that_are_named_exist() -> None:
    documents = [*CARDS, ROOT / "research" / "README.md", *(ROOT / "docs").rglob("*.md")]
    documents += [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")]
    faults = {
        path.relative_to(ROOT).as_posix(): faults_of(path.read_text(encoding="utf-8"))
        for path in documents
    }
    assert {name: found for name, found in faults.items() if found} == {}
    assert (
        faults_of(
            "`python research/drawn_edges.py --speech M --out D`, `research/README.md`, `tests/support/`"
        )
        == []
    )
    assert faults_of("`python research/drawn_edges.py --speach M`") == [
        "research/drawn_edges.py --speach"
    ]
    assert faults_of("as in `ctc_align/training/mismatches.py`") == [
        "ctc_align/training/mismatches.py"
    ]
    assert faults_of("in `ctc_align/attic/`") == ["ctc_align/attic/"]


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_what_hubs_read_is_what_the_card_says(path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="no PyYAML")
    start, head, text = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert (start, fields["library_name"]) == ("", "ctc-align")
    (entry,) = fields["model-index"]
    assert entry["name"] == path.parent.name
    for result in entry["results"]:
        assert result["task"]["type"]
        assert {"type", "name"} <= result["dataset"].keys()
        values = [metric["value"] for metric in result["metrics"]]
        assert values
        assert [value for value in values if f"{value:g}" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_names_a_test_that_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = re.findall(r"^\|.*\| Test \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = "".join(tables).splitlines()
    assert len(rows) > 9
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []
    named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", text)
    assert [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ] == []


def test_the_blocks_for_users_of_pytorch_run() -> None:
    """In order, as one program; each asserts what the page says."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "pytorch.md").read_text("utf-8"), re.M | re.S
    )
    assert len(blocks) == 3
    assert all("assert " in block for block in blocks)
    program = "".join(blocks)
    exec(compile(program, "docs/pytorch.md", "exec"), {})
    with pytest.raises(AssertionError):
        exec(compile(program.replace("-grad, soft", "grad, soft"), "docs/pytorch.md", "exec"), {})


def test_figures_that_are_quoted_are_where_all_figures_are() -> None:
    """`docs/compare/figures.md` has their intervals, speech, versions and commands."""
    figure = re.compile(r"\d+\.\d+(?= (?:ms|%))")
    made = set(
        re.findall(
            r"\d+\.\d+", (ROOT / "docs" / "compare" / "figures.md").read_text(encoding="utf-8")
        )
    )
    pages = [ROOT / "README.md", ROOT / "ROADMAP.md"]
    pages += [
        page
        for folder in ("howto", "explanation")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    ]
    quoted = {page.name: set(figure.findall(page.read_text(encoding="utf-8"))) for page in pages}
    del quoted["evaluating.md"]  # figures of an example that is on the page itself
    assert len(set().union(*quoted.values())) > 10
    assert {
        name: sorted(figures - made) for name, figures in quoted.items() if figures - made
    } == {}


def test_every_example_is_described() -> None:
    folder = ROOT / "examples"
    described = set(
        re.findall(r"`([\w./-]+\.\w+)`", (folder / "README.md").read_text(encoding="utf-8"))
    )
    files = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.*")
        if "__pycache__" not in path.parts
    }
    assert described == files - {"README.md"}


def test_links_lead_to_files_and_headings() -> None:
    """In the repository as on the site; a link to a part of a page names a heading that it has."""
    pages = [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "ctc_align" / "models").rglob("*.md"),
    ]
    faults, seen = [], 0
    for page in pages:
        links = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8"))
        for target, anchor in ((target, anchor) for target, anchor in links if ":" not in target):
            path = page.parent / target if target else page
            text = path.read_text(encoding="utf-8") if anchor and path.suffix == ".md" else ""
            headings = (
                re.sub(r"[^\w\- ]", "", line.lower())
                for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            )
            seen += bool(text)
            if not path.exists() or (
                text and anchor not in {each.strip().replace(" ", "-") for each in headings}
            ):
                faults.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert seen > 20
    assert faults == []


@pytest.mark.parametrize(
    "document", ["CONTRIBUTING.md", "README.md", *PAGES, "examples/README.md", MODEL_CARD]
)
def test_commands_and_options_that_are_named_exist(document: str) -> None:

    from ctc_align.cli import COMMANDS, program

    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^ *|[`/])ctc-align ([a-z]+)(?![\w./-])", text, re.MULTILINE))
    assert named - set(COMMANDS) == set()
    sources = [
        path.read_text(encoding="utf-8") for path in (ROOT / "ctc_align" / "cli").glob("*.py")
    ]
    known = {option for source in sources for option in re.findall(r"--[a-z][a-z-]+", source)}
    for command in program().commands.values():
        known |= {
            option for each in command.params for option in (*each.opts, *each.secondary_opts)
        }
    of_pip_and_pytest = {
        "--index-url",
        "--strict",
        "--tags",
        "--dev",
        "--long",
        "--all",
        "--planted",
    }
    others = of_pip_and_pytest | {"--out", "--words", "--music"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - known - others == set()


def test_the_citation_has_the_version() -> None:
    assert f"version: {ctc_align.__version__}\n" in (ROOT / "CITATION.cff").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert {
        "align_a_file": "CTC loss",
        "clean_a_corpus": "doubt",
        "train_with_soft_targets": "step 60",
    }[name] in said


def unnamed(files: list[str], text: str) -> list[str]:
    """The files that no name or pattern of the page's table stands for."""
    patterns = re.findall(r"`(ctc_align/[^`]+)`", text)
    return [
        file for file in files if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns)
    ]


def test_every_data_file_is_named_with_its_licence() -> None:
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    package = [
        path.relative_to(ROOT).as_posix()
        for path in tracked_files(ROOT)
        if path.suffix not in (".py", ".pyc")
    ]
    files = [file for file in package if file.startswith("ctc_align/")]
    assert len(files) > 20
    assert unnamed(files, text) == [], (
        "name these files in THIRD_PARTY.md, with where they come from and their licence"
    )
    assert unnamed(["ctc_align/text/words.tsv"], text) == ["ctc_align/text/words.tsv"]


def test_the_page_has_the_version_and_the_notice_of_its_library() -> None:
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    declared = re.search(
        r'"wavesurfer\.js": "([\d.]+)"', (ROOT / "web" / "package.json").read_text(encoding="utf-8")
    )
    assert declared is not None
    assert f"wavesurfer.js](https://wavesurfer.xyz) {declared[1]}" in text
    assert "BSD" in (ROOT / "ctc_align" / "view" / "page.html").read_text(encoding="utf-8")
