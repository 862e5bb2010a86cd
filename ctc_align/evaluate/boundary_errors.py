"""Boundary error of alignments against reference alignments, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ctc_align.errors import InputError
from ctc_align.evaluate.comparable_labels import is_used, spoken
from ctc_align.evaluate.detection import Detection, counts
from ctc_align.evaluate.error_statistics import EdgeErrors, Signed, detections, edge_errors, intervals, resampled
from ctc_align.evaluate.file_pairs import check_paths, matched, open_source
from ctc_align.evaluate.measure_options import PHONES, Options, parse_tier
from ctc_align.evaluate.pairing import Pair, Pairing, normalised_label, pair_intervals
from ctc_align.evaluate.sanity_checks import Facts, doubts
from ctc_align.evaluate.tiers import Reading
from ctc_align.formats.textgrid_reading import Interval
from ctc_align.units import seconds_to_ms

_DECIMALS = 6


@dataclass(frozen=True)
class UtteranceErrors:
    """One utterance: what was paired, and where it is worst."""

    utterance: str
    paired: int
    missing: int
    extra: int
    mismatched: int
    mae_ms: float | None
    worst_ms: float | None
    """Largest error of one edge, signed."""
    worst_label: str


@dataclass(frozen=True)
class WorstEdge:
    """One edge that is far off."""

    utterance: str
    label: str
    edge: str
    """"onset" or "offset"."""
    reference_s: float
    hypothesis_s: float
    error_ms: float


@dataclass(frozen=True)
class Measured:
    """What the figures are made of, by utterance."""

    names: tuple[str, ...]
    pairs: tuple[tuple[Pair, ...], ...]
    counts: np.ndarray
    """(U, len(detection.KINDS), 3) as `detection.counts`."""

    def signed(self, chosen: Sequence[Sequence[Pair]] | None = None) -> dict[str, Signed]:
        """The errors of both edges, of onsets and of offsets; of `chosen` pairs where not of all."""
        rows = self.pairs if chosen is None else chosen
        utterance = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        onset = Signed(np.array([onset_ms(pair) for row in rows for pair in row], float), utterance)
        offset = Signed(np.array([offset_ms(pair) for row in rows for pair in row], float), utterance)
        return {"both": onset.joined(offset), "onset": onset, "offset": offset}


@dataclass(frozen=True)
class Evaluation:
    """Boundary errors of a set of alignments; `missing` words are the reference's, `extra` ones the hypothesis's."""

    tier: str
    both: EdgeErrors
    onset: EdgeErrors
    offset: EdgeErrors
    paired: int
    missing: int
    extra: int
    mismatched: int
    """Pairs whose labels differ; their edges are measured like the others'."""
    utterances: tuple[UtteranceErrors, ...]
    boundaries: dict[str, Detection] = field(default_factory=dict)
    """Precision, recall, F1 and R-value at the tolerance, for each of `detection.KINDS`."""
    options: Options = field(default_factory=Options)
    missing_files: tuple[str, ...] = ()
    """References without a hypothesis."""
    extra_files: tuple[str, ...] = ()
    """Hypotheses without a reference."""
    failures: tuple[tuple[str, str], ...] = ()
    """Utterances that could not be read, each with the reason."""
    doubts: tuple[str, ...] = ()
    """Why these figures may mean nothing: other units, other recordings, other transcripts."""
    measured: Measured | None = field(default=None, repr=False, compare=False)

    @property
    def complete(self) -> bool:
        """Every reference has a hypothesis, and all could be read."""
        return not (self.missing_files or self.failures)

    def worst(self, count: int = 5) -> list[UtteranceErrors]:
        """The utterances with the largest mean error, worst first."""
        ranked = [utterance for utterance in self.utterances if utterance.mae_ms is not None]
        return sorted(ranked, key=lambda utterance: -(utterance.mae_ms or 0.0))[:count]

    def worst_edges(self, count: int = 5) -> list[WorstEdge]:
        """The edges with the largest error, worst first."""
        if self.measured is None:
            return []
        edges = [
            edge
            for name, row in zip(self.measured.names, self.measured.pairs)
            for pair in row
            for edge in _edges(name, pair)
        ]
        return sorted(edges, key=lambda edge: -abs(edge.error_ms))[:count]

    def to_dict(self, worst: int = 5) -> dict[str, Any]:
        """Plain dicts, lists, strings and finite numbers or None; numbers have three decimals."""
        left_out = ("measured", "options")
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in left_out}
        plain = {key: _plain(value) for key, value in values.items()}
        settings = {"tolerance_ms": self.options.tolerance_ms, "resamples": self.options.resamples}
        settings |= {"seed": self.options.seed}
        plain |= {"settings": settings, "worst_edges": _plain(tuple(self.worst_edges(worst)))}
        return rounded(plain)


