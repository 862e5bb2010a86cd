"""Phones of scripts whose letters carry a vowel: those of India and Sinhala, and Ethiopic.

Unicode has the scripts of India in blocks of 128 with the same letter at the same offset, so one
table of Devanagari letters serves them all; Sinhala letters, which have a different order, are
mapped to Devanagari. The rules for schwa deletion are Ohala's (1983) in the form of Narasimhan,
Sproat and Kiraz (2004); aspiration, length and breathy voice are not distinguished. A letter of
Ethiopic is a consonant and a vowel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ctc_align.text.phone_sets import IPA_VOWELS, Phones
from ctc_align.text.sounds.pieces import Piece, unknown, without_repeats
from ctc_align.text.sounds.spelling_rules import options_of, phone_table, split_phones
from ctc_align.text.tables import text_table

_BLOCK = 0x80


def _by_offset(*names: str) -> dict[int, Phones]:
    """Return the phones of sections by the offsets of letters in a block.

    The sections are keyed by letters of Devanagari.
    """
    return {
        ord(letter) % _BLOCK: phones for letter, phones in phone_table("abugidas", *names).items()
    }


def _offsets(letters: str) -> tuple[int, ...]:
    return tuple(ord(letter) % _BLOCK for letter in letters)


_CONSONANTS = _by_offset("Consonants")
_VOWELS = _by_offset("Vowels")
_NUKTA_OF = _by_offset("With-nukta")
_SIGN_OFFSET = 0x38
"""The distance of a vowel sign from the letter of its vowel."""
_SIGNS = {
    **{
        sign: _VOWELS[sign - _SIGN_OFFSET]
        for sign in range(0x3E, 0x4D)
        if sign - _SIGN_OFFSET in _VOWELS
    },
    **_by_offset("Signs"),
}
_INDEPENDENT_A = 0x05
_NUKTA = 0x3C
_VIRAMA = 0x4D
_BIRGA = 0x03
_NASALS = (0x00, 0x01, 0x02)
_MORE_CONSONANTS = phone_table("abugidas", "More-consonants")
_MUTE = phone_table("abugidas", "Mute")
"""Letters that one script has where others have none, with and without a vowel."""
_TIPPI = 0x70
"""Nasal in Gurmukhi, as the anusvara."""
_GURMUKHI = 0x0A00
_SILENT = {_GURMUKHI: (0x71, 0x72, 0x73, 0x51)}
_FROM_SINHALA = str.maketrans(
    "ංඃඅආඇඈඉඊඋඌඍඑඒඓඔඕඖකඛගඝඞඟචඡජඣඤඥටඨඩඪණඬතථදධනඳපඵබභමඹයරලවශෂසහළෆ්ාැෑිීුූෘෙේෛොෝෞ",
    "ंःअआॲॲइईउऊऋऎएऐऒओऔकखगघङगचछजझञञटठडढणडतथदधनदपफबभमबयरलवशषसहळफ़्ाॅॅिीुूृॆेैॊोौ".replace("फ़", "\u095e"),
)
"""The letters of Sinhala, mapped one to one to those of Devanagari."""
_LANGUAGE_OF_BLOCK = {
    ord(first): code for first, code in text_table("sounds/abugidas", "languages").items()
}
_OTHERS_OF = {"hi": ("mr", "ne", "sa"), "bn": ("as",)}
_NASAL_VOWELS = text_table("sounds/abugidas", "nasal-vowels")
_HOMORGANIC = text_table("sounds/abugidas", "homorganic")
_VOICED = text_table("sounds/abugidas", "voiced")
_NASAL_PHONES = frozenset("mnŋɲ")
_LIQUIDS = frozenset("rljɹ")
_DEVANAGARI = 0x0900
_AYTHAM = 0x03
_BREATHY = _by_offset("pa:first")
_YA, _HA = _offsets("यह")
_HEAVY = _offsets("यव")
"""After another consonant, these keep their vowel at the end of a word."""
_BORROWED = _offsets("जशषसह")
_TENUES = _offsets("कटत")
_VELAR_ANUSVARA = ("bn", "as", "or", "si")


@dataclass(slots=True)
class _Letter:
    """A consonant or vowel with its marks.

    `vowel` is () if a virama removed it, and None if no sign is written.
    """

    start: int
    end: int
    offset: int
    onset: Phones
    vowel: Phones | None
    nasal: Phones = ()
    is_inherent: bool = False
    is_doubtful: bool = False
    others: list[Phones] = field(default_factory=list)


_NO_LETTER = _Letter(0, 0, -1, (), None)
"""Stands beside the first and the last letter of a word."""


def brahmic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its marks.

    >>> [" ".join(piece.phones) for piece in brahmic_pieces("समझना", "hi")]
    ['s ə', 'm ə', 'dʒ', 'n a']
    """
    of_script = _language(text, language)
    letters = _letters(text.translate(_FROM_SINHALA), of_script)
    _read_clusters(letters, of_script)
    _lose_vowels(letters, of_script)
    if of_script == "pa" and letters[0].offset in _BREATHY:
        letters[0].onset = _BREATHY[letters[0].offset]
    last = letters[-1]
    if (
        of_script == "ml"
        and last.vowel == ()
        and last.offset in _CONSONANTS
        and last.onset[-1] not in _NASAL_PHONES
    ):
        last.vowel = ("ə",)
    if of_script in ("ta", "ml"):
        _voice_stops(letters, of_script)
    _colour_vowels(letters, of_script)
    _place_nasals(letters, of_script)
    return without_repeats(
        Piece(
            letter.start,
            letter.end,
            (*letter.onset, *(letter.vowel or ()), *letter.nasal),
            tuple(letter.others),
        )
        for letter in letters
    )


