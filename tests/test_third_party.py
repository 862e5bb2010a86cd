"""THIRD_PARTY.md names every data file of the package; what is passed on is known."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from house_rules import tracked_files

ROOT = Path(__file__).resolve().parent.parent


def unnamed(files: list[str], text: str) -> list[str]:
    """The files that no name or pattern of the page's table stands for."""
    patterns = re.findall(r"`(ctc_align/[^`]+)`", text)
    return [file for file in files if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns)]


def test_every_data_file_is_named_with_its_licence() -> None:
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    package = [path.relative_to(ROOT).as_posix() for path in tracked_files(ROOT) if path.suffix not in (".py", ".pyc")]
    files = [file for file in package if file.startswith("ctc_align/")]
    assert len(files) > 20
    assert unnamed(files, text) == [], "name these files in THIRD_PARTY.md, with where they come from and their licence"
    assert unnamed(["ctc_align/text/words.tsv"], text) == ["ctc_align/text/words.tsv"]


def test_the_page_has_the_version_and_the_notice_of_its_library() -> None:
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    declared = re.search(r'"wavesurfer\.js": "([\d.]+)"', (ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    assert declared is not None
    assert f"wavesurfer.js](https://wavesurfer.xyz) {declared[1]}" in text
    assert "BSD" in (ROOT / "ctc_align" / "view" / "page.html").read_text(encoding="utf-8")
