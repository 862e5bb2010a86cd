"""Wrap the words or sentences of a book's page in `<span>` elements.

No character of the text changes.

If markup begins or ends within a sentence, so that a single element cannot contain it, each part
gets an element. Offsets count the page's UTF-8 bytes.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from ctc_align.files.epub import BookText, Handlers, parse_xml
from ctc_align.files.writer import Replacement, edited
from ctc_align.text.characters import word_set

XHTML = "http://www.w3.org/1999/xhtml"
_UTF_8 = ("utf-8", "ascii")
_RUN = re.compile(r"[^ \t\n\r\f\v\xa0]+")
_WHOLE = word_set("math ruby")
"""Elements that are never divided: no span may stand between their parts."""
_WITHOUT_SPANS = word_set(
    "colgroup datalist dir dl head hgroup html menu ol optgroup option picture select svg table"
    " tbody textarea tfoot thead tr ul"
)
"""Elements in which HTML allows no span."""
_MOST_WORDS = 200
"""The most words of a sentence that are tried as one element, if markup cuts it."""


@dataclass(eq=False, slots=True)
class SourceNode:
    """An element, from its start tag at byte `start` to `end`, the byte after its end tag.

    `name` and `prefix` (with its colon) are as written, `spaces` the namespaces of the prefixes in
    force, and
    `first`, `last` its characters of text, `last` exclusive, if they are counted.
    """

    parent: SourceNode | None
    name: str
    prefix: str
    start: int
    end: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    first: int = -1
    last: int = -1

    @property
    def namespace(self) -> str:
        return self.spaces.get(self.prefix, "")


class XmlSource(Handlers):
    """Handles the events of a UTF-8 document.

    It keeps the elements in the order of their start tags.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.nodes: list[SourceNode] = []
        self.open: list[SourceNode] = []

    def begin(self, parser: expat.XMLParserType) -> None:
        """Make the parser report each event separately, with its offset."""
        if self.data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
            raise ValueError("it is in UTF-16; only files in UTF-8 can be changed")
        forward: Callable[[str, dict[str, str]], object] | None = parser.StartElementHandler  # type: ignore[assignment]
        assert forward is not None, "it is set"

        def start(name: str, attributes: dict[str, str]) -> None:
            self._open(name, attributes)
            forward(name, attributes)

        self._parser = parser
        parser.buffer_text = False
        parser.StartElementHandler = start
        parser.XmlDeclHandler = _declared

    @property
    def offset(self) -> int:
        """The byte at which the event under way begins."""
        return self._parser.CurrentByteIndex

    def end(self, name: str) -> None:
        """End the innermost element; an empty one (`<br/>`) ended with its start tag."""
        node = self.open.pop()
        is_tag = self.data.startswith(b"</", self.offset)
        node.end = self.data.index(b">", self.offset) + 1 if is_tag else self.offset

    def at_end_of(self, node: SourceNode, content: str) -> Replacement:
        """Return the edit, for `edited`, that appends `content` to an element."""
        offset = self.data.rindex(b"<", 0, node.end)
        if self.data.startswith(b"</", offset):
            return offset, offset, content
        offset = self.data.rindex(b"/", 0, node.end)
        return offset, node.end, f">{content}</{node.prefix}{node.name}>"

    def in_start_tag(self, node: SourceNode, attribute: str) -> Replacement:
        """Return the edit that adds an attribute to an element."""
        offset = node.start + 1 + len(f"{node.prefix}{node.name}".encode())
        return offset, offset, f" {attribute}"

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1] if self.open else None
        prefix, colon, local = name.rpartition(":")
        declared = {
            key[6:] + ":" * (key != "xmlns"): value
            for key, value in attributes.items()
            if key == "xmlns" or key.startswith("xmlns:")
        }
        spaces = declared
        if parent is not None and declared:
            spaces = {**parent.spaces, **declared}
        elif parent is not None:
            spaces = parent.spaces
        self.open.append(
            SourceNode(parent, local, prefix + colon, self.offset, 0, attributes, spaces)
        )
        self.nodes.append(self.open[-1])


def _declared(version: str, encoding: str | None, standalone: int) -> None:
    if encoding is None:
        return
    if codecs.lookup(encoding).name not in _UTF_8:
        raise ValueError(f"it is in {encoding}; only files in UTF-8 can be changed")


class SpanWord(NamedTuple):
    """A word of a book's page.

    Its characters [first, last) in the book, its times (None without any), and its recording's
    number.
    """

    first: int
    last: int
    times: tuple[float, float] | None
    recording: int = 0


