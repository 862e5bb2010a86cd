"""Calibration of a model on hand-labelled speech: offsets of edges, their spread, and weights of confidence.

Each error is measured for speakers (for files, if there is one speaker) whose labels were left out of the constants;
the constants that are kept come from all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align.alignment.align_utterance import choose_tokens
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import RIGHT_MS
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import EdgeSettings, place_edges
from ctc_align.errors import CtcAlignError, InputError
from ctc_align.evaluate import Evaluation, evaluate_intervals
from ctc_align.kernels import batching
from ctc_align.models.calibration import Calibration
from ctc_align.training.calibrating.edge_errors import (
    Candidate,
    PairedEdges,
    SpokenUtterance,
    best_of,
    cross_validated,
    left_out,
    nested,
    offsets_of,
)
from ctc_align.training.calibrating.labelled_speech import LabelledUtterance

SCALES = (0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Candidates for the scale of the segmentation states' scores."""
BLANK_COSTS = (0.0, 1.5, 3.0, 4.5, 6.0, 8.0)
SPIKE_GAPS_S = (0.0, 0.06, 0.1, 0.15, 0.2, 0.3)
"""Candidates for a model without segmentation; see `ctc_align.models.calibration.Calibration`."""
FEWEST_EDGES = 20
FEWEST_WORDS = 4
"""A word is replaced only in utterances of this many words or more."""
SIGMA = 0.6827
"""Share of a normal distribution within a standard deviation."""


@dataclass(frozen=True)
class CalibrationErrors:
    """Errors of edges: in ms, and the percentage within 20 ms."""

    edges: int
    mae_ms: float
    median_signed_ms: float
    within_20_ms: float

    @classmethod
    def of(cls, errors_ms: np.ndarray) -> CalibrationErrors:
        """Summarise errors (E,)."""
        off = np.abs(errors_ms)
        within = float(100 * (off <= 20 + 1e-6).mean())
        return cls(len(errors_ms), float(off.mean()), float(np.median(errors_ms)), within)


@dataclass(frozen=True)
class Report:
    """The result of a calibration.

    Attributes:
        calibration: from all labels.
        before, after: without offsets, and with those from other speakers.
        reliability: (lowest confidence, words, mean confidence, share of words right), by other speakers' weights.
        replaced_auc: the chance that a word replaced by another, one in each utterance, gets a lower figure than a
            right one, by other speakers' weights.
        speakers, utterances: numbers of those used.
        failed: names of the utterances that could not be used, with reasons.
        held_out: the evaluation of words with the offsets from other speakers.
    """

    calibration: Calibration
    before: CalibrationErrors
    after: CalibrationErrors
    reliability: tuple[tuple[float, int, float, float], ...]
    replaced_auc: float | None
    speakers: int
    utterances: int
    failed: tuple[str, ...]
    held_out: Evaluation


def calibrate(aligner: Aligner, labelled: Iterable[LabelledUtterance], source: str = "") -> Report:
    """Estimate a model's calibration.

    Args:
        aligner: with the model; its own calibration, if it has one, is not used.
        labelled: a handful of utterances of several speakers.
        source: a description of the labels, for the file's readers.

    Raises:
        InputError: no utterance can be used, or too few edges.
    """
    failed: list[str] = []
    utterances: list[SpokenUtterance] = []
    for utterance in labelled:
        try:
            utterances.append(_spoken(aligner, utterance))
        except CtcAlignError as error:
            failed.append(str(error))
    if not utterances:
        raise InputError(f"no utterance could be used: {failed[0] if failed else 'there is none'}")
    counted = "1 labelled file" if len(utterances) == 1 else f"{len(utterances)} labelled files"
    known = Calibration(
        source=f"{source}, {counted}" if source else counted, frame_shift_s=utterances[0].emissions.frame_shift_s
    )
    segmented = utterances[0].emissions.states is not None
    edge_settings = _candidate_settings(aligner, known, segmented=segmented)
    candidates = [_paired(utterances, settings) for settings in edge_settings]
    if len(candidates[0][1].errors_ms) < FEWEST_EDGES:
        raise InputError(f"expected at least {FEWEST_EDGES} labelled edges that pair with words, got fewer")
    best = best_of(candidates)
    choices = {name: best_of(candidates, name) for name in sorted({each.labelled.speaker for each in utterances})}
    plain, words, phones = candidates[best]
    calibration = replace(plain, offsets_ms=offsets_of(words, phones))
    reliability: tuple[tuple[float, int, float, float], ...] = ()
    auc = None
    if segmented:
        calibration, reliability = _with_confidence(calibration, words, phones)
        presence, auc = _presence(aligner, utterances, edge_settings[best])
        calibration = replace(calibration, word_presence=presence)
    return Report(
        calibration,
        CalibrationErrors.of(np.asarray(words.errors_ms if segmented else candidates[0][1].errors_ms)),
        CalibrationErrors.of(nested(candidates, choices)),
        reliability,
        auc,
        len(set(words.speakers)),
        len(utterances),
        tuple(failed),
        _held_out_evaluation(utterances, edge_settings, candidates, choices),
    )


def _spoken(aligner: Aligner, labelled: LabelledUtterance) -> SpokenUtterance:
    inputs = aligner.inputs(labelled.audio, labelled.text, labelled.name)
    chosen = batching.run([choose_tokens(inputs)])[0]
    return SpokenUtterance(labelled, inputs.emissions, inputs.words.words, chosen.tokens, chosen.path.spans)


