"""The cards of models have what hubs of models read, figures as in their tables, and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from house_rules import tracked_files

ROOT = Path(__file__).resolve().parent.parent
CARDS = sorted(path for path in tracked_files(ROOT / "ctc_align" / "models") if path.name == "README.md")
PAGES = [*CARDS, ROOT / "tools" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FILE = re.compile(r"(?<![\w/])(?:tools|tests|configs|docs|ctc_align|examples)/[\w./-]+\.\w+")
_COMMAND = re.compile(r"python ((?:tools|tests)/[\w/]+\.py)([^`\n]*)")
_OPTION = re.compile(r"--[a-z][a-z-]*")


def front_matter(card: str) -> tuple[dict[str, Any], str]:
    """The fields of a card, and the text below them."""
    yaml = pytest.importorskip("yaml", reason="no PyYAML")
    start, head, text = card.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(head), text


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_what_hubs_read_is_what_the_card_says(path: Path) -> None:
    fields, text = front_matter(path.read_text(encoding="utf-8"))
    assert fields["library_name"] == "ctc-align"
    (entry,) = fields["model-index"]
    assert entry["name"] == path.parent.name
    for result in entry["results"]:
        assert result["task"]["type"]
        assert {"type", "name"} <= result["dataset"].keys()
        values = [metric["value"] for metric in result["metrics"]]
        assert values
        assert [value for value in values if f"{value:g}" not in text] == []


def test_there_are_cards() -> None:
    assert "english" in [path.parent.name for path in CARDS]


def faults_of(text: str) -> list[str]:
    """The files of the repository that a text names and that are not there, and options that their scripts lack."""
    faults = [name for name in _FILE.findall(text) if not (ROOT / name).is_file()]
    for name, arguments in _COMMAND.findall(text):
        script = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).is_file() else ""
        faults += [f"{name} {option}" for option in _OPTION.findall(arguments) if f'"{option}"' not in script]
    return faults


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_cards_and_pages_name_exists(path: Path) -> None:
    assert faults_of(path.read_text(encoding="utf-8")) == []


def test_what_does_not_exist_is_found() -> None:
    assert faults_of("`python tools/drawn_edges.py --speech M --out D`, `tools/README.md`") == []
    assert faults_of("`python tools/drawn_edges.py --speach M`") == ["tools/drawn_edges.py --speach"]
    assert faults_of("as in `ctc_align/training/mismatches.py`") == ["ctc_align/training/mismatches.py"]
