"""Signs that transcribers and corpora write inside a line: Jefferson, GAT 2, CHAT, Kaldi,
Switchboard, Fisher, Buckeye.

`BEFORE_TAGS` and `AFTER_TAGS` are tables of these signs, one convention a row. The names of the
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
from typing import NamedTuple

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
    """A row: characters that a text with it has, its pattern, and a pattern that the text must also
    have."""

    signs: str
    pattern: re.Pattern[str]
    needs: re.Pattern[str] | None = None


class Edit(NamedTuple):
    """Characters `start` to `end` (exclusive) of a text, how they are treated, and what replaces
    them."""

    start: int
    end: int
    treatment: str
    replacement: str


def _sign(signs: str, pattern: str, needs: str = "", flags: int = 0) -> SignPattern:
    return SignPattern(signs, lazy_regex(pattern, flags), lazy_regex(needs) if needs else None)


_L = r"[^\W\d_]"
_CODE = r"\[(?:[/=:%+*?!<>^-]+\d*(?:\s[^\[\]\n]*)?|x \d+)\]"
"""CHAT's codes in brackets: [/], [//], [= a note], [: target], [*], [>1], [x 3]."""
_FAST = r"(?<![\w<>-])>{1,2}(?=[^\W\d_(])[^<>\n]{1,200}<{1,2}(?![\w/!])"

_AROUND, _END = "°£#~@", r"(?<=[\w.,?!:;'’-])"
_MANNERS = "laugh(?:ter|ing)?|cutoff|ext|hes"
"""How words are said that stand in a mark: [laughter-yes], <CUTOFF-th=the>."""
_SPECIAL_FORMS = "fp|fs|lp|sas|si|sl|wp|[abcdefgiklnopqstux]|z:\\w+"
"""CHAT's kinds of words that are no words of the language: mama@f, the@s:eng."""
_HEADERS = "@(?:Begin|End|UTF8|Languages|Participants|ID|Media|Comment|Situation|Date)\\b"

BEFORE_TAGS = (
    _sign("[", rf"(?P<hide1><)[^<>\n]{{1,300}}(?P<hide2>>)(?=\s*{_CODE})"),
    _sign("-", rf"(?P<hide1>[\[<](?:{_MANNERS})[-_])(?={_L})[\w'-]+(?P<hide2>(?:=[\w'-]*)?[\]>])", flags=re.IGNORECASE),
    _sign("<[", r"(?P<any><(?:unk|oov|unknown)>|\[(?:unk|oov)\])", flags=re.IGNORECASE),
    _sign("<", r"(?P<sign1><(?P<n>[@%]|[A-Z][A-Z\d]{,5})=?)\s[^<>\n]{1,300}?\s(?P<sign2>(?P=n)=?>)"),
    _sign(">", r"(?<![\w<>-])(?P<hide1>>{1,2})(?=[^\W\d_(])[^<>\n]{1,200}(?P<hide2><{1,2})(?![\w/!])"),
    _sign(">", r"(?P<hide1><)(?=[^\W\d_])[^<>\n]{1,200}(?P<hide2>>)", needs=_FAST),
)  # fmt: skip
"""SignPatterns with angle brackets, also Du Bois's manners of speaking (`<Q so Q>`), and `<unk>` and
`[unk]` of many corpora."""

