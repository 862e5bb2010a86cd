"""From hand-labelled speech to a model's calibration: offsets of edges, their spread, and what confidence is worth.

Each figure is told for speakers whose labels were left out of the constants that it was measured with (where there is
one speaker only: files); the constants that are kept come from all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctc_align.alignment.align_utterance import choose_tokens
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import RIGHT_MS, sound_fits, word_begins
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import EdgeSettings, kinds_around, place_edges
from ctc_align.errors import CtcAlignError, InputError
from ctc_align.evaluate import Evaluation, evaluate_intervals
from ctc_align.evaluate.comparable_labels import broad_phones, plain_phones
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.formats.textgrid import Interval
from ctc_align.kernels import batching
from ctc_align.models.calibration import Calibration, fit_logistic, probability
from ctc_align.training.calibrating.edge_errors import Seen, best_of, folds, left_out, nested, offsets_of
from ctc_align.types import Emissions, Tokens, Word
from ctc_align.units import seconds_to_ms

SCALES = (0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Of the scores of segmentation states, one of which is chosen."""
BLANK_COSTS = (0.0, 1.5, 3.0, 4.5, 6.0, 8.0)
SPIKE_GAPS_S = (0.0, 0.06, 0.1, 0.15, 0.2, 0.3)
"""What may be chosen for a model without segmentation; see `ctc_align.models.calibration.Calibration`."""
FEWEST_EDGES = 20
FEWEST_WORDS = 4
"""Of an utterance in which one is replaced."""
SIGMA = 0.6827
"""The part of a normal distribution that lies within a standard deviation."""


@dataclass(frozen=True)
class Labelled:
    """An utterance that a person labelled; phones may be missing."""

    name: str
    speaker: str
    audio: Any
    text: str
    words: Sequence[Interval]
    phones: Sequence[Interval] = ()


@dataclass(frozen=True)
class Figures:
    """Errors of edges: in ms, and the percentage within 20 ms."""

    edges: int
    mae_ms: float
    median_signed_ms: float
    within_20_ms: float


@dataclass(frozen=True)
class Report:
    """What calibrating found.

    Attributes:
        calibration: from all that was labelled.
        before, after: without offsets, and with those of other speakers.
        reliability: (lowest confidence, words, mean confidence, share of words right), of other speakers' weights.
        replaced_auc: how well a word that was replaced by another is told from those that are right, one in each
            utterance, by other speakers' weights: the chance that it gets the lower figure.
        speakers, utterances: how many were used.
        failed: names and reasons of utterances that were not.
    """

    calibration: Calibration
    before: Figures
    after: Figures
    reliability: tuple[tuple[float, int, float, float], ...]
    replaced_auc: float | None
    speakers: int
    utterances: int
    failed: tuple[str, ...]
    held_out: Evaluation
    """Of words, with the offsets of other speakers, in full."""