class PageSpan(NamedTuple):
    """An inserted element: its id, its times in seconds, and the number of its recording."""

    id: str
    start_s: float
    end_s: float
    recording: int


@dataclass(eq=False, slots=True)
class _TextRun:
    """Characters of the book from `first` on, in the bytes from `offset` on.

    `whole` says what cannot be divided there.
    """

    first: int
    text: str
    offset: int
    node: SourceNode
    whole: SourceNode | None

    def offset_of(self, character: int) -> int:
        """Return the byte at which a character of the run begins."""
        return self.offset + len(self.text[: character - self.first].encode("utf-8"))


class _Part(NamedTuple):
    """Characters that become one element."""

    first: int
    last: int
    start_s: float
    end_s: float
    recording: int


class PageSource(XmlSource):
    """A page's elements and text by their offsets in its bytes; `book` takes the text.

    Raises:
        ValueError: from its events, as `BookText.add`, or the page is not in UTF-8.
    """

    def __init__(self, data: bytes, book: BookText) -> None:
        super().__init__(data)
        self._book = book
        self._runs: list[_TextRun] = []
        self._firsts: list[int] = []
        self._whole: SourceNode | None = None
        self._last = 0

    @classmethod
    def added(cls, data: bytes, book: BookText, href: str, cfi: str) -> PageSource:
        """Return a page whose text was added to a book."""
        page = cls(data, book)
        book.add(href, cfi, lambda _: parse_xml(data, page))
        return page

    def begin(self, parser: expat.XMLParserType) -> None:
        """Also handle CDATA sections: a tag within one would be text."""
        super().begin(parser)
        parser.StartCdataSectionHandler = self._start_section
        parser.EndCdataSectionHandler = self._end_section

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Begin an element of the book."""
        if name in _WHOLE and self._whole is None:
            self._whole = self.open[-1]
        self._book.start(name, attributes)

    def end(self, name: str) -> None:
        """End the innermost element, in this object and in the book."""
        node = self.open[-1]
        super().end(name)
        node.last = self._last
        self._whole = None if node is self._whole else self._whole
        self._book.end(name)

    def characters(self, data: str) -> None:
        """Add characters, and keep the offsets of those that are text of the book."""
        at = 0
        for match in _RUN.finditer(data):
            before = self._book.length
            self._book.characters(data[at : match.end()])
            at = match.end()
            if self._book.length > before:
                self._add(
                    self._book.length - len(match[0]), match[0], len(data[: match.start()].encode())
                )
        if at < len(data):
            self._book.characters(data[at:])

    def _add(self, first: int, text: str, skipped: int) -> None:
        offset = self.offset + skipped
        node = self.open[-1]
        last = first + len(text)
        coded = text.encode("utf-8")
        whole = self._whole
        if whole is None and (coded[:1] == b"&" or not self.data.startswith(coded, offset)):
            whole = SourceNode(
                node, "&", "", self.offset, self.data.index(b";", self.offset) + 1, last=last
            )
        for each in reversed(self.open):
            if each.first >= 0:
                break
            each.first = first
        if whole is not None and whole.first < 0:
            whole.first = first
        self._last = last
        self._firsts.append(first)
        self._runs.append(
            _TextRun(first, text, offset, node if whole is None else whole.parent or node, whole)
        )

    def _start_section(self) -> None:
        if self._whole is None:
            self._whole = SourceNode(self.open[-1], "!", "", self.offset)

    def _end_section(self) -> None:
        if self._whole is not None and self._whole.name == "!":
            self._whole.end, self._whole.last = self.offset + len("]]>"), self._last
            self._whole = None

    def marked(
        self, units: Sequence[Sequence[SpanWord]], prefix: str, link: str
    ) -> tuple[bytes, list[PageSpan]]:
        """Return the page with an element for each unit of words, and these elements.

        The text is the same.

        Args:
            units: sentences or words of this page, ascending, without overlaps.
            prefix: the beginning of the new ids; no id of the page begins with it.
            link: attributes of a `link` that is added to its head.
        """
        heads = [node for node in self.nodes if node.name.lower() == "head"][:1]
        edits = [self.at_end_of(head, f"<{head.prefix}link {link}/>") for head in heads]
        spans: list[PageSpan] = []
        at = 0
        for part in self._parts(units):
            found = self._wrapped(part.first, part.last)
            if found is None or found[0] < at:
                continue
            start, at, node = found
            spans.append(
                PageSpan(f"{prefix}{len(spans) + 1}", part.start_s, part.end_s, part.recording)
            )
            edits.append((start, start, f'<{node.prefix}span id="{spans[-1].id}">'))
            edits.append((at, at, f"</{node.prefix}span>"))
        return edited(self.data, edits), spans

    def _parts(self, units: Sequence[Sequence[SpanWord]]) -> Iterator[_Part]:
        """Yield the stretches that become one element each.

        They are units, or parts of a unit that no element can hold.
        """
        free = 0
        waiting: _Part | None = None
        for unit in units:
            for part in self._parts_of(self._lifted(unit)):
                first = max(part.first, free)
                if (
                    first >= part.last and waiting is not None
                ):  # it is in an element that is taken whole
                    if part.recording == waiting.recording:
                        waiting = waiting._replace(end_s=max(waiting.end_s, part.end_s))
                    continue
                if waiting is not None:
                    yield waiting
                waiting = part._replace(first=first)
                free = part.last
        if waiting is not None:
            yield waiting

    def _lifted(self, unit: Sequence[SpanWord]) -> list[SpanWord]:
        """Return words, extended by the undivided elements at their edges."""
        lifted = []
        for word in unit:
            first, last = self._run(word.first), self._run(word.last - 1)
            if first.whole is None:
                low = word.first
            else:
                low = min(word.first, first.whole.first)
            if last.whole is None:
                high = word.last
            else:
                high = max(word.last, last.whole.last)
            lifted.append(word._replace(first=low, last=high))
        return lifted

    def _parts_of(self, words: Sequence[SpanWord]) -> Iterator[_Part]:
        """Yield the longest stretches of words that one element can hold.

        A word that none can hold is yielded in pieces.
        """
        at = 0
        while at < len(words):
            if not _holds_spans(self._run(words[at].first).node):
                at += 1
                continue
            ends = [len(words), *range(min(len(words), at + _MOST_WORDS), at, -1)]
            end = next(
                (end for end in ends if self._wrapped(words[at].first, words[end - 1].last)), at
            )
            times = [word.times for word in words[at : max(end, at + 1)] if word.times is not None]
            if times and end > at:
                yield _Part(
                    words[at].first,
                    words[end - 1].last,
                    times[0][0],
                    times[-1][1],
                    words[at].recording,
                )
            elif times:
                yield from self._pieces_of(words[at], times[0])
            at = max(end, at + 1)

    def _pieces_of(self, word: SpanWord, times: tuple[float, float]) -> Iterator[_Part]:
        """Yield the pieces of a word that markup cuts.

        Each has its share of the time, by letters.
        """
        start_s, end_s = times
        step_s = (end_s - start_s) / (word.last - word.first)
        first = word.first
        while first < word.last:
            run = self._run(first)
            last = first
            while last < word.last and self._run(last).node is run.node:
                last += 1
            yield _Part(
                first,
                last,
                start_s + (first - word.first) * step_s,
                start_s + (last - word.first) * step_s,
                word.recording,
            )
            first = last

    def _run(self, character: int) -> _TextRun:
        return self._runs[bisect_right(self._firsts, character) - 1]

    def _wrapped(self, first: int, last: int) -> tuple[int, int, SourceNode] | None:
        """Return where tags around characters go, and the element around them.

        None if tags are impossible there.
        """
        begin, end = self._run(first), self._run(last - 1)
        home = _common(begin.node, end.node)
        if begin.whole:
            start = begin.whole.start
        else:
            start = begin.offset_of(first)
        if end.whole:
            stop = end.whole.end
        else:
            stop = end.offset_of(last)
        for node in _up_to(home, begin.node):
            if node.first < first:
                return None
            start = node.start
        for node in _up_to(home, end.node):
            if node.last > last:
                return None
            stop = node.end
        if home is None or not _holds_spans(home):
            return None
        return start, stop, home


def _holds_spans(node: SourceNode) -> bool:
    return node.name.lower() not in _WITHOUT_SPANS and node.namespace == XHTML


def _common(one: SourceNode, other: SourceNode) -> SourceNode | None:
    """Return the innermost element that contains two others."""
    above = set(_up_to(None, one))
    return next((node for node in _up_to(None, other) if node in above), None)


def _up_to(home: SourceNode | None, node: SourceNode | None) -> Iterator[SourceNode]:
    """Yield an element and those around it, from the innermost on, up to `home`, exclusive."""
    while node is not home and node is not None:
        yield node
        node = node.parent
