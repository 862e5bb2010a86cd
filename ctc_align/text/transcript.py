"""Splitting a transcript into words, each with its place in the text and its spoken form."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ctc_align.config import Settings
from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.dictionary_words import words_by_dictionary
from ctc_align.text.markup import MappedText, Mark, Markup, read_markup
from ctc_align.text.spoken_form import spoken_forms
from ctc_align.text.stage_directions import Span
from ctc_align.text.word_boundaries import boundaries, cut_at
from ctc_align.types import MARKUP, SPEAKER, OptionalWords, Word, Words

_RUN = re.compile(r"\S+")
_LONGEST_ASIDE = 60
"""Words in parentheses that may be left out."""
_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U000323af"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
_ANY_SPACELESS = re.compile(f"[{_SPACELESS}]")
_STACKERS = "\u1039\u17d2"
_VOWELS_LIKE_MARKS = "\u0e33\u0eb3"
_PREFIXES = "#@+-−±~'’"

_LETTER, _EXTEND, _STACK, _OTHER, _OPEN, _PREFIX, _WIDE, _NARROW = "LXJAOSWP"
_ATOM = re.compile(r"(?P<core>L(?:J+L|[XJ])*|A(?:[AXJ]|[POS][POSX]*(?=A))*)|(?P<open>O|S(?=S*A))|(?P<close>.)")


def split(text: str, *, language: str = "en", by_character: bool | None = None, by_dictionary: bool = False) -> Words:
    """Split `text` into its written words; `char_start` and `char_end` count code points, `char_end` exclusive.

    A word is a run of non-space characters (Unicode spaces, as `str.isspace` knows them), attached punctuation and
    hyphens included; it ends also after a dash, an ellipsis, a slash or a sentence mark that stands between two words
    ("Americans—ask": see `ctc_align.text.word_boundaries`). Where a run holds a script that is written without spaces
    (Han, kana, Thai, Lao, Khmer, Myanmar), each character with its marks is a word: closing punctuation goes with the
    character before it, opening punctuation with the one after. Every non-space character belongs to exactly one word.

    Labels of speakers, stage directions and markup are words of a `kind`, not spoken and cut off from what they are
    attached to; the other words say their `speaker`. Passages of which only the sound can tell are in `optional`.

    Args:
        text: the transcript.
        language: BCP 47 or ISO 639 code; it decides how digits, signs and abbreviations are read.
        by_character: True makes every letter and digit a word, in any script; False never cuts a run but at
            markup, not even at a dash; None decides run by run, as above.
        by_dictionary: join characters into words of a dictionary in Chinese, Japanese and Thai, with readings of
            Japanese (`ctc_align.text.dictionary_words`).

    Raises:
        UsageError: `text` or `language` is not a string, or the dictionary is not installed.

    >>> [(word.text, word.spoken) for word in split("Twenty-two cost $3.50!").words]
    [('Twenty-two', 'twenty two'), ('cost', 'cost'), ('$3.50!', 'three dollars and fifty cents')]
    >>> [word.text for word in split("「今日」は", language="ja").words]
    ['「今', '日」', 'は']
    """
    if not isinstance(text, str) or not isinstance(language, str):
        got = type(language if isinstance(text, str) else text).__name__
        raise UsageError(f"expected the transcript and its language as strings, got {got}; decode bytes as UTF-8 first")
    markup = read_markup(text)
    spoken = markup.spoken
    spans = _spans(spoken.text, by_character)
    if by_character is None and (cuts := boundaries(spoken.text, language)):
        spans = list(cut_at(spans, cuts))
    readings: Sequence[str | None] = ()
    if by_dictionary and has_spaceless(spoken.text):
        spans, readings = words_by_dictionary(spoken.text, spans, language)
    if spoken.starts is not None:
        spans = [_without_entities(span, spoken) for span in spans]
    written = [spoken.text[start:end] for start, end in spans]
    forms = spoken_forms(written, language, in_context=not by_character)
    if spoken.starts is None and not markup.marks and not markup.optional:
        words = list(map(Word, written, forms, *zip(*spans))) if spans else []
        return Words(text, tuple(_with_readings(words, readings)))
    return _marked_words(text, markup, spans, forms, readings)


def _with_readings(words: list[Word], readings: Sequence[str | None]) -> list[Word]:
    """Return words with their readings where there are any; "" is what is spoken."""
    if not readings:
        return words
    both = zip(words, readings)
    return [word if reading is None else replace(word, reading=reading or word.spoken) for word, reading in both]


def words_of(text: str, settings: Settings) -> Words:
    """Split a transcript by the settings `language` (English if empty), `words_by` and `romanize`.

    Raises:
        UsageError: as `split`, or uroman is needed and not installed.
    """
    language = settings.for_language().language
    by_character = {"spaces": False, "characters": True}.get(settings.words_by)
    by_dictionary = settings.words_by == "dictionary"
    words = split(text, language=language, by_character=by_character, by_dictionary=by_dictionary)
    if not settings.romanize:
        return words
    from ctc_align.text.romanisation import romanized

    return romanized(words, language)


def require_words(words: Words, source: str) -> None:
    """Raise TranscriptError, naming `source`, unless at least one word of `words` is spoken.

    >>> require_words(split("Yes."), "yes.txt")
    """
    if not words.words:
        raise TranscriptError(f"{source}: the transcript is empty; expected at least one word that is spoken")
    if not any(word.spoken for word in words.words):
        got = " ".join(word.text for word in words.words[:5])
        raise TranscriptError(f"{source}: nothing in the transcript is spoken (got: {got}); expected at least one word")


def _marked_words(
    text: str, markup: Markup, spans: Sequence[Span], forms: Sequence[str], readings: Sequence[str | None]
) -> Words:
    """Return the words of a text with marks: those that are spoken, `spans` of `markup.spoken`, and the marks'."""
    spoken = markup.spoken
    marks = [Mark(*spoken.span(mark.start, mark.end), mark.kind, mark.speaker) for mark in markup.marks]
    marks = sorted([*marks, *markup.tags], key=lambda mark: (mark.start, mark.end))
    places = [spoken.span(*span) for span in spans]
    words = [Word(text[start:end], form, start, end) for (start, end), form in zip(places, forms)]
    words = _with_readings(words, readings)
    words += _unspoken_words(text, places, marks)
    words.sort(key=lambda word: word.char_start)
    names = [(mark.end, mark.speaker) for mark in marks if mark.speaker is not None]
    if names:
        ends = [end for end, _ in names]
        before = (bisect_right(ends, word.char_start) for word in words)
        words = [
            replace(word, speaker=names[at - 1][1]) if at and word.kind != SPEAKER else word
            for word, at in zip(words, before)
        ]
    return Words(text, tuple(words), tuple(_optional_words(words, markup, spans, places)))


