"""The spoken form of a written word, and its label in a tier.

For English there are rules, for other languages num2words and a few signs. A label has no outer
punctuation.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ctc_align.text.characters import GAP, LETTER, Span, lazy_regex, lower, plain, word_set
from ctc_align.text.english_numbers import (
    NUMBER_RULES,
    SCALE_WORDS,
    SHORT_YEAR,
    Context,
    Scan,
    apply,
    digits,
    money_before,
    number,
    ordinal,
    roman,
    rule,
    spaced_unit_name,
    spaced_units,
    unit_name,
)
from ctc_align.text.english_numbers import other_readings as english_readings
from ctc_align.text.tables import text_table, word_list

# The spoken form of written English: abbreviations, acronyms, telephone numbers, addresses, signs.
#
# In a transcript that is not all in capitals, a word of two to five capitals without a vowel (BBC,
# HTML) is spelled out, and so are well-known acronyms with vowels (FBI, USA); other capitals are
# read as words (NASA). In a transcript that is all in capitals no word is spelled out, because BBC
# and a shouted word look the same.
#
# Telephone numbers, extensions and emergency numbers are read digit by digit, even if they consist
# of several words. A telephone number is recognised by its form (a plus, an area code in brackets,
# 3-3-4 digits), or by a preceding word such as "call".

_WITHOUT_DOT = text_table("english", "without-dot")
_ANYWHERE = {"vs", "etc"}
_DOTTED = text_table("english", "dotted")
_CAPITALISED = text_table("english", "capitalised")
_BEFORE_NAME = text_table("english", "before-name")
_BEFORE_NUMBER = text_table("english", "before-number")
_CAPITAL_BEFORE_NUMBER = {"mar", "jun", "jul", "sat", "sun"}
_SMALL_BEFORE_NUMBER = {"c", "ca", "p", "pp"}
_NUMERIC = lazy_regex(r"\W*\d")

_SPELLED = word_list("acronyms", "english")
_CONSONANTS = lazy_regex(r"[B-DF-HJ-NP-TV-XZ]{2,5}")
_SOUNDS = word_list("interjections", "english")

_ELISIONS = word_set("tis tisn't twas twasn't twill twould twere twixt em til n s re ll ve d m")
_ELISIONS_UNLESS_QUOTED = word_set("cause bout round course cuz cos gainst neath kay till im er")
_NEVER_IN_G = word_list("no-dropped-g", "english")

SPECIAL = frozenset(
    {
        *_WITHOUT_DOT,
        *_DOTTED,
        *_CAPITALISED,
        *_BEFORE_NAME,
        *_BEFORE_NUMBER,
        *spaced_units(),
        "am",
        "pm",
    }
)
"""Lower-case words that may be abbreviations."""


def abbreviation(word: str, dotted: bool, context: Context) -> str | None:
    """Return the expansion of a written `word`; None for an ordinary word.

    The word has letters only, and is `dotted` or not.

    >>> abbreviation("Dr", True, Context("", "Brown")), abbreviation("No", True, Context("", "way"))
    ('doctor', None)
    """
    low = word.lower()
    capital = word[0].isupper()
    before = context.before
    after = context.after
    numeric_before = re.search(r"\d\W*$", before) is not None
    if low == "pm" or (low == "am" and numeric_before):
        return " ".join(low)
    if dotted and low == "in" and numeric_before:
        return "inches"
    unit = spaced_unit_name(word, before) if numeric_before or not dotted else None
    if unit:
        return unit
    if low == "st":
        return _saint_or_street(dotted or capital, context)
    if low in _WITHOUT_DOT and (
        dotted or low in _ANYWHERE or (capital and (word != "MS" or context.shouting))
    ):
        if low == "dr" and _ends_street(context):
            return "drive"
        return _WITHOUT_DOT[low]
    if dotted:
        return _dotted(low, capital, after)
    return None


def _dotted(low: str, capital: bool, after: str) -> str | None:
    """Return the expansion of a word with a dot after it, before the word `after`."""
    if low in _BEFORE_NUMBER and _NUMERIC.match(after):
        excluded = _CAPITAL_BEFORE_NUMBER
        if capital:
            excluded = _SMALL_BEFORE_NUMBER
        if low in excluded:
            return None
        return _BEFORE_NUMBER[low]
    if capital and low in _BEFORE_NAME and _is_capitalised(after):
        return _BEFORE_NAME[low]
    return _DOTTED.get(low) or (_CAPITALISED.get(low) if capital else None)


def spelled_out(word: str, shouting: bool) -> str | None:
    """Return the letters of an acronym that is spelled out; None for a word that is read.

    >>> spelled_out("BBC", False), spelled_out("TVs", False), spelled_out("NASA", False), spelled_out("BBC", True)
    ('b b c', "t v's", None, None)
    """
    ending = re.search(r"(?<=[A-Z])'?s$", word)
    letters = word
    if ending:
        letters = word[: ending.start()]
    if (
        shouting
        or letters in _SOUNDS
        or not (letters in _SPELLED or _CONSONANTS.fullmatch(letters))
    ):
        return None
    return " ".join(letters.lower()) + ("'s" if ending else "")


def is_elision(word: str, mark: str, closed: bool = False) -> bool:
    """Return whether the apostrophe `mark` before `word` belongs to it ('tis, 'em).

    Otherwise it opens a quotation.

    Args:
        word: without the apostrophe.
        mark: the character before it; an opening mark (‘cause) suggests a quotation.
        closed: whether an apostrophe follows the word, too, as in 'cause'.

    >>> is_elision("tis", "'"), is_elision("cause", "'"), is_elision("cause", "‘"), is_elision("hello", "'")
    (True, True, False, False)
    """
    if mark not in ("'", "’", "‘"):
        return False
    low = word.lower().replace("’", "'")
    if len(low) <= 2 and low not in ("em", "n") and (mark == "‘" or closed):
        return False
    stem = low.partition("'")[0]
    return (
        low in _ELISIONS
        or (len(stem) > 2 and stem in _ELISIONS)
        or (low in _ELISIONS_UNLESS_QUOTED and mark != "‘" and not closed)
    )


def drops_g(word: str) -> bool:
    """Return whether an apostrophe after `word` replaces a g (goin', nothin').

    Otherwise it closes a quotation.

    >>> drops_g("goin"), drops_g("again"), drops_g("Berlin")
    (True, False, False)
    """
    low = word.lower()
    return (
        len(low) > 3 and low.endswith("in") and not low.endswith("ain") and low not in _NEVER_IN_G
    )


def _saint_or_street(abbreviated: bool, context: Context) -> str | None:
    if not abbreviated:
        return None
    if _is_capitalised(context.after):
        return "saint"
    return "street"


def _ends_street(context: Context) -> bool:
    """Return whether "Dr." ends a street's name: Elm Dr."""
    before = context.before
    return (
        not context.shouting
        and before[-1:].isalnum()
        and _is_capitalised(before)
        and not _is_capitalised(context.after)
    )


