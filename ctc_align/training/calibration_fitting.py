"""Calibrate a model on hand-labelled speech.

Held-out speakers must prove that its edges are better for it. Where an edge network has learnt
already, labels say how their convention differs from the model's habit, and from
`FEWEST_UTTERANCES` files on the network goes on learning. For other models, offsets and their
spread, the weights of the confidence, and a new network are estimated.

All errors are measured on held-out speakers (held-out files if there is one speaker, parts of them
if there are fewer than `FEWEST_FILES`): neither constants nor network have learnt from their
labels. A correction that is not proven to improve the model is not used: the model keeps its own
values. The final constants and the final network come from all labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align.alignment.align_utterance import adjust_edges, choose_tokens, place_tokens
from ctc_align.alignment.aligner import Aligner, read_inputs, split_transcript
from ctc_align.alignment.confidence import RIGHT_MS
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import frames_in, place_edges, with_convention
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.refined_edges import SIGMA
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, InputError
from ctc_align.evaluate import Evaluation, evaluate_intervals
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.evaluate.sanity_checks import find_time_doubts
from ctc_align.extras import has_torch
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.calibration import (
    Calibration,
    SoundDurations,
    fit_convention,
    offset_between,
)
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.training.labelled_speech import (
    FEWEST_UTTERANCES,
    Candidate,
    LabelledUtterance,
    LearntEdges,
    PairedEdges,
    Row,
    SpokenUtterance,
    best_of,
    cross_validated,
    folds_of,
    left_out,
    offsets_of,
)

SCALES = (0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Candidates for the scale of the segmentation states' scores."""
BLANK_COSTS = (0.0, 1.5, 3.0, 4.5, 6.0, 8.0)
SPIKE_GAPS_S = (0.0, 0.06, 0.1, 0.15, 0.2, 0.3)
"""Candidates for a model without segmentation; see `ctc_align.models.calibration.Calibration`."""
FEWEST_EDGES = 20
FEWEST_WORDS = 4
"""A word is replaced only in utterances of this many words or more."""
FEWEST_FILES, MOST_PARTS = 3, 5
"""With fewer files, each is divided into parts, which are left out in turn.

There are then this many parts in all.
"""
STANDARD_ERRORS, FEW_UNITS = 1.65, 1.5
"""The errors by which a gain must exceed 0 to be proven.

A gain g over m units is proven if it exceeds its standard error 1.65 · (1 + 1.5 / (m - 1)) times:
about the 95th percentile of Student's t.
"""
Confident = tuple[Calibration, tuple[tuple[float, int, float, float], ...], float | None]
"""A calibration with its weights of the confidence, their reliability, and the AUC.

See `Report`.
"""
AS_IT_IS, CONSTANTS, LEARNT = "as it is", "constants", "learnt edges"


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
class HeldOut:
    """The errors of constants or of a network for speakers left out.

    It says whether they are proven to be less.
    """

    name: str
    errors: CalibrationErrors
    evaluation: Evaluation | None
    is_proven: bool