def calibrate(aligner: Aligner, labelled: Iterable[Labelled], source: str = "") -> Report:
    """Estimate a model's calibration.

    Args:
        aligner: with the model; its own calibration, if it has one, is not used.
        labelled: a handful of utterances of several speakers.
        source: what the labels are, for the file's readers.

    Raises:
        InputError: too few edges to say anything.
    """
    failed: list[str] = []
    given: list[tuple[Labelled, SpokenTokens]] = []
    for one in labelled:
        try:
            given.append((one, _heard(aligner, one)))
        except CtcAlignError as error:
            failed.append(str(error))
    if not given:
        raise InputError(f"no utterance could be used: {failed[0] if failed else 'there is none'}")
    segmented = given[0][1].emissions.states is not None
    counted = "1 labelled file" if len(given) == 1 else f"{len(given)} labelled files"
    source = f"{source}, {counted}" if source else counted
    known = Calibration(source=source, frame_shift_s=given[0][1].emissions.frame_shift_s)
    plains = [replace(known, scale=scale) for scale in SCALES]
    if not segmented:
        plains = [replace(known, blank_cost=cost, spike_gap_s=gap) for gap in SPIKE_GAPS_S for cost in BLANK_COSTS]
    drawings = [plain_drawing(aligner, plain, segmented=segmented) for plain in plains]
    tried = [(plain, *_observe(aligner, given, drawing)) for plain, drawing in zip(plains, drawings)]
    if len(tried[0][1].errors_ms) < FEWEST_EDGES:
        raise InputError(f"expected at least {FEWEST_EDGES} labelled edges that pair with words, got fewer")
    best = best_of(tried)
    choices = {speaker: best_of(tried, speaker) for speaker in sorted({one.speaker for one, _ in given})}
    plain, words, phones = tried[best]
    left_ms, drawing = left_out(words, phones), drawings[best]
    calibration = replace(plain, offsets_ms=offsets_of(words, phones))
    reliability: tuple[tuple[float, int, float, float], ...] = ()
    auc = None
    if segmented:
        spreads = np.asarray(words.spreads_ms)
        spread = float(np.quantile(np.abs(left_ms) / spreads, SIGMA))
        chances, weights = _confidence(words, left_ms)
        tokens = _confidence(phones, left_out(phones))[1] if phones.errors_ms else weights
        calibration = replace(calibration, spread=round(spread, 3), word_confidence=weights, token_confidence=tokens)
        reliability = _reliability(chances, _right(left_ms))
        presence, auc = _presence(aligner, [one for one, _ in given], drawing)
        calibration = replace(calibration, word_presence=presence)
    return Report(
        calibration,
        _figures(np.asarray(words.errors_ms if segmented else tried[0][1].errors_ms)),
        _figures(nested(tried, choices)),
        reliability,
        auc,
        len(set(words.speakers)),
        len(given),
        tuple(failed),
        _drawn_left_out(aligner, given, drawings, tried, choices),
    )


@dataclass(frozen=True)
class SpokenTokens:
    """An utterance whose pronunciations are chosen: its words, and the tokens with their spikes on CTC's best path."""

    emissions: Emissions
    words: Sequence[Word]
    tokens: Tokens
    spikes: Spans

    @property
    def said(self) -> np.ndarray:
        """Places of the tokens that belong to words."""
        return np.flatnonzero(np.asarray(self.tokens.words) >= 0)


def _heard(aligner: Aligner, one: Labelled) -> SpokenTokens:
    inputs = aligner.inputs(one.audio, one.text, one.name)
    chosen = batching.run([choose_tokens(inputs)])[0]
    return SpokenTokens(inputs.emissions, inputs.words.words, chosen.tokens, chosen.path.spans)


def _drawn(utterances: Sequence[SpokenTokens], settings: EdgeSettings) -> list[Spans]:
    """The edges of all utterances."""
    return batching.run([place_edges(one.emissions, one.tokens, one.spikes, settings) for one in utterances])


def plain_drawing(aligner: Aligner, plain: Calibration, *, segmented: bool) -> EdgeSettings:
    """Edges without offsets, as well as the model can draw them."""
    settings = aligner.settings
    how = "occupancy" if segmented else "calibrated"
    return EdgeSettings(how, plain, settings.band_s, settings.shortest_pause_s, aligner.backend)


def _observe(
    aligner: Aligner, given: Sequence[tuple[Labelled, SpokenTokens]], drawing: EdgeSettings
) -> tuple[Seen, Seen]:
    """Words and phones as they are drawn without offsets."""
    words, phones = Seen(), Seen()
    for (one, utterance), edges in zip(given, _drawn([utterance for _, utterance in given], drawing)):
        begins, labels = _words_of(utterance)
        _add(words, one, utterance, edges, begins, labels, one.words)
        if one.phones:
            own = [utterance.tokens.labels[k] for k in utterance.said]
            _add(phones, one, utterance, edges, np.arange(len(own) + 1), own, one.phones, phones=True)
    return words, phones


