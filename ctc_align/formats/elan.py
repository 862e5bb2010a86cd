"""ELAN's files (EAF): tiers of words and tokens, in a file of their own or behind the tiers of the transcript's."""

from __future__ import annotations

import mimetypes
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import PurePath
from typing import TextIO
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from ctc_align.formats.spoken_tiers import (
    SPEAKERS,
    TOKENS,
    WORDS,
    SpokenTier,
    is_document,
    tiers_by_source,
    tiers_by_speaker,
    unused_names,
)
from ctc_align.formats.writer import RECORDING, TimedLabel, Writer
from ctc_align.text.control_characters import without_controls
from ctc_align.text.elan_files import ElanDocument, read_elan
from ctc_align.types import EAF, AlignmentData

_MS_PER_S = 1000
_TYPE, _INNER_TYPE = "ctc-align", "ctc-align within words"
_INCLUDED_IN = (
    "<CONSTRAINT DESCRIPTION=\"Time alignable annotations within the parent annotation's time interval, gaps are "
    'allowed" STEREOTYPE="Included_In"/>\n    '
)
_NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_LETTERS = re.compile(r"[a-z]*", re.IGNORECASE)
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="ctc-align" DATE="1970-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
"""


class ElanWriter(Writer):
    """Tiers `words` and `tokens` (or `phones`) of annotations with times, in whole milliseconds, for each speaker.

    A tier of tokens depends on its tier of words, each token within its word (ELAN's `Included_In`), where there is
    one. Where speakers are named a tier `speakers` says who speaks when, unless the style's `tiers` name others.

    A transcript that is an ELAN file comes back as it is, with `TIER - words` and `TIER - tokens` for each tier of its
    text behind its own tiers. The new tiers depend on no other one, so that words may lie outside old annotations.
    """

    extension = ".eaf"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        if is_document(alignment.subtitles, EAF):
            tiers = tiers_by_source(alignment, replace(style, times=RECORDING), _MS_PER_S)
            file.write(_added(alignment.subtitles.document, read_elan(alignment.subtitles.document), tiers, []))
            return
        is_named = any(word.speaker for word in alignment.words)
        tiers = tiers_by_speaker(
            alignment, style, _MS_PER_S, (WORDS, TOKENS, SPEAKERS) if is_named else (WORDS, TOKENS)
        )
        header = f'    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">\n{_media(alignment.audio)}    </HEADER>\n'
        empty = f"{_HEAD}{header}    <TIME_ORDER>\n        </TIME_ORDER>\n    </ANNOTATION_DOCUMENT>\n"
        places = [empty.index(end) for end in ("</TIME_ORDER>", "</ANNOTATION_DOCUMENT>")]
        file.write(_added(empty, ElanDocument(slots_end=places[0], tiers_end=places[1]), tiers, _parents(tiers)))


def _parents(tiers: Sequence[SpokenTier]) -> list[int | None]:
    """Return the place of the tier that each depends on; None for one of tokens that are not all within words."""
    of_words = {tier.speaker: place for place, tier in enumerate(tiers) if tier.kind == WORDS}
    places = [of_words.get(tier.speaker) if tier.kind == TOKENS else None for tier in tiers]
    return [
        place if place is not None and _are_within(tiers[place].rows, tier.rows) else None
        for place, tier in zip(places, tiers)
    ]


def _are_within(outer: Sequence[TimedLabel], rows: Sequence[TimedLabel]) -> bool:
    """Return whether each row lies within one of `outer`; both ascend."""
    ends = [row.end for row in outer]
    places = [bisect_left(ends, row.end) for row in rows]
    return all(place < len(outer) and outer[place].start <= row.start for place, row in zip(places, rows))


def _media(audio: str) -> str:
    """Return the element that names the recording; none where it has no name."""
    if not audio:
        return ""
    path = PurePath(_clean(audio))
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    place = quote(path.as_posix(), safe="/")
    url = f"file://{place}" if path.is_absolute() else f"./{place}"
    return f"        <MEDIA_DESCRIPTOR MEDIA_URL={quoteattr(url)} MIME_TYPE={quoteattr(kind)}/>\n"


def _added(document: str, found: ElanDocument, tiers: Sequence[SpokenTier], parents: Sequence[int | None]) -> str:
    """Return a document with tiers behind its own, their slots among its own by time, and their linguistic types.

    `parents` has the place of the tier that each depends on; [] where none does, as in a document with its own types.
    """
    names = unused_names((" ".join(tier.name.split()) for tier in tiers), found.names)
    types = unused_names([_TYPE, _INNER_TYPE], found.types)
    slot_ids = _numbered("ts", [id for id, _, _ in found.slots])
    used = [f"a{document.encode('utf-8', 'replace')[slice(*found.last_id)].decode()}"] if found.last_id else []
    annotation_ids = _numbered("a", [*used, *(each.id for tier in found.tiers for each in tier.annotations)])
    slots: list[tuple[int, str]] = []
    pieces = []
    last = ""
    for name, tier, parent in zip_longest(names, tiers, parents):
        pieces.append(
            _tier_start(name, tier.speaker, types[parent is not None], None if parent is None else names[parent])
        )
        for row in tier.rows:
            last, start, end = next(annotation_ids), next(slot_ids), next(slot_ids)
            slots += [(row.start, start), (row.end, end)]
            pieces.append(
                "        <ANNOTATION>\n"
                f'            <ALIGNABLE_ANNOTATION ANNOTATION_ID="{last}" TIME_SLOT_REF1="{start}" '
                f'TIME_SLOT_REF2="{end}">\n'
                f"                <ANNOTATION_VALUE>{escape(_clean(' '.join(row.label.split())))}</ANNOTATION_VALUE>\n"
                "            </ALIGNABLE_ANNOTATION>\n        </ANNOTATION>\n"
            )
        pieces.append("    </TIER>\n    ")
    kinds = [_linguistic_type(types[0])]
    if any(parent is not None for parent in parents):
        kinds += [_linguistic_type(types[1], "Included_In"), _INCLUDED_IN]
    changes = [
        *_slots_among(found, sorted(slots)),
        (found.tiers_end, found.tiers_end, "".join([*pieces, *kinds])),
    ]
    if found.last_id is not None and last:
        changes.append((*found.last_id, _LETTERS.sub("", last, count=1)))
    data, parts, at = document.encode("utf-8", "replace"), list[bytes](), 0
    line_end = "\r\n" if "\r\n" in document else "\n"
    for start_place, end_place, text in sorted(changes, key=lambda change: change[0]):
        parts += [data[at:start_place], text.replace("\n", line_end).encode("utf-8", "replace")]
        at = end_place
    return b"".join([*parts, data[at:]]).decode("utf-8")


def _tier_start(name: str, speaker: str, type_id: str, parent: str | None) -> str:
    attributes = {
        "LINGUISTIC_TYPE_REF": type_id,
        **({} if parent is None else {"PARENT_REF": parent}),
        **({"PARTICIPANT": speaker} if speaker else {}),
        "TIER_ID": name,
    }
    return f"<TIER {' '.join(f'{key}={quoteattr(_clean(value))}' for key, value in attributes.items())}>\n"


def _linguistic_type(id: str, constraint: str = "") -> str:
    constraints = f'CONSTRAINTS="{constraint}" ' if constraint else ""
    return (
        f'<LINGUISTIC_TYPE {constraints}GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID={quoteattr(id)} '
        'TIME_ALIGNABLE="true"/>\n    '
    )


def _slots_among(found: ElanDocument, slots: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Return where new slots go, each before the first one of the document that is later: (place, place, text)."""
    at, texts = 0, dict[int, list[str]]()
    for time_ms, id in slots:
        while at < len(found.slots) and (found.slots[at][1] is None or (found.slots[at][1] or 0) <= time_ms):
            at += 1
        place = found.slots[at][2] if at < len(found.slots) else found.slots_end
        texts.setdefault(place, []).append(f'<TIME_SLOT TIME_SLOT_ID="{id}" TIME_VALUE="{time_ms}"/>\n        ')
    return [(place, place, "".join(pieces)) for place, pieces in texts.items()]


def _numbered(letters: str, taken: Sequence[str]) -> Iterator[str]:
    """Yield new ids: letters and a number above those that are taken."""
    numbers = [int(id[len(letters) :]) for id in taken if re.fullmatch(rf"{letters}[0-9]{{1,15}}", id)]
    number = max(numbers, default=0)
    while True:
        number += 1
        yield f"{letters}{number}"


def _clean(text: str) -> str:
    """Return a text without characters that XML cannot have."""
    return _NO_XML.sub("\ufffd", without_controls(text))