@dataclass(frozen=True)
class Report:
    """The result of a calibration.

    Attributes:
        calibration: the model's own, or that from all labels if it is proven to be better.
        edge_network: what was learnt, if it is proven to be better.
        chosen: the name of the trial that `calibration` and `edge_network` are of; `AS_IT_IS` if
            none is proven.
        before: errors of the edges that the model writes as it is, with its present calibration and
            network; model minus label, so that positive errors are late.
        trials: by name, in the order in which they were made; empty if nothing could be left out.
        reliability: (lowest confidence, words, mean confidence, share of words right), by other
            speakers' weights; empty if the model's own weights stay.
        replaced_auc: the probability that a word replaced by another one, a word of each utterance,
            gets a lower confidence than a right one, by other speakers' weights.
        speakers, utterances, folds: numbers of those used, and of the groups left out in turn.
        parts: of each utterance, which are left out instead of utterances; 1: none.
        failed: names of the utterances that could not be used, with reasons.
        learnt: the edge network and its errors; None with too few utterances, without PyTorch, or
            where not wanted.
    """

    calibration: Calibration
    edge_network: EdgeNetwork | None
    chosen: str
    before: CalibrationErrors
    trials: dict[str, HeldOut]
    reliability: tuple[tuple[float, int, float, float], ...]
    replaced_auc: float | None
    speakers: int
    utterances: int
    folds: int
    parts: int
    failed: tuple[str, ...]
    learnt: LearntEdges | None = None


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
        aligner: with the model as it is: what it draws is to be improved on.
        labelled: a handful of utterances, best of several speakers.
        source: a description of the labels, for the file's readers.
        learns: False for constants only, as is without PyTorch.
        progress: called with the share of the training that is done, in [0, 1].

    Raises:
        InputError: no utterance can be used, or too few edges.
    """
    given = PlacedUtterances.of(aligner, labelled, keep_sound=learns)
    fitted: Convention | Constants = (
        Convention(given) if given.network is not None else Constants.of(given)
    )
    everything = np.ones(len(given.folds), np.bool_)
    learnt = None
    if learns and len(given.utterances) >= FEWEST_UTTERANCES and has_torch():
        from ctc_align.training.edge_learning import learn_edges

        learnt = learn_edges(
            given.utterances,
            given.folds,
            fitted.drawn_with,
            present=given.network,
            progress=progress,
        )
    trials = {}
    if int(given.folds.max()):
        trials[CONSTANTS] = given.trial(CONSTANTS, *given.held_out(fitted))
    if learnt is not None:
        trials[LEARNT] = given.trial(LEARNT, learnt.words.errors_by_utterance(), learnt.evaluation)
    proven = [trial for trial in trials.values() if trial.is_proven]
    chosen = AS_IT_IS
    if proven:
        chosen = min(proven, key=lambda trial: trial.errors.mae_ms).name
    written: Confident = given.own, (), None
    if chosen != AS_IT_IS:
        count = "1 labelled file"
        if len(given.utterances) != 1:
            count = f"{len(given.utterances)} labelled files"
        known = replace(
            fitted.constants(everything), source=f"{source}, {count}" if source else count
        )
        written = fitted.with_confidence(aligner, known, learnt if chosen == LEARNT else None)
    calibration, reliability, auc = written
    return Report(
        calibration,
        learnt.network if learnt is not None and chosen == LEARNT else None,
        chosen,
        CalibrationErrors.of(np.asarray(given.words.errors_ms)),
        trials,
        reliability,
        auc,
        len({each.labelled.speaker for each in given.utterances}),
        len(given.utterances),
        int(given.folds.max()) + 1,
        given.parts,
        tuple(given.failed),
        learnt,
    )


def is_proven(before_ms: np.ndarray, after_ms: np.ndarray, units: np.ndarray) -> bool:
    """Return whether edges are better after than before, beyond what chance does to as many units.

    The gain per edge is the ratio of sums over the units, and its standard error that of such a
    ratio (Cochran 1977).

    Args:
        before_ms, after_ms: (E,) errors of the same edges.
        units: (E,) the number of the file, or of the speaker, that each edge is of.

    >>> is_proven(np.full(6, 30.0), np.array([5.0, 6, 7, 4, 5, 9]), np.array([0, 0, 1, 1, 2, 2]))
    True
    >>> is_proven(np.full(6, 9.0), np.array([5.0, 6, 7, 4, 15, 19]), np.array([0, 0, 1, 1, 2, 2]))
    False
    """
    _, units = np.unique(units, return_inverse=True)
    gains = np.bincount(units, np.abs(before_ms) - np.abs(after_ms))
    counts = np.bincount(units)
    others = len(counts) - 1
    gain = gains.sum() / counts.sum()
    if not others:
        return False
    error = np.sqrt((1 + 1 / others) * np.square(gains - gain * counts).sum()) / counts.sum()
    return bool(gain > STANDARD_ERRORS * (1 + FEW_UNITS / others) * error)


@dataclass(frozen=True, eq=False)
class PlacedUtterances:
    """The utterances, each with its edges as the model draws them and then refines them as it is.

    Attributes:
        utterances: with the labels that pair with words, so that the same edges are compared
            always.
        drawn, final: edges before and after the edge network and a convention; the same without
            a network.
        words, phones: the final edges, paired with labels; parts of utterances count as utterances.
        folds: (U * parts,) the group that each is left out with.
        parts: of each utterance.
        own: the model's calibration.
        network: the network that refines the edges, if there is one.
        settings, backend: with which edges are drawn.
        failed: why others cannot be used.
    """

    utterances: Sequence[SpokenUtterance]
    drawn: Sequence[Spans]
    final: Sequence[Spans]
    words: PairedEdges
    phones: PairedEdges
    folds: np.ndarray
    parts: int
    own: Calibration
    network: EdgeNetwork | None
    settings: Settings
    backend: str
    failed: Sequence[str]

    @staticmethod
    def of(
        aligner: Aligner, labelled: Iterable[LabelledUtterance], *, keep_sound: bool
    ) -> PlacedUtterances:
        """Choose pronunciations and place words. Raises as `calibrate`."""
        failed: list[str] = []
        placed: list[tuple[SpokenUtterance, Spans, Spans]] = []
        inputs: UtteranceInputs | None = None
        for each in labelled:
            try:
                inputs = read_inputs(
                    aligner, each.audio, each.text, each.name, keep_sound=keep_sound
                )
                placed += batching.run([_place_with_current_model(inputs, each)])
            except CtcAlignError as error:
                failed.append(str(error))
        if not placed or inputs is None:
            raise InputError(
                f"no utterance could be used: {failed[0] if failed else 'there is none'}"
            )
        utterances, drawn, final = zip(*_drop_mismatched_speech(placed, failed))
        if len(utterances) >= FEWEST_FILES:
            parts = 1
        else:
            parts = MOST_PARTS // len(utterances)
        words, phones = paired_edges(utterances, final)
        if len(words.errors_ms) < FEWEST_EDGES:
            raise InputError(
                f"expected at least {FEWEST_EDGES} labelled edges that pair with words, got fewer"
            )
        speakers = [each.labelled.speaker for each in utterances for _ in range(parts)]
        network = None
        if inputs.refines_edges:
            network = inputs.edge_network
        return PlacedUtterances(
            utterances,
            drawn,
            final,
            words.in_parts(parts),
            phones.in_parts(parts),
            folds_of(speakers),
            parts,
            inputs.calibration,
            network,
            aligner.settings,
            aligner.backend,
            failed,
        )

    @property
    def segmented(self) -> bool:
        """True if the model has a segmentation."""
        return self.utterances[0].emissions.states is not None

    def trial(self, name: str, errors_ms: np.ndarray, evaluation: Evaluation | None) -> HeldOut:
        """Compare errors (E,) of held-out words with those of the model as it is.

        They are compared over files, and over speakers if there are two.
        """
        before_ms, units = np.asarray(self.words.errors_ms), np.asarray(self.words.utterances)
        names = [each.labelled.speaker for each in self.utterances]
        speakers = np.unique(names, return_inverse=True)[1][units // self.parts]
        groups = [units, *([speakers] if len(set(names)) > 1 else [])]
        proven = all(is_proven(before_ms, errors_ms, each) for each in groups)
        return HeldOut(name, CalibrationErrors.of(errors_ms), evaluation, proven)

    def held_out(self, fitted: Convention | Constants) -> tuple[np.ndarray, Evaluation | None]:
        """Return errors in ms (E,) of words with constants from other folds.

        Their evaluation is returned, too, if there is one.
        """
        errors_ms = np.zeros(len(self.words.errors_ms))
        rows: list[Row] = []
        for fold in range(int(self.folds.max()) + 1):
            learnt = self.folds != fold
            left = self.words.among(~learnt)
            errors_ms[left] = fitted.errors_ms(learnt)[left]
            if self.parts == 1:
                indices = np.flatnonzero(~learnt)
                chosen = [self.utterances[k] for k in indices.tolist()]
                edges = fitted.edges_with(learnt, indices)
                rows += [
                    (u.labelled.name, u.labelled_intervals(e), u.labelled.words)
                    for u, e in zip(chosen, edges)
                ]
        return errors_ms, evaluate_intervals(rows) if rows else None


def _place_with_current_model(
    inputs: UtteranceInputs, labelled: LabelledUtterance
) -> StageSteps[tuple[SpokenUtterance, Spans, Spans]]:
    """Return an utterance and its edges as the model writes them.

    The edges come twice: before and after the edge network.
    """
    chosen = yield from choose_tokens(inputs)
    tokens, spikes, drawn = yield from place_tokens(inputs, chosen)
    final = yield from adjust_edges(inputs, tokens, drawn)
    words = inputs.words.words
    separator = inputs.tokenizer.separator
    return (
        SpokenUtterance(labelled, inputs.emissions, words, tokens, spikes, separator),
        drawn,
        final,
    )


def spoken_utterance(
    aligner: Aligner, labelled: LabelledUtterance, *, keep_sound: bool = False
) -> SpokenUtterance:
    inputs = read_inputs(
        aligner, labelled.audio, labelled.text, labelled.name, keep_sound=keep_sound
    )
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
    utterances: Sequence[SpokenUtterance],
    calibration: Calibration,
    settings: Settings,
    backend: str,
) -> list[Spans]:
    """Return the edges of all utterances."""
    return batching.run(
        [
            place_edges(each.emissions, each.tokens, each.spikes, calibration, settings, backend)
            for each in utterances
        ]
    )


def _drop_mismatched_speech(
    placed: Sequence[tuple[SpokenUtterance, Spans, Spans]], failed: list[str]
) -> list[tuple[SpokenUtterance, Spans, Spans]]:
    """Return the utterances whose labels fit their recordings, and add the others to `failed`.

    Words that a person marked one by one, perhaps the worst first, prove nothing about the fit, so
    they always fit.

    Raises:
        InputError: no labels fit.
    """
    fitting = []
    for utterance, drawn, final in placed:
        labelled = utterance.labelled
        labels = [label for label in labelled.words if label.label.strip()]
        pairing = pair_intervals(utterance.word_intervals(final), labels)
        doubts: Sequence[str] = ()
        if not labelled.char_starts:
            doubts = find_time_doubts([replace(pairing, utterance=labelled.name)])
        failed += [f"{labelled.name}: these labels are ignored: {doubt}" for doubt in doubts]
        if not doubts:
            fitting.append((utterance.with_pairs(final), drawn, final))
    if not fitting:
        raise InputError(f"no utterance could be used: {failed[-1]}")
    return fitting


def paired_edges(
    utterances: Sequence[SpokenUtterance], placed: Sequence[Spans]
) -> tuple[PairedEdges, PairedEdges]:
    """Return the edges of words and of phones that pair with labels."""
    words, phones = PairedEdges(), PairedEdges()
    for number, (utterance, edges) in enumerate(zip(utterances, placed)):
        words.add_words(number, utterance, edges)
        phones.add_phones(number, utterance, edges)
    return words, phones


@dataclass(frozen=True, eq=False)
class Convention:
    """The convention of labels: constants for edges that a network has refined.

    All else stays the model's own.
    """

    given: PlacedUtterances

    def shifts_ms(self, learnt: np.ndarray) -> dict[tuple[str, str], float]:
        """Return what is proven by the parts (U,) bool that are learnt from."""
        words = self.given.words
        rows = zip(words.among(learnt), words.pairs, words.errors_ms)
        return fit_convention((pair, error_ms) for used, pair, error_ms in rows if used)

    def constants(self, learnt: np.ndarray) -> Calibration:
        """Return the model's own constants with the convention of parts (U,) bool."""
        return self.given.own.with_convention(self.shifts_ms(learnt))

    def errors_ms(self, learnt: np.ndarray) -> np.ndarray:
        """Return the errors (E,) of all words with the convention of some."""
        shifts_ms = self.shifts_ms(learnt)
        words = self.given.words
        return np.array(
            [e + offset_between(shifts_ms, pair) for pair, e in zip(words.pairs, words.errors_ms)]
        )

    def edges_with(self, learnt: np.ndarray, indices: np.ndarray) -> list[Spans]:
        """Return the edges of the utterances at `indices` with the convention of some."""
        given = self.given
        more = replace(given.own, convention_ms=self.shifts_ms(learnt))
        chosen = [(given.utterances[k], given.final[k]) for k in indices.tolist()]
        return [
            with_convention(edges, u.tokens, more, frames_in(u.emissions)) for u, edges in chosen
        ]

    def drawn_with(self, learnt: np.ndarray) -> tuple[Calibration, Sequence[Spans]]:
        """Return constants from some utterances, and the unrefined edges of all.

        A network refines the edges afterwards.
        """
        return self.constants(learnt), self.given.drawn

    def with_confidence(
        self, aligner: Aligner, known: Calibration, learnt: LearntEdges | None
    ) -> Confident:
        """Return the calibration: the model's own weights of the confidence stay."""
        return known, (), None


