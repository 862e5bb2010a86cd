"""EPUB books as transcripts: the text of the pages in the order of the spine, with the places of its paragraphs.

EPUB 2 and 3 (https://www.w3.org/TR/epub-33/): a ZIP archive whose META-INF/container.xml names the package document,
whose spine names the pages in their order. The contents (`nav`) and pages out of the reading order (`linear="no"`) are
left out. Nothing is fetched, no link is followed, and a book that is encrypted or unpacks to too much is refused.
"""

from __future__ import annotations

import io
import logging
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from ctc_align.errors import CtcAlignError, TranscriptError
from ctc_align.reading import read_input
from ctc_align.text.book_pages import BookText, Handlers, parse_html, parse_xml
from ctc_align.types import Transcript

MIMETYPE = b"application/epub+zip"
CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
MOST_PAGE_BYTES = 32 * 2**20
"""A file in the archive that unpacks to more is refused."""
MOST_BYTES = 256 * 2**20
"""A book whose pages together unpack to more is refused."""
MOST_MALFORMED_BYTES = 4 * 2**20
"""A page that is not well-formed is read as HTML up to this size: that may take long."""
MOST_FILES = 65_535
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Encryption that only fonts have."""
_PAGES = ("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document")
_ENCRYPTED = (
    "expected an EPUB book that can be read, got one that is encrypted (DRM); give its text as a plain text file, or a "
    "copy without protection"
)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)

Events = TypeVar("Events", bound=Handlers)

logger = logging.getLogger(__name__)


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
    """Return the version of EPUB that a book says ("2.0", "3.0"), "" where it cannot be read: who reads it says so."""
    try:
        with open_epub(read_input(path, factor=1), path) as book:
            return book.version()
    except (CtcAlignError, OSError):
        return ""


def read_epub(data: bytes, source: str) -> Transcript:
    """Return the text of a book, with the places of its paragraphs; `source` is its name in messages.

    Raises:
        TranscriptError: the archive is damaged, encrypted, too large unpacked, or lacks a part that it names.
    """
    with open_epub(data, source) as book:
        return book.transcript()


@contextmanager
def open_epub(data: bytes, source: str) -> Iterator[EpubArchive]:
    """Yield a book, to be read in the block; `source` is its name in messages.

    Raises:
        TranscriptError: as `read_epub`, at once or in the block.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield EpubArchive(archive, source)
    except _DAMAGE as error:
        raise TranscriptError(
            f"{source}: expected a whole EPUB book, got a damaged archive ({error}); get it again, or save its text as "
            "a plain text file in UTF-8"
        ) from None


class SpinePage(NamedTuple):
    """A page that is read in its turn: its id in the manifest, its name in the archive, the steps of its CFI."""

    id: str
    href: str
    cfi: str


