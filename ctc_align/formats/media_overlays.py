"""SMIL of EPUB 3's media overlays: when each element of a book's pages is read.

See https://www.w3.org/TR/epub-33/#sec-media-overlays. The elements are those of the book that have an id, the finest
that hold all of their text: sentences or words where the book marks them, else paragraphs.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import NamedTuple, TextIO
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from ctc_align.errors import OutputError
from ctc_align.formats.time_order import is_timed, words_by_time
from ctc_align.formats.writer import RECORDING, Style, TimedLabel, Writer, word_rows
from ctc_align.text.control_characters import printable, without_controls
from ctc_align.types import AlignmentData, BookPlace

_MS_PER_S = 1000
logger = logging.getLogger(__name__)
_SAFE = "/!$&'()*+,;=:@~"


class SmilWriter(Writer):
    """A SMIL document: for each page a `seq`, in it a `par` for each element with an id of which words are read.

    Pages and elements are in the order of the book, `text` names them by their place in the book's archive; `audio` is
    the recording's file name, with the times of the element's first and last word in the recording, whatever the style
    says of times. An element that is cut in two by another reading has the longer part. Paragraphs without an
    id cannot be named: their text is in no `par`. A warning says how many words are left out, and why.

    Raises:
        OutputError: the transcript is no book, or no element that is read has an id.
    """

    extension = ".smil"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        clips, nameless, apart = _clips(alignment)
        if not clips:
            what = "no element that is read has an id" if alignment.places else "the transcript is none"
            other = "; ctc-align book, of the book and the JSON, needs none" if alignment.places else ""
            raise OutputError(
                f"{alignment.utterance}: SMIL needs an EPUB book, whose elements with ids it names, but {what}; leave "
                f"smil out of --format{other}"
            )
        reasons = [f"{nameless:,} in elements without an id"] * bool(nameless)
        reasons += [f"{apart:,} read apart from the rest of their element"] * bool(apart)
        if reasons:
            logger.warning(
                "%s: %s of the words with times are not in the SMIL document: %s; ctc-align book, of the book and the "
                "JSON, gives every sentence an id",
                printable(alignment.utterance),
                f"{nameless + apart:,}",
                ", ".join(reasons),
            )
        audio = quoted(PurePath(alignment.audio or alignment.utterance).name)
        pages = [
            SmilPage(
                quoted(href),
                [
                    SmilClip(f"{quoted(href)}#{quoted(place.id)}", audio, start_ms, end_ms)
                    for place, start_ms, end_ms in group
                ],
            )
            for href, group in groupby(clips, key=lambda clip: clip[0].href)
        ]
        write_smil(pages, file)


class SmilClip(NamedTuple):
    """An element of a page and the stretch of a recording in which it is read; `text` and `audio` are URLs."""

    text: str
    audio: str
    start_ms: int
    end_ms: int


class SmilPage(NamedTuple):
    """A page, by its URL, and its clips in the order of reading."""

    href: str
    clips: Sequence[SmilClip]


def write_smil(pages: Iterable[SmilPage], file: TextIO) -> None:
    """Write a media overlay: a `seq` for each page, in it a `par` for each clip."""
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<smil xmlns="http://www.w3.org/ns/SMIL" '
        'xmlns:epub="http://www.idpf.org/2007/ops" version="3.0">\n  <body>\n'
    )
    number = 0
    for place, page in enumerate(pages, 1):
        file.write(f'    <seq id="page{place}" epub:textref={quoteattr(page.href)}>\n')
        for clip in page.clips:
            number += 1
            times = f'clipBegin="{smil_clock(clip.start_ms)}" clipEnd="{smil_clock(clip.end_ms)}"'
            file.write(
                f'      <par id="par{number}">\n        <text src={quoteattr(clip.text)}/>\n'
                f"        <audio src={quoteattr(clip.audio)} {times}/>\n"
                "      </par>\n"
            )
        file.write("    </seq>\n")
    file.write("  </body>\n</smil>\n")


def _clips(alignment: AlignmentData) -> tuple[list[tuple[BookPlace, int, int]], int, int]:
    """Return the elements that are read, in the order of the book, with their times in the recording, milliseconds.

    Then the numbers of words with times that are left out: those in no element with an id, and those that are read
    apart from the rest of theirs.
    """
    rows = word_rows(alignment, Style(times=RECORDING), _MS_PER_S)
    row_of = {id(word): (number, row) for number, (word, row) in enumerate(zip(words_by_time(alignment), rows))}
    timed = [word for word in alignment.words if is_timed(word)]
    starts = [word.char_start for word in timed]
    clips, held, apart = [], 0, 0
    for place in _finest([place for place in alignment.places if place.id], starts):
        words = timed[bisect_left(starts, place.char_start) : bisect_left(starts, place.char_end)]
        run = _longest([row_of[id(word)] for word in words])
        clips.append((place, run[0].start, run[-1].end))
        held, apart = held + len(words), apart + len(words) - len(run)
    return clips, len(timed) - held, apart


def _finest(places: Sequence[BookPlace], starts: Sequence[int]) -> list[BookPlace]:
    """Return places that do not lie in each other, with words: those inside one where they hold all of its words."""
    found: list[BookPlace] = []
    at = 0
    ordered = sorted(places, key=lambda place: (place.char_start, -place.char_end))
    while at < len(ordered):
        outer = ordered[at]
        at += 1
        inner = []
        while at < len(ordered) and ordered[at].char_start < outer.char_end and ordered[at].href == outer.href:
            inner.append(ordered[at])
            at += 1
        finer = _finest(inner, starts) if inner else []
        whole = _count(starts, outer)
        if finer and sum(_count(starts, place) for place in finer) == whole:
            found += finer
        elif whole:
            found.append(outer)
    return found


def _count(starts: Sequence[int], place: BookPlace) -> int:
    """Return how many words with times begin in a place."""
    return bisect_left(starts, place.char_end) - bisect_left(starts, place.char_start)


def _longest(rows: Sequence[tuple[int, TimedLabel]]) -> list[TimedLabel]:
    """Return the longest run of rows that follow each other in time, the first of several."""
    runs: list[list[tuple[int, TimedLabel]]] = []
    for number, row in rows:
        if not runs or number != runs[-1][-1][0] + 1:
            runs.append([])
        runs[-1].append((number, row))
    return [row for _, row in max(runs, key=len)]


def smil_clock(milliseconds: int) -> str:
    """Return a full clock value of SMIL.

    >>> smil_clock(3_661_001)
    '1:01:01.001'
    """
    seconds, rest = divmod(milliseconds, _MS_PER_S)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"


def quoted(name: str) -> str:
    """Return a name as a URL, without what none can have: halves of surrogate pairs and control characters."""
    return quote(without_controls(name).encode("utf-8", "replace"), safe=_SAFE)
