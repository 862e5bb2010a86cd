"""Boundary errors of alignments against references, in milliseconds; differences, and plots.

Plots need matplotlib (the extra `plot`), and `occupancy_figure` also torch; both are imported when
a plot is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.errors import InputError, KernelError, MissingTierError, UsageError
from ctc_align.evaluate.corrected_labels import CORRECTIONS, OUTPUT
from ctc_align.evaluate.error_statistics import (
    EDGES,
    KINDS,
    RATES,
    Detection,
    EdgeErrors,
    SignedErrors,
    confidence_intervals,
    counts,
    detections,
    edge_errors,
    resample_units,
    resampled,
)
from ctc_align.evaluate.pairing import (
    PHONES,
    WITHIN_MS,
    Options,
    Pair,
    Pairing,
    compared_intervals,
    is_used,
    normalised_label,
    pair_intervals,
    parse_tier,
)
from ctc_align.evaluate.sanity_checks import find_doubts
from ctc_align.evaluate.utterance_files import (
    UtteranceTier,
    check_paths,
    match_utterances,
    open_source,
)
from ctc_align.files.corrections import original_of
from ctc_align.types import Interval
from ctc_align.units import seconds_to_ms
from ctc_align.view import check_plotting

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

_DECIMALS = 6
FIGURES = (
    "mae_ms",
    "median_abs_ms",
    "median_signed_ms",
    "mean_signed_ms",
    *(f"within_{limit}_ms" for limit in WITHIN_MS),
)
_Side = tuple[dict[str, SignedErrors], np.ndarray, dict[str, dict[str, np.ndarray]]]


@dataclass(frozen=True)
class UtteranceErrors:
    """The errors of one utterance."""

    utterance: str
    paired: int
    missing: int
    extra: int
    mismatched: int
    mae_ms: float | None
    worst_ms: float | None
    """Signed error of the worst edge."""
    worst_label: str


@dataclass(frozen=True)
class WorstEdge:
    """One edge with a large error."""

    utterance: str
    label: str
    edge: str
    """"onset" or "offset"."""
    reference_s: float
    hypothesis_s: float
    error_ms: float


@dataclass(frozen=True)
class Evaluation:
    """Boundary errors of alignments.

    `missing` words are only in the reference, `extra` ones only in the hypothesis.
    """

    tier: str
    both: EdgeErrors
    onset: EdgeErrors
    offset: EdgeErrors
    paired: int
    missing: int
    extra: int
    mismatched: int
    """Number of pairs with different labels; their edges are measured too."""
    utterances: tuple[UtteranceErrors, ...]
    boundaries: dict[str, Detection] = field(default_factory=dict)
    """Precision, recall, F1 and R-value at the tolerance for each of `detection.KINDS`."""
    options: Options = field(default_factory=Options)
    missing_files: tuple[str, ...] = ()
    """References without a hypothesis."""
    extra_files: tuple[str, ...] = ()
    """Hypotheses without a reference."""
    failures: tuple[tuple[str, str], ...] = ()
    """(name, reason) of utterances that cannot be read."""
    doubts: tuple[str, ...] = ()
    """Reasons why these figures may be meaningless: different units, recordings or transcripts."""
    untouched: int = 0
    """Number of alignments that are both sides and have no corrections.

    They are not measured.
    """
    notes: tuple[str, ...] = ()
    """Which corrections are used, and which are not."""
    pairings: tuple[Pairing, ...] = field(default=(), repr=False, compare=False)
    """The pairs of each utterance, from which the figures of edges are computed."""
    counts: np.ndarray = field(
        default_factory=lambda: np.zeros((0, len(KINDS), 3), int), repr=False, compare=False
    )
    """(U, len(KINDS), 3): `error_statistics.counts`, from which those of boundaries are."""

    @property
    def complete(self) -> bool:
        """True if every reference has a hypothesis and all can be read."""
        return not (self.missing_files or self.failures)

    def signed(self) -> dict[str, SignedErrors]:
        """Return the errors of both edges, of onsets and of offsets."""
        return signed_errors([pairing.pairs for pairing in self.pairings])

    def worst(self, count: int = 5) -> list[UtteranceErrors]:
        """Return the utterances with the largest mean error, worst first."""
        ranked = [utterance for utterance in self.utterances if utterance.mae_ms is not None]
        return sorted(ranked, key=lambda utterance: -(utterance.mae_ms or 0.0))[:count]

    def worst_edges(self, count: int = 5) -> list[WorstEdge]:
        """Return the edges with the largest error, worst first."""
        edges = [
            edge
            for pairing in self.pairings
            for pair in pairing.pairs
            for edge in _edges(pairing.utterance, pair)
        ]
        return sorted(edges, key=lambda edge: -abs(edge.error_ms))[:count]

    def to_dict(self, worst: int = 5) -> dict[str, Any]:
        """Return plain dicts, lists, texts, and numbers with three decimals or None."""
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("pairings", "counts", "options")
        }
        values["settings"] = {
            name: getattr(self.options, name)
            for name in ("tolerance_ms", "resamples", "seed", "interval_by")
        }
        return plain({**values, "worst_edges": self.worst_edges(worst)})


def evaluate(
    hypothesis: str | Path,
    reference: str | Path,
    tier: str = "words",
    options: Options | None = None,
) -> Evaluation:
    """Measure `hypothesis` against `reference`.

    Both are files or folders of TextGrids, JSON, CTM and TIMIT's labels.

    Files in folders match by their path without extension; if one folder is flat, by the end of the
    path, provided that only one file fits. CTM with several utterances, and shards of JSON, count
    as folders. Intervals pair by order (see `pairing`), silences are left out, stop closures merge
    (see `comparable_labels`).

    Args:
        hypothesis: its path; of JSON, what the program made is measured, without corrections in it.
        reference: its path; JSON is read with its corrections, also those in files of labels that
            were written with it. Folders are searched with all their subfolders.
        tier: "words" or "phones" ("tokens" of a hypothesis serve as phones).
        options: tolerance, resamples, map of labels, names of tiers.

    Raises:
        UsageError: a path does not exist, one is a file and the other a folder, a folder has no
            alignments, the tier is unknown, or the reference is the hypothesis, and nothing in it
            is corrected.
        MissingTierError: none of the files has the tier.
        InputError: one of two *files* cannot be read (those in folders are among `failures`).
    """
    tier = parse_tier(tier)
    options = options or Options()
    hypothesis, reference = Path(hypothesis), Path(reference)
    check_paths(hypothesis, reference)
    encoding = options.encoding
    ours = open_source(hypothesis, tier, options.hypothesis_tier, OUTPUT, encoding)
    theirs = open_source(reference, tier, options.reference_tier, CORRECTIONS, encoding)
    triples, missing, extra = match_utterances(ours, theirs)
    found = _Comparable(failures=[*ours.failures, *theirs.failures])
    for name, read_ours, read_theirs in triples:
        try:
            found.add(name, read_ours(), read_theirs())
        except InputError as error:
            if ours.is_alone and theirs.is_alone:
                raise
            found.fail(name, error)
    found.check_tier(tier)
    if found.untouched and not found.utterances and not found.failures:
        raise UsageError(_no_corrections(hypothesis, reference, found.untouched, found.notes))
    return replace(
        _make_evaluation(found.utterances, tier, options),
        untouched=found.untouched,
        notes=tuple(found.notes),
        missing_files=tuple(name for name in missing if name not in dict(ours.failures)),
        extra_files=tuple(name for name in extra if name not in dict(theirs.failures)),
        failures=tuple(found.failures),
    )


@dataclass
class _Comparable:
    """The utterances of both sides that can be compared, and why others cannot."""

    failures: list[tuple[str, str]]
    utterances: list[tuple[str, UtteranceTier, UtteranceTier]] = field(default_factory=list)
    without_tier: list[MissingTierError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    untouched: int = 0

    def add(self, name: str, output: UtteranceTier, labels: UtteranceTier) -> None:
        """Add an utterance, or count it if the reference is the hypothesis, uncorrected."""
        self.notes += dict.fromkeys((*output.notes, *labels.notes))
        if _is_same(output, labels):
            self.untouched += 1
        else:
            self.utterances += _merge_by_speaker(name, output, labels)

    def fail(self, name: str, error: InputError) -> None:
        """Add an utterance that cannot be read."""
        self.failures.append((name, str(error)))
        if isinstance(error, MissingTierError):
            self.without_tier.append(error)

    def check_tier(self, tier: str) -> None:
        """Raise MissingTierError if all files lack the tier."""
        count = len(self.without_tier)
        if not count or self.utterances or count < len(self.failures):
            return
        others = f" ({count} files lack it)" if count > 1 else ""
        raise MissingTierError(
            f"{self.without_tier[0]}{others}; --tier {tier}=NAME takes the name or number of a tier"
        )


def evaluate_intervals(
    utterances: Iterable[tuple[str, Sequence[Interval], Sequence[Interval]]],
    tier: str = "words",
    options: Options | None = None,
) -> Evaluation:
    """Measure (utterance, hypothesis, reference) triples of intervals in memory.

    The intervals may include silences.

    >>> reference = [Interval(0.0, 0.5, "hello"), Interval(0.5, 1.0, "world")]
    >>> hypothesis = [Interval(0.02, 0.5, "Hello,"), Interval(0.5, 0.96, "world.")]
    >>> evaluation = evaluate_intervals([("a", hypothesis, reference)])
    >>> evaluation.both.mae_ms, evaluation.onset.median_signed_ms, evaluation.offset.within_ms[25]
    (15.0, 10.0, 50.0)
    """
    tiers = [
        (name, UtteranceTier({"": tuple(hypothesis)}), UtteranceTier({"": tuple(reference)}))
        for name, hypothesis, reference in utterances
    ]
    return _make_evaluation(tiers, parse_tier(tier), options or Options())


def _no_corrections(hypothesis: Path, reference: Path, untouched: int, notes: Sequence[str]) -> str:
    """Return the message for a reference that is the hypothesis; the first note may say why."""
    why = f"; {notes[0]}" if notes else ""
    return (
        f"{reference}: expected a person's labels as the reference, got the program's own output,"
        f" the same as {hypothesis}: none of its {untouched} alignments is corrected{why}"
    )


def _is_same(output: UtteranceTier, labels: UtteranceTier) -> bool:
    """Return whether both sides are one alignment of ctc-align that nobody has corrected.

    It may be in one file, or in two that belong together.
    """
    if output.path is None or labels.path is None or not labels.is_ours:
        return False
    return os.path.realpath(original_of(output.path)) == os.path.realpath(original_of(labels.path))


def _merge_by_speaker(
    name: str, ours: UtteranceTier, theirs: UtteranceTier
) -> list[tuple[str, UtteranceTier, UtteranceTier]]:
    """Return an utterance for each speaker if both sides have the same ones: they may overlap."""
    if len(ours.speakers) < 2 or ours.speakers.keys() != theirs.speakers.keys():
        return [(name, ours, theirs)]
    return [
        (
            f"{name} ({speaker})",
            replace(ours, speakers={speaker: row}),
            replace(theirs, speakers={speaker: theirs.speakers[speaker]}),
        )
        for speaker, row in ours.speakers.items()
    ]


def _make_evaluation(
    utterances: Sequence[tuple[str, UtteranceTier, UtteranceTier]], tier: str, options: Options
) -> Evaluation:
    pairings, rows = [], []
    normalised = str if tier == PHONES else normalised_label
    for name, ours, theirs in utterances:
        hypothesis = compared_intervals(ours.intervals, tier, options.labels)
        reference = compared_intervals(theirs.intervals, tier, options.labels)
        pairing = replace(
            pair_intervals(hypothesis, reference, normalised),
            utterance=name,
            durations_s=(ours.duration_s, theirs.duration_s),
            ours=(ours.is_ours or ours.is_corrected, theirs.is_ours),
        )
        pairings.append(pairing)
        rows.append(counts(hypothesis, reference, options.tolerance_ms))
    totals = np.array(rows, dtype=np.int64).reshape(len(rows), 4, 3)
    signed = signed_errors([pairing.pairs for pairing in pairings])
    units = resample_units([pairing.utterance for pairing in pairings], options.interval_by)
    samples = resampled(signed, totals, units, options.resamples, options.seed)
    both, onset, offset = (
        edge_errors(errors.ms.tolist(), confidence_intervals(samples.get(edge, {})))
        for edge, errors in signed.items()
    )
    return Evaluation(
        tier,
        both,
        onset,
        offset,
        paired=sum(len(pairing.pairs) for pairing in pairings),
        missing=sum(len(pairing.missing) for pairing in pairings),
        extra=sum(len(pairing.extra) for pairing in pairings),
        mismatched=sum(pairing.mismatched for pairing in pairings),
        utterances=tuple(map(_utterance_errors, pairings)),
        boundaries=detections(totals, samples),
        options=options,
        doubts=find_doubts(pairings) + _unused_map(utterances, options),
        pairings=tuple(pairings),
        counts=totals,
    )


def _unused_map(
    utterances: Sequence[tuple[str, UtteranceTier, UtteranceTier]], options: Options
) -> tuple[str, ...]:
    if options.labels is None:
        return ()
    rows = (
        interval
        for _, ours, theirs in utterances
        for side in (ours, theirs)
        for interval in side.intervals
    )
    if is_used(options.labels, rows):
        return ()
    return ("no label of either side is in the map: is it the right one?",)


def signed_errors(rows: Sequence[Sequence[Pair]]) -> dict[str, SignedErrors]:
    """Return for the pairs of each utterance the errors of both edges, of onsets and of offsets."""
    utterance = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    onset = SignedErrors(
        np.array([onset_ms(pair) for row in rows for pair in row], float), utterance
    )
    offset = SignedErrors(
        np.array([offset_ms(pair) for row in rows for pair in row], float), utterance
    )
    return {"both": onset.joined(offset), "onset": onset, "offset": offset}


def onset_ms(pair: Pair) -> float:
    """Return the error of the start, hypothesis minus reference."""
    return round(seconds_to_ms(pair.hypothesis.start_s - pair.reference.start_s), _DECIMALS)


def offset_ms(pair: Pair) -> float:
    """Return the error of the end, hypothesis minus reference."""
    return round(seconds_to_ms(pair.hypothesis.end_s - pair.reference.end_s), _DECIMALS)


def _edges(name: str, pair: Pair) -> tuple[WorstEdge, WorstEdge]:
    ours, theirs = pair.hypothesis, pair.reference
    return (
        WorstEdge(name, theirs.label, "onset", theirs.start_s, ours.start_s, onset_ms(pair)),
        WorstEdge(name, theirs.label, "offset", theirs.end_s, ours.end_s, offset_ms(pair)),
    )


def _utterance_errors(pairing: Pairing) -> UtteranceErrors:
    errors = [
        (edge(pair), pair.reference.label)
        for pair in pairing.pairs
        for edge in (onset_ms, offset_ms)
    ]
    worst_ms, worst_label = max(errors, key=lambda error: abs(error[0]), default=(None, ""))
    return UtteranceErrors(
        utterance=pairing.utterance,
        paired=len(pairing.pairs),
        missing=len(pairing.missing),
        extra=len(pairing.extra),
        mismatched=pairing.mismatched,
        mae_ms=fmean(abs(error) for error, _ in errors) if errors else None,
        worst_ms=worst_ms,
        worst_label=worst_label,
    )


def plain(value: Any) -> Any:
    """Return plain dicts with string keys, lists, strings and numbers with three decimals."""
    if isinstance(value, float):
        return round(value, 3)
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@dataclass(frozen=True)
class Difference:
    """One figure of both sides, and their difference (first minus second) with its interval.

    With one utterance the interval is None.
    """

    hypothesis: float | None
    against: float | None
    difference: float | None
    ci95: tuple[float, float] | None = None

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes zero."""
        return self.ci95 is not None and not self.ci95[0] <= 0.0 <= self.ci95[1]