def _unspoken_words(text: str, places: Sequence[Span], marks: Sequence[Mark]) -> Iterator[Word]:
    """Yield the runs of characters that lie in none of `places` (ascending), cut where marks begin and end."""
    cuts = sorted({edge for mark in marks for edge in (mark.start, mark.end)})
    gaps = zip([0, *(end for _, end in places)], [*(start for start, _ in places), len(text)])
    runs = [run.span() for low, high in gaps if low < high for run in _RUN.finditer(text, low, high)]
    starts = [mark.start for mark in marks]
    for start, end in cut_at(runs, cuts):
        at = bisect_right(starts, start) - 1
        while at > 0 and marks[at].end <= start and marks[at - 1].end > start:
            at -= 1  # a mark inside another one
        kind = marks[at].kind if at >= 0 and marks[at].end > start else MARKUP
        yield Word(text[start:end], "", start, end, kind=kind)


def _optional_words(
    words: Sequence[Word], markup: Markup, spans: Sequence[Span], places: Sequence[Span]
) -> Iterator[OptionalWords]:
    """Yield the passages that may not be spoken; not one that is too long for an aside, or all that there is."""
    index_of = {word.char_start: index for index, word in enumerate(words)}
    said = sum(bool(word.spoken) for word in words)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    free = 0
    for mark in markup.optional:
        low, high = bisect_right(ends, mark.start), bisect_left(starts, mark.end)
        if low >= high:
            continue
        first, last = index_of[places[low][0]], index_of[places[high - 1][0]] + 1
        inside = sum(bool(word.spoken) for word in words[first:last])
        if first >= free and 0 < inside < said and inside <= _LONGEST_ASIDE:
            free = last
            yield OptionalWords(first, last, mark.kind, mark.speaker or "")


