"""Edges of aligned words and phones paired with hand labels, offsets estimated from them, and cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import kinds_around
from ctc_align.alignment.sound_fits import sound_fits, word_begins
from ctc_align.evaluate.comparable_labels import broad_phones, plain_phones
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.models.calibration import Calibration, fit_logistic, fit_offsets, probability
from ctc_align.text.textgrid_files import Interval
from ctc_align.training.calibrating.labelled_speech import LabelledUtterance
from ctc_align.types import Emissions, Tokens, Word
from ctc_align.units import seconds_to_ms

AS_GOOD = 0.03
"""Among candidates at most this much worse than the best, the one that removes the fewest pauses is chosen."""


@dataclass(frozen=True)
class SpokenUtterance:
    """A labelled utterance with chosen pronunciations: its words, and tokens with their spikes on CTC's best path."""

    labelled: LabelledUtterance
    emissions: Emissions
    words: Sequence[Word]
    tokens: Tokens
    spikes: Spans

    @property
    def spoken(self) -> np.ndarray:
        """Indices of the tokens that belong to words."""
        return word_begins(self.tokens)[0]

    @property
    def begins(self) -> np.ndarray:
        """Index of each word's first sound among `spoken`, and their number (W + 1,)."""
        return word_begins(self.tokens)[1]

    @property
    def owners(self) -> np.ndarray:
        """Index of each word that has sounds (W,)."""
        return np.asarray(self.tokens.words)[self.spoken][self.begins[:-1]]

    def word_intervals(self, edges: Spans) -> list[Interval]:
        """Return the words that have sounds, between their edges."""
        return self.intervals(edges, self.begins, [self.words[w].text for w in self.owners])

    def intervals(self, edges: Spans, begins: np.ndarray, labels: Sequence[str]) -> list[Interval]:
        """Return the units that have the sounds from begins[u] to begins[u + 1], between their edges."""
        spoken, shift_s, origin_s = self.spoken, self.emissions.frame_shift_s, self.emissions.first_frame_s
        start, end = edges.start[spoken] * shift_s + origin_s, edges.end[spoken] * shift_s + origin_s
        return [
            Interval(float(start[a]), float(end[b - 1]), label)
            for a, b, label in zip(begins[:-1].tolist(), begins[1:].tolist(), labels)
        ]

    def features(self, edges: Spans, begins: np.ndarray) -> np.ndarray | None:
        """Return the features (U, F) of confidence of each unit; None without spreads."""
        fits = sound_fits(self.emissions, self.tokens, edges)
        return None if fits is None else fits.features(begins)


@dataclass
class PairedEdges:
    """Edges of units (words or phones) that are paired with labels: two for each unit, its start and its end.

    `features` has one row for each unit, those of confidence.
    """

    speakers: list[str] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    errors_ms: list[float] = field(default_factory=list)
    spreads_ms: list[float] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)

    def add_words(self, utterance: SpokenUtterance, edges: Spans) -> None:
        """Pair the words of an utterance with its labels."""
        labelled = [word for word in utterance.labelled.words if word.label.strip()]
        self._add(utterance, edges, utterance.begins, utterance.word_intervals(edges), labelled)

    def add_phones(self, utterance: SpokenUtterance, edges: Spans) -> None:
        """Pair the phones of an utterance with its labels, both in broad classes."""
        labels = [utterance.tokens.labels[k] for k in utterance.spoken]
        begins = np.arange(len(labels) + 1)
        ours = utterance.intervals(edges, begins, labels)
        plain = broad_phones(plain_phones(ours))
        if len(plain) == len(ours):
            labelled = [phone for phone in utterance.labelled.phones if phone.label.strip()]
            self._add(utterance, edges, begins, plain, broad_phones(plain_phones(labelled)))

    def _add(
        self,
        utterance: SpokenUtterance,
        edges: Spans,
        begins: np.ndarray,
        units: list[Interval],
        reference: Sequence[Interval],
    ) -> None:
        """Pair units, which have the sounds from begins[u] to begins[u + 1], with labels."""
        spoken = utterance.spoken
        index = {id(unit): u for u, unit in enumerate(units)}
        apart = np.append(edges.end[spoken][:-1] < edges.start[spoken][1:], True)
        around_start, around_end = kinds_around([utterance.tokens.labels[k] for k in spoken], apart)
        features = utterance.features(edges, begins)
        sd_ms = seconds_to_ms(utterance.emissions.frame_shift_s)
        for pair in pair_intervals(units, reference).pairs:
            u = index.get(id(pair.hypothesis))
            if u is None or pair.mismatch:
                continue
            a, b = int(begins[u]), int(begins[u + 1]) - 1
            self.speakers += [utterance.labelled.speaker] * 2
            self.pairs += [around_start[a], around_end[b]]
            self.errors_ms += [
                seconds_to_ms(pair.hypothesis.start_s - pair.reference.start_s),
                seconds_to_ms(pair.hypothesis.end_s - pair.reference.end_s),
            ]
            if features is not None and edges.start_sd is not None and edges.end_sd is not None:
                spreads = edges.start_sd[spoken[a]], edges.end_sd[spoken[b]]
                self.spreads_ms += [float(spread) * sd_ms for spread in spreads]
                self.features.append(features[u])


