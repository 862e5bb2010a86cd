"""Small corpora on disk for the tests of sources; sources open no audio, so sounds are empty
files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ctc_align.sources import open_source
from ctc_align.sources.utterance import Refused, Utterance


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Files below `root`, by relative path."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def jsonl(*values: object) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def read(path: os.PathLike[str] | str, kind: str | None = None, **options):
    """(utterances, refusals) of a source; read twice, and the same both times."""
    source = open_source(path, kind, **options)
    items = list(source)
    assert items == list(source)
    ids = [item.id for item in items]
    assert len(set(ids)) == len(ids)
    assert all(item.origin for item in items)
    utterances = [item for item in items if isinstance(item, Utterance)]
    outputs = [utterance.output for utterance in utterances]
    assert len(set(outputs)) == len(outputs)
    return utterances, [item for item in items if isinstance(item, Refused)]


def require_reasons(refused: list[Refused], expected: dict[str, str]) -> None:
    """Assert that these places are refused and no other, each with a reason that has the words
    given."""
    why = {item.origin: item.reason for item in refused}
    assert why.keys() == expected.keys()
    assert {
        origin: why[origin] for origin, words in expected.items() if words not in why[origin]
    } == {}