def _is_capitalised(word: str) -> bool:
    return re.match(r"\W*[^\W\d_]", word) is not None and word.lstrip("\"'“‘([")[:1].isupper()


# Telephone numbers

_GAP = r"[-. \u2010\u2011–]"
_AREA = r"(?:\(\d{3}\) ?|\d{3}[-.\u2010\u2011–]|[2-9]\d\d )"
_START = r"(?<![^\s(\[\"'“‘:;,/])(?<![$£€#]\()"
_END = r"(?=[)\]\"'”’.,;:!?…]*(?: |$))"
_CUE = r"\b(?:tel|phone|telephone|fax|mobile|cell|calls?|called|calling|dials?|dialed|dialled|dialing|ring|text)"
_TO_WHOM = r"(?:\.|:|\.:)?(?: (?:me|us|him|her|them|now|today))?(?: (?:at|on|is|number|no\.))*:? "
_NUMBERS = (
    # (212) 555-0123, 1-800-555-0199, 212 555 0123
    rf"{_START}(?:\+?1{_GAP})?{_AREA}\d{{3}}{_GAP}\d{{4}}{_END}",
    # +44 20 7946 0958, +49 (0)30 901820
    rf"{_START}\+\d{{1,3}}(?:{_GAP}?\(?\d{{1,6}}\)?){{1,6}}{_END}",
    # 020 7946 0958, 07700 900123, 0800 123 456
    rf"{_START}\(?0\d{{2,4}}\)?[- ]\d{{3,6}}(?:[- ]\d{{3,4}})?{_END}",
)
_AFTER_CUE = (
    rf"(?i:{_CUE}{_TO_WHOM})(?P<number>\(?\d{{1,5}}\)?(?:{_GAP}?\(?\d{{2,5}}\)?){{0,4}}){_END}"
)
_LETTERS = r"(?P<rest>(?=[A-Z0-9-]{6,12}(?![\w-]))[A-Z][A-Z0-9-]*)"
_VANITY = lazy_regex(rf"{_START}(?P<plain>1[- ])?(?P<area>[2-9]\d\d)-{_LETTERS}")
_EXTENSION = lazy_regex(r"(?i:\b(?:ext|extension|x)\.?:? ?)(?P<number>\d{3,6})\b")
_EMERGENCY = lazy_regex(
    rf"(?i:{_CUE} (?:the )?)(?P<before>[2-9]11|988|999|112|000)\b(?![-/.]?\d)"
    r"|\b(?P<after>911|999|112)(?i: (?:operator|dispatcher|call|calls|caller|emergency))\b"
)
_BY_SHAPE = lazy_regex("|".join(_NUMBERS))
_BY_CUE = lazy_regex(_AFTER_CUE)
_LEAST = 7
_MOST = 15
_TOLL_FREE = lazy_regex(r"[89]00")


