"""One TextGrid for a recording of many utterances, with the tiers that MFA writes."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctc_align.corpus.outputs.records import checksum
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal_lines import Checksum
from ctc_align.errors import InputError
from ctc_align.formats import Alignment, Style
from ctc_align.formats.textgrid import write_tiers
from ctc_align.formats.whole_files import placing
from ctc_align.formats.writer import RECORDING, UNITS_PER_S, TimedLabel, token_rows, word_rows
from ctc_align.text.textgrid_files import Tier, read_textgrid

_EXTENSION = ".TextGrid"
_WORDS = "words"
_KINDS = ("phones", "tokens")


def grid_row(alignment: Alignment, style: Style, recording_s: float) -> bytes:
    """Return an utterance's part of the recording's TextGrid; times of the recording in units of 10 µs."""
    style = Style(times=RECORDING, labels=style.labels)
    row = {
        "end": math.floor(recording_s * UNITS_PER_S + 1e-4),
        "kind": alignment.token_kind,
        "words": [_plain(row) for row in word_rows(alignment, style)],
        "tokens": [_plain(row) for row in token_rows(alignment, style)],
    }
    return json.dumps(row).encode()


def _plain(row: TimedLabel) -> list[Any]:
    return [row.start, row.end, row.label]


class RecordingGrids:
    """`RECORDING.TextGrid` below `folder`: `words` and `phones` (or `tokens`), whole recording, times of the recording.

    As MFA has it, the tiers of two or more speakers are named `SPEAKER - words`, `SPEAKER - phones`; every speaker of
    the recording has tiers, also one whose utterances all failed.
    """

    def __init__(self, folder: Path, parts: Path | None = None) -> None:
        self._folder = folder
        self._parts = parts

    def targets(self, group: str) -> list[Path]:
        return [self._folder / f"{group}{_EXTENSION}"]

    def groups(self) -> set[str]:
        """Return none: a TextGrid does not show whose its intervals are."""
        return set()

    def content(self, row: bytes) -> bytes:
        """Return the labelled intervals of a row: the others are not in the file."""
        part = json.loads(row)
        kept = [[piece for piece in part[tier] if piece[2] and piece[1] > piece[0]] for tier in ("words", "tokens")]
        return json.dumps(kept).encode()

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        return os.path.isfile(self.targets(group)[0])

    def faults(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Mapping[str, Checksum | None]
    ) -> dict[str, str]:
        """Compare the rows, and the file with what is written of them.

        Where utterances of one speaker overlap, words are cut: those rows are not compared.
        """
        path = self.targets(group)[0]
        found = {id: row for id, row in self.rows(group, utterances) if id in rows} if path.is_file() else {}
        cut = _overlapping(utterances)
        faults = {}
        for id, row in rows.items():
            is_same = id in found and (row is None or id in cut or checksum(self.content(found[id])) == tuple(row))
            if not is_same:
                faults[id] = f"its part of {path.name} is not there, or not what was written"
        if rows and not faults and path.read_bytes() != _rendered(utterances, found.items()):
            faults[next(iter(rows))] = f"{path.name} is not what was written"
        return faults

    def checksums(self, group: str) -> Mapping[str, Checksum]:
        """Return none: a TextGrid does not show whose its intervals are."""
        return {}

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        return os.path.isfile(self.targets(group)[0]) == bool(ids)

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[tuple[str, bytes]]:
        try:
            grid = read_textgrid(self.targets(group)[0])
        except InputError:
            return
        tiers = {tier.name: tier for tier in grid.tiers}
        prefixes = _prefixes(utterances)
        for utterance in utterances:
            prefix = prefixes[utterance.speaker]
            kind = next((kind for kind in _KINDS if prefix + kind in tiers), None)
            if kind is None or prefix + _WORDS not in tiers:
                continue
            parts = {
                "words": _within(tiers[prefix + _WORDS], utterance),
                "tokens": _within(tiers[prefix + kind], utterance),
            }
            yield utterance.id, json.dumps({"end": round(grid.end_s * UNITS_PER_S), "kind": kind, **parts}).encode()

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[tuple[str, bytes]]
    ) -> list[Path]:
        target = self.targets(group)[0]
        data = _rendered(utterances, rows)
        with placing([target], self._parts, sync=True) as parts:
            for _, part in parts:
                part.write_bytes(data)
        return [target]


def _rendered(utterances: Sequence[GroupedUtterance], rows: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the file of these rows."""
    speakers = {utterance.id: utterance.speaker for utterance in utterances}
    prefixes = _prefixes(utterances)
    words: dict[str, list[TimedLabel]] = {speaker: [] for speaker in prefixes}
    tokens: dict[str, list[TimedLabel]] = {speaker: [] for speaker in prefixes}
    end, kind = 1, _KINDS[1]
    for id, data in rows:
        part = json.loads(data)
        words[speakers[id]] += [TimedLabel(*row) for row in part["words"]]
        tokens[speakers[id]] += [TimedLabel(*row) for row in part["tokens"]]
        end, kind = max(end, part["end"]), part["kind"]
    tiers = []
    for speaker, prefix in prefixes.items():
        tiers += [(prefix + _WORDS, _apart(words[speaker])), (prefix + kind, _apart(tokens[speaker]))]
    end = max([end, *(row.end for _, tier in tiers for row in tier[-1:])])
    text = io.StringIO()
    write_tiers(text, tiers, end)
    return text.getvalue().encode("utf-8", "replace")


def _overlapping(utterances: Sequence[GroupedUtterance]) -> set[str]:
    """Return the utterances that overlap another one of their speaker."""
    overlapping: set[str] = set()
    last: dict[str, tuple[float, str]] = {}
    for utterance in sorted(utterances, key=lambda utterance: utterance.offset_s):
        end_s = math.inf if utterance.duration_s is None else utterance.offset_s + utterance.duration_s
        before_s, before = last.get(utterance.speaker, (-math.inf, ""))
        if utterance.offset_s < before_s:
            overlapping |= {before, utterance.id}
        if end_s >= before_s:
            last[utterance.speaker] = (end_s, utterance.id)
    return overlapping


def _prefixes(utterances: Sequence[GroupedUtterance]) -> dict[str, str]:
    """Return the prefix of tier names by speaker, in the order of their first utterances."""
    speakers = dict.fromkeys(utterance.speaker for utterance in utterances)
    several = len(speakers) > 1
    return {speaker: f"{speaker} - " if several and speaker else "" for speaker in speakers}


def _within(tier: Tier, utterance: GroupedUtterance) -> list[list[Any]]:
    """Return the labelled intervals whose middle lies in the utterance."""
    end_s = math.inf if utterance.duration_s is None else utterance.offset_s + utterance.duration_s
    return [
        [round(interval.start_s * UNITS_PER_S), round(interval.end_s * UNITS_PER_S), interval.label]
        for interval in tier.intervals
        if interval.label and utterance.offset_s <= (interval.start_s + interval.end_s) / 2 < end_s
    ]


def _apart(rows: list[TimedLabel]) -> list[TimedLabel]:
    """Return the rows in order of time, the later one cut where utterances of one speaker overlap; none empty."""
    apart: list[TimedLabel] = []
    free = 0
    for row in sorted(rows, key=lambda row: (row.start, row.end)):
        start = max(row.start, free)
        if row.end > start:
            apart.append(TimedLabel(start, row.end, row.label))
            free = row.end
    return apart
