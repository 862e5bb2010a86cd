"""Phones of words in Arabic and Hebrew letters, which usually omit the short vowels.

The positions of the omitted vowels can be found, but not their quality: `_SHORT` means any of them.
Consonants without a vowel between them are divided into syllables. A syllable begins with one
consonant and ends with at most one; at the end of a word it may end with two, if the second is less
sonorous (dost, qalb). Uyghur, Kurdish and Yiddish write all vowels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.text.characters import divided
from ctc_align.text.phone_sets import IPA_CLASSES, Phones
from ctc_align.text.sounds.pieces import Piece, unknown, without_repeats
from ctc_align.text.sounds.spelling_rules import options_of, phone_table, spelling_rules, table

_SHORT = "ə"
_SONORITY = {phone: rank for rank, phones in enumerate(IPA_CLASSES.values()) for phone in phones}


@dataclass(slots=True)
class Letter:
    """A letter with its marks.

    Attributes:
        start, end: its characters, `end` exclusive.
        onset: phones of its consonant; () for a vowel letter.
        vowel: phones of its vowel; () if a vowel letter or a sukun follows, None if no vowel is
            written.
        is_long: whether a letter writes the vowel, not a mark.
    """

    start: int
    end: int
    onset: Phones
    vowel: Phones | None = None
    is_long: bool = False

    @property
    def is_bare(self) -> bool:
        return bool(self.onset) and self.vowel is None


_NO_LETTER = Letter(0, 0, ())
"""Stands before the first letter of a word."""


def _with_short_vowels(letters: Sequence[Letter], *, final_clusters: str) -> list[Piece]:
    """Return the pieces of a word, with a vowel where one was left out.

    Args:
        letters: of the whole word.
        final_clusters: which words may end in two consonants: "all", "short" (of three consonants)
            or "none".

    >>> word = [Letter(index, index + 1, (phone,)) for index, phone in enumerate("mktb")]
    >>> [" ".join(piece.phones) for piece in _with_short_vowels(word, final_clusters="short")]
    ['m ə', 'k', 't ə', 'b']
    """
    start = 0
    doubtful = -1
    while start < len(letters):
        end = start
        while end < len(letters) and letters[end].is_bare:
            end += 1
        if end == len(letters) and end > start:
            doubtful = _fill_last(letters, start, final_clusters)
        elif end > start:
            _fill(letters, start, end)
        start = max(end, start + 1)
    pieces = []
    for index, letter in enumerate(letters):
        phones = (*letter.onset, *(letter.vowel or ()))
        if letter.vowel:
            other = letter.onset
        else:
            other = (*letter.onset, _SHORT)
        pieces.append(
            Piece(letter.start, letter.end, phones, (other,) if index == doubtful else ())
        )
    return without_repeats(pieces)


def _fill(letters: Sequence[Letter], start: int, end: int) -> None:
    """Insert short vowels into letters[start:end].

    The last of them is followed by a consonant with its vowel.
    """
    last = letters[start - 1] if start else _NO_LETTER
    # after a short vowel the first consonant closes that syllable: mak-tab; after a long one it
    # begins the next
    is_coda = bool(last.vowel) and not last.is_long
    for index in range(start + is_coda, end, 2):
        letters[index].vowel = (_SHORT,)


def _fill_last(letters: Sequence[Letter], start: int, final_clusters: str) -> int:
    """Insert short vowels into letters[start:], the end of the word.

    Return the index of a doubtful one, or -1.
    """
    end = len(letters)
    last = letters[start - 1] if start else _NO_LETTER
    after_vowel = bool(last.vowel)
    sonority = [_SONORITY.get(letter.onset[-1], 0) for letter in letters[-2:] if letter.onset]
    may_end_in_two = final_clusters == "all" and end - start + after_vowel >= 3
    may_end_in_two = may_end_in_two or (
        final_clusters == "short" and end - start == 3 and not after_vowel
    )
    coda = end - 1
    if may_end_in_two and sonority[0] > sonority[1]:
        coda = end - 2
    # every second consonant back from the coda begins a syllable
    for index in range(coda - 1, start - 1, -2):
        letters[index].vowel = (_SHORT,)
    is_open = letters[start].vowel is None and (not after_vowel or (last.is_long and coda > start))
    if is_open:
        letters[start].vowel = (_SHORT,)
    if may_end_in_two:
        return end - 2
    return -1


def _vowel_letter(index: int, vowel: Phones) -> Letter:
    """Return a letter that writes a vowel."""
    return Letter(index, index + 1, (), vowel, is_long=True)


_ARABIC_VOWELS = phone_table("abjads", "Arabic-vowels")
_ARABIC_MARKS = phone_table("abjads", "Arabic-marks")
_SHADDA = "\u0651"
_HAMZA_ABOVE = "\u0654"
_WAWS = "وۆۇۊ"
_VOWEL_LETTERS = "اأإآٱىٰ" + _WAWS + "يیىئ" + "هہەة"
"""The forms of alef, waw, ye and he."""
_SUN = frozenset("تثدذرزسشصضطظلن")
_ARTICLE = re.compile("(?P<prefix>[وفبك]?)ال(?=[^\u064b-\u0652]{2})|(?P<for>لل)(?=..)")
_NASAL_VOWELS = {"a": "ã", "e": "ɛ̃", "o": "ɔ̃"}


def arabic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its marks, in languages with Arabic letters.

    Arabic, Persian, Urdu, Pashto, Sindhi, Kurdish, Uyghur and others.

    >>> [" ".join(piece.phones) for piece in arabic_pieces("كتاب", "ar")]
    ['k ə', 't', 'a', 'b']
    """
    code = "ar"
    if language in table("abjads"):
        code = language
    if "vowels" in options_of("abjads", code):
        return spelling_rules("abjads", code).pieces(text)
    if phones := phone_table("abjads", f"{code}:words").get(text):
        return [
            Piece(index, index + 1, part) for index, part in enumerate(divided(phones, len(text)))
        ]
    return _with_short_vowels(
        _arabic_letters(text, code), final_clusters="short" if code == "ar" else "all"
    )


