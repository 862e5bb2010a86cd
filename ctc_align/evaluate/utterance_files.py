"""Utterances of alignment files and folders: one tier of each, matched with a reference."""

from __future__ import annotations

import codecs
import gzip
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ctc_align.errors import InputError, MissingTierError, UsageError
from ctc_align.evaluate.pairing import PHONES, WORDS, parse_tier
from ctc_align.files.corrections import latest_works, original_of
from ctc_align.files.formats import JSON_EXPORTS
from ctc_align.files.json_files import (
    alignment_fields,
    check_format,
    is_fixed,
    no_number,
    read_object,
)
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.writer import RECORDING
from ctc_align.reading import as_seconds, open_input, parse_json, shown
from ctc_align.types import AlignedWord, Alignment, Interval, Tier, aligned_words

TABLES = (".ctm", ".jsonl", ".jsonl.gz")
"""File name endings for files with many utterances."""
SAMPLE_LABELS = {".wrd": "words", ".phn": "phones"}
"""File name endings for TIMIT's labels, and the tier of each.

Their lines are "first_sample end_sample label".
"""
_SAMPLES_PER_S = 16000
_MOST_DIGITS = 12
_DECIMALS = 5
TIER_NAMES = {"words": ("words", "word"), "phones": ("phones", "tokens", "phone")}
NO_SPEAKER = ""
_MOST_LINE_BYTES = 2**28
"""An alignment of ten hours is a line of some 20 MB."""


@dataclass(frozen=True)
class UtteranceTier:
    """One tier of one utterance."""

    speakers: dict[str, tuple[Interval, ...]]
    """The intervals by speaker, from tier names such as "Ann - words"; "" without one."""
    duration_s: float | None = None
    """Length of the recording, if the file has it."""
    is_ours: bool = False
    """True if the file says that ctc-align made it, and no person has corrected it."""
    is_corrected: bool = False
    """True if ctc-align made it, and a person has corrected it."""
    notes: tuple[str, ...] = ()
    """Which corrections are used, and which are not."""
    path: Path | None = None
    """The JSON, or the table, that it was read from."""

    @property
    def intervals(self) -> list[Interval]:
        """The intervals of all speakers, in order of time."""
        rows = [interval for row in self.speakers.values() for interval in row]
        if len(self.speakers) == 1:
            return rows
        return sorted(rows, key=lambda interval: interval.start_s)


def is_table(path: Path) -> bool:
    """Return whether a file name is that of a table.

    >>> is_table(Path("a.JSONL.gz")), is_table(Path("a.json"))
    (True, False)
    """
    return path.name.casefold().endswith(TABLES)


def read_intervals(
    path: str | Path, tier: str = WORDS, name: str | None = None, encoding: str | None = None
) -> list[Interval]:
    """Read the intervals of one tier of a file with one utterance, times as in the file.

    Args:
        path: a TextGrid, ctc-align JSON, TIMIT's .WRD or .PHN, or CTM (its only tier, whatever
            `tier` is).
        tier: "words" or "phones" ("tokens" serve as phones).
        name: name or number (from 1) of the tier in a TextGrid; None: by the usual names, also
            after a speaker
            ("Ann - words"; tiers of several speakers are joined).
        encoding: of a TextGrid that is not UTF-8, as in `ctc_align.text.encodings.decode_text`.

    Raises:
        InputError: the file cannot be read, has no such tier, or holds several utterances.
    """
    path = Path(path)
    tier = parse_tier(tier)
    if not is_table(path):
        return read_one(path, tier, name, encoding).intervals
    utterances = read_table(path, tier)
    if len(utterances) != 1:
        raise InputError(f"{path}: expected one utterance, got {len(utterances)}")
    return next(iter(utterances.values())).intervals


