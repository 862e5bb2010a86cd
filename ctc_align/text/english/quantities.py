"""English readings of digits: money, times, dates, fractions, measures, years."""

from __future__ import annotations

import re

from ctc_align.text.characters import word_set
from ctc_align.text.english.measures import CENTS, CURRENCIES, unit_name
from ctc_align.text.english.numbers import (
    INTEGER,
    NUMBER,
    cardinal,
    decimal,
    digits,
    fraction,
    is_year,
    number,
    ordinal,
    plural,
    two_digits,
    year,
)
from ctc_align.text.english.scanner import Rule, Scan, rule

_SYMBOLS = "[" + "".join(CURRENCIES) + "]"
_SCALES = {
    "k": "thousand", "m": "million", "mn": "million", "mio": "million", "b": "billion", "bn": "billion",
    "t": "trillion", "tn": "trillion",
}  # fmt: skip
SCALE_WORDS = frozenset(("hundred", "thousand", "million", "billion", "trillion"))
_SCALE = rf"(?:(?P<scale>mio|[mbt]n|[kmbtKMBT])|-?(?P<scale_word>{'|'.join(sorted(SCALE_WORDS))}))?(?![A-Za-z])"
_REGION = r"(?P<region>US|AU|CA|NZ|HK|A|C|S)?"
_HALF_DAY = r"(?:[- ]?(?P<half>[AaPp])\.?[Mm]\b\.?)"
_MEASURE = r"(?P<gap>-?)(?P<unit>(?:°[A-Za-z]?|[A-Za-zµ%]+(?:/[a-z]+)?)(?:⁺?[23])?)(?![A-Za-z0-9])"
_MONEY_WORD = re.compile(rf"\W*?(?:{_SYMBOLS}?{NUMBER}[-–])?{_REGION}(?P<symbol>{_SYMBOLS}){NUMBER}\W*")
_YEAR_FOLLOWS = word_set("in since until year ad")
_MONTHS = word_set(
    """january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec"""
)


def money_before(word: str) -> str:
    """Return the currency's plural where `word` is a sum of money ("$2", before "million"), else "".

    >>> money_before("$2"), money_before("2")
    ('dollars', '')
    """
    match = _MONEY_WORD.fullmatch(word)
    return CURRENCIES[match["symbol"]][1] if match else ""


def _money(match: re.Match[str], scan: Scan) -> str:
    symbol, amount = match["symbol"], match["amount"]
    scale = match["scale_word"] or _SCALES.get((match["scale"] or "").lower(), "")
    region = f"{' '.join(match['region'].lower())} " if match["region"] else ""
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
    cents = "" if part == "00" else cardinal(part.lstrip("0"))
    cent = CENTS[symbol][part != "01"]
    if not whole:
        return f"{cents or 'zero'} {cent if cents else region + many}"
    amount = f"{cardinal(whole)} {region}{one if whole == '1' else many}"
    if not cents:
        return amount
    return f"{amount} {cents}" if symbol == "£" else f"{amount} and {cents} {cent}"


def _money_after(match: re.Match[str], scan: Scan) -> str:
    one, many = CURRENCIES[match["symbol"]]
    whole, _, part = match["amount"].partition(".")
    if match["symbol"] in CENTS and len(part) == 2 and whole:
        return _with_cents(match["symbol"], whole.lstrip("0"), part, "")
    return f"{decimal(match['amount'])} {one if match['amount'] == '1' else many}"


def _time(match: re.Match[str], scan: Scan) -> str | None:
    hour, minute, second, half = match["hour"], match["minute"], match["second"], match["half"]
    if int(hour) > 24:
        return None
    words = [cardinal(str(int(hour)))]
    in_range = scan.text[match.end() : match.end() + 1] in ("-", "–")
    named = half or in_range or re.match(r"\W*(?:[ap]\.?m\b|o'clock)", scan.context.after.lower().replace("’", "'"))
    if second:
        words += [two_digits(minute), two_digits(second)]
    elif minute != "00":
        words.append(two_digits(minute))
    elif not named:
        words.append("o'clock" if 0 < int(hour) <= 12 else "hundred")
    return " ".join(words + ([half.lower(), "m"] if half else []))


def _half_day(match: re.Match[str], scan: Scan) -> str | None:
    return f"{cardinal(match['hour'])} {match['half'].lower()} m" if 0 < int(match["hour"]) <= 12 else None


def _date(match: re.Match[str], scan: Scan) -> str:
    return " ".join(year(part) if is_year(part) else cardinal(str(int(part))) for part in re.split("[-/]", match[0]))