def _language(text: str, language: str) -> str:
    """Return the language whose rules are used.

    The text's, or if it has none, the main language of the script.
    """
    if "\u0d80" <= text[0] <= "\u0dff":
        return "si"
    default = _LANGUAGE_OF_BLOCK.get(ord(text[0]) // _BLOCK * _BLOCK, "hi")
    if language in _OTHERS_OF.get(default, ()):
        return language
    return default


def _letters(text: str, language: str) -> list[_Letter]:
    letters: list[_Letter] = []
    for index, character in enumerate(text):
        kind, sound = _read(character, language)
        last = letters[-1] if letters else None
        if kind == "consonant":
            if last is not None and last.offset == _AYTHAM and sound == ("p",):
                sound = ("f",)
            letters.append(_Letter(index, index + 1, ord(character) % _BLOCK, sound, None))
        elif kind == "mute":
            letters.append(_Letter(index, index + 1, ord(character) % _BLOCK, sound, ()))
        elif kind == "visarga" and language == "ta":
            letters.append(_Letter(index, index + 1, _AYTHAM, (), ()))
        elif kind == "vowel" or last is None:
            letters.append(_Letter(index, index + 1, -1, (), sound if kind == "vowel" else ()))
        else:
            last.end = index + 1
            if kind == "sign":
                last.vowel = sound if not last.vowel else (*last.vowel[:-1], *sound)
            elif kind == "virama":
                last.vowel = ()
            elif kind == "nasal" or (kind == "visarga" and language not in ("bn", "as")):
                last.nasal = sound
            elif kind == "nukta" and last.offset in _NUKTA_OF:
                last.onset = _NUKTA_OF[last.offset]
    return letters


@lru_cache(maxsize=4096)
def _read(character: str, language: str) -> tuple[str, Phones]:
    """Return the kind and the phones of a character.

    The phone of a nasal is N for an anusvara and ~ for a candrabindu.
    """
    offset = ord(character) % _BLOCK
    block = ord(character) - offset
    if block not in _LANGUAGE_OF_BLOCK or offset in _SILENT.get(block, ()):
        if block in _LANGUAGE_OF_BLOCK:
            return ("silent", ())
        return ("vowel", unknown(character))
    otherwise = _by_offset(language)
    if character in _MUTE:
        return "mute", _MUTE[character]
    if character in _MORE_CONSONANTS:
        return "consonant", _MORE_CONSONANTS[character]
    if offset in _CONSONANTS:
        return "consonant", otherwise.get(offset, _CONSONANTS[offset])
    if offset == _INDEPENDENT_A:
        return "vowel", _inherent(language)
    if offset in _VOWELS and (block != _GURMUKHI or offset in range(0x06, 0x15)):
        return "vowel", otherwise.get(offset, _VOWELS[offset])
    if offset in _SIGNS:
        return "sign", otherwise.get(offset - _SIGN_OFFSET, _SIGNS[offset])
    if offset in _NASALS or (block == _GURMUKHI and offset == _TIPPI):
        return "nasal", ("~" if offset < 0x02 else "N",)
    kinds = {
        _VIRAMA: ("virama", ()),
        _NUKTA: ("nukta", ()),
        _BIRGA: ("visarga", ("h",)),
        0x50: ("vowel", ("o", "m")),
    }
    return kinds.get(
        offset, ("vowel", unknown(character)) if unknown(character) else ("silent", ())
    )


def _inherent(language: str) -> Phones:
    """Return the vowel that a consonant carries."""
    return (options_of("abugidas", language).get("inherent", "ə"),)


def _read_clusters(letters: list[_Letter], language: str) -> None:
    """Read clusters that sound differently, and add inherent vowels.

    Letters without a sign get the vowel that they carry.
    """
    for index, letter in enumerate(letters):
        last = letters[index - 1] if index else _NO_LETTER
        if last.vowel == () and last.onset and letter.onset:
            _read_cluster(last, letter, language, is_first=index == 1)
        if letter.vowel is None:
            letter.vowel = _inherent(language)
            letter.is_inherent = True


def _read_cluster(last: _Letter, letter: _Letter, language: str, *, is_first: bool) -> None:
    known = text_table("sounds/abugidas", f"{language}:clusters")
    first, second = (chr(_DEVANAGARI + each.offset) for each in (last, letter))
    sounds = known.get(first + second, known.get(f"-{second}"))
    if sounds is not None:
        before, _, after = sounds.partition(",")
        last.onset = split_phones(before) or last.onset
        letter.onset = split_phones(after)
    is_bare = letter.vowel is None and is_first
    if language == "bn" and letter.offset == _YA and (is_bare or letter.vowel == ("a",)):
        letter.vowel = ("æ",)


def _lose_vowels(letters: list[_Letter], language: str) -> None:
    """Remove inherent vowels that are not pronounced: at the end, and between others."""
    options = options_of("abugidas", language)
    # at the end: कमल kamal, not kamala; a cluster keeps it before y and v (सत्य satya), in some
    # languages always
    if "lose-final" in options and len(letters) > 1:
        last = letters[-1]
        before = letters[-2]
        is_cluster = before.vowel == ()
        keeps_cluster = "lose-medial" not in options or last.offset in _HEAVY
        if last.is_inherent and not last.nasal and not (is_cluster and keeps_cluster):
            is_said = language in ("bn", "as") and (before.nasal or before.vowel == ("r", "i"))
            if not is_said:
                last.vowel = ()
                last.is_inherent = False
    if "lose-medial" not in options and language not in ("bn", "as"):
        return
    # from the end, between two syllables with vowels (VC_CV): समझना samajhna; a loss makes the next
    # one impossible
    for index in range(len(letters) - 2, 0, -1):
        letter = letters[index]
        before = letters[index - 1]
        after = letters[index + 1]
        is_open = letter.is_inherent and not letter.nasal and before.vowel and not before.nasal
        is_alone = after.onset and after.vowel and letter.onset and len(letter.onset) == 1
        if is_open and is_alone and ("lose-medial" in options or not after.is_inherent):
            if "lose-medial" in options:
                letter.vowel = ()
                letter.is_inherent = False
            else:
                letter.is_doubtful = True


def _voice_stops(letters: list[_Letter], language: str) -> None:
    """Voice the stops of Tamil and Malayalam between vowels and after nasals, and read its ச."""
    for index, letter in enumerate(letters):
        if len(letter.onset) != 1 or letter.offset in _BORROWED:
            continue
        last = letters[index - 1] if index else _NO_LETTER
        closing = "".join(last.onset[-1:]) if not last.vowel else ""
        after_nasal = bool(last.nasal) or closing in _NASAL_PHONES
        after_liquid = last.vowel == () and closing in _LIQUIDS
        is_released = letter.vowel != ()
        sound = letter.onset[0]
        if sound == "tʃ" and language == "ta" and is_released:
            if after_nasal:
                letter.onset = ("dʒ",)
            elif not index or last.vowel or after_liquid:
                letter.onset = ("s",)
                letter.others = [("tʃ", *(letter.vowel or ()))] if not index else []
        elif sound in _VOICED and is_released and (language == "ta" or letter.offset in _TENUES):
            is_voiced = after_nasal or last.vowel or (after_liquid and language == "ta")
            letter.onset = (_VOICED[sound],) if is_voiced else letter.onset


def _colour_vowels(letters: list[_Letter], language: str) -> None:
    """Adapt the inherent vowels to their neighbours."""
    for index, letter in enumerate(letters):
        if not letter.is_inherent:
            continue
        after = letters[index + 1] if index + 1 < len(letters) else _NO_LETTER
        if "lose-medial" in options_of("abugidas", language) and after.offset == _HA:
            if after.vowel == () or after.is_inherent:
                letter.vowel = ("ɛ",)
        elif language in ("bn", "as"):
            is_raised = (after.vowel or ())[-1:] in (("i",), ("u",))
            is_later = index > 0 if language == "bn" else after is _NO_LETTER
            letter.vowel = ("o",) if is_raised or is_later else ("ɔ",)
        elif language == "si" and index:
            letter.vowel = ("ə",)
        if letter.is_doubtful:
            letter.others = [letter.onset]


def _place_nasals(letters: list[_Letter], language: str) -> None:
    """Read anusvara and candrabindu.

    They become a nasal at the index of the next consonant, or make the vowel nasal.
    """
    for index, letter in enumerate(letters):
        if letter.nasal not in (("~",), ("N",)):
            continue
        after = letters[index + 1 : index + 2]
        homorganic = _HOMORGANIC.get("".join(after[0].onset[:1])) if after else None
        vowel = letter.vowel or ()
        if language in _VELAR_ANUSVARA and letter.nasal == ("N",):
            letter.nasal = ("ŋ",)
        elif homorganic is not None and (letter.nasal == ("N",) or language in ("hi", "pa")):
            letter.nasal = (homorganic,)
        elif language in ("te", "kn", "ml", "ta", "sa") and letter.nasal == ("N",):
            letter.nasal = ("m",)
        else:
            letter.nasal = ()
            letter.vowel = (*vowel[:-1], _NASAL_VOWELS.get(vowel[-1], vowel[-1])) if vowel else ()


_SIXTH = "ɨ"


def ethiopic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter of Ethiopic.

    The vowel of the sixth order is pronounced only where consonants would meet.

    >>> [" ".join(piece.phones) for piece in ethiopic_pieces("ሰላም", "am")]
    ['s ə', 'l a', 'm']
    """
    letters = phone_table("abugidas", "Ethiopic")
    sounds = [letters.get(character, unknown(character)) for character in text]
    found: list[Piece] = []
    for index, phones in enumerate(sounds):
        is_sixth = len(phones) > 1 and phones[-1] == _SIXTH
        is_last = index + 1 == len(sounds)
        before, after = found[-1].phones[-1:] if found else (), () if is_last else sounds[index + 1]
        meets_another = len(after) > 1 and after[-1] == _SIXTH and index + 2 < len(sounds)
        if (
            is_sixth
            and index
            and (is_last or (before != () and before[0] in IPA_VOWELS and not meets_another))
        ):
            phones = phones[:-1]
        found.append(Piece(index, index + 1, phones))
    return without_repeats(found)
