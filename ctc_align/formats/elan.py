"""ELAN's files (EAF): tiers of words and tokens, in a file of their own or behind the tiers of the transcript's."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TextIO
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from ctc_align.formats.spoken_tiers import NamedRows, is_document, tiers_by_source, tiers_by_speaker, unused_names
from ctc_align.formats.writer import RECORDING, Writer
from ctc_align.text.control_characters import without_controls
from ctc_align.text.elan_files import ElanDocument, read_elan
from ctc_align.types import EAF, AlignmentData

_MS_PER_S = 1000
_TYPE = "ctc-align"
_NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_LETTERS = re.compile(r"[a-z]*", re.IGNORECASE)
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="ctc-align" DATE="1970-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
"""


class ElanWriter(Writer):
    """Tiers `words` and `tokens` (or `phones`) of annotations with times, in whole milliseconds, for each speaker.

    A transcript that is an ELAN file comes back as it is, with `TIER - words` and `TIER - tokens` for each tier of its
    text behind its own tiers. The new tiers depend on no other one, so that words may lie outside old annotations.
    """

    extension = ".eaf"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        if is_document(alignment.subtitles, EAF):
            tiers = tiers_by_source(alignment, replace(style, times=RECORDING), _MS_PER_S)
            file.write(_with_tiers(alignment.subtitles.document, tiers))
            return
        tiers = tiers_by_speaker(alignment, style, _MS_PER_S)
        header = f'    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">\n{_media(alignment.audio)}    </HEADER>\n'
        empty = f"{_HEAD}{header}    <TIME_ORDER>\n        </TIME_ORDER>\n    </ANNOTATION_DOCUMENT>\n"
        places = [empty.index(end) for end in ("</TIME_ORDER>", "</ANNOTATION_DOCUMENT>")]
        file.write(_added(empty, ElanDocument(slots_end=places[0], tiers_end=places[1]), tiers))


def _media(audio: str) -> str:
    """Return the element that names the recording; none where it has no name."""
    if not audio:
        return ""
    path = PurePath(_clean(audio))
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    place = quote(path.as_posix(), safe="/")
    url = f"file://{place}" if path.is_absolute() else f"./{place}"
    return f"        <MEDIA_DESCRIPTOR MEDIA_URL={quoteattr(url)} MIME_TYPE={quoteattr(kind)}/>\n"


def _with_tiers(document: str, tiers: Sequence[NamedRows]) -> str:
    return _added(document, read_elan(document), tiers)


def _added(document: str, found: ElanDocument, tiers: Sequence[NamedRows]) -> str:
    """Return a document with tiers behind its own, their slots among its own by time, and their linguistic type."""
    names = unused_names((" ".join(name.split()) for name, _ in tiers), found.names)
    type_id = unused_names([_TYPE], found.types)[0]
    slot_ids = _numbered("ts", [id for id, _, _ in found.slots])
    used = [f"a{document.encode('utf-8', 'replace')[slice(*found.last_id)].decode()}"] if found.last_id else []
    annotation_ids = _numbered("a", [*used, *(each.id for tier in found.tiers for each in tier.annotations)])
    slots: list[tuple[int, str]] = []
    pieces = []
    last = ""
    for name, (_, rows) in zip(names, tiers):
        pieces.append(f"<TIER LINGUISTIC_TYPE_REF={quoteattr(type_id)} TIER_ID={quoteattr(_clean(name))}>\n")
        for row in rows:
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
    kind = (
        f'<LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID={quoteattr(type_id)} TIME_ALIGNABLE="true"/>'
    )
    changes = [
        *_slots_among(found, sorted(slots)),
        (found.tiers_end, found.tiers_end, f"{''.join(pieces)}{kind}\n    "),
    ]
    if found.last_id is not None and last:
        changes.append((*found.last_id, _LETTERS.sub("", last, count=1)))
    data, parts, at = document.encode("utf-8", "replace"), list[bytes](), 0
    line_end = "\r\n" if "\r\n" in document else "\n"
    for start_place, end_place, text in sorted(changes, key=lambda change: change[0]):
        parts += [data[at:start_place], text.replace("\n", line_end).encode("utf-8", "replace")]
        at = end_place
    return b"".join([*parts, data[at:]]).decode("utf-8")


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
