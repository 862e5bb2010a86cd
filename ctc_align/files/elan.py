"""ELAN's files (EAF), read as a transcript and written.

Tiers of words and tokens are also written into an existing document.

The parser is expat; a file with a document type, and so with entity definitions, is refused.
Offsets count the document's UTF-8 bytes, so that everything except the new tiers stays unchanged.
"""

from __future__ import annotations

import mimetypes
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import PurePath
from typing import TextIO
from urllib.parse import quote
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ctc_align.errors import InputError, TranscriptError
from ctc_align.files.tiers import (
    DERIVED,
    SPEAKERS,
    TOKENS,
    WORDS,
    SpokenTier,
    is_document,
    is_silence,
    speaker_of,
    tiers_by_source,
    tiers_by_speaker,
    tiers_transcript,
    unused_names,
)
from ctc_align.files.writer import (
    RECORDING,
    Replacement,
    TimedLabel,
    Writer,
    edited,
    keep_filled,
    line_end_of,
)
from ctc_align.reading import as_whole
from ctc_align.text.characters import without_controls
from ctc_align.text.languages import known_code
from ctc_align.types import EAF, Alignment, Interval, Tier, Transcript

_MS_PER_S = 1000
_MOST_MS = 10**12
_DEEPEST = 50
"""The most tiers in a chain of dependent ones."""
_LAST_ID = "lastUsedAnnotationId"
_TYPE = "ctc-align"
_INNER_TYPE = "ctc-align within words"
_INCLUDED_IN = (
    "<CONSTRAINT DESCRIPTION=\"Time alignable annotations within the parent annotation's time"
    ' interval, gaps are allowed" STEREOTYPE="Included_In"/>\n    '
)
_NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_LETTERS = re.compile(r"[a-z]*", re.IGNORECASE)
_NEW_FILE_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="ctc-align" DATE="1970-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
"""


@dataclass
class _Annotation:
    """One annotation: its slots, or the annotation that it refers to, and its text."""

    id: str
    start: str = ""
    end: str = ""
    refers_to: str = ""
    value: str = ""


@dataclass
class _ElanTier:
    name: str
    parent: str
    participant: str
    language: str = ""
    annotations: list[_Annotation] = field(default_factory=list)


@dataclass
class ElanDocument:
    """The parts of an ELAN file that are read, and the positions at which new ones may be added.

    Attributes:
        slots: id, milliseconds (None for one without a time) and offset of each time slot, in the
            file's order.
        slots_end: the offset after the last slot.
        tiers: in the file's order.
        tiers_end: the offset after the last tier.
        types: ids of linguistic types.
        last_id: the span of the number of the last annotation that ELAN made, if the file has it.
    """

    slots: list[tuple[str, int | None, int]] = field(default_factory=list)
    slots_end: int = -1
    tiers: list[_ElanTier] = field(default_factory=list)
    tiers_end: int = -1
    types: list[str] = field(default_factory=list)
    last_id: tuple[int, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tier.name for tier in self.tiers)

    def label_tiers(self, is_left_out: Callable[[str], bool] = is_silence) -> list[Tier]:
        """Return the tiers with the times of their labels; parent tiers come before dependent ones.

        `is_left_out` returns True for labels that are left out.
        """
        times = self._times()
        annotations = {
            annotation.id: annotation for tier in self.tiers for annotation in tier.annotations
        }

        def span(annotation: _Annotation) -> tuple[float, float] | None:
            for _ in range(_DEEPEST):
                if annotation.refers_to not in annotations:
                    break
                annotation = annotations[annotation.refers_to]
            if annotation.start not in times or annotation.end not in times:
                return None
            return times[annotation.start], times[annotation.end]

        tiers = []
        parents = {tier.name: tier.parent for tier in self.tiers}
        for tier in sorted(self.tiers, key=lambda tier: _depth(tier.name, parents)):
            spans = [(span(annotation), annotation.value) for annotation in tier.annotations]
            labels = tuple(
                Interval(*times_s, value)
                for times_s, value in spans
                if times_s and not is_left_out(value)
            )
            speaker = " ".join(tier.participant.split()) or speaker_of(tier.name)
            language = known_code(tier.language)
            tiers.append(Tier(tier.name, labels, speaker=speaker, language=language))
        return tiers

    def _times(self) -> dict[str, float]:
        """Return the seconds of each slot.

        Those without a time lie evenly between their neighbours.
        """
        known = [
            (index, value) for index, (_, value, _) in enumerate(self.slots) if value is not None
        ]
        if not known:
            return {}
        places, known_ms = zip(*known)
        times_ms = np.interp(np.arange(len(self.slots)), places, known_ms)
        return {id: round(ms) / _MS_PER_S for (id, _, _), ms in zip(self.slots, times_ms)}


def _depth(name: str, parents: dict[str, str]) -> int:
    """Return how many tiers a tier depends on, directly or through others."""
    depth = 0
    while parents.get(name) and depth < _DEEPEST:
        depth = depth + 1
        name = parents[name]
    return depth


def elan_transcript(document: str, source: str) -> Transcript:
    """Return the text of the sentence tiers in an ELAN file, with the whole document.

    Each annotation is a cue.

    Raises:
        TranscriptError: it cannot be read, with the line, or no annotation with times has letters.
    """
    try:
        tiers = read_elan(document, source).label_tiers()
    except InputError as error:
        raise TranscriptError(str(error)) from error
    return tiers_transcript(tiers, source, EAF, document)


def elan_tiers(data: bytes, name: str) -> list[Tier]:
    """Return the tiers in the bytes of an ELAN file, with all labels, also of silence.

    Raises what `read_elan` raises.
    """
    return read_elan(data.decode("utf-8-sig"), name).label_tiers(lambda label: not label.strip())


def read_elan(document: str, name: str = "ELAN file") -> ElanDocument:
    """Return the parts of an ELAN file; `name` is its name in messages.

    Raises:
        InputError: it is not XML, has a document type, or is not an ELAN file with times in
            milliseconds.
    """
    reader = _Reader(document.encode("utf-8", "replace"), name)
    try:
        return reader.read()
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(
            f"{name}:{error.lineno}: not an ELAN file that can be read: {reason}"
        ) from error


class _Reader:
    """Takes the elements of an ELAN file from expat, one by one."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.found = ElanDocument()
        self.path: list[str] = []
        self.text: list[str] | None = None
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.refuse_type
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    def read(self) -> ElanDocument:
        self.parser.Parse(self.data, True)
        if self.found.slots_end < 0 or self.found.tiers_end < 0:
            raise InputError(
                f"{self.name}: not an ELAN file that can be read: expected TIME_ORDER and TIER, got"
                " neither"
            )
        return self.found

    def refuse_type(self, *_: object) -> None:
        raise self.fault("expected no document type (DOCTYPE), which ELAN never writes, got one")

    def start(self, tag: str, values: dict[str, str]) -> None:
        offset = self.parser.CurrentByteIndex
        found = self.found
        if not self.path and tag != "ANNOTATION_DOCUMENT":
            raise self.fault(f"expected ANNOTATION_DOCUMENT, got {tag[:40]}")
        if len(self.path) == 1 and found.tiers and found.tiers_end < 0 and tag != "TIER":
            found.tiers_end = offset
        if tag == "HEADER" and values.get("TIME_UNITS", "milliseconds") != "milliseconds":
            raise self.fault(f"expected times in milliseconds, got {values['TIME_UNITS'][:40]}")
        if tag == "TIME_SLOT":
            found.slots.append(
                (
                    values.get("TIME_SLOT_ID", ""),
                    self.milliseconds(values.get("TIME_VALUE")),
                    offset,
                )
            )
        elif tag == "TIER":
            name, parent, who, language = (
                values.get(key, "") for key in ("TIER_ID", "PARENT_REF", "PARTICIPANT", "LANG_REF")
            )
            found.tiers.append(_ElanTier(name, parent, who, language))
        elif tag in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION") and found.tiers:
            keys = ("ANNOTATION_ID", "TIME_SLOT_REF1", "TIME_SLOT_REF2", "ANNOTATION_REF")
            found.tiers[-1].annotations.append(_Annotation(*(values.get(key, "") for key in keys)))
        elif tag == "LINGUISTIC_TYPE":
            found.types.append(values.get("LINGUISTIC_TYPE_ID", ""))
        elif tag == "PROPERTY" and values.get("NAME") == _LAST_ID:
            start = self.data.find(b">", offset) + 1
            found.last_id = (start, self.data.find(b"<", start))
        self.text = [] if tag == "ANNOTATION_VALUE" else self.text
        self.path.append(tag)

    def end(self, tag: str) -> None:
        self.path.pop()
        if tag == "ANNOTATION_VALUE" and self.text is not None:
            if self.found.tiers and self.found.tiers[-1].annotations:
                self.found.tiers[-1].annotations[-1].value = "".join(self.text)
            self.text = None
        elif tag == "TIME_ORDER":
            self.found.slots_end = self.parser.CurrentByteIndex
        elif not self.path and self.found.tiers and self.found.tiers_end < 0:
            self.found.tiers_end = self.parser.CurrentByteIndex

    def characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def milliseconds(self, value: str | None) -> int | None:
        try:
            if value is None:
                return None
            return as_whole(value, most=_MOST_MS)
        except ValueError as error:
            raise self.fault(f"expected a TIME_VALUE in milliseconds, got {error}") from None

    def fault(self, reason: str) -> InputError:
        line = self.parser.CurrentLineNumber
        return InputError(f"{self.name}:{line}: not an ELAN file that can be read: {reason}")


