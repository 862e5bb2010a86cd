"""Phones of Thai and Lao: syllables are found in text without spaces, and vowels are said after the first consonant.

Lao letters are read as the Thai ones at the same places of their Unicode block, with a few sounds of their own.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.ipa import ipa_class
from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import split_phones

_ONSETS = """
ก=k ข=k ฃ=k ค=k ฅ=k ฆ=k ง=ŋ จ=tʃ ฉ=tʃ ช=tʃ ซ=s ฌ=tʃ ญ=j ฎ=d ฏ=t ฐ=t ฑ=t ฒ=t ณ=n ด=d ต=t ถ=t ท=t ธ=t น=n บ=b ป=p ผ=p ฝ=f
พ=p ฟ=f ภ=p ม=m ย=j ร=r ล=l ว=w ศ=s ษ=s ส=s ห=h ฬ=l อ=ʔ ฮ=h ฤ=rɨ ฦ=lɨ
"""
_CODAS = """
ก=k ข=k ค=k ฆ=k ง=ŋ จ=t ช=t ซ=t ญ=n ฎ=t ฏ=t ฐ=t ฑ=t ฒ=t ณ=n ด=t ต=t ถ=t ท=t ธ=t น=n บ=p ป=p พ=p ฟ=p ภ=p ม=m ย=ɪ ร=n ล=n
ว=ʊ ศ=t ษ=t ส=t ฬ=n
"""
_LAO_ONSETS, _LAO_CODAS = "ช=s ญ=ɲ", "ญ=ɪ"
_FROM_LAO = {
    code: chr(code - 0x80) for code in range(0x0E81, 0x0ECE) if code not in (0x0EBB, 0x0EBC, 0x0EBD, 0x0ECD)
} | {0x0E8D: "ญ", 0x0EBB: "ฺ", 0x0EBC: "ล", 0x0EBD: "๎", 0x0ECD: "อ", 0x0EDC: "น", 0x0EDD: "ม", 0x0ECC: "์"}
_C = "[ก-รลว-ฮ]"
_TONE = "[่-๋]?"
_CLUSTERS = "(?:[กขคปผพ][รล]|[ตทบฟ]ร)(?!ร)|[กขค]ว|ห[งญณนมยรลว]|อย|[ทสซศ]ร|จร"
_FREE = f"(?![ะ-ฺ็ํ๎]|{_TONE}[ะาำ]|[่-๋]|์)"
"""After a consonant that closes a syllable: no vowel of its own."""
_BEGINS_ANOTHER = (
    f"(?:[กขคปผพ][รล]|[ตทบฟ]ร|[กขค]ว){_TONE}[ะ-ฺ็]|[กขคชดตทนบปพมรลสหผฝ]ว{_C}{_FREE}|{_C}อ(?![ะ-ฺ็อ่-๋]|ย[ู่า])|[กคตทปพศสห]ฤ"
)
"""Letters that rather begin a syllable than close the one before."""
_CODA = f"(?!{_BEGINS_ANOTHER})(?P<coda>[ก-รลวศ-สฬ]){_FREE}"
_ONSET = f"(?P<onset>{_CLUSTERS}|{_C})"
_RHYMES: tuple[tuple[str, str, str], ...] = (
    # What stands before the onset, after it (t: a tone mark, c: perhaps a last consonant, C: one), and the vowel
    ("เ", "ีtยะ?c", "i a"), ("เ", "ืtอะ?c", "ɨ a"), ("เ", "tอะ", "ə"), ("เ", "tอc", "ə"), ("เ", "ิtC", "ə"),
    ("เ", "tาะ", "ɔ"), ("เ", "tา", "a ʊ"), ("เ", "tะ", "e"), ("เ", "็tC", "e"), ("เ", "tยf", "ə ɪ"), ("เ", "tc", "e"),
    ("แ", "tะ", "ɛ"), ("แ", "็tC", "ɛ"), ("แ", "tc", "ɛ"), ("โ", "tะ", "o"), ("โ", "tc", "o"),
    ("ไ", "tยf", "a ɪ"), ("[ไใ]", "t", "a ɪ"),
    ("", "ัtวะ?f", "u a"), ("", "ัtC", "a"), ("", "tะ", "a"), ("", "tำ", "a m"), ("", "tาc", "a"),
    ("", "ิtc", "i"), ("", "ีtc", "i"), ("", "ึtc", "ɨ"), ("", "ืtอf", "ɨ"), ("", "ืtc", "ɨ"), ("", "ุtc", "u"),
    ("", "ูtc", "u"),
    ("", "็tอC", "ɔ"), ("", "tอc", "ɔ"), ("", "tวC", "u a"), ("", "TC", "o"), ("", "รรC", "a"),
    ("", "รร", "a n"), ("", "็", "ɔ"),
    ("", "(?<=[กคตทปพศสห])ฤc", "r ɨ"), ("เ", "ฺtา", "a ʊ"), ("เ", "๎tc", "i a"), ("", "๎tc", "i a"),
    ("", "ฺtวf", "u a"), ("", "ฺtC", "o"),
)  # fmt: skip
_SILENT, _SILENT_TWO = re.compile("[ก-ฮ][ิุ]?์"), re.compile("[ก-ฮ]?[ก-ฮ][ิุ]?์")
_TRUE_S = {"ทร": ("s",), "สร": ("s",), "ศร": ("s",), "ซร": ("s",), "จร": ("tʃ",)}
_REPEAT, _SHORTENED = "ๆ", "ฯ"


def thai_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of Thai or Lao: for each syllable its beginning with the vowel, and its last consonant.

    >>> "".join(phone for piece in thai_pieces("สวัสดี", "th") for phone in piece.phones)
    'sawatdi'
    """
    is_lao = "\u0e80" <= text[0] <= "\u0eff"
    thai = text.translate(_FROM_LAO) if is_lao else text
    onsets, codas = _tables(is_lao)
    found: list[Piece] = []
    place = 0
    while place < len(thai):
        if match := (_SILENT_TWO if found else _SILENT).match(thai, place):
            found.append(Piece(place, match.end(), ()))
        elif match := _syllable(thai, place):
            phones = (*_onset(match["onset"], onsets), *_VOWELS[str(match.lastgroup)])
            end = match.start("coda") if match["coda"] else match.end()
            vowel_first = match.start("onset") - place
            if vowel_first:
                found.append(Piece(place, place + 1, phones[: -len(_VOWELS[str(match.lastgroup)])]))
                phones = _VOWELS[str(match.lastgroup)]
            found.append(Piece(place + vowel_first, end, phones))
            if match["coda"]:
                found.append(Piece(end, match.end(), codas.get(match["coda"], ())))
        else:
            _bare(thai, place, found, is_lao)
        place = found[-1].end
    return found