def _add(
    seen: Seen,
    one: Labelled,
    utterance: SpokenTokens,
    edges: Spans,
    begins: np.ndarray,
    labels: Sequence[str],
    reference: Sequence[Interval],
    *,
    phones: bool = False,
) -> None:
    """Pairs the units that have the sounds from begins[u] to begins[u + 1] with a person's, and notes the edges."""
    said, shift_s = utterance.said, utterance.emissions.frame_shift_s
    start, end = edges.start[said], edges.end[said]
    units = _intervals(utterance, edges, begins, labels)
    place = {id(unit): u for u, unit in enumerate(units)}
    theirs = [interval for interval in reference if interval.label.strip()]
    if phones:
        units, theirs = _same_phones(units, theirs, place)
    around_start, around_end = kinds_around(
        [utterance.tokens.labels[k] for k in said], np.append(end[:-1] < start[1:], True)
    )
    spread = (edges.start_sd, edges.end_sd) if edges.start_sd is not None else None
    fits = _features(utterance, edges, begins)
    for pair in pair_intervals(units, theirs).pairs:
        u = place.get(id(pair.hypothesis))
        if u is None or pair.mismatch:
            continue
        a, b = int(begins[u]), int(begins[u + 1]) - 1
        seen.speakers += [one.speaker] * 2
        seen.pairs += [around_start[a], around_end[b]]
        seen.errors_ms += [
            seconds_to_ms(pair.hypothesis.start_s - pair.reference.start_s),
            seconds_to_ms(pair.hypothesis.end_s - pair.reference.end_s),
        ]
        if spread is not None and fits is not None:
            sd = seconds_to_ms(shift_s)
            seen.spreads_ms += [float(spread[0][said[a]]) * sd, float(spread[1][said[b]]) * sd]  # type: ignore[index]
            seen.features.append(fits[u])


def _intervals(utterance: SpokenTokens, edges: Spans, begins: np.ndarray, labels: Sequence[str]) -> list[Interval]:
    """The units that have the sounds from begins[u] to begins[u + 1], as they are drawn."""
    said, shift_s, origin_s = utterance.said, utterance.emissions.frame_shift_s, utterance.emissions.first_frame_s
    start, end = edges.start[said] * shift_s + origin_s, edges.end[said] * shift_s + origin_s
    return [
        Interval(float(start[a]), float(end[b - 1]), label)
        for a, b, label in zip(begins[:-1].tolist(), begins[1:].tolist(), labels)
    ]


def _words_of(utterance: SpokenTokens) -> tuple[np.ndarray, list[str]]:
    """Where each word's sounds begin, the end of the last included, and what it is."""
    spoken, begins = word_begins(utterance.tokens)
    owners = np.asarray(utterance.tokens.words)[spoken]
    return begins, [utterance.words[w].text for w in owners[begins[:-1]]]


def _drawn_left_out(
    aligner: Aligner,
    given: Sequence[tuple[Labelled, SpokenTokens]],
    drawings: Sequence[EdgeSettings],
    tried: Sequence[tuple[Calibration, Seen, Seen]],
    choices: Mapping[str, int],
) -> Evaluation:
    """Words as they are drawn with what other speakers chose, against the labels; boundaries counted and all."""
    rows: list[tuple[str, Sequence[Interval], Sequence[Interval]]] = []
    how = "refined" if drawings[0].method == "occupancy" else "calibrated"
    for speaker, choice in choices.items():
        plain, words, phones = tried[choice]
        known = replace(plain, offsets_ms=offsets_of(words, phones, speaker))
        drawing = replace(drawings[0], method=how, calibration=known)
        own = [(one, utterance) for one, utterance in given if one.speaker == speaker]
        for (one, utterance), edges in zip(own, _drawn([utterance for _, utterance in own], drawing)):
            rows.append((one.name, _intervals(utterance, edges, *_words_of(utterance)), one.words))
    return evaluate_intervals(rows)


def _same_phones(
    units: list[Interval], theirs: Sequence[Interval], place: dict[int, int]
) -> tuple[list[Interval], list[Interval]]:
    """Both sides' phones in one set of labels; `place` finds the new intervals as well."""
    plain = broad_phones(plain_phones(units))
    if len(plain) != len(units):
        return [], []
    place.update({id(new): place[id(old)] for old, new in zip(units, plain)})
    return plain, broad_phones(plain_phones(theirs))


