"""Speech, music and silence where no word is: of made emissions, for any vocabulary and rate of frames.

On recordings: `tests/benchmarks/sound_kinds_study.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ctc_align.alignment import fit as module
from ctc_align.alignment.fit import MUSIC, SILENCE, SPEECH, sound_kinds, unexplained_sounds
from ctc_align.types import AlignedWord, Emissions

LETTERS = ("<blank>", "|", *"abcdefghijklmnop")
SHIFT_S = 0.02
WORDS_S = 20.0
"""The recording begins with words for so long."""


def made(parts: list[tuple[str, float]], rate_per_s: float = 10.0, vocab: tuple[str, ...] = LETTERS) -> Emissions:
    """Return emissions of (kind, seconds) after words: clear tokens, faint ones in music, none in silence."""
    rng = np.random.default_rng(3)
    rows = []
    for kind, seconds in [(SPEECH, WORDS_S), *parts]:
        frames = round(seconds / SHIFT_S)
        p = np.zeros((frames, len(vocab)))
        if kind == SILENCE:
            p[:, 0] = 0.999
        else:
            p[:, 0] = 0.998 if kind == SPEECH else rng.uniform(0.6, 1.0, frames)
            every = max(1, round(1 / (rate_per_s * SHIFT_S) * (1 if kind == SPEECH else 3)))
            at = np.arange(every // 2, frames, every)
            p[at, 0] = 0.0
            p[at, rng.integers(2, len(vocab), len(at))] = 0.97 if kind == SPEECH else rng.uniform(0.3, 0.7, len(at))
        p += ((1 - p.sum(1)) / len(vocab))[:, None]
        rows.append(p)
    log_probs = torch.from_numpy(np.log(np.concatenate(rows))).float()
    return Emissions(log_probs, vocab, SHIFT_S)


def words_of(emissions: Emissions) -> list[AlignedWord]:
    return [AlignedWord("w", "w", 0, 1, "aligned", at / 2, at / 2 + 0.5, 0.9) for at in range(int(2 * WORDS_S))]


@pytest.mark.parametrize("rate_per_s", [10.0, 4.0], ids=["letters", "subwords"])
def test_speech_music_and_silence_are_told_apart(rate_per_s: float) -> None:
    emissions = made([(SILENCE, 8.0), (MUSIC, 30.0), (SPEECH, 6.0), (MUSIC, 20.0), (SPEECH, 3.0)], rate_per_s)
    found = unexplained_sounds(emissions, words_of(emissions))
    assert [kind for *_, kind in found] == [SILENCE, MUSIC, SPEECH, MUSIC, SPEECH]
    edges_s = [20.0, 28.0, 58.0, 64.0, 84.0, 87.0]
    starts, ends = zip(*((start_s, end_s) for start_s, end_s, _ in found))
    assert starts == pytest.approx(edges_s[:-1], abs=1.0)
    assert ends == pytest.approx(edges_s[1:], abs=1.0)


def test_music_alone_is_music_and_what_is_heard_of_it_no_speech() -> None:
    emissions = made([(MUSIC, 60.0)])
    kinds = sound_kinds(emissions, [(0, round(WORDS_S / SHIFT_S))])
    first = round(WORDS_S / SHIFT_S)
    assert kinds.speech(first, first + 3000) == []
    assert kinds.kind(first, first + 3000) == MUSIC
    assert kinds.kind(0, first) == SPEECH


def test_separators_and_marks_are_no_sounds() -> None:
    emissions = made([(SILENCE, 10.0)])
    log_probs = emissions.log_probs.clone()
    log_probs[1000::5] = torch.log_softmax(torch.eye(len(LETTERS))[1] * 20, 0)
    found = unexplained_sounds(replace(emissions, log_probs=log_probs), words_of(emissions))
    assert [kind for *_, kind in found] == [SILENCE]


def test_pieces_are_heard_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions = made([(MUSIC, 10.0), (SPEECH, 10.0)])
    whole = sound_kinds(emissions)
    monkeypatch.setattr(module, "PIECE_FRAMES", 77)
    pieces = sound_kinds(emissions)
    for name in ("at", "clear", "silent", "likeness"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))


def test_a_model_that_is_sure_of_nothing_leaves_it_to_its_states() -> None:
    emissions = made([(MUSIC, 10.0)])
    blurred = torch.log_softmax(0.2 * emissions.log_probs, 1)
    assert sound_kinds(emissions).tells
    assert not sound_kinds(replace(emissions, log_probs=blurred)).tells
    states = torch.zeros(len(blurred), 4)
    states[1050:1300, 1] = 9.0
    found = unexplained_sounds(replace(emissions, log_probs=blurred, states=states), words_of(emissions))
    assert found == ((pytest.approx(21.0), pytest.approx(26.0), SPEECH),)


def test_nothing_is_in_nothing() -> None:
    empty = Emissions(torch.zeros(0, len(LETTERS)), LETTERS, SHIFT_S)
    assert unexplained_sounds(empty, []) == ()
