"""Calibrate a model on hand-labelled speech: offsets of edges, their spread, and weights of the confidence.

All errors are measured on held-out speakers (or held-out files, if there is one speaker): neither the constants nor the
edge network have learnt from their labels. The final constants and the final network come from all labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align.alignment.align_utterance import choose_tokens
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import RIGHT_MS
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import place_edges
from ctc_align.alignment.refined_edges import SIGMA
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, InputError
from ctc_align.evaluate import Evaluation, evaluate_intervals
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.evaluate.sanity_checks import find_time_doubts
from ctc_align.kernels import batching
from ctc_align.models.calibration import Calibration
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.training.edge_learning import FEWEST_UTTERANCES, LearntEdges, learn_edges
from ctc_align.training.labelled_speech import (
    Candidate,
    LabelledUtterance,
    PairedEdges,
    SpokenUtterance,
    best_of,
    cross_validated,
    folds_of,
    left_out,
    offsets_of,
)
from ctc_align.types import ALIGNED, Interval
from ctc_align.units import seconds_to_ms

SCALES = (0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Candidates for the scale of the segmentation states' scores."""
BLANK_COSTS = (0.0, 1.5, 3.0, 4.5, 6.0, 8.0)
SPIKE_GAPS_S = (0.0, 0.06, 0.1, 0.15, 0.2, 0.3)
"""Candidates for a model without segmentation; see `ctc_align.models.calibration.Calibration`."""
FEWEST_EDGES = 20
FEWEST_WORDS = 4
"""A word is replaced only in utterances of this many words or more."""


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
        before: errors of the edges that the model writes with its present calibration and network; model minus label,
            so that positive errors are late.
        after: errors with the constants from other speakers.
        reliability: (lowest confidence, words, mean confidence, share of words right), by other speakers' weights.
        replaced_auc: the probability that a word replaced by another one, a word of each utterance, gets a lower
            confidence than a right one, by other speakers' weights.
        speakers, utterances, folds: numbers of those used, and of the groups left out in turn.
        failed: names of the utterances that could not be used, with reasons.
        held_out: the evaluation of words with the constants from other speakers.
        learnt: the edge network and its errors; None with too few utterances, or where it was not wanted.
    """

    calibration: Calibration
    before: CalibrationErrors
    after: CalibrationErrors
    reliability: tuple[tuple[float, int, float, float], ...]
    replaced_auc: float | None
    speakers: int
    utterances: int
    folds: int
    failed: tuple[str, ...]
    held_out: Evaluation
    learnt: LearntEdges | None = None

    @property
    def learnt_errors(self) -> CalibrationErrors | None:
        """Errors of the network's edges, for speakers left out."""
        return None if self.learnt is None else CalibrationErrors.of(np.asarray(self.learnt.words.errors_ms))

    @property
    def edge_network(self) -> EdgeNetwork | None:
        """The learnt network, if its edges are better than those of the constants."""
        return _better(self.learnt, self.after)


def _better(learnt: LearntEdges | None, after: CalibrationErrors) -> EdgeNetwork | None:
    if learnt is None or CalibrationErrors.of(np.asarray(learnt.words.errors_ms)).mae_ms >= after.mae_ms:
        return None
    return learnt.network