@dataclass(frozen=True)
class Comparison:
    """The paired difference of two evaluations, on the words that both paired."""

    tier: str
    utterances: int
    paired: int
    """Number of words (or phones) of the reference that both paired.

    Only these have errors in ms.
    """
    left_out: int
    """Number of words that only one of them paired."""
    only_one: tuple[str, ...]
    """Utterances that only one of them has; they are ignored."""
    edges: dict[str, dict[str, Difference]]
    """Each figure for "both", "onset" and "offset"."""
    boundaries: dict[str, dict[str, Difference]]
    """The rates for each kind of boundary (see `detection`).

    They are over all boundaries of the common utterances.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and finite numbers or None."""
        return plain(vars(self))


def compare(hypothesis: Evaluation, against: Evaluation) -> Comparison:
    """Return `hypothesis` minus `against`, both measured by the same reference.

    Negative differences mean smaller errors of `hypothesis`.

    Both have the same resamples of utterances, so that what makes an utterance hard for both
    cancels out.

    Raises:
        InputError: they have no utterance, or no word of the reference, in common; or their tiers
            or tolerances differ.
    """
    if hypothesis.tier != against.tier:
        raise InputError(
            f"expected two evaluations of one tier, got {hypothesis.tier} and {against.tier}"
        )
    if hypothesis.options.tolerance_ms != against.options.tolerance_ms:
        raise InputError("expected two evaluations with the same tolerance")
    left, right = _numbers(hypothesis), _numbers(against)
    names = [name for name in left if name in right]
    rows = [
        _find_common_pairs(
            hypothesis.pairings[left[name]].pairs, against.pairings[right[name]].pairs
        )
        for name in names
    ]
    paired = sum(len(kept) for kept, _, _ in rows)
    if not paired:
        raise InputError(
            "the two hypotheses have no word of the reference in common: are they of the same"
            " recordings?"
        )
    units = resample_units(names, hypothesis.options.interval_by)
    sides: list[_Side] = []
    for evaluation, numbers, chosen in (
        (hypothesis, left, [kept for kept, _, _ in rows]),
        (against, right, [kept for _, kept, _ in rows]),
    ):
        signed = signed_errors(chosen)
        counts = evaluation.counts[[numbers[name] for name in names]]
        sides.append(
            (
                signed,
                counts,
                resampled(
                    signed, counts, units, hypothesis.options.resamples, hypothesis.options.seed
                ),
            )
        )
    return Comparison(
        tier=hypothesis.tier,
        utterances=len(names),
        paired=paired,
        left_out=sum(left_out for _, _, left_out in rows),
        only_one=tuple(name for name in {**left, **right} if not (name in left and name in right)),
        edges={edge: _edge_differences(edge, sides) for edge in EDGES},
        boundaries={kind: _rate_differences(kind, sides) for kind in KINDS},
    )