def _features(utterance: SpokenTokens, edges: Spans, begins: np.ndarray) -> np.ndarray | None:
    """What confidence is made of, (U, F)."""
    fits = sound_fits(utterance.emissions, utterance.tokens, edges)
    return None if fits is None else fits.features(begins)


def _presence(
    aligner: Aligner, labelled: Sequence[Labelled], drawing: EdgeSettings
) -> tuple[tuple[float, ...], float | None]:
    """Weights that tell a word that was replaced from the others, and how well other speakers' do."""
    rng = np.random.default_rng(0)
    spoken = sorted({word.text for one in labelled for word in aligner.words_of(one.text) if word.spoken})
    rows, there, speakers = [], [], []
    for one in labelled:
        words = aligner.words_of(one.text)
        at = int(rng.integers(len(words)))
        others = [text for text in spoken if text.casefold() != words[at].text.casefold()]
        if len(words) < FEWEST_WORDS or not others:
            continue
        other = others[int(rng.integers(len(others)))]
        text = one.text[: words[at].char_start] + other + one.text[words[at].char_end :]
        try:
            utterance = _heard(aligner, replace(one, text=text))
        except CtcAlignError:
            continue
        owners = np.asarray(utterance.tokens.words)[utterance.said]
        _, begins = word_begins(utterance.tokens)
        found = _features(utterance, _drawn([utterance], drawing)[0], begins)
        if found is not None:
            rows.append(found)
            there.append(owners[begins[:-1]] != at)
            speakers += [one.speaker] * len(found)
    if not rows:
        return (), None
    seen, right = np.concatenate(rows), np.concatenate(there)
    fold = np.unique(np.asarray(speakers), return_inverse=True)[1]
    chances = np.zeros(len(seen))
    for speaker in range(int(fold.max()) + 1):
        own = fold == speaker
        other_rows = own if own.all() else ~own
        chances[own] = probability(seen[own], fit_logistic(seen[other_rows], right[other_rows]))
    return fit_logistic(seen, right), rank_auc(chances[right], chances[~right])


def rank_auc(higher: np.ndarray, lower: np.ndarray) -> float | None:
    """The chance that one of `higher` is above one of `lower`, ties counting half (Mann and Whitney 1947).

    >>> rank_auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    if not len(higher) or not len(lower):
        return None
    ordered = np.sort(lower)
    below = np.searchsorted(ordered, higher, "left") + np.searchsorted(ordered, higher, "right")
    return float(below.mean() / (2 * len(lower)))


def _right(errors_ms: np.ndarray) -> np.ndarray:
    """(U,) whether both edges of each unit are right."""
    return np.abs(errors_ms).reshape(-1, 2).max(1) <= RIGHT_MS


def _confidence(seen: Seen, left_ms: np.ndarray) -> tuple[np.ndarray, tuple[float, ...]]:
    """Of each unit the chance of being right by other speakers' weights, and the weights of all."""
    rows, right, fold = np.stack(seen.features), _right(left_ms), folds(seen)[::2]
    chances = np.zeros(len(rows))
    for speaker in range(int(fold.max()) + 1):
        own = fold == speaker
        if own.all():
            return probability(rows, fit_logistic(rows, right)), fit_logistic(rows, right)
        chances[own] = probability(rows[own], fit_logistic(rows[~own], right[~own]))
    return chances, fit_logistic(rows, right)


def _reliability(chances: np.ndarray, right: np.ndarray) -> tuple[tuple[float, int, float, float], ...]:
    lowest = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    rows = []
    for low, high in zip(lowest, (*lowest[1:], 1.01)):
        own = (chances >= low) & (chances < high)
        if own.any():
            rows.append((low, int(own.sum()), float(chances[own].mean()), float(right[own].mean())))
    return tuple(rows)


def _figures(errors_ms: np.ndarray) -> Figures:
    off = np.abs(errors_ms)
    return Figures(
        len(errors_ms), float(off.mean()), float(np.median(errors_ms)), float(100 * (off <= 20 + 1e-6).mean())
    )