def evaluate(
    hypothesis: str | Path, reference: str | Path, tier: str = "words", options: Options | None = None
) -> Evaluation:
    """Measure `hypothesis` against `reference`: files or folders of TextGrids, ctc-align JSON and CTM.

    Files in folders meet by their path without extension; where one folder is flat, by the end of that path if only
    one file fits. CTM with several utterances, and shards of JSON, stand for folders. Intervals pair by order (see
    `ctc_align.evaluate.pairing`), silences are left out, stop closures merge (see `labels.spoken`).

    Args:
        hypothesis, reference: paths; a folder is searched with all its subfolders.
        tier: "words" or "phones" ("tokens" of a hypothesis serve as phones).
        options: tolerance, resamples, map of labels, names of tiers.

    Raises:
        UsageError: no such path, a file against a folder, a folder without alignments, an unknown tier.
        InputError: one of two *files* cannot be read (in folders it is among `failures`).
    """
    tier, options = parse_tier(tier), options or Options()
    hypothesis, reference = Path(hypothesis), Path(reference)
    check_paths(hypothesis, reference)
    ours = open_source(hypothesis, tier, options.hypothesis_tier)
    theirs = open_source(reference, tier, options.reference_tier)
    matches = matched(ours, theirs)
    facts: list[tuple[str, Reading, Reading]] = []
    failures = [*ours.failures, *theirs.failures]
    for name, read_ours, read_theirs in matches.triples:
        try:
            facts += _by_speaker(name, read_ours(), read_theirs())
        except InputError as error:
            if ours.is_alone and theirs.is_alone:
                raise
            failures.append((name, str(error)))
    return _evaluation(
        facts,
        tier,
        options,
        missing_files=tuple(name for name in matches.missing if name not in dict(ours.failures)),
        extra_files=tuple(name for name in matches.extra if name not in dict(theirs.failures)),
        failures=tuple(failures),
    )


def evaluate_intervals(
    utterances: Iterable[tuple[str, Sequence[Interval], Sequence[Interval]]],
    tier: str = "words",
    options: Options | None = None,
    **about_files: Any,
) -> Evaluation:
    """Measure intervals in memory: (utterance, hypothesis, reference) triples, silences left out or not.

    >>> reference = [Interval(0.0, 0.5, "hello"), Interval(0.5, 1.0, "world")]
    >>> hypothesis = [Interval(0.02, 0.5, "Hello,"), Interval(0.5, 0.96, "world.")]
    >>> evaluation = evaluate_intervals([("a", hypothesis, reference)])
    >>> evaluation.both.mae_ms, evaluation.onset.median_signed_ms, evaluation.offset.within_ms[25]
    (15.0, 10.0, 50.0)
    """
    readings = [
        (name, Reading({"": tuple(hypothesis)}), Reading({"": tuple(reference)}))
        for name, hypothesis, reference in utterances
    ]
    return _evaluation(readings, parse_tier(tier), options or Options(), **about_files)


def _by_speaker(name: str, ours: Reading, theirs: Reading) -> list[tuple[str, Reading, Reading]]:
    """Speakers that both sides know are utterances of their own, because they may speak at once."""
    if len(ours.speakers) < 2 or ours.speakers.keys() != theirs.speakers.keys():
        return [(name, ours, theirs)]
    return [
        (
            f"{name} ({speaker})",
            Reading({speaker: row}, ours.duration_s, ours.is_ours),
            Reading({speaker: theirs.speakers[speaker]}, theirs.duration_s, theirs.is_ours),
        )
        for speaker, row in ours.speakers.items()
    ]