def _without_entities(span: Span, spoken: MappedText) -> Span:
    """Return the span of a word without the signs around it that are written as entities (&quot;)."""
    start, end = span
    assert spoken.starts is not None

    def is_entity(at: int) -> bool:
        low, high = spoken.span(at, at + 1)
        return high - low > 1 and not spoken.text[at].isalnum()

    if not any(map(str.isalnum, spoken.text[start:end])):
        return span
    while is_entity(start):
        start += 1
    while is_entity(end - 1):
        end -= 1
    return start, end


def _spans(text: str, by_character: bool | None) -> list[tuple[int, int]]:
    whole = by_character is False or (by_character is None and not has_spaceless(text))
    spans = []
    for run in _RUN.finditer(text):
        start, end = run.span()
        if whole or (by_character is None and not has_spaceless(run.group())):
            spans.append((start, end))
        else:
            spans.extend((start + a, start + b) for a, b in character_spans(run.group(), every=bool(by_character)))
    return spans


def has_spaceless(text: str) -> bool:
    """Return whether `text` holds a character of a script that is written without spaces."""
    return not text.isascii() and _ANY_SPACELESS.search(text) is not None


def character_spans(run: str, *, every: bool = False) -> list[tuple[int, int]]:
    """Cut a run without spaces into words; the spans (start, end exclusive) cover it without gaps, in order.

    A letter of a spaceless script with its marks is a word, and so is each stretch between such letters (Latin words,
    digits). With `every`, each letter and digit of any script is a word.

    >>> [("iPhoneを買う。")[a:b] for a, b in character_spans("iPhoneを買う。")]
    ['iPhone', 'を', '買', 'う。']
    """
    kinds = _kinds(run, every)
    spans: list[tuple[int, int]] = []
    pending = -1  # start of punctuation that waits for the next word
    for atom in _ATOM.finditer(kinds):
        start, end = atom.span()
        if atom.lastgroup == "core":
            spans.append((start if pending < 0 else pending, end))
            pending = -1
        elif atom.lastgroup == "close" and pending < 0 and spans:
            spans[-1] = (spans[-1][0], end)
        elif pending < 0:
            pending = start
    if pending >= 0:
        spans[-1:] = [(spans[-1][0] if spans else pending, len(run))]
    return spans


def _kinds(run: str, every: bool) -> str:
    """Return one letter per character of `run`, for `_ATOM` to match."""
    kinds = []
    quote_is_open = False
    for character in run:
        kind = _kind(character, every)
        if character == '"':
            kind = _NARROW if quote_is_open else _OPEN
            quote_is_open = not quote_is_open
        kinds.append(kind)
    if kinds[0] == _EXTEND and unicodedata.category(run[0]) == "Lm":
        kinds[0] = _LETTER  # an iteration or length mark with nothing before it stands for itself
    return "".join(kinds)


@lru_cache(maxsize=16384)
def _kind(character: str, every: bool) -> str:
    category = unicodedata.category(character)
    spaceless = _ANY_SPACELESS.match(character) is not None
    if character in _STACKERS:
        return _STACK
    if category[0] == "M" or category == "Cf" or character in _VOWELS_LIKE_MARKS or (spaceless and category == "Lm"):
        return _EXTEND
    if category[0] in "LN":
        return _LETTER if every or (spaceless and category != "Nd") else _OTHER
    if category in ("Ps", "Pi"):
        return _OPEN
    if category == "Sc" or character in _PREFIXES:
        return _PREFIX
    return _WIDE if unicodedata.east_asian_width(character) in "WF" else _NARROW
