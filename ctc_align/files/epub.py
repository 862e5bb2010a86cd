"""EPUB books as transcripts.

The text of the pages in the order of the spine, and the elements of its paragraphs.

EPUB 2 and 3 (https://www.w3.org/TR/epub-33/): a ZIP archive whose META-INF/container.xml names the
package document, whose spine names the pages in order. The table of contents (`nav`) and pages
outside the reading order (`linear="no"`) are left out. Nothing is fetched, no link is followed, and
a book that is encrypted or unpacks to too much is refused.

In a page, block elements separate paragraphs; white space becomes one space. Text that is not read
aloud is left out: scripts and styles, page numbers, note marks, the readings above Chinese
characters. A page is read as XML, or as HTML if it is not well-formed XML; entities that a page
declares are never expanded.
"""

from __future__ import annotations

import html
import io
import logging
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from ctc_align.errors import CtcAlignError, TranscriptError
from ctc_align.reading import read_input
from ctc_align.text.characters import word_set
from ctc_align.text.languages import known_code
from ctc_align.text.markup import distinct_spans
from ctc_align.types import BookPlace, LanguageSpan, Transcript

PARAGRAPH = "\n\n"
"""The characters between two paragraphs of the text."""
MOST_DEPTH = 1000
"""The most nested elements; a page with more is refused."""
_BLOCKS = word_set(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset"
    " figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav"
    " ol optgroup option p pre section summary table tbody td tfoot th thead tr ul"
)
_UNREAD = word_set(
    "annotation annotation-xml audio canvas head iframe object rp rt script style svg template"
    " title video"
)
_UNREAD_TYPES = frozenset(("noteref", "pagebreak", "doc-noteref", "doc-pagebreak"))
"""Values of `epub:type` and `role` for a page number, and for the mark of a note."""
_VOID = word_set("area base br col embed hr img input link meta param source track wbr")
_SPACE = re.compile(r"[ \t\n\r\f\v\xa0]+")
_Attributes = Mapping[str, str]
MOST_ELEMENTS = 2_000_000
"""A book with more is refused: it takes seconds to parse them."""
MOST_CHARS = 16_000_000
"""A book with a longer text is refused: four Bibles."""
MOST_HELD = 256 * 2**20
_PLACE_BYTES = 300
MIMETYPE = b"application/epub+zip"
CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
MOST_PAGE_BYTES = 16 * 2**20
"""A file in the archive that unpacks to more is refused."""
MOST_BYTES = 64 * 2**20
"""A book whose pages together unpack to more is refused."""
MOST_MALFORMED_BYTES = 4 * 2**20
"""A page that is not well-formed is read as HTML up to this size, because that may take long."""
MOST_FILES = 65_535
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Encryption algorithms that are used only for fonts."""
_PAGES = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
_ENCRYPTED = (
    "expected an EPUB book that can be read, got one that is encrypted (DRM); give its text as a"
    " plain text file, or a copy without protection"
)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
logger = logging.getLogger(__name__)


class Handlers:
    """The events of a document, XML or HTML.

    Names are in lower case, without their namespaces' prefixes.
    """

    def begin(self, parser: expat.XMLParserType) -> None:
        """Take the parser of an XML document, before its first event."""

    def start(self, name: str, attributes: _Attributes) -> None:
        """Begin an element."""

    def end(self, name: str) -> None:
        """End the innermost open element."""

    def characters(self, data: str) -> None:
        """Handle text between tags."""


def parse_xml(data: bytes, handlers: Handlers) -> None:
    """Read an XML document; the names of HTML's entities are known, no matter what the DTD says.

    Raises:
        ValueError: the document is not well-formed, or declares its own entities.
    """

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities of its own, which books have no use for")

    def start(name: str, attributes: dict[str, str]) -> None:
        handlers.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def skipped(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            handlers.characters(html.unescape(f"&{name};"))

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.UseForeignDTD(True)  # else an entity of HTML is an error in a page without a DOCTYPE
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = skipped
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: handlers.end(_local(name))
    parser.CharacterDataHandler = handlers.characters
    handlers.begin(parser)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"line {error.lineno}: {expat.ErrorString(error.code)}") from None
    except LookupError as error:  # an encoding that nobody knows
        raise ValueError(str(error)) from None


def parse_html(data: bytes, handlers: Handlers) -> None:
    """Read a page that is not XML as browsers do.

    The end of an element also closes the open elements inside it.
    """
    reader = _HtmlReader(handlers)
    reader.feed(data.decode("utf-8-sig", "replace"))
    reader.close()
    reader.close_all()


def _local(name: str) -> str:
    return name.rpartition(":")[2].lower()


class _HtmlReader(HTMLParser):
    def __init__(self, handlers: Handlers) -> None:
        super().__init__(convert_charrefs=True)
        self._handlers = handlers
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p" and self._open and self._open[-1] == "p":
            self.handle_endtag("p")
        self._open.append(tag)
        self._handlers.start(_local(tag), {_local(name): value or "" for name, value in attrs})
        if tag in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while (last := self._open.pop()) != tag:
                self._handlers.end(_local(last))
            self._handlers.end(_local(tag))

    def handle_data(self, data: str) -> None:
        self._handlers.characters(data)

    def close_all(self) -> None:
        """End what is still open."""
        while self._open:
            self._handlers.end(_local(self._open.pop()))


@dataclass
class _Element:
    """An open element.

    Its steps in the page's CFI, its id, and where its text began (None: it has no text yet).
    """

    name: str
    steps: str
    id: str
    is_unread: bool
    is_block: bool
    children: int = 0
    start: int | None = None
    block: _Element | None = None
    language: str = ""


@dataclass
class BookText(Handlers):
    """The text of a book and its elements, built page by page."""

    places: list[BookPlace] = field(default_factory=list)
    languages: list[LanguageSpan] = field(default_factory=list)
    length: int = 0
    _pieces: list[str] = field(default_factory=list)
    _open: list[_Element] = field(default_factory=list)
    _elements: int = 0
    _held: int = 0
    """Bytes of memory of the places, roughly."""
    _href: str = ""
    _cfi: str = ""
    _paragraph: tuple[int, _Element] | None = None
    """The start of the paragraph under way, and the block that its text is in."""
    _space: str = ""
    """The characters before the next ones of the paragraph: none, a space, or a line end."""

    @property
    def text(self) -> str:
        """The text so far, with paragraphs separated by `PARAGRAPH`."""
        return "".join(self._pieces)

    def add(self, href: str, cfi: str, parse: Callable[[Handlers], None]) -> None:
        """Add a page; if it cannot be parsed, remove the parts that were added.

        Args:
            href: of the page, in the archive.
            cfi: the steps that lead to the page, "/6/4".
            parse: sends the page's events to this object.

        Raises:
            ValueError: from `parse`, or elements are nested too deeply.
        """
        self._href = href
        self._cfi = cfi
        self._open = []
        self._paragraph = None
        self._space = ""
        before = len(self._pieces), len(self.places), self.length, len(self.languages)
        try:
            parse(self)
        except ValueError:
            del self._pieces[before[0] :]
            del self.places[before[1] :]
            self.length = before[2]
            del self.languages[before[3] :]
            raise
        self._end_paragraph()

    def start(self, name: str, attributes: _Attributes) -> None:
        """Begin an element; a block ends the paragraph under way."""
        if len(self._open) >= MOST_DEPTH:
            raise ValueError(f"more than {MOST_DEPTH} nested elements")
        parent = self._open[-1] if self._open else None
        steps = ""
        is_unread = self._is_unread(name, attributes)
        if parent is not None:
            parent.children += 1
            steps = f"{parent.steps}/{2 * parent.children}"
            is_unread = is_unread or parent.is_unread
        element = _Element(name, steps, attributes.get("id", ""), is_unread, name in _BLOCKS)
        if "lang" in attributes:
            element.language = known_code(attributes["lang"])
        elif parent is not None:
            element.language = parent.language
        element.block = element if element.is_block or parent is None else parent.block
        self._elements += 1
        if self._elements > MOST_ELEMENTS or self._held > MOST_HELD:
            raise ValueError(
                f"more than {MOST_ELEMENTS:,} elements, or {MOST_HELD >> 20} MiB of places of"
                " paragraphs"
            )
        if element.is_block:
            self._end_paragraph()
        elif name == "br" and not is_unread and self._paragraph is not None:
            self._space = "\n"
        self._open.append(element)

    def end(self, name: str) -> None:
        """End the innermost element.

        An element with an id and text of its own within a paragraph is kept.
        """
        element = self._open.pop()
        if element.is_block:
            self._end_paragraph()
        elif element.id and element.start is not None:
            self._add_place(element, element.start)

    def characters(self, data: str) -> None:
        """Add characters to the paragraph of the innermost block."""
        if not self._open or self._open[-1].is_unread:
            return
        for number, run in enumerate(_SPACE.split(data)):
            if number and self._paragraph is not None:
                self._space = self._space or " "
            if run:
                self._add(run)

    def _is_unread(self, name: str, attributes: _Attributes) -> bool:
        types = {*attributes.get("type", "").split(), *attributes.get("role", "").split()}
        return name in _UNREAD or "hidden" in attributes or not _UNREAD_TYPES.isdisjoint(types)

    def _add(self, run: str) -> None:
        """Add characters without white space, after the pending separator."""
        if self._paragraph is None:
            before = ""
            if self.length:
                before = PARAGRAPH
            self._paragraph = self.length + len(before), self._open[-1].block or self._open[0]
        else:
            before = self._space
        self._pieces += (before, run)
        self._space = ""
        start = self.length + len(before)
        self.length = start + len(run)
        if self.length > MOST_CHARS:
            raise ValueError(f"the book has more than {MOST_CHARS:,} characters")
        self._mark_language(start, is_new=before == PARAGRAPH)
        for element in reversed(self._open):
            if element.start is not None:
                break
            element.start = start

    def _mark_language(self, start: int, *, is_new: bool) -> None:
        """Note that the passage from `start` is in a marked language, if it is.

        It joins the one before it in the same language, unless it begins a new paragraph.
        """
        language = self._open[-1].language
        if not language:
            return
        last = self.languages[-1] if self.languages else None
        if last and last.language == language and not is_new and start - last.char_end <= 1:
            start = self.languages.pop().char_start
        self.languages.append(LanguageSpan(start, self.length, language))

    def _end_paragraph(self) -> None:
        if self._paragraph is not None:
            start, block = self._paragraph
            self._add_place(block, start)
        self._paragraph = None
        self._space = ""

    def _add_place(self, element: _Element, start: int) -> None:
        cfi = f"epubcfi({self._cfi}!{element.steps})"
        self._held += _PLACE_BYTES + len(cfi) + len(element.id)
        self.places.append(BookPlace(start, self.length, self._href, element.id, cfi))


def is_epub(data: bytes) -> bool:
    """Return whether the bytes of a file are an EPUB book.

    >>> is_epub(b"PK\\x03\\x04 and no archive")
    False
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            with archive.open("mimetype") if "mimetype" in names else io.BytesIO() as file:
                return file.read(100).strip() == MIMETYPE or CONTAINER in names
    except _DAMAGE:
        return False


