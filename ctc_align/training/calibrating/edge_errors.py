"""Edges that were paired with a person's, the offsets that they give, and what choices and offsets of other speakers
make of each speaker's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctc_align.models.calibration import Calibration, fit_offsets

AS_GOOD = 0.03
"""Of candidates whose error is at most so much more than the best one's, the one that swallows the fewest pauses."""


@dataclass
class Seen:
    """Edges of units (words or phones) that were paired with labels: two for each unit, its start and its end."""

    speakers: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    errors_ms: list[float] = field(default_factory=list)
    spreads_ms: list[float] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)


def folds(seen: Seen) -> np.ndarray:
    """(E,) the speaker of each edge as a number."""
    return np.unique(np.asarray(seen.speakers), return_inverse=True)[1]


def offsets_of(words: Seen, phones: Seen | None = None, without: str | None = None) -> dict[tuple[str, str], float]:
    """Offsets of words' edges, drawn towards those of all sounds; of all speakers, or of the others."""
    wider = offsets_of(phones, None, without) if phones is not None and phones.errors_ms else None
    rows = zip(words.speakers, words.pairs, words.errors_ms)
    return fit_offsets([(pair, error_ms) for speaker, pair, error_ms in rows if speaker != without], wider)


def left_out(seen: Seen, phones: Seen | None = None) -> np.ndarray:
    """Errors in ms (E,) after the offsets that other speakers gave."""
    offsets = {speaker: offsets_of(seen, phones, speaker) for speaker in set(seen.speakers)}
    rows = zip(seen.speakers, seen.pairs, seen.errors_ms)
    return np.array([error_ms + offsets[speaker].get(pair, 0.0) for speaker, pair, error_ms in rows])


def best_of(candidates: Sequence[tuple[Calibration, Seen, Seen]], without: str | None = None) -> int:
    """Which constants leave the least error, after the offsets that go with them; of all speakers, or of the others.

    Args:
        candidates: constants, and the edges of words and of phones as these draw them.
    """
    errors_ms = []
    for _, words, phones in candidates:
        offsets = offsets_of(words, phones, without)
        rows = zip(words.speakers, words.pairs, words.errors_ms)
        own = [abs(error + offsets.get(pair, 0.0)) for speaker, pair, error in rows if speaker != without]
        errors_ms.append(float(np.mean(own)) if own else 0.0)
    least = min(errors_ms)
    if candidates[0][0].scale != candidates[-1][0].scale:
        return errors_ms.index(least)
    gap_s = min(one.spike_gap_s for (one, _, _), error in zip(candidates, errors_ms) if error <= least * (1 + AS_GOOD))
    return min(
        (k for k, (one, _, _) in enumerate(candidates) if one.spike_gap_s == gap_s), key=lambda k: errors_ms[k]
    )  # fmt: skip


def nested(candidates: Sequence[tuple[Calibration, Seen, Seen]], choices: Mapping[str, int]) -> np.ndarray:
    """Errors of words in ms (E,), each speaker's with the constants and offsets that the others chose.

    Args:
        choices: of each speaker the `best_of` the candidates without that one.
    """
    errors_ms: list[float] = []
    for speaker, choice in choices.items():
        _, words, phones = candidates[choice]
        offsets = offsets_of(words, phones, speaker)
        rows = zip(words.speakers, words.pairs, words.errors_ms)
        errors_ms += [error + offsets.get(pair, 0.0) for own, pair, error in rows if own == speaker]
    return np.array(errors_ms)
