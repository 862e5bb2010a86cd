"""One text and many recordings: which folders are such, what each recording gets, and what no
recording reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus_runs import journal_line, write_clip
from even_aligner import EvenAligner
from made_books import made_epub_2, write_epub

from ctc_align.cli import run
from ctc_align.corpus.state import shared_texts
from ctc_align.corpus.state.journal import DONE, read_lines
from ctc_align.corpus.state.shared_texts import TextCoverage
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Refused, Utterance
from ctc_align.types import GOOD, POOR, SKIPPED, Transcript

TEXT = "Title of it\n\nalpha one two three\n\nlost words here\n\nbeta four five six\n\nThe End\n"


class Searching(EvenAligner):
    """Finds the line of the text that begins with the recording's name."""

    def align(self, audio: Any, text: Any, name: str) -> Any:
        found = super().align(audio, getattr(text, "text", text), name)
        start = found.text.find(name)
        end = found.text.index("\n", start)
        words = [
            (
                word
                if 0 <= start <= word.char_start < end
                else replace(
                    word, status=SKIPPED, start_s=None, end_s=None, confidence=None, tokens=()
                )
            )
            for word in found.words
        ]
        return replace(found, words=tuple(words), places=getattr(text, "places", ()))


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline_corpus: None) -> Path:
    monkeypatch.setattr("inline_corpus.EvenAligner", Searching)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "book"
    for seed, name in enumerate(("alpha.flac", "beta.wav")):
        write_clip(folder / name, 0.5, seed)
    (folder / "book.txt").write_text(TEXT, "utf-8")
    return folder


@pytest.mark.parametrize(
    "more", ["alpha.txt", "beta.TextGrid", "other.txt", "alpha.srt", "other.epub"]
)
def test_where_a_recording_has_a_text_or_there_are_two_it_is_as_before(
    book: Path, more: str
) -> None:
    (book / more).write_bytes(b"1\n00:00:01,000 --> 00:00:02,000\nalpha one\n")
    assert not any(
        isinstance(item, Utterance) and item.book for item in open_source(book, parts=True)
    )


def test_who_takes_the_text_for_what_is_said_is_told(book: Path) -> None:
    refused = [item for item in open_source(book) if isinstance(item, Refused)]
    assert len(refused) == 3
    assert "; book.txt looks like the text of all recordings: ctc-align corpus" in refused[0].reason
    assert run(["corpus", str(book), "--out-dir", "out", "--match", "exact", "-q"]) == 1


def test_a_book_is_the_text_of_the_recording_of_its_name_too(tmp_path: Path) -> None:
    write_clip(tmp_path / "one.wav")
    write_epub(tmp_path / "one.epub", {"a.xhtml": "<p id='p'>All of it</p>"})
    (found,) = open_source(tmp_path)
    assert (found.text, found.book) == ("All of it", None)
    assert isinstance(found.spoken, Transcript)
    assert [place.id for place in found.spoken.places] == ["p"]


