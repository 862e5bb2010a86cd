"""Written words that are not spoken: markup, time stamps, stage directions, sample numbers.

`read_markup` returns the spoken text (`MappedText`: entities decoded, tags removed) and marks,
which are unspoken spans of the text with their kinds. Every character of the transcript belongs to
a word or to a mark. Speaker labels are recognised in `ctc_align.text.speaker_labels`.

Words between musical notes, and descriptions of sounds and marks of corpora in any brackets are
stage directions: "[laughs]", "(applause)", "<SIL>", "♪ … ♪", "*sighs*". The text does not show
whether other brackets are spoken:
"(or so he said)" in a book is, "(he leaves)" in a play is not; "[you know]" where people speak at
the same time is, "[He leaves.]" is not. They are returned as passages that may be spoken or not.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter

from ctc_align.reading import clock_seconds
from ctc_align.text.captions import repeated_lines
from ctc_align.text.characters import Span, lazy_regex
from ctc_align.text.languages import base_code, known_code
from ctc_align.text.line_divisions import line_divisions
from ctc_align.text.notation import (
    MAYBE,
    Edit,
    find_notation,
    find_prosody,
)
from ctc_align.text.speaker_labels import TIME, Mark, names_speaker, speaker_labels
from ctc_align.text.tables import word_list
from ctc_align.text.word_forms import digit_groups, is_english, without_markup
from ctc_align.types import (
    CUT_OFF,
    DIRECTION,
    MARKUP,
    REPEAT,
    SPEAKER,
    AlignedWord,
    LanguageSpan,
    SourceCue,
    Word,
    Words,
)

_ENTITY = lazy_regex(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});")
_HIDDEN = lazy_regex(
    r"<!--|<(?P<name>script|style|head|template|noscript)\b[^>]{0,5000}>", re.IGNORECASE
)
_TAG = lazy_regex(
    r"<![A-Za-z\[][^>]{0,5000}>|<\?[^>]{0,5000}>"
    rf"|</?(?P<name>[A-Za-z][\w:.-]*)(?P<inside>(?:\s[^<>]*)?)/?>|<{TIME}>|\{{\\[^{{}}\n]*\}}|\{{\d+\}}\{{\d+\}}"
    r"|\{[yYcCsSfF]:[^{}\n]*\}",
    re.DOTALL | re.IGNORECASE,
)
_INLINE = word_list("inline-tags")
_KNOWN = _INLINE | word_list("block-tags")
_LINE_BREAK = lazy_regex(r"\\[Nnh]")
"""Line breaks and hard spaces of SubStation Alpha, which count as such in a text with its other
tags."""
_ANNOTATED = ("v", "lang")
"""WebVTT's tags with a bare annotation: <v Mary>, <lang de>."""
_VOICE = lazy_regex(r"<v(?:\.[\w.]*)?\s+([^<>]+)>", re.IGNORECASE)

_ANY_TAG = lazy_regex(r"<(?P<close>/?)(?P<name>[a-z][\w:-]*)(?P<inside>[^<>]*)>", re.IGNORECASE)
_LANGUAGE_NAME = {
    True: lazy_regex(r"(?:\.\S*)?\s+([a-z][\w-]*)\s*", re.IGNORECASE),
    False: lazy_regex(r".*\s(?:xml:)?lang\s*=\s*[\"']?([a-z][\w-]*).*", re.IGNORECASE | re.DOTALL),
}
"""The language inside a tag `<lang de>` (True), and in the attribute of any other tag."""

