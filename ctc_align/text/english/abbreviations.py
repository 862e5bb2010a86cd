"""English abbreviations, acronyms, and words that begin or end with an apostrophe.

In a transcript that is not all in capitals, a word of two to five capitals without a vowel (BBC, HTML) is spelled out,
and so are well-known acronyms with vowels (FBI, USA); other capitals are read as words (NASA). In a transcript that is
all in capitals no word is spelled out, since BBC and a shouted word look the same.
"""

from __future__ import annotations

import re

from ctc_align.text.characters import word_set
from ctc_align.text.english.measures import spaced_unit_name, spaced_units
from ctc_align.text.english.scanner import Context

_WITHOUT_DOT = {
    "mr": "mister", "mrs": "missus", "ms": "ms", "dr": "doctor", "jr": "junior", "sr": "senior",
    "vs": "versus", "etc": "et cetera", "messrs": "messrs", "mme": "madame",
}  # fmt: skip
_ANYWHERE = {"vs", "etc"}
_DOTTED = {
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "dept": "department", "govt": "government",
    "approx": "approximately", "assn": "association", "misc": "miscellaneous", "incl": "including",
    "blvd": "boulevard", "hwy": "highway",
}  # fmt: skip
_CAPITALISED = {
    "co": "company", "bros": "brothers", "esq": "esquire", "univ": "university", "rd": "road", "ave": "avenue",
    "jan": "january", "feb": "february", "apr": "april", "aug": "august", "sept": "september", "sep": "september",
    "oct": "october", "nov": "november", "dec": "december", "mon": "monday", "tue": "tuesday", "tues": "tuesday",
    "wed": "wednesday", "thu": "thursday", "thur": "thursday", "thurs": "thursday", "fri": "friday",
}  # fmt: skip
_BEFORE_NAME = {
    "prof": "professor", "capt": "captain", "gen": "general", "gov": "governor", "sgt": "sergeant",
    "lt": "lieutenant", "lieut": "lieutenant", "col": "colonel", "maj": "major", "cpl": "corporal", "pvt": "private",
    "adm": "admiral", "cmdr": "commander", "rev": "reverend", "hon": "honorable", "sen": "senator",
    "rep": "representative", "pres": "president", "supt": "superintendent", "msgr": "monsignor", "fr": "father",
    "mt": "mount", "ft": "fort", "st": "saint",
}  # fmt: skip
_BEFORE_NUMBER = {
    "no": "number", "nos": "numbers", "fig": "figure", "figs": "figures", "vol": "volume", "p": "page", "pp": "pages",
    "ch": "chapter", "apt": "apartment", "ext": "extension", "ca": "circa", "c": "circa", "mar": "march",
    "jun": "june", "jul": "july", "sat": "saturday", "sun": "sunday",
}  # fmt: skip
_CAPITAL_BEFORE_NUMBER = {"mar", "jun", "jul", "sat", "sun"}
_SMALL_BEFORE_NUMBER = {"c", "ca", "p", "pp"}
_NUMERIC = re.compile(r"\W*\d")

_SPELLED = word_set(
    """AAA ABC AC AD ADHD AI AKA AMA AOL API ATM BCE BMI CE CEO CFO CIA COO CPU CTO DIY DNA DOA DOD DOJ ECG EKG EPA ESL
    ETA EU FBI FDA GOP GPU HIV IBM ICU ID IMF IOU IP IPO IQ IRA IRS ISP IVF LA MBA MIA MIT NAACP NBA NSA NY NYC NYPD
    OECD OJ PA PE POW PTA RNA SOS SUV TBA UAE UCLA UFC UFO UI UK UN UPS URL US USA USB USC USSR UV UX VIP VOA"""
)
_CONSONANTS = re.compile(r"[B-DF-HJ-NP-TV-XZ]{2,5}")
_SOUNDS = word_set("HM HMM MM MMM SH SHH SHHH PST PSST TSK BRR BRRR GRR GRRR PFFT ZZZ NTH MR MRS MS DR ST JR SR")

_ELISIONS = word_set("tis tisn't twas twasn't twill twould twere twixt em til n s re ll ve d m")
_ELISIONS_UNLESS_QUOTED = word_set("cause bout round course cuz cos gainst neath kay till im er")
_NEVER_IN_G = word_set(
    """basin begin berlin bulletin cabin coffin coin cousin dolphin franklin goblin join kevin latin lenin margin marlin
    martin merlin muffin napkin origin penguin pumpkin puffin putin raisin resin robin rubin ruin satin skin stalin
    thin turin twin urchin vein violin virgin vitamin within"""
)

SPECIAL = frozenset(
    {*_WITHOUT_DOT, *_DOTTED, *_CAPITALISED, *_BEFORE_NAME, *_BEFORE_NUMBER, *spaced_units(), "am", "pm"}
)
"""Lower-case words that may be abbreviations."""


def abbreviation(word: str, dotted: bool, context: Context) -> str | None:
    """Return the expansion of a written `word` (letters only), `dotted` or not; None for an ordinary word.

    >>> abbreviation("Dr", True, Context("", "Brown")), abbreviation("No", True, Context("", "way"))
    ('doctor', None)
    """
    low, capital, before, after = word.lower(), word[0].isupper(), context.before, context.after
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
    if low in _WITHOUT_DOT and (dotted or low in _ANYWHERE or (capital and (word != "MS" or context.shouting))):
        return "drive" if low == "dr" and _ends_street(context) else _WITHOUT_DOT[low]
    return _dotted(low, capital, after) if dotted else None


def _dotted(low: str, capital: bool, after: str) -> str | None:
    """Return the expansion of a word with a dot after it, before the word `after`."""
    if low in _BEFORE_NUMBER and _NUMERIC.match(after):
        excluded = _SMALL_BEFORE_NUMBER if capital else _CAPITAL_BEFORE_NUMBER
        return None if low in excluded else _BEFORE_NUMBER[low]
    if capital and low in _BEFORE_NAME and _is_capitalised(after):
        return _BEFORE_NAME[low]
    return _DOTTED.get(low) or (_CAPITALISED.get(low) if capital else None)


def spelled_out(word: str, shouting: bool) -> str | None:
    """Return the letters of an acronym that is spelled out (see the module); None for a word that is read.

    >>> spelled_out("BBC", False), spelled_out("TVs", False), spelled_out("NASA", False), spelled_out("BBC", True)
    ('b b c', "t v's", None, None)
    """
    ending = re.search(r"(?<=[A-Z])'?s$", word)
    letters = word[: ending.start()] if ending else word
    if shouting or letters in _SOUNDS or not (letters in _SPELLED or _CONSONANTS.fullmatch(letters)):
        return None
    return " ".join(letters.lower()) + ("'s" if ending else "")


def is_elision(word: str, mark: str, closed: bool = False) -> bool:
    """Return whether the apostrophe `mark` before `word` belongs to it ('tis, 'em) rather than to a quotation.

    `closed`: an apostrophe follows the word too, as in 'cause'. An opening mark (‘cause) also suggests a quotation.

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
    """Return whether an apostrophe after `word` stands for a g (goin', nothin') rather than for the end of a quotation.

    >>> drops_g("goin"), drops_g("again"), drops_g("Berlin")
    (True, False, False)
    """
    low = word.lower()
    return len(low) > 3 and low.endswith("in") and not low.endswith("ain") and low not in _NEVER_IN_G


def _saint_or_street(abbreviated: bool, context: Context) -> str | None:
    if not abbreviated:
        return None
    return "saint" if _is_capitalised(context.after) else "street"


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
