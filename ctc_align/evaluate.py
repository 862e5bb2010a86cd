"""Boundary error of alignments against reference alignments, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ctc_align.errors import InputError, UsageError
from ctc_align.pairing import PHONE_SILENCES, SILENCES, Pair, Pairing, broad_phones, pair_intervals
from ctc_align.textgrid import Interval, read_textgrid
from ctc_align.units import seconds_to_ms
from ctc_align.writers.json_writer import read_object

TIERS = ("words", "phones")
WITHIN_MS = (10, 20, 25, 50, 100)
_TIER_NAMES = {"words": ("words", "word"), "phones": ("phones", "tokens", "phone")}
_NOT_ALIGNMENTS = frozenset({"summary.json"})
_ROUNDING_MS = 1e-6


@dataclass(frozen=True)
class EdgeErrors:
    """Statistics of signed errors, hypothesis minus reference, in ms; None where nothing was paired."""

    count: int
    mae_ms: float | None
    median_abs_ms: float | None
    median_signed_ms: float | None
    mean_signed_ms: float | None
    within_ms: dict[int, float | None]
    """Percent of the edges whose error is at most so many ms."""


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
    missing_files: tuple[str, ...] = ()
    """References without a hypothesis."""
    extra_files: tuple[str, ...] = ()
    """Hypotheses without a reference."""
    failures: tuple[tuple[str, str], ...] = ()
    """Utterances that could not be read, each with the reason."""

    @property
    def complete(self) -> bool:
        """Every reference has a hypothesis, and all could be read."""
        return not (self.missing_files or self.failures)

    def worst(self, count: int = 5) -> list[UtteranceErrors]:
        """The utterances with the largest mean error, worst first."""
        ranked = [utterance for utterance in self.utterances if utterance.mae_ms is not None]
        return sorted(ranked, key=lambda utterance: -(utterance.mae_ms or 0.0))[:count]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and finite numbers or None; numbers in ms have three decimals."""
        return _rounded(asdict(self))


def evaluate(hypothesis: str | Path, reference: str | Path, tier: str = "words") -> Evaluation:
    """Measure `hypothesis` against `reference`: two files or two folders of TextGrids or ctc-align JSON.

    Files in folders meet by their path without extension; where one folder is flat, by the end of that path if only
    one file fits. Intervals pair by order (see `ctc_align.pairing`), silences are left out.

    Args:
        hypothesis, reference: paths; a folder is searched with all its subfolders.
        tier: "words" or "phones" ("tokens" of a hypothesis serve as phones).

    Raises:
        UsageError: no such path, a file against a folder, a folder without alignments, an unknown tier.
        InputError: one of two *files* cannot be read (in folders it is among `failures`).
    """
    if tier not in TIERS:
        raise UsageError(f"expected the tier {' or '.join(TIERS)}, met {tier!r}")
    hypothesis, reference = Path(hypothesis), Path(reference)
    for path, role in ((hypothesis, "hypothesis"), (reference, "reference")):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder (the {role})")
    if hypothesis.is_dir() != reference.is_dir():
        raise UsageError(f"expected two files or two folders, met {hypothesis} and {reference}")
    if not reference.is_dir():
        name = reference.with_suffix("").name
        rows = (name, read_intervals(hypothesis, tier), read_intervals(reference, tier))
        return evaluate_intervals([rows], tier)
    matches, missing_files, extra_files = _matched(_alignment_files(hypothesis), _alignment_files(reference))
    utterances, failures = [], []
    for name, ours, theirs in matches:
        try:
            utterances.append((name, read_intervals(ours, tier), read_intervals(theirs, tier)))
        except InputError as error:
            failures.append((name, str(error)))
    return evaluate_intervals(
        utterances, tier, missing_files=missing_files, extra_files=extra_files, failures=tuple(failures)
    )


def evaluate_intervals(
    utterances: Iterable[tuple[str, Sequence[Interval], Sequence[Interval]]], tier: str = "words", **about_files: Any
) -> Evaluation:
    """Measure intervals in memory: (utterance, hypothesis, reference) triples, silences left out or not.

    >>> reference = [Interval(0.0, 0.5, "hello"), Interval(0.5, 1.0, "world")]
    >>> hypothesis = [Interval(0.02, 0.5, "Hello,"), Interval(0.5, 0.96, "world.")]
    >>> evaluation = evaluate_intervals([("a", hypothesis, reference)])
    >>> evaluation.both.mae_ms, evaluation.onset.median_signed_ms, evaluation.offset.within_ms[25]
    (15.0, 10.0, 50.0)
    """
    results: list[UtteranceErrors] = []
    onsets: list[float] = []
    offsets: list[float] = []
    for name, hypothesis, reference in utterances:
        pairing = pair_intervals(_spoken(hypothesis, tier), _spoken(reference, tier))
        results.append(_utterance_errors(name, pairing))
        onsets += [_onset_ms(pair) for pair in pairing.pairs]
        offsets += [_offset_ms(pair) for pair in pairing.pairs]
    return Evaluation(
        tier=tier,
        both=_edge_errors(onsets + offsets),
        onset=_edge_errors(onsets),
        offset=_edge_errors(offsets),
        paired=sum(result.paired for result in results),
        missing=sum(result.missing for result in results),
        extra=sum(result.extra for result in results),
        mismatched=sum(result.mismatched for result in results),
        utterances=tuple(results),
        **about_files,
    )