def test_smil_of_a_book_without_ids_is_refused_before_the_work(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_epub(book.parent / "book.epub", {"a.xhtml": "<p>All of it</p>"})
    assert (
        run(["corpus", str(book), "--text", str(text), "--out-dir", "out", "--format", "smil"]) == 2
    )
    assert "no element of this one has an id" in capsys.readouterr().err


def test_each_recording_gets_its_part_and_what_none_reads_is_told(book, capsys):
    assert run(["corpus", str(book), "--out-dir", "out", "--cut-audio"]) == 0
    told = capsys.readouterr().err
    data = {
        name: json.loads(Path(f"out/{name}.json").read_text("utf-8")) for name in ("alpha", "beta")
    }
    assert data["alpha"]["text"] == "alpha one two three"
    assert (data["beta"]["text"], data["beta"]["text_offset"]) == (
        "beta four five six",
        TEXT.index("beta"),
    )
    assert data["beta"]["skipped"] == 0
    assert Path("out/cuts/beta.txt").read_text("utf-8") == "beta four five six\n"
    summary = json.loads(Path("out/summary.json").read_text("utf-8"))
    assert [
        (gap["begins"], gap["after"], gap["before"], gap["words"]) for gap in summary["text_gaps"]
    ] == [
        ("Title of it", None, "alpha", 3),
        ("lost words here", "alpha", "beta", 3),
        ("The End", "beta", None, 2),
    ]
    assert "passages that no recording reads" in told
    assert "lost words here" in told
    parts = {
        line.id: (line.result.book, line.result.part)
        for line in read_lines(Path("out/journal.jsonl"))
    }
    assert parts["alpha"] == (str(book / "book.txt"), (13, 32))
    (book / "book.txt").unlink()
    assert run(["corpus", "--summary", "out"]) == 0
    gaps = json.loads(Path("out/summary.json").read_text("utf-8"))["text_gaps"]
    assert [(gap["char_start"], gap["char_end"], gap["words"]) for gap in gaps] == [
        (0, 13, None),
        (32, 51, None),
        (69, None, None),
    ]


def test_what_is_left_out_within_a_part_is_named(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = " ".join(f"word{number}" for number in range(40))
    (book / "book.txt").write_text(
        f"alpha one two three\n\nbeta four five {long} six seven\n", "utf-8"
    )
    kept = Searching.align

    def without_long(self: Any, audio: Any, text: Any, name: str) -> Any:
        found = kept(self, audio, text, name)
        gone = {"status": SKIPPED, "start_s": None, "end_s": None, "confidence": None, "tokens": ()}
        words = [
            replace(word, **gone) if word.text.startswith("word3") else word for word in found.words
        ]
        return replace(found, words=tuple(words))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searching, "align", without_long)
        assert run(["corpus", str(book), "--out-dir", "out"]) == 0
    assert "within beta" in capsys.readouterr().err
    gaps = json.loads(Path("out/summary.json").read_text("utf-8"))["text_gaps"]
    assert [
        (gap["begins"][:13], gap["ends"][-13:], gap["words"])
        for gap in gaps
        if gap["after"] == gap["before"]
    ] == [("word30 word31", "word38 word39", 10)]
    assert run(["report", "out"]) == 0
    assert "within beta" in Path("out/report.html").read_text("utf-8")


def test_what_two_recordings_read_is_named(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_clip(book / "alpha one.wav", 0.5, 5)
    write_clip(book / "three.wav", 0.5, 6)
    assert run(["corpus", str(book), "--out-dir", "out"]) == 0
    told = capsys.readouterr().err
    assert (
        "alpha and alpha one read the same passage (4 words: alpha one two three): a second take?"
        in told
    )
    (overlap,) = json.loads(Path("out/summary.json").read_text("utf-8"))["text_overlaps"]
    assert (overlap["utterances"], overlap["char_start"], overlap["char_end"]) == (
        ["alpha", "alpha one"],
        13,
        32,
    )
    assert run(["report", "out"]) == 0
    assert "alpha, alpha one" in Path("out/report.html").read_text("utf-8")


def test_what_one_recording_leaves_out_and_another_reads_is_read_once() -> None:
    coverage = TextCoverage()
    around = {"words": 9, "skipped": 4, "left_out": ((10, 20),)}
    coverage.add(journal_line("a", DONE, book="gone.txt", part=(0, 30), **around))
    coverage.add(journal_line("b", DONE, book="gone.txt", part=(8, 22), words=4, skipped=0))
    gaps, overlaps = coverage.stretches()
    assert [(one["char_start"], one["char_end"]) for one in overlaps] == [(8, 10), (20, 22)]
    assert [gap["char_start"] for gap in gaps] == [30]


def test_what_two_recordings_leave_out_is_a_gap() -> None:
    coverage = TextCoverage()
    for id, left_out in (("a", (10, 20)), ("b", (12, 20))):
        coverage.add(
            journal_line(
                id, DONE, book="gone.txt", part=(0, 30), words=9, skipped=4, left_out=(left_out,)
            )
        )
    gaps, _ = coverage.stretches()
    assert [(gap["char_start"], gap["char_end"], gap["after"], gap["before"]) for gap in gaps] == [
        (12, 20, "b", "a"),
        (30, None, "b", None),
    ]


def test_an_epub_2_is_aligned_and_what_it_lacks_is_told_before(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (book / "book.txt").unlink()
    (book / "book.epub").write_bytes(
        made_epub_2({"a.xhtml": "<p>alpha one two</p>", "b.xhtml": "<p>beta four</p><p>end</p>"})
    )
    assert run(["corpus", str(book), "--out-dir", "out"]) == 0
    assert (
        "book.epub is an EPUB 2 book. It can be aligned, but media overlays"
        in capsys.readouterr().err
    )
    assert json.loads(Path("out/beta.json").read_text("utf-8"))["text"] == "beta four"


def test_a_text_that_is_named_is_that_of_all_folders_but_for_what_has_its_own(book: Path) -> None:
    write_clip(book / "cd2" / "gamma.wav", 0.5, 3)
    write_clip(book / "cd2" / "own.wav", 0.5, 4)
    (book / "cd2" / "own.txt").write_text("its own words\n", "utf-8")
    (book / "notes.txt").write_text("no audio", "utf-8")
    assert (
        run(["corpus", str(book), "--text", str(book / "book.txt"), "--out-dir", "out", "-q"]) == 1
    )
    texts = {
        line.id: (line.status, line.reason, line.result.book)
        for line in read_lines(Path("out/journal.jsonl"))
    }
    shared = str(book / "book.txt")
    assert texts == {
        "alpha": ("done", None, shared),
        "beta": ("done", None, shared),
        "cd2/gamma": ("done", None, shared),
        "cd2/own": ("done", None, None),
        "notes": ("failed", "no audio of this name beside it", None),
    }


def test_an_epub_is_shared_with_its_places(book: Path) -> None:
    (book / "book.txt").unlink()
    pages = {
        "a.xhtml": "<h1>Title</h1><p id='x'>alpha one</p>",
        "b.xhtml": "<p id='y'>beta two</p><p>end</p>",
    }
    write_epub(book / "all.epub", pages)
    assert run(["corpus", str(book), "--out-dir", "out", "-q"]) == 0
    data = json.loads(Path("out/beta.json").read_text("utf-8"))
    assert (data["text"], data["text_offset"]) == ("beta two", 18)
    assert [(place["char_start"], place["char_end"], place["id"]) for place in data["places"]] == [
        (0, 8, "y")
    ]


SAME_TEXT = "one two three four five six seven eight"


class Judging(EvenAligner):
    def align(self, audio: Any, text: Any, name: str) -> Any:
        return replace(super().align(audio, text, name), fit=POOR if name == "b" else GOOD)


def test_a_transcript_of_two_recordings_is_told(tmp_path, monkeypatch, inline_corpus, capsys):
    monkeypatch.setattr("inline_corpus.EvenAligner", Judging)
    texts = (
        SAME_TEXT,
        f"{SAME_TEXT[:3]}\n{SAME_TEXT[4:]}",
        "yes",
        "yes",
        f"{SAME_TEXT} nine",
        f"{SAME_TEXT} nine",
    )
    for seed, (name, text) in enumerate(zip("abcdef", texts)):
        write_clip(tmp_path / "in" / f"{name}.wav", 0.5, seed)
        (tmp_path / "in" / f"{name}.txt").write_text(text, "utf-8")
    assert run(["corpus", str(tmp_path / "in"), "--out-dir", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "a, b have the same transcript (8 words), which does not fit b: was it given to the wrong"
        " recording?" in told
    )
    assert "texts shared by several utterances 2 transcripts in 4 utterances" in told
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert [(row["utterances"], row["count"], row["misfits"]) for row in summary["same_texts"]] == [
        (["a", "b"], 2, ["b"]),
        (["e", "f"], 2, []),
    ]


def test_those_that_are_not_listed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_texts, "MOST_SAME", 1)
    lines = [
        journal_line(f"{n}", DONE, text=f"{n % 2:016x}", words=8, fit=POOR if n % 2 else GOOD)
        for n in range(40)
    ]
    found = shared_texts.SameTexts()
    assert (found.counts(), found.rows(lines)) == ({}, [])
    for line in lines:
        found.add(line)
    (row,) = found.rows(lines)
    assert (row["count"], row["misfit_count"], row["misfits"]) == (
        20,
        20,
        [f"{n}" for n in range(1, 20, 2)],
    )
    assert found.counts() == {"transcripts": 2, "utterances": 40}