def read_one(
    path: Path, tier: str, name: str | None = None, encoding: str | None = None
) -> UtteranceTier:
    """Read a TextGrid, a JSON of one utterance, or labels of TIMIT.

    Raises:
        MissingTierError: it has no such tier.
        InputError: as for `read_intervals`.
    """
    if path.suffix.casefold() == ".json":
        return _json_utterance(read_object(path), str(path), tier)
    if path.suffix.casefold() in SAMPLE_LABELS:
        return _sample_labels(path, tier)
    grid = read_textgrid(path, encoding)
    wanted = TIER_NAMES[tier] if name is None else (name.strip().casefold(),)
    speakers = named_tiers(grid.tiers, wanted)
    if not speakers and name is not None and name.isdecimal():
        speakers.update(
            (NO_SPEAKER, each.intervals) for each in grid.tiers if each.number == int(name)
        )
    if not speakers:
        tiers = ", ".join(f"{each.number} {each.name[:80]}" for each in grid.tiers[:30]) or "none"
        named = " or ".join(wanted) if name is None else repr(name)
        remedy = "rename it, or give evaluate --hypothesis-tier or --reference-tier NAME"
        raise MissingTierError(
            f"{path}: expected an interval tier named {named}, got: {tiers}; {remedy}"
        )
    return UtteranceTier(speakers, grid.end_s if grid.start_s == 0 else None)


def _sample_labels(path: Path, tier: str) -> UtteranceTier:
    """Read labels of TIMIT, whose times are samples at 16 kHz."""
    held = SAMPLE_LABELS[path.suffix.casefold()]
    if held != tier:
        raise MissingTierError(
            f"{path}: holds {held}, by its name, and no {tier}; give --tier {held}"
        )
    intervals = []
    for number, line in _lines(path):
        fields = line.split(maxsplit=2)
        if not fields:
            continue
        samples = [
            int(field) for field in fields[:2] if field.isdecimal() and len(field) <= _MOST_DIGITS
        ]
        if len(fields) < 3 or len(samples) < 2 or samples[0] > samples[1]:
            raise InputError(
                f"{path}:{number}: expected '<first sample> <end> <label>', got:"
                f" {line.strip()[:100]}"
            )
        start_s, end_s = (round(sample / _SAMPLES_PER_S, 6) for sample in samples)
        intervals.append(Interval(start_s, end_s, fields[2].strip()))
    return UtteranceTier({NO_SPEAKER: tuple(intervals)})


def named_tiers(tiers: Sequence[Tier], wanted: tuple[str, ...]) -> dict[str, tuple[Interval, ...]]:
    """Return the tiers of the first of `wanted` that exists, by speaker."""
    for name in wanted:
        speakers = {}
        for tier in tiers:
            folded = tier.name.strip().casefold()
            if folded == name:
                return {NO_SPEAKER: tier.intervals}
            if folded.endswith(f" - {name}"):
                speakers[folded.removesuffix(f" - {name}")] = tier.intervals
        if speakers:
            return speakers
    return {}


def read_table(path: Path, tier: str) -> dict[str, UtteranceTier]:
    """Read all utterances of a CTM, or of JSON with one alignment per line.

    Utterances with several channels become `utterance:channel`.

    Raises:
        InputError: the file cannot be read (with the line), is empty, or has an utterance twice.
    """
    name = path.name.casefold()
    if name.endswith(".ctm"):
        utterances = _ctm_utterances(path)
    else:
        utterances = _jsonl_utterances(path, tier)
    if not utterances:
        beside = path.with_name(
            path.name[: -len(".ctm")].removesuffix(".tokens").removesuffix(".phones") + ".json"
        )
        is_there = name.endswith(".ctm") and beside.is_file()
        if is_there:
            hint = f" (no word has times there); its alignment is in {beside}"
        else:
            hint = ""
        raise InputError(f"{path}: expected alignments, got an empty file{hint}")
    return {utterance: replace(found, path=path) for utterance, found in utterances.items()}


