"""Read-aloud books: SMIL for EPUB 3's media overlays, and a whole EPUB with the recordings inside.

See https://www.w3.org/TR/epub-33/#sec-media-overlays. The text of the book keeps every character:
sentences or words become elements with ids, each page that is read gets a media overlay (SMIL), and
the package document lists them all. The format SMIL without a book refers to elements of the book
that have an id: the finest ones that together contain all of their text, which are sentences or
words if the book marks them, otherwise paragraphs.

Recordings of EPUB 3's core media types (MP3, AAC in MP4, Opus in Ogg) are copied unchanged; all
others are encoded as Opus.
"""

from __future__ import annotations

import functools
import io
import logging
import posixpath
import shutil
import time
import zipfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path, PurePath
from typing import NamedTuple, TextIO
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from ctc_align.audio.media_file import MediaFile, NotMediaError
from ctc_align.errors import OutputError, TranscriptError, UsageError
from ctc_align.files.epub import MIMETYPE, BookText, EpubArchive, SpinePage, open_epub, parse_xml
from ctc_align.files.page_spans import PageSource, PageSpan, SourceNode, SpanWord, XmlSource
from ctc_align.files.sentences import sentences
from ctc_align.files.source_cues import MS_PER_S, clock, longest_run
from ctc_align.files.whole_files import placing
from ctc_align.files.writer import (
    RECORDING,
    Replacement,
    Style,
    Writer,
    edited,
    is_timed,
    word_rows,
    words_by_time,
)
from ctc_align.reading import read_input
from ctc_align.text.characters import printable, without_controls
from ctc_align.types import Alignment, BookPlace
from ctc_align.view.page import opus_of

smil_clock = functools.partial(clock, hour_digits=1)
"""A full clock value of SMIL, from milliseconds."""
logger = logging.getLogger(__name__)
_SAFE = "/!$&'()*+,;=:@~"
ACTIVE_CLASS = "ctc-align-spoken"
_STYLE = f".{ACTIVE_CLASS} {{\n  background-color: #ffe28a;\n  color: #000000;\n}}\n"
_OPUS = (".opus", "audio/ogg; codecs=opus")
_MOST_COPIED_BYTES = 8 * 2**30
"""A book whose pictures, fonts and other files unpack to more is refused."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
SENTENCES, WORDS = UNITS = ("sentences", "words")
_PAUSE_MS = 3000
"""A pause up to this long belongs to a clip; players skip everything that no clip covers."""
_BOOK_BYTES = 8
"""Approximate bytes of memory for each byte of a book."""


class SmilWriter(Writer):
    """A SMIL document: a `seq` for each page.

    It has a `par` for each element with an id whose words are read.

    Pages and elements are in the order of the book; `text` refers to them by their names in the
    book's archive. `audio` is the recording's file name, with the times of the element's first and
    last word in the recording, whatever the style says about times. If another reading cuts an
    element in two, it has the longer part. Paragraphs without an id cannot be named: their text is
    in no `par`. A warning says how many words are left out, and why.

    Raises:
        OutputError: the transcript is not a book, or no element that is read has an id.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        clips, nameless, apart = _smil_clips(alignment)
        if not clips:
            what = "the transcript is not a book"
            other = ""
            if alignment.places:
                what = "no element that is read has an id"
                other = "; ctc-align book, of the book and the JSON, needs none"
            raise OutputError(
                f"{alignment.utterance}: SMIL needs an EPUB book, whose elements with ids it names,"
                f" but {what}; omit smil from --format{other}"
            )
        reasons = [f"{nameless:,} in elements without an id"] * bool(nameless)
        reasons += [f"{apart:,} read apart from the rest of their element"] * bool(apart)
        if reasons:
            logger.warning(
                "%s: %s of the words with times are not in the SMIL document: %s; ctc-align book,"
                " of the book and the JSON, gives every sentence an id",
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
    """An element of a page and the stretch of a recording in which it is read.

    `text` and `audio` are URLs.
    """

    text: str
    audio: str
    start_ms: int
    end_ms: int


class SmilPage(NamedTuple):
    """A page, by its URL, and its clips in the order of reading."""

    href: str
    clips: Sequence[SmilClip]


def write_smil(pages: Iterable[SmilPage], file: TextIO) -> None:
    """Write a media overlay: a `seq` for each page, with a `par` for each clip."""
    file.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<smil xmlns="http://www.w3.org/ns/SMIL" '
        'xmlns:epub="http://www.idpf.org/2007/ops" version="3.0">\n  <body>\n'
    )
    number = 0
    for page_number, page in enumerate(pages, 1):
        file.write(f'    <seq id="page{page_number}" epub:textref={quoteattr(page.href)}>\n')
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