class EpubArchive:
    """An open archive, and how much of it has been unpacked."""

    def __init__(self, archive: zipfile.ZipFile, source: str) -> None:
        self.archive = archive
        self.source = source
        self.unpacked = 0
        self.names = set(archive.namelist())
        if len(self.names) > MOST_FILES:
            raise self.fault(f"expected at most {MOST_FILES:,} files in a book, got {len(self.names):,}")

    def fault(self, message: str) -> TranscriptError:
        return TranscriptError(f"{self.source}: {message}")

    def package(self) -> str:
        """Return the name of the package document."""
        container = self.parsed(CONTAINER, _Container())
        if not container.package:
            raise self.fault(f"{CONTAINER} names no package document (full-path); it is no whole EPUB book")
        return posixpath.normpath(unquote(container.package))

    def version(self) -> str:
        """Return the version of EPUB that the package document says, "" where it says none."""
        return self.parsed(self.package(), _Package()).version

    def spine(self) -> tuple[str, list[SpinePage]]:
        """Return the name of the package document, and the pages in their order, none of them encrypted."""
        path = self.package()
        pages = self.parsed(path, _Package()).pages(posixpath.dirname(path))
        if not pages:
            raise self.fault(f"{path} has no page in its spine; it is no whole EPUB book")
        self.refuse_encrypted([path, *(page.href for page in pages)])
        return path, pages

    def transcript(self) -> Transcript:
        """Return the text of the spine."""
        book = BookText()
        for page in self.spine()[1]:
            self.add_page(book, page)
        return Transcript(book.text, places=tuple(sorted(book.places, key=lambda place: place.char_start)))

    def add_page(self, book: BookText, page: SpinePage) -> None:
        """Add the text of a page to that of a book."""
        href, cfi = page.href, page.cfi
        data = self.read(href)
        try:
            book.add(href, cfi, partial(parse_xml, data))
        except ValueError as error:
            if b"<!ENTITY" in data or len(data) > MOST_MALFORMED_BYTES:
                raise self.fault(f"{href}: cannot be read: {error}; mend that page, or save the text") from None
            logger.warning("%s: %s: not well-formed (%s); it is read as HTML", self.source, href, error)
            try:
                book.add(href, cfi, partial(parse_html, data))
            except ValueError as worse:
                raise self.fault(f"{href}: cannot be read: {worse}; mend that page, or save the text") from None

    def parsed(self, name: str, handlers: Events) -> Events:
        """Return `handlers` after the events of an XML file of the archive."""
        try:
            parse_xml(self.read(name), handlers)
        except ValueError as error:
            raise self.fault(f"{name}: expected XML, got a file that cannot be read: {error}") from None
        return handlers

    def refuse_encrypted(self, needed: list[str]) -> None:
        """Raise TranscriptError where a page is encrypted; fonts may be."""
        if ENCRYPTION in self.names and not self.parsed(ENCRYPTION, _Encryption()).files.isdisjoint(needed):
            raise self.fault(_ENCRYPTED)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of the archive, never more than the limits."""
        if name not in self.names:
            raise self.fault(f"expected {name} in the book, got no such file; it is not whole: get it again")
        if self.archive.getinfo(name).flag_bits & 1:
            raise self.fault(_ENCRYPTED)
        with self.archive.open(name) as file:
            data = file.read(MOST_PAGE_BYTES + 1)
        self.unpacked += len(data)
        if len(data) > MOST_PAGE_BYTES or self.unpacked > MOST_BYTES:
            most = MOST_PAGE_BYTES if len(data) > MOST_PAGE_BYTES else MOST_BYTES
            raise self.fault(f"{name}: expected a page of text, got more than {most >> 20} MiB unpacked")
        return data


class _Container(Handlers):
    """The first `rootfile` of META-INF/container.xml."""

    package = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "rootfile" and not self.package:
            self.package = attributes.get("full-path", "")


@dataclass(frozen=True)
class _ManifestItem:
    href: str
    media_type: str
    properties: frozenset[str] = field(default_factory=frozenset)


class _Package(Handlers):
    """The version, the manifest and the spine of a package document."""

    def __init__(self) -> None:
        self.version = ""
        self._items: dict[str, _ManifestItem] = {}
        self._spine: list[tuple[str, str]] = []
        """The id of each page that is read in its turn, and its CFI."""
        self._depth = self._children = self._references = 0
        self._spine_step = 6

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take an item of the manifest, or a reference of the spine."""
        self._depth += 1
        self._children += self._depth == 2
        if name == "package" and self._depth == 1:
            self.version = attributes.get("version", "")
        elif name == "spine":
            self._spine_step = 2 * self._children
        elif name == "item":
            properties = frozenset(attributes.get("properties", "").split())
            item = _ManifestItem(attributes.get("href", ""), attributes.get("media-type", ""), properties)
            self._items.setdefault(attributes.get("id", ""), item)
        elif name == "itemref":
            self._references += 1
            if attributes.get("linear", "yes").lower() != "no":
                cfi = f"/{self._spine_step}/{2 * self._references}"
                self._spine.append((attributes.get("idref", ""), cfi))

    def end(self, name: str) -> None:
        self._depth -= 1

    def pages(self, folder: str) -> list[SpinePage]:
        """Return the pages in their order, without the contents."""
        found = []
        for id, cfi in self._spine:
            item = self._items.get(id)
            if item is not None and "nav" not in item.properties and item.media_type in _PAGES:
                href = unquote(item.href.partition("#")[0])
                found.append(SpinePage(id, posixpath.normpath(posixpath.join(folder, href)), cfi))
        return found


class _Encryption(Handlers):
    """The `files` of META-INF/encryption.xml that are more than fonts made unreadable."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._algorithm = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the algorithm of the next file, or the file."""
        if name == "encrypteddata":
            self._algorithm = ""
        elif name == "encryptionmethod":
            self._algorithm = attributes.get("algorithm", "")
        elif name == "cipherreference" and self._algorithm not in _FONTS:
            self.files.add(posixpath.normpath(unquote(attributes.get("uri", ""))))
