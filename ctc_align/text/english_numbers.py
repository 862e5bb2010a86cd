"""English readings of digits, the American way.

Numbers, years, Roman numerals, money, times, dates and measures.

A written word is scanned from left to right. At each position the rules are tried in order, and the
first that applies is used. Numbers in words have no "and", no hyphens and no commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from ctc_align.text.characters import lazy_regex, word_set
from ctc_align.text.tables import text_table, word_list


class Context(NamedTuple):
    """The neighbours of a word as written, and whether the whole transcript is in capitals.

    A neighbour is "" at the ends.
    """

    before: str = ""
    after: str = ""
    shouting: bool = False


@dataclass
class Scan:
    """The scan of a word: the position reached, and the words spoken so far.

    The word comes from `characters.plain`.
    """

    text: str
    context: Context
    position: int = 0
    spoken: list[str] = field(default_factory=list)
    number: str = ""
    """The latest number, as written; it ends at `number_end`."""
    number_end: int = -1

    @cached_property
    def is_lettered(self) -> bool:
        """True for a word with a letter or digit."""
        return any(map(str.isalnum, self.text))

    def previous(self, start: int) -> str:
        """Return the character before `start`, "" at the beginning."""
        if start:
            return self.text[start - 1 : start]
        return ""


Reader = Callable[[re.Match[str], Scan], "str | None"]


class Rule(NamedTuple):
    """A pattern, and a reader of its matches.

    The reader returns the spoken words of a match, or None if the rule does not apply.
    """

    pattern: re.Pattern[str]
    reader: Reader


def rule(pattern: str, reader: Reader) -> Rule:
    """Return the rule of a regular expression."""
    return Rule(lazy_regex(pattern), reader)


def apply(rules: tuple[Rule, ...], scan: Scan) -> bool:
    """Try `rules` at `scan.position`; return whether one applied.

    If one does, its spoken words are added and the position moves behind the match.
    """
    for pattern, reader in rules:
        match = pattern.match(scan.text, scan.position)
        words = reader(match, scan) if match else None
        if match and words is not None:
            scan.position = match.end()
            if words:
                scan.spoken.append(words)
            return True
    return False


# Units of measure and currencies

_UNITS = text_table("english", "units")
_POWERS = {"2": "square", "3": "cubic"}
_NOT_SPACED = word_set("in ha W V L l mi g %")
_ALONE = word_list("lone-units", "english")
_IRREGULAR = {"foot": "feet", "inch": "inches", "percent": "percent"}
_UNIT = lazy_regex(r"(?P<unit>[A-Za-zµ°%]+(?:/[a-z]+)?)(?:⁺?(?P<power>[23]))?")


def _names_of_sums(section: str) -> dict[str, tuple[str, str]]:
    """Return the names of a sum of one and of other sums, by the sign."""
    rows = text_table("english", section).items()
    return {sign: (one, many) for sign, names in rows for one, many in [names.split(",")]}


CURRENCIES = _names_of_sums("currencies")
CENTS = _names_of_sums("cents")


def unit_name(written: str, *, singular: bool = False) -> str | None:
    """Return the name of a unit after a number; None for anything else.

    It is in the plural unless `singular`.

    >>> unit_name("km/h"), unit_name("kg", singular=True), unit_name("m2"), unit_name("zz")
    ('kilometers per hour', 'kilogram', 'square meters', None)
    """
    match = _UNIT.fullmatch(written)
    if match is None:
        return None
    unit = match["unit"]
    name = _UNITS.get(unit) or (
        _UNITS.get(unit.lower()) if len(unit) > 1 and unit.isupper() else None
    )
    if name is None:
        return None
    head, per, tail = name.partition(" per ")
    if not singular:
        head = _plural(head)
    if match["power"] and tail:
        tail += {"2": " squared", "3": " cubed"}[match["power"]]
    elif match["power"]:
        head = f"{_POWERS[match['power']]} {head}"
    return head + per + tail


def spaced_unit_name(written: str, before: str) -> str | None:
    """Return the name of a unit that is a separate word after the word `before`.

    None if that would be a guess.

    >>> spaced_unit_name("kg", "5"), spaced_unit_name("kg", "five"), spaced_unit_name("in", "5")
    ('kilograms', 'kilograms', None)
    """
    unit = re.sub(r"⁺?[23]$", "", written)
    if re.fullmatch(r"\W*\d(?:[\d.,/]*\d)?\W*", before):
        allowed = unit in _UNITS and unit not in _NOT_SPACED
    else:
        allowed = unit in _ALONE
    if allowed:
        return unit_name(written, singular=before.lower() in ("1", "a", "one", "per"))
    return None


def spaced_units() -> frozenset[str]:
    """Return the lower-case spellings that may be units when they stand alone."""
    return frozenset(unit.lower() for unit in _UNITS)


def _plural(name: str) -> str:
    first, _, rest = name.partition(" ")
    if first == "degree":
        return f"degrees {rest}".strip()
    if name in _IRREGULAR or name.endswith("hertz"):
        return _IRREGULAR.get(name, name)
    return name + "s"


# Numbers in words

INTEGER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
NUMBER = rf"(?:{INTEGER}(?:\.\d+)?|(?<!\w)\.\d+)"
"""Regular expression of a number as written: 5, 1,250, 3.14, .5"""

_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_LONGEST_PLAIN = 9
_LONGEST_GROUPED = 48
_DENOMINATORS = frozenset((*range(2, 11), 12, 16, 20, 32, 64, 100, 1000))
_ROMAN = lazy_regex(r"(?=[IVX]{2}|[IVXL]{3})(X{0,3}|XL|LX{0,3})(IX|IV|V?I{0,3})")
_ROMAN_LETTER = lazy_regex(r"[IVX]")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}
_NUMBERED = word_list("numbered", "english")
_NUMBERED_BEFORE_I = _NUMBERED - word_set("book section title appendix")
_REIGNING = word_list("reigning-names", "english")


def digits(text: str) -> str:
    """Read a number digit by digit.

    >>> digits("007")
    'zero zero seven'
    """
    return " ".join(_DIGITS[int(digit)] for digit in text if digit.isdigit())


@lru_cache(maxsize=4096)
def cardinal(text: str) -> str:
    """Read a whole number.

    Digit by digit if it looks like a code (a leading zero) or a telephone number (long).

    >>> cardinal("1,250"), cardinal("05")
    ('one thousand two hundred fifty', 'zero five')
    """
    bare = text.replace(",", "")
    grouped = len(bare) < len(text) or bare.endswith("000")
    if (bare[0] == "0" and len(bare) > 1) or len(bare) > (
        _LONGEST_GROUPED if grouped else _LONGEST_PLAIN
    ):
        return digits(bare)
    return _words(int(bare), "cardinal")


@lru_cache(maxsize=4096)
def ordinal(text: str) -> str:
    """Read a whole number as an ordinal.

    >>> ordinal("21")
    'twenty first'
    """
    bare = text.replace(",", "")
    if len(bare) <= _LONGEST_GROUPED:
        return _words(int(bare), "ordinal")
    return digits(bare)


def decimal(text: str) -> str:
    """Read a number with or without a decimal point.

    >>> decimal("3.05"), decimal(".5")
    ('three point zero five', 'point five')
    """
    whole, _, fraction = text.partition(".")
    if whole:
        words = [cardinal(whole)]
    else:
        words = []
    return " ".join([*words, "point", digits(fraction)] if fraction else words)


def is_year(text: str) -> bool:
    """Return whether digits are read as a year: four of them, 1100 to 2099."""
    return len(text) == 4 and text.isdigit() and "1100" <= text <= "2099"


def year(text: str) -> str:
    """Read four digits as a year.

    >>> year("1999"), year("1905"), year("1900"), year("2005")
    ('nineteen ninety nine', 'nineteen oh five', 'nineteen hundred', 'two thousand five')
    """
    return _words(int(text), "year")


def two_digits(text: str) -> str:
    """Read two digits after an hour or a century.

    >>> two_digits("05"), two_digits("30"), two_digits("00")
    ('oh five', 'thirty', 'oh oh')
    """
    if text[0] != "0":
        return cardinal(text)
    if text == "00":
        return "oh oh"
    return f"oh {digits(text[1])}"


def number(text: str) -> str:
    """Read a bare number: as a year if it looks like one, otherwise its value.

    >>> number("1999"), number("1,999")
    ('nineteen ninety nine', 'one thousand nine hundred ninety nine')
    """
    if is_year(text):
        return year(text)
    return decimal(text)


def other_readings(chunks: Sequence[str]) -> list[str]:
    """Return the ways in which people read a code of digits and letters.

    The likeliest comes first; the reading as a value is not among them.

    They read digit by digit (0 is zero or oh, two equal digits double), in pairs, as a number or
    year, or "and" in it.

    >>> other_readings(["8025"])[:4]
    ['eight zero two five', 'eight oh two five', 'eighty twenty five', 'eight thousand twenty five']
    >>> other_readings(["a", "398"])[:2]
    ['a three nine eight', 'a three ninety eight']
    """
    readings = []
    for read in (digits, _with_oh, _in_pairs, cardinal, _with_and, _with_double):
        readings.append(" ".join(read(chunk) if chunk.isdigit() else chunk for chunk in chunks))
    return list(dict.fromkeys(readings))


def _with_oh(text: str) -> str:
    return digits(text).replace("zero", "oh")


def _with_double(text: str) -> str:
    return re.sub(r"\b(\w+) \1\b", r"double \1", _with_oh(text))


def _in_pairs(text: str) -> str:
    first = len(text) % 2
    pairs = [text[at : at + 2] for at in range(first, len(text), 2)]
    return " ".join([*map(digits, text[:first]), *map(two_digits, pairs)])


def _with_and(text: str) -> str:
    return re.sub(r"\bhundred (?=\w+(?: \w+)?$)", "hundred and ", cardinal(text))


def plural(words: str) -> str:
    """Return the plural of a number in words.

    >>> plural("nineteen ninety"), plural("six")
    ('nineteen nineties', 'sixes')
    """
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def fraction(above: str, below: str) -> str | None:
    """Read a proper fraction with a common denominator; None for any other pair.

    >>> fraction("1", "2"), fraction("3", "4"), fraction("4", "4")
    ('one half', 'three quarters', None)
    """
    if len(above) > 3 or len(below) > 4:
        return None
    count = int(above)
    parts = int(below)
    if parts not in _DENOMINATORS or not 0 < count < parts:
        return None
    name = {2: "half", 4: "quarter"}.get(parts) or ordinal(below).removeprefix("one ")
    return f"{cardinal(above)} {name if count == 1 else name + 's'}"


def roman(numeral: str, before: str, shouting: bool) -> str | None:
    """Read a Roman numeral after the word `before`; None if the letters may be something else.

    After a reigning name an ordinal (Henry VIII: "the eighth"), after another capitalised word a
    cardinal
    (World War II, Chapter IV). A single I, V or X only after a word such as Chapter. If everything
    is in capitals, only after those names and words.

    >>> roman("VIII", "Henry", False), roman("II", "War", False), roman("I", "Charles", False)
    ('the eighth', 'two', None)
    """
    name = re.sub(r"\W", "", before).lower()
    single = _ROMAN_LETTER.fullmatch(numeral) is not None
    if not (single or _ROMAN.fullmatch(numeral)):
        return None
    if single:
        return _roman_letter(numeral, name, before[:1].isupper() and not shouting)
    value = str(_roman_value(numeral))
    if name in _REIGNING:
        return f"the {ordinal(value)}"
    likely = name in _NUMBERED or (
        before[:1].isupper() and not shouting and name not in ("the", "a", "an", "my")
    )
    if likely:
        return cardinal(value)
    return None


def _roman_letter(numeral: str, name: str, titled: bool) -> str | None:
    """Read one letter as a Roman numeral.

    "I" only after a capitalised word such as Chapter, because elsewhere it is a pronoun.
    """
    if numeral == "I":
        numbered = titled and name in _NUMBERED_BEFORE_I
    else:
        numbered = name in _NUMBERED
    if numbered:
        return cardinal(str(_ROMAN_VALUES[numeral]))
    return None


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0]))


def _words(value: int, form: str) -> str:
    from num2words import num2words

    words = str(num2words(value, to=form, lang="en"))
    return " ".join(re.sub(r"\band\b|[,-]", " ", words).split())


# Digits with the signs and units around them

_SYMBOLS = "[" + "".join(CURRENCIES) + "]"
_SCALES = text_table("english", "scales")
SCALE_WORDS = frozenset(("hundred", "thousand", "million", "billion", "trillion"))
_SCALE = rf"(?:(?P<scale>mio|[mbt]n|[kmbtKMBT])|-?(?P<scale_word>{'|'.join(sorted(SCALE_WORDS))}))?(?![A-Za-z])"
_REGION = r"(?P<region>US|AU|CA|NZ|HK|A|C|S)?"
_HALF_DAY = r"(?:[- ]?(?P<half>[AaPp])\.?[Mm]\b\.?)"
_MEASURE = r"(?P<gap>-?)(?P<unit>(?:°[A-Za-z]?|[A-Za-zµ%]+(?:/[a-z]+)?)(?:⁺?[23])?)(?![A-Za-z0-9])"
_MONEY_WORD = lazy_regex(
    rf"\W*?(?:{_SYMBOLS}?{NUMBER}[-–])?{_REGION}(?P<symbol>{_SYMBOLS}){NUMBER}\W*"
)
_COINS = _names_of_sums("coins")
_YEAR_FOLLOWS = word_set("in since until year ad")
_MONTHS = word_list("months", "english")


def money_before(word: str) -> str:
    """Return the currency's plural if `word` is a sum of money, otherwise "".

    For example "$2" before "million".

    >>> money_before("$2"), money_before("2")
    ('dollars', '')
    """
    match = _MONEY_WORD.fullmatch(word)
    if match:
        return CURRENCIES[match["symbol"]][1]
    return ""


def _money(match: re.Match[str], scan: Scan) -> str:
    found = match.groupdict("")
    symbol = found["symbol"]
    amount = found["amount"]
    scale = found.get("scale_word") or _SCALES.get(found.get("scale", "").lower(), "")
    region = "".join(f"{letter} " for letter in found.get("region", "").lower())
    one, many = CURRENCIES[symbol]
    if scale:
        return f"{decimal(amount)} {scale} {region}{many}"
    after = re.sub(r"\W", "", scan.context.after.lower())
    if after in SCALE_WORDS and re.fullmatch(r"\W*", scan.text[match.end() :]):
        return decimal(amount)
    whole, _, part = amount.partition(".")
    if symbol in CENTS and len(part) == 2:
        return _with_cents(symbol, whole.lstrip("0"), part, region)
    return f"{decimal(amount)} {region}{one if amount == '1' else many}"


def _with_cents(symbol: str, whole: str, part: str, region: str) -> str:
    one, many = CURRENCIES[symbol]
    cents = ""
    if part != "00":
        cents = cardinal(part.lstrip("0"))
    cent = CENTS[symbol][part != "01"]
    if not whole:
        return f"{cents or 'zero'} {cent if cents else region + many}"
    amount = f"{cardinal(whole)} {region}{one if whole == '1' else many}"
    if not cents:
        return amount
    if symbol == "£":
        return f"{amount} {cents}"
    return f"{amount} and {cents} {cent}"


def _time(match: re.Match[str], scan: Scan) -> str | None:
    hour = match["hour"]
    minute = match["minute"]
    second = match["second"]
    half = match["half"]
    after = scan.context.after.lower().replace("’", "'")
    is_named = half or re.match(r"\W*[ap]\.?m\b", after)
    if int(hour) > 24 or (match["mark"] == "." and not is_named):
        return None
    words = [cardinal(str(int(hour)))]
    in_range = scan.text[match.end() : match.end() + 1] in ("-", "–")
    named = is_named or in_range or re.match(r"\W*o'clock", after)
    if second:
        words += [two_digits(minute), two_digits(second)]
    elif minute != "00":
        words.append(two_digits(minute))
    elif not named:
        words.append("o'clock" if 0 < int(hour) <= 12 else "hundred")
    return " ".join(words + ([half.lower(), "m"] if half else []))


def _half_day(match: re.Match[str], scan: Scan) -> str | None:
    if 0 < int(match["hour"]) <= 12:
        return f"{cardinal(match['hour'])} {match['half'].lower()} m"
    return None


def _date(match: re.Match[str], scan: Scan) -> str:
    return " ".join(
        year(part) if is_year(part) else cardinal(str(int(part)))
        for part in re.split("[-/]", match[0])
    )


def _local_number(match: re.Match[str], scan: Scan) -> str | None:
    """Read a telephone number of seven digits; None for a range (100-2000, 200-1000)."""
    exchange = match["exchange"]
    line = match["line"]
    after = re.sub(r"\W", "", scan.context.after)
    is_range = (exchange.endswith("0") and line.endswith("00")) or unit_name(after) is not None
    if is_range:
        return None
    return digits(match[0])


def _fraction(match: re.Match[str], scan: Scan) -> str:
    whole = match["whole"]
    above = match["above"]
    below = match["below"]
    words = fraction(above, below)
    if words is None:
        return f"{number(whole) + ' ' if whole else ''}{number(above)} {number(below)}"
    mixed = whole or re.fullmatch(r"\W*\d+", scan.context.before)
    if mixed:
        words = "and " + ("a half" if words == "one half" else words)
    if whole:
        return f"{cardinal(whole)} {words}"
    return words


def _measure(match: re.Match[str], scan: Scan) -> str | None:
    name = unit_name(match["unit"], singular=match["amount"] == "1" or bool(match["gap"]))
    if name:
        return f"{decimal(match['amount'])} {name}"
    return None


def _scaled(match: re.Match[str], scan: Scan) -> str:
    return f"{decimal(match['amount'])} {_SCALES[match['scale'].lower()]}"


def _several(match: re.Match[str], scan: Scan) -> str:
    return plural(number(match["amount"]))


def _old_money(match: re.Match[str], scan: Scan) -> str | None:
    """Read "15s. 8d." and "£3 10s. 6d.", Britain's money until 1971.

    One of these alone may be something else.
    """
    amount = match["amount"]
    coin = match["coin"]
    before = scan.text[: match.start()] or scan.context.before
    after = scan.text[match.end() :].lstrip(".") or scan.context.after
    beside = {"l": (r"", r"\d+s\b"), "s": (r"£\d+|\d+l\b", r"\d+d\b"), "d": (r"\d+s\b|£\d+", r"")}[
        coin
    ]
    if not any(
        pattern and re.match(rf"\W*(?:{pattern})", text)
        for pattern, text in zip(beside, (before, after))
    ):
        return None
    return f"{cardinal(amount)} {_COINS[coin][amount != '1']}"


def _short_year(match: re.Match[str], scan: Scan) -> str:
    words = two_digits(match["amount"])
    if match["several"]:
        return plural(words)
    return words


def _plain_number(match: re.Match[str], scan: Scan) -> str:
    text = match[0]
    opens = not any(map(str.isalnum, scan.text[: match.start()]))
    before = ""
    if opens:
        before = re.sub(r"\W", "", scan.context.before)
    if (
        before[:1].isupper()
        and before.lower() in _MONTHS
        and re.fullmatch(r"[1-9]|[12]\d|3[01]", text)
    ):
        return ordinal(text)
    if before.lower() in _YEAR_FOLLOWS and re.fullmatch(r"10[1-9]\d", text):
        return year(text)
    if (
        len(text) == 3
        and scan.text.strip("()") == text
        and re.fullmatch(r"\d{3}-\d{4}\W*", scan.context.after)
    ):
        return digits(text)
    return number(text)


NUMBER_RULES: tuple[Rule, ...] = (
    rule(rf"{_REGION}(?P<symbol>{_SYMBOLS})(?P<amount>{NUMBER}){_SCALE}", _money),
    rule(rf"(?P<amount>{NUMBER})(?P<symbol>{_SYMBOLS})(?!\d)", _money),
    rule(r"\d{4}-\d{1,2}-\d{1,2}(?![-\d])|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?![/\d])", _date),
    rule(r"\d+(?:-\d+){2,}", lambda match, scan: digits(match[0])),
    rule(r"(?P<exchange>\d{3})-(?P<line>\d{4})(?!\d)", _local_number),
    rule(
        r"(?P<whole>\d+)?"
        r" ?(?<!\d)(?P<above>\d+)/(?P<below>\d+)(?:(?:rd|th)s?(?![A-Za-z]))?(?![/\d])",
        _fraction,
    ),
    rule(
        rf"(?P<hour>\d\d?)(?P<mark>[:.])(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![:\d]){_HALF_DAY}?",
        _time,
    ),
    rule(rf"(?P<hour>\d\d?){_HALF_DAY}", _half_day),
    rule(
        r"(?P<above>\d{1,3}):(?P<below>\d)(?![:\d])",
        lambda m, scan: f"{cardinal(m['above'])} to {cardinal(m['below'])}",
    ),
    rule(
        r"(?<![A-Za-z\d])(?P<feet>\d)'(?P<inches>1[01]|\d)(?!\d)\"?",
        lambda m, scan: f"{digits(m[1])} foot {cardinal(m[2])}",
    ),
    rule(r"(?P<amount>\d*0)'s(?![A-Za-z])", _several),
    rule(rf"(?P<amount>{INTEGER})(?P<coin>[lsd])(?![A-Za-z])", _old_money),
    rule(rf"(?P<amount>{INTEGER})s(?![A-Za-z])", _several),
    rule(
        r"(?P<amount>\d[\d,]*)(?:st|nd|rd|th|ST|ND|RD|TH)(?![A-Za-z])",
        lambda m, scan: ordinal(m["amount"]),
    ),
    rule(rf"(?P<amount>{NUMBER})[x×](?=\d)", lambda m, scan: f"{number(m['amount'])} by"),
    rule(rf"(?P<amount>{NUMBER}){_MEASURE}", _measure),
    rule(rf"(?P<amount>{NUMBER})(?P<scale>bn|tn|mn|M)(?![A-Za-z0-9])", _scaled),
    rule(r"\d{1,3}(?:\.\d{3}){2,}(?![.\d])", lambda m, scan: cardinal(m[0].replace(".", ","))),
    rule(
        r"\d+(?:\.\d+){2,}",
        lambda m, scan: " point ".join(cardinal(part) for part in m[0].split(".")),
    ),
    rule(NUMBER, _plain_number),
)
"""Tried in this order at a digit, a currency sign, or a point before a digit."""

SHORT_YEAR = rule(r"['‘](?P<amount>\d\d)(?!\d)(?P<several>'?s(?![A-Za-z]))?", _short_year)
"""'99, '90s"""
