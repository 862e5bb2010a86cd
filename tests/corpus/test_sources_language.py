"""The language of each utterance, where its source says it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from made_sources import jsonl, read, write

from ctc_align.corpus.state.resume import Fingerprints
from ctc_align.types import Transcript

SOURCES = {
    "manifest.jsonl": jsonl(
        {"audio": "a.wav", "text": "ja", "language": "German"},
        {"audio": "b.wav", "text": "ja", "locale": "fy-NL"},
        {"audio": "c.wav", "text": "ja", "lang": None, "language": 7},
    ),
    "table.tsv": "path\tsentence\tlocale\na.wav\tja\tde\nb.wav\tja\tfy-NL\nc.wav\tja\t\n",
    "cuts.jsonl": jsonl(
        *(
            {
                "id": name,
                "recording": {"sources": [{"type": "file", "source": f"{name}.wav", "channels": [0]}], "duration": 2.0},
                "supervisions": [{"id": name, "start": 0, "duration": 1.0, "text": "ja", "language": language}],
            }
            for name, language in (("a", "de"), ("b", "fy-NL"), ("c", None))
        )
    ),
    "kaldi": {
        "wav.scp": "a a.wav\nb b.wav\nc c.wav\n",
        "text": "a ja\nb ja\nc ja\n",
        "utt2lang": "a de\nb fy-NL\n",
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_source_may_say_the_language(name: str, tmp_path: Path) -> None:
    content = SOURCES[name]
    root = write(tmp_path / name, content) if isinstance(content, dict) else write(tmp_path, {name: content}) / name
    found, refused = read(root)
    assert refused == []
    assert [one.language for one in found] == ["de", "fy-NL", ""]
    assert [one.spoken for one in found] == [Transcript("ja", language="de"), Transcript("ja", language="fy-NL"), "ja"]
    marks = {Fingerprints("run").of(replace(found[0], language=language)) for language in ("", "de", "nl")}
    assert len(marks) == 3


def test_a_language_that_nothing_knows_is_told_and_the_line_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = write(tmp_path, {"m.jsonl": jsonl({"audio": "a.wav", "text": "nuqneH", "lang": "Klingonisch"})})
    with caplog.at_level(logging.WARNING):
        found, refused = read(root / "m.jsonl")
    assert ([one.language for one in found], refused) == ([""], [])
    assert [("Klingonisch" in line, "no language were given" in line) for line in caplog.messages] == [(True, True)]
