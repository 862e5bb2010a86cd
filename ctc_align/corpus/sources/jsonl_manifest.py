"""NeMo/JSONL manifests: one object on each line, with `audio_filepath` and `text`."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from typing import Any

from ctc_align.corpus.sources.source import (
    FileSource,
    Item,
    ItemMaker,
    checked_audio,
    checked_channel,
    checked_id,
    checked_seconds,
    checked_string,
    checked_text,
    kind_of,
    known_code,
    shown,
    stem_of,
)
from ctc_align.corpus.sources.table import COLUMNS
from ctc_align.corpus.sources.text_lines import TextLine, read_lines
from ctc_align.errors import InputError
from ctc_align.reading import parse_json

KEYS = {
    "audio": ("audio_filepath", "audio", "log_probs"),
    "text": ("text", "texts"),
    "id": ("utterance",),
    "offset": ("offset", "offset_s"),
    "duration": ("duration", "duration_s"),
    "speaker": ("speaker",),
    "channel": ("channel",),
    "language": ("language", "lang", "locale"),
}
"""Keys of each value, as `docs/corpora.md` lists them; of several on one line the first in this order counts."""
_MOST_KEYS = 30


def _no_number(name: str) -> float:
    raise ValueError(f"{name}, which is not JSON")


class Manifest(FileSource):
    """A JSONL file (plain or .gz); each line that is not an utterance is refused, and the next one is read.

    KEYS are its keys: the audio (or log-probs: a file, or FILE.ark:OFFSET) and `text` or `texts` (a list: alternatives
    for `score`, of which the first is aligned where there is no `text`) are needed; `channel` counts from 1. A value of
    null is as good as none; other keys are left alone. Relative paths count from the manifest's
    folder.
    """

    kind = "manifest"

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        for line in read_lines(self.name):
            yield self._item(line, maker)

    def _item(self, line: TextLine, maker: ItemMaker) -> Item:
        origin = self.origin(line.number)
        id: str | None = None
        stem = ""
        try:
            fields = parsed_object(line)
            id = checked_id(fields.get("utterance"), "utterance")
            audio = checked_audio(_first(fields, "audio", "the audio"), "the audio")
            stem = stem_of(audio)
            texts = _texts(fields)
            if fields.get("text") is None and texts:
                text = texts[0]
            else:
                text = checked_text(_first(fields, "text", "the transcript"), "text")
            details = _details(fields)
        except InputError as error:
            return maker.refused(id, line.number, origin, str(error), stem)
        details |= {"audio": os.path.join(self.folder, audio), "text": text, "texts": texts if len(texts) > 1 else ()}
        return maker.utterance(id, stem, line.number, origin, details)


def parsed_object(line: TextLine) -> dict[str, Any]:
    """Return the JSON object on a line, else raise InputError."""
    if line.fault:
        raise InputError(line.fault)
    try:
        value = parse_json(line.text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        got = f"{error.msg} at column {error.colno}: {shown(line.text)}"
        raise InputError(f"expected a JSON object, got something else ({got})") from None
    except ValueError as error:
        raise InputError(f"expected a JSON object, got something that cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {kind_of(value)}: {shown(value)}")
    return value


def _first(fields: dict[str, Any], which: str, what: str) -> Any:
    keys = KEYS[which]
    for key in keys:
        if fields.get(key) is not None:
            return fields[key]
    more = f" and {len(fields) - _MOST_KEYS} more" if len(fields) > _MOST_KEYS else ""
    got = ", ".join(shown(key) for key in sorted(fields)[:_MOST_KEYS]) or "none"
    meant = _meant(fields, which)
    hint = f"; did you mean {keys[0]} by {shown(meant)}?" if meant else ""
    raise InputError(f"{what} is missing: expected the key {' or '.join(keys)}, got {got}{more}{hint}")


def _meant(fields: dict[str, Any], which: str) -> str | None:
    """Return the key that stands for a missing one: a column's name of tables, or one that is nearly right."""
    known = {key for keys in KEYS.values() for key in keys}
    own = {key.strip().casefold(): key for key in fields if key not in known and isinstance(fields[key], str)}
    names = [*KEYS[which], *COLUMNS[which]]
    near = (difflib.get_close_matches(key, names, n=1, cutoff=0.75) for key in own)
    return next((own[name] for name in names if name in own), None) or next(
        (key for key, found in zip(own.values(), near) if found), None
    )


def _texts(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the alternatives, () where the line has none."""
    values = fields.get("texts")
    if values is None:
        return ()
    if not isinstance(values, list) or not values:
        raise InputError(f"texts: expected a list of transcripts, got {shown(values)}")
    texts = tuple(checked_string(value, f"texts, entry {i}") for i, value in enumerate(values, 1))
    # N-best lists hold empty hypotheses: those alone cannot be scored.
    return texts if any(text.strip() for text in texts) else tuple(checked_text(text, "texts") for text in texts)


def _details(fields: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for key in KEYS["offset"]:
        if "offset_s" not in details and fields.get(key) is not None:
            details["offset_s"] = checked_seconds(fields[key], key)
    for key in KEYS["duration"]:
        if "duration_s" not in details and fields.get(key) is not None:
            details["duration_s"] = checked_seconds(fields[key], key, above_zero=True)
    if fields.get("channel") is not None:
        details["channel"] = checked_channel(fields["channel"], "channel")
    details["language"] = next(filter(None, (known_code(fields.get(key)) for key in KEYS["language"])), "")
    speaker = fields.get("speaker")
    if speaker is not None:
        is_number = isinstance(speaker, int) and not isinstance(speaker, bool)
        details["speaker"] = checked_id(speaker, "speaker") if is_number else checked_string(speaker, "speaker")
    return details