def _ctm_utterances(path: Path) -> dict[str, UtteranceTier]:
    rows: dict[tuple[str, str], list[Interval]] = {}
    ours = False
    for number, line in _lines(path):
        if line.startswith(";;"):
            ours = ours or " loss_per_token " in line
            continue
        fields = line.split()
        if not fields:
            continue
        try:
            utterance, channel, start_s, duration_s, label = fields[:5]
            _ = float(start_s), float(duration_s)
        except ValueError as error:
            raise InputError(
                f"{path}:{number}: expected '<utterance> <channel> <start> <duration> <label>',"
                f" got: {line.strip()[:100]}"
            ) from error
        try:
            start, duration = as_seconds(start_s), as_seconds(duration_s)
        except ValueError as error:
            raise InputError(
                f"{path}:{number}: expected a start and a duration in seconds, got {error}"
            ) from None
        if duration < 0:
            raise InputError(
                f"{path}:{number}: expected a start and a duration in seconds, got {start_s}"
                f" {duration_s}"
            )
        # rounded, so that a word's end equals the next one's start
        end_s = round(start + duration, 6)
        rows.setdefault((utterance, channel), []).append(Interval(start, end_s, label))
    channels: dict[str, int] = {}
    for utterance, _ in rows:
        channels[utterance] = channels.get(utterance, 0) + 1
    return {
        utterance if channels[utterance] == 1 else f"{utterance}:{channel}": UtteranceTier(
            {NO_SPEAKER: tuple(sorted(row, key=lambda interval: interval.start_s))}, is_ours=ours
        )
        for (utterance, channel), row in rows.items()
    }


def _jsonl_utterances(path: Path, tier: str) -> dict[str, UtteranceTier]:
    utterances: dict[str, UtteranceTier] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            data = parse_json(line, parse_constant=no_number)
        except ValueError as error:
            raise InputError(f"{where}: not JSON that can be read: {error}") from error
        check_format(data, where)
        utterance = data.get("utterance", "")
        if not isinstance(utterance, str) or not utterance or utterance in utterances:
            raise InputError(
                f"{where}: expected an utterance of its own name, got {shown(utterance)} again"
            )
        utterances[utterance] = _json_utterance(data, where, tier)
    return utterances


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, plain or gzipped, each of at most `_MOST_LINE_BYTES`."""
    try:
        with ExitStack() as stack:
            file: BinaryIO | gzip.GzipFile = stack.enter_context(open_input(path))
            if path.name.casefold().endswith(".gz"):
                file = stack.enter_context(gzip.GzipFile(fileobj=file, mode="rb"))
            offset = 0
            for number in itertools.count(1):
                data = file.readline(_MOST_LINE_BYTES)
                if not data:
                    return
                if len(data) == _MOST_LINE_BYTES:
                    raise InputError(
                        f"{path}:{number}: expected a line of at most {_MOST_LINE_BYTES >> 20} MiB"
                    )
                if number == 1:
                    text = data.removeprefix(codecs.BOM_UTF8)
                else:
                    text = data
                try:
                    yield number, text.decode("utf-8")
                except UnicodeDecodeError as error:
                    at = offset + error.start
                    raise InputError(
                        f"{path}: expected UTF-8, got {error.reason} at byte {at}"
                    ) from error
                offset += len(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not whole gzip data ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _json_utterance(data: dict[str, Any], where: str, tier: str) -> UtteranceTier:
    return alignment_tier(Alignment(**alignment_fields(data, where)), tier)


def alignment_tier(alignment: Alignment, tier: str) -> UtteranceTier:
    """Return a tier of an alignment, with the times of its file."""
    words = aligned_words(alignment)
    intervals = moved_intervals(tier_intervals(words, tier), file_shift_s(alignment))
    length_s = None if alignment.config.get("times") == RECORDING else alignment.duration_s
    corrected = any(map(is_fixed, words))
    return UtteranceTier(
        {NO_SPEAKER: tuple(intervals)}, length_s, is_ours=not corrected, is_corrected=corrected
    )


def tier_intervals(words: Iterable[AlignedWord], tier: str) -> list[Interval]:
    """Return words, or their phones, which must have times, in seconds from the utterance's start."""
    if tier == WORDS:
        return list(map(word_interval, words))
    return [
        Interval(token.start_s, token.end_s, token.token) for word in words for token in word.tokens
    ]