def _arabic_table(code: str) -> dict[str, Phones]:
    return phone_table("abjads", "Arabic-consonants", code)


def _arabic_letters(text: str, language: str) -> list[Letter]:
    phones = _arabic_table(language)
    options = options_of("abjads", language)
    article = _ARTICLE.match(text) if language == "ar" and len(text) > 3 else None
    letters: list[Letter] = _article(article, text) if article else []
    for index in range(letters[-1].end if letters else 0, len(text)):
        character = text[index]
        last = letters[-1] if letters else _NO_LETTER
        if letters and character in _ARABIC_MARKS:
            last.end = index + 1
            if not last.vowel or last.onset or len(_ARABIC_MARKS[character]) > 1:
                last.vowel = _ARABIC_MARKS[character]
        elif letters and character in _SHADDA + _HAMZA_ABOVE + options.get("silent-inside", ""):
            last.end = index + 1
        elif letters and character == "و" and _is_silent_waw(text, index, language):
            last.end = index + 1
            last.vowel = ()
        elif letters and character == "ں" and language != "ar":
            last.end = index + 1
            last.vowel = tuple(_NASAL_VOWELS.get(phone, phone) for phone in last.vowel or (_SHORT,))
        elif character in phones or character in _VOWEL_LETTERS or character in _ARABIC_VOWELS:
            letters.append(_arabic_letter(text, index, last, language))
            if letters[-1].vowel and not letters[-1].onset and last.is_bare:
                last.vowel = ()
        else:
            letters.append(Letter(index, index + 1, unknown(character), ()))
    return letters


def _is_silent_waw(text: str, index: int, language: str) -> bool:
    return language == "fa" and text[index - 1] == "خ" and text[index + 1 : index + 2] == "ا"


