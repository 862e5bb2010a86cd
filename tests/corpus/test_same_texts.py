"""One transcript given to several recordings: told in the summary, and on stderr where it does not fit all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus_runs import journal_line, write_clip
from even_aligner import EvenAligner

from ctc_align.cli import run
from ctc_align.corpus.state import shared_texts
from ctc_align.corpus.state.journal import DONE
from ctc_align.types import GOOD, POOR

TEXT = "one two three four five six seven eight"


class Judging(EvenAligner):
    def align(self, audio: Any, text: Any, name: str) -> Any:
        return replace(super().align(audio, text, name), fit=POOR if name == "b" else GOOD)


def test_a_transcript_of_two_recordings_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline_corpus: None, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("inline_corpus.EvenAligner", Judging)
    texts = (TEXT, f"{TEXT[:3]}\n{TEXT[4:]}", "yes", "yes", f"{TEXT} nine", f"{TEXT} nine")
    for seed, (name, text) in enumerate(zip("abcdef", texts)):
        write_clip(tmp_path / "in" / f"{name}.wav", 0.5, seed)
        (tmp_path / "in" / f"{name}.txt").write_text(text, "utf-8")
    assert run(["corpus", str(tmp_path / "in"), "--out-dir", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "a, b have the same transcript (8 words), which does not fit b: was it given to the wrong recording?" in told
    assert "transcripts that several utterances share 2, 4 utterances" in told
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert [(row["utterances"], row["count"], row["misfits"]) for row in summary["same_texts"]] == [
        (["a", "b"], 2, ["b"]),
        (["e", "f"], 2, []),
    ]


def test_those_that_are_not_listed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_texts, "MOST_SAME", 1)
    lines = [journal_line(f"{n}", DONE, text=f"{n % 2:016x}", words=8, fit=POOR if n % 2 else GOOD) for n in range(40)]
    found = shared_texts.SameTexts()
    assert (found.counts(), found.rows(lines)) == ({}, [])
    for line in lines:
        found.add(line)
    (row,) = found.rows(lines)
    assert (row["count"], row["misfit_count"], row["misfits"]) == (20, 20, [f"{n}" for n in range(1, 20, 2)])
    assert found.counts() == {"transcripts": 2, "utterances": 40}