_STAMP = lazy_regex(
    rf"\[{TIME}(?:[ \t]*[-–][ \t]*{TIME})?\]|^[ \t]*\({TIME}\)|^["
    r" \t]*(?=0)\d\d:\d\d:\d\d(?:[.,]\d+)?(?=\s|\Z)",
    re.MULTILINE,
)
_LINE_PATTERNS = (
    ("---", lazy_regex(r"\A\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t]+.*\n|-[ \t].*\n)+(?:---|\.\.\.)[ \t]*$", re.MULTILINE)),
    ("-->", lazy_regex(rf"^(?:[ \t]*\d+[ \t]*\n)?[ \t]*\[{TIME}[ \t]*-->[ \t]*{TIME}\]", re.MULTILINE)),
    ("-->", lazy_regex(rf"^(?:[ \t]*\d+[ \t]*\n)?[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}.*$", re.MULTILINE)),
    ("WEBVTT", lazy_regex(r"\A\s*WEBVTT.*$", re.MULTILINE)),
    (":", _STAMP),
    ("---", lazy_regex(r"^[ \t]*-(?:[ \t]*-){2,}[ \t]*$", re.MULTILINE)),
    ("***", lazy_regex(r"^[ \t]*\*(?:[ \t]*\*){2,}[ \t]*$", re.MULTILINE)),
    ("__", lazy_regex(r"^[ \t]*_{2,}[ \t]*$", re.MULTILINE)),
    ("==", lazy_regex(r"^[ \t]*={2,}[ \t]*$", re.MULTILINE)),
    ("```", lazy_regex(r"^[ \t]*```.*$", re.MULTILINE)),
    ("#", lazy_regex(r"^[ \t]{0,3}#{1,6}(?=[ \t])", re.MULTILINE)),
    (">", lazy_regex(r"^[ \t]*>(?:[ \t]+>)*(?=[ \t])", re.MULTILINE)),
    ("", lazy_regex(r"^[ \t]*(?:[-*•‣◦▪]|\+(?![ \t]+\d))(?=[ \t]+\S)(?:[ \t]+\[[ xX]?\](?=[ \t]))?", re.MULTILINE)),
    ("![", lazy_regex(r"!\[[^\[\]\n]{0,200}\]\([^()\s]{0,2000}(?:[ \t]+\"[^\"\n]*\")?\)")),
    ("]:", lazy_regex(r"^[ \t]*\[[^\[\]\n]{1,100}\]:[ \t]+(?:<[^>\n]*>|\S+[./]\S*)(?:[ \t]+[\"(].*)?$", re.MULTILINE)),
)  # fmt: skip
"""(substring, pattern) of marks at the beginnings of lines; the substring is a cheap pre-check."""
_LINK = lazy_regex(
    r"\[(?P<text>[^\[\]\n]{1,400})"
    r"(?P<target>\]\([^()\s]{1,2000}(?:\([^()\s]{0,200}\))?[^()\s]{0,2000}(?:["
    r" \t]+\"[^\"\n]*\")?\)|\]\[[\w -]{0,40}\])"
)
_REFERENCE = lazy_regex(r"^[ \t]*\[[^\[\]\n]{1,100}\]:[ \t]", re.MULTILINE)
_TABLE_LINE = lazy_regex(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
_CELL_MARK = lazy_regex(r"\|(?:[ \t]*:?-{2,}:?[ \t]*(?=\|))?")
_LIST_NUMBER = lazy_regex(r"^[ \t]*(\d{1,3})[.)](?=[ \t]+\S)", re.MULTILINE)
_BARE_TIME = lazy_regex(rf"^[ \t]*(?P<time>{TIME})(?=[ \t]|$)(?P<rest>.*)$", re.MULTILINE)

_TAG_CHARS = 200
"""The most characters before a name among which its tag is searched."""


def breaks_line(marks: str) -> bool:
    """Return whether the marks between two words break the line: `\\N`, `<br>`, the tag of a block.

    >>> breaks_line("<br/>"), breaks_line(r"{\\i0}\\N"), breaks_line("</i>")
    (True, True, False)
    """
    if "\\" in marks and _LINE_BREAK.search(marks):
        return True
    names = (match["name"] or "" for match in _tags(marks, list(_hidden(marks))))
    return any(name.casefold() in _KNOWN - _INLINE for name in names)


def is_tag(text: str, word: Word | AlignedWord) -> bool:
    """Return whether a word is markup of a format.

    It may name a speaker (`<v Mary Ann>`).
    """
    if word.kind != SPEAKER:
        return word.kind == MARKUP
    around = (max(word.char_start - _TAG_CHARS, 0), word.char_start + 1)
    return text.rfind("<", *around) > text.rfind(">", *around)


def text_said_once(
    text: str,
    words: Sequence[Word | AlignedWord],
    span: tuple[int, int | None] = (0, None),
    left_out: Collection[int] = (),
) -> str:
    """Return a part of a text as other programs read it.

    It is on one line, without markup and without lines that are shown again.

    Args:
        text: the transcript.
        words: all of its words, in its order.
        span: the characters of the part.
        left_out: where other words begin that are left out.
    """
    (at, end), pieces = span, []
    for word in words[bisect_left(words, at, key=attrgetter("char_start")) :]:
        if end is not None and word.char_start >= end:
            break
        pieces.append(text[at : word.char_start])
        if is_tag(text, word):
            pieces.append(" " * breaks_line(word.text))
        elif word.kind != REPEAT and word.char_start not in left_out:
            pieces.append(without_markup(word.text))
        at = word.char_end
    return " ".join("".join([*pieces, text[at:end]]).split())


@dataclass(frozen=True)
class MappedText:
    """A text in which parts were replaced.

    Its character i is `starts[i]` to `ends[i]` (exclusive) of the source.

    Without `starts` it is the source itself.
    """

    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] = ()

    def span(self, start: int, end: int) -> Span:
        """Return the span in the source of the characters `start` to `end`, exclusive."""
        if self.starts is None:
            return (start, end)
        return (self.starts[start], self.ends[end - 1])

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