def _numbers(evaluation: Evaluation) -> dict[str, int]:
    return {pairing.utterance: number for number, pairing in enumerate(evaluation.pairings)}


def _spans(row: Sequence[Pair]) -> list[tuple[float, float]]:
    return [(pair.reference.start_s, pair.reference.end_s) for pair in row]


def _find_common_pairs(
    left: Sequence[Pair], right: Sequence[Pair]
) -> tuple[list[Pair], list[Pair], int]:
    """Return the pairs of both with the same reference interval, and how many only one has."""
    both = set(_spans(left)) & set(_spans(right))
    either = set(_spans(left)) | set(_spans(right))
    kept = [[pair for pair, span in zip(row, _spans(row)) if span in both] for row in (left, right)]
    return kept[0], kept[1], len(either) - len(both)


def _edge_differences(edge: str, sides: Sequence[_Side]) -> dict[str, Difference]:
    points = [_flatten(edge_errors(signed[edge].ms.tolist())) for signed, _, _ in sides]
    return {
        figure: _difference(figure, points, [samples.get(edge, {}) for _, _, samples in sides])
        for figure in FIGURES
    }


def _rate_differences(kind: str, sides: Sequence[_Side]) -> dict[str, Difference]:
    points = [vars(detections(counts)[kind]) for _, counts, _ in sides]
    samples = [side[2].get(f"boundaries {kind}", {}) for side in sides]
    return {rate: _difference(rate, points, samples) for rate in RATES}


