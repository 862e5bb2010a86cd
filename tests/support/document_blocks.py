"""The fenced blocks of documents, run as their readers would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from caused_warnings import PYTHONWARNINGS

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(
    r"(?P<before>[^\n]*)\n```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
MARKER = re.compile(r"<!-- run by \.ci/run: (\w+) -->")
SHOWN = re.compile(r"<!-- not run: (\S.*\S) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, which step of .ci/run runs it in place of the tests,
    why nobody does."""

    language: str
    text: str
    ci_step: str = ""
    not_run: str = ""


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text, in order."""
    found = []
    for match in FENCE.finditer(text):
        before = match["before"].strip()
        marker, shown = MARKER.fullmatch(before), SHOWN.fullmatch(before)
        found.append(
            Block(
                match["language"],
                match["text"],
                marker[1] if marker else "",
                shown[1] if shown else "",
            )
        )
    return found


def run(block: Block, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a block as its reader would, with the programs of PLACE/.venv; a shell block stops where
    a line fails."""
    environment = os.environ | {
        "PATH": f"{place / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": PYTHONWARNINGS if block.language == "python" else "default",
    }
    python = place / ".venv" / "bin" / "python"
    commands = {
        "sh": ["bash", "-euc"],
        "python": [str(python) if python.exists() else sys.executable, "-c"],
        "r": ["Rscript", "-e"],
    }
    command = commands[block.language]
    return subprocess.run(
        [*command, block.text],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def failures(found: list[Block], place: Path) -> list[str]:
    """Return what went wrong in each block, in order: later blocks use the files of earlier
    ones."""
    faults = []
    for block in found:
        if block.ci_step or block.not_run:
            continue
        if block.language not in ("sh", "python", "r"):
            faults.append(
                f"a block in {block.language or 'no language'!r} is run by nobody:\n{block.text}"
            )
            continue
        done = run(block, place)
        if done.returncode:
            faults.append(f"exit {done.returncode}:\n{block.text}\n{done.stdout}{done.stderr}")
    return faults
