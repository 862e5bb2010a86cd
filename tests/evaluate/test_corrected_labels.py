"""A TextGrid that a person has corrected, brought back into the alignment that it came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_alignments import WORDS, alignment, textgrid

from ctc_align.errors import InputError
from ctc_align.evaluate.corrected_labels import label_doubts, labels_of, with_labels
from ctc_align.files import Alignment

PHONES = (("o", 0.1, 0.2), ("e", 0.2, 0.42), ("t", 0.42, 0.6), ("w", 0.6, 0.75), ("t", 0.9, 1.1), ("e", 1.1, 1.3))
MOVED = (("One,", 0.1, 0.42), ("two", 0.42, 0.75), ("three", 0.92, 1.3))


def spelled(**fields: object) -> Alignment:
    """The alignment of "one two three", each word at its place in the text."""
    made = alignment()
    places = [made.text.index(word.text) for word in made.words]
    words = [replace(word, char_start=at, char_end=at + len(word.text)) for word, at in zip(made.words, places)]
    return replace(made, words=tuple(words), **fields)


def test_its_edges_are_by_hand(tmp_path: Path) -> None:
    grid = textgrid(tmp_path / "a.TextGrid", ("words", (*MOVED, ("", 1.3, 2.0))), ("phones", PHONES))
    words = with_labels(spelled(), grid)
    assert [(word.text, word.start_s, word.end_s, word.by) for word in words] == [
        ("one", 0.1, 0.42, "hand"),
        ("two", 0.42, 0.75, "hand"),
        ("three", 0.92, 1.3, "hand"),
    ]
    assert [(token.token, token.start_s, token.by) for token in words[1].tokens] == [
        ("t", 0.42, "hand"),
        ("w", 0.6, "hand"),
    ]
    assert words[2].tokens == (), "its phones begin where it began before"
    assert {word.confidence for word in words} == {None}


def test_a_word_that_is_written_as_a_silence_is_one(tmp_path: Path) -> None:
    made = spelled()
    words = (replace(made.words[0], text="Sil"), *made.words[1:])
    rows = (("sil", *MOVED[0][1:]), *MOVED[1:], ("sp", 1.3, 2.0))
    grid = textgrid(tmp_path / "a.TextGrid", ("words", rows))
    text = made.text.replace("one", "Sil")
    assert [word.by for word in with_labels(replace(made, words=words, text=text), grid)] == ["hand"] * 3


def test_without_phones_those_of_words_that_did_not_move_stay(tmp_path: Path) -> None:
    words = with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", MOVED)))
    assert [len(word.tokens) for word in words] == [0, 0, 0]
    words = with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", WORDS)))
    assert [[token.by for token in word.tokens] for word in words] == [["", ""]] * 3


def test_times_of_the_recording_and_tiers_of_speakers(tmp_path: Path) -> None:
    late = tuple((label, start + 5, end + 5) for label, start, end in MOVED)
    grid = textgrid(tmp_path / "a.TextGrid", ("Ann - words", late[1:]), ("Ben - words", late[:1]), end_s=7.0)
    made = spelled(offset_s=5.0, config={"times": "recording"})
    named = [replace(word, speaker=name) for word, name in zip(made.words, ("Ben", "Ann", "Ann"))]
    words = with_labels(replace(made, words=tuple(named)), grid)
    assert [(word.start_s, word.end_s) for word in words] == [(0.1, 0.42), (0.42, 0.75), (0.92, 1.3)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (MOVED[:2], r"word 3 'three' \(0\.90 s\), got no more; if the text was wrong"),
        ((*MOVED, ("four", 1.4, 1.5)), r"word 4 no more words, got 'four' \(1\.40 s\)"),
        ((MOVED[0], ("too", 0.42, 0.75), MOVED[2]), r"word 2 'two' \(0\.40 s\), got 'too'"),
        ((MOVED[0], ("two", 0.3, 0.75), MOVED[2]), "overlap: move the edges"),
    ],
)
def test_other_words_are_refused(tmp_path: Path, rows: tuple[tuple[str, float, float], ...], says: str) -> None:
    with pytest.raises(InputError, match=rf"a\.TextGrid: .*{says}"):
        with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", rows)))


def test_the_labels_of_a_folder(tmp_path: Path) -> None:
    plain = textgrid(tmp_path / "spk" / "a.TextGrid", ("words", WORDS))
    other = textgrid(tmp_path / "a.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("out/spk/a.json")) == plain
    assert labels_of(tmp_path, Path("out/other/a.json")) == other
    textgrid(tmp_path.parent / "out" / "a.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("../out/a.json")) == other, "not what was written beside the alignment"
    kept = textgrid(tmp_path / "spk" / "a.hand.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("out/spk/a.json")) == kept
    with pytest.raises(InputError, match=r"b\.json: expected its labels in .*, b\.TextGrid, got no such file"):
        labels_of(tmp_path, Path("b.json"))


def test_labels_of_another_recording_are_doubted_and_json_is_refused(tmp_path: Path) -> None:
    """A take of the same words has them elsewhere; of JSON only what is marked is by hand, and it needs no --hand."""
    slow = tuple((label, 2 * start, 2 * end) for label, start, end in MOVED)
    made = spelled(duration_s=3.0)
    for rows, says in ((MOVED, ()), (slow, ("half of the edges are more than 0.25 s off",))):
        grid = textgrid(tmp_path / "a.TextGrid", ("words", rows), end_s=3.0)
        doubts = label_doubts(made, with_labels(made, grid), grid)
        assert [str(grid) in doubt and each in doubt for doubt, each in zip(doubts, says, strict=True)] == [True] * len(
            says
        )
    made.save(tmp_path / "a.corrected.json")
    with pytest.raises(InputError, match=r"a\.corrected\.json: .*give it in place of the alignment, without --hand"):
        with_labels(made, tmp_path / "a.corrected.json")