def read_intervals(path: str | Path, tier: str = "words") -> list[Interval]:
    """The intervals of one tier of a TextGrid or of a ctc-align JSON file, times as they stand there.

    Raises:
        InputError: the file cannot be read or has no such tier.
    """
    path = Path(path)
    if path.suffix.casefold() == ".json":
        return _json_intervals(path, tier)
    tiers = read_textgrid(path).tiers
    for wanted in _TIER_NAMES[tier]:
        for candidate in tiers:
            name = candidate.name.strip().casefold()
            if name == wanted or name.endswith(f" - {wanted}"):
                return list(candidate.intervals)
    names = ", ".join(candidate.name for candidate in tiers) or "none"
    raise InputError(f"{path}: expected an interval tier named {' or '.join(_TIER_NAMES[tier])}, met: {names}")


def _json_intervals(path: Path, tier: str) -> list[Interval]:
    data = read_object(path, parse_constant=_no_number)
    try:
        words = [word for word in data["words"] if word["start_s"] is not None]
        if tier == "words":
            return [Interval(float(word["start_s"]), float(word["end_s"]), str(word["text"])) for word in words]
        tokens = [token for word in words for token in word["tokens"]]
        return [Interval(float(token["start_s"]), float(token["end_s"]), str(token["token"])) for token in tokens]
    except KeyError as error:
        raise InputError(f"{path}: an alignment without its {error}") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected words and tokens with times in seconds: {error}") from error


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _alignment_files(folder: Path) -> dict[str, Path]:
    """Alignments under `folder` by their relative path without extension; JSON before TextGrid of the same name."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        extension = path.suffix.casefold()
        if extension not in (".json", ".textgrid") or path.name in _NOT_ALIGNMENTS or not path.is_file():
            continue
        name = path.relative_to(folder).with_suffix("").as_posix()
        if extension == ".json" or name not in found:
            found[name] = path
    if not found:
        raise UsageError(f"{folder}: expected .TextGrid or .json alignments in this folder, met none")
    return found


def _matched(
    ours: dict[str, Path], theirs: dict[str, Path]
) -> tuple[list[tuple[str, Path, Path]], tuple[str, ...], tuple[str, ...]]:
    """(name, hypothesis, reference) triples, names of references without hypothesis, and of hypotheses without."""
    partner = {name: name for name in theirs if name in ours}
    spare = [name for name in ours if name not in theirs]
    lonely = [name for name in theirs if name not in ours]
    for name in lonely:
        fits = [other for other in spare if _one_ends_the_other(name, other)]
        if len(fits) == 1 and sum(_one_ends_the_other(other, fits[0]) for other in lonely) == 1:
            partner[name] = fits[0]
    matches = [(name, ours[partner[name]], theirs[name]) for name in theirs if name in partner]
    used = set(partner.values())
    missing = tuple(name for name in theirs if name not in partner)
    return matches, missing, tuple(name for name in ours if name not in used)


def _one_ends_the_other(left: str, right: str) -> bool:
    return left.endswith(f"/{right}") or right.endswith(f"/{left}")


def _spoken(intervals: Sequence[Interval], tier: str) -> list[Interval]:
    silences = SILENCES
    if tier == "phones":
        intervals, silences = broad_phones(intervals), PHONE_SILENCES
    return [interval for interval in intervals if interval.label.strip().casefold() not in silences]


def _onset_ms(pair: Pair) -> float:
    return round(seconds_to_ms(pair.hypothesis.start_s - pair.reference.start_s), 6)


def _offset_ms(pair: Pair) -> float:
    return round(seconds_to_ms(pair.hypothesis.end_s - pair.reference.end_s), 6)


def _edge_errors(signed_ms: Sequence[float]) -> EdgeErrors:
    absolute = [abs(error) for error in signed_ms]

    def over(statistic: Callable[[Iterable[float]], float], values: Sequence[float]) -> float | None:
        return statistic(values) if values else None

    within = {
        limit: over(lambda values: 100.0 * fmean(values), [float(error <= limit + _ROUNDING_MS) for error in absolute])
        for limit in WITHIN_MS
    }
    return EdgeErrors(
        len(absolute),
        over(fmean, absolute),
        over(median, absolute),
        over(median, signed_ms),
        over(fmean, signed_ms),
        within,
    )


def _utterance_errors(name: str, pairing: Pairing) -> UtteranceErrors:
    errors = [(edge(pair), pair.reference.label) for pair in pairing.pairs for edge in (_onset_ms, _offset_ms)]
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


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
