"""The search for a text among what was heard: against an enumeration, and with parts missing on
either side."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from inexact_scores import MUSIC, SPEECH, Case, Scores, Stretch, TrueWord, score
from made_models import among_noise
from sample_alignments import make_alignment

from ctc_align.alignment import islands
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.found_words import FoundWords, _drop_scattered_labels, find_words, gaps_of
from ctc_align.alignment.token_search import (
    JUMP_NATS,
    PAUSE_NATS,
    UNHEARD_NATS,
    UNWRITTEN_NATS,
    HeardTokens,
    TextTokens,
    greedy_decode,
    match_block,
    search,
)
from ctc_align.config import Settings
from ctc_align.types import UNEXPLAINED, AlignedWord, Pronunciation, Region, WordTokens

CLASSES = 20


def text_of(ids: np.ndarray, per_word: int = 4) -> TextTokens:
    words = np.arange(len(ids)) // per_word
    ends = np.zeros(len(ids) + 1, np.bool_)
    ends[[0, -1]] = True
    return TextTokens(ids, words, ends)


def words_of(text: TextTokens) -> list[WordTokens]:
    """Return the words of four tokens each."""
    return [
        WordTokens((Pronunciation(tuple(ids), ("",) * 4),))
        for ids in text.ids.reshape(-1, 4).tolist()
    ]


def heard_of(ids: np.ndarray, frames_each: int = 8) -> HeardTokens:
    """Return what is heard where each label has one sure frame, and blanks are around it."""
    log_probs = torch.full((frames_each * len(ids) + 1, CLASSES + 1), -8.0)
    log_probs[:, 0] = 0.0
    at = np.arange(len(ids)) * frames_each + 1
    log_probs[at, 0] = -8.0
    log_probs[at, ids] = 0.0
    return greedy_decode(log_probs.log_softmax(1).numpy(), 0)


def no_pauses(heard: HeardTokens) -> np.ndarray:
    pauses = np.zeros(len(heard) + 1, np.bool_)
    pauses[[0, -1]] = True
    return pauses


def best_by_enumeration(text: TextTokens, odds: np.ndarray, pauses: np.ndarray) -> float:
    """Return the best score over all ways to meet tokens with labels, and to jump between any of
    them."""
    count, heard = odds.shape[0], odds.shape[1]
    jump = (JUMP_NATS + np.log(count * heard)) / 2
    parts = text.parts

    def edge(i: int, h: int) -> float:
        return -(jump - PAUSE_NATS * pauses[h] - PAUSE_NATS * text.ends[i])

    def between(a: tuple[int, int], b: tuple[int, int]) -> float:
        """Return the best cost from behind token a[0] - 1 and label a[1] - 1 to before token b[0]
        and label b[1]."""
        small = -UNHEARD_NATS * (b[0] - a[0]) - UNWRITTEN_NATS * (b[1] - a[1])
        jumps = [
            -UNHEARD_NATS * (i - a[0] + b[0] - k)
            - UNWRITTEN_NATS * (h - a[1])
            + edge(i, h)
            + edge(k, b[1])
            for i in range(a[0], b[0] + 1)
            for k in range(i, b[0] + 1)
            for h in range(a[1], b[1] + 1)
            if parts[i] and parts[k] and k == b[0]
        ]
        return max([small, *jumps])

    best = 0.0
    for size in range(1, min(count, heard) + 1):
        for tokens in combinations(range(count), size):
            for labels in combinations(range(heard), size):
                met = sum(odds[text.ids[i], h] for i, h in zip(tokens, labels))
                inner = sum(
                    between((tokens[n] + 1, labels[n] + 1), (tokens[n + 1], labels[n + 1]))
                    for n in range(size - 1)
                )
                first, last = (tokens[0], labels[0]), (tokens[-1] + 1, labels[-1] + 1)
                enter = [-UNHEARD_NATS * first[0] - UNWRITTEN_NATS * first[1]] + [
                    edge(*first)
                ] * bool(parts[first[0]])
                leave = [-UNHEARD_NATS * (count - last[0]) - UNWRITTEN_NATS * (heard - last[1])] + [
                    edge(i, h) - UNHEARD_NATS * (i - last[0]) - UNWRITTEN_NATS * (h - last[1])
                    for i in range(last[0], count + 1)
                    for h in range(last[1], heard + 1)
                    if parts[i]
                ]
                best = max(best, met + inner + max(enter) + max(leave))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_best_match_is_that_of_an_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = text_of(np.arange(4), per_word=2)
    odds = (rng.normal(0, 1, (4, 5)) * 20).astype(np.float32)
    pauses = rng.random(6) < 0.4
    match, score = match_block(text, odds, pauses)
    assert score == pytest.approx(best_by_enumeration(text, odds, pauses), abs=1e-4)
    met = match.labels >= 0
    assert (np.diff(match.labels[met]) > 0).all()
    assert match.spoken[met].all()


def spoilt(rng: np.random.Generator, ids: np.ndarray, share: float = 0.2) -> np.ndarray:
    """Return ids with a share of them replaced, dropped or doubled, as a model hears them."""
    parts = [np.array([token]) for token in ids]
    for place in np.flatnonzero(rng.random(len(ids)) < share).tolist():
        other = rng.integers(1, CLASSES + 1)
        parts[place] = [np.array([other]), np.zeros(0, np.int64), np.array([ids[place], other])][
            int(rng.integers(3))
        ]
    return np.concatenate(parts)


def random_ids(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return token ids of which no two neighbours are equal."""
    ids = rng.integers(1, CLASSES + 1, 2 * count)
    return ids[np.flatnonzero(np.diff(ids, prepend=0))][:count]