def _local_number(match: re.Match[str], scan: Scan) -> str | None:
    """Read a telephone number of seven digits; None for a range (100-2000, 200-1000)."""
    exchange, line = match["exchange"], match["line"]
    after = re.sub(r"\W", "", scan.context.after)
    is_range = (exchange.endswith("0") and line.endswith("00")) or unit_name(after) is not None
    return None if is_range else digits(match[0])


def _fraction(match: re.Match[str], scan: Scan) -> str:
    whole, above, below = match["whole"], match["above"], match["below"]
    words = fraction(above, below)
    if words is None:
        return f"{number(whole) + ' ' if whole else ''}{number(above)} {number(below)}"
    mixed = whole or re.fullmatch(r"\W*\d+", scan.context.before)
    if mixed:
        words = "and " + ("a half" if words == "one half" else words)
    return f"{cardinal(whole)} {words}" if whole else words


def _measure(match: re.Match[str], scan: Scan) -> str | None:
    name = unit_name(match["unit"], singular=match["amount"] == "1" or bool(match["gap"]))
    return f"{decimal(match['amount'])} {name}" if name else None


def _scaled(match: re.Match[str], scan: Scan) -> str:
    return f"{decimal(match['amount'])} {_SCALES[match['scale'].lower()]}"


def _several(match: re.Match[str], scan: Scan) -> str:
    return plural(number(match["amount"]))


def _short_year(match: re.Match[str], scan: Scan) -> str:
    words = two_digits(match["amount"])
    return plural(words) if match["several"] else words


def _plain_number(match: re.Match[str], scan: Scan) -> str:
    text = match[0]
    opens = not any(map(str.isalnum, scan.text[: match.start()]))
    before = re.sub(r"\W", "", scan.context.before) if opens else ""
    if before[:1].isupper() and before.lower() in _MONTHS and re.fullmatch(r"[1-9]|[12]\d|3[01]", text):
        return ordinal(text)
    if before.lower() in _YEAR_FOLLOWS and re.fullmatch(r"10[1-9]\d", text):
        return year(text)
    if len(text) == 3 and scan.text.strip("()") == text and re.fullmatch(r"\d{3}-\d{4}\W*", scan.context.after):
        return digits(text)
    return number(text)


RULES: tuple[Rule, ...] = (
    rule(rf"{_REGION}(?P<symbol>{_SYMBOLS})(?P<amount>{NUMBER}){_SCALE}", _money),
    rule(rf"(?P<amount>{NUMBER})(?P<symbol>{_SYMBOLS})(?!\d)", _money_after),
    rule(r"\d{4}-\d{1,2}-\d{1,2}(?![-\d])|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)(?![/\d])", _date),
    rule(r"\d+(?:-\d+){2,}", lambda match, scan: digits(match[0])),
    rule(r"(?P<exchange>\d{3})-(?P<line>\d{4})(?!\d)", _local_number),
    rule(r"(?P<whole>\d+)? ?(?<!\d)(?P<above>\d+)/(?P<below>\d+)(?:(?:rd|th)s?(?![A-Za-z]))?(?![/\d])", _fraction),
    rule(rf"(?P<hour>\d\d?):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![:\d]){_HALF_DAY}?", _time),
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
    rule(rf"(?P<amount>{INTEGER})s(?![A-Za-z])", _several),
    rule(r"(?P<amount>\d[\d,]*)(?:st|nd|rd|th|ST|ND|RD|TH)(?![A-Za-z])", lambda m, scan: ordinal(m["amount"])),
    rule(rf"(?P<amount>{NUMBER})[x×](?=\d)", lambda m, scan: f"{number(m['amount'])} by"),
    rule(rf"(?P<amount>{NUMBER}){_MEASURE}", _measure),
    rule(rf"(?P<amount>{NUMBER})(?P<scale>bn|tn|mn|M)(?![A-Za-z0-9])", _scaled),
    rule(r"\d{1,3}(?:\.\d{3}){2,}(?![.\d])", lambda m, scan: cardinal(m[0].replace(".", ","))),
    rule(r"\d+(?:\.\d+){2,}", lambda m, scan: " point ".join(cardinal(part) for part in m[0].split("."))),
    rule(NUMBER, _plain_number),
)
"""Tried in this order at a digit, a currency sign, or a point before a digit."""

SHORT_YEAR = rule(r"['‘](?P<amount>\d\d)(?!\d)(?P<several>'?s(?![A-Za-z]))?", _short_year)
"""'99, '90s"""