@dataclass(frozen=True, eq=False)
class Constants:
    """All constants of a model without an edge network.

    There is one set for each candidate of those that are not offsets.
    """

    given: PlacedUtterances
    candidates: Sequence[Candidate]
    settings: Settings

    @staticmethod
    def of(given: PlacedUtterances) -> Constants:
        """Place all words by each candidate."""
        first = given.utterances[0].emissions
        settings = replace(given.settings, edges="occupancy" if given.segmented else "calibrated")
        candidates = []
        for each in _candidate_constants(
            Calibration().at(first.frame_shift_s, first.vocab), given.segmented
        ):
            placed = _placed(given.utterances, each, settings, given.backend)
            words, phones = paired_edges(given.utterances, placed)
            candidates.append((each, words.in_parts(given.parts), phones.in_parts(given.parts)))
        return Constants(given, candidates, settings)

    def best(self, learnt: np.ndarray) -> tuple[Candidate, dict[tuple[str, str], float]]:
        """Return the best candidate, and offsets, of the parts (U,) bool that are learnt from."""
        plain, words, phones = self.candidates[best_of(self.candidates, learnt)]
        return (plain, words, phones), offsets_of(words, phones, learnt)

    def constants(self, learnt: np.ndarray) -> Calibration:
        """Return constants from some parts (U,) bool."""
        (plain, _, _), offsets_ms = self.best(learnt)
        return replace(plain, offsets_ms=offsets_ms)

    def errors_ms(self, learnt: np.ndarray) -> np.ndarray:
        """Return the errors (E,) of all words with constants from some."""
        (_, words, _), offsets_ms = self.best(learnt)
        return np.array(
            [error + offsets_ms.get(pair, 0.0) for pair, error in zip(words.pairs, words.errors_ms)]
        )

    def edges_with(
        self, learnt: np.ndarray, indices: np.ndarray, durations: SoundDurations | None = None
    ) -> list[Spans]:
        """Return the edges of the utterances at `indices` with constants from some.

        Constants fit better where they are learnt without the usual lengths of sounds; with
        `durations` these have a share in the edges, as in those that are written.
        """
        settings = replace(self.settings, edges="refined" if self.given.segmented else "calibrated")
        chosen = [self.given.utterances[k] for k in indices.tolist()]
        calibration = replace(self.constants(learnt), durations=durations)
        return _placed(chosen, calibration, settings, self.given.backend)

    def drawn_with(self, learnt: np.ndarray) -> tuple[Calibration, Sequence[Spans]]:
        """Return constants from some utterances, and the unrefined edges of all.

        A network refines the edges afterwards.
        """
        everything = np.arange(len(self.given.utterances))
        return self.constants(learnt), self.edges_with(learnt, everything, self.given.own.durations)

    def with_confidence(
        self, aligner: Aligner, known: Calibration, learnt: LearntEdges | None
    ) -> Confident:
        """Return constants with all that confidence needs.

        These are the spread of edges, the weights of confidence, its reliability, and the AUC.
        """
        if not self.given.segmented:
            return known, (), None
        (plain, words, phones), _ = self.best(np.ones(len(self.given.folds), np.bool_))
        known, reliability = _with_confidence(known, words, phones, self.given.folds, learnt)
        presence, auc = _presence(aligner, self.given, plain, self.settings)
        return replace(known, word_presence=presence), reliability, auc