AFTER_TAGS = (
    # Kaldi, HTK, Sphinx and TED-LIUM
    _sign("!", r"(?<!\S)(?P<mark>![A-Z]+)(?!\S)"),
    _sign("#", r"(?<!\S)(?P<sign>#\d+)(?!\S)", needs=r"(?<!\S)#0(?!\S)"),
    _sign("(", rf"(?<={_L})(?P<hide>\(\d{{1,2}}\))(?![\w(])"),
    # Fisher and Switchboard
    _sign("(", r"(?P<any>\(\()\s+(?P<sign>\)\))"),
    _sign("[", rf"(?<={_L})(?P<open>\[)[^\W\d_][\w']*(?P<close>\])(?=-)"),
    _sign("[", rf"(?<!\S)-(?P<open>\[)[^\W\d_][\w']*(?P<close>\])(?={_L})"),
    _sign("%", rf"(?<![^\s(])(?:(?P<mark>%hesitation)\b|(?P<hide>%)(?={_L}+\b(?!:)))", flags=re.IGNORECASE),
    # CHAT
    _sign("[", rf"(?P<sign>{_CODE})"),
    _sign("&", r"(?<![^\s<(\"])(?:(?P<mark>&=[\w:+-]+)|(?P<hide>&\*[A-Z]{3}:)(?=\w))"),
    _sign("&", rf"(?<![^\s<(\"])(?P<maybe>&[-+~])(?={_L})"),
    _sign("@", rf"(?<={_L})(?P<hide>@(?:{_SPECIAL_FORMS})(?::[a-z&+]+)?)(?![\w@:]|\.\w)"),
    _sign("+", r"(?<!\S)(?P<sign>\+[./!?\"<,^+]+)(?!\S)"),
    _sign("%@", rf"^(?P<sign>(?:%[a-z]{{3}}:|{_HEADERS}).*)$",
         needs=r"(?m)^(?:\*[A-Z\d]{2,4}:|@Begin\b)", flags=re.MULTILINE),
    _sign("0", r"(?<!\S)(?P<mark>0[a-z]{2,})(?=[.,?!]*(?:\s|\Z))", needs=r"\[/|&[-=+~]|^\*[A-Z\d]{3}:|(?<!\S)[(+]\."),
    _sign("&", r"(?<!\S)(?P<maybe>&)(?=(?:[aeiou]+[hmr]+|h?m+|h[ae]h?)\b)"),
    _sign("xy", r"(?<![^\s(])(?P<any>xxx|yyy)(?=[.,?!)]*(?:\s|\Z))"),
    _sign("(", rf"(?:(?<={_L}{{2}})|(?<={_L})(?=\([^()\s]+\){_L}))(?P<open>\()[^\W\d_'][^\W\d_]{{0,7}}(?P<close>\))"),
    _sign("(", rf"(?<![^\s\"“‘\[])(?P<open>\()[^\W\d_][^\W\d_']{{0,7}}(?P<close>\))(?={_L}{{2}})"),
    # Jefferson and GAT 2
    _sign("h", r"(?<!\S)(?P<mark>[.°·]+h+|h+°|h{2,})(?=[.,]?(?:\s|\Z))"),
    _sign("°£#~@", rf"(?<!\w)(?P<hide1>°+|[{_AROUND}])(?={_L})[^\n{_AROUND}]{{,200}}{_END}(?P<hide2>(?P=hide1))(?!\w)"),
    _sign("°", rf"(?<![\d\w])(?<!\d\s)(?P<hide>°+)(?={_L}{{2}})"),
    _sign("°", rf"(?:(?<={_L}{{2}})|(?<={_L}[.,?!;:-]))(?P<hide>°+)(?=[.,?!;:]*(?:\s|\Z))"),
    _sign("↑↓", rf"(?<={_L})(?P<hide>[↑↓]+)(?={_L})"),
    _sign("!", rf"(?P<hide1>!)[A-ZÄÖÜ]{{1,6}}(?P<hide2>!)(?={_L})"),
    _sign("#", rf"(?<!\S)(?P<hide>##+)(?={_L})"),
    # Du Bois's numbered overlaps, and his pauses
    _sign("(", r"(?<!\S)(?P<sign>\.{2,3}\(\d*\.?\d+\))(?!\S)"),
    _sign("[", r"(?P<sign1>\[(?P<n>\d{1,2}))(?=[^\d:.,])[^\[\]\n]{1,300}?(?<![\d:.,])(?P<sign2>(?P=n)\])"),
)  # fmt: skip
"""All other conventions."""


def find_notation(text: str, rows: tuple[SignPattern, ...]) -> list[Edit]:
    """Return what the signs of a text become, ascending and without overlaps; earlier rows come
    first.

    >>> [(text[edit.start : edit.end], edit.treatment) for text in ["!SIL the(2) re(p)resented &-uh"]
    ...  for edit in find_notation(text, AFTER_TAGS)]
    [('!SIL', 'mark'), ('(2)', 'hide'), ('(', 'open'), (')', 'close'), ('&-', 'maybe')]
    """
    found: list[Edit] = []
    taken: set[int] = set()
    for signs, pattern, needs in rows:
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
    """Return what the colons inside words and the equals signs between words of a text become,
    ascending.

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
    """Return a word without its letters that may be unspoken (`re(p)resented`), and its cut-off
    mark.

    >>> without_optional_letters(f"w{OPEN}ere{CLOSE}-"), without_optional_letters("were")
    ('w-', 'were')
    """
    if OPEN in word:
        return _PARTS.sub("", word)
    return word


def is_silent(character: str) -> bool:
    """Return whether a character replaces a sign that belongs to its word."""
    return character in _REPLACED.values()
