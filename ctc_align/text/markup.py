"""Markup of a transcript: tags, entities, Markdown, time stamps; labels and directions have modules of their own.

`read_markup` returns the text as it is spoken (`MappedText`: entities decoded, tags gone) and marks: spans of it that
are not spoken, each with its kind. Nothing is lost: every character of the transcript belongs to a word or to a mark.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ctc_align.text.characters import word_set
from ctc_align.text.speaker_labels import TIME, Label, speaker_labels
from ctc_align.text.stage_directions import Span, is_sound, parentheses, stage_directions
from ctc_align.types import DIRECTION, MARKUP, SPEAKER

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});")
_TAG = re.compile(
    r"<!--.*?-->|<(?P<hidden>script|style|head|template|noscript)\b[^>]*>.*?</(?P=hidden)\s*>|<![A-Za-z\[][^>]*>|<\?[^>]*>"
    rf"|</?(?P<name>[A-Za-z][\w:.-]*)(?P<inside>(?:\s[^<>]*)?)/?>|<{TIME}>|\{{\\[^{{}}\n]*\}}|\{{\d+\}}\{{\d+\}}"
    r"|\{[yYcCsSfF]:[^{}\n]*\}",
    re.DOTALL | re.IGNORECASE,
)
_INLINE = word_set(
    "b i em strong u s span font c sub sup a abbr code mark small big tt wbr ins del bdi bdo lang v ruby"
)
_KNOWN = _INLINE | word_set(
    """p br hr div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 table tr td th thead tbody tfoot caption body html head
    title meta link img section article header footer nav main aside blockquote pre figure figcaption label
    form input button select option textarea svg path rt rp rb q cite kbd var samp time center strike details
    summary iframe video audio source"""
)
_LINE_BREAK = re.compile(r"\\[Nnh]")
"""Breaks and hard spaces of SubStation Alpha, in a text with its other tags."""
_ANNOTATED = ("v", "lang")
"""WebVTT's tags with a bare annotation: <v Mary>, <lang de>."""
_VOICE = re.compile(r"<v(?:\.[\w.]*)?\s+([^<>]+)>", re.IGNORECASE)

_FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t]+.*\n|-[ \t].*\n)+(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_STAMP = re.compile(
    rf"\[{TIME}(?:[ \t]*[-–][ \t]*{TIME})?\]|^[ \t]*\({TIME}\)|^[ \t]*(?=0)\d\d:\d\d:\d\d(?:[.,]\d+)?(?=\s|\Z)",
    re.MULTILINE,
)
_LINE_PATTERNS = (
    ("-->", re.compile(rf"^(?:[ \t]*\d+[ \t]*\n)?[ \t]*\[{TIME}[ \t]*-->[ \t]*{TIME}\]", re.MULTILINE)),
    ("-->", re.compile(rf"^(?:[ \t]*\d+[ \t]*\n)?[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}.*$", re.MULTILINE)),
    ("WEBVTT", re.compile(r"\A\s*WEBVTT.*$", re.MULTILINE)),
    (":", _STAMP),
    ("---", re.compile(r"^[ \t]*-(?:[ \t]*-){2,}[ \t]*$", re.MULTILINE)),
    ("***", re.compile(r"^[ \t]*\*(?:[ \t]*\*){2,}[ \t]*$", re.MULTILINE)),
    ("__", re.compile(r"^[ \t]*_{2,}[ \t]*$", re.MULTILINE)),
    ("==", re.compile(r"^[ \t]*={2,}[ \t]*$", re.MULTILINE)),
    ("```", re.compile(r"^[ \t]*```.*$", re.MULTILINE)),
    ("#", re.compile(r"^[ \t]{0,3}#{1,6}(?=[ \t])", re.MULTILINE)),
    (">", re.compile(r"^[ \t]*>(?:[ \t]+>)*(?=[ \t])", re.MULTILINE)),
    ("", re.compile(r"^[ \t]*(?:[-*•‣◦▪]|\+(?![ \t]+\d))(?=[ \t]+\S)(?:[ \t]+\[[ xX]?\](?=[ \t]))?", re.MULTILINE)),
    ("![", re.compile(r"!\[[^\[\]\n]{0,200}\]\([^()\s]{0,2000}(?:[ \t]+\"[^\"\n]*\")?\)")),
    ("]:", re.compile(r"^[ \t]*\[[^\[\]\n]{1,100}\]:[ \t]+(?:<[^>\n]*>|\S+[./]\S*)(?:[ \t]+[\"(].*)?$", re.MULTILINE)),
)  # fmt: skip
"""Marks of lines, each with a text without which there is none."""
_LINK = re.compile(
    r"\[(?P<text>[^\[\]\n]{1,400})"
    r"(?P<target>\]\([^()\s]{1,2000}(?:\([^()\s]{0,200}\))?[^()\s]{0,2000}(?:[ \t]+\"[^\"\n]*\")?\)|\]\[[\w -]{0,40}\])"
)
_REFERENCE = re.compile(r"^[ \t]*\[[^\[\]\n]{1,100}\]:[ \t]", re.MULTILINE)
_TABLE_LINE = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
_CELL_MARK = re.compile(r"\|(?:[ \t]*:?-{2,}:?[ \t]*(?=\|))?")
_LIST_NUMBER = re.compile(r"^[ \t]*(\d{1,3})[.)](?=[ \t]+\S)", re.MULTILINE)
_BARE_TIME = re.compile(rf"^[ \t]*(?P<time>{TIME})(?=[ \t]|$)(?P<rest>.*)$", re.MULTILINE)


def breaks_line(marks: str) -> bool:
    """Return whether what stands between two words breaks the line: `\\N`, `<br>`, the tag of a block.

    >>> breaks_line("<br/>"), breaks_line(r"{\\i0}\\N"), breaks_line("</i>")
    (True, True, False)
    """
    if "\\" in marks and _LINE_BREAK.search(marks):
        return True
    names = (match["name"] or "" for match in _TAG.finditer(marks))
    return any(name.casefold() in _KNOWN - _INLINE for name in names)


@dataclass(frozen=True)
class MappedText:
    """A text in which parts were replaced; character i stands for `starts[i]` to `ends[i]` (exclusive) of the source.

    Without `starts` it is the source itself.
    """

    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] = ()

    def span(self, start: int, end: int) -> Span:
        """Return the place in the source of the characters `start` to `end`, exclusive."""
        return (start, end) if self.starts is None else (self.starts[start], self.ends[end - 1])

    def replaced(self, edits: Iterable[tuple[int, int, str]]) -> MappedText:
        """Return the text with the spans (start, end, replacement; ascending) replaced."""
        edits = list(edits)
        if not edits:
            return self
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        for start, end, text in [*edits, (len(self.text), len(self.text), "")]:
            pieces += (self.text[at:start], text)
            if self.starts is None:
                starts += range(at, start)
                ends += range(at + 1, start + 1)
            else:
                starts += self.starts[at:start]
                ends += self.ends[at:start]
            if text:
                low, high = self.span(start, end)
                starts += [low] * len(text)
                ends += [high] * len(text)
            at = end
        return MappedText("".join(pieces), starts, ends)


