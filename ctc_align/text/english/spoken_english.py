"""The spoken form of written English."""

from __future__ import annotations

import re

from ctc_align.text.characters import GAP, LETTER, lower, plain, word_set
from ctc_align.text.english import quantities
from ctc_align.text.english.abbreviations import SPECIAL, abbreviation, drops_g, is_elision, spelled_out
from ctc_align.text.english.measures import unit_name
from ctc_align.text.english.numbers import number, ordinal, roman
from ctc_align.text.english.scanner import Context, Scan, apply, rule

_SIMPLE = re.compile(r"[\"“(\[]?([A-Za-z]+)[\"”)\],;:!?.]*")
_WHOLE = re.compile(rf"\W*?({LETTER}+|[°µ]?[A-Za-z]+(?:/[a-z]+)?(?:⁺?[23])?)(\.|'s)?\W*")
_LONGEST_WHOLE = 80
"""No abbreviation or numeral is longer; the pattern takes the cube of a word's length, where marks are letters, too."""
_LONGEST = 1000
"""A longer word is none, and is read in pieces: some rules take the square of its length."""
_WORD = rf"{LETTER}+(?:'{LETTER}+)*"
_SIGNS = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "×": "times", "÷": "divided by",
    "±": "plus or minus", "≈": "about", "§": "section", "№": "number", "°": "degrees", "$": "dollars",
    "£": "pounds", "€": "euros", "¥": "yen", "¢": "cents", "−": "minus",
}  # fmt: skip
_RATES = {"day": "day", "week": "week", "month": "month", "year": "year", "hour": "hour", "mo": "month", "yr": "year"}
_READ_WHOLE = {
    "24/7": "twenty four seven", "w/": "with", "w/o": "without", "&c": "et cetera",
    **dict.fromkeys(("wwi", "ww1"), "world war one"), **dict.fromkeys(("wwii", "ww2"), "world war two"),
}  # fmt: skip
_SPECIAL = SPECIAL | set(_READ_WHOLE)
_CLOSED = re.compile(r"[,;:!?)]\W*$")
_POSSESSIVE = re.compile(rf"'s(?!{LETTER})")
_AMOUNT = re.compile(r"[$£€¥]?\.?(\d[\d,:]*)")
_POWERED = re.compile(r"(?:\d|(?<![^\W\d_])[^\W\d_]{1,2})$")
_MIXED = re.compile(r"[A-Z]{1,3}|[B-DF-HJ-NP-TV-Zb-df-hj-np-tv-z]{1,3}")
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|tv|fm|co\\.uk|ac\\.uk|org\\.uk|uk|de|fr|eu|ca|au|jp"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_URL_TAIL = r"(?::\d+)?(?:[/?#](?:[^\s,;!\"()]*[A-Za-z0-9/])?)?"
_URL_SPELLED = word_set("www edu io tv fm uk de fr eu ca au jp html php http https")
_URL_SIGNS = {
    ".": "dot", "@": "at", "/": "slash", "?": "question mark", "=": "equals", "&": "and", "#": "hash", "+": "plus",
}  # fmt: skip
_URL_PIECE = re.compile(r"[A-Za-z]+|\d+|[.@/?=&#+]")


def speak(word: str, context: Context) -> str:
    """Return the lower-case spoken words of one written English word; "" for a lone sign.

    Numbers are read the American way (no "and" inside them), four bare digits from 1100 to 2099 as a year, money as
    "three dollars and fifty cents", a range as "five to ten". Dotted initials and acronyms are spelled (see
    `abbreviations`), quotes around a word go, apostrophes that belong to it stay ('tis, o'clock, goin').

    >>> [speak(word, Context()) for word in ("Well-known,", "1999", "€9.99", "U.S.", "—")]
    ['well known', 'nineteen ninety nine', 'nine euros and ninety nine cents', 'u s', '']
    """
    if len(word) > _LONGEST:
        pieces = (speak(word[at : at + _LONGEST], Context()) for at in range(0, len(word), _LONGEST))
        return " ".join(filter(None, pieces))
    simple = _SIMPLE.fullmatch(word)
    if simple and simple[1].lower() not in _SPECIAL:
        letters = simple[1]
        if letters in quantities.SCALE_WORDS:
            return f"{letters} {quantities.money_before(context.before)}".rstrip()
        if (
            letters.islower()
            or (letters.istitle() and len(letters) > 1)
            or (context.shouting and set(letters) - set("IVXL"))
        ):
            return letters.lower()
    text = plain(word)
    return _whole(text, context) or _scanned(Scan(text, context))


def _whole(text: str, context: Context) -> str | None:
    """Read abbreviations, Roman numerals and set phrases, which need the whole word and its neighbours."""
    bare = text.strip("\"'()[],.;:!?" + GAP)
    if bare.lower() in _READ_WHOLE:
        return _READ_WHOLE[bare.lower()]
    match = _WHOLE.fullmatch(text) if len(text) <= _LONGEST_WHOLE else None
    if not match:
        return None
    letters, ending = match[1], match[2]
    if _CLOSED.search(text):
        context = context._replace(after="")
    spoken = None if ending == "'s" else abbreviation(letters, ending == ".", context)
    if spoken is None and (spoken := roman(letters, context.before, context.shouting)):
        spoken += "'s" if ending == "'s" else ""
    return spoken


def _scanned(scan: Scan) -> str:
    """Read a word piece by piece; characters that no rule reads are skipped."""
    may_be_address = "." in scan.text or "@" in scan.text
    while scan.place < len(scan.text):
        start = scan.place
        if may_be_address and apply(_ADDRESS_RULES, scan):
            continue
        if apply(quantities.RULES, scan):
            _after_number(scan, start)
        elif not apply(_RULES, scan):
            scan.place += 1
    return " ".join(scan.spoken)


def _after_number(scan: Scan, start: int) -> None:
    scan.number, scan.number_end = scan.text[start : scan.place], scan.place
    if _POSSESSIVE.match(scan.text, scan.place):
        scan.spoken[-1] += "'s"
        scan.place += 2


def _initials(match: re.Match[str], scan: Scan) -> str | None:
    if scan.previous(match.start()).isalpha():
        return None
    return " ".join(re.findall(r"[^\W\d_]", match[1].lower())) + ("'s" if match[2] else "")


def _number_sign(match: re.Match[str], scan: Scan) -> str | None:
    return None if scan.previous(match.start()).isalnum() else ("number" if match[1].lower() == "no" else "numbers")


def _letters(match: re.Match[str], scan: Scan) -> str | None:
    letters = match[0]
    start, end = match.span()
    mark = scan.previous(start)
    if scan.number_end == start and (unit := unit_name(letters)):
        return unit
    after = scan.text[end : end + 1]
    if mark and mark in "'‘" and not scan.previous(start - 1).isalnum() and is_elision(letters, mark, after == "'"):
        return "'" + letters.lower()
    if _is_spelled_here(letters, mark, after):
        return " ".join(letters.lower())
    spoken = spelled_out(letters, scan.context.shouting) or lower(letters)
    if after == "'" and mark not in ("'", "‘") and drops_g(letters):
        spoken += "'"
    return spoken.replace("'n'", " 'n ")


def _is_spelled_here(letters: str, mark: str, after: str) -> bool:
    """Return whether letters are spelled next to a digit (mp3, B2B), a superscript (mc²) or an ampersand (AT&T)."""
    if mark.isdigit() or after.isdigit():
        return _MIXED.fullmatch(letters) is not None
    if after in ("⁺", "^") and len(letters) <= 2:
        return _MIXED.fullmatch(letters) is not None
    return "&" in (mark, after) and len(letters) <= 2 and letters.isupper()


def _dash(match: re.Match[str], scan: Scan) -> str:
    """Read a dash: "minus" before a number that it opens, "to" in a range, otherwise nothing."""
    after = _AMOUNT.match(scan.text, match.end())
    if not after:
        return ""
    before = scan.previous(match.start())
    if match[0] == "-" and (before in ("/", "(", "=") or (not scan.spoken and before != "-")):
        return "minus"
    if scan.number_end != match.start():
        return ""
    return "to" if match[0] == "–" or ":" in scan.number or _rises(scan.number, after[1]) else ""


def _rises(first: str, second: str) -> bool:
    """Return whether two numbers make a range; the second may be shortened (1999-05)."""
    low, high = (re.sub(r"[^\d.]", "", number).strip(".") for number in (first, second))
    shortened = len(low) == 4 and len(high) == 2
    try:
        return shortened or float(low) < float(high)
    except ValueError:
        return False


def _power(match: re.Match[str], scan: Scan) -> str:
    """Read a superscript after a number or one or two letters; after a word it is a footnote, which is not read."""
    if not _POWERED.search(scan.text[max(0, match.start() - 3) : match.start()]):
        return ""
    named = {"2": "squared", "3": "cubed"}.get(match[1])
    return named or f"to the {ordinal(match[1])}"


def _per(match: re.Match[str], scan: Scan) -> str | None:
    """Read the unit of a rate: $20/hr, 30/min."""
    name = unit_name(match[1], singular=True) or _RATES.get(match[1])
    return f"per {name}" if name and scan.number_end == match.start() else None


def _sign(match: re.Match[str], scan: Scan) -> str | None:
    """Read a sign that is a word of its own or stands with letters or digits; not in "=)" or "+++"."""
    alone = len(scan.text) < 9 and scan.text.strip("\"',.;!?" + GAP) in (match[0], f"({match[0]})")
    return _SIGNS.get(match[0]) if alone or scan.is_lettered else None


def _degree(match: re.Match[str], scan: Scan) -> str:
    return "p h d's" if match[1] else "p h d"


def _web_address(match: re.Match[str], scan: Scan) -> str | None:
    text = re.sub(r"^[a-z]+://", "", match[0], flags=re.IGNORECASE).rstrip("/")
    return " ".join(words for piece in _URL_PIECE.findall(text) if (words := _url_piece(piece)))


def _url_piece(piece: str) -> str:
    if piece.isdigit():
        return number(piece)
    low = piece.lower()
    spelled = low in _URL_SPELLED or (len(low) > 1 and low.isalpha() and not set(low) & set("aeiouy"))
    return _URL_SIGNS.get(piece) or (" ".join(low) if spelled else low)


_INITIAL = r"[^\W\d_]"
_RULES = (
    rule(rf"({_INITIAL}(?:\.{_INITIAL})+)(?!{LETTER}|'(?!s))\.?('s)?(?!{LETTER})", _initials),
    rule(r"Ph\.?D('?s)?\b\.?", _degree),
    rule(r"(No|no|Nos|nos)\.(?=\d)", _number_sign),
    rule(r"[Cc]#(?!\w)", lambda match, scan: "c sharp"),
    quantities.SHORT_YEAR,
    rule(_WORD, _letters),
    rule(r"--(?=[$£€¥]?\.?\d)", lambda match, scan: "to" if scan.number_end == match.start() else ""),
    rule("[-–]", _dash),
    rule(r"#(?=\d)", lambda match, scan: "number"),
    rule(rf"#(?={LETTER})", lambda match, scan: "hashtag"),
    rule(r"~(?=[$£€]?\d)", lambda match, scan: "about"),
    rule(r"[⁺^](\d+)", _power),
    rule(r"/([A-Za-z]+)(?![A-Za-z])", _per),
    rule("[^\\w\\s]", _sign),
)
_ADDRESS_RULES = (
    rule(rf"(?<![\w.%+-])[\w.%+-]+@{_HOST}(?:\.{_HOST})+", _web_address),
    rule(rf"(?i:https?://){_HOST}(?:\.{_HOST})*{_URL_TAIL}", _web_address),
    rule(rf"(?i:www)\.{_HOST}(?:\.{_HOST})+{_URL_TAIL}", _web_address),
    rule(rf"(?<![\w.@-]){_HOST}(?:\.{_HOST})*\.(?:{_DOMAINS})(?![\w-]|\.\w){_URL_TAIL}", _web_address),
)
"""For words that contain a dot or an @; the scheme (https://) is not spoken."""