class ElanWriter(Writer):
    """Tiers of annotations with times, in whole milliseconds, for each speaker.

    They are `words` and `tokens` (or `phones`).

    A tier of tokens depends on its tier of words, if there is one, with each token within its word
    (ELAN's `Included_In`). If speakers are named, a tier `speakers` says who speaks when, unless
    the style's `tiers` name others.

    A transcript that is an ELAN file is written unchanged, followed by `TIER - words` and `TIER -
    tokens` for
    each tier of its text. The new tiers do not depend on others, so words may lie outside old
    annotations.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        if is_document(alignment.subtitles, EAF):
            tiers = tiers_by_source(alignment, replace(style, times=RECORDING), _MS_PER_S)
            file.write(
                _added(
                    alignment.subtitles.document, read_elan(alignment.subtitles.document), tiers, []
                )
            )
            return
        is_named = any(word.speaker for word in alignment.words)
        tiers = tiers_by_speaker(
            alignment, style, _MS_PER_S, (WORDS, TOKENS, SPEAKERS) if is_named else (WORDS, TOKENS)
        )
        header = (
            f'    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">\n{_media(alignment.audio)}   '
            " </HEADER>\n"
        )
        empty = (
            f"{_NEW_FILE_HEAD}{header}    <TIME_ORDER>\n        </TIME_ORDER>\n   "
            " </ANNOTATION_DOCUMENT>\n"
        )
        ends = [empty.index(end) for end in ("</TIME_ORDER>", "</ANNOTATION_DOCUMENT>")]
        file.write(
            _added(
                empty, ElanDocument(slots_end=ends[0], tiers_end=ends[1]), tiers, _parents(tiers)
            )
        )


def _parents(tiers: Sequence[SpokenTier]) -> list[int | None]:
    """Return the index of the tier on which each tier depends.

    None for tokens that are not all within words.
    """
    of_words = {tier.speaker: index for index, tier in enumerate(tiers) if tier.kind == WORDS}
    indices = [
        of_words.get(tier.speaker) if tier.kind in (*DERIVED, TOKENS) else None for tier in tiers
    ]
    return [
        index if index is not None and _are_within(tiers[index].rows, tier.rows) else None
        for index, tier in zip(indices, tiers)
    ]


def _are_within(outer: Sequence[TimedLabel], rows: Sequence[TimedLabel]) -> bool:
    """Return whether each row lies within one of `outer`; both ascend."""
    ends = [row.end for row in outer]
    indices = [bisect_left(ends, row.end) for row in rows]
    return all(
        index < len(outer) and outer[index].start <= row.start for index, row in zip(indices, rows)
    )


def _media(audio: str) -> str:
    """Return the element that names the recording; "" if it has no name."""
    if not audio:
        return ""
    path = PurePath(_clean(audio))
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    quoted = quote(path.as_posix(), safe="/")
    if path.is_absolute():
        url = f"file://{quoted}"
    else:
        url = f"./{quoted}"
    return f"        <MEDIA_DESCRIPTOR MEDIA_URL={quoteattr(url)} MIME_TYPE={quoteattr(kind)}/>\n"


def _added(
    document: str, found: ElanDocument, tiers: Sequence[SpokenTier], parents: Sequence[int | None]
) -> str:
    """Return a document with further tiers at the end, and their types.

    Their slots are inserted by time.

    `parents` has the index of the tier that each depends on; [] if none does, as in a document that
    has types.
    """
    names = unused_names((" ".join(tier.name.split()) for tier in tiers), found.names)
    types = unused_names([_TYPE, _INNER_TYPE], found.types)
    slot_ids = _numbered("ts", [id for id, _, _ in found.slots])
    if found.last_id:
        used = [f"a{document.encode('utf-8', 'replace')[slice(*found.last_id)].decode()}"]
    else:
        used = []
    annotation_ids = _numbered(
        "a", [*used, *(each.id for tier in found.tiers for each in tier.annotations)]
    )
    slots: list[tuple[int, str]] = []
    pieces = []
    last = ""
    for name, tier, parent in zip_longest(names, tiers, parents):
        pieces.append(
            _tier_start(
                name,
                tier.speaker,
                types[parent is not None],
                None if parent is None else names[parent],
            )
        )
        for row in tier.rows:
            last = next(annotation_ids)
            start = next(slot_ids)
            end = next(slot_ids)
            slots += [(row.start, start), (row.end, end)]
            pieces.append(
                "        <ANNOTATION>\n"
                f'            <ALIGNABLE_ANNOTATION ANNOTATION_ID="{last}"'
                f' TIME_SLOT_REF1="{start}" '
                f'TIME_SLOT_REF2="{end}">\n'
                "               "
                f" <ANNOTATION_VALUE>{escape(_clean(' '.join(row.label.split())))}</ANNOTATION_VALUE>\n"
                "            </ALIGNABLE_ANNOTATION>\n        </ANNOTATION>\n"
            )
        pieces.append("    </TIER>\n    ")
    kinds = [_linguistic_type(types[0])]
    if any(parent is not None for parent in parents):
        kinds += [_linguistic_type(types[1], 'CONSTRAINTS="Included_In" '), _INCLUDED_IN]
    changes = [
        *_slots_among(found, sorted(slots)),
        (found.tiers_end, found.tiers_end, "".join([*pieces, *kinds])),
    ]
    if found.last_id is not None and last:
        changes.append((*found.last_id, _LETTERS.sub("", last, count=1)))
    line_end = line_end_of(document)
    edits = [(start, end, text.replace("\n", line_end)) for start, end, text in changes]
    return edited(document.encode("utf-8", "replace"), edits).decode("utf-8")


def _tier_start(name: str, speaker: str, type_id: str, parent: str | None) -> str:
    attributes = {
        "LINGUISTIC_TYPE_REF": type_id,
        **keep_filled(PARENT_REF=parent, PARTICIPANT=speaker),
        "TIER_ID": name,
    }
    return (
        "<TIER"
        f" {' '.join(f'{key}={quoteattr(_clean(value))}' for key, value in attributes.items())}>\n"
    )


def _linguistic_type(id: str, constraint: str = "") -> str:
    return (
        f'<LINGUISTIC_TYPE {constraint}GRAPHIC_REFERENCES="false"'
        f' LINGUISTIC_TYPE_ID={quoteattr(id)} TIME_ALIGNABLE="true"/>\n    '
    )


def _slots_among(found: ElanDocument, slots: Sequence[tuple[int, str]]) -> list[Replacement]:
    """Return where new slots go, as (offset, offset, text).

    Each goes before the first slot of the document that is later.
    """
    at = 0
    texts = dict[int, list[str]]()
    for time_ms, id in slots:
        while at < len(found.slots) and (
            found.slots[at][1] is None or (found.slots[at][1] or 0) <= time_ms
        ):
            at += 1
        if at < len(found.slots):
            offset = found.slots[at][2]
        else:
            offset = found.slots_end
        texts.setdefault(offset, []).append(
            f'<TIME_SLOT TIME_SLOT_ID="{id}" TIME_VALUE="{time_ms}"/>\n        '
        )
    return [(offset, offset, "".join(pieces)) for offset, pieces in texts.items()]


def _numbered(letters: str, taken: Sequence[str]) -> Iterator[str]:
    """Yield new ids: letters and a number above the existing ones."""
    numbers = [
        int(id[len(letters) :]) for id in taken if re.fullmatch(rf"{letters}[0-9]{{1,15}}", id)
    ]
    number = max(numbers, default=0)
    while True:
        number += 1
        yield f"{letters}{number}"


def _clean(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return _NO_XML.sub("\ufffd", without_controls(text))