@pytest.mark.parametrize("seed", range(3))
def test_long_texts_and_recordings_with_parts_missing_on_either_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [random_ids(rng, 600) for _ in range(6)]
    said = spoilt(rng, np.concatenate([pieces[0], pieces[1], pieces[2], pieces[4]]))
    text = text_of(np.concatenate([pieces[0], pieces[3], pieces[2], pieces[4], pieces[5]]))
    heard = heard_of(said)
    match, _ = search(text, heard, no_pauses(heard))
    in_audio = np.repeat([True, False, True, True, False], 600)
    assert (match.spoken == in_audio).mean() > 0.99
    met = np.flatnonzero(match.labels >= 0)
    assert (np.diff(match.labels[met]) > 0).all()
    assert (text.ids[met] == heard.ids[match.labels[met]]).mean() > 0.9


def test_passages_in_another_order_are_found_and_nothing_in_other_speech() -> None:
    rng = np.random.default_rng(3)
    pieces = [random_ids(rng, 400) for _ in range(4)]
    heard = heard_of(spoilt(rng, np.concatenate([pieces[0], pieces[2], pieces[1], pieces[3]]), 0.1))
    text = text_of(np.concatenate(pieces))
    found = find_words(text, words_of(text), heard, 0.01)
    assert found.found.mean() > 0.98
    piece = found.words[found.in_time()] // 100
    assert [int(piece[0]), *piece[1:][np.diff(piece) != 0].tolist()] == [0, 2, 1, 3]
    rng = np.random.default_rng(4)
    heard = heard_of(random_ids(rng, 3000))
    match, score = search(text_of(random_ids(rng, 2000)), heard, no_pauses(heard))
    assert not match.spoken.any()
    assert score == 0.0