def word_interval(word: AlignedWord) -> Interval:
    """Return a word with its times in seconds, 0 for one without times."""
    return Interval(word.start_s or 0.0, word.end_s or 0.0, word.text)


def file_shift_s(alignment: Alignment) -> float:
    """Return how many seconds later the times in an alignment's files are than its own."""
    return alignment.offset_s if alignment.config.get("times") == RECORDING else 0.0


def moved_intervals(intervals: Sequence[Interval], by_s: float) -> list[Interval]:
    """Return intervals that are `by_s` seconds later."""
    return [
        Interval(
            round(each.start_s + by_s, _DECIMALS), round(each.end_s + by_s, _DECIMALS), each.label
        )
        for each in intervals
    ]


_NOT_ALIGNMENTS = frozenset({"summary.json"})
_TOKEN_CTM = (".tokens", ".phones")
_SHARDS = "alignments-"
_JSON_RANK = 0

ReadTier = Callable[[], UtteranceTier]


@dataclass
class AlignmentSource:
    """The utterances of a path, each with its reader, and the reasons why files are not read."""

    path: Path
    utterances: dict[str, ReadTier] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """True for one file with one utterance, whose name does not matter."""
        return not self.path.is_dir() and len(self.utterances) == 1


@dataclass(frozen=True)
class JsonReading:
    """Which JSON of an alignment is read, and how: as the program made it, or with its corrections.

    `read` takes a file and a tier. With `is_latest`, an alignment in a folder is its file with the
    latest corrections, otherwise the file that they correct.
    """

    read: Callable[[Path, str], UtteranceTier]
    is_latest: bool = False


def open_source(
    path: Path,
    tier: str,
    tier_name: str | None,
    json: JsonReading,
    encoding: str | None = None,
) -> AlignmentSource:
    """Return the utterances of a file, or of a folder with all its subfolders.

    In folders an utterance's name is the file's path without extension; of several files of one
    name JSON is preferred to TextGrid, that to CTM (`NAME.ctm` holds words, `NAME.tokens.ctm` or
    `NAME.phones.ctm` phones), and that to TIMIT's labels (`NAME.WRD`, `NAME.PHN`). Tables (CTM with
    several utterances, shards of JSON) have the names of utterances inside.

    Raises:
        UsageError: the folder has no alignments.
        InputError: the path is a table that cannot be read.
    """
    source = AlignmentSource(path)
    read_labels = partial(read_one, name=tier_name, encoding=encoding)
    if path.is_dir():
        _scan(source, tier, read_labels, json)
        if not source.utterances and not source.failures:
            raise UsageError(
                f"{path}: expected .TextGrid, .json, .ctm, .wrd or .phn alignments in this folder,"
                " got none"
            )
    elif is_table(path):
        source.utterances = _table_readers(path, tier)
    else:
        read = json.read if path.suffix.casefold() == ".json" else read_labels
        source.utterances = {path.with_suffix("").name: partial(read, path, tier)}
    return source


def _table_readers(path: Path, tier: str) -> dict[str, ReadTier]:
    return {name: lambda found=found: found for name, found in read_table(path, tier).items()}  # type: ignore[misc]


def _scan(
    source: AlignmentSource,
    tier: str,
    read_labels: Callable[[Path, str], UtteranceTier],
    json: JsonReading,
) -> None:
    ranks: dict[str, int] = {}
    ranked = {
        path: _rank_name(path, tier) for path in sorted(source.path.rglob("*")) if not path.is_dir()
    }
    chosen = _choose_json([path for path, rank in ranked.items() if rank == _JSON_RANK], json)
    for path, rank in ranked.items():
        if rank is None or (rank == _JSON_RANK and path not in chosen):
            continue
        name = _name(chosen.get(path, path).relative_to(source.path))
        if rank == _JSON_RANK:
            readers: dict[str, ReadTier] = {name: partial(json.read, path, tier)}
        elif not is_table(path):
            readers = {name: partial(read_labels, path, tier)}
        else:
            try:
                readers = _table_readers(path, tier)
            except InputError as error:
                source.failures.append((name, str(error)))
                continue
            if len(readers) == 1 and not path.name.startswith(_SHARDS):
                readers = {name: next(iter(readers.values()))}
        for key, read in readers.items():
            if rank < ranks.get(key, 9):
                ranks[key] = rank
                source.utterances[key] = read


