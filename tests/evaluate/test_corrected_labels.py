"""Corrections are found in labels that a person has changed, and never in labels as they were
written."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_alignments import alignment, textgrid
from sample_alignments import conversation, swapped_alignments
from spoken_documents import spoken

from ctc_align.errors import InputError
from ctc_align.evaluate.corrected_labels import Corrected, read_corrected
from ctc_align.files import OutputFiles, read_alignment
from ctc_align.types import Alignment, Interval

FORMATS = ["json", "textgrid", "csv", "eaf", "audacity"]
ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [("two_speakers.eaf", "talk.eaf"), ("points_and_words.TextGrid", "talk.TextGrid")]


def read_back(alignment: Alignment, folder: Path, **style: str) -> Corrected:
    """Write an alignment with all of its files of labels, and read it with their corrections."""
    styled = replace(alignment, config={**alignment.config, **style})
    paths = OutputFiles(folder, "a", FORMATS, force=True).write(styled)
    return read_corrected(paths[0])


@given(
    alignment=swapped_alignments(),
    times=st.sampled_from(["utterance", "recording"]),
    labels=st.sampled_from(["bare", "written"]),
    tiers=st.sampled_from(["", "words", "phones", "sentences,words"]),
)
@settings(max_examples=100)
def test_labels_as_they_were_written_are_no_corrections(
    alignment: Alignment, times: str, labels: str, tiers: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corrected = read_back(alignment, Path(folder), times=times, labels=labels, tiers=tiers)
        assert (corrected.notes, corrected.is_corrected) == ((), False)
        assert corrected.alignment == read_alignment(Path(folder, "a.json"))


def test_nor_are_those_of_documents_and_of_several_speakers(tmp_path: Path) -> None:
    made = [
        spoken((ROOT / "files" / name).read_bytes(), name=as_name) for name, as_name in DOCUMENTS
    ]
    for one in [*made, *(replace(each, offset_s=3.0) for each in made), conversation()]:
        assert read_back(one, tmp_path).notes == ()


PHONES = (
    ("o", 0.1, 0.2),
    ("e", 0.2, 0.4),
    ("t", 0.4, 0.5),
    ("e", 0.5, 0.75),
    ("t", 0.9, 1.0),
    ("e", 1.0, 1.3),
)
WORDS = (("one", 0.1, 0.4), ("two", 0.4, 0.75), ("three", 0.9, 1.3))


@pytest.mark.parametrize(
    ("rows", "intervals", "says"),
    [
        ((*WORDS[:2], ("free", 0.9, 1.3)), "one two free", "'free' for 'three' at 0.90 s"),
        (
            (*WORDS[:2], ("thr", 0.9, 1.1), ("ee", 1.1, 1.3)),
            "one two thr ee",
            "'thr ee' for 'three' at 0.90 s",
        ),
        ((WORDS[0], WORDS[2]), "one three", "no label for 'two' at 0.40 s"),
        (
            (*WORDS, ("four", 1.4, 1.5)),
            "one two three four",
            "'four' for no word of the text at 1.40 s",
        ),
        ((("onetwo", 0.1, 0.75), WORDS[2]), "onetwo three", "'onetwo' for 'one two' at 0.10 s"),
    ],
)
def test_words_that_the_text_lacks_are_told_and_kept_as_labels(
    tmp_path: Path, rows: tuple[tuple[str, float, float], ...], intervals: str, says: str
) -> None:
    path, grid = OutputFiles(tmp_path, "a", ["json", "textgrid"]).write(alignment())
    textgrid(grid, ("words", rows))
    corrected = read_corrected(path)
    assert corrected.alignment == read_alignment(path), "its text has no place for them"
    assert corrected.files == (grid,)
    (note,) = corrected.notes
    assert f"{grid}: has other words than the text, {says}: the text" in note
    labels = corrected.intervals("words")
    assert " ".join(label.label for label in labels) == intervals
    assert {(label.start_s, label.end_s) for label in labels} == {row[1:] for row in rows}


def test_phones_that_were_moved_or_renamed_are_corrections_of_their_word(tmp_path: Path) -> None:
    path, grid = OutputFiles(tmp_path, "a", ["json", "textgrid"]).write(alignment())
    phones = (("w", 0.1, 0.2), PHONES[1], ("t", 0.4, 0.53), ("e", 0.53, 0.75), *PHONES[4:])
    textgrid(grid, ("words", WORDS), ("phones", phones))
    first, second, third = read_corrected(path).alignment.words
    assert [token.token for token in first.tokens] == ["w", "e"]
    assert [token.start_s for token in second.tokens] == [0.4, 0.53]
    assert (first.by, second.by, third.by, second.tokens[1].by) == ("hand", "hand", "", "hand")
    assert Interval(0.53, 0.75, "e") in read_corrected(path).intervals("phones")
    capitals = tuple((label.upper(), start_s, end_s) for label, start_s, end_s in PHONES)
    textgrid(grid, ("words", WORDS), ("phones", capitals))
    assert read_corrected(path).notes == (), "another set of phones, as `convert --phones` writes"


def test_damaged_labels_are_not_passed_over(tmp_path: Path) -> None:
    path, grid = OutputFiles(tmp_path, "a", ["json", "textgrid"]).write(alignment())
    grid.write_text(grid.read_text("utf-8")[:300], "utf-8")
    with pytest.raises(
        InputError, match=r"a\.TextGrid:.*got the end of the file; a\.json was.*fix it"
    ):
        read_corrected(path)
