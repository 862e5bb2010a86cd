"""Signs that transcribers and corpora write inside a line.

Jefferson, GAT 2, CHAT, Kaldi, Switchboard, Fisher and Buckeye.

`notation.toml` has tables of these signs, one convention a row. The names of the
groups of a row say how the characters of a group are treated:

mark, sign     a word that is not spoken: a direction, or markup
hide           silent inside a word: `°soft°`, `the@c`, `the(2)`
maybe          silent, and the sound decides whether the rest of the word is spoken: `&-uh`
open, close    silent, and the sound decides whether the letters between them are spoken: `re(p)resented`, `w[ere]-`
any            speech that nobody has written down: `<unk>`, `xxx`
latch          silent, and a word ends after it: `in=the`

Silent characters become characters that are read as nothing, so that a word keeps its written form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ctc_align.reading import parse_toml
from ctc_align.text.characters import lazy_regex, plain
from ctc_align.text.letter_to_phone import english_words

HIDDEN, MAYBE, OPEN, CLOSE, LATCH = "\u2060\u2061\u2062\u2063\u2064"
ANY = "\ue000"
"""Stands for a word whose sound is any speech."""
_REPLACED = {
    "hide": HIDDEN,
    "maybe": MAYBE,
    "open": OPEN,
    "close": CLOSE,
    "latch": LATCH,
    "any": ANY,
}
_UNSPOKEN = ("mark", "sign")
_PARTS = lazy_regex(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")


class SignPattern(NamedTuple):
    """A row of the table of signs.

    Characters that a text with the sign has, its pattern, and a pattern that the text must also
    have.
    """

    signs: str
    pattern: re.Pattern[str]
    needs: re.Pattern[str] | None = None


class Edit(NamedTuple):
    """A sign in a text: its span, how it is treated, and what replaces it.

    It is the characters `start` to `end` (exclusive).
    """

    start: int
    end: int
    treatment: str
    replacement: str


@cache
def _read_tables() -> dict[str, list[dict[str, str]]]:
    """Return the tables of `notation.toml` by their names."""
    return parse_toml(Path(__file__).with_name("notation.toml").read_text("utf-8"))


@cache
def sign_patterns(table: str) -> tuple[SignPattern, ...]:
    """Return the rows of a table of `notation.toml`: `before_tags` or `after_tags`."""
    rows = _read_tables()[table]
    return tuple(
        SignPattern(
            row["signs"], *map(lazy_regex, filter(None, (row["pattern"], row.get("needs"))))
        )
        for row in rows
    )


def find_notation(text: str, table: str) -> list[Edit]:
    """Return what the signs of a text become, ascending and without overlaps.

    Where two rows match, the earlier one holds.

    >>> [(text[edit.start : edit.end], edit.treatment) for text in ["!SIL the(2) re(p)resented &-uh"]
    ...  for edit in find_notation(text, "after_tags")]
    [('!SIL', 'mark'), ('(2)', 'hide'), ('(', 'open'), (')', 'close'), ('&-', 'maybe')]
    """
    found: list[Edit] = []
    taken: set[int] = set()
    for signs, pattern, needs in sign_patterns(table):
        if not any(sign in text for sign in signs) or (
            needs is not None and not needs.search(text)
        ):
            continue
        for match in pattern.finditer(text):
            for edit in _edits(match):
                if taken.isdisjoint(range(edit.start, edit.end)):
                    taken.update(range(edit.start, edit.end))
                    found.append(edit)
    return sorted(found)


def _edits(match: re.Match[str]) -> Iterator[Edit]:
    for name, characters in match.groupdict().items():
        treatment = name.rstrip("12")
        if characters and treatment in _REPLACED:
            yield Edit(*match.span(name), treatment, _REPLACED[treatment])
        elif characters and treatment in _UNSPOKEN:
            yield Edit(*match.span(name), treatment, " ")


_L = r"[^\W\d_]"

# Lengthening (`pre:sent`) and latching (`in=the`)
#
# A colon between letters lengthens a sound where the letters are an English word without it, or the
# text has other signs of conversation analysis. Otherwise it is a colon without its space.

_PROSE = lazy_regex(r"(?<!\S)[^\s\d/@<>{}_\\&?#]{0,80}[:=][^\s\d/@<>{}_\\&#]{0,80}(?!\S)")
_LENGTHS = lazy_regex(rf"(?<={_L}):+(?={_L})")
_BEFORE = rf"(?:(?<={_L}{{2}})|(?<={_L}[:.,?!;\]{HIDDEN}]))"
_LATCHES = lazy_regex(
    rf"{_BEFORE}=(?:(?={_L}{{2}})|(?=[IaAoO]\b)|(?=[↑↓\[{HIDDEN}]))|(?<=\b[IaAoO])=(?={_L}{{2}})"
)
_LATCHES_OUTSIDE = lazy_regex(rf"(?<!\S)=(?=[↑↓\[{HIDDEN}]?{_L}{{2}})|{_BEFORE}=(?!\S)")
_CONVERSATION = lazy_regex(
    rf"{_L}::+{_L}|\(\.\)|\(\d*\.\d+\)|{HIDDEN}{_L}|[↑↓]{_L}|{_L}{{2}}={_L}{{2}}"
)
_WORDS = lazy_regex(rf"{_L}(?:{_L}|['’:])*")


def find_prosody(text: str, is_english: bool) -> list[Edit]:
    """Return what colons inside words and equals signs between words become, ascending.

    >>> [(text[edit.start : edit.end], edit.treatment) for text in ["at pre:sent it is said:Then in=the"]
    ...  for edit in find_prosody(text, True)]
    [(':', 'hide'), ('=', 'latch')]
    """
    found: list[Edit] = []
    is_conversation: bool | None = None
    for run in _PROSE.finditer(text) if ":" in text or "=" in text else ():
        for word in _WORDS.finditer(text, *run.span()):
            if ":" not in word[0].rstrip(":"):
                continue
            if is_conversation is None:
                is_conversation = _CONVERSATION.search(text) is not None
            if _is_lengthened(word[0].rstrip(":"), is_english, is_conversation):
                found += [
                    Edit(*at.span(), "hide", HIDDEN) for at in _LENGTHS.finditer(text, *word.span())
                ]
        found += [Edit(*at.span(), "latch", LATCH) for at in _LATCHES.finditer(text, *run.span())]
    if "=" in text:
        found += [Edit(*at.span(), "hide", HIDDEN) for at in _LATCHES_OUTSIDE.finditer(text)]
    return sorted(set(found))


def _is_lengthened(word: str, is_english: bool, is_conversation: bool) -> bool:
    """Return whether the colons inside a word lengthen its sounds."""
    left, _, right = word.partition(":")
    if (right[:1].isupper() and not word.isupper()) or (len(left) == 1 and left.isupper()):
        return False
    bare = plain(word.replace(":", "")).lower()
    return (
        "::" in word
        or is_conversation
        or (is_english and bare.removesuffix("'s") in english_words())
    )


def without_optional_letters(word: str) -> str:
    """Return a word without its cut-off mark and the letters that may be unspoken.

    For example `re(p)resented`.

    >>> without_optional_letters(f"w{OPEN}ere{CLOSE}-"), without_optional_letters("were")
    ('w-', 'were')
    """
    if OPEN in word:
        return _PARTS.sub("", word)
    return word


def is_silent(character: str) -> bool:
    """Return whether a character replaces a sign that belongs to its word."""
    return character in _REPLACED.values()