def telephone_words(written: Sequence[str]) -> dict[int, str]:
    """Return the spoken forms of the words of telephone numbers, by their indices.

    >>> telephone_words(["Call", "(212)", "555-0123", "x4567."])
    {1: 'two one two', 2: 'five five five zero one two three', 3: 'extension four five six seven'}
    >>> telephone_words(["pages", "200-300,", "in", "2001"])
    {}
    """
    if not any(any(map(str.isdigit, word)) for word in written):
        return {}
    text = " ".join(written)
    found: dict[int, str] = {}
    for start, end in _number_spans(text):
        first = text.count(" ", 0, start)
        for index in range(first, first + text.count(" ", start, end) + 1):
            word = written[index]
            found[index] = ("plus " if word.lstrip("([\"'“‘").startswith("+") else "") + digits(
                word
            )
    for match in _VANITY.finditer(text):
        found[text.count(" ", 0, match.start("area"))] = _vanity(match)
        if match["plain"] and match["plain"].endswith(" "):
            found[text.count(" ", 0, match.start())] = "one"
    for match in _EXTENSION.finditer(text):
        index = text.count(" ", 0, match.start("number"))
        word = written[index].lstrip("([").lower()
        found[index] = ("extension " if word.startswith(("x", "ext")) else "") + digits(
            match["number"]
        )
    return found


def _number_spans(text: str) -> list[Span]:
    """Return the numbers in a text, (start, end exclusive)."""
    spans = [match.span() for match in _BY_SHAPE.finditer(text) if _is_number(match[0])]
    spans += [
        match.span("number") for match in _BY_CUE.finditer(text) if _has_length(match["number"])
    ]
    for match in _EMERGENCY.finditer(text):
        spans.append(match.span("before" if match["before"] else "after"))
    return spans


def _is_number(written: str) -> bool:
    """Return whether a match may be a number: long enough, and not a list of round figures."""
    return _has_length(written) and not re.fullmatch(r"\d00 \d00 \d000", written)


def _has_length(written: str) -> bool:
    return _LEAST <= sum(map(str.isdigit, written)) <= _MOST


def _vanity(match: re.Match[str]) -> str:
    """Read 1-800-FLOWERS: "one eight hundred flowers"."""
    if _TOLL_FREE.fullmatch(match["area"]):
        area = f"{digits(match['area'][0])} hundred"
    else:
        area = digits(match["area"])
    parts = re.findall(r"[A-Z]+|\d+", match["rest"])
    rest = [
        digits(part) if part.isdigit() else spelled_out(part, False) or part.lower()
        for part in parts
    ]
    return " ".join([*(["one"] if match["plain"] == "1-" else []), area, *rest])


# Whole words