def test_a_passage_that_is_read_twice_is_found_in_one_reading() -> None:
    rng = np.random.default_rng(5)
    before, passage, after = (random_ids(rng, count) for count in (60, 80, 60))
    # Each reading has one half that is heard better: the best match would begin in one and end in
    # the other.
    readings = [
        np.concatenate([passage[:40], spoilt(rng, passage[40:], 0.3)]),
        np.concatenate([spoilt(rng, passage[:40], 0.4), passage[40:]]),
    ]
    heard = heard_of(np.concatenate([before, *readings, after]))
    text = text_of(np.concatenate([before, passage, after]))
    found = find_words(text, words_of(text), heard, 0.01)
    in_second = found.first[16:34] >= 60 + len(readings[0])
    assert found.found.all()
    assert in_second.all() or not in_second.any()


def test_words_and_islands_in_one_piece() -> None:
    labels, words = np.array([3, 4, 9, -1, 10, 11]), np.array([0, 0, 0, 1, 1, 1])
    spare = np.array([2, 3, 4, 9, 10, 11])  # other words are said from 5 to 8
    assert _drop_scattered_labels(labels, words, spare).tolist() == [3, 4, -1, -1, 10, 11]
    assert _drop_scattered_labels(np.full(6, -1), words, spare).tolist() == [-1] * 6
    heard = heard_of(np.arange(1, 9))
    count, order = 3, np.array([1, 0, 2])  # nothing of the first is heard; all are in reverse order
    first, last = np.array([4, 0, 4]), np.array([3, 3, 7])
    zeros = np.zeros((count, 2), np.int64)
    found = FoundWords(
        np.array([1, 2, 0]),
        np.full(count, 4),
        order,
        first,
        last,
        np.ones(count),
        zeros,
        np.zeros(4),
    )
    gaps = gaps_of(found, heard, found.in_time(), 0.01)
    assert islands._have_labels(found, found.in_time(), gaps).tolist() == [True, False, True]
    gaps = SimpleNamespace(before=[10], after=[50], foreign=[False], unheard=[(0, 0)])
    assert islands._edges(gaps, 0, np.array([4, 10, 20, 50, 90]), 100, 0.01) == (35, 35)  # type: ignore[arg-type]


# A word is skipped only where leaving it out explains the sound better.

SAID = "he should make inquiries as to symptoms and time at which food or medicine was last taken"


@pytest.mark.parametrize("text", ["hello big world", SAID])
@pytest.mark.parametrize("seed", range(4))
def test_a_word_that_is_heard_among_noise_is_never_skipped(text: str, seed: int) -> None:
    emissions = among_noise(text, np.random.default_rng(seed))
    alignment = Aligner(None).align(emissions, text)
    assert [word.status for word in alignment.words] == ["aligned"] * len(text.split())
    assert (
        alignment.loss
        == Aligner(None, settings=Settings(match="exact")).align(emissions, text).loss
    )


def test_absent_words_are_found_and_words_beside_unwritten_ones_stay() -> None:
    words = SAID.split()
    absent, beside = [], []
    for seed in range(6):
        emissions = among_noise(SAID, np.random.default_rng(seed))
        longer = [
            *words[:4],
            "elephant",
            *words[4:9],
            "yellow",
            *words[9:13],
            "bicycle",
            *words[13:],
        ]
        status = [word.status for word in Aligner(None).align(emissions, " ".join(longer)).words]
        absent += [status[at] for at in (4, 10, 15)]
        beside += [now for at, now in enumerate(status) if at not in (4, 10, 15)]
        shorter = [word for at, word in enumerate(words) if at not in (3, 8, 12)]
        beside += [word.status for word in Aligner(None).align(emissions, " ".join(shorter)).words]
    assert 3 * absent.count("skipped") >= 2 * len(absent)
    assert beside.count("skipped") <= 0.02 * len(beside)


# The scorer of recordings and transcripts that are not exact: right on what is right, and seen to
# count each fault.

