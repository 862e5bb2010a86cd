"""The pages of a book: XHTML as running text, and where each paragraph of it is in the book.

Elements that are blocks part paragraphs; white space is one space. What nobody reads is left out: scripts and styles,
page numbers, marks of notes, the readings above Chinese characters. A page is read as XML, and as HTML where it is not
well-formed; no entity that a page declares is ever expanded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.parsers import expat

from ctc_align.text.characters import word_set
from ctc_align.types import BookPlace

PARAGRAPH = "\n\n"
"""The characters between two paragraphs of the text."""
MOST_DEPTH = 1000
"""Elements within each other; a page with more is refused."""
_BLOCKS = word_set(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol optgroup option p pre section "
    "summary table tbody td tfoot th thead tr ul"
)
_UNREAD = word_set(
    "annotation annotation-xml audio canvas head iframe object rp rt script style svg template title video"
)
_UNREAD_TYPES = frozenset(("noteref", "pagebreak", "doc-noteref", "doc-pagebreak"))
"""Values of `epub:type` and `role`: a number of a page, and the mark of a note."""
_VOID = word_set("area base br col embed hr img input link meta param source track wbr")
_SPACE = re.compile(r"[ \t\n\r\f\v\xa0]+")
_Attributes = Mapping[str, str]


class Handlers:
    """The events of a document, XML or HTML, with names in lower case and without their namespaces' prefixes."""

    def begin(self, parser: expat.XMLParserType) -> None:
        """Take the parser of an XML document, before its first event."""

    def start(self, name: str, attributes: _Attributes) -> None:
        """Begin an element."""

    def end(self, name: str) -> None:
        """End the element that began last and has not ended."""

    def characters(self, data: str) -> None:
        """Take text between tags."""


def parse_xml(data: bytes, handlers: Handlers) -> None:
    """Read an XML document; names of HTML's entities are known, whatever its DTD says.

    Raises:
        ValueError: it is not well-formed, or declares entities of its own.
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
    """Read a page that is no XML as browsers do: what is not closed is closed by what it lies in."""
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

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
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
    """An open element: its steps in the page's CFI, its id, and where its text began (None: it has none so far)."""

    name: str
    steps: str
    id: str
    is_unread: bool
    is_block: bool
    children: int = 0
    start: int | None = None


@dataclass
class BookText(Handlers):
    """The text of a book, to which one page after the other is added, and its places."""

    places: list[BookPlace] = field(default_factory=list)
    length: int = 0
    _pieces: list[str] = field(default_factory=list)
    _open: list[_Element] = field(default_factory=list)
    _href: str = ""
    _cfi: str = ""
    _paragraph: tuple[int, _Element] | None = None
    """The start of the paragraph under way, and the block that its text is in."""
    _space: str = ""
    """The characters before the next ones of the paragraph: none, a space, or a line end."""

    @property
    def text(self) -> str:
        """The text so far, paragraphs parted by `PARAGRAPH`."""
        return "".join(self._pieces)

    def add(self, href: str, cfi: str, parse: Callable[[Handlers], None]) -> None:
        """Add a page; what is added of one that cannot be parsed is removed again.

        Args:
            href: of the page, in the archive.
            cfi: the steps that lead to the page, "/6/4".
            parse: has this object take the page's events.

        Raises:
            ValueError: from `parse`, or elements lie too deep in each other.
        """
        self._href, self._cfi, self._open, self._paragraph, self._space = href, cfi, [], None, ""
        before = len(self._pieces), len(self.places), self.length
        try:
            parse(self)
        except ValueError:
            del self._pieces[before[0] :]
            del self.places[before[1] :]
            self.length = before[2]
            raise
        self._end_paragraph()

    def start(self, name: str, attributes: _Attributes) -> None:
        """Begin an element; a block ends the paragraph under way."""
        if len(self._open) >= MOST_DEPTH:
            raise ValueError(f"more than {MOST_DEPTH} elements lie in each other")
        parent = self._open[-1] if self._open else None
        steps, is_unread = "", self._is_unread(name, attributes)
        if parent is not None:
            parent.children += 1
            steps = f"{parent.steps}/{2 * parent.children}"
            is_unread = is_unread or parent.is_unread
        element = _Element(name, steps, attributes.get("id", ""), is_unread, name in _BLOCKS)
        if element.is_block:
            self._end_paragraph()
        elif name == "br" and not is_unread and self._paragraph is not None:
            self._space = "\n"
        self._open.append(element)

    def end(self, name: str) -> None:
        """End the innermost element; an element with an id and text of its own within a paragraph is a place."""
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
        """Add characters without white space, after what is to stand before them."""
        if self._paragraph is None:
            before = PARAGRAPH if self.length else ""
            block = next((element for element in reversed(self._open) if element.is_block), self._open[0])
            self._paragraph = self.length + len(before), block
        else:
            before = self._space
        self._pieces += (before, run)
        self._space = ""
        start = self.length + len(before)
        self.length = start + len(run)
        for element in reversed(self._open):
            if element.start is not None:
                break
            element.start = start

    def _end_paragraph(self) -> None:
        if self._paragraph is not None:
            start, block = self._paragraph
            self._add_place(block, start)
        self._paragraph, self._space = None, ""

    def _add_place(self, element: _Element, start: int) -> None:
        cfi = f"epubcfi({self._cfi}!{element.steps})"
        self.places.append(BookPlace(start, self.length, self._href, element.id, cfi))