@dataclass(frozen=True)
class Mark:
    """Characters `start` to `end` (exclusive) that are not spoken; `speaker` (not None) speaks after them."""

    start: int
    end: int
    kind: str
    speaker: str | None = None


@dataclass(frozen=True)
class Markup:
    """A text without its markup, and the markup: the answer of `read_markup`.

    Attributes:
        spoken: the text without tags, and with spaces in the place of marks.
        tags: marks that are not in `spoken`; places in the source.
        marks: all others; places in `spoken`, ascending.
        optional: passages (places in `spoken`) of which only the sound can tell, with their kind and speaker.
    """

    spoken: MappedText
    tags: list[Mark] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    optional: list[Mark] = field(default_factory=list)


def read_markup(text: str) -> Markup:
    """Return what of a text is not spoken.

    >>> found = read_markup("<i>JOHN:</i> Hi &amp; [laughs] bye")
    >>> found.spoken.text, [(mark.kind, mark.speaker) for mark in found.marks]
    ('      Hi &          bye', [('speaker', 'JOHN'), ('direction', None)])
    """
    spoken, tags = _without_tags(_decoded(text.replace("\r\n", " \n").replace("\r", "\n")))
    page = _Page(spoken.text)
    timed_lines = _timed_lines(page.text)
    stamps = [*timed_lines, *(match.span() for match in _STAMP.finditer(page.text) if ":" in page.text)]
    page.add(timed_lines, MARKUP)
    page.add([match.span() for match in _FRONT_MATTER.finditer(page.text)] if "---" in text else [], MARKUP)
    for sign, pattern in _LINE_PATTERNS:
        if sign in page.text:
            page.add([match.span() for match in pattern.finditer(page.text)], MARKUP)
    page.add(_links(page.text), MARKUP)
    directions, others = stage_directions(page.text)
    page.add(directions, DIRECTION)
    page.add(others, MARKUP)
    labels = speaker_labels(page.text, [end for _, end in stamps])
    page.add_labels([label for label in labels if label.certain])
    optional = [Mark(one.start, one.end, SPEAKER, one.speaker) for one in labels if not one.certain]
    optional += [Mark(*span, DIRECTION) for span in parentheses(page.text)]
    optional += [Mark(*span, MARKUP) for span in _numbers_of_lists(page.text)]
    marks = sorted(page.marks, key=_start)
    return Markup(MappedText(page.text, spoken.starts, spoken.ends), tags, marks, sorted(optional, key=_start))


def _start(mark: Mark) -> int:
    return mark.start