def _candidate_constants(plain: Calibration, segmented: bool) -> list[Calibration]:
    """Return the candidates of the constants, without offsets."""
    if segmented:
        return [replace(plain, scale=scale) for scale in SCALES]
    return [
        replace(plain, blank_cost=cost, spike_gap_s=gap)
        for gap in SPIKE_GAPS_S
        for cost in BLANK_COSTS
    ]


def _with_confidence(
    calibration: Calibration,
    words: PairedEdges,
    phones: PairedEdges,
    folds: np.ndarray,
    learnt: LearntEdges | None,
) -> tuple[Calibration, tuple[tuple[float, int, float, float], ...]]:
    """Return the calibration with the spread of edges and the weights of confidence.

    The reliability of the confidence is returned, too. The weights say whether the edges that are
    written are right, those of the network where one is `learnt`.
    """
    left_ms = left_out(words, phones, folds)
    spread = float(np.quantile(np.abs(left_ms) / np.asarray(words.spreads_ms), SIGMA))
    tokens_ms = left_out(phones, None, folds)
    if learnt is not None:
        words, phones = learnt.words, learnt.phones
        left_ms, tokens_ms = np.asarray(words.errors_ms), np.asarray(phones.errors_ms)
    chances, weights = _confidence(words, left_ms, folds)
    tokens = weights
    if phones.errors_ms:
        tokens = _confidence(phones, tokens_ms, folds)[1]
    calibration = replace(
        calibration, spread=round(spread, 3), word_confidence=weights, token_confidence=tokens
    )
    return calibration, _reliability(chances, _right(left_ms))