def _smil_clips(alignment: Alignment) -> tuple[list[tuple[BookPlace, int, int]], int, int]:
    """Return the elements that are read, with their times in the recording, milliseconds.

    They are in the order of the book.

    Also return the numbers of omitted words with times: those in no element with an id, and those
    that are read apart from the rest of their element.
    """
    rows = word_rows(alignment, Style(times=RECORDING), MS_PER_S)
    row_of = {
        id(word): (number, row)
        for number, (word, row) in enumerate(zip(words_by_time(alignment), rows))
    }
    timed = [word for word in alignment.words if is_timed(word)]
    starts = [word.char_start for word in timed]
    clips = []
    held = 0
    apart = 0
    for place in _finest([place for place in alignment.places if place.id], starts):
        words = timed[bisect_left(starts, place.char_start) : bisect_left(starts, place.char_end)]
        run = longest_run([row_of[id(word)] for word in words])
        clips.append((place, run[0].start, run[-1].end))
        held = held + len(words)
        apart = apart + len(words) - len(run)
    return clips, len(timed) - held, apart


def _finest(places: Sequence[BookPlace], starts: Sequence[int]) -> list[BookPlace]:
    """Return elements with words, none inside another.

    Inner ones replace an element if they have all of its words.
    """
    found: list[BookPlace] = []
    at = 0
    ordered = sorted(places, key=lambda place: (place.char_start, -place.char_end))
    while at < len(ordered):
        outer = ordered[at]
        at += 1
        inner = []
        while (
            at < len(ordered)
            and ordered[at].char_start < outer.char_end
            and ordered[at].href == outer.href
        ):
            inner.append(ordered[at])
            at += 1
        if inner:
            finer = _finest(inner, starts)
        else:
            finer = []
        whole = _count(starts, outer)
        if finer and sum(_count(starts, place) for place in finer) == whole:
            found += finer
        elif whole:
            found.append(outer)
    return found


def _count(starts: Sequence[int], place: BookPlace) -> int:
    """Return how many words with times begin in an element."""
    return bisect_left(starts, place.char_end) - bisect_left(starts, place.char_start)


def quoted(name: str) -> str:
    """Return a name as a URL, without what URLs cannot hold.

    Halves of surrogate pairs and control characters.
    """
    return quote(without_controls(name).encode("utf-8", "replace"), safe=_SAFE)


class SpokenClip(NamedTuple):
    """An element of a page and the stretch in which it is read, by its recording's index.

    The index is that in a list of recordings.
    """

    id: str
    recording: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class SpokenPage:
    """A page with its new bytes, and those of its elements that are read, in reading order."""

    page: SpinePage
    data: bytes
    clips: Sequence[SpokenClip]


class BookFolder:
    """The names of the new files, in a new folder beside the package document."""

    def __init__(self, package: str, names: set[str]) -> None:
        self.root = posixpath.dirname(package)
        name = "read-aloud"
        while any(each.startswith(posixpath.join(self.root, name)) for each in names):
            name += "-x"
        self.path = posixpath.join(self.root, name)

    @property
    def style(self) -> str:
        return self.named("spoken.css")

    def named(self, name: str) -> str:
        """Return the name in the archive of a file of the folder."""
        return posixpath.join(self.path, name)

    def overlay(self, number: int) -> str:
        """Return the name of the overlay of a page.

        The index counts the pages that are read, from 0.
        """
        return self.named(f"page{number + 1}.smil")


