from __future__ import annotations

import dataclasses
import io
import itertools
from pathlib import Path

import praatio.textgrid
import pytest
import textgrid as textgrid_package
from hypothesis import given
from sample_alignments import make_alignment, random_alignments

from ctc_align.evaluate.utterance_files import read_intervals
from ctc_align.files import Style
from ctc_align.files.textgrid import TextGridWriter, read_textgrid
from ctc_align.types import AlignedWord, aligned_words

Rows = list[tuple[float, float, str]]


def text_of(alignment, style=None) -> str:
    file = io.StringIO()
    TextGridWriter(style).write(alignment, file)
    return file.getvalue()


def by_praatio(path: Path) -> dict[str, Rows]:
    grid = praatio.textgrid.openTextgrid(str(path), includeEmptyIntervals=True)
    return {tier.name: [(i.start, i.end, i.label) for i in tier.entries] for tier in grid.tiers}


def by_textgrid(path: Path) -> dict[str, Rows]:
    grid = textgrid_package.TextGrid.fromFile(str(path))
    return {tier.name: [(i.minTime, i.maxTime, i.mark) for i in tier] for tier in grid}


def by_own_reader(path: Path) -> dict[str, Rows]:
    return {tier.name: [(i.start_s, i.end_s, i.label) for i in tier.intervals] for tier in read_textgrid(path).tiers}


@pytest.fixture(params=[by_praatio, by_textgrid, by_own_reader])
def read(request):
    return request.param


def test_words_and_silences(talk, tmp_path, read):
    path = tmp_path / "a.TextGrid"
    path.write_text(text_of(talk), "utf-8")
    tiers = read(path)
    assert list(tiers) == ["words", "tokens"]
    assert tiers["words"] == [
        (0.0, 0.1, ""),
        (0.1, 0.4, "Hello"),
        (0.4, 0.7, "12"),
        (0.7, 0.75, ""),
        (0.75, 1.0, "שלום"),
    ]


def test_each_of_several_speakers_has_tiers(talk, tmp_path, read):
    path = tmp_path / "a.TextGrid"
    names = ["", "", "Ann A.", "BOB"]
    words = tuple(dataclasses.replace(word, speaker=name) for word, name in zip(talk.words, names))
    path.write_text(text_of(dataclasses.replace(talk, words=words)), "utf-8")
    tiers = read(path)
    kinds = ("words", "tokens")
    assert list(tiers) == [f"{name} - {kind}" for name in ("unnamed", "Ann A.", "BOB") for kind in kinds]
    labels = {name: [label for _, _, label in rows if label] for name, rows in tiers.items()}
    assert [labels[f"{name} - words"] for name in ("unnamed", "Ann A.", "BOB")] == [["Hello"], ["12"], ["שלום"]]
    assert labels["BOB - tokens"] == list("שלום")
    assert [row.label for row in read_intervals(path) if row.label] == ["Hello", "12", "שלום"]
    one = tuple(dataclasses.replace(word, speaker=name) for word, name in zip(talk.words, ["", "BOB", "BOB", "BOB"]))
    path.write_text(text_of(dataclasses.replace(talk, words=one)), "utf-8")
    assert list(read(path)) == ["words", "tokens"]


def test_quotes_are_doubled(talk, tmp_path, read):
    path = tmp_path / "a.TextGrid"
    path.write_text(text_of(talk, Style(labels="written")), "utf-8")
    assert [label for _, _, label in read(path)["words"] if label] == ["“Hello,”", '12"', "שלום!"]


def test_no_word_aligned_is_one_silence(tmp_path, read):
    path = tmp_path / "a.TextGrid"
    path.write_text(text_of(make_alignment((AlignedWord("—", "", 0, 1, "unspoken"),), 1.5)), "utf-8")
    assert read(path) == {"words": [(0.0, 1.5, "")], "tokens": [(0.0, 1.5, "")]}


def test_times_of_the_recording(talk, tmp_path, read):
    path = tmp_path / "a.TextGrid"
    path.write_text(text_of(dataclasses.replace(talk, offset_s=10.0), Style(times="recording")), "utf-8")
    words = read(path)["words"]
    assert words[0] == (0.0, 10.1, "")
    assert words[-1] == (10.75, 11.0, "שלום")


@given(random_alignments())
def test_other_parsers_read_the_same_times(tmp_path_factory, alignment):
    path = tmp_path_factory.mktemp("textgrid") / "a.TextGrid"
    path.write_text(text_of(alignment, Style(labels="written")), "utf-8")
    own = by_own_reader(path)
    assert by_praatio(path) == own
    assert by_textgrid(path) == own
    assert list(own) == ["words", alignment.token_kind]
    for rows in own.values():
        assert rows[0][0] == 0
        assert rows[-1][1] == pytest.approx(alignment.duration_s, abs=1e-5)
        assert all(left[1] == right[0] for left, right in itertools.pairwise(rows)), "no gaps, to the last digit"
        assert all(start < end for start, end, _ in rows)
    spoken = [row for row in own["words"] if row[2]]
    assert len(spoken) == len(aligned_words(alignment))
    for (start_s, end_s, label), word in zip(spoken, aligned_words(alignment)):
        assert label == word.text
        assert start_s == pytest.approx(word.start_s, abs=1e-5)
        assert end_s == pytest.approx(word.end_s, abs=1e-5)
    word_edges = {edge for start_s, end_s, _ in spoken for edge in (start_s, end_s)}
    token_edges = {edge for start_s, end_s, _ in own[alignment.token_kind] for edge in (start_s, end_s)}
    assert word_edges <= token_edges, "both tiers have the same word edges"
