"""Phones of Thai, Lao, Burmese and Khmer: syllables are found in text without spaces.

A syllable consists of a consonant with its subscript consonants, a vowel, which may be written
before the consonant, and sometimes a final consonant. Lao letters are read as the Thai ones at the
same offset of their Unicode block, with a few different sounds. Burmese and Khmer have simple rules
for the standard languages, without the reduction of syllables within a word and without voicing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ctc_align.text.phone_sets import Phones, ipa_class
from ctc_align.text.sounds.pieces import Piece, unknown
from ctc_align.text.sounds.spelling_rules import phone_table, split_phones
from ctc_align.text.tables import text_table

_FROM_LAO = {code: chr(code - 0x80) for code in range(0x0E81, 0x0ECE)} | {
    ord(lao): thai for lao, thai in text_table("sounds/southeast-asia", "lo:letters").items()
}
_C = "[ก-รลว-ฮ]"
_TONE = "[่-๋]?"
_CLUSTERS = "(?:[กขคปผพ][รล]|[ตทบฟ]ร)(?!ร)|[กขค]ว|ห[งญณนมยรลว]|อย|[ทสซศ]ร|จร"
_FREE = f"(?![ะ-ฺ็ํ๎]|{_TONE}[ะาำ]|[่-๋]|์)"
"""After a consonant that closes a syllable: no vowel."""
_BEGINS_ANOTHER = (
    f"(?:[กขคปผพ][รล]|[ตทบฟ]ร|[กขค]ว){_TONE}[ะ-ฺ็]"
    f"|[กขคชดตทนบปพมรลสหผฝ]ว{_C}{_FREE}"
    f"|{_C}อ(?![ะ-ฺ็อ่-๋]|ย[ู่า])|[กคตทปพศสห]ฤ"
)
"""Letters that are likelier to begin a syllable than to close the one before."""
_CODA = f"(?!{_BEGINS_ANOTHER})(?P<coda>[ก-รลวศ-สฬ]){_FREE}"
_ONSET = f"(?P<onset>{_CLUSTERS}|{_C})"
_RHYMES = text_table("sounds/southeast-asia", "th:rhymes")
_SILENT = re.compile("[ก-ฮ][ิุ]?์")
_SILENT_TWO = re.compile("[ก-ฮ]?[ก-ฮ][ิุ]?์")
_TRUE_S = phone_table("southeast-asia", "th:true-s")
_REPEAT = "ๆ"
_SHORTENED = "ฯ"


def thai_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of Thai or Lao.

    For each syllable there are two: its beginning with the vowel, and its last consonant.

    >>> "".join(phone for piece in thai_pieces("สวัสดี", "th") for phone in piece.phones)
    'sawatdi'
    """
    is_lao = "\u0e80" <= text[0] <= "\u0eff"
    thai = text
    if is_lao:
        thai = text.translate(_FROM_LAO)
    onsets, codas = _tables(is_lao)
    found: list[Piece] = []
    index = 0
    while index < len(thai):
        if match := (_SILENT_TWO if found else _SILENT).match(thai, index):
            found.append(Piece(index, match.end(), ()))
        elif match := _syllable(thai, index):
            phones = (*_onset(match["onset"], onsets), *_VOWELS[str(match.lastgroup)])
            if match["coda"]:
                end = match.start("coda")
            else:
                end = match.end()
            vowel_first = match.start("onset") - index
            if vowel_first:
                found.append(Piece(index, index + 1, phones[: -len(_VOWELS[str(match.lastgroup)])]))
                phones = _VOWELS[str(match.lastgroup)]
            found.append(Piece(index + vowel_first, end, phones))
            if match["coda"]:
                found.append(Piece(end, match.end(), codas.get(match["coda"], ())))
        else:
            _bare(thai, index, found, is_lao)
        index = found[-1].end
    return found


