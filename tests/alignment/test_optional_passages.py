"""Parentheses and possible names of speakers: the sound decides whether they are spoken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_models import planted

import ctc_align
from ctc_align.alignment import pronunciations
from ctc_align.alignment.align_utterance import choose_tokens
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.pronunciations import leave_out_unspoken
from ctc_align.cli.align import notes
from ctc_align.kernels import batching
from ctc_align.text import split
from ctc_align.tokens.tokenizer import tokenize, tokenizer_for
from ctc_align.types import ALIGNED, UNSPOKEN, Words

VOCAB = ("-", "|", *"abcdefghij")
DEMO = Path(ctc_align.__file__).parent / "demo" / "demo.flac"


def decided(said: str, text: str, vocab: tuple[str, ...] = VOCAB) -> Words:
    """Return the words of a text where the model hears the labels `said`, one a frame."""
    emissions = planted(list(said), vocab)
    words = split(text)
    tokenizer = tokenizer_for(vocab, 0)
    word_tokens = tokenize(words, tokenizer)
    steps = leave_out_unspoken(emissions, words, word_tokens, tokenizer.separator)
    return batching.run([steps])[0][0]


def spoken(words: Words) -> str:
    return " ".join(word.spoken for word in words.words if word.spoken)


def test_passages_are_kept_where_they_are_heard() -> None:
    text = "abc (de fg) hi"
    assert spoken(decided("-a-b-c-|-d-e-|-f-g-|-h-i-", text)) == "abc de fg hi"
    left = decided("-a-b-c-|-h-i-", text)
    assert spoken(left) == "abc hi"
    assert [word.kind for word in left.words] == ["", "direction", "direction", ""]


def test_passages_side_by_side_at_the_ends_and_without_a_separator() -> None:
    text = "(ab cd) (ef) gh (ij)"
    assert spoken(decided("-g-h-", text)) == "gh"
    assert spoken(decided("-e-f-|-g-h-", text)) == "ef gh"
    assert spoken(decided("-a-b-|-c-d-|-g-h-|-i-j-", text)) == "ab cd gh ij"
    bare = ("-", *"abcdefghij")
    assert spoken(decided("-g-h-i-j-", text, bare)) == "gh ij"
    assert spoken(decided("--", "(ab) (cd)")) == "ab cd"  # not all there is


def test_long_recordings_are_searched_near_a_path_through_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pronunciations, "MOST_CELLS", 0)
    monkeypatch.setattr(pronunciations, "NEAR_FRAMES", 6)
    text = "abc (de fg) hi (ab) cd"
    assert spoken(decided("-a-b-c-|-d-e-|-f-g-|-h-i-|-c-d-", text)) == "abc de fg hi cd"
    assert spoken(decided("-a-b-c-|-h-i-|-a-b-|-c-d-", text)) == "abc hi ab cd"


def test_what_fits_in_no_way_is_left_as_it_is() -> None:
    assert spoken(decided("-a", "abc (de fg) hi")) == "abc de fg hi"


def test_names_that_are_not_heard_are_speakers() -> None:
    words = decided("-a-b-|-c-d-", "Fie: ab.\nJade: cd.")
    assert [(word.spoken, word.kind, word.speaker) for word in words.words] == [
        ("", "speaker", ""),
        ("ab", "", "Fie"),
        ("", "speaker", ""),
        ("cd", "", "Jade"),
    ]


def test_a_recording_with_and_without_what_is_in_parentheses(english: Aligner) -> None:
    text = (
        "JOHN: Forced alignment (finds where every word) begins (he smiles at them) and ends, [laughs] <i>in</i> "
        "twenty-two lines (of text),\nMARY: or in 1999. (Curtain falls.)"
    )
    said = "Forced alignment finds where every word begins and ends, in twenty-two lines of text, or in 1999."
    alignment, plain = english.align(str(DEMO), text), english.align(str(DEMO), said)
    heard = [word for word in alignment.words if word.status == ALIGNED]
    assert " ".join(word.text for word in heard).replace("(", "").replace(")", "") == said
    assert [word.start_s for word in heard] == [word.start_s for word in plain.words]
    assert alignment.loss == plain.loss
    place = 0
    for word in alignment.words:
        assert text[word.char_start : word.char_end] == word.text
        assert not text[place : word.char_start].strip()
        place = word.char_end
        assert (word.status == UNSPOKEN) == bool(word.kind)
    assert "2 of 4 parentheses are not spoken" in notes(alignment)
    assert [word.speaker for word in heard if word.text in ("Forced", "1999.")] == ["JOHN", "MARY"]
    inputs = english.inputs(str(DEMO), text)
    exact = batching.run([choose_tokens(replace(inputs, settings=replace(inputs.settings, match="exact")))])[0]
    assert exact.words == inputs.words