def _flatten(errors: EdgeErrors) -> dict[str, float | None]:
    return {
        **vars(errors),
        **{f"within_{limit}_ms": percent for limit, percent in errors.within_ms.items()},
    }


def _difference(
    figure: str, points: Sequence[dict[str, float | None]], samples: Sequence[dict[str, np.ndarray]]
) -> Difference:
    ours, theirs = (point[figure] for point in points)
    if ours is None or theirs is None:
        return Difference(ours, theirs, None)
    if any(figure not in figures for figures in samples):
        return Difference(ours, theirs, ours - theirs)
    ci95 = confidence_intervals({figure: samples[0][figure] - samples[1][figure]}).get(figure)
    return Difference(ours, theirs, ours - theirs, ci95)


MOST_TICKS = 60
"""Limit of the row labels of a figure."""
_REACH_MS, _BIN_MS = 100, 5
_ROW_INCHES, _WIDTH_INCHES = 3.6, 11.0


def error_figure(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Draw for each evaluation a histogram of signed errors and the share of edges within a limit.

    Bins are 5 ms wide and include their lower edge; errors beyond ±100 ms are counted in the legend
    only.

    Args:
        evaluations: by title, such as the tier or the name of the hypothesis.

    Returns:
        A matplotlib figure without a window: `figure.savefig("errors.png")`; notebooks display it.

    Raises:
        UsageError: matplotlib is not installed.
    """
    check_plotting()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _ROW_INCHES * len(evaluations)), layout="constrained")
    panels = figure.subplots(len(evaluations), 2, squeeze=False)
    edges = np.arange(-_REACH_MS, _REACH_MS + _BIN_MS, _BIN_MS)
    for (left, right), (title, evaluation) in zip(panels, evaluations.items()):
        signed = evaluation.signed()
        for edge in ("onset", "offset"):
            ms = signed[edge].ms
            if len(ms):
                beyond = float(np.mean((ms < edges[0]) | (ms >= edges[-1])))
            else:
                beyond = 0.0
            # numpy's last bin includes its upper edge
            counts, _ = np.histogram(ms[ms < edges[-1]], edges)
            percent = 100 * counts / max(1, len(ms))
            left.stairs(
                percent, edges, label=f"{edge} ({100 * beyond:.1f} % beyond)", linewidth=1.5
            )
            absolute = np.sort(np.abs(ms))
            reached = 100 * np.arange(1, len(absolute) + 1) / max(1, len(absolute))
            right.step(absolute, reached, where="post", label=edge, linewidth=1.5)
        mae = evaluation.both.mae_ms
        left.set_title(
            f"{title}: mean absolute error {'–' if mae is None else f'{mae:.1f}'} ms", loc="left"
        )
        left.axvline(0.0, color="grey", linewidth=0.8)
        left.set(
            xlabel="hypothesis minus reference, ms",
            ylabel="% of edges",
            xlim=(-_REACH_MS, _REACH_MS),
        )
        right.set(
            xlabel="absolute error, ms",
            ylabel="% of edges within",
            xlim=(0, _REACH_MS),
            ylim=(0, 100),
        )
        right.set_xticks(WITHIN_MS)
        right.grid(alpha=0.4)
        left.legend(frameon=False)
        right.legend(frameon=False, loc="lower right")
    return figure


def occupancy_figure(
    log_probs: torch.Tensor,
    target: torch.Tensor | np.ndarray | Sequence[int],
    blank: int = 0,
    *,
    labels: Sequence[str] | None = None,
    frame_shift_s: float | None = None,
) -> Figure:
    """Draw each class's posterior given the transcript, and the best (Viterbi) path, over time.

    Rows are the blank and the classes of the transcript as they first appear; a repeated class is
    one row.

    Args:
        log_probs: (T, C) of one utterance, natural log; needs no gradient.
        target: (L,) token ids, a tensor, an array or a list.
        blank: the class of the blank.
        labels: (C,) a name for each class; None: its number.
        frame_shift_s: seconds from frame to frame; None: time is in frames.

    Returns:
        A matplotlib figure without a window: `figure.savefig("soft.png")`; notebooks display it.

    Raises:
        UsageError: matplotlib is not installed.
        KernelError: the arguments do not match, or the target does not fit the log-probs.

    >>> import torch
    >>> log_probs = torch.randn(40, 5).log_softmax(1)
    >>> figure = occupancy_figure(log_probs, torch.tensor([1, 2, 2]), labels="-abcd")    # doctest: +SKIP
    >>> figure.savefig("soft.png")                                                       # doctest: +SKIP
    """
    check_plotting()
    from matplotlib.figure import Figure

    from ctc_align.ctc.arguments import as_targets

    ids = as_targets(target)
    panels = _panels(log_probs, ids, blank)
    classes = list(dict.fromkeys([blank, *ids.tolist()]))
    if labels is not None and len(labels) != log_probs.shape[1]:
        raise KernelError(
            f"labels: expected {log_probs.shape[1]}, one for each class, got {len(labels)}"
        )
    names = [str(k) if labels is None else labels[k] for k in classes]
    size = (min(6 + len(log_probs) / 50, 16), min(2 + len(names) / 3, 16))
    figure = Figure(figsize=size, layout="constrained")
    shown = {title: values[:, classes].T for title, values in panels.items()}
    _draw_panels(figure, shown, names, frame_shift_s)
    return figure


def _draw_panels(
    figure: Figure, panels: dict[str, np.ndarray], names: list[str], frame_shift_s: float | None
) -> None:
    """Draw panels (classes, T) below each other, with the names of the classes."""
    axes = figure.subplots(len(panels), 1, sharex=True, sharey=True)
    step = max(1, -(-len(names) // MOST_TICKS))
    for axis, (title, values) in zip(axes, panels.items()):
        image = axis.imshow(
            values,
            aspect="auto",
            extent=(0, values.shape[1] * (frame_shift_s or 1), len(names) - 0.5, -0.5),
            interpolation="nearest",
            cmap="Greys",
            vmin=0,
            vmax=1,
        )
        axis.set_title(title, loc="left")
        axis.set_yticks(range(0, len(names), step), names[::step])
    axes[-1].set_xlabel("frames" if frame_shift_s is None else "seconds")
    figure.colorbar(image, ax=axes, label="posterior")


def _panels(log_probs: torch.Tensor, target: torch.Tensor, blank: int) -> dict[str, np.ndarray]:
    """Return the values (T, C) of each panel by its title."""
    import torch

    from ctc_align import functional

    if not isinstance(log_probs, torch.Tensor) or log_probs.dim() != 2:
        if isinstance(log_probs, torch.Tensor):
            got = tuple(log_probs.shape)
        else:
            got = type(log_probs).__name__
        raise KernelError(f"log_probs: expected the log-probs of one utterance (T, C), got {got}")
    if target.dim() != 1:
        raise KernelError(
            f"target: expected the token ids of one utterance (L,), got {tuple(target.shape)}"
        )
    scores = log_probs.detach()
    lengths = ([len(log_probs)], [len(target)])
    paths, _ = functional.forced_align(scores[None], target[None], blank=blank)
    soft = functional.occupancy(scores, target, *lengths, blank)
    loss = functional.ctc_loss(scores, target, *lengths, blank, "sum").item()
    best = torch.nn.functional.one_hot(paths[0].long(), log_probs.shape[1])
    return {
        f"occupancy, over all paths (loss {loss:.2f})": soft.double().cpu().numpy(),
        "best path": best.cpu().numpy(),
    }