_SIMPLE = lazy_regex(r"[\"“(\[]?([A-Za-z]+)[\"”)\],;:!?.]*")
_WHOLE = lazy_regex(rf"\W*?({LETTER}+|[°µ]?[A-Za-z]+(?:/[a-z]+)?(?:⁺?[23])?)(\.|'s)?\W*")
_LONGEST_WHOLE = 80
"""The most characters of an abbreviation or numeral: the pattern takes the cube of a word's
length."""
_LONGEST_PIECE = 1000
"""A longer run is not a word, and is read in pieces: some rules take the square of its length."""
_LETTER_WORD = rf"{LETTER}+(?:'{LETTER}+)*"
_SIGNS = text_table("english", "signs")
_RATES = text_table("english", "rates")
_READ_WHOLE = text_table("english", "read-whole")
_SPECIAL = SPECIAL | set(_READ_WHOLE)
_CLOSED = lazy_regex(r"[,;:!?)]\W*$")
_POSSESSIVE = lazy_regex(rf"'s(?!{LETTER})")
_AMOUNT = lazy_regex(r"[$£€¥]?\.?(\d[\d,:]*)")
_POWERED = lazy_regex(r"(?:\d|(?<![^\W\d_])[^\W\d_]{1,2})$")
_MIXED = lazy_regex(r"[A-Z]{1,3}|[B-DF-HJ-NP-TV-Zb-df-hj-np-tv-z]{1,3}")
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|tv|fm|co\\.uk|ac\\.uk|org\\.uk|uk|de|fr|eu|ca|au|jp"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_URL_TAIL = r"(?::\d+)?(?:[/?#](?:[^\s,;!\"()]*[A-Za-z0-9/])?)?"
_URL_SPELLED = word_set("www edu io tv fm uk de fr eu ca au jp html php http https")
_URL_SIGNS = text_table("english", "address-signs")
_URL_PIECE = lazy_regex(r"[A-Za-z]+|\d+|[.@/?=&#+]")


def speak(word: str, context: Context) -> str:
    """Return the lower-case spoken words of one written English word; "" for a lone sign.

    Numbers are read the American way (no "and" inside them), four bare digits from 1100 to 2099 as
    a year, money as "three dollars and fifty cents", a range as "five to ten". Dotted initials and
    acronyms are spelled (see `spelled_out`). Quotes around a word are dropped, apostrophes that
    belong to it stay ('tis, o'clock, goin').

    >>> [speak(word, Context()) for word in ("Well-known,", "1999", "€9.99", "U.S.", "—")]
    ['well known', 'nineteen ninety nine', 'nine euros and ninety nine cents', 'u s', '']
    """
    if len(word) > _LONGEST_PIECE:
        pieces = (
            speak(word[at : at + _LONGEST_PIECE], Context())
            for at in range(0, len(word), _LONGEST_PIECE)
        )
        return " ".join(filter(None, pieces))
    simple = _SIMPLE.fullmatch(word)
    if simple and simple[1].lower() not in _SPECIAL:
        letters = simple[1]
        if letters in SCALE_WORDS:
            return f"{letters} {money_before(context.before)}".rstrip()
        if (
            letters.islower()
            or (letters.istitle() and len(letters) > 1)
            or (context.shouting and set(letters) - set("IVXL"))
        ):
            return letters.lower()
    text = plain(word)
    return _whole(text, context) or _scanned(Scan(text, context))


def _whole(text: str, context: Context) -> str | None:
    """Read abbreviations, Roman numerals and set phrases."""
    bare = text.strip("\"'()[],.;:!?" + GAP)
    if bare.lower() in _READ_WHOLE:
        return _READ_WHOLE[bare.lower()]
    match = _WHOLE.fullmatch(text) if len(text) <= _LONGEST_WHOLE else None
    if not match:
        return None
    letters = match[1]
    ending = match[2]
    if _CLOSED.search(text):
        context = context._replace(after="")
    spoken = None if ending == "'s" else abbreviation(letters, ending == ".", context)
    if spoken is None and (spoken := roman(letters, context.before, context.shouting)):
        spoken += "'s" if ending == "'s" else ""
    return spoken


def _scanned(scan: Scan) -> str:
    """Read a word piece by piece; characters that no rule reads are skipped."""
    may_be_address = "." in scan.text or "@" in scan.text
    while scan.position < len(scan.text):
        start = scan.position
        if may_be_address and apply(_ADDRESS_RULES, scan):
            continue
        if apply(NUMBER_RULES, scan):
            _after_number(scan, start)
        elif not apply(_RULES, scan):
            scan.position += 1
    return " ".join(scan.spoken)


def _after_number(scan: Scan, start: int) -> None:
    scan.number, scan.number_end = scan.text[start : scan.position], scan.position
    if _POSSESSIVE.match(scan.text, scan.position):
        scan.spoken[-1] += "'s"
        scan.position += 2


def _initials(match: re.Match[str], scan: Scan) -> str | None:
    if scan.previous(match.start()).isalpha():
        return None
    return " ".join(re.findall(r"[^\W\d_]", match[1].lower())) + ("'s" if match[2] else "")


def _number_sign(match: re.Match[str], scan: Scan) -> str | None:
    if scan.previous(match.start()).isalnum():
        return None
    if match[1].lower() == "no":
        return "number"
    return "numbers"


def _letters(match: re.Match[str], scan: Scan) -> str | None:
    letters = match[0]
    start, end = match.span()
    mark = scan.previous(start)
    if scan.number_end == start and (unit := unit_name(letters)):
        return unit
    after = scan.text[end : end + 1]
    if (
        mark
        and mark in "'‘"
        and not scan.previous(start - 1).isalnum()
        and is_elision(letters, mark, after == "'")
    ):
        return "'" + letters.lower()
    if _is_spelled_here(letters, mark, after):
        return " ".join(letters.lower())
    spoken = spelled_out(letters, scan.context.shouting) or lower(letters)
    if after == "'" and mark not in ("'", "‘") and drops_g(letters):
        spoken += "'"
    return spoken.replace("'n'", " 'n ")


def _is_spelled_here(letters: str, mark: str, after: str) -> bool:
    """Return whether letters are spelled beside a digit, a superscript or an ampersand.

    mp3, B2B, mc², AT&T.
    """
    if mark.isdigit() or after.isdigit() or (after in ("⁺", "^") and len(letters) <= 2):
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
    if match[0] == "–" or ":" in scan.number or _rises(scan.number, after[1]):
        return "to"
    return ""


def _rises(first: str, second: str) -> bool:
    """Return whether two numbers make a range; the second may be shortened (1999-05)."""
    low, high = (re.sub(r"[^\d.]", "", number).strip(".") for number in (first, second))
    shortened = len(low) == 4 and len(high) == 2
    try:
        return shortened or float(low) < float(high)
    except ValueError:
        return False


def _power(match: re.Match[str], scan: Scan) -> str:
    """Read a superscript after a number or one or two letters.

    After a word it is a footnote, which is not read.
    """
    if not _POWERED.search(scan.text[max(0, match.start() - 3) : match.start()]):
        return ""
    named = {"2": "squared", "3": "cubed"}.get(match[1])
    return named or f"to the {ordinal(match[1])}"


def _per(match: re.Match[str], scan: Scan) -> str | None:
    """Read the unit of a rate: $20/hr, 30/min."""
    name = unit_name(match[1], singular=True) or _RATES.get(match[1])
    if name and scan.number_end == match.start():
        return f"per {name}"
    return None


def _sign(match: re.Match[str], scan: Scan) -> str | None:
    """Read a sign that is a whole word, or is beside letters or digits; not in "=)" or "+++"."""
    alone = len(scan.text) < 9 and scan.text.strip("\"',.;!?" + GAP) in (match[0], f"({match[0]})")
    if alone or scan.is_lettered:
        return _SIGNS.get(match[0])
    return None


def _web_address(match: re.Match[str], scan: Scan) -> str | None:
    text = re.sub(r"^[a-z]+://", "", match[0], flags=re.IGNORECASE).rstrip("/")
    return " ".join(words for piece in _URL_PIECE.findall(text) if (words := _url_piece(piece)))


def _url_piece(piece: str) -> str:
    if piece.isdigit():
        return number(piece)
    low = piece.lower()
    spelled = low in _URL_SPELLED or (
        len(low) > 1 and low.isalpha() and not set(low) & set("aeiouy")
    )
    return _URL_SIGNS.get(piece) or (" ".join(low) if spelled else low)


_INITIAL = r"[^\W\d_]"
_RULES = (
    rule(rf"({_INITIAL}(?:\.{_INITIAL})+)(?!{LETTER}|'(?!s))\.?('s)?(?!{LETTER})", _initials),
    rule(r"Ph\.?D('?s)?\b\.?", lambda match, scan: "p h d's" if match[1] else "p h d"),
    rule(r"(No|no|Nos|nos)\.(?=\d)", _number_sign),
    rule(r"[Cc]#(?!\w)", lambda match, scan: "c sharp"),
    SHORT_YEAR,
    rule(_LETTER_WORD, _letters),
    rule(
        r"--(?=[$£€¥]?\.?\d)", lambda match, scan: "to" if scan.number_end == match.start() else ""
    ),
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
    rule(
        rf"(?<![\w.@-]){_HOST}(?:\.{_HOST})*\.(?:{_DOMAINS})(?![\w-]|\.\w){_URL_TAIL}", _web_address
    ),
)
"""For words that contain a dot or an @; the scheme (https://) is not spoken."""

# Words of any language, and their labels

_ENGLISH = ("en", "eng", "english")
_WORD = lazy_regex(
    rf"(?P<letters>{LETTER}+(?:['·]{LETTER}+)*)|(?P<number>[-−]?\d[\d.,']*)|(?P<sign>[%&€+])"
)
_POINT_IS_DECIMAL = word_set("en ja ko th he zh hi bn te kn ta ur my")
_NUM2WORDS_CODES = text_table("words", "num2words-codes")
_NO_YEARS = word_set("bn ja ko")
"""Languages in which num2words adds the word for year, or an era."""
_LONGEST = 18
_MOST_CONTEXT = 100
_NOT_SPOKEN = lazy_regex(rf"(?!{LETTER}|')[^\s]")


def spoken_forms(written: Sequence[str], language: str, *, in_context: bool = True) -> list[str]:
    """Return the spoken form of each written word, "" for one without anything to pronounce.

    With `in_context` a word's neighbours decide ("No." before a number, "$2" before "million").

    >>> spoken_forms(["No.", "5"], "en"), spoken_forms(["No.", "No"], "en")
    (['number', 'five'], ['no', 'no'])
    """
    if not is_english(language):
        return [_other_language(word, language) for word in written]
    if not in_context:
        return [speak(word, Context(shouting=True)) for word in written]
    shouting = any(map(str.isupper, written)) and not any(
        any(map(str.islower, word)) for word in written
    )
    before, after = (
        (word[-_MOST_CONTEXT:] for word in written[:-1]),
        (word[:_MOST_CONTEXT] for word in written[1:]),
    )
    neighbours = zip(["", *before], [*after, ""])
    numbers = telephone_words(written)
    return [
        numbers[index] if index in numbers else speak(word, Context(*both, shouting))
        for index, (word, both) in enumerate(zip(written, neighbours))
    ]


_CODE = lazy_regex(
    r"\d{2,10}|\d{1,8}(?:-\d{1,8}){1,3}|[A-Za-z]{1,3}-?\d{2,8}(?:-\d{1,8}){0,2}"
    r"|(?=\D*\d\d|\d[A-Z-]+\d\d)(?:\d{1,8}-?)?(?:[A-Z]{1,5}-?\d{1,8}-?){1,3}[A-Z]{0,5}"
)
"""Numbers and codes (A398, 747-400, AB12CD) that may be read digit by digit."""
_CHUNK = lazy_regex(r"\d+|[A-Za-z]+")


def other_readings(written: str, spoken: str, language: str) -> tuple[str, ...]:
    """Return the other ways to read a word of digits, or of digits and letters.

    Those of `spoken` are left out.

    >>> other_readings("A42", "a forty two", "en"), other_readings("42,", "zweiundvierzig", "de")
    (('a four two',), ('vier zwei',))
    """
    code = ""
    if len(written) <= _LONGEST_WHOLE:
        code = plain(outer_punctuation_stripped(written))
    if not _CODE.fullmatch(code):
        return ()
    if not is_english(language):
        if not code.isdigit():
            return ()
        digits_read = [_in_words(digit, _code(language), False) for digit in code]
        if all(digits_read):
            return (" ".join(filter(None, digits_read)),)
        return ()
    chunks = _CHUNK.findall(code)
    read = [chunk if chunk.isdigit() else " ".join(chunk.lower()) for chunk in chunks]
    return tuple(reading for reading in english_readings(read) if reading != spoken)


def reads_digits(language: str) -> bool:
    """Return whether numbers are spelled out in a language; elsewhere they stay digits.

    >>> reads_digits("en-GB"), reads_digits("de"), reads_digits("klingon")
    (True, True, False)
    """
    return is_english(language) or _converter(_code(language)) is not None


def is_english(language: str) -> bool:
    """Return whether a code, or a name, of a language is English."""
    return primary_subtag(language) in _ENGLISH


def primary_subtag(language: str) -> str:
    """Return the language of a tag, without region and script.

    >>> primary_subtag("pt-BR"), primary_subtag("EN_us")
    ('pt', 'en')
    """
    return language.replace("_", "-").partition("-")[0].lower()


def _other_language(word: str, language: str) -> str:
    """Return the lower-case words of one written word, without punctuation.

    They have letters, marks and inner apostrophes.

    num2words spells digits in `language` (a code such as "de", "pt-BR" or "deu"); in a language
    that it lacks they stay digits, which a model without digits reports as unknown.

    >>> spoken_forms(["„Straße“,", "21"], "de"), spoken_forms(["l’année"], "fr"), spoken_forms(["٢١"], "xx")
    (['straße', 'einundzwanzig'], ["l'année"], ['21'])
    """
    code = _code(language)
    spoken = []
    for match in _WORD.finditer(plain(word)):
        if match["letters"]:
            spoken.append(
                lower(match["letters"].replace("·", ""), dotless=_base(code) in ("tr", "az"))
            )
        elif match["number"]:
            spoken.append(_number(match["number"], match.start() == 0, code))
        else:
            spoken.append(text_table("numbers", _base(code)).get(match["sign"], ""))
    return " ".join(filter(None, spoken))


def _code(language: str) -> str:
    """Return num2words' name of a language: "pt-BR" → "pt_BR", "deu" → "de"."""
    base, _, region = language.replace("_", "-").partition("-")
    base = _NUM2WORDS_CODES.get(base.lower(), base.lower())
    if region:
        return f"{base}_{region.upper()}"
    return base


def _base(code: str) -> str:
    return code.partition("_")[0]


def language_base(language: str) -> str:
    """Return num2words' code of a language without its region.

    >>> language_base("deu"), language_base("pt-BR")
    ('de', 'pt')
    """
    return _base(_code(language))


def _number(written: str, opens: bool, code: str) -> str:
    """Return a number in words, in a language that num2words lacks.

    Or its digits, separated by spaces.
    """
    sign = ""
    if opens and written[0] in "-−":
        sign = "-"
    body = written.lstrip("-−").rstrip(".,'")
    group, point = (",", ".") if _base(code) in _POINT_IS_DECIMAL else (".", ",")
    body = re.sub(rf"(?<=\d)[{re.escape(group)}'](?=\d{{3}}(?!\d))", "", body)
    parts = re.split(r"[.,']", body)
    if re.fullmatch(rf"\d*{re.escape(point)}\d+", body):
        parts = [body.replace(point, ".")]
    return " ".join(
        _in_words(sign + part, code, part in written) or " ".join(re.findall(r"\d+", part))
        for part in parts
        if part.strip(".")
    )


_GROUP_SPACES = " \u00a0\u2007\u2009\u202f"
_GROUPS = lazy_regex(
    rf"(?<![\w.,:/+'])(?<!\d-)(?<!\d[{_GROUP_SPACES}])[1-9]\d{{0,2}}(?P<space>[{_GROUP_SPACES}])\d{{3}}"
    rf"(?:(?P=space)\d{{3}}){{0,5}}(?![\w/:-]|[{_GROUP_SPACES}]\d)"
)
_SPACED_GROUPS = word_set("fr ru pl cs sk sv fi no nb nn uk be bg hu et lv lt kk pt_PT")
"""Languages that write a space between groups of three digits; others write a thin one, or that of
"10 000"."""
_TELEPHONE = lazy_regex(r"(?i:\b(?:t[eé]l[eé]?\w*|тел\w*|puh\w*|tlf|nr|č|№))[.:]*\s*\Z")


def digit_groups(text: str, language: str) -> list[tuple[int, int, str]]:
    r"""Return the spaces between groups of digits of one number.

    Each with the mark that `language` has there.

    >>> digit_groups("10 000 + 1 234", "en"), digit_groups("1 234 567,5", "fr")
    ([(2, 3, ',')], [(1, 2, '.'), (5, 6, '.')])
    """
    code = _code(language)
    mark = "."
    if is_english(language) or _base(code) in _POINT_IS_DECIMAL:
        mark = ","
    found = []
    for match in _GROUPS.finditer(text):
        groups = match[0].split(match["space"])
        is_spaced = (
            match["space"] != " "
            or {code, _base(code)} & _SPACED_GROUPS
            or set(groups[1:]) == {"000"}
        )
        if is_spaced and not _TELEPHONE.search(text[max(match.start() - 20, 0) : match.start()]):
            found += [
                (at, at + 1, mark) for at in range(*match.span()) if text[at] == match["space"]
            ]
    return found


def _converter(code: str) -> str | None:
    """Return the code of a language in num2words, with or without the region.

    None if it lacks the language.
    """
    from num2words import CONVERTER_CLASSES

    return next((name for name in (code, _base(code)) if name in CONVERTER_CLASSES), None)


@lru_cache(maxsize=4096)
def _in_words(number: str, code: str, bare: bool) -> str | None:
    """Return `number` (ASCII digits, perhaps "-" and a point) in words.

    Four `bare` digits may be a year.
    """
    from num2words import num2words

    name = _converter(code)
    if name is None or len(number) > _LONGEST or re.match(r"0\d", number):
        return None
    whole, point, fraction = number.partition(".")
    spoken_point = text_table("numbers", _base(code)).get(".")
    if point and spoken_point:
        if whole == "-0":
            return None  # num2words has no zero below zero
        read = [_in_words(part, code, False) or part for part in (whole, *fraction)]
        return " ".join([read[0], spoken_point, *read[1:]])
    is_year = bare and _base(code) not in _NO_YEARS and re.fullmatch(r"1[1-9]\d\d", number)
    for attempt in ("year" if is_year else "cardinal", "cardinal"):
        try:
            words = str(num2words(number if point else int(number), to=attempt, lang=name))
        except Exception:  # num2words' languages raise errors of many kinds
            continue
        return lower(" ".join(_NOT_SPOKEN.sub(" ", words).split()))
    return None


_NOT_OUTER = "%‰#@&°№©"
_SELECTORS = {*map(chr, range(0xFE00, 0xFE10)), "\u20e3"}
_STRIPPED_SYMBOLS = "^`´~|<>"
_INITIALS = lazy_regex(r"(?:[^\W\d_]\.)+[^\W\d_]$")
_SIGN_AND_POINT = lazy_regex(r"(?:^|[^\w.\-−])([-−]?\.?)$")
_TAGS = lazy_regex(r"<[^<>]*>")
_MOST_TRIMMED = 8
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def outer_punctuation_stripped(word: str) -> str:
    """Return `word` without the punctuation around it.

    Inner punctuation stays, and a word never becomes empty.

    Signs that are spoken (currency, %, #, @, &, +, °, a minus or a point before a digit) stay, and
    so do the apostrophe of a known elision ('tis, '90s, goin'), the last dot of initials (U.S.) and
    a bracket that opens inside the word.

    >>> [outer_punctuation_stripped(word) for word in ("Hello,", "(“Yes!”)", "$3.50", "(U.S.)", "...")]
    ['Hello', 'Yes', '$3.50', 'U.S.', '...']
    """
    start, end = 0, len(word)
    while start < end and _is_outer(word[start]):
        start += 1
    if start == end:
        return word
    while _is_outer(word[end - 1]) and not _closes_inside(word, start, end):
        end -= 1
    core = word[start:end]
    return _prefix(word[:start], core) + core + _suffix(core, word[end:])


def trimmed_forms(word: str) -> Iterator[str]:
    """Yield a word as it is written, then with less and less of the punctuation around it.

    >>> list(trimmed_forms("'ka:,"))
    ["'ka:,", "'ka:", 'ka:,', "'ka", 'ka:', 'ka']
    """
    core = len(word)
    first = next((at for at, character in enumerate(word) if not _is_outer(character)), core)
    last = next((at for at in range(core, first, -1) if not _is_outer(word[at - 1])), core)
    starts = {*range(min(first, _MOST_TRIMMED)), first}
    ends = {*range(core, max(last, core - _MOST_TRIMMED), -1), last}
    sides = ((start, end) for start in starts for end in ends if start < end)
    yield from (
        word[start:end] for start, end in sorted(sides, key=lambda side: (side[0] - side[1], side))
    )


LINE_END_HYPHEN = lazy_regex(r"[-‐¬\u00ad][ \t\f\r]*\n[ \t\f\r\n]{0,40}")
"""A hyphen at the end of a line, with the line end."""


def without_markup(word: str) -> str:
    """Return `word` with entities decoded, without tags, and not divided at the end of a line.

    >>> without_markup("R&amp;D"), without_markup("un<b>believ</b>able"), without_markup("compar-\\natively")
    ('R&D', 'unbelievable', 'comparatively')
    """
    if "\n" in word:
        word = LINE_END_HYPHEN.sub("", word)
    if "&" in word and ";" in word:
        word = html.unescape(word)
    if "<" in word and ">" in word:
        return _TAGS.sub("", word) or word
    return word


def _prefix(before: str, core: str) -> str:
    """Return the part of the punctuation before `core` that belongs to it."""
    if core[0].isdigit() or unicodedata.category(core[0]) == "Sc":
        sign = _SIGN_AND_POINT.search(before)
        if sign:
            return sign.group(1) or _apostrophe(before, core[0].isdigit())
    return _apostrophe(before, is_elision(core, before[-1:]))


def _apostrophe(before: str, wanted: bool) -> str:
    if wanted and before.endswith(("'", "’", "‘")):
        return before[-1]
    return ""


def _suffix(core: str, after: str) -> str:
    if after.startswith(".") and _INITIALS.match(core):
        return "."
    if after.startswith(("'", "’")) and drops_g(core) and core.isalpha():
        return after[0]
    return ""


def _closes_inside(word: str, start: int, end: int) -> bool:
    closing = word[end - 1]
    opening = _BRACKETS.get(closing)
    return opening is not None and word.count(opening, start, end) >= word.count(
        closing, start, end
    )


@lru_cache(maxsize=4096)
def _is_outer(character: str) -> bool:
    if character in _SELECTORS or character in _STRIPPED_SYMBOLS:
        return True
    if character in _NOT_OUTER:
        return False
    category = unicodedata.category(character)
    return category[0] in "PCZ" or category in ("So", "Sk")