_FILLER = lazy_regex(rf"(?<!\S){MAYBE}\S+")
_CUT_OFF = lazy_regex(r"(?<![\w'’‐-])([^\W\d_][\w'’]*)[-‐](?=[,;.…]*[ \t]+\1\w)", re.IGNORECASE)
"""A word that breaks off before the whole word, "th- the": it is spoken, or else its sound is that
of the other."""


@dataclass(frozen=True)
class Markup:
    """A text without its markup, and the markup: the result of `read_markup`.

    Attributes:
        spoken: the text without tags, with spaces for marks.
        tags: marks that are removed from `spoken`; spans in the source.
        marks: all others; spans in `spoken`, ascending.
        optional: passages that may be spoken or not, with their kind and speaker; spans in
            `spoken`.
    """

    spoken: MappedText
    tags: list[Mark] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    optional: list[Mark] = field(default_factory=list)


def read_markup(text: str, cues: Sequence[SourceCue] = (), language: str = "en") -> Markup:
    """Return a text without its markup, and the marks that are not spoken.

    Of `cues`, lines that are shown again are marks, too.

    >>> found = read_markup("<i>JOHN:</i> Hi &amp; [laughs] bye")
    >>> found.spoken.text, [(mark.kind, mark.speaker) for mark in found.marks]
    ('      Hi &          bye', [('speaker', 'JOHN'), ('direction', None)])
    """
    tags: list[Mark] = []
    spoken = _decoded(text.replace("\r\n", " \n").replace("\r", "\n"))
    spoken = _without_notation(spoken, find_notation(spoken.text, "before_tags"), tags)
    spoken = _without_tags(spoken, tags)
    spoken = _without_notation(spoken, find_notation(spoken.text, "after_tags"), tags)
    spoken = _without_notation(spoken, find_prosody(spoken.text, is_english(language)), tags)
    spoken = _with_whole_words(spoken, cues, language)
    spoken = spoken.replaced(digit_groups(spoken.text, language))
    page = _Page(spoken.text)
    repeats = repeated_lines(page.text, cues, spoken.starts)
    page.add(repeats.certain, REPEAT)
    timed_lines = _timed_lines(page.text)
    stamps = [*timed_lines, *_found(_STAMP, page.text)]
    page.add(timed_lines, MARKUP)
    for sign, pattern in _LINE_PATTERNS:
        if sign in page.text:
            page.add(_found(pattern, page.text), MARKUP)
    page.add(_links(page.text), MARKUP)
    directions = stage_directions(page.text)
    page.add(directions.certain, DIRECTION)
    page.add(directions.marks, MARKUP)
    labels = speaker_labels(page.text, [end for _, end in stamps])
    page.add_marks([label for label in labels if label.certain])
    optional = [label for label in labels if not label.certain]
    for kind, spans in (
        (DIRECTION, directions.possible),
        (DIRECTION, parentheses(page.text)),
        (DIRECTION, _found(_FILLER, page.text)),
        (MARKUP, _numbers_of_lists(page.text)),
        (REPEAT, repeats.possible),
        (CUT_OFF, _found(_CUT_OFF, page.text)),
    ):
        optional += [Mark(*span, kind) for span in spans]
    marks = sorted(page.marks, key=attrgetter("start"))
    return Markup(
        MappedText(page.text, spoken.starts, spoken.ends),
        tags,
        marks,
        sorted(optional, key=attrgetter("start")),
    )


