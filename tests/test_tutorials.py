"""The blocks of the site's pages run, in order, in an empty folder for each page: nothing is there but the program."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_blocks import blocks, failures
from forked_programs import forking

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tutorials", "howto", "migrate", "explanation", "compare")
PAGES = sorted(
    path.relative_to(ROOT / "docs").as_posix()
    for folder in FOLDERS
    for path in (ROOT / "docs" / folder).glob("*.md")
    if any(not block.not_run for block in blocks(path.read_text(encoding="utf-8")))
)
SHOWN = ("r", "text", "toml")
"""Languages of blocks that are looked at alone."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    programs = tmp_path_factory.mktemp("programs")
    with forking(programs):
        yield programs


def test_there_are_tutorials() -> None:
    assert len([page for page in PAGES if page.startswith("tutorials/")]) == 5


@pytest.mark.parametrize("page", ["index.md", *PAGES])
def test_the_blocks_of_a_page_run(page: str, programs: Path, tmp_path: Path) -> None:
    shutil.copytree(programs, tmp_path / ".venv" / "bin")
    found = blocks((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert failures([block for block in found if block.language not in SHOWN], tmp_path) == []
