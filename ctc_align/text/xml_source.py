"""Places of an XML document's elements in its bytes, so that tags can be put in and all else stays as it is."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from xml.parsers import expat

from ctc_align.text.book_pages import Handlers

XHTML = "http://www.w3.org/1999/xhtml"
_UTF_8 = ("utf-8", "ascii")


@dataclass(eq=False, slots=True)
class SourceNode:
    """An element, from its start tag at byte `start` to behind its end tag at byte `end`.

    `name` and `prefix` (with its colon) are as written, `spaces` the namespaces of the prefixes in force, and
    `first`, `last` the characters of text in it, `last` exclusive, where somebody counts them.
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
    """Takes the events of a document in UTF-8, and keeps its elements, in the order of their start tags."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.nodes: list[SourceNode] = []
        self.open: list[SourceNode] = []

    def begin(self, parser: expat.XMLParserType) -> None:
        """Have each event come alone, with its place."""
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
    def place(self) -> int:
        """The byte at which the event under way begins."""
        return self._parser.CurrentByteIndex

    def end(self, name: str) -> None:
        """End the innermost element; an empty one (`<br/>`) ended with its start tag."""
        node = self.open.pop()
        is_tag = self.data.startswith(b"</", self.place)
        node.end = self.data.index(b">", self.place) + 1 if is_tag else self.place

    def at_end_of(self, node: SourceNode, content: str) -> tuple[int, int, str]:
        """Return the edit, for `edited`, that puts `content` behind all that is in an element."""
        place = self.data.rindex(b"<", 0, node.end)
        if self.data.startswith(b"</", place):
            return place, place, content
        place = self.data.rindex(b"/", 0, node.end)
        return place, node.end, f">{content}</{node.prefix}{node.name}>"

    def in_start_tag(self, node: SourceNode, attribute: str) -> tuple[int, int, str]:
        """Return the edit that gives an element one more attribute."""
        place = node.start + 1 + len(f"{node.prefix}{node.name}".encode())
        return place, place, f" {attribute}"

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1] if self.open else None
        prefix, colon, local = name.rpartition(":")
        declared = {
            key[6:] + ":" * (key != "xmlns"): value
            for key, value in attributes.items()
            if key == "xmlns" or key.startswith("xmlns:")
        }
        spaces = parent.spaces if parent is not None else {}
        spaces = {**spaces, **declared} if declared else spaces
        self.open.append(SourceNode(parent, local, prefix + colon, self.place, 0, attributes, spaces))
        self.nodes.append(self.open[-1])


def edited(data: bytes, edits: Iterable[tuple[int, int, str]]) -> bytes:
    """Return a document in which the bytes [start, end) of each edit are its text; none of them overlap.

    >>> edited(b"<p>So be it.</p>", [(12, 12, "</b>"), (3, 3, "<b>")])
    b'<p><b>So be it.</b></p>'
    """
    pieces, at = [], 0
    for start, end, text in sorted(edits, key=lambda edit: edit[0]):
        pieces += [data[at:start], text.encode("utf-8")]
        at = end
    return b"".join([*pieces, data[at:]])


def _declared(version: str, encoding: str | None, standalone: int) -> None:
    if encoding is None:
        return
    if codecs.lookup(encoding).name not in _UTF_8:
        raise ValueError(f"it is in {encoding}; only files in UTF-8 can be changed")