def _bare(thai: str, place: int, found: list[Piece], is_lao: bool) -> None:
    """Add the pieces of consonants without a written vowel, of which two have an o between them."""
    onsets, codas = _tables(is_lao)
    match = _RUN.match(thai, place)
    if match is None:
        character = thai[place]
        is_mark = character in _SHORTENED + _REPEAT or "ะ" <= character <= "ฺ" or "เ" <= character <= "๎"
        phones = () if is_mark else onsets.get(character, unknown(character))
        found.append(Piece(place, place + 1, _last_syllable(found) if character == _REPEAT else phones))
        return
    run = match[0]
    if len(run) == 1:
        is_last = match.end() == len(thai) and found
        phones = (
            codas.get(run, ()) if (is_last and run != "ร") or is_lao else () if is_last else (*_onset(run, onsets), "a")
        )
        found.append(Piece(place, place + 1, phones))
        return
    if len(run) % 2 and not re.match(_CLUSTERS, run):
        found.append(Piece(place, place + 1, (*_onset(run[0], onsets), "a")))
        return
    cluster = re.match(_CLUSTERS, run) if len(run) > 2 else None
    first = cluster[0] if cluster else run[0]
    last = run[len(first)]
    vowel = "ɔ" if last == "ร" else "o"
    found.append(Piece(place, place + len(first), (*_onset(first, onsets), vowel)))
    found.append(Piece(place + len(first), place + len(first) + 1, codas.get(last, ())))


def _last_syllable(found: list[Piece]) -> tuple[str, ...]:
    """Return the phones of the last syllable: its vowel, what follows, and the consonants before it."""
    phones: tuple[str, ...] = ()
    for piece in reversed(found):
        phones = (*piece.phones, *phones)
        if phones and ipa_class(phones[0]) != "vowel" and any(ipa_class(phone) == "vowel" for phone in phones):
            break
    return phones


def _onset(letters: str, onsets: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the phones of the letters that a syllable begins with."""
    if letters in _TRUE_S:
        return _TRUE_S[letters]
    if len(letters) == 2 and letters[0] in "หอ":
        letters = letters[1]
    return tuple(phone for letter in letters for phone in onsets.get(letter, unknown(letter)))


_VOWELS: dict[str, tuple[str, ...]] = {f"v{index}": tuple(rhyme[2].split()) for index, rhyme in enumerate(_RHYMES)}
_PARTS = {"t": _TONE, "T": _TONE[:-1], "f": _FREE, "c": f"(?:(?!{_C}[ก-มลวษสห]{_FREE}(?:$|[เ-ไ])){_CODA})?", "C": _CODA}
_RUN = re.compile(f"(?:[ก-รลว-ฬฮ]{_FREE}(?!อ))+|{_C}")


@lru_cache(maxsize=1)
def _patterns() -> list[re.Pattern[str]]:
    """Return the pattern of each rhyme; the name of its last group says which."""
    made = []
    for index, (before, after, _) in enumerate(_RHYMES):
        body = "".join(_PARTS.get(sign, sign) for sign in after)
        coda = "" if "coda" in body else "(?P<coda>(?!))?"
        made.append(re.compile(f"{before}{_ONSET}{body}{coda}(?P<v{index}>)"))
    return made


def _syllable(thai: str, place: int) -> re.Match[str] | None:
    return next((match for pattern in _patterns() if (match := pattern.match(thai, place))), None)


@lru_cache(maxsize=2)
def _tables(is_lao: bool) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    onsets = f"{_ONSETS} {_LAO_ONSETS if is_lao else ''}"
    lasts = f"{_CODAS} {_LAO_CODAS if is_lao else ''}"
    both = [dict(rule.split("=") for rule in table.split()) for table in (onsets, lasts)]
    starts, ends = ({letter: split_phones(phones) for letter, phones in table.items()} for table in both)
    return starts, ends
