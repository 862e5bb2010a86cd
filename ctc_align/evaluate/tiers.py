"""One tier of an alignment file: TextGrid, ctc-align's JSON, alone or a line each, and CTM."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctc_align.errors import InputError, MissingTierError
from ctc_align.evaluate.measure_options import WORDS, parse_tier
from ctc_align.formats.json_format import read_object
from ctc_align.formats.textgrid import Interval, Tier, read_textgrid
from ctc_align.types import FORMAT

TABLES = (".ctm", ".jsonl", ".jsonl.gz")
"""Endings of files that hold many utterances."""
_TIER_NAMES = {"words": ("words", "word"), "phones": ("phones", "tokens", "phone")}
_NO_SPEAKER = ""


@dataclass(frozen=True)
class UtteranceTier:
    """One tier of one utterance."""

    speakers: dict[str, tuple[Interval, ...]]
    """The intervals by speaker, from tier names such as "Ann - words"; "" without one."""
    duration_s: float | None = None
    """Length of the recording, if the file has it."""
    is_ours: bool = False
    """True where the file says that ctc-align made it."""

    @property
    def intervals(self) -> list[Interval]:
        """The intervals of all speakers, in order of time."""
        rows = [interval for row in self.speakers.values() for interval in row]
        return rows if len(self.speakers) == 1 else sorted(rows, key=lambda interval: interval.start_s)


def is_table(path: Path) -> bool:
    """Return whether a file name is that of a table.

    >>> is_table(Path("a.JSONL.gz")), is_table(Path("a.json"))
    (True, False)
    """
    return path.name.casefold().endswith(TABLES)


def read_intervals(path: str | Path, tier: str = WORDS, name: str | None = None) -> list[Interval]:
    """Read the intervals of one tier of a file with one utterance, times as in the file.

    Args:
        path: a TextGrid, ctc-align JSON, or CTM (its only tier, whatever `tier` is).
        tier: "words" or "phones" ("tokens" serve as phones).
        name: name or number (from 1) of the tier in a TextGrid; None: by the usual names, also after a speaker
            ("Ann - words"; tiers of several speakers are joined).

    Raises:
        InputError: the file cannot be read, has no such tier, or holds several utterances.
    """
    path, tier = Path(path), parse_tier(tier)
    if not is_table(path):
        return read_one(path, tier, name).intervals
    utterances = read_table(path, tier)
    if len(utterances) != 1:
        raise InputError(f"{path}: expected one utterance, got {len(utterances)}")
    return next(iter(utterances.values())).intervals


def read_one(path: Path, tier: str, name: str | None = None) -> UtteranceTier:
    """Read a TextGrid or a JSON of one utterance.

    Raises:
        MissingTierError: it has no such tier.
        InputError: otherwise as `read_intervals`.
    """
    if path.suffix.casefold() == ".json":
        return _json_utterance(read_object(path, parse_constant=_no_number), str(path), tier)
    grid = read_textgrid(path)
    wanted = _TIER_NAMES[tier] if name is None else (name.strip().casefold(),)
    speakers = _named(grid.tiers, wanted)
    if not speakers and name is not None and name.isdecimal():
        speakers.update((_NO_SPEAKER, each.intervals) for each in grid.tiers if each.number == int(name))
    if not speakers:
        tiers = ", ".join(f"{each.number} {each.name}" for each in grid.tiers) or "none"
        named = " or ".join(wanted) if name is None else repr(name)
        raise MissingTierError(f"{path}: expected an interval tier named {named}, got: {tiers}")
    return UtteranceTier(speakers, grid.end_s if grid.start_s == 0 else None)


def _named(tiers: tuple[Tier, ...], wanted: tuple[str, ...]) -> dict[str, tuple[Interval, ...]]:
    """Return the tiers of the first of `wanted` that exists, by speaker."""
    for name in wanted:
        speakers = {}
        for tier in tiers:
            folded = tier.name.strip().casefold()
            if folded == name:
                return {_NO_SPEAKER: tier.intervals}
            if folded.endswith(f" - {name}"):
                speakers[folded.removesuffix(f" - {name}")] = tier.intervals
        if speakers:
            return speakers
    return {}


def read_table(path: Path, tier: str) -> dict[str, UtteranceTier]:
    """Read all utterances of a CTM, or of JSON with one alignment a line.

    Utterances with several channels become `utterance:channel`.

    Raises:
        InputError: the file cannot be read (with the line), is empty, or has an utterance twice.
    """
    name = path.name.casefold()
    utterances = _ctm_utterances(path) if name.endswith(".ctm") else _jsonl_utterances(path, tier)
    if not utterances:
        raise InputError(f"{path}: expected alignments, got an empty file")
    return utterances


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
            start, duration = float(start_s), float(duration_s)
        except ValueError as error:
            raise InputError(
                f"{path}:{number}: expected '<utterance> <channel> <start> <duration> <label>', got: {line.strip()}"
            ) from error
        if not (math.isfinite(start) and math.isfinite(duration) and duration >= 0):
            raise InputError(f"{path}:{number}: expected a start and a duration in seconds, got {start_s} {duration_s}")
        # rounded, so that a word's end equals the next one's start
        end_s = round(start + duration, 6)
        rows.setdefault((utterance, channel), []).append(Interval(start, end_s, label))
    channels: dict[str, int] = {}
    for utterance, _ in rows:
        channels[utterance] = channels.get(utterance, 0) + 1
    return {
        utterance if channels[utterance] == 1 else f"{utterance}:{channel}": UtteranceTier(
            {_NO_SPEAKER: tuple(sorted(row, key=lambda interval: interval.start_s))}, is_ours=ours
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
            data = json.loads(line, parse_constant=_no_number)
        except ValueError as error:
            raise InputError(f"{where}: not JSON that can be read: {error}") from error
        data_format = data.get("format") if isinstance(data, dict) else None
        if data_format != FORMAT:
            raise InputError(f'{where}: expected an alignment of format "{FORMAT}", got {data_format!r}')
        utterance = str(data.get("utterance", ""))
        if not utterance or utterance in utterances:
            raise InputError(f"{where}: expected an utterance of its own name, got {utterance!r} again")
        utterances[utterance] = _json_utterance(data, where, tier)
    return utterances


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        opened = gzip.open if path.name.casefold().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            yield from enumerate(file, start=1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not whole gzip data ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8, got {error.reason} at byte {error.start}") from error


def _json_utterance(data: dict[str, Any], where: str, tier: str) -> UtteranceTier:
    try:
        words = [word for word in data["words"] if word["start_s"] is not None]
        if tier == WORDS:
            intervals = [_interval(word, "text") for word in words]
        else:
            intervals = [_interval(token, "token") for word in words for token in word["tokens"]]
        from_start = (data.get("config") or {}).get("times") != "recording"
        duration_s = data.get("duration_s") if from_start else None
        return UtteranceTier({_NO_SPEAKER: tuple(intervals)}, None if duration_s is None else float(duration_s), True)
    except KeyError as error:
        raise InputError(f"{where}: an alignment without its {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: expected words and tokens with times in seconds: {error}") from error


def _interval(row: dict[str, Any], label: str) -> Interval:
    start_s, end_s = float(row["start_s"]), float(row["end_s"])
    if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s <= end_s):
        raise ValueError(f"{row[label]!r} starts at {start_s} and ends at {end_s}")
    return Interval(start_s, end_s, str(row[label]))


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")