def _choose_json(paths: Sequence[Path], json: JsonReading) -> dict[Path, Path]:
    """Return the JSON files to read, one of each alignment, and the files they are named after."""
    chosen: dict[Path, Path] = {}
    for work in latest_works(paths):
        original = original_of(work.path)
        if original in paths and original not in chosen.values():
            named = original
        else:
            named = work.path
        chosen[work.path if json.is_latest else named] = named
    return chosen


def _rank_name(path: Path, tier: str) -> int | None:
    """Return the rank of a file by its name, lowest for the preferred one, or None."""
    name = path.name.casefold()
    if path.name in _NOT_ALIGNMENTS or name.startswith(".") or name.endswith(JSON_EXPORTS):
        return None
    if name.endswith((".jsonl", ".jsonl.gz")):
        return 1 if name.startswith(_SHARDS) else None
    holds_tokens = Path(name).stem.endswith(_TOKEN_CTM)
    if name.endswith(".ctm"):
        return {(WORDS, False): 3, (PHONES, True): 3, (PHONES, False): 4}.get((tier, holds_tokens))
    suffix = Path(name).suffix
    if suffix in SAMPLE_LABELS:
        return 5 if SAMPLE_LABELS[suffix] == tier else 6  # which says that it lacks the tier
    return {".json": _JSON_RANK, ".textgrid": 2}.get(suffix)


def _name(path: Path) -> str:
    name = path.with_suffix("").as_posix()
    if path.suffix.casefold() == ".ctm":
        for ending in _TOKEN_CTM:
            name = name.removesuffix(ending)
    return name


def check_paths(hypothesis: Path, reference: Path, role: str = "hypothesis") -> None:
    """Raise UsageError unless both exist and are of one kind; a table may be either."""
    for path, side in ((hypothesis, role), (reference, "reference")):
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder (the {side})")
    if (
        hypothesis.is_dir() != reference.is_dir()
        and not is_table(hypothesis)
        and not is_table(reference)
    ):
        raise UsageError(f"expected two files or two folders, got {hypothesis} and {reference}")


def match_utterances(
    ours: AlignmentSource, theirs: AlignmentSource
) -> tuple[list[tuple[str, ReadTier, ReadTier]], list[str], list[str]]:
    """Match utterances by name, or by the end of their paths if only one fits.

    A single pair always matches.

    Returns:
        (name of the reference, hypothesis, reference) triples; the references, and the hypotheses,
        without a partner.
    """
    left, right = ours.utterances, theirs.utterances
    if ours.is_alone and theirs.is_alone:
        # the reference's name, unless only the reference is a table
        name = next(iter(left if is_table(theirs.path) and not is_table(ours.path) else right))
        return [(name, next(iter(left.values())), next(iter(right.values())))], [], []
    partner = {name: name for name in right if name in left}
    spare = _group_by_leaf(name for name in left if name not in right)
    lonely = _group_by_leaf(name for name in right if name not in left)
    for leaf, names in lonely.items():
        for name in names:
            fits = [other for other in spare.get(leaf, ()) if _do_ends_agree(name, other)]
            if len(fits) == 1 and sum(_do_ends_agree(other, fits[0]) for other in names) == 1:
                partner[name] = fits[0]
    triples = [(name, left[partner[name]], right[name]) for name in right if name in partner]
    used = set(partner.values())
    return (
        triples,
        [name for name in right if name not in partner],
        [name for name in left if name not in used],
    )


def _group_by_leaf(names: Iterable[str]) -> dict[str, list[str]]:
    leaves: dict[str, list[str]] = {}
    for name in names:
        leaves.setdefault(name.rpartition("/")[2], []).append(name)
    return leaves


def _do_ends_agree(left: str, right: str) -> bool:
    return left.endswith(f"/{right}") or right.endswith(f"/{left}")