def epub_version(path: str) -> str:
    """Return the EPUB version that a book declares ("2.0", "3.0").

    "" if it cannot be read, which its reader reports.
    """
    try:
        with open_epub(read_input(path, factor=1), path) as book:
            return book.version()
    except (CtcAlignError, OSError):
        return ""


def read_epub(data: bytes, source: str) -> Transcript:
    """Return the text of a book, with the elements of its paragraphs.

    `source` is its name in messages.

    Raises:
        TranscriptError: the archive is damaged, encrypted, too large when unpacked, or lacks a part
            that it names.
    """
    with open_epub(data, source) as book:
        return book.transcript()


@contextmanager
def open_epub(data: bytes, source: str) -> Iterator[EpubArchive]:
    """Yield a book that can be read within the block; `source` is its name in messages.

    Raises:
        TranscriptError: as `read_epub`, at once or in the block.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield EpubArchive(archive, source)
    except _DAMAGE as error:
        raise TranscriptError(
            f"{source}: expected a whole EPUB book, got a damaged archive ({str(error)[:300]}); get it again,"
            " or save its text as a plain text file in UTF-8"
        ) from None


class SpinePage(NamedTuple):
    """A page of the spine.

    Its id in the manifest, its name in the archive, and the steps of its CFI.
    """

    id: str
    href: str
    cfi: str


class EpubArchive:
    """An open archive, which counts how much of it has been unpacked."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.archive = archive
        self.source = source
        self.unpacked = 0
        self.names = set(archive.namelist())
        if len(self.names) > MOST_FILES:
            raise self.fault(
                f"expected at most {MOST_FILES:,} files in a book, got {len(self.names):,}"
            )

    def fault(self, message: str) -> TranscriptError:
        message = " ".join(
            message.split()
        )  # a name in a book may be of any length, and hold line ends
        if len(message) <= 800:
            shown = message
        else:
            shown = f"{message[:600]} … {message[-200:]}"
        return TranscriptError(f"{self.source}: {shown}")

    def package(self) -> str:
        """Return the name of the package document, which META-INF/container.xml names."""
        paths = (
            attributes.get("full-path", "")
            for name, attributes, _ in self.elements(CONTAINER)
            if name == "rootfile"
        )
        path = next(filter(None, paths), "")
        if not path:
            raise self.fault(
                f"{CONTAINER} names no package document (full-path); it is not a complete EPUB book"
            )
        return posixpath.normpath(unquote(path))

    def version(self) -> str:
        """Return the EPUB version in the package document, "" if there is none."""
        name, attributes, _ = self.elements(self.package())[0]
        return attributes.get("version", "") if name == "package" else ""

    def spine(self) -> tuple[str, list[SpinePage]]:
        """Return the package document's name, and the pages in order, without the contents.

        Raises TranscriptError if a page is encrypted.
        """
        path = self.package()
        elements = self.elements(path)
        parts = [name for name, _, depth in elements if depth == 2]
        step = 2 * (parts.index("spine") + 1) if "spine" in parts else 6
        urls: dict[str, str | None] = {}
        for name, attributes, _ in elements:
            is_contents = "nav" in attributes.get("properties", "").split()
            is_page = attributes.get("media-type", "") in _PAGES and not is_contents
            if name == "item":
                url = attributes.get("href", "") if is_page else None
                urls.setdefault(attributes.get("id", ""), url)
        references = [attributes for name, attributes, _ in elements if name == "itemref"]
        pages = []
        for number, attributes in enumerate(references, 1):
            id = attributes.get("idref", "")
            url = urls.get(id)
            if attributes.get("linear", "yes").lower() != "no" and url is not None:
                href = posixpath.join(posixpath.dirname(path), unquote(url.partition("#")[0]))
                pages.append(SpinePage(id, posixpath.normpath(href), f"/{step}/{2 * number}"))
        if not pages:
            raise self.fault(f"{path} has no page in its spine; it is not a complete EPUB book")
        self.refuse_encrypted([path, *(page.href for page in pages)])
        return path, pages

    def transcript(self) -> Transcript:
        """Return the text of the spine."""
        book = BookText()
        for page in self.spine()[1]:
            self.add_page(book, page)
        return Transcript(
            book.text,
            places=tuple(sorted(book.places, key=lambda place: place.char_start)),
            languages=distinct_spans(book.text, book.languages),
        )

    def add_page(self, book: BookText, page: SpinePage) -> None:
        """Add the text of a page to that of a book."""
        href = page.href
        cfi = page.cfi
        data = self.read(href)
        try:
            book.add(href, cfi, partial(parse_xml, data))
        except ValueError as error:
            if b"<!ENTITY" in data or len(data) > MOST_MALFORMED_BYTES:
                raise self.fault(
                    f"{href}: cannot be read: {error}; correct that page, or save the text"
                ) from None
            logger.warning(
                "%s: %s: not well-formed (%s); it is read as HTML", self.source, href, error
            )
            try:
                book.add(href, cfi, partial(parse_html, data))
            except ValueError as worse:
                raise self.fault(
                    f"{href}: cannot be read: {worse}; correct that page, or save the text"
                ) from None

    def elements(self, name: str) -> list[tuple[str, _Attributes, int]]:
        """Return the elements of an XML file of the archive, with their attributes and depths."""
        elements = _Elements()
        try:
            parse_xml(self.read(name), elements)
        except ValueError as error:
            raise self.fault(
                f"{name}: expected XML, got a file that cannot be read: {error}"
            ) from None
        return elements.found

    def refuse_encrypted(self, needed: list[str]) -> None:
        """Raise TranscriptError if a page is encrypted; fonts may be."""
        algorithm = ""
        encrypted = set()
        for name, attributes, _ in self.elements(ENCRYPTION) if ENCRYPTION in self.names else ():
            if name == "encrypteddata":
                algorithm = ""
            elif name == "encryptionmethod":
                algorithm = attributes.get("algorithm", "")
            elif name == "cipherreference" and algorithm not in _FONTS:
                encrypted.add(posixpath.normpath(unquote(attributes.get("uri", ""))))
        if not encrypted.isdisjoint(needed):
            raise self.fault(_ENCRYPTED)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of the archive, never more than the limits."""
        if name not in self.names:
            raise self.fault(
                f"expected {name} in the book, got no such file; it is not whole: get it again"
            )
        if self.archive.getinfo(name).flag_bits & 1:
            raise self.fault(_ENCRYPTED)
        with self.archive.open(name) as file:
            data = file.read(MOST_PAGE_BYTES + 1)
        self.unpacked += len(data)
        if len(data) > MOST_PAGE_BYTES or self.unpacked > MOST_BYTES:
            most = MOST_BYTES
            if len(data) > MOST_PAGE_BYTES:
                most = MOST_PAGE_BYTES
            raise self.fault(
                f"{name}: expected a page of text, got more than {most >> 20} MiB when unpacked"
            )
        return data


class _Elements(Handlers):
    """The elements of a document in order, each with its attributes and its depth, from 1."""

    def __init__(self) -> None:
        self.found: list[tuple[str, _Attributes, int]] = []
        self._depth = 0

    def start(self, name: str, attributes: _Attributes) -> None:
        self._depth += 1
        self.found.append((name, attributes, self._depth))

    def end(self, name: str) -> None:
        self._depth -= 1