class _Page:
    """A text in which marks become spaces as they are found, so that later ones do not find them again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks: list[Mark] = []

    def add(self, spans: Iterable[Span], kind: str) -> None:
        self._add([Mark(start, end, kind) for start, end in spans])

    def add_labels(self, labels: Iterable[Label]) -> None:
        self._add([Mark(one.start, one.end, SPEAKER, one.speaker) for one in labels])

    def _add(self, marks: list[Mark]) -> None:
        pieces, at = [], 0
        for mark in marks:
            if mark.start >= at and self.text[mark.start : mark.end].strip():
                blank = re.sub(r"[^\n]", " ", self.text[mark.start : mark.end])
                pieces += [self.text[at : mark.start], blank]
                at = mark.end
                self.marks.append(mark)
        if pieces:
            self.text = "".join([*pieces, self.text[at:]])


def _decoded(text: str) -> MappedText:
    """Return the text with its entities decoded."""
    if "&" not in text or ";" not in text:
        return MappedText(text)
    found = ((match.start(), match.end(), html.unescape(match[0])) for match in _ENTITY.finditer(text))
    return MappedText(text).replaced(each for each in found if not each[2].startswith("&") or each[2] == "&")


def _without_tags(source: MappedText) -> tuple[MappedText, list[Mark]]:
    """Return the text without its tags, and the tags with their places in the source of `source`."""
    text = source.text
    if "<" not in text and "{" not in text:
        return source, []
    edits: list[tuple[int, int, str]] = []
    marks: list[Mark] = []
    for match in _TAG.finditer(text):
        name = (match["name"] or "").casefold().partition(".")[0]
        voice = _VOICE.fullmatch(match[0])
        kind = SPEAKER if voice else _kind_of_tag(text, match, name)
        if kind:
            marks.append(Mark(*source.span(*match.span()), kind, voice[1].strip() if voice else None))
            # inside a word it vanishes, but a word holds no space
            inline = name in _INLINE or match[0][:1] == "{" or match[0][1:2].isdigit()
            parted = " " if len(match[0].split()) > 1 or name not in _KNOWN else "\n"
            edits.append((*match.span(), "" if inline and len(match[0].split()) == 1 else parted))
    if "{\\" in text:
        breaks = [match.span() for match in _LINE_BREAK.finditer(text)]
        marks += [Mark(*source.span(*span), MARKUP) for span in breaks]
        edits = sorted([*edits, *((*span, "\n") for span in breaks)])
    return source.replaced(edits), marks


def _kind_of_tag(text: str, match: re.Match[str], name: str) -> str:
    """Return the kind of what stands between < and >, "" for what is no tag."""
    inside = (match["inside"] or "").strip(" /")
    if not name or name in _KNOWN:
        return MARKUP if not inside or "=" in inside or name in _ANNOTATED or match[0][1] == "/" else ""
    words = f"{match['name']} {inside}"
    if is_sound(words):
        return DIRECTION
    return (DIRECTION if words.islower() else "") if not inside else MARKUP if "=" in inside else ""


def _links(text: str) -> list[Span]:
    """Return what of Markdown's links and tables is not spoken: brackets and addresses, and the lines of cells."""
    spans: list[Span] = []
    if "](" in text or "][" in text:
        references = _REFERENCE.search(text) is not None
        for match in _LINK.finditer(text):
            if match["target"].startswith("](") or references or match["target"] == "][]":
                spans += [(match.start(), match.start() + 1), match.span("target")]
    if "|" in text:
        for line in _TABLE_LINE.finditer(text):
            marks = _CELL_MARK.finditer(text, *line.span())
            spans += [match.span() for match in marks]
    return sorted(spans)


def _numbers_of_lists(text: str) -> list[Span]:
    """Return the numbers at the beginnings of lines that count up by one, as lists have them; some people read them.

    >>> _numbers_of_lists("1. one\\n2. two\\n1984. So")
    [(0, 2), (7, 9)]
    """
    found = list(_LIST_NUMBER.finditer(text))
    values = [int(match[1]) for match in found]
    follows = [second == first + 1 for first, second in pairwise(values)]
    counted = [before or after for before, after in zip([False, *follows], [*follows, False])]
    return [(match.start(1), match.end()) for match, is_counted in zip(found, counted) if is_counted]


def _timed_lines(text: str) -> list[Span]:
    """Return bare times at the beginnings of lines, as transcripts have them: several, ascending, on most lines."""
    if ":" not in text:
        return []
    found = list(_BARE_TIME.finditer(text))
    if len(found) < 2:
        return []
    seconds = [_seconds(match["time"]) for match in found]
    alone = sum(not match["rest"].strip() for match in found) == len(found)
    lines = sum(not line.isspace() for line in text.splitlines() if line)
    ascending = all(first <= second for first, second in pairwise(seconds))
    if not ascending or not (alone or (len(found) > 2 and 2 * len(found) >= lines)):
        return []
    return [match.span("time") for match in found]


def _seconds(time: str) -> float:
    """Return a time stamp in seconds.

    >>> _seconds("01:02.5"), _seconds("1:00:00")
    (62.5, 3600.0)
    """
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds
