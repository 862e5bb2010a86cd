"""Aligning again between edges that a person has fixed: what is kept, what moves, and what has no
room."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from ctc_align.alignment import usual_lengths
from ctc_align.alignment.aligner import Aligner
from ctc_align.errors import AudioError, InputError
from ctc_align.files.tiers import with_phones
from ctc_align.types import AlignedWord, Alignment

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
NOT_SAID = " Elephants never forget their umbrellas."


@pytest.fixture(scope="module")
def aligned(english: Aligner) -> Alignment:
    """The demo, and after it a sentence that nobody says."""
    return english.align(
        DEMO / "demo.flac", (DEMO / "demo.txt").read_text("utf-8").rstrip() + NOT_SAID
    )


def timed(alignment: Alignment) -> list[int]:
    return [index for index, word in enumerate(alignment.words) if word.start_s is not None]


def by_hand(alignment: Alignment, changes: dict[int, dict[str, Any]]) -> Alignment:
    words = list(alignment.words)
    for index, fields in changes.items():
        words[index] = replace(words[index], by="hand", **fields)
    return replace(alignment, words=tuple(words))


def in_order(alignment: Alignment) -> bool:
    """Whether words and their tokens ascend, none of them empty, and words begin and end with their
    tokens."""
    end_s = 0.0
    for index in timed(alignment):
        word = alignment.words[index]
        for token in word.tokens:
            assert end_s <= token.start_s < token.end_s, (word, token)
            end_s = token.end_s
        assert (word.start_s, word.end_s) == (word.tokens[0].start_s, word.tokens[-1].end_s)
    return end_s <= alignment.duration_s


def test_what_is_right_stays_and_the_loss_is_that_of_the_whole(
    english: Aligner, aligned: Alignment
) -> None:
    assert aligned.skipped == len(NOT_SAID.split())
    assert english.realign(replace(aligned, checked=True)) == aligned, (
        "nobody has checked what is new"
    )
    every = timed(aligned)[1::4]
    again = english.realign(by_hand(aligned, {index: {} for index in every}))
    assert in_order(again)
    assert (again.loss, again.score, again.text) == (aligned.loss, aligned.score, aligned.text)
    assert again.fit == aligned.fit
    assert again.skipped == aligned.skipped
    for index, (was, word) in enumerate(zip(aligned.words, again.words)):
        assert (word.text, word.spoken, word.status) == (was.text, was.spoken, was.status)
        if index in every:
            edges = [(token.token, token.start_s, token.end_s) for token in word.tokens]
            assert edges == [(token.token, token.start_s, token.end_s) for token in was.tokens]
            assert (word.start_s, word.end_s, word.by) == (was.start_s, was.end_s, "hand")
        elif was.start_s is not None and was.end_s is not None:
            assert (word.start_s, word.end_s) == pytest.approx((was.start_s, was.end_s), abs=0.06)
            assert word.by == ""


def test_usual_lengths_move_edges_and_not_confidences(
    english: Aligner, aligned: Alignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, rate = soundfile.read(DEMO / "demo.flac", dtype="float32")
    noise = np.random.default_rng(1).standard_normal(len(samples)).astype(np.float32)
    audio = samples + noise * samples.std(), rate
    fixed = by_hand(aligned, {index: {} for index in timed(aligned)[2::9]})

    def realigned() -> tuple[list[float | None], list[float | None]]:
        words = english.realign(fixed, audio=audio).words
        return [word.start_s for word in words], [word.confidence for word in words]

    starts, confidences = realigned()
    monkeypatch.setattr(
        usual_lengths, "draw_by_lengths", lambda risen, start, end, usual: (start, end)
    )
    starts_by_sound, confidences_by_sound = realigned()
    assert starts != starts_by_sound
    assert confidences == confidences_by_sound


def test_labels_of_sounds_that_the_model_lacks_stay(english: Aligner, aligned: Alignment) -> None:
    at = timed(aligned)[4]
    tokens = tuple(replace(token, token="ʘ", by="hand") for token in aligned.words[at].tokens)
    again = english.realign(by_hand(aligned, {at: {"tokens": tokens}}))
    assert [(one.token, one.start_s, one.end_s) for one in again.words[at].tokens] == [
        ("ʘ", one.start_s, one.end_s) for one in tokens
    ]
    assert again.loss == pytest.approx(aligned.loss, rel=0.1)
    word = again.words[at]  # judged by the sounds that the model knows it by
    assert word.confidence == pytest.approx(aligned.words[at].confidence, abs=0.05)
    assert {token.confidence for token in word.tokens} == {word.confidence}


def test_neighbours_go_to_the_edges_that_were_moved(english: Aligner, aligned: Alignment) -> None:
    at = timed(aligned)[5]
    word = aligned.words[at]
    assert aligned.words[at - 1].end_s == word.start_s
    moved = by_hand(
        aligned,
        {
            at: {
                "start_s": word.start_s - 0.04,
                "end_s": word.end_s - 0.015,
                "tokens": (),
                "confidence": None,
            }
        },
    )
    again = english.realign(moved)
    assert in_order(again)
    before, own, after = again.words[at - 1 : at + 2]
    assert (own.start_s, own.end_s) == (word.start_s - 0.04, word.end_s - 0.015)
    assert [token.token for token in own.tokens] == [token.token for token in word.tokens]
    assert own.confidence is not None
    assert before.end_s == own.start_s, "it followed at once before"
    assert after.start_s >= own.end_s
    untouched = [index for index in timed(aligned) if abs(index - at) > 3]
    assert [again.words[index].start_s for index in untouched] == pytest.approx(
        [aligned.words[index].start_s for index in untouched], abs=0.002
    )


def test_a_text_that_was_changed_is_said_anew(english: Aligner, aligned: Alignment) -> None:
    """What a page sends where a word was put in place of another: its tokens and its spoken form
    are not known."""
    at = next(index for index, word in enumerate(aligned.words) if word.text.startswith("1999"))
    word = aligned.words[at]
    new, tail = "2001.", len("2001.") - len(word.text)
    text = aligned.text[: word.char_start] + new + aligned.text[word.char_end :]
    later = tuple(
        replace(one, char_start=one.char_start + tail, char_end=one.char_end + tail)
        for one in aligned.words[at + 1 :]
    )
    own = replace(
        word,
        text=new,
        spoken="?",
        char_end=word.char_end + tail,
        tokens=(),
        confidence=None,
        by="hand",
    )
    again = english.realign(replace(aligned, text=text, words=(*aligned.words[:at], own, *later)))
    assert again.words[at].spoken == "two thousand one"
    assert (again.words[at].start_s, again.words[at].end_s) == (word.start_s, word.end_s)
    assert in_order(again)
    assert again.loss > aligned.loss + 5


def test_letters_that_the_model_lacks_have_times_between_two_words(english: Aligner) -> None:
    text = (DEMO / "demo.txt").read_text("utf-8").replace("every", "日本")
    aligned = english.align(DEMO / "demo.flac", text)
    at = next(index for index, word in enumerate(aligned.words) if word.text == "日")
    again = english.realign(by_hand(aligned, {at - 1: {}, at + 2: {}}))
    for now, before in zip(again.words[at : at + 2], aligned.words[at : at + 2]):
        assert now.text == before.text
        assert (now.start_s, now.end_s) == pytest.approx((before.start_s, before.end_s), abs=2e-5)
    assert (again.loss, again.unknown) == (aligned.loss, 2)


FAULTS: dict[str, tuple[Callable[[AlignedWord, AlignedWord], dict[int, dict[str, Any]]], str]] = {
    "no room between": (
        lambda first, third: {0: {}, 2: {"start_s": first.end_s}},
        r"demo: '\S+' \(1 word\) must fit between .* but does not: move these edges, .* in 0.000 s",
    ),
    "too short for its sounds": (
        lambda first, third: {2: {"start_s": (third.end_s or 0) - 0.011, "tokens": ()}},
        (
            r"demo: '\S+' \(.* by hand\) has no room for its sounds: make it longer, .* \(\d+"
            r" sounds in 0.011"
        ),
    ),
    "another order": (
        lambda first, third: {0: {"start_s": 4.0, "end_s": 4.5}, 2: {}},
        r"follows '\S+' \(4.000–4.500 s, by hand\) in the text but starts before it ends",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_names_words_and_times(
    english: Aligner, aligned: Alignment, name: str
) -> None:
    change, message = FAULTS[name]
    first = timed(aligned)[0]
    changes = change(aligned.words[first], aligned.words[first + 2])
    with pytest.raises(InputError, match=message):
        english.realign(
            by_hand(aligned, {first + index: fields for index, fields in changes.items()})
        )


def test_another_recording_is_refused(english: Aligner, aligned: Alignment) -> None:
    other = DEMO.parents[1] / "examples" / "interview.flac"
    shorter = replace(aligned, duration_s=aligned.duration_s + 5)
    with pytest.raises(AudioError, match=re.escape("is it the same one?")):
        english.realign(shorter)
    with pytest.raises(AudioError):
        english.realign(replace(aligned, offset_s=25.0), other)


def test_hand_corrected_words_get_the_alphabet_that_is_asked_for(
    english: Aligner, aligned: Alignment
) -> None:
    """Labels of both alphabets in one tier were wildcards to the model, too."""
    first = timed(aligned)[1]
    drawn = tuple(replace(token, by="hand") for token in aligned.words[first].tokens)
    fixed = by_hand(aligned, {first: {"tokens": drawn}})
    in_ipa = replace(english.settings, phones="ipa")
    again = english.with_settings(in_ipa).realign(fixed)
    labels = {token.token for word in again.words for token in word.tokens}
    assert not {label for label in labels if label.isupper()}, "all in IPA"
    back = english.realign(by_hand(again, {first: {}}))
    assert [token.token for token in back.words[first].tokens] == [
        t.token for t in aligned.words[first].tokens
    ]
    assert back.words[first].confidence == pytest.approx(aligned.words[first].confidence, abs=0.1)
    shown = with_phones(aligned, "ipa").words[first].tokens
    assert [token.token for token in shown] == [token.token for token in again.words[first].tokens]
    assert with_phones(with_phones(aligned, "ipa"), "arpabet") == aligned