def _placed(utterances: Sequence[SpokenUtterance], settings: EdgeSettings) -> list[Spans]:
    """Return the edges of all utterances."""
    return batching.run([place_edges(each.emissions, each.tokens, each.spikes, settings) for each in utterances])


def _candidate_settings(aligner: Aligner, known: Calibration, *, segmented: bool) -> list[EdgeSettings]:
    """Return settings of edges without offsets, for each candidate of the constants."""
    if segmented:
        plains = [replace(known, scale=scale) for scale in SCALES]
    else:
        plains = [replace(known, blank_cost=cost, spike_gap_s=gap) for gap in SPIKE_GAPS_S for cost in BLANK_COSTS]
    settings, method = aligner.settings, "occupancy" if segmented else "calibrated"
    return [
        EdgeSettings(method, plain, settings.band_s, settings.shortest_pause_s, aligner.backend) for plain in plains
    ]


def _paired(utterances: Sequence[SpokenUtterance], settings: EdgeSettings) -> Candidate:
    """Return constants and the edges of words and phones that are placed with them."""
    words, phones = PairedEdges(), PairedEdges()
    for utterance, edges in zip(utterances, _placed(utterances, settings)):
        words.add_words(utterance, edges)
        if utterance.labelled.phones:
            phones.add_phones(utterance, edges)
    return settings.calibration, words, phones


def _with_confidence(
    calibration: Calibration, words: PairedEdges, phones: PairedEdges
) -> tuple[Calibration, tuple[tuple[float, int, float, float], ...]]:
    """Return the calibration with the spread of edges and the weights of confidence, and its reliability."""
    left_ms = left_out(words, phones)
    spread = float(np.quantile(np.abs(left_ms) / np.asarray(words.spreads_ms), SIGMA))
    chances, weights = _confidence(words, left_ms)
    tokens = _confidence(phones, left_out(phones))[1] if phones.errors_ms else weights
    calibration = replace(calibration, spread=round(spread, 3), word_confidence=weights, token_confidence=tokens)
    return calibration, _reliability(chances, _right(left_ms))


def _held_out_evaluation(
    utterances: Sequence[SpokenUtterance],
    settings: Sequence[EdgeSettings],
    candidates: Sequence[Candidate],
    choices: Mapping[str, int],
) -> Evaluation:
    """Evaluate words that are placed with constants from other speakers, against the labels."""
    rows = []
    method = "refined" if settings[0].method == "occupancy" else "calibrated"
    for speaker, choice in choices.items():
        plain, words, phones = candidates[choice]
        known = replace(plain, offsets_ms=offsets_of(words, phones, speaker))
        own = [utterance for utterance in utterances if utterance.labelled.speaker == speaker]
        for utterance, edges in zip(own, _placed(own, replace(settings[0], method=method, calibration=known))):
            rows.append((utterance.labelled.name, utterance.word_intervals(edges), utterance.labelled.words))
    return evaluate_intervals(rows)


def _presence(
    aligner: Aligner, utterances: Sequence[SpokenUtterance], settings: EdgeSettings
) -> tuple[tuple[float, ...], float | None]:
    """Return weights that separate replaced words from the others, and the AUC by other speakers' weights."""
    rng = np.random.default_rng(0)
    labelled = [utterance.labelled for utterance in utterances]
    vocabulary = sorted({word.text for each in labelled for word in aligner.words_of(each.text) if word.spoken})
    rows, there, speakers = [], [], []
    for original in labelled:
        words = aligner.words_of(original.text)
        at = int(rng.integers(len(words)))
        others = [text for text in vocabulary if text.casefold() != words[at].text.casefold()]
        if len(words) < FEWEST_WORDS or not others:
            continue
        other = others[int(rng.integers(len(others)))]
        text = original.text[: words[at].char_start] + other + original.text[words[at].char_end :]
        try:
            utterance = _spoken(aligner, replace(original, text=text))
        except CtcAlignError:
            continue
        features = utterance.features(_placed([utterance], settings)[0], utterance.begins)
        if features is not None:
            rows.append(features)
            there.append(utterance.owners != at)
            speakers += [original.speaker] * len(features)
    if not rows:
        return (), None
    right = np.concatenate(there)
    chances, weights = cross_validated(np.concatenate(rows), right, speakers)
    return weights, rank_auc(chances[right], chances[~right])


def rank_auc(higher: np.ndarray, lower: np.ndarray) -> float | None:
    """Return the chance that one of `higher` is above one of `lower`; ties count half (Mann and Whitney 1947).

    >>> rank_auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    if not len(higher) or not len(lower):
        return None
    ordered = np.sort(lower)
    below = np.searchsorted(ordered, higher, "left") + np.searchsorted(ordered, higher, "right")
    return float(below.mean() / (2 * len(lower)))


def _right(errors_ms: np.ndarray) -> np.ndarray:
    """Return whether both edges of each unit are right (U,)."""
    return np.abs(errors_ms).reshape(-1, 2).max(1) <= RIGHT_MS


def _confidence(edges: PairedEdges, left_ms: np.ndarray) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return the chance of each unit to be right, by other speakers' weights, and the weights of all."""
    return cross_validated(np.stack(edges.features), _right(left_ms), edges.speakers[::2])


def _reliability(chances: np.ndarray, right: np.ndarray) -> tuple[tuple[float, int, float, float], ...]:
    lowest = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    rows = []
    for low, high in zip(lowest, (*lowest[1:], 1.01)):
        own = (chances >= low) & (chances < high)
        if own.any():
            rows.append((low, int(own.sum()), float(chances[own].mean()), float(right[own].mean())))
    return tuple(rows)
