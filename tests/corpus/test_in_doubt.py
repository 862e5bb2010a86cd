"""`corpus --min-confidence`: what is marked, counted and named, and the exit code that tells it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus_runs import journal_line, lines, summary, write_clip, write_manifest
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_models import tiny_folder

from ctc_align.cli import run
from ctc_align.corpus.state.journal import DONE, FAILED, Journal, Line, read_lines
from ctc_align.corpus.state.summary import MOST_RANKED, summarize
from ctc_align.files import Alignment
from ctc_align.types import AlignedWord

WORD = AlignedWord("a", "a", 0, 1, "aligned", 0.0, 0.5, 0.5)
ALIGNMENT = Alignment("u", "", 1.0, "m", "cpu", 0.01, 1.0, -1.0, "a b", (WORD, AlignedWord("b", "", 2, 3, "unspoken")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is sure of nothing, three utterances, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("doubts")
    tiny_folder(folder / "model", ("<blank>", *"abcd"))
    rows = [
        {"audio": str(write_clip(folder / f"{i}.wav", 0.4, i)), "text": text, "utterance": f"u{i}"}
        for i, text in enumerate(["ab cd", "a", "dab"])
    ]
    write_manifest(folder / "good.jsonl", rows)
    write_manifest(folder / "bad.jsonl", [*rows, {"audio": "none.wav", "text": "a", "utterance": "u3"}])
    return folder


Corpus = Callable[..., int]


@pytest.fixture
def corpus(made: Path, tmp_path: Path, inline_alignment: None) -> Corpus:  # noqa: F811
    def call(manifest: str, *options: object, out: str = "out") -> int:
        given = [made / manifest, "--out-dir", tmp_path / out, "--model", made / "model", "--device", "cpu"]
        return run(["corpus", *map(str, (*given, "--workers", 1, *options))])

    return call


def marks(data: dict[str, Any]) -> list[bool]:
    return [word.get("doubtful", False) for word in data["words"]]


@pytest.mark.parametrize(
    ("least", "unexplained", "doubtful"), [(0.0, True, False), (0.4, True, True), (0.4, False, False)]
)
def test_what_an_alignment_is_in_doubt_of(least: float, unexplained: bool, doubtful: bool) -> None:
    stretches = ((0.6, 0.9),) if unexplained else ()
    alignment = replace(ALIGNMENT, config={"min_confidence": least}, unexplained=stretches)
    assert (alignment.in_doubt, alignment.doubtful) == (doubtful, ())
    assert replace(ALIGNMENT, config={"min_confidence": 0.6}).doubtful == (WORD,)
    assert not ALIGNMENT.in_doubt


def test_words_are_marked_counted_and_told(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus("good.jsonl", "--min-confidence", 0.999) == 3
    told = capsys.readouterr().err
    assert "utterances in doubt" in told
    assert "least sure, confidence" in told
    files = {name: json.loads((tmp_path / "out" / f"{name}.json").read_text("utf-8")) for name in ("u0", "u1", "u2")}
    assert [marks(data) for data in files.values()] == [[True, True], [True], [True]]
    found = summary(tmp_path / "out")
    assert (found["in_doubt"], found["doubtful_words"]) == (3, 4)
    assert found["unexplained"] == sum(len(data["unexplained"]) for data in files.values())
    least = {name: min(word["confidence"] for word in data["words"]) for name, data in files.items()}
    assert [row["utterance"] for row in found["doubtful"]] == sorted(least, key=lambda name: least[name])
    assert {row["utterance"]: row["least_confidence"] for row in found["doubtful"]} == least
    assert corpus("good.jsonl", "--min-confidence", 0.999, "--quiet") == 3  # and again, where nothing is left to do
    assert len(lines(tmp_path / "out")) == 3
    assert run(["corpus", "--summary", str(tmp_path / "out")]) == 3
    assert "words in doubt" in capsys.readouterr().out


@pytest.mark.long
def test_the_setting_does_the_same_and_without_it_nothing_is_in_doubt(corpus: Corpus, tmp_path: Path) -> None:
    assert corpus("good.jsonl", "--set", "min_confidence=0.999") == 3
    assert corpus("good.jsonl") == 0
    assert len(lines(tmp_path / "out")) == 6
    found = summary(tmp_path / "out")
    assert (found["in_doubt"], found["doubtful_words"], found["unexplained"], found["doubtful"]) == (0, 0, 0, [])
    assert "doubt" not in lines(tmp_path / "out")[-1]
    assert not any(marks(json.loads((tmp_path / "out" / "u0.json").read_text("utf-8"))))


def test_failures_come_first(corpus: Corpus, tmp_path: Path) -> None:
    assert corpus("bad.jsonl", "--min-confidence", 0.999) == 1
    found = summary(tmp_path / "out")
    assert (found["failed"], found["in_doubt"]) == (1, 3)


def test_the_summary_counts_the_latest_lines(tmp_path: Path) -> None:
    def line(i: int, words: int, unexplained: int, least: float | None, **more: Any) -> Line:
        doubt = {"words": words, "unexplained": unexplained, "least_confidence": least}
        return journal_line(f"u{i:02}", DONE, **{"time": 1.0, "doubt": doubt, **more})

    made = [line(i, 2, 1, 0.5 - i / 100) for i in range(MOST_RANKED + 2)]
    made += [line(20, 0, 3, None), line(21, 1, 0, 0.01), journal_line("u22", DONE, time=1.0)]
    made += [journal_line("u00", DONE, time=2.0), journal_line("u01", FAILED, "no", time=2.0)]
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(made)
    numbered = [replace(line, run=1, number=number) for number, line in enumerate(made, start=1)]
    assert list(read_lines(tmp_path / "journal.jsonl")) == numbered
    found = summarize([tmp_path / "journal.jsonl"])
    assert (found.in_doubt, found.doubtful_words, found.unexplained) == (
        MOST_RANKED + 2,
        2 * MOST_RANKED + 1,
        MOST_RANKED + 3,
    )
    assert found.doubtful[0] == {"utterance": "u21", "words": 1, "unexplained": 0, "least_confidence": 0.01}
    assert [row["utterance"] for row in found.doubtful[1:]] == [f"u{i:02}" for i in range(MOST_RANKED + 1, 2, -1)]
    few = summarize([tmp_path / "journal.jsonl"], array("Q", [line(20, 0, 0, 0).key, line(2, 0, 0, 0).key]))
    assert [row["utterance"] for row in few.doubtful] == ["u02", "u20"]