FOREIGN = Stretch(SPEECH, 20.0, 30.0, 19.0, 31.0)
SONG = Stretch(MUSIC, 40.0, 60.0, 40.0, 60.0)
CASE = Case(
    "made",
    0,
    np.zeros(16000 * 70, np.float32),
    "one two three",
    (TrueWord("one", ((1.0, 1.5),)), TrueWord("two"), TrueWord("three", ((3.0, 3.5),))),
    (FOREIGN, SONG),
    cues=((0, 2), (2, 3)),
)
RIGHT = make_alignment(
    (
        AlignedWord("one", "one", 0, 3, "aligned", 1.05, 1.45, 0.9),
        AlignedWord("two", "two", 4, 7, "skipped"),
        AlignedWord("three", "three", 8, 13, "aligned", 3.0, 3.5, 0.9),
    ),
    70.0,
    text=CASE.text,
    regions=(
        Region(UNEXPLAINED, 19.5, 30.0, reason="speech"),
        Region(UNEXPLAINED, 40.0, 60.0, reason="music"),
    ),
)


def test_what_is_right_is_counted_as_right_and_cases_are_summed() -> None:
    found = score(CASE, RIGHT, (1.1, 3.2)).shares()
    assert [found[name] for name in ("<100ms", "<300ms", "skipped", "found", "true", "cues")] == [
        100.0
    ] * 6
    assert [found[name] for name in ("gross", "sure", "lost", "music s")] == [0.0] * 4
    total = Scores()
    for _ in range(2):
        total.add(
            score(CASE, replace(RIGHT, regions=(Region(UNEXPLAINED, 50.0, 55.0, reason="speech"),)))
        )
    assert (total.spoken, total.music_s, total.most_music_s) == (4, 10.0, 5.0)


@pytest.mark.parametrize(
    ("faults", "name", "expected"),
    [
        ({"word": (0, {"start_s": 0.85})}, "<100ms", 50.0),
        ({"word": (0, {"end_s": 1.85})}, "<300ms", 50.0),
        ({"word": (0, {"start_s": 9.0, "end_s": 9.5})}, "sure", 50.0),
        ({"word": (0, {"status": "skipped", "start_s": None, "end_s": None})}, "lost", 50.0),
        (
            {"word": (1, {"status": "aligned", "start_s": 2.0, "end_s": 2.2, "confidence": 0.1})},
            "skipped",
            0.0,
        ),
        ({"regions": (Region(UNEXPLAINED, 25.0, 35.0, reason="speech"),)}, "found", 50.0),
        ({"regions": (Region(UNEXPLAINED, 21.0, 41.0, reason="speech"),)}, "true", 50.0),
        ({"regions": (Region(UNEXPLAINED, 50.0, 55.0, reason="speech"),)}, "music s", 5.0),
        ({"starts": (1.1, 3.4)}, "cues", 50.0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_fault_is_seen(faults: dict, name: str, expected: float) -> None:
    place, changed = faults.get("word", (0, {}))
    words = [
        replace(word, **changed) if at == place else word for at, word in enumerate(RIGHT.words)
    ]
    wrong = replace(RIGHT, words=tuple(words), regions=faults.get("regions", RIGHT.regions))
    assert score(CASE, wrong, faults.get("starts", (1.0, 3.0))).shares()[name] == expected


def test_of_two_readings_the_one_without_words_is_unexplained() -> None:
    first, second = Stretch(SPEECH, 0.5, 3.6, 0.0, 4.0), Stretch(SPEECH, 5.5, 8.6, 5.0, 9.0)
    twice = replace(CASE, twice=((first, second),), foreign=())
    told = replace(RIGHT, regions=(Region(UNEXPLAINED, 5.0, 9.0, reason="speech"),))
    assert (score(twice, told).foreign_found_s, score(twice, told).twice_whole) == (
        pytest.approx(3.1),
        1,
    )
    assert score(twice, RIGHT).foreign_found_s == 0.0
    torn = replace(told, words=(*RIGHT.words[:2], replace(RIGHT.words[2], start_s=8.0, end_s=8.5)))
    assert score(twice, torn).twice_whole == 0
