"""Phones of the scripts of India and of Sinhala: letters that carry a vowel, signs that change it, and its loss.

Unicode has these scripts in blocks of 128 where the same letter stands at the same place, so one table serves all;
the letters of Sinhala, which has an order of its own, are turned into those of Devanagari. The rules of the lost schwa
are Ohala's (1983) in the form of Narasimhan, Sproat and Kiraz (2004); aspiration, length and breath are not told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from ctc_align.text.sounds.neighbours import unknown, without_repeats
from ctc_align.text.sounds.pieces import Piece

_BLOCK = 0x80
_CONSONANTS: dict[int, tuple[str, ...]] = {
    0x15: ("k",), 0x16: ("k",), 0x17: ("ɡ",), 0x18: ("ɡ",), 0x19: ("ŋ",),
    0x1A: ("tʃ",), 0x1B: ("tʃ",), 0x1C: ("dʒ",), 0x1D: ("dʒ",), 0x1E: ("ɲ",),
    0x1F: ("ʈ",), 0x20: ("ʈ",), 0x21: ("ɖ",), 0x22: ("ɖ",), 0x23: ("n",),
    0x24: ("t",), 0x25: ("t",), 0x26: ("d",), 0x27: ("d",), 0x28: ("n",), 0x29: ("n",),
    0x2A: ("p",), 0x2B: ("p",), 0x2C: ("b",), 0x2D: ("b",), 0x2E: ("m",), 0x2F: ("j",), 0x30: ("r",), 0x31: ("r",),
    0x32: ("l",), 0x33: ("l",), 0x34: ("ɹ",), 0x35: ("v",), 0x36: ("ʃ",), 0x37: ("ʃ",), 0x38: ("s",), 0x39: ("h",),
    0x58: ("q",), 0x59: ("x",), 0x5A: ("ɣ",), 0x5B: ("z",), 0x5C: ("r",), 0x5D: ("r",), 0x5E: ("f",), 0x5F: ("j",),
}  # fmt: skip
_VOWELS: dict[int, tuple[str, ...]] = {
    0x04: ("ə",), 0x06: ("a",), 0x07: ("i",), 0x08: ("i",), 0x09: ("u",), 0x0A: ("u",), 0x0B: ("r", "i"),
    0x0C: ("l", "i"), 0x0D: ("æ",), 0x0E: ("e",), 0x0F: ("e",), 0x10: ("a", "ɪ"), 0x11: ("ɔ",), 0x12: ("o",),
    0x13: ("o",), 0x14: ("a", "ʊ"), 0x60: ("r", "i"), 0x61: ("l", "i"), 0x72: ("æ",),
}  # fmt: skip
_SIGNS: dict[int, tuple[str, ...]] = {
    **{sign: _VOWELS[sign - 0x38] for sign in range(0x3E, 0x4D) if sign - 0x38 in _VOWELS},
    0x44: ("r", "i"), 0x56: ("a", "ɪ"), 0x57: ("a", "ʊ"), 0x62: ("l", "i"), 0x63: ("l", "i"),
}  # fmt: skip
_INDEPENDENT_A, _NUKTA, _VIRAMA, _BIRGA = 0x05, 0x3C, 0x4D, 0x03
_NASALS = (0x00, 0x01, 0x02)
_NUKTA_OF = {
    0x15: "q",
    0x16: "x",
    0x17: "ɣ",
    0x1C: "z",
    0x21: "r",
    0x22: "r",
    0x2B: "f",
    0x36: "ʃ",
    0x38: "ʃ",
    0x2F: "j",
}
_OF_BLOCK: dict[int, dict[int, str]] = {
    0x0980: {0x4E: "t", 0x70: "r", 0x71: "w"},
    0x0A00: {},
    0x0B00: {0x71: "w"},
    0x0D00: {
        0x7A: "n",
        0x7B: "n",
        0x7C: "r",
        0x7D: "l",
        0x7E: "l",
        0x7F: "k",
        0x4E: "r",
        0x54: "m",
        0x55: "j",
        0x56: "ɹ",
    },
}
"""Letters that a block has where others have none; those of Malayalam and 0x4E of Bengali carry no vowel."""
_TIPPI = 0x70
"""Nasal in Gurmukhi, as the anusvara."""
_SILENT = {0x0A00: (0x71, 0x72, 0x73, 0x51)}
_FROM_SINHALA = str.maketrans(
    "ංඃඅආඇඈඉඊඋඌඍඑඒඓඔඕඖකඛගඝඞඟචඡජඣඤඥටඨඩඪණඬතථදධනඳපඵබභමඹයරලවශෂසහළෆ්ාැෑිීුූෘෙේෛොෝෞ",
    "ंःअआॲॲइईउऊऋऎएऐऒओऔकखगघङगचछजझञञटठडढणडतथदधनदपफबभमबयरलवशषसहळफ़्ाॅॅिीुूृॆेैॊोौ".replace("फ़", "\u095e"),
)
"""The letters of Sinhala, one for one in those of Devanagari."""
_LANGUAGE_OF_BLOCK = {
    0x0900: "hi", 0x0980: "bn", 0x0A00: "pa", 0x0A80: "gu", 0x0B00: "or", 0x0B80: "ta", 0x0C00: "te", 0x0C80: "kn",
    0x0D00: "ml",
}  # fmt: skip
_OTHERS_OF = {"hi": ("mr", "ne", "sa"), "bn": ("as",)}
_INHERENT = {"bn": "ɔ", "as": "ɔ", "or": "ɔ", "ta": "a", "te": "a", "kn": "a", "ml": "a", "si": "a", "sa": "a"}
_LOSE_FINAL = ("hi", "pa", "gu", "mr", "ne", "bn", "as")
_LOSE_MEDIAL = ("hi", "pa", "gu", "mr")
_NASAL_VOWELS = {"a": "ã", "ə": "ã", "æ": "ɛ̃", "e": "ɛ̃", "ɛ": "ɛ̃", "o": "ɔ̃", "ɔ": "ɔ̃"}
_HOMORGANIC = {
    **dict.fromkeys(("k", "ɡ", "q", "ŋ"), "ŋ"), **dict.fromkeys(("tʃ", "dʒ", "ɲ"), "ɲ"),
    **dict.fromkeys(("p", "b", "m"), "m"), **dict.fromkeys(("ʈ", "ɖ", "t", "d", "n", "ts", "dz"), "n"),
}  # fmt: skip
_VOICED = {"k": "ɡ", "ʈ": "ɖ", "t": "d", "p": "b"}
_NASAL_PHONES = frozenset("mnŋɲ")
_READ_OTHERWISE: dict[str, dict[int, tuple[str, ...]]] = {
    "hi": {0x10: ("ɛ",), 0x14: ("ɔ",)},
    "pa": {0x10: ("ɛ",), 0x14: ("ɔ",)},
    "gu": {0x0B: ("r", "u")},
    "mr": {0x0B: ("r", "u"), 0x0D: ("æ",)},
    "bn": {0x10: ("o", "ɪ"), 0x14: ("o", "ʊ"), 0x2F: ("dʒ",), 0x38: ("ʃ",), 0x21: ("ɖ",)},
    "as": {
        0x10: ("o", "ɪ"), 0x14: ("o", "ʊ"), 0x0F: ("ɛ",), 0x1A: ("s",), 0x1B: ("s",), 0x1C: ("z",), 0x1D: ("z",),
        0x1F: ("t",), 0x20: ("t",), 0x21: ("d",), 0x22: ("d",), 0x2F: ("z",), 0x30: ("ɹ",), 0x36: ("x",), 0x37: ("x",),
        0x38: ("x",),
    },
    "or": {0x0B: ("r", "u"), 0x10: ("ɔ", "ɪ"), 0x14: ("ɔ", "ʊ"), 0x2F: ("dʒ",), 0x36: ("s",), 0x37: ("s",)},
    "te": {0x0B: ("r", "u")},
    "kn": {0x0B: ("r", "u")},
    "ml": {0x31: ("r",)},
}  # fmt: skip
_JNYA, _KSSA = (0x1C, 0x1E), (0x15, 0x37)
_JNYA_ENDS = {"bn": ("ɡ",), "mr": ("n", "j"), "gu": ("n",), "kn": ("ɲ",)}
_AYTHAM = 0x03
_BREATHY = {0x18: "k", 0x1D: "tʃ", 0x22: "ʈ", 0x27: "t", 0x2D: "p"}
"""Letters that Punjabi reads without voice at the beginning of a word (and in a low tone)."""
_BA, _YA, _RRA, _NNNA, _HA = 0x2C, 0x2F, 0x31, 0x29, 0x39
_KEEP_BA = (0x2E, 0x2C, 0x30, 0x17, 0x26)
"""Before these a ba is read in Bengali; elsewhere it only lengthens."""
_HEAVY = (0x2F, 0x35)
"""After another consonant these keep the vowel at the end of a word."""
_ALL = range(0x80)
_BORROWED = (0x1C, 0x36, 0x37, 0x38, 0x39)
_TENUES = (0x15, 0x1F, 0x24)
_VELAR_ANUSVARA = ("bn", "as", "or", "si")


@dataclass(slots=True)
class _Letter:
    """A consonant or vowel with its marks; `vowel` is () where a virama took it, None where nothing is written."""

    start: int
    end: int
    place: int
    onset: tuple[str, ...]
    vowel: tuple[str, ...] | None
    nasal: tuple[str, ...] = ()
    is_inherent: bool = False
    is_doubtful: bool = False
    others: list[tuple[str, ...]] = field(default_factory=list)


def brahmic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its marks.

    >>> [" ".join(piece.phones) for piece in brahmic_pieces("समझना", "hi")]
    ['s ə', 'm ə', 'dʒ', 'n a']
    """
    of_script = _language(text, language)
    letters = _letters(text.translate(_FROM_SINHALA), of_script)
    _read_clusters(letters, of_script)
    _lose_vowels(letters, of_script)
    if of_script == "pa" and letters[0].place in _BREATHY:
        letters[0].onset = (_BREATHY[letters[0].place],)
    last = letters[-1]
    if of_script == "ml" and last.vowel == () and last.place in _CONSONANTS and last.onset[-1] not in _NASAL_PHONES:
        last.vowel = ("ə",)
    if of_script in ("ta", "ml"):
        _voice_stops(letters, of_script)
    _colour_vowels(letters, of_script)
    _place_nasals(letters, of_script)
    return without_repeats(
        Piece(letter.start, letter.end, (*letter.onset, *(letter.vowel or ()), *letter.nasal), tuple(letter.others))
        for letter in letters
    )


