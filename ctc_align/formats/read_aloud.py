"""A book that is read aloud: an EPUB 3 with the recordings inside, and each sentence or word lit while it is spoken.

See https://www.w3.org/TR/epub-33/#sec-media-overlays. Of the book's own text no character changes: sentences or words
become elements with ids, each page that is read has a media overlay (SMIL), and the package names them all.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.formats.read_aloud_package import BookFolder, SpokenClip, SpokenPage, href_from, refuse_old, write_book
from ctc_align.formats.sentences import sentences
from ctc_align.formats.time_order import is_timed
from ctc_align.formats.whole_files import placing
from ctc_align.reading import read_input
from ctc_align.text.book_pages import BookText, parse_xml
from ctc_align.text.epub import EpubArchive, SpinePage, open_epub
from ctc_align.text.page_spans import PageSource, PageSpan, SpanWord
from ctc_align.types import AlignmentData

SENTENCES, WORDS = UNITS = ("sentences", "words")
_MS_PER_S = 1000
_PAUSE_MS = 3000
"""A pause up to this long is played: players leap over what no clip has."""
_BOOK_BYTES = 8
"""Bytes of memory for each byte of a book, roughly."""


@dataclass(frozen=True)
class Reading:
    """An alignment of the book or of a part of it, the recording, and the name of the alignment in messages."""

    alignment: AlignmentData
    recording: Path
    name: str


class ReadAloud(NamedTuple):
    """A book that was written: its pages with sound and all of its pages, and how many elements are lit."""

    pages: int
    all_pages: int
    elements: int


class _BookPage(NamedTuple):
    page: SpinePage
    first: int
    source: PageSource


def write_read_aloud(book: Path, readings: Sequence[Reading], target: Path, by: str = SENTENCES) -> ReadAloud:
    """Write the book of several alignments to `target`, whole or not at all, and return what is in it.

    Args:
        book: the EPUB 3 that was aligned.
        readings: of the book or of its parts.
        by: out of `UNITS`: what is lit at a time.

    Raises:
        TranscriptError: the book cannot be read or changed, or is not what was aligned.
        UsageError: two alignments have the same words, or none has any.
        AudioError: a recording cannot be read.
        OutputError: the file cannot be written.
    """
    with open_epub(read_input(book, factor=_BOOK_BYTES), str(book)) as archive:
        refuse_old(archive)
        text, pages = _pages(archive)
        recordings = list(dict.fromkeys(reading.recording.resolve() for reading in readings))
        found: list[tuple[list[SpanWord], str]] = []
        for reading in readings:
            recording = recordings.index(reading.recording.resolve())
            found += [(unit, reading.name) for unit in _units(reading, text, by, recording)]
        found.sort(key=lambda unit: unit[0][0].first)
        _refuse_twice(found, text)
        units = [unit for unit, _ in found]
        spoken = list(_spoken(archive, pages, units))
        if not spoken:
            raise UsageError(f"{book}: no word of it has a time in the alignments: there is nothing to read aloud")
        with placing([target]) as parts:
            for _, part in parts:
                write_book(archive, spoken, recordings, part)
    return ReadAloud(len(spoken), len(pages), sum(len(page.clips) for page in spoken))


def _pages(archive: EpubArchive) -> tuple[str, list[_BookPage]]:
    """Return the text of a book and its pages, with the places of their text."""
    book, pages = BookText(), []
    for page in archive.spine()[1]:
        first = book.length
        try:
            pages.append(_BookPage(page, first, PageSource.added(archive.read(page.href), book, page.href, page.cfi)))
        except (ValueError, LookupError) as error:
            raise archive.fault(
                f"{page.href}: cannot be changed: {error}; mend that page (epubcheck names its faults), and align again"
            ) from None
    names = [page.page.href for page in pages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise archive.fault(f"{twice} is in the spine twice; a page has one overlay")
    return book.text, pages


def _units(reading: Reading, text: str, by: str, recording: int) -> Iterator[list[SpanWord]]:
    """Yield what is lit at a time, with times in the recording."""
    alignment = reading.alignment
    shift = alignment.text_offset or 0
    if text[shift : shift + len(alignment.text)] != alignment.text:
        raise TranscriptError(
            f"{reading.name}: its text is not that of the book; give the book that was aligned, and mend words in it, "
            "not in the alignment"
        )
    ordered = sorted(alignment.words, key=lambda word: word.char_start)
    starts = [word.char_start for word in ordered]
    spans = [(word.char_start, word.char_end) for word in ordered if is_timed(word)]
    if by == SENTENCES:
        found = sentences(alignment)
        spans = [(each.words[0].word.char_start, each.words[-1].word.char_end) for each in found]
    for first, last in spans:
        words = []
        for word in ordered[bisect_left(starts, first) : bisect_left(starts, last)]:
            times = None
            if is_timed(word) and word.start_s is not None and word.end_s is not None:
                times = (word.start_s + alignment.offset_s, word.end_s + alignment.offset_s)
            words.append(SpanWord(word.char_start + shift, word.char_end + shift, times, recording))
        yield words


def _refuse_twice(units: Sequence[tuple[Sequence[SpanWord], str]], text: str) -> None:
    """Raise UsageError, which says how much it is, where two alignments have times for the same words."""
    for (unit, name), (following, other) in pairwise(units):
        word = following[0]
        if word.first >= unit[-1].last:
            continue
        timed = [{one.first for unit, by in units if by == each for one in unit if one.times} for each in (name, other)]
        more = len(timed[0] & timed[1]) - 1
        and_more = f" and {more:,} more {'word' if more == 1 else 'words'}" if more > 0 and name != other else ""
        raise UsageError(
            f"{name} and {other} both have times for {text[word.first : word.last]!r}{and_more} (from character "
            f"{word.first} of the book); give one alignment for each part of it, and leave away (or delete) the other: "
            "an old one, a second take, or one of another book"
        )


def _spoken(
    archive: EpubArchive, pages: Sequence[_BookPage], units: Sequence[Sequence[SpanWord]]
) -> Iterator[SpokenPage]:
    """Yield the pages that are read, with their elements."""
    package = archive.spine()[0]
    style = BookFolder(package, archive.names).style
    starts = [unit[0].first for unit in units]
    edges = [*(bisect_left(starts, page.first) for page in pages), len(units)]
    made: list[tuple[SpinePage, bytes]] = []
    spans: list[tuple[int, PageSpan]] = []
    for page, start, end in zip(pages, edges, edges[1:]):
        if start == end:
            continue
        data, found = _marked(archive, page, units[start:end], href_from(style, posixpath.dirname(page.page.href)))
        spans += [(len(made), span) for span in found]
        made.append((page.page, data))
    clips = _clips([span for _, span in spans])
    for number, group in groupby(zip(spans, clips), key=lambda pair: pair[0][0]):
        page_of_spine, data = made[number]
        yield SpokenPage(page_of_spine, data, [clip for _, clip in group])


def _marked(
    archive: EpubArchive, page: _BookPage, units: Sequence[Sequence[SpanWord]], style_href: str
) -> tuple[bytes, list[PageSpan]]:
    """Return a page with elements for its units and a link to the style, and these elements."""
    source = page.source
    prefix = "spoken-"
    while prefix.encode() in source.data:
        prefix += "x-"
    data, spans = source.marked(units, prefix, f'rel="stylesheet" type="text/css" href={quoteattr(style_href)}')
    before, after = BookText(), BookText()
    before.add("", "", partial(parse_xml, source.data))
    after.add("", "", partial(parse_xml, data))
    if before.text != after.text:
        raise archive.fault(
            f"{page.page.href}: its text would change with elements in it; leave that page as plain text"
        )
    return data, spans


def _clips(spans: Sequence[PageSpan]) -> list[SpokenClip]:
    """Return the stretches of the recordings, in whole milliseconds; short pauses go with what is before them."""
    times = [(round(span.start_s * _MS_PER_S), round(span.end_s * _MS_PER_S)) for span in spans]
    clips = []
    for place, (span, (start_ms, end_ms)) in enumerate(zip(spans, times)):
        if place + 1 < len(spans) and spans[place + 1].recording == span.recording:
            next_ms = times[place + 1][0]
            end_ms = next_ms if 0 <= next_ms - end_ms <= _PAUSE_MS else end_ms
        clips.append(SpokenClip(span.id, span.recording, start_ms, max(end_ms, start_ms + 1)))
    return clips
