"""The places where a run without spaces holds several words: "Americans—ask", "end...Then", "and/or", "one,two".

A run is cut after a dash, an ellipsis, a slash or a sentence mark that stands between two words; the mark, and quotes
or brackets that close after it, stay with the word before. Hyphens and apostrophes never part words, and neither do the
marks of numbers, times, dates, ranges, addresses, file names, paths and abbreviations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ctc_align.text.characters import plain, word_set
from ctc_align.text.english_numbers import unit_name

_DASHES = "\u2012\u2013\u2014\u2015\u2e3a\u2e3b\ufe58"
_ELLIPSES = "…‥"
_SLASHES = "/／"
_PAUSES = ",;،؛、，；፣፤"
_COLONS = ":：፡፥፦"
_ENDS = "!?؟۔।॥։׃።፧‽⁇⁈⁉。．！？\u037e"
_MARKS = f"{_DASHES}{_ELLIPSES}{_SLASHES}{_PAUSES}{_COLONS}{_ENDS}."
_CLUSTER = re.compile(rf"(?:[{_MARKS}]|--+)+")
_CLOSE = "”’»)]}›"
_OPEN = "“‘„«‹([{¿¡"
_EITHER = "\"'*_`~"
"""Signs that open and close alike: quotes, and the emphasis of Markdown."""
_SIGNS = "$£€¥₹₩₽₺#@+-−%°&"
_AFTER_WORDS, _BEFORE_WORDS = f"{_CLOSE}{_EITHER}{_MARKS}%°", f"{_CLOSE}{_OPEN}{_EITHER}{_MARKS}{_SIGNS}"
_MOST_BETWEEN = 8
"""So many quotes, brackets and signs may stand between a mark and the letter or digit beside it."""
_LONGEST_PIECE = 40

_ENDINGS = re.compile(r"['’](?:s|ll|re|ve|d|m|t|S|LL|RE|VE|D|M|T)(?![^\W_])")
_TITLE_OR_DEGREE = word_set("ph ed psy lit th sc pharm mus bl")
_SLASHED_NAMES = word_set("AC/DC TCP/IP CI/CD PL/SQL HIV/AIDS GNU/LINUX UTF/ASCII")
_COLON_INSIDE = ("fi", "fin", "sv", "swe")
"""Languages that put a colon inside words: EU:n, kl:s."""
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|ai|app|dev|tv|fm|ly|xyz|uk|de|fr|eu|ca|au|jp|cn|ru|ch|nl|br|pl|se|dk|fi"
_EXTENSIONS = (
    "pdf|docx?|xlsx?|pptx?|odt|rtf|txt|csv|tsv|json|jsonl|xml|html?|css|js|ts|py|java|cpp|rs|png|jpe?g|gif|svg|bmp|"
    "mp3|mp4|wav|flac|ogg|m4a|mov|avi|mkv|webm|zip|gz|tar|exe|dll|iso|apk|bat|cfg|ini|ya?ml|toml|tex|srt|vtt|md"
)
_HOST = r"(?<![\w-])(?:[\w-]{1,63}\.){1,4}"
_AFTER_ADDRESS = r"(?![\w-]|\.[a-z])(?:[:/?#][^\s—\"”»]*)?"
_WHOLE = re.compile(
    rf"(?i:[a-z][a-z\d+.-]{{1,15}}://|www\.)[^\s—\"”»<>]+"
    rf"|(?:mailto:)?[\w.%+-]{{1,64}}@(?:[\w-]{{1,63}}\.){{1,4}}\w{{2,}}"
    rf"|{_HOST}(?:{_DOMAINS}){_AFTER_ADDRESS}|{_HOST}(?:{_DOMAINS.upper()})(?![\w-]|\.[A-Z])"
    rf"|(?:[\w.-]{{1,60}}[/\\]){{0,9}}[\w-]{{1,100}}\.(?i:{_EXTENSIONS})(?![^\W_]|\.[a-z])"
    rf"|(?<![^\s\"'(])(?:~?/|\.{{1,2}}/|[A-Za-z]:[\\/]|\\\\)[^\s—]*[/\\][^\s—]*"
    rf"|(?<!\w)[@#]\w+(?:\.\w+)*"
)
"""Addresses, file names, paths and handles, which stay whole."""


def boundaries(text: str, language: str = "en") -> list[int]:
    """Return the places in `text` where a word ends although no space follows, ascending.

    >>> [("Americans—ask and/or stop...Then 1,000 at U.S.-based x@y.org")[:cut][-4:] for cut in
    ...  boundaries("Americans—ask and/or stop...Then 1,000 at U.S.-based x@y.org")]
    ['ans—', 'and/', 'p...']
    """
    colons = language.replace("_", "-").partition("-")[0].lower() not in _COLON_INSIDE
    cuts: list[int] = []
    run_end, kept_whole = -1, []
    for cluster in _CLUSTER.finditer(text):
        start, end = cluster.span()
        if not start or end == len(text) or text[start - 1].isspace() or text[end].isspace():
            continue
        sides = _sides(text, start, end)
        if sides is None or not _parts(cluster.group(), *sides, colons):
            continue
        if start >= run_end:
            run_start, run_end = _run(text, start)
            kept_whole = [
                (run_start + match.start(), run_start + match.end())
                for match in _WHOLE.finditer(text[run_start:run_end])
            ]
        if not any(low <= start and end <= high for low, high in kept_whole):
            cuts.append(_after_closing(text, end))
    return cuts


def _run(text: str, place: int) -> tuple[int, int]:
    """Return the run of non-space characters around a place."""
    start, end = place, place
    while start and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return start, end


def _sides(text: str, start: int, end: int) -> tuple[str, str] | None:
    """Return the pieces of words on both sides of a mark, None where one of them is no word."""
    left, right = start, end
    while left and start - left < _MOST_BETWEEN and text[left - 1] in _AFTER_WORDS:
        left -= 1
    opened = False
    while right < len(text) and right - end < _MOST_BETWEEN and text[right] in _BEFORE_WORDS:
        opened = opened or text[right] in _OPEN
        if text[right] in _MARKS and not opened:
            return None  # one mark after another parts words once: the last one does
        right += 1
    if not left or right == len(text) or not _is_word(text[left - 1]) or not _is_word(text[right]):
        return None
    if _ENDINGS.match(text, end):
        return None
    low, high = left, right
    while low and left - low < _LONGEST_PIECE and _is_inside(text[low - 1]):
        low -= 1
    while high < len(text) and high - right < _LONGEST_PIECE and _is_inside(text[high]):
        high += 1
    return text[low:left].strip("-'’"), text[right:high].strip("-'’")


@lru_cache(maxsize=4096)
def _is_word(character: str) -> bool:
    return character.isalnum() or (not character.isascii() and unicodedata.category(character)[0] in "LMN")


def _is_inside(character: str) -> bool:
    return character in "-'’\u2010\u2011" or _is_word(character)


def _parts(marks: str, left: str, right: str, colons: bool) -> bool:
    """Return whether marks between two pieces of words part them."""
    digits = left[-1:].isdigit() and right[:1].isdigit()
    if any(mark in _DASHES for mark in marks) or "--" in marks:
        return _dash_parts(marks, left, right)
    if ".." in marks or any(mark in _ELLIPSES for mark in marks):
        return not digits
    if any(mark in _SLASHES for mark in marks):
        return _slash_parts(left, right)
    if any(mark in _ENDS or mark in _PAUSES for mark in marks):
        return not digits
    if any(mark in _COLONS for mark in marks):
        return colons and not digits and not (_is_initial(left) or _is_initial(right))
    return _point_parts(left, right)


def _dash_parts(marks: str, left: str, right: str) -> bool:
    if left[:1].isdigit() and right[:1].isdigit():
        return False  # a range: 1990–1995, 5pm–6pm
    if marks not in ("\u2012", "\u2013"):
        return True
    if _is_initial(left) and _is_initial(right):
        return False  # A–Z
    return not (right[:1].isdigit() and left.isupper() and len(left) <= 5)  # F–16


def _slash_parts(left: str, right: str) -> bool:
    if _is_initial(left) or _is_initial(right) or not (left[-1:].isalpha() and right[:1].isalpha()):
        return not (left.isascii() and right.isascii()) and left[-1:].isalpha() and right[:1].isalpha()
    if left[:1].isdigit():
        return False  # 60km/hour
    if unit_name(plain(left)) and unit_name(plain(right)):
        return False  # kg/m²
    return f"{left}/{right}".upper() not in _SLASHED_NAMES


def _point_parts(left: str, right: str) -> bool:
    if left.isdigit():
        return len(right) > 1 and right[:1].isupper() and right[1:2].islower()  # "in 1999.Then"
    if not right[:1].isalpha() or _is_initial(left):
        return False
    if left.lower() in _TITLE_OR_DEGREE and len(right) <= 2:
        return False  # Ph.D
    return not _is_initial(right) or (right in ("I", "A") and left[-1:].islower())


def _is_initial(piece: str) -> bool:
    """Return whether a piece is one letter of a script with capitals."""
    return len(piece) == 1 and piece.lower() != piece.upper()


def _after_closing(text: str, place: int) -> int:
    """Return the place after the quotes and brackets that close at `place`."""
    while place < len(text) and (
        text[place] in _CLOSE or (text[place] in _EITHER and text[place] != "'" and _is_open(text, place))
    ):
        place += 1
    return place


def _is_open(text: str, place: int) -> bool:
    """Return whether a sign that opens and closes alike has been opened in its line before `place`."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    return (
        before.count(text[place]) % 2 == 1 or before.replace(text[place] * 2, text[place]).count(text[place]) % 2 == 1
    )


def cut_at(spans: list[tuple[int, int]], cuts: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans (start, end exclusive; ascending), each cut at those of `cuts` that lie inside it.

    >>> list(cut_at([(0, 5), (6, 9)], [2, 5, 8]))
    [(0, 2), (2, 5), (6, 8), (8, 9)]
    """
    at = 0
    for start, end in spans:
        while at < len(cuts) and cuts[at] < end:
            if cuts[at] > start:
                yield start, cuts[at]
                start = cuts[at]
            at += 1
        yield start, end