def _with_whole_words(spoken: MappedText, cues: Sequence[SourceCue], language: str) -> MappedText:
    """Return a text whose words are not divided at the ends of lines.

    Words of two cues stay two.
    """
    ends = [cue.char_end for cue in cues]

    def is_inside(span: Span) -> bool:
        start, end = spoken.span(*span)
        return bisect_left(ends, start) == bisect_left(ends, end)

    return spoken.replaced(
        (*span, "") for span in line_divisions(spoken.text, language) if is_inside(span)
    )


def _found(pattern: re.Pattern[str], text: str) -> list[Span]:
    """Return the spans of a pattern in a text."""
    return [match.span() for match in pattern.finditer(text)]


class _Page:
    """A text in which marks become spaces once they are found.

    So later patterns do not match them again.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks: list[Mark] = []

    def add(self, spans: Iterable[Span], kind: str) -> None:
        self.add_marks(Mark(start, end, kind) for start, end in spans)

    def add_marks(self, marks: Iterable[Mark]) -> None:
        pieces = []
        at = 0
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
    found = (
        (match.start(), match.end(), html.unescape(match[0])) for match in _ENTITY.finditer(text)
    )
    return MappedText(text).replaced(
        each for each in found if not each[2].startswith("&") or each[2] == "&"
    )


def _without_notation(source: MappedText, edits: Sequence[Edit], marks: list[Mark]) -> MappedText:
    """Return the text with the signs of transcribers replaced.

    Signs that are words of their own are added to `marks`.
    """
    kinds = {"mark": DIRECTION, "sign": MARKUP}
    unspoken = [edit for edit in edits if edit.treatment in kinds]
    marks += [Mark(*source.span(edit.start, edit.end), kinds[edit.treatment]) for edit in unspoken]
    return source.replaced((edit.start, edit.end, edit.replacement) for edit in edits)


def _without_tags(source: MappedText, marks: list[Mark]) -> MappedText:
    """Return the text without its tags, and add them to `marks`.

    Their spans are those in the source of `source`.
    """
    text = source.text
    if "<" not in text and "{" not in text:
        return source
    edits: list[tuple[int, int, str]] = []
    hidden = list(_hidden(text))
    for span in hidden:
        marks.append(Mark(*source.span(*span), MARKUP))
        edits.append((*span, " "))
    for match in _tags(text, hidden):
        name = (match["name"] or "").casefold().partition(".")[0]
        voice = _VOICE.fullmatch(match[0])
        if voice:
            kind = SPEAKER
        else:
            kind = _kind_of_tag(text, match, name)
        if kind:
            marks.append(
                Mark(*source.span(*match.span()), kind, voice[1].strip() if voice else None)
            )
            # inside a word it vanishes, but a word holds no space
            inline = name in _INLINE or match[0][:1] == "{" or match[0][1:2].isdigit()
            parted = "\n"
            if len(match[0].split()) > 1 or name not in _KNOWN:
                parted = " "
            edits.append((*match.span(), "" if inline and len(match[0].split()) == 1 else parted))
    if "{\\" in text:
        breaks = _found(_LINE_BREAK, text)
        marks += [Mark(*source.span(*span), MARKUP) for span in breaks]
        edits += [(*span, "\n") for span in breaks]
    return source.replaced(sorted(edits))


def _hidden(text: str) -> Iterator[Span]:
    """Yield the spans of comments and of elements that are not shown.

    An end that is not there is searched for once.
    """
    at = 0
    endless = set[str]()
    while match := _HIDDEN.search(text, at):
        at = match.end()
        ending = "-->"
        if match["name"]:
            ending = rf"</{match['name'].casefold()}\s*>"
        found = None if ending in endless else re.compile(ending, re.IGNORECASE).search(text, at)
        if found is not None:
            yield match.start(), found.end()
            at = found.end()
        endless.update(() if found else (ending,))


def language_spans(text: str, start: int, end: int) -> Iterator[LanguageSpan]:
    """Yield the passages of `text[start:end]` that its tags mark as being in a language.

    The tags are WebVTT's `<lang de>`, and any other with an attribute `lang` or `xml:lang`. A tag
    that is not closed is valid up to `end`; an inner tag overrides outer ones.

    >>> text = "a <lang de>b</lang> c"
    >>> [text[span.char_start : span.char_end] for span in language_spans(text, 0, len(text))]
    ['b']
    """
    opened: list[tuple[str, str]] = []
    at = start
    for tag in _ANY_TAG.finditer(text, start, end):
        yield from _span_in(opened, at, tag.start())
        at = tag.end()
        name = tag["name"].casefold()
        if not tag["close"]:
            found = _LANGUAGE_NAME[name == "lang"].fullmatch(tag["inside"])
            opened.append((name, known_code(found[1]) if found else ""))
        elif any(name == other for other, _ in opened):
            while opened.pop()[0] != name:
                pass
    yield from _span_in(opened, at, end)


def distinct_spans(text: str, spans: Iterable[LanguageSpan]) -> tuple[LanguageSpan, ...]:
    """Return the passages that a text marks; none if all of the text is marked as one language.

    Such a mark only names the language of the text, which the settings do.

    >>> distinct_spans("so be", [LanguageSpan(0, 5, "en")])
    ()
    >>> len(distinct_spans("so be", [LanguageSpan(0, 2, "en")]))
    1
    """
    found = tuple(spans)
    if len({base_code(span.language) for span in found}) > 1:
        return found
    starts = [*(span.char_start for span in found), len(text)]
    ends = [0, *(span.char_end for span in found)]
    rest = (text[end:start] for end, start in zip(ends, starts))
    return found if any(any(map(str.isalnum, part)) for part in rest) else ()


def _span_in(opened: Sequence[tuple[str, str]], start: int, end: int) -> Iterator[LanguageSpan]:
    """Yield the passage in the language of the innermost tag that names one, if it is not empty."""
    language = next((code for _, code in reversed(opened) if code), "")
    if language and start < end:
        yield LanguageSpan(start, end, language)


def _tags(text: str, hidden: Sequence[Span]) -> Iterator[re.Match[str]]:
    for low, high in zip(
        [0, *(end for _, end in hidden)], [*(start for start, _ in hidden), len(text)]
    ):
        yield from _TAG.finditer(text, low, high)


def _kind_of_tag(text: str, match: re.Match[str], name: str) -> str:
    """Return the kind of a match between < and >, "" if it is not a tag."""
    inside = (match["inside"] or "").strip(" /")
    if not name or name in _KNOWN:
        if not inside or "=" in inside or name in _ANNOTATED or match[0][1] == "/":
            return MARKUP
        return ""
    words = f"{match['name']} {inside}"
    if is_known_direction(words) or match[0][1] == "/" or (words.isupper() and not inside):
        return DIRECTION
    return MARKUP if "=" in inside else ""


def _links(text: str) -> list[Span]:
    """Return the unspoken parts of Markdown's links and tables.

    Brackets and addresses, and the lines of cells.
    """
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
    """Return the numbers of lists, which count up by one at the beginnings of lines.

    Some people read them.

    >>> _numbers_of_lists("1. one\\n2. two\\n1984. So")
    [(0, 2), (7, 9)]
    """
    found = list(_LIST_NUMBER.finditer(text))
    values = [int(match[1]) for match in found]
    follows = [second == first + 1 for first, second in pairwise(values)]
    counted = [before or after for before, after in zip([False, *follows], [*follows, False])]
    return [
        (match.start(1), match.end()) for match, is_counted in zip(found, counted) if is_counted
    ]


def _timed_lines(text: str) -> list[Span]:
    """Return the bare times at the beginnings of the lines of a transcript.

    There are several, ascending, on most lines.
    """
    if ":" not in text:
        return []
    found = list(_BARE_TIME.finditer(text))
    if len(found) < 2:
        return []
    seconds = [clock_seconds(match["time"]) for match in found]
    alone = sum(not match["rest"].strip() for match in found) == len(found)
    lines = sum(not line.isspace() for line in text.splitlines() if line)
    ascending = all(first <= second for first, second in pairwise(seconds))
    if not ascending or not (alone or (len(found) > 2 and 2 * len(found) >= lines)):
        return []
    return [match.span("time") for match in found]


_SOUNDS = word_list("sounds")
_BESIDE_SOUNDS = word_list("beside-sounds")
_WORD = lazy_regex(r"[^\W\d_]+(?:_[^\W\d_]+)?")
_BRACKETS = lazy_regex(r"[\[［【](?P<inside>[^\[\]［］【】]{0,400})[\]］】]")
_OTHER_BRACKETS = lazy_regex(
    r"[(（](?P<paren>[^()（）\n]{1,80})[)）]|\{(?P<brace>[^{}\n]{1,60})\}|(?<![\w*])\*(?P<star>[^*\n]{1,60})\*(?![\w*])"
    r"|(?<!\w)<(?P<angle>[a-z][\w:.-]*)/?>(?!\w)"
)
_MOST_WORDS = 25
_FOOTNOTE = lazy_regex(r"[\d\s,–*†‡-]*|[xX]|citation needed|sic")
_NOTES = "♪♫♩♬🎵🎶"
_VERSE_LINE = rf"\n[^\S\n]*(?![{_NOTES}])\S[^\n]*?"
_SUNG = lazy_regex(
    rf"[{_NOTES}](?:[^\S\n]|[{_NOTES}])*[^\s{_NOTES}][^\n{_NOTES}]*[{_NOTES}]+"  # up to the next note after a word
    rf"|[{_NOTES}](?:(?:[^\S\n]|[{_NOTES}])*[{_NOTES}])?(?=[^\S\n]*(?:\n|\Z))"  # notes alone
    rf"|[{_NOTES}]{{2,}}"  # music, before words that are not sung
    rf"|[{_NOTES}][^\n]*(?:(?:{_VERSE_LINE}){{1,3}}?[{_NOTES}][^\S\n]*(?=\n|\Z))?"  # a line, or a verse
)
"""Passages between notes; a line with one note is sung up to its end, or up to the note that ends a
later line."""
_TRAILING = lazy_regex(r"[.,;!?…]+(?=\s|\Z)")
_LABELLED = lazy_regex(r"[^\S\n]*[:：]")
_BLANK_LINE = lazy_regex(r"\n[^\S\n]*\n")
_PARENTHESIS = lazy_regex(r"[()（）]|\n[^\S\n]*\n")
_BEFORE_PARENTHESIS = "\"'“‘«„—–-*_…"
_AFTER_PARENTHESIS = "\"'”’»—–-*_….,;:!?、。，；：！？"


@dataclass(frozen=True)
class Directions:
    """Spans of brackets and marks in a text, ascending.

    Stage directions, other marks (footnotes), and brackets whose words may be spoken.
    """

    certain: Sequence[Span]
    marks: Sequence[Span]
    possible: Sequence[Span]


def stage_directions(text: str) -> Directions:
    """Return the stage directions of a text, and what looks like one.

    The end of a span is exclusive.

    >>> found = stage_directions("So [laughs], it [T]hen went [in the end] (applause) on.[1] ♪ la la ♪")
    >>> found.certain, found.possible
    ([(3, 12), (41, 51), (59, 68)], [(28, 40)])
    """
    spans: dict[str, list[Span]] = {"certain": [], "marks": [], "possible": [], "": []}
    if "[" in text or "【" in text or "［" in text:
        for match in _BRACKETS.finditer(text):
            kind = _kind_of_brackets(text, match)
            spans[kind].append(match.span() if kind == "possible" else _with_trailing(text, match))
    if any(sign in text for sign in "({*（<"):
        for match in _OTHER_BRACKETS.finditer(text):
            if is_known_direction(match[match.lastgroup or 0]):
                spans["certain"].append(_with_trailing(text, match))
            elif _WORD.search(match["brace"] or match["angle"] or ""):
                spans["possible"].append(match.span())
    spans["certain"] += _found(_SUNG, text)
    return Directions(sorted(spans["certain"]), sorted(spans["marks"]), spans["possible"])


def is_known_direction(words: str) -> bool:
    """Return whether words name a sound.

    All of them are known, and one of them is a sound, or a corpus's mark of one.

    >>> list(map(is_known_direction, ("audience laughs", "INAUDIBLE 00:12", "SPOKEN_NOISE", "vocalized-noise")))
    [True, True, True, True]
    >>> is_known_direction("he laughs at me"), is_known_direction("background")
    (False, False)
    """
    found = [word.casefold() for word in _WORD.findall(words)]
    known = _SOUNDS | _BESIDE_SOUNDS
    return any(word in _SOUNDS for word in found) and all(word in known for word in found)


def _with_trailing(text: str, match: re.Match[str]) -> Span:
    """Return the span with the punctuation that follows it.

    The punctuation would otherwise be a separate word.
    """
    start, end = match.span()
    trailing = _TRAILING.match(text, end)
    return start, trailing.end() if trailing else end


def _kind_of_brackets(text: str, match: re.Match[str]) -> str:
    """Return the field of `Directions` to which brackets belong.

    "" for brackets that are part of the text.
    """
    inside = match["inside"]
    start, end = match.span()
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if _FOOTNOTE.fullmatch(inside) or re.fullmatch(TIME, inside.strip()):
        return "marks"
    if is_known_direction(inside):
        return "certain"
    if text[start] == "【" or before == "[" or after == "]" or before.isalnum() or after.isalnum():
        return ""
    line = start
    while line and text[line - 1] != "\n" and text[line - 1].isspace():
        line -= 1
    begins_line = not line or text[line - 1] == "\n"
    if begins_line and (_LABELLED.match(text, end) or names_speaker(inside)):
        return ""
    if _BLANK_LINE.search(inside) or len(inside.split()) > _MOST_WORDS:
        return ""
    if _WORD.search(inside):
        return "possible"
    return "certain"


def parentheses(text: str) -> list[Span]:
    """Return the outermost pairs of parentheses around whole words without a blank line, ascending.

    >>> text = "He went (or so (they) said) home(s). (Yes."
    >>> [text[start:end] for start, end in parentheses(text)]
    ['(or so (they) said)']
    """
    found: list[Span] = []
    opened: list[int] = []
    for match in _PARENTHESIS.finditer(text) if "(" in text or "（" in text else ():
        sign = match.group()
        if sign in "(（":
            opened.append(match.start())
        elif sign not in ")）":
            opened.clear()
        elif opened:
            start, end = opened.pop(), match.end()
            if _encloses_words(text, start, end):
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, end))
    return found


def _encloses_words(text: str, start: int, end: int) -> bool:
    """Return whether words begin and end with these parentheses, apart from quotes and marks."""
    full_width = text[start] == "（"
    while start and text[start - 1] in _BEFORE_PARENTHESIS:
        start -= 1
    while end < len(text) and text[end] in _AFTER_PARENTHESIS:
        end += 1
    begins = not start or text[start - 1].isspace() or text[start] in "—–"
    ends = end == len(text) or text[end].isspace() or text[end - 1] in "—–"
    return full_width or (begins and ends)


_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_SAMPLE_NUMBERS = lazy_regex(
    rf"\s*0+[ \t]+(?!0+[ \t])([0-9]{{1,12}})(?=[ \t]+\S[^{_BREAKS}]*(?:[{_BREAKS}]\s*)?\Z)"
)
_SAMPLE_RATES = (8000, 16000, 22050, 44100, 48000)
"""Usual sampling rates of sample numbers: that of the recording, or of the original from which it
was made."""
_SLACK = 0.01
_SLACK_S = 0.03


def may_have_sample_numbers(text: str) -> bool:
    """Return whether the only line of a text may begin with sample numbers.

    They are 0, the first sample of a recording, and a larger number.

    >>> may_have_sample_numbers("0 63488 She had it.\\n"), may_have_sample_numbers("1990 63488 had it.")
    (True, False)
    """
    return _SAMPLE_NUMBERS.match(text) is not None


def without_sample_numbers(words: Words, duration_s: float) -> Words:
    """Return the words of a transcript with its sample numbers unspoken.

    TIMIT begins its lines with them: `0 63488 She had …`.

    They are sample numbers if the last sample is at the end of the recording, to a hundredth, at a
    usual sample rate.

    Args:
        words: the whole transcript.
        duration_s: length of the recording.

    >>> from ctc_align.text import split
    >>> [word.spoken for word in without_sample_numbers(split("0 16000 Yes."), 1.0).words]
    ['', '', 'yes']
    """
    found = _SAMPLE_NUMBERS.match(words.text)
    if found is None or duration_s <= 0:
        return words
    slack_s = max(_SLACK * duration_s, _SLACK_S)
    if not any(abs(int(found[1]) / rate - duration_s) <= slack_s for rate in _SAMPLE_RATES):
        return words
    others = [word for word in words.words if word.char_start >= found.end()]
    if not any(word.spoken for word in others):
        return words
    numbers = words.words[: len(words.words) - len(others)]
    unspoken = [
        replace(word, spoken="", roman=None, phones=None, reading=None, kind=MARKUP)
        for word in numbers
    ]
    return replace(words, words=(*unspoken, *others))