def _language(text: str, language: str) -> str:
    """Return the language whose rules are used: that of the script where the text's own has none."""
    if "\u0d80" <= text[0] <= "\u0dff":
        return "si"
    default = _LANGUAGE_OF_BLOCK.get(ord(text[0]) // _BLOCK * _BLOCK, "hi")
    return language if language in _OTHERS_OF.get(default, ()) else default


def _letters(text: str, language: str) -> list[_Letter]:
    letters: list[_Letter] = []
    for place, character in enumerate(text):
        kind, sound = _read(character, language)
        last = letters[-1] if letters else None
        if kind == "consonant":
            if last is not None and last.place == _AYTHAM and sound == ("p",):
                sound = ("f",)
            letters.append(_Letter(place, place + 1, ord(character) % _BLOCK, sound, None))
        elif kind == "mute":
            letters.append(_Letter(place, place + 1, ord(character) % _BLOCK, sound, ()))
        elif kind == "visarga" and language == "ta":
            letters.append(_Letter(place, place + 1, _AYTHAM, (), ()))
        elif kind == "vowel" or last is None:
            letters.append(_Letter(place, place + 1, -1, (), sound if kind == "vowel" else ()))
        else:
            last.end = place + 1
            if kind == "sign":
                last.vowel = sound if not last.vowel else (*last.vowel[:-1], *sound)
            elif kind == "virama":
                last.vowel = ()
            elif kind == "nasal" or (kind == "visarga" and language not in ("bn", "as")):
                last.nasal = sound
            elif kind == "nukta" and last.place in _NUKTA_OF:
                last.onset = (_NUKTA_OF[last.place],)
    return letters


@lru_cache(maxsize=4096)
def _read(character: str, language: str) -> tuple[str, tuple[str, ...]]:
    """Return (kind, phones) of a character; nasals have the anusvara's phone N, or ~ for a candrabindu's."""
    block = ord(character) // _BLOCK * _BLOCK
    place = ord(character) - block
    if block not in _LANGUAGE_OF_BLOCK or place in _SILENT.get(block, ()):
        return ("silent", ()) if block in _LANGUAGE_OF_BLOCK else ("vowel", unknown(character))
    own = _READ_OTHERWISE.get(language, {})
    if place in _OF_BLOCK.get(block, {}):
        is_mute = (block == 0x0D00 or place == 0x4E) and place != 0x71
        return "mute" if is_mute else "consonant", (_OF_BLOCK[block][place],)
    if place in _CONSONANTS:
        return "consonant", own.get(place, _CONSONANTS[place])
    if place == _INDEPENDENT_A:
        return "vowel", (_INHERENT.get(language, "ə"),)
    if (place in _VOWELS and block != 0x0A00) or (place in range(0x06, 0x15) and place in _VOWELS):
        return "vowel", own.get(place, _VOWELS[place])
    if place in _SIGNS:
        return "sign", own.get(place - 0x38, _SIGNS[place])
    if place in _NASALS or (block == 0x0A00 and place == _TIPPI):
        return "nasal", ("~" if place < 0x02 else "N",)
    kinds = {_VIRAMA: ("virama", ()), _NUKTA: ("nukta", ()), _BIRGA: ("visarga", ("h",)), 0x50: ("vowel", ("o", "m"))}
    return kinds.get(place, ("vowel", unknown(character)) if unknown(character) else ("silent", ()))


def _read_clusters(letters: list[_Letter], language: str) -> None:
    """Give clusters their own sound, and letters without a sign the vowel that they carry."""
    for place, letter in enumerate(letters):
        last = letters[place - 1] if place else None
        if last is not None and last.vowel == () and last.onset and letter.onset:
            _read_cluster(last, letter, language, is_first=place == 1)
        if letter.vowel is None:
            letter.vowel = (_INHERENT.get(language, "ə"),)
            letter.is_inherent = True


def _read_cluster(last: _Letter, letter: _Letter, language: str, *, is_first: bool) -> None:
    pair = (last.place, letter.place)
    if pair == _JNYA and language not in ("ta", "te", "ml", "si"):
        last.onset, letter.onset = ("ɡ",), _JNYA_ENDS.get(language, ("j",))
    elif language == "bn" and pair == _KSSA:
        letter.onset = ("k",)
    elif language == "as" and pair == _KSSA:
        letter.onset = ("j",)
    elif language == "bn" and letter.place == _YA:
        letter.onset = ()
        if letter.vowel == ("a",) or (letter.vowel is None and is_first):
            letter.vowel = ("æ",)
    elif language == "bn" and letter.place == _BA and last.place not in _KEEP_BA:
        letter.onset = ()
    elif (language == "as" and letter.place == _YA) or (language == "or" and letter.place == _YA):
        letter.onset = ("j",)
    elif language == "ta" and pair == (_RRA, _RRA):
        last.onset, letter.onset = ("t",), ("r",)
    elif language == "ta" and pair == (_NNNA, _RRA):
        letter.onset = ("d", "r")
    elif language == "ml" and pair == (_RRA, _RRA):
        last.onset, letter.onset = ("t",), ("t",)
    elif language == "ml" and letter.place == _RRA and last.onset == ("n",):
        letter.onset = ("d",)


def _lose_vowels(letters: list[_Letter], language: str) -> None:
    """Take away the vowels that are written nowhere and not said either: at the end, and between others."""
    if language in _LOSE_FINAL and len(letters) > 1:
        last, before = letters[-1], letters[-2]
        is_cluster = before.vowel == ()
        keeps = {"hi": _HEAVY, "mr": _HEAVY, "gu": _HEAVY, "pa": _HEAVY}.get(language, _ALL)
        if last.is_inherent and not last.nasal and not (is_cluster and last.place in keeps):
            is_said = language in ("bn", "as") and (before.nasal or before.vowel == ("r", "i"))
            if not is_said:
                last.vowel, last.is_inherent = (), False
    if language not in _LOSE_MEDIAL and language not in ("bn", "as"):
        return
    for place in range(len(letters) - 2, 0, -1):
        letter, before, after = letters[place], letters[place - 1], letters[place + 1]
        is_open = letter.is_inherent and not letter.nasal and before.vowel and not before.nasal
        is_alone = after.onset and after.vowel and letter.onset and len(letter.onset) == 1
        if is_open and is_alone and (language in _LOSE_MEDIAL or not after.is_inherent):
            if language in _LOSE_MEDIAL:
                letter.vowel, letter.is_inherent = (), False
            else:
                letter.is_doubtful = True


def _voice_stops(letters: list[_Letter], language: str) -> None:
    """Voice the stops of Tamil and Malayalam between vowels and after nasals, and read its ச."""
    for place, letter in enumerate(letters):
        if len(letter.onset) != 1 or letter.place in _BORROWED:
            continue
        last = letters[place - 1] if place else None
        after_vowel = last is not None and bool(last.vowel)
        after_nasal = last is not None and not last.vowel and last.onset[-1:] != () and last.onset[-1] in _NASAL_PHONES
        after_nasal = after_nasal or (last is not None and bool(last.nasal))
        after_liquid = last is not None and last.vowel == () and last.onset[-1:] in (("r",), ("l",), ("j",), ("ɹ",))
        is_released = letter.vowel != ()
        sound = letter.onset[0]
        if sound == "tʃ" and language == "ta" and is_released:
            if after_nasal:
                letter.onset = ("dʒ",)
            elif last is None or after_vowel or after_liquid:
                letter.onset = ("s",)
                letter.others = [("tʃ", *(letter.vowel or ()))] if last is None else []
        elif sound in _VOICED and is_released and (language == "ta" or letter.place in _TENUES):
            is_voiced = after_nasal or after_vowel or (after_liquid and language == "ta")
            letter.onset = (_VOICED[sound],) if is_voiced else letter.onset


def _colour_vowels(letters: list[_Letter], language: str) -> None:
    """Read the vowels that are carried as their neighbours have them."""
    for place, letter in enumerate(letters):
        if not letter.is_inherent:
            continue
        after = letters[place + 1] if place + 1 < len(letters) else None
        if language in _LOSE_MEDIAL and after is not None and after.place == _HA:
            if after.vowel == () or after.is_inherent:
                letter.vowel = ("ɛ",)
        elif language in ("bn", "as"):
            is_raised = after is not None and after.vowel is not None and after.vowel[-1:] in (("i",), ("u",))
            is_later = language == "bn" and place > 0
            letter.vowel = ("o",) if is_raised or is_later or (language == "as" and after is None) else ("ɔ",)
        elif language == "si" and place:
            letter.vowel = ("ə",)
        if letter.is_doubtful:
            letter.others = [letter.onset]


def _place_nasals(letters: list[_Letter], language: str) -> None:
    """Read anusvara and candrabindu: a nasal at the place of the next consonant, or a nasal vowel."""
    for place, letter in enumerate(letters):
        if letter.nasal not in (("~",), ("N",)):
            continue
        after = letters[place + 1].onset[:1] if place + 1 < len(letters) else ()
        homorganic = _HOMORGANIC.get(after[0]) if after else None
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
