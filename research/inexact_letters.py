"""Made log-probs of letters for inexact cases: another vocabulary than the model's, without
segmentation states.

Letters are spread evenly over each word where it is spoken. As a model's, they are heard with peaks
of all heights;
one in ten is taken for another, one in twelve is not heard. Speech that is
not in the text says words of the training speakers, music faint letters, the rest nothing. What
this measures is the search, not a model: figures of it say only that nothing depends on phones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from inexact_scores import MUSIC, SPEECH, Case
from inexact_speech import unheard_lines

from ctc_align.types import Emissions

LETTERS = ("<blank>", "|", *"abcdefghijklmnopqrstuvwxyz'")
SHIFT_S = 0.02
WRONG, UNHEARD, LETTERS_PER_S, FAINT_PER_S = 0.1, 0.08, 13.0, 2.5
REST = 0.01
"""Probability that is shared by all classes in each frame."""

Spoken = tuple[float, float, str]


def made_letters(case: Case) -> Emissions:
    """Return log-probs (T, 29) of a case's recording, the same for a kind and a seed."""
    rng = np.random.default_rng([case.seed, len(case.words)])
    frames = int(case.duration_s / SHIFT_S)
    p = np.zeros((frames, len(LETTERS)))
    p[:, 0] = 1.0
    spoken = sorted({(*place, word.text) for word in case.words for place in word.places})
    for stretch in case.foreign:
        if stretch.kind == SPEECH:
            spoken += _other_words(stretch.start_s, stretch.end_s, rng)
        elif stretch.kind == MUSIC:
            for at_s in np.arange(stretch.start_s, stretch.end_s, 1 / FAINT_PER_S):
                _hear(p, at_s, int(rng.integers(2, len(LETTERS))), float(rng.uniform(0.2, 0.7)))
    for at_s, letter in _letters(sorted(spoken)):
        draw = rng.random()
        if draw < UNHEARD:
            continue
        other = draw < UNHEARD + WRONG
        _hear(p, at_s, letter, float(rng.uniform(0.05, 0.3) if other else rng.beta(4.0, 1.2)))
        if other:
            _hear(p, at_s, int(rng.integers(2, len(LETTERS))), float(rng.uniform(0.4, 0.65)))
    log_probs = np.log((1 - REST) * p + REST / len(LETTERS))
    return Emissions(
        torch.from_numpy(log_probs).float(), LETTERS, SHIFT_S, duration_s=case.duration_s
    )


def _hear(p: np.ndarray, at_s: float, letter: int, peak: float) -> None:
    """Move probability from the blank to a letter; where less is left, that."""
    frame = min(int(at_s / SHIFT_S), len(p) - 1)
    peak = min(peak, p[frame, 0])
    p[frame, letter] += peak
    p[frame, 0] -= peak


def _letters(spoken: Sequence[Spoken]) -> Iterator[tuple[float, int]]:
    """Yield the time of each letter, and of the separator between words that follow each other."""
    before_s = None
    for start_s, end_s, text in spoken:
        if before_s is not None and start_s >= before_s:
            yield (before_s + start_s) / 2, 1
        letters = [letter for letter in text.lower() if letter in LETTERS]
        for place, letter in enumerate(letters):
            yield start_s + (place + 0.5) / len(letters) * (end_s - start_s), LETTERS.index(letter)
        before_s = end_s


def _other_words(start_s: float, end_s: float, rng: np.random.Generator) -> list[Spoken]:
    """Return words of training speakers that fill a stretch."""
    lines, spoken = unheard_lines(), []  # type: ignore[var-annotated]
    at = int(rng.integers(len(lines)))
    while True:
        for word in lines[at % len(lines)]:
            last_s = start_s + len(word.text) / LETTERS_PER_S
            if last_s > end_s:
                return spoken
            spoken.append((start_s, last_s, word.text))
            start_s = last_s + 0.06
        at += 1