def _article(match: re.Match[str], text: str) -> list[Letter]:
    """Return the letters of the article.

    Its l becomes the next consonant if that is a coronal.
    """
    start = len(match["prefix"] or "")
    sound: Phones = () if text[match.end()] in _SUN else ("l",)
    if match["for"]:
        return [Letter(0, 1, ("l",), ("i",)), Letter(1, 2, sound, ())]
    article = [Letter(start, start + 1, (), ("a",)), Letter(start + 1, start + 2, sound, ())]
    if not start:
        return article
    article[0].vowel = ()
    return [Letter(0, 1, _arabic_table("ar").get(text[0], ("w",)), ("a",)), *article]


def _arabic_letter(text: str, index: int, last: Letter, language: str) -> Letter:
    """Return the letter at an index: a vowel if it can be one, otherwise a consonant."""
    character = text[index]
    options = options_of("abjads", language)
    rest = text[index + 1 :].lstrip("".join((*_ARABIC_MARKS, _SHADDA, _HAMZA_ABOVE)))
    marked = text[index + 1 : index + 2]
    is_marked = marked in _ARABIC_MARKS or marked == _SHADDA
    span = (index, index + 1)
    if character in _ARABIC_VOWELS:
        return _vowel_letter(index, _ARABIC_VOWELS[character])
    if character in "اآٱأإ" or (not index and character == "ع" and "silent-inside" in options):
        return _alef(text, index, last, language)
    if character == "ة":
        return _vowel_letter(index, () if last.vowel else ("a",))
    if character == "ى" and not rest and index:
        return _vowel_letter(index, ("a",))
    is_final = not rest and bool(last.onset) and not last.vowel
    if character in "هہەۀ" and is_final and "final-he" in options:
        return _vowel_letter(index, (options["final-he"],))
    if (character in _WAWS and character not in "ۇۆ") or character in "يیى":
        glide = "j"
        if character in _WAWS:
            glide = "v" if language in ("fa", "ur") else "w"
        before_vowel = (rest[:1] != "" and rest[0] in "اآےېێ") or rest in ("ة", "ى")
        before_vowel = before_vowel or (rest in ("ه", "ہ") and "final-he" in options)
        if (
            not index
            or before_vowel
            or is_marked
            or (last.vowel and not _lengthens(last, character))
        ):
            is_alone = not rest and bool(last.vowel)
            return Letter(*span, (glide,), () if is_alone else None)
        vowel = "i"
        if character in _WAWS:
            vowel = options.get("waw", "u")
        if last.vowel and last.onset:
            last.vowel = ()  # the mark before a long vowel says the same
        return _vowel_letter(index, (vowel,))
    if character in "ۇۆ":
        return _vowel_letter(index, ("u",) if character == "ۇ" else ("o",))
    onset = _arabic_table(language).get(character, ())
    return Letter(*span, onset, None if onset else ())


def _lengthens(last: Letter, character: str) -> bool:
    return bool(last.onset) and last.vowel == (("u",) if character in _WAWS else ("i",))


def _alef(text: str, index: int, last: Letter, language: str) -> Letter:
    character = text[index]
    follows = text[index + 1 : index + 2]
    long_a = (options_of("abjads", language).get("long-a", "a"),)
    hamza: Phones = ()
    if language == "ar":
        hamza = ("ʔ",)
    if character == "آ":
        return Letter(index, index + 1, hamza if index else (), long_a, is_long=True)
    if character == "إ":
        return Letter(index, index + 1, hamza if index else (), ("i",))
    if not index and (follows in "ويی" and follows) and len(text) > 2 and text[2] not in "اآ":
        return Letter(index, index + 1, (), ())
    if not index:
        return Letter(index, index + 1, (), ("a",) if character == "أ" else (_SHORT,))
    if character == "أ":
        return Letter(index, index + 1, hamza, ("a",))
    if last.vowel and last.onset and last.vowel[-1:] == ("n",):
        return Letter(index, index + 1, (), ())
    if last.vowel == ("a",) and last.onset:
        last.vowel = ()  # the mark before a long vowel says the same
    return _vowel_letter(index, long_a)


