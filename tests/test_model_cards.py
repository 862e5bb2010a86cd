"""The cards of models have what hubs of models read, and its figures are those of the card's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from house_rules import tracked_files

ROOT = Path(__file__).resolve().parent.parent
CARDS = sorted(path for path in tracked_files(ROOT / "ctc_align" / "models") if path.name == "README.md")


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
