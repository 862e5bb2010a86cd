"""ELAN's files (EAF), read as a transcript, and where tiers may be added to them.

The parser is expat; a document type, and so any entity of its own, is refused. Places are in the document's UTF-8
bytes, so that all of it but what is added can be kept as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from ctc_align.errors import InputError, TranscriptError
from ctc_align.reading import as_whole
from ctc_align.text.label_tiers import LabelTier, is_silence, speaker_of, tiers_transcript
from ctc_align.types import EAF, Transcript

_MS_PER_S = 1000
_MOST_MS = 10**12
_DEEPEST = 50
"""Tiers that depend on each other, as far as they are followed."""
_HEAD = re.compile(r"\s*<(?:\?xml|ANNOTATION_DOCUMENT)")
_ROOT = re.compile(r"<ANNOTATION_DOCUMENT(?![^\s>])")
_HEAD_LETTERS = 4096
_LAST_ID = "lastUsedAnnotationId"


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
    annotations: list[_Annotation] = field(default_factory=list)


@dataclass
class ElanDocument:
    """The parts of an ELAN file that are read, and where others may be added.

    Attributes:
        slots: id, milliseconds (None for one without a time) and place of each time slot, in the file's order.
        slots_end: the place after the last slot.
        tiers: in the file's order.
        tiers_end: the place after the last tier.
        types: ids of linguistic types.
        last_id: the span of the number of the last annotation that ELAN made, where the file has it.
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

    def label_tiers(self) -> list[LabelTier]:
        """Return the tiers with the times of their labels, those that others depend on first."""
        times = self._times()
        annotations = {annotation.id: annotation for tier in self.tiers for annotation in tier.annotations}

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
            labels = tuple((*times_s, value) for times_s, value in spans if times_s and not is_silence(value))
            tiers.append(LabelTier(tier.name, " ".join(tier.participant.split()) or speaker_of(tier.name), labels))
        return tiers

    def _times(self) -> dict[str, float]:
        """Return the seconds of each slot; those without a time lie evenly between their neighbours."""
        known = [(place, value) for place, (_, value, _) in enumerate(self.slots) if value is not None]
        if not known:
            return {}
        times, after = {}, 0
        for place, (id, value, _) in enumerate(self.slots):
            if value is None:
                while after < len(known) and known[after][0] < place:
                    after += 1
                (low, low_ms), (high, high_ms) = known[max(after - 1, 0)], known[min(after, len(known) - 1)]
                share = (place - low) / (high - low) if high > low else 0.0
                value = round(low_ms + share * (high_ms - low_ms))
            times[id] = value / _MS_PER_S
        return times


def _depth(name: str, parents: dict[str, str]) -> int:
    """Return how many tiers a tier depends on, the one through the other."""
    depth = 0
    while parents.get(name) and depth < _DEEPEST:
        depth, name = depth + 1, parents[name]
    return depth


def is_elan(text: str) -> bool:
    """Return whether a text is an ELAN file.

    >>> is_elan('<?xml version="1.0"?>\\n<ANNOTATION_DOCUMENT AUTHOR="">'), is_elan("<ANNOTATION_DOCUMENTS")
    (True, False)
    """
    return _HEAD.match(text) is not None and _ROOT.search(text, 0, _HEAD_LETTERS) is not None


def elan_transcript(document: str, source: str) -> Transcript:
    """Return the text of the sentence tiers in an ELAN file, a cue for each annotation, with the whole document.

    Raises:
        TranscriptError: it cannot be read, with the line, or no annotation with times has letters.
    """
    try:
        tiers = read_elan(document, source).label_tiers()
    except InputError as error:
        raise TranscriptError(str(error)) from error
    return tiers_transcript(tiers, source, EAF, document)


def read_elan(document: str, name: str = "ELAN file") -> ElanDocument:
    """Return the parts of an ELAN file; `name` is what messages call it.

    Raises:
        InputError: it is not XML, has a document type, or is no ELAN file with times in milliseconds.
    """
    reader = _Reader(document.encode("utf-8", "replace"), name)
    try:
        return reader.read()
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"{name}:{error.lineno}: not an ELAN file that can be read: {reason}") from error


class _Reader:
    """Takes the elements of an ELAN file from expat, one by one."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
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
                f"{self.name}: not an ELAN file that can be read: expected TIME_ORDER and TIER, got neither"
            )
        return self.found

    def refuse_type(self, *_: object) -> None:
        raise self.fault("expected no document type (DOCTYPE), which ELAN never writes, got one")

    def start(self, tag: str, values: dict[str, str]) -> None:
        place, found = self.parser.CurrentByteIndex, self.found
        if not self.path and tag != "ANNOTATION_DOCUMENT":
            raise self.fault(f"expected ANNOTATION_DOCUMENT, got {tag[:40]}")
        if len(self.path) == 1 and found.tiers and found.tiers_end < 0 and tag != "TIER":
            found.tiers_end = place
        if tag == "HEADER" and values.get("TIME_UNITS", "milliseconds") != "milliseconds":
            raise self.fault(f"expected times in milliseconds, got {values['TIME_UNITS'][:40]}")
        if tag == "TIME_SLOT":
            found.slots.append((values.get("TIME_SLOT_ID", ""), self.milliseconds(values.get("TIME_VALUE")), place))
        elif tag == "TIER":
            name, parent, who = (values.get(key, "") for key in ("TIER_ID", "PARENT_REF", "PARTICIPANT"))
            found.tiers.append(_ElanTier(name, parent, who))
        elif tag in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION") and found.tiers:
            keys = ("ANNOTATION_ID", "TIME_SLOT_REF1", "TIME_SLOT_REF2", "ANNOTATION_REF")
            found.tiers[-1].annotations.append(_Annotation(*(values.get(key, "") for key in keys)))
        elif tag == "LINGUISTIC_TYPE":
            found.types.append(values.get("LINGUISTIC_TYPE_ID", ""))
        elif tag == "PROPERTY" and values.get("NAME") == _LAST_ID:
            start = self.data.find(b">", place) + 1
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
            return None if value is None else as_whole(value, most=_MOST_MS)
        except ValueError as error:
            raise self.fault(f"expected a TIME_VALUE in milliseconds, got {error}") from None

    def fault(self, reason: str) -> InputError:
        line = self.parser.CurrentLineNumber
        return InputError(f"{self.name}:{line}: not an ELAN file that can be read: {reason}")
