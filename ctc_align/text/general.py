"""The spoken form in languages other than English: letters, marks, and numbers where num2words knows the language."""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.characters import LETTER, plain

_WORD = re.compile(rf"(?P<letters>{LETTER}+(?:['·]{LETTER}+)*)|(?P<number>[-−]?\d[\d.,']*)|(?P<sign>[%&€+])")
_POINT_IS_DECIMAL = frozenset(("en", "ja", "ko", "th", "he", "zh", "hi", "bn", "te", "kn", "ta", "ur", "my"))
_LONG_CODES = {
    "ara": "ar", "aze": "az", "bel": "be", "ben": "bn", "cat": "ca", "ces": "cs", "cym": "cy", "dan": "da", "deu": "de",
    "epo": "eo", "fas": "fa", "fin": "fi", "fra": "fr", "heb": "he", "hun": "hu", "ind": "id", "isl": "is", "ita": "it",
    "jpn": "ja", "kan": "kn", "kaz": "kz", "kk": "kz", "kor": "ko", "lav": "lv", "lit": "lt", "nld": "nl", "nob": "no",
    "nb": "no", "nor": "no", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es",
    "srp": "sr", "swe": "sv", "tel": "te", "tgk": "tg", "tha": "th", "tur": "tr", "ukr": "uk", "vie": "vi",
}  # fmt: skip
_SIGNS = {
    "de": {"%": "prozent", "&": "und", "€": "euro", "+": "plus"},
    "es": {"%": "por ciento", "&": "y", "€": "euros", "+": "más"},
    "fr": {"%": "pour cent", "&": "et", "€": "euros", "+": "plus"},
    "it": {"%": "per cento", "&": "e", "€": "euro", "+": "più"},
    "nl": {"%": "procent", "&": "en", "€": "euro", "+": "plus"},
    "pt": {"%": "por cento", "&": "e", "€": "euros", "+": "mais"},
}
_LONGEST = 18


def speak(word: str, language: str) -> str:
    """Lower-case letters, marks and inner apostrophes of one written word, parted by spaces; punctuation goes.

    Digits are spelled by num2words in `language` (a code such as "de", "pt-BR" or "deu"); where it does not know the
    language they stay digits, which a model without digits then reports as unknown.

    >>> speak("„Straße“,", "de"), speak("l’année", "fr"), speak("21", "de"), speak("٢١", "xx")
    ('straße', "l'année", 'einundzwanzig', '21')
    """
    code = _code(language)
    said = []
    for match in _WORD.finditer(plain(word)):
        if match["letters"]:
            said.append(_lower(match["letters"], code).replace("·", ""))
        elif match["number"]:
            said.append(_number(match["number"], match.start() == 0, code))
        else:
            said.append(_SIGNS.get(code.partition("_")[0], {}).get(match["sign"], ""))
    return " ".join(filter(None, said))


def _code(language: str) -> str:
    """num2words' name of a language: "pt-BR" → "pt_BR", "deu" → "de"."""
    base, _, region = language.replace("_", "-").partition("-")
    base = _LONG_CODES.get(base.lower(), base.lower())
    return f"{base}_{region.upper()}" if region else base


def _lower(letters: str, code: str) -> str:
    if code.partition("_")[0] in ("tr", "az"):
        letters = letters.replace("I", "ı")
    return letters.lower()


def _number(written: str, opens: bool, code: str) -> str:
    """A number in words; digits alone, parted by spaces, where the language is not known."""
    sign = "-" if opens and written[0] in "-−" else ""
    body = written.lstrip("-−").rstrip(".,'")
    group, point = (",", ".") if code.partition("_")[0] in _POINT_IS_DECIMAL else (".", ",")
    body = re.sub(rf"(?<=\d)[{re.escape(group)}'](?=\d{{3}}(?!\d))", "", body)
    parts = re.split(r"[.,']", body) if body.count(point) != 1 else [body.replace(point, ".")]
    return " ".join(_in_words(sign + part, code) or part for part in parts if part)


@lru_cache(maxsize=4096)
def _in_words(number: str, code: str) -> str | None:
    from num2words import CONVERTER_CLASSES, num2words

    name = code if code in CONVERTER_CLASSES else code.partition("_")[0]
    if name not in CONVERTER_CLASSES or len(number) > _LONGEST or re.match(r"0\d", number):
        return None
    form = "year" if re.fullmatch(r"1[1-9]\d\d", number) else "cardinal"
    for attempt in (form, "cardinal"):
        try:
            said = str(num2words(number, to=attempt, lang=name))
        except Exception:  # the library's languages fail in many ways of their own
            continue
        return " ".join(
            re.sub(r"[^\w\s']|_", lambda m: m[0] if LETTER_OR_MARK.match(m[0]) else " ", said).split()
        ).lower()
    return None


LETTER_OR_MARK = re.compile(LETTER)