Candidate = tuple[Calibration, PairedEdges, PairedEdges]
"""Constants without offsets, and the edges of words and of phones that are placed with them."""


def offsets_of(
    words: PairedEdges, phones: PairedEdges | None = None, without: str | None = None
) -> dict[tuple[str, str], float]:
    """Return offsets of words' edges, shrunk towards those of all sounds; without one speaker, if given."""
    wider = offsets_of(phones, None, without) if phones is not None and phones.errors_ms else None
    rows = zip(words.speakers, words.pairs, words.errors_ms)
    return fit_offsets([(pair, error_ms) for speaker, pair, error_ms in rows if speaker != without], wider)


def left_out(edges: PairedEdges, phones: PairedEdges | None = None) -> np.ndarray:
    """Return errors in ms (E,) after the offsets from other speakers."""
    offsets = {speaker: offsets_of(edges, phones, speaker) for speaker in set(edges.speakers)}
    rows = zip(edges.speakers, edges.pairs, edges.errors_ms)
    return np.array([error_ms + offsets[speaker].get(pair, 0.0) for speaker, pair, error_ms in rows])


def best_of(candidates: Sequence[Candidate], without: str | None = None) -> int:
    """Return the index of the constants with the least error after their offsets; without one speaker, if given."""
    errors_ms = []
    for _, words, phones in candidates:
        offsets = offsets_of(words, phones, without)
        rows = zip(words.speakers, words.pairs, words.errors_ms)
        own = [abs(error + offsets.get(pair, 0.0)) for speaker, pair, error in rows if speaker != without]
        errors_ms.append(float(np.mean(own)) if own else 0.0)
    least = min(errors_ms)
    if candidates[0][0].scale != candidates[-1][0].scale:
        return errors_ms.index(least)
    gaps_s = [constants.spike_gap_s for constants, _, _ in candidates]
    gap_s = min(gap for gap, error in zip(gaps_s, errors_ms) if error <= least * (1 + AS_GOOD))
    return min((k for k, gap in enumerate(gaps_s) if gap == gap_s), key=lambda k: errors_ms[k])


def nested(candidates: Sequence[Candidate], choices: Mapping[str, int]) -> np.ndarray:
    """Return errors of words in ms (E,), each speaker's with constants and offsets from the others.

    Args:
        choices: for each speaker the `best_of` the candidates without that speaker.
    """
    errors_ms: list[float] = []
    for speaker, choice in choices.items():
        _, words, phones = candidates[choice]
        offsets = offsets_of(words, phones, speaker)
        rows = zip(words.speakers, words.pairs, words.errors_ms)
        errors_ms += [error + offsets.get(pair, 0.0) for own, pair, error in rows if own == speaker]
    return np.array(errors_ms)


def cross_validated(
    rows: np.ndarray, right: np.ndarray, speakers: Sequence[str]
) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return P(right) (N,) by weights from other speakers (from all, if there is one speaker), and the weights of all.

    Args:
        rows: (N, F) features.
        right: (N,) bool.
        speakers: (N,) of the rows.
    """
    fold = np.unique(np.asarray(speakers), return_inverse=True)[1]
    chances = np.zeros(len(rows))
    for speaker in range(int(fold.max()) + 1):
        own = fold == speaker
        others = own if own.all() else ~own
        chances[own] = probability(rows[own], fit_logistic(rows[others], right[others]))
    return chances, fit_logistic(rows, right)