def _presence(
    aligner: Aligner, given: PlacedUtterances, plain: Calibration, settings: Settings
) -> tuple[tuple[float, ...], float | None]:
    """Return weights that separate replaced words from the others, and their AUC.

    The AUC is measured by other speakers' weights.
    """
    rng = np.random.default_rng(0)
    labelled = [utterance.labelled for utterance in given.utterances]
    written = (
        word
        for each in labelled
        for word in split_transcript(aligner, each.text, "transcript").words
    )
    vocabulary = sorted({word.text for word in written if word.spoken})
    rows, there, folds = [], [], []
    for original, fold in zip(labelled, given.folds[:: given.parts].tolist()):
        words = split_transcript(aligner, original.text, "transcript").words
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
        (edges,) = _placed([utterance], plain, settings, given.backend)
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
    """Return the probability that one of `higher` exceeds one of `lower`.

    Ties count half (Mann and Whitney 1947).

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


def _confidence(
    edges: PairedEdges, left_ms: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, tuple[float, ...]]:
    """Return the probability that each unit is right, and the weights of confidence.

    The probabilities are by other folds' weights, the weights by all folds.
    """
    return cross_validated(np.stack(edges.features), _right(left_ms), folds[edges.utterances[::2]])


def _reliability(
    chances: np.ndarray, right: np.ndarray
) -> tuple[tuple[float, int, float, float], ...]:
    lowest = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    rows = []
    for low, high in zip(lowest, (*lowest[1:], 1.01)):
        inside = (chances >= low) & (chances < high)
        if inside.any():
            rows.append(
                (low, int(inside.sum()), float(chances[inside].mean()), float(right[inside].mean()))
            )
    return tuple(rows)
