"""Lhotse cuts in JSONL: each supervision of a MonoCut is an utterance. Lhotse itself is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ctc_align.corpus.sources.jsonl_manifest import parsed_object
from ctc_align.corpus.sources.source import (
    FileSource,
    Item,
    ItemMaker,
    checked_audio,
    checked_id,
    checked_seconds,
    checked_string,
    checked_text,
    kind_of,
    known_code,
    resolved,
    shown,
)
from ctc_align.corpus.sources.text_lines import TextLine, read_lines
from ctc_align.errors import InputError

_ROUNDING_S = 0.05
"""A supervision may stick out of its recording this far: manifests round."""


class Lhotse(FileSource):
    """Cuts (`cuts.jsonl`, plain or .gz) of recordings in files; channels are mixed unless a supervision is of one.

    The id is the supervision's, and where it has none the cut's made unique. Relative paths count from the manifest's
    folder, and where there is no such file from the current one, as Lhotse has it. Mixed and padding cuts, recordings
    that are commands or URLs or that a transform changes, and supervisions without text are refused.
    """

    kind = "lhotse"

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        for line in read_lines(self.name):
            yield from self._items(line, maker)

    def _items(self, line: TextLine, maker: ItemMaker) -> Iterator[Item]:
        origin = self.origin(line.number)
        cut_id = ""
        try:
            cut = parsed_object(line)
            cut_id = checked_id(cut.get("id"), "id") or ""
            _check_kind(cut)
            supervisions = cut.get("supervisions")
            if not isinstance(supervisions, list) or not supervisions:
                raise InputError("expected a cut with supervisions, got one without: there is no transcript")
        except InputError as error:
            yield maker.refused(cut_id or None, line.number, origin, str(error))
            return
        for number, supervision in enumerate(supervisions, 1):
            at = origin if len(supervisions) == 1 else f"{origin}, supervision {number}"
            id = None
            try:
                if not isinstance(supervision, dict):
                    raise InputError(f"supervisions: expected objects, got {kind_of(supervision)}")
                id = checked_id(supervision.get("id"), "the supervision's id")
                fields = self._fields(cut, supervision)
            except InputError as error:
                yield maker.refused(id, line.number, at, str(error), cut_id)
                continue
            yield maker.utterance(id, cut_id or at, line.number, at, fields)

    def _fields(self, cut: dict[str, Any], supervision: dict[str, Any]) -> dict[str, Any]:
        recording = _object(cut, "recording")
        if recording.get("transforms"):
            raise InputError("recording: expected one as it is on disk, got transforms: save the changed audio first")
        channel = supervision.get("channel", cut.get("channel"))
        source, number = _source(recording, channel)
        offset_s, duration_s = _span(cut, supervision, recording)
        fields: dict[str, Any] = {"audio": resolved(self.folder, source), "channel": number}
        fields |= {"offset_s": offset_s, "duration_s": duration_s}
        fields["text"] = checked_text(_needed(supervision, "text"), "text")
        fields["language"] = known_code(supervision.get("language"))
        speaker = supervision.get("speaker")
        return fields if speaker is None else fields | {"speaker": checked_string(speaker, "speaker")}


def is_cut(value: dict[str, Any]) -> bool:
    """Return whether a JSON object is one of Lhotse's cuts (of any type)."""
    is_typed = str(value.get("type")).endswith("Cut")
    return is_typed or isinstance(value.get("supervisions"), list) or isinstance(value.get("recording"), dict)


def _check_kind(cut: dict[str, Any]) -> None:
    kind = cut.get("type", "MonoCut")
    if kind in ("MixedCut", "PaddingCut"):
        raise InputError(f"expected a MonoCut, got a {kind}: save its audio and make cuts of that")
    if kind not in ("MonoCut", "MultiCut", "Cut", "DataCut"):
        raise InputError(f"expected a MonoCut, got {shown(kind)}")


def _source(recording: dict[str, Any], channel: Any) -> tuple[str, int | None]:
    """Return the file that holds the channels, and which of its channels is used, from 1; None for all."""
    channels = _channels(channel)
    sources = recording.get("sources")
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        raise InputError(f"recording: expected a list of sources, got {shown(sources)}")
    fitting = [source for source in sources if not channels or channels <= _channels(source.get("channels"))]
    if len(fitting) != 1 and len(sources) > 1:
        raise InputError(f"recording: expected the channels {sorted(channels)} in one of its {len(sources)} files")
    source = fitting[0] if fitting else sources[0]
    kind = source.get("type")
    if kind != "file":
        raise InputError(f"recording: expected a source of type file, got {shown(kind)}: nothing is run or fetched")
    path = checked_audio(source.get("source"), "the recording's source")
    held = sorted(_channels(source.get("channels")))
    if len(held) <= 1 or not channels or channels == set(held):
        return path, None
    if len(channels) > 1 or not channels <= set(held):
        raise InputError(f"channel: expected one of the file's channels or all, got {sorted(channels)} of {held}")
    return path, held.index(min(channels)) + 1


def _channels(value: Any) -> set[int]:
    values = [] if value is None else value if isinstance(value, list) else [value]
    if any(isinstance(channel, bool) or not isinstance(channel, int) or channel < 0 for channel in values):
        raise InputError(f"channel: expected numbers from 0, got {shown(value)}")
    return set(values)


def _span(cut: dict[str, Any], supervision: dict[str, Any], recording: dict[str, Any]) -> tuple[float, float]:
    """Return offset and duration of a supervision in its recording, seconds."""
    start_s = supervision.get("start", 0)
    if isinstance(start_s, (int, float)) and not isinstance(start_s, bool) and start_s < 0:
        start_s = -checked_seconds(-start_s, "the supervision's start")  # it begins before the cut does
    else:
        start_s = checked_seconds(start_s, "the supervision's start")
    offset_s = round(checked_seconds(cut.get("start", 0), "the cut's start") + start_s, 8)
    duration_s = checked_seconds(_needed(supervision, "duration"), "the supervision's duration", above_zero=True)
    end_s = round(offset_s + duration_s, 8)
    total_s = recording.get("duration")
    if total_s is not None:
        total_s = checked_seconds(total_s, "the recording's duration", above_zero=True)
        if total_s < end_s <= total_s + _ROUNDING_S:
            end_s = total_s
    begin_s = 0.0 if -_ROUNDING_S <= offset_s < 0 else offset_s
    if begin_s < 0 or (total_s is not None and end_s > total_s) or end_s <= begin_s:
        whole = "" if total_s is None else f" of {total_s} s"
        raise InputError(f"expected a supervision inside its recording{whole}, got {offset_s} to {end_s} s")
    return begin_s, round(end_s - begin_s, 8)


def _object(fields: dict[str, Any], key: str) -> dict[str, Any]:
    value = _needed(fields, key)
    if not isinstance(value, dict):
        raise InputError(f"{key}: expected an object, got {kind_of(value)}")
    return value


def _needed(fields: dict[str, Any], key: str) -> Any:
    if fields.get(key) is None:
        raise InputError(f"expected the key {key}, got {shown(sorted(fields))}")
    return fields[key]