_CONSONANTS = phone_table("abjads", "Hebrew-consonants")
_HARD = phone_table("abjads", "Hebrew-hard")
"""Letters with a dagesh or at the beginning of a word."""
_BEFORE_GERESH = phone_table("abjads", "Hebrew-geresh")
_POINTS = phone_table("abjads", "Hebrew-points")
_DAGESH = "\u05bc"
_SIN_DOT = "\u05c2"
_GERESH = "׳'"
_HEBREW_SILENT = "אע"
_HEBREW_MARKS = "".join(_POINTS) + _DAGESH + _SIN_DOT + "\u05bd\u05c1\u05bf"


def hebrew_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its points, in Modern Hebrew and Yiddish.

    Modern Hebrew may have points or not.

    >>> [" ".join(piece.phones) for piece in hebrew_pieces("שלום", "he")]
    ['ʃ ə', 'l', 'o', 'm']
    """
    if language == "yi":
        return spelling_rules("small-alphabets", "yi").pieces(text)
    letters: list[Letter] = []
    for index, character in enumerate(text):
        if letters and character not in _CONSONANTS and character not in _HEBREW_SILENT:
            _add_point(letters[-1], character, text)
            continue
        last = letters[-1] if letters else _NO_LETTER
        letter = _hebrew_letter(text, index, last)
        if letter.vowel and not letter.onset and last.is_bare:
            last.vowel = ()
        letters.append(letter)
    return _with_short_vowels(letters, final_clusters="none")


def _hebrew_letter(text: str, index: int, last: Letter) -> Letter:
    """Return the letter at an index: a vowel if it can be one, otherwise a consonant."""
    character = text[index]
    span = (index, index + 1)
    rest = text[index + 1 :].lstrip(_HEBREW_MARKS)
    marks = text[index + 1 : len(text) - len(rest)]
    is_pointed = any(mark in _POINTS for mark in marks)
    after_consonant = bool(last.onset) or last.vowel == ()
    if (
        character == "ו"
        and index
        and not is_pointed
        and (_DAGESH in marks or (rest[:1] != "ו" and after_consonant))
    ):
        return _vowel_letter(index, ("u",) if _DAGESH in marks else ("o",))
    if character == "ו" and "\u05b9" in marks and after_consonant:
        return _vowel_letter(index, ())
    if character == "י" and after_consonant and not is_pointed and rest[:1] not in ("ו", "ה", "י"):
        return _vowel_letter(index, () if last.vowel else ("i",))
    if character == "ה" and not rest and index and not marks:
        return _vowel_letter(index, () if last.vowel else ("a",))
    if character in _HEBREW_SILENT:
        is_carried = bool(rest) and rest[0] in "וי" and not is_pointed
        is_silent = is_carried or is_pointed or last.vowel
        return _vowel_letter(index, () if is_silent else ("a",))
    if character not in _CONSONANTS:
        return Letter(*span, unknown(character), ())
    is_hard = character in _HARD and not index and not is_pointed
    return Letter(*span, _HARD[character] if is_hard else _CONSONANTS[character])


def _add_point(letter: Letter, character: str, text: str) -> None:
    """Add a point to its letter."""
    letter.end += 1
    base = text[letter.start]
    if character in _POINTS:
        is_first = letter.start == 0 and character == "\u05b0"
        letter.vowel = (_SHORT,) if is_first else _POINTS[character]
    elif character == _DAGESH and base in _HARD:
        letter.onset = _HARD[base]
    elif character == _SIN_DOT:
        letter.onset = ("s",)
    elif character in _GERESH and base in _BEFORE_GERESH:
        letter.onset = _BEFORE_GERESH[base]