def calibrate(
    aligner: Aligner,
    labelled: Iterable[LabelledUtterance],
    source: str = "",
    *,
    learns: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Report:
    """Estimate a model's calibration, and train an edge network if there are enough labels.

    Args:
        aligner: with the model; its present calibration is not used.
        labelled: a handful of utterances of several speakers.
        source: a description of the labels, for the file's readers.
        learns: False for constants only.
        progress: called with the share of the training that is done, in [0, 1].

    Raises:
        InputError: no utterance can be used, or too few edges.
    """
    given = PlacedUtterances.of(aligner, labelled, source, keep_sound=learns)
    best = best_of(given.candidates, np.ones(len(given.folds), np.bool_))
    plain, words, phones = given.candidates[best]
    calibration = replace(plain, offsets_ms=offsets_of(words, phones))
    held_out_ms, evaluation = given.held_out()
    after = CalibrationErrors.of(np.asarray(held_out_ms))
    learnt = None
    if learns and len(given.utterances) >= FEWEST_UTTERANCES and int(given.folds.max()):
        learnt = learn_edges(
            given.utterances, given.folds, given.edges_with, present=aligner.edge_network, progress=progress
        )
    reliability: tuple[tuple[float, int, float, float], ...] = ()
    auc = None
    if given.segmented:
        final = learnt if _better(learnt, after) else None
        calibration, reliability = _with_confidence(calibration, words, phones, given.folds, final)
        presence, auc = _presence(aligner, given, best)
        calibration = replace(calibration, word_presence=presence)
    before_ms = _as_they_are(aligner, [each.labelled for each in given.utterances])
    return Report(
        calibration,
        CalibrationErrors.of(np.asarray(before_ms or words.errors_ms)),
        after,
        reliability,
        auc,
        len({given.utterances[k].labelled.speaker for k in words.utterances}),
        len(given.utterances),
        int(given.folds.max()) + 1,
        tuple(given.failed),
        evaluation,
        learnt,
    )


def _as_they_are(aligner: Aligner, labelled: Iterable[LabelledUtterance]) -> list[float]:
    """Return the errors in ms of the words that the aligner writes with its present calibration and network."""
    errors_ms: list[float] = []
    for each in labelled:
        words = [word for word in aligner.align(each.audio, each.text).words if word.status == ALIGNED]
        ours = [Interval(word.start_s or 0.0, word.end_s or 0.0, word.text) for word in words]
        if each.char_starts:
            at = {word.char_start: interval for word, interval in zip(words, ours)}
            pairs = [(at[start], label) for start, label in zip(each.char_starts, each.words) if start in at]
        else:
            paired = pair_intervals(ours, [label for label in each.words if label.label.strip()]).pairs
            pairs = [(pair.hypothesis, pair.reference) for pair in paired if not pair.mismatch]
        for word, label in pairs:
            errors_ms += [seconds_to_ms(word.start_s - label.start_s), seconds_to_ms(word.end_s - label.end_s)]
    return errors_ms


@dataclass(frozen=True, eq=False)
class PlacedUtterances:
    """The utterances, the group (U,) that each is left out with, and their words by each candidate of the constants.

    `settings` and `backend` are those with which edges are drawn; the candidates' have no offsets.
    """

    utterances: Sequence[SpokenUtterance]
    folds: np.ndarray
    settings: Settings
    backend: str
    candidates: Sequence[Candidate]
    failed: Sequence[str]

    @staticmethod
    def of(
        aligner: Aligner, labelled: Iterable[LabelledUtterance], source: str, *, keep_sound: bool
    ) -> PlacedUtterances:
        """Choose pronunciations, and place words by each candidate. Raises as `calibrate`."""
        failed: list[str] = []
        utterances: list[SpokenUtterance] = []
        for utterance in labelled:
            try:
                utterances.append(spoken_utterance(aligner, utterance, keep_sound=keep_sound))
            except CtcAlignError as error:
                failed.append(str(error))
        if not utterances:
            raise InputError(f"no utterance could be used: {failed[0] if failed else 'there is none'}")
        first = utterances[0].emissions
        segmented = first.states is not None
        plain = Calibration().at(first.frame_shift_s, first.vocab)
        settings = replace(aligner.settings, edges="occupancy" if segmented else "calibrated")
        first_plain = _candidate_constants(plain, segmented=segmented)[0]
        edges = _placed(utterances, first_plain, settings, aligner.backend)
        utterances = _without_strangers(utterances, edges, failed)
        counted = "1 labelled file" if len(utterances) == 1 else f"{len(utterances)} labelled files"
        known = replace(plain, source=f"{source}, {counted}" if source else counted)
        candidates = [
            _paired(utterances, each, _placed(utterances, each, settings, aligner.backend))
            for each in _candidate_constants(known, segmented=segmented)
        ]
        if len(candidates[0][1].errors_ms) < FEWEST_EDGES:
            raise InputError(f"expected at least {FEWEST_EDGES} labelled edges that pair with words, got fewer")
        folds = folds_of([each.labelled.speaker for each in utterances])
        return PlacedUtterances(utterances, folds, settings, aligner.backend, candidates, failed)

    @property
    def segmented(self) -> bool:
        """True if the model has a segmentation."""
        return self.utterances[0].emissions.states is not None

    def edges_with(self, learnt: np.ndarray, indices: np.ndarray | None = None) -> list[Spans]:
        """Return the edges of all utterances, or those at `indices`, with constants from those `learnt` from (U,)."""
        plain, words, phones = self.candidates[best_of(self.candidates, learnt)]
        known = replace(plain, offsets_ms=offsets_of(words, phones, learnt))
        settings = replace(self.settings, edges="refined" if self.segmented else "calibrated")
        chosen = self.utterances if indices is None else [self.utterances[k] for k in indices]
        return _placed(chosen, known, settings, self.backend)

    def held_out(self) -> tuple[list[float], Evaluation]:
        """Return errors in ms (E,) of words that are placed with constants from other folds, and their evaluation."""
        errors_ms: list[float] = []
        rows = []
        for fold in range(int(self.folds.max()) + 1):
            learnt, left_out = self.folds != fold, np.flatnonzero(self.folds == fold)
            _, words, phones = self.candidates[best_of(self.candidates, learnt)]
            offsets = offsets_of(words, phones, learnt)
            pairs = zip(words.among(~learnt), words.pairs, words.errors_ms)
            errors_ms += [error + offsets.get(pair, 0.0) for left, pair, error in pairs if left]
            for k, edges in zip(left_out.tolist(), self.edges_with(learnt, left_out)):
                utterance = self.utterances[k]
                rows.append((utterance.labelled.name, utterance.labelled_intervals(edges), utterance.labelled.words))
        return errors_ms, evaluate_intervals(rows)


def spoken_utterance(aligner: Aligner, labelled: LabelledUtterance, *, keep_sound: bool = False) -> SpokenUtterance:
    inputs = aligner.inputs(labelled.audio, labelled.text, labelled.name, keep_sound=keep_sound)
    chosen = batching.run([choose_tokens(inputs)])[0]
    return SpokenUtterance(
        labelled,
        inputs.emissions,
        inputs.words.words,
        chosen.tokens,
        chosen.spikes,
        inputs.tokenizer.separator,
    )


def _placed(
    utterances: Sequence[SpokenUtterance], calibration: Calibration, settings: Settings, backend: str
) -> list[Spans]:
    """Return the edges of all utterances."""
    return batching.run(
        [place_edges(each.emissions, each.tokens, each.spikes, calibration, settings, backend) for each in utterances]
    )


def _without_strangers(
    utterances: Sequence[SpokenUtterance], placed: Sequence[Spans], failed: list[str]
) -> list[SpokenUtterance]:
    """Return the utterances whose labels fit their recordings, and add the others to `failed`.

    Words that a person marked one by one, perhaps the worst first, prove nothing about the fit, so they always fit.

    Raises:
        InputError: no labels fit.
    """
    fitting = []
    for utterance, edges in zip(utterances, placed):
        labelled = utterance.labelled
        labels = [label for label in labelled.words if label.label.strip()]
        pairing = pair_intervals(utterance.word_intervals(edges), labels)
        doubts = () if labelled.char_starts else find_time_doubts([replace(pairing, utterance=labelled.name)])
        failed += [f"{labelled.name}: these labels are ignored: {doubt}" for doubt in doubts]
        fitting += [] if doubts else [utterance]
    if not fitting:
        raise InputError(f"no utterance could be used: {failed[-1]}")
    return fitting


def _candidate_constants(known: Calibration, *, segmented: bool) -> list[Calibration]:
    """Return the candidates of the constants, without offsets."""
    if segmented:
        return [replace(known, scale=scale) for scale in SCALES]
    return [replace(known, blank_cost=cost, spike_gap_s=gap) for gap in SPIKE_GAPS_S for cost in BLANK_COSTS]


def _paired(utterances: Sequence[SpokenUtterance], plain: Calibration, placed: Sequence[Spans]) -> Candidate:
    """Return constants and the edges of words and phones that are placed with them."""
    words, phones = PairedEdges(), PairedEdges()
    for number, (utterance, edges) in enumerate(zip(utterances, placed)):
        words.add_words(number, utterance, edges)
        phones.add_phones(number, utterance, edges)
    return plain, words, phones


def _with_confidence(
    calibration: Calibration,
    words: PairedEdges,
    phones: PairedEdges,
    folds: np.ndarray,
    learnt: LearntEdges | None,
) -> tuple[Calibration, tuple[tuple[float, int, float, float], ...]]:
    """Return the calibration with the spread of edges and the weights of confidence, and its reliability.

    The weights say whether the edges that are written are right, those of the network where one is `learnt`.
    """
    left_ms = left_out(words, phones, folds)
    spread = float(np.quantile(np.abs(left_ms) / np.asarray(words.spreads_ms), SIGMA))
    tokens_ms = left_out(phones, None, folds)
    if learnt is not None:
        words, phones = learnt.words, learnt.phones
        left_ms, tokens_ms = np.asarray(words.errors_ms), np.asarray(phones.errors_ms)
    chances, weights = _confidence(words, left_ms, folds)
    tokens = _confidence(phones, tokens_ms, folds)[1] if phones.errors_ms else weights
    calibration = replace(calibration, spread=round(spread, 3), word_confidence=weights, token_confidence=tokens)
    return calibration, _reliability(chances, _right(left_ms))


def _presence(aligner: Aligner, given: PlacedUtterances, best: int) -> tuple[tuple[float, ...], float | None]:
    """Return weights that separate replaced words from the others, and the AUC by other speakers' weights."""
    rng = np.random.default_rng(0)
    labelled = [utterance.labelled for utterance in given.utterances]
    written = (word for each in labelled for word in aligner.split(each.text, "transcript").words)
    vocabulary = sorted({word.text for word in written if word.spoken})
    rows, there, folds = [], [], []
    for original, fold in zip(labelled, given.folds.tolist()):
        words = aligner.split(original.text, "transcript").words
        at = int(rng.integers(len(words)))
        others = [text for text in vocabulary if text.casefold() != words[at].text.casefold()]
        if len(words) < FEWEST_WORDS or not others:
            continue
        other = others[int(rng.integers(len(others)))]
        text = original.text[: words[at].char_start] + other + original.text[words[at].char_end :]
        try:
            utterance = spoken_utterance(aligner, replace(original, text=text))
        except CtcAlignError:
            continue
        (edges,) = _placed([utterance], given.candidates[best][0], given.settings, given.backend)
        features = utterance.features(edges, utterance.begins)
        if features is not None:
            rows.append(features)
            there.append(utterance.owners != at)
            folds += [fold] * len(features)
    if not rows:
        return (), None
    right = np.concatenate(there)
    chances, weights = cross_validated(np.concatenate(rows), right, np.array(folds))
    return weights, rank_auc(chances[right], chances[~right])


def rank_auc(higher: np.ndarray, lower: np.ndarray) -> float | None:
    """Return the probability that one of `higher` exceeds one of `lower`; ties count half (Mann and Whitney 1947).

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


def _confidence(edges: PairedEdges, left_ms: np.ndarray, folds: np.ndarray) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return the probability that each unit is right, by other folds' weights, and the weights of all."""
    return cross_validated(np.stack(edges.features), _right(left_ms), folds[edges.utterances[::2]])


def _reliability(chances: np.ndarray, right: np.ndarray) -> tuple[tuple[float, int, float, float], ...]:
    lowest = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    rows = []
    for low, high in zip(lowest, (*lowest[1:], 1.01)):
        inside = (chances >= low) & (chances < high)
        if inside.any():
            rows.append((low, int(inside.sum()), float(chances[inside].mean()), float(right[inside].mean())))
    return tuple(rows)