def _bare(thai: str, index: int, found: list[Piece], is_lao: bool) -> None:
    """Add the pieces of consonants without a written vowel; two of them have an o between them."""
    onsets, codas = _tables(is_lao)
    match = _RUN.match(thai, index)
    if match is None:
        character = thai[index]
        is_mark = (
            character in _SHORTENED + _REPEAT or "ะ" <= character <= "ฺ" or "เ" <= character <= "๎"
        )
        phones: Phones = ()
        if character == _REPEAT:
            phones = _last_syllable(found)
        elif not is_mark:
            phones = onsets.get(character, unknown(character))
        found.append(Piece(index, index + 1, phones))
        return
    run = match[0]
    if len(run) == 1:
        is_last = match.end() == len(thai) and found
        if is_lao or (is_last and run != "ร"):
            phones = codas.get(run, ())
        elif is_last:
            phones = ()
        else:
            phones = (*_onset(run, onsets), "a")
        found.append(Piece(index, index + 1, phones))
        return
    if len(run) % 2 and not re.match(_CLUSTERS, run):
        found.append(Piece(index, index + 1, (*_onset(run[0], onsets), "a")))
        return
    cluster = re.match(_CLUSTERS, run) if len(run) > 2 else None
    if cluster:
        first = cluster[0]
    else:
        first = run[0]
    last = run[len(first)]
    vowel = "o"
    if last == "ร":
        vowel = "ɔ"
    found.append(Piece(index, index + len(first), (*_onset(first, onsets), vowel)))
    found.append(Piece(index + len(first), index + len(first) + 1, codas.get(last, ())))


def _last_syllable(found: list[Piece]) -> Phones:
    """Return the phones of the last syllable.

    Its vowel, what follows, and the consonants before it.
    """
    phones: Phones = ()
    for piece in reversed(found):
        phones = (*piece.phones, *phones)
        if (
            phones
            and ipa_class(phones[0]) != "vowel"
            and any(ipa_class(phone) == "vowel" for phone in phones)
        ):
            break
    return phones


def _onset(letters: str, onsets: dict[str, Phones]) -> Phones:
    """Return the phones of the letters that a syllable begins with."""
    if letters in _TRUE_S:
        return _TRUE_S[letters]
    if len(letters) == 2 and letters[0] in "หอ":
        letters = letters[1]
    return tuple(phone for letter in letters for phone in onsets.get(letter, unknown(letter)))


_VOWELS = {f"v{index}": split_phones(phones) for index, phones in enumerate(_RHYMES.values())}
_PARTS = {
    "t": _TONE,
    "T": _TONE[:-1],
    "f": _FREE,
    "c": f"(?:(?!{_C}[ก-มลวษสห]{_FREE}(?:$|[เ-ไ])){_CODA})?",
    "C": _CODA,
}
_RUN = re.compile(f"(?:[ก-รลว-ฬฮ]{_FREE}(?!อ))+|{_C}")


@lru_cache(maxsize=1)
def _patterns() -> list[re.Pattern[str]]:
    """Return the pattern of each rhyme; the name of its last group says which."""
    made = []
    for index, rhyme in enumerate(_RHYMES):
        before, _, after = rhyme.partition("*")
        body = "".join(_PARTS.get(sign, sign) for sign in after)
        coda = "(?P<coda>(?!))?"
        if "coda" in body:
            coda = ""
        made.append(re.compile(f"{before}{_ONSET}{body}{coda}(?P<v{index}>)"))
    return made


def _syllable(thai: str, index: int) -> re.Match[str] | None:
    return next((match for pattern in _patterns() if (match := pattern.match(thai, index))), None)


def _tables(is_lao: bool) -> tuple[dict[str, Phones], dict[str, Phones]]:
    """Return the phones of consonants by Thai letters.

    One table holds at the beginning of a syllable, one at its end.
    """
    languages = ["th"]
    if is_lao:
        languages.append("lo")
    onsets, codas = (
        [f"{language}:{part}" for language in languages] for part in ("onsets", "codas")
    )
    return phone_table("southeast-asia", *onsets), phone_table("southeast-asia", *codas)


_BURMESE_SYLLABLE = re.compile(
    r"(?P<onset>[က-ဪဿ])(?P<under>[ျြွှ]*)(?P<vowel>[ါ-ဲံ့း]*)(?:(?P<coda>[က-အ])[့း]*(?:်(?![ါ-ဲ])|္|်္)|်)?[့း]*"
)
_BURMESE_TONES = re.compile("[့း]")
_BURMESE_PALATALS = phone_table("southeast-asia", "my:palatals")
_FIRST_SERIES = "កខចឆដឋណតថបផឝឞសហឡអ"
_KHMER_SYLLABLE = re.compile(
    "(?P<onset>[ក-ឳ])(?P<shift>[៉៊]?)(?P<under>(?:្[ក-អ])*)(?P<shifted>[៉៊]?)(?P<vowel>[ា-ះ]*)[៎៏៍័៌៑]*"
    "(?:(?P<coda>[ក-អ])(?P<short>[់]?)(?![ា-ះ្៉៊]))?"
)
_KHMER_CODAS = phone_table("southeast-asia", "km:codas")


