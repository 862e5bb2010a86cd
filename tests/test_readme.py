"""Every block of README.md runs, in order, as in a fresh clone, and those of the site's pages, in
an empty folder each.

The lines that install run in `.ci/run`.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_blocks import Block, blocks, failures
from forked_programs import forking

from ctc_align.evaluate import evaluate

ROOT = Path(__file__).resolve().parent.parent


def readme() -> list[Block]:
    return blocks((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """This checkout's `ctc-align`, and a Python for the blocks in Python, which start at once."""
    programs = tmp_path_factory.mktemp("programs")
    with forking(programs):
        yield programs


@pytest.fixture
def place(tmp_path: Path, programs: Path) -> Path:
    """A fresh clone as far as the blocks use it, and an environment whose `ctc-align` is this
    checkout's."""
    for name in ("examples", "ctc_align/demo"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copytree(programs, tmp_path / ".venv" / "bin")
    (tmp_path / ".venv" / "bin" / "activate").write_text(
        "PATH=$PWD/.venv/bin:$PATH\n", encoding="utf-8"
    )
    return tmp_path


def test_every_block_runs(place: Path) -> None:
    assert failures(readme(), place) == []
    names = (
        "interview.json",
        "interview.ctm",
        "interview.tokens.ctm",
        "interview.TextGrid",
        "interview.html",
    )
    for name in (
        *names,
        "subtitles/interview.srt",
        "subtitles/interview.vtt",
        "aligned/summary.json",
    ):
        assert (place / "out" / name).stat().st_size > 0
    words = json.loads((place / "out" / "interview.json").read_text(encoding="utf-8"))["words"]
    shown = json.loads(
        re.search(r"^    (\{.*\})$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)[1]
    )
    found = [{key: word[key] for key in shown} for word in words if word["text"] == shown["text"]]
    assert found == [pytest.approx(shown, abs=0.002)], "the word that the README shows"
    by_hand = evaluate(
        place / "out" / "interview.json", place / "examples" / "corrected" / "interview.TextGrid"
    )
    assert 1.0 < by_hand.both.mae_ms < 20.0, (
        "hand labels are no copy of the alignment, nor of another recording"
    )


def test_it_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    assert len(text.split()) <= 1200


def test_ci_runs_the_lines_that_install() -> None:
    marked = {block.ci_step: block.text.splitlines() for block in readme() if block.ci_step}
    assert set(marked) == {"demo", "tests"}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for step, lines in marked.items():
        assert len(lines) == 1, "one line, so that it can be pasted"
        assert lines[0].startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert f"readme_step {step}\n" in script


def test_the_runner_fails_when_it_should(place: Path) -> None:
    text = "<!-- run by .ci/run: x -->\n```sh\nexit 9\n```\n\n```sh\nfalse\ntrue\n```\nand\n"
    text += "```python\n1 / 0\n```\n```sh\nctc-align no.wav no.txt\n```\n\n```\n?\n```\n"
    found = blocks(text)
    assert [block.language for block in found] == ["sh", "sh", "python", "sh", ""]
    assert [block.ci_step for block in found] == ["x", "", "", "", ""]
    faults = failures(found, place)
    assert len(faults) == 4
    assert faults[0].startswith("exit 1:\nfalse")
    assert "ZeroDivisionError" in faults[1]
    assert faults[2].startswith("exit 2:\nctc-align no.wav no.txt\n\nctc-align: error: no.wav: ")
    assert "run by nobody" in faults[3]


FOLDERS = ("tutorials", "howto", "migrate", "explanation", "compare")
PAGES = sorted(
    path.relative_to(ROOT / "docs").as_posix()
    for folder in FOLDERS
    for path in (ROOT / "docs" / folder).glob("*.md")
    if any(not block.not_run for block in blocks(path.read_text(encoding="utf-8")))
)
NEEDED = {
    "howto/own-model.md": ("hama", "onnx", "onnxscript"),
    "howto/vowels.md": ("parselmouth", "matplotlib"),
}
"""Pages whose blocks import packages of others."""
HAS_R = shutil.which("Rscript") is not None
SHOWN = ("text", "toml") if HAS_R else ("text", "toml", "r")
"""Languages of blocks that are looked at alone."""


def test_there_are_tutorials() -> None:
    assert len([page for page in PAGES if page.startswith("tutorials/")]) == 5


@pytest.mark.parametrize("page", ["index.md", *PAGES])
def test_the_blocks_of_a_page_run(page: str, programs: Path, tmp_path: Path) -> None:
    for name in NEEDED.get(page, ()):
        pytest.importorskip(name, reason="needs a package that the extra [test] brings")
    shutil.copytree(programs, tmp_path / ".venv" / "bin")
    found = blocks((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert failures([block for block in found if block.language not in SHOWN], tmp_path) == []
    if page == "howto/vowels.md":
        check_vowels(tmp_path)


@pytest.mark.skipif(HAS_R, reason="they run with their pages")
def test_blocks_in_r() -> None:
    pytest.skip("there is no Rscript here: blocks in R do not run")


def check_vowels(place: Path) -> None:
    """Raise AssertionError unless open vowels have a higher F1 than close ones, and front ones a
    higher F2 than back ones."""
    rows = list(csv.DictReader((place / "vowels.csv").read_text("utf-8").splitlines()))
    assert len(rows) > 50

    def median_of(formant: str, labels: str) -> float:
        return statistics.median(
            float(row[formant])
            for row in rows
            if row["label"] in labels.split() and float(row["duration_s"]) >= 0.05
        )

    assert median_of("f1", "AA AE AO") > median_of("f1", "IY UW IH") + 100
    assert median_of("f2", "IY IH EY") > median_of("f2", "AA AO OW UW") + 500
    assert (place / "vowels.png").stat().st_size > 5000
    grid = (place / "interview.maus.TextGrid").read_text("utf-8")
    assert 'name = "ANNA - MAU"' in grid
    if HAS_R:
        assert (place / "vowels-r.png").stat().st_size > 2000
        assert (place / "interview.mfa.csv").read_text("utf-8").startswith('"Begin","End","Label"')