def href_from(name: str, folder: str) -> str:
    """Return the URL that leads from a file in `folder` to a file of the archive."""
    return quoted(posixpath.relpath(name, folder or "."))


def sound_kind(recording: Path) -> tuple[str, str] | None:
    """Return the extension and the media type of a recording that is copied into a book.

    None for all others.
    """
    try:
        with MediaFile(str(recording), str(recording)) as media:
            codec = media.stream.codec_context
            streams = media.container.streams
            is_film = any(
                "ATTACHED_PIC" not in str(stream.disposition.name) for stream in streams.video
            )
            if is_film or len(streams.audio) > 1:
                return None
            if media.format == "mp3":
                return ".mp3", "audio/mpeg"
            if media.format.startswith("mov") and codec.name == "aac" and codec.profile == "LC":
                return ".m4a", "audio/mp4"
            if media.format == "ogg" and codec.name in ("opus", "libopus"):
                return _OPUS
            return None
    except NotMediaError:
        return None


def write_book(
    book: EpubArchive, pages: Sequence[SpokenPage], recordings: Sequence[Path], part: Path
) -> None:
    """Write the book with its pages, their overlays and the recordings, to an unused path.

    Raises:
        AudioError: a recording cannot be read.
        TranscriptError: the book has media overlays already, or is too large when unpacked.
    """
    package = book.spine()[0]
    folder = BookFolder(package, book.names)
    kinds = [sound_kind(recording) or _OPUS for recording in recordings]
    sounds = [
        folder.named(f"audio{number}{extension}") for number, (extension, _) in enumerate(kinds, 1)
    ]
    items = [(folder.style, "text/css"), *zip(sounds, (kind for _, kind in kinds))]
    changed: dict[str, bytes | str] = {page.page.href: page.data for page in pages}
    changed[package] = _package(book, package, pages, folder, items)
    new = {folder.style: _STYLE} | {
        folder.overlay(number): _overlay(page, sounds, folder) for number, page in enumerate(pages)
    }
    with zipfile.ZipFile(part, "x", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype", _FIRST_DATE), MIMETYPE)
        _copy(book, archive, changed)
        for name, content in new.items():
            archive.writestr(_info(name), content)
        for name, recording in zip(sounds, recordings):
            with archive.open(_info(name, zipfile.ZIP_STORED), "w", force_zip64=True) as file:
                if sound_kind(recording) is None:
                    file.write(opus_of(recording))
                else:
                    with open(recording, "rb") as source:
                        shutil.copyfileobj(source, file)


def _info(name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIRST_DATE)
    info.compress_type = method
    return info


def _copy(book: EpubArchive, archive: zipfile.ZipFile, changed: Mapping[str, bytes | str]) -> None:
    """Copy all files of a book; those in `changed` get their new content."""
    left = _MOST_COPIED_BYTES
    for info in {info.filename: info for info in book.archive.infolist()}.values():
        if info.filename == "mimetype":
            continue
        if info.filename in changed:
            archive.writestr(_info(info.filename), changed[info.filename])
            continue
        left -= info.file_size
        if left < 0:
            raise book.fault(
                f"expected a book, got one that unpacks to more than {_MOST_COPIED_BYTES >> 30} GiB"
            )
        with (
            book.archive.open(info) as source,
            archive.open(_info(info.filename, info.compress_type), "w") as file,
        ):
            shutil.copyfileobj(source, file)


def _overlay(page: SpokenPage, sounds: Sequence[str], folder: BookFolder) -> str:
    """Return the media overlay of a page."""
    href = href_from(page.page.href, folder.path)
    urls = [href_from(name, folder.path) for name in sounds]
    clips = [
        SmilClip(f"{href}#{clip.id}", urls[clip.recording], clip.start_ms, clip.end_ms)
        for clip in page.clips
    ]
    file = io.StringIO()
    write_smil([SmilPage(href, clips)], file)
    return file.getvalue()


def refuse_old(book: EpubArchive) -> None:
    """Raise TranscriptError for a book that is not EPUB 3.

    The message names a converter that keeps its text.
    """
    version = book.version()
    if not version.startswith("3"):
        raise book.fault(
            f"expected an EPUB 3 book, got version {version or 'unknown'}, which cannot hold a"
            " recording; make it one: ebook-polish --upgrade-book BOOK.epub NEW.epub (Calibre),"
            " and give the new book: if its text is the same, which is checked, the alignments are"
            " good for it"
        )


def _package(
    book: EpubArchive,
    name: str,
    pages: Sequence[SpokenPage],
    folder: BookFolder,
    items: Sequence[tuple[str, str]],
) -> bytes:
    """Return the package document with the overlays and their lengths.

    It also lists the new files (name, media type).
    """
    data = book.read(name)
    source = XmlSource(data)
    try:
        parse_xml(data, source)
    except ValueError as error:
        raise book.fault(f"{name}: cannot be changed: {error}") from None
    manifest = _only(book, name, source, "manifest")
    metadata = _only(book, name, source, "metadata")
    entries = {node.attributes.get("id"): node for node in source.nodes if node.name == "item"}
    has_media = any(
        node.attributes.get("property", "").startswith("media:") for node in source.nodes
    )
    if has_media or any("media-overlay" in node.attributes for node in entries.values()):
        raise book.fault("it has media overlays already; give the book without them")
    prefix = "read-aloud"
    while any(str(node.attributes.get("id", "")).startswith(prefix) for node in source.nodes):
        prefix += "-x"
    edits = _modified_now(source)
    metas = []
    new = []
    for number, page in enumerate(pages):
        id = f"{prefix}-page{number + 1}"
        edits.append(source.in_start_tag(entries[page.page.id], f'media-overlay="{id}"'))
        metas.append(f'property="media:duration" refines="#{id}">{smil_clock(_length_ms([page]))}')
        new.append((id, folder.overlay(number), "application/smil+xml"))
    metas.append(f'property="media:duration">{smil_clock(_length_ms(pages))}')
    metas.append(f'property="media:active-class">{ACTIVE_CLASS}')
    new += [(f"{prefix}-{number}", file, kind) for number, (file, kind) in enumerate(items, 1)]
    tag = manifest.prefix + "item"
    lines = [
        f'<{tag} id="{id}" href={quoteattr(href_from(file, folder.root))} media-type="{kind}"/>\n'
        for id, file, kind in new
    ]
    edits.append(source.at_end_of(manifest, "".join(lines)))
    tag = metadata.prefix + "meta"
    edits.append(source.at_end_of(metadata, "".join(f"<{tag} {meta}</{tag}>\n" for meta in metas)))
    return edited(data, edits)


def _modified_now(source: XmlSource) -> list[Replacement]:
    """Return the edits that set the package's modification time to now, if it has one."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    edits = []
    for node in source.nodes:
        end = source.data.rindex(b"<", 0, node.end)
        if node.attributes.get("property") == "dcterms:modified" and source.data.startswith(
            b"</", end
        ):
            edits.append((source.data.rindex(b">", node.start, end) + 1, end, now))
    return edits


def _length_ms(pages: Sequence[SpokenPage]) -> int:
    return sum(clip.end_ms - clip.start_ms for page in pages for clip in page.clips)


def _only(book: EpubArchive, file: str, source: XmlSource, name: str) -> SourceNode:
    found = [node for node in source.nodes if node.name == name]
    if len(found) != 1:
        raise book.fault(
            f"{file}: expected one element {name}, got {len(found)}; it is not a complete EPUB book"
        )
    return found[0]


@dataclass(frozen=True)
class Reading:
    """An alignment of the book or of a part of it, and the recording.

    `name` is what messages call the alignment.
    """

    alignment: Alignment
    recording: Path
    name: str


class ReadAloud(NamedTuple):
    """A book that was written.

    The numbers of its pages with sound, of all its pages, and of highlighted elements.
    """

    pages: int
    all_pages: int
    elements: int


class _BookPage(NamedTuple):
    page: SpinePage
    first: int
    source: PageSource


def write_read_aloud(
    book: Path, readings: Sequence[Reading], target: Path, by: str = SENTENCES
) -> ReadAloud:
    """Write the book of several alignments to `target`, whole or not at all.

    Return what is in it.

    Args:
        book: the EPUB 3 that was aligned.
        readings: of the book or of its parts.
        by: one of `UNITS`: what players highlight at a time.

    Raises:
        TranscriptError: the book cannot be read or changed, or is not the one that was aligned.
        UsageError: two alignments have times for the same words, or none has any.
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
            raise UsageError(
                f"{book}: no word of it has a time in the alignments: there is nothing to read"
                " aloud"
            )
        with placing([target]) as parts:
            for _, part in parts:
                write_book(archive, spoken, recordings, part)
    return ReadAloud(len(spoken), len(pages), sum(len(page.clips) for page in spoken))


def _pages(archive: EpubArchive) -> tuple[str, list[_BookPage]]:
    """Return the text of a book and its pages, with the offsets of their text."""
    book = BookText()
    pages = []
    for page in archive.spine()[1]:
        first = book.length
        try:
            pages.append(
                _BookPage(
                    page,
                    first,
                    PageSource.added(archive.read(page.href), book, page.href, page.cfi),
                )
            )
        except (ValueError, LookupError) as error:
            raise archive.fault(
                f"{page.href}: cannot be changed: {error}; correct it (epubcheck names its faults),"
                " and align again"
            ) from None
    names = [page.page.href for page in pages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise archive.fault(f"{twice} is in the spine twice; a page has one overlay")
    return book.text, pages


def _units(reading: Reading, text: str, by: str, recording: int) -> Iterator[list[SpanWord]]:
    """Yield the units that are highlighted at a time, with times in the recording."""
    alignment = reading.alignment
    shift = alignment.text_offset or 0
    if text[shift : shift + len(alignment.text)] != alignment.text:
        raise TranscriptError(
            f"{reading.name}: its text differs from the book's; give the book that was aligned, and"
            " correct words in it, not in the alignment"
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
    """Raise UsageError if two alignments have times for the same words.

    The message says how many.
    """
    for (unit, name), (following, other) in pairwise(units):
        word = following[0]
        if word.first >= unit[-1].last:
            continue
        timed = [
            {one.first for unit, by in units if by == each for one in unit if one.times}
            for each in (name, other)
        ]
        more = len(timed[0] & timed[1]) - 1
        and_more = ""
        if more > 0 and name != other:
            and_more = f" and {more:,} more {'word' if more == 1 else 'words'}"
        raise UsageError(
            f"{name} and {other} both have times for {text[word.first : word.last]!r}{and_more}"
            f" (from character {word.first} of the book); give one alignment for each part of it,"
            " and omit (or delete) the other: an old one, a second take, or one of a different"
            " book"
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
        data, found = _marked(
            archive, page, units[start:end], href_from(style, posixpath.dirname(page.page.href))
        )
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
    data, spans = source.marked(
        units, prefix, f'rel="stylesheet" type="text/css" href={quoteattr(style_href)}'
    )
    before, after = BookText(), BookText()
    before.add("", "", functools.partial(parse_xml, source.data))
    after.add("", "", functools.partial(parse_xml, data))
    if before.text != after.text:
        raise archive.fault(
            f"{page.page.href}: its text would change with elements in it; leave that page as plain"
            " text"
        )
    return data, spans


def _clips(spans: Sequence[PageSpan]) -> list[SpokenClip]:
    """Return the stretches of the recordings, in whole milliseconds.

    A short pause belongs to the stretch before it.
    """
    times = [(round(span.start_s * MS_PER_S), round(span.end_s * MS_PER_S)) for span in spans]
    clips = []
    for index, (span, (start_ms, end_ms)) in enumerate(zip(spans, times)):
        if index + 1 < len(spans) and spans[index + 1].recording == span.recording:
            next_ms = times[index + 1][0]
            if 0 <= next_ms - end_ms <= _PAUSE_MS:
                end_ms = next_ms
        clips.append(SpokenClip(span.id, span.recording, start_ms, max(end_ms, start_ms + 1)))
    return clips