def burmese_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> [" ".join(piece.phones) for piece in burmese_pieces("ကျောင်း", "my")]
    ['tʃ a ʊ n']
    """
    return _syllables(text, _BURMESE_SYLLABLE, _burmese_syllable)


def _burmese_syllable(match: re.Match[str]) -> Piece:
    onsets = phone_table("southeast-asia", "my:onsets")
    rhymes = phone_table("southeast-asia", "my:rhymes")
    vowel = _BURMESE_TONES.sub("", match["vowel"])
    coda = match["coda"] or ""
    rounded = ""
    if "ွ" in match["under"] and not vowel:
        rounded = "ွ"
    rhyme = (
        rhymes.get(f"{rounded}{vowel}{coda}")
        or rhymes.get(f"{vowel}{coda}")
        or rhymes.get(coda or vowel)
    )
    phones = _burmese_onset(
        onsets.get(match["onset"], ()), match["under"].replace(rounded or "-", "", bool(coda))
    )
    is_vowel = match["onset"] in "ဣဤဥဦဧဩဪ" and not rhyme
    return Piece(match.start(), match.end(), phones if is_vowel else (*phones, *(rhyme or ("a",))))


def _burmese_onset(onset: Phones, under: str) -> Phones:
    has_y = "ျ" in under or "ြ" in under
    has_w = "ွ" in under
    if "ှ" in under and (onset == ("j",) or (has_y and onset == ("l",))):
        onset = ("ʃ",)
        has_y = False
    elif has_y and onset and onset[0] in _BURMESE_PALATALS:
        onset = _BURMESE_PALATALS[onset[0]]
        has_y = False
    return (*onset, *("j",) * has_y, *("w",) * has_w)


def khmer_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> [" ".join(piece.phones) for piece in khmer_pieces("ភាសា", "km")]
    ['p i ə', 's a']
    """
    return _syllables(text, _KHMER_SYLLABLE, _khmer_syllable)


def _khmer_syllable(match: re.Match[str]) -> Piece:
    onsets = phone_table("southeast-asia", "km:letters")
    vowels = _khmer_vowels()
    start = match.start()
    if match["onset"] > "អ":
        return Piece(start, start + 1, onsets.get(match["onset"], unknown(match["onset"])))
    under = match["under"].replace("្", "")
    letters = match["onset"] + under
    is_first = any(letter in _FIRST_SERIES for letter in letters)
    if shift := match["shift"] or match["shifted"]:
        is_first = shift == "៉"
    signs = match["vowel"] or "-"
    vowel = vowels.get(signs) or vowels.get(signs[0], vowels["-"])
    phones = tuple(phone for letter in letters for phone in onsets[letter])
    coda = onsets.get(match["coda"] or "", ())
    if coda:
        coda = _KHMER_CODAS.get(coda[0], coda)
    else:
        coda = ()
    return Piece(start, match.end(), (*phones, *vowel[not is_first], *coda))


def _syllables(
    text: str, pattern: re.Pattern[str], piece: Callable[[re.Match[str]], Piece]
) -> list[Piece]:
    """Return the pieces of the syllables that a pattern finds.

    Letters outside any syllable are unknown.
    """
    found: list[Piece] = []
    index = 0
    while index < len(text):
        match = pattern.match(text, index)
        found.append(piece(match) if match else Piece(index, index + 1, unknown(text[index])))
        index = found[-1].end
    return found


@lru_cache(maxsize=1)
def _khmer_vowels() -> dict[str, tuple[Phones, Phones]]:
    """Return the phones of vowel signs after consonants of the first and of the second series."""
    both = {
        sign: phones.split(",")
        for sign, phones in text_table("sounds/southeast-asia", "km:vowels").items()
    }
    return {
        sign: (split_phones(first), split_phones(second)) for sign, (first, second) in both.items()
    }