def _evaluation(
    readings: Sequence[tuple[str, Reading, Reading]], tier: str, options: Options, **about_files: Any
) -> Evaluation:
    facts, rows = [], []
    same_label = _as_it_is if tier == PHONES else normalised_label
    for name, ours, theirs in readings:
        hypothesis = spoken(ours.intervals, tier, options.labels)
        reference = spoken(theirs.intervals, tier, options.labels)
        pairing = pair_intervals(hypothesis, reference, same_label)
        durations_s = (ours.duration_s, theirs.duration_s)
        facts.append(Facts(name, pairing, durations_s, (ours.is_ours, theirs.is_ours)))
        rows.append(counts(hypothesis, reference, options.tolerance_ms))
    totals = np.array(rows, dtype=np.int64).reshape(len(rows), 4, 3)
    measured = Measured(tuple(fact.utterance for fact in facts), tuple(fact.pairing.pairs for fact in facts), totals)
    signed = measured.signed()
    samples = resampled(signed, totals, options.resamples, options.seed) if len(facts) > 1 else {}
    both, onset, offset = (
        edge_errors(errors.ms.tolist(), intervals(samples.get(edge, {}))) for edge, errors in signed.items()
    )
    return Evaluation(
        tier,
        both,
        onset,
        offset,
        paired=sum(len(fact.pairing.pairs) for fact in facts),
        missing=sum(len(fact.pairing.missing) for fact in facts),
        extra=sum(len(fact.pairing.extra) for fact in facts),
        mismatched=sum(fact.mismatched for fact in facts),
        utterances=tuple(_utterance_errors(fact.utterance, fact.pairing) for fact in facts),
        boundaries=detections(totals, samples),
        options=options,
        doubts=doubts(facts) + _unused_map(readings, options),
        measured=measured,
        **about_files,
    )


def _unused_map(readings: Sequence[tuple[str, Reading, Reading]], options: Options) -> tuple[str, ...]:
    if options.labels is None:
        return ()
    rows = (interval for _, ours, theirs in readings for side in (ours, theirs) for interval in side.intervals)
    return () if is_used(options.labels, rows) else ("no label of either side is in the map: is it the right one?",)


def _as_it_is(label: str) -> str:
    return label


def onset_ms(pair: Pair) -> float:
    """Error of the start, hypothesis minus reference."""
    return round(seconds_to_ms(pair.hypothesis.start_s - pair.reference.start_s), _DECIMALS)


def offset_ms(pair: Pair) -> float:
    """Error of the end, likewise."""
    return round(seconds_to_ms(pair.hypothesis.end_s - pair.reference.end_s), _DECIMALS)


def _edges(name: str, pair: Pair) -> tuple[WorstEdge, WorstEdge]:
    ours, theirs = pair.hypothesis, pair.reference
    return (
        WorstEdge(name, theirs.label, "onset", theirs.start_s, ours.start_s, onset_ms(pair)),
        WorstEdge(name, theirs.label, "offset", theirs.end_s, ours.end_s, offset_ms(pair)),
    )


def _utterance_errors(name: str, pairing: Pairing) -> UtteranceErrors:
    errors = [(edge(pair), pair.reference.label) for pair in pairing.pairs for edge in (onset_ms, offset_ms)]
    worst_ms, worst_label = max(errors, key=lambda error: abs(error[0]), default=(None, ""))
    return UtteranceErrors(
        utterance=name,
        paired=len(pairing.pairs),
        missing=len(pairing.missing),
        extra=len(pairing.extra),
        mismatched=sum(pair.mismatch for pair in pairing.pairs),
        mae_ms=fmean(abs(error) for error, _ in errors) if errors else None,
        worst_ms=worst_ms,
        worst_label=worst_label,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def rounded(value: Any) -> Any:
    """Numbers with three decimals, all the way down; keys are strings, tuples lists."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value
