"""Every block of README.md runs, in order, as in a fresh clone; the lines that install run in `.ci/run`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_programs import forking

from ctc_align.evaluate import evaluate

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"(?P<before>[^\n]*)\n```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!-- run by \.ci/run: (\w+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and which step of .ci/run runs it in place of these tests."""

    language: str
    text: str
    ci_step: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order."""
    found = []
    for match in FENCE.finditer(text):
        marker = MARKER.fullmatch(match["before"].strip())
        found.append(Block(match["language"], match["text"], marker[1] if marker else ""))
    return found


def readme() -> list[Block]:
    return blocks((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """This checkout's `ctc-align`, which starts at once; the blocks in Python have a start of their own."""
    program = tmp_path_factory.mktemp("program") / "ctc-align"
    with forking(program):
        yield program


@pytest.fixture
def place(tmp_path: Path, program: Path) -> Path:
    """A fresh clone as far as the blocks use it, and an environment whose `ctc-align` is this checkout's."""
    for name in ("examples", "ctc_align/demo"):
        shutil.copytree(ROOT / name, tmp_path / name)
    command = tmp_path / ".venv" / "bin" / "ctc-align"
    command.parent.mkdir(parents=True)
    shutil.copy(program, command)
    (command.parent / "activate").write_text("PATH=$PWD/.venv/bin:$PATH\n", encoding="utf-8")
    return tmp_path


def run(block: Block, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a block as its reader would; a shell block stops at the first line that fails."""
    environment = os.environ | {
        "PATH": f"{place / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error" if block.language == "python" else "default",
    }
    command = ["bash", "-euc", block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)


def failures(found: list[Block], place: Path) -> list[str]:
    """What went wrong in each block that these tests run, in order: later blocks use the files of earlier ones."""
    faults = []
    for block in found:
        if block.ci_step:
            continue
        if block.language not in ("sh", "python"):
            faults.append(f"a block in {block.language or 'no language'!r} is run by nobody:\n{block.text}")
            continue
        done = run(block, place)
        if done.returncode:
            faults.append(f"exit {done.returncode}:\n{block.text}\n{done.stdout}{done.stderr}")
    return faults


def test_every_block_runs(place: Path) -> None:
    assert failures(readme(), place) == []
    names = ("interview.json", "interview.ctm", "interview.tokens.ctm", "interview.TextGrid", "model.json")
    for name in (*(f"out/{name}" for name in names), "out/grids/interview.TextGrid", "out/subtitles/interview.srt"):
        assert (place / name).stat().st_size > 0
    assert (place / "out" / "words.ctm").read_text(encoding="utf-8").count("\n") > 10
    assert (place / "out" / "python.TextGrid").exists()
    by_hand = evaluate(place / "out" / "interview.json", place / "examples" / "corrected" / "interview.TextGrid")
    assert 1.0 < by_hand.both.mae_ms < 20.0, "hand labels are no copy of the alignment, nor of another recording"


def test_ci_runs_the_lines_that_install() -> None:
    marked = {block.ci_step: block.text.splitlines() for block in readme() if block.ci_step}
    assert set(marked) == {"demo", "tests"}
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for step, lines in marked.items():
        assert len(lines) == 1, "one line, so that it can be pasted"
        assert lines[0].startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert f"readme_step {step}\n" in script


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def test_the_runner_fails_when_it_should(place: Path) -> None:
    text = "<!-- run by .ci/run: x -->\n```sh\nexit 9\n```\n\n```sh\nfalse\ntrue\n```\nand\n"
    text += "```python\n1 / 0\n```\n```sh\nctc-align no.wav no.txt\n```\n\n```\n?\n```\n"
    found = blocks(text)
    assert [(block.language, block.ci_step) for block in found] == [
        ("sh", "x"),
        ("sh", ""),
        ("python", ""),
        ("sh", ""),
        ("", ""),
    ]
    faults = failures(found, place)
    assert len(faults) == 4
    assert faults[0].startswith("exit 1:\nfalse")
    assert "ZeroDivisionError" in faults[1]
    assert faults[2].startswith("exit 2:\nctc-align no.wav no.txt\n\nctc-align: error: no.wav: ")
    assert "run by nobody" in faults[3]
