"""Phones of Chinese characters, Hangul, kana and kanji.

If a Chinese character has several readings (in Mandarin, Cantonese ("yue") or Korean), it gets the
reading of its word, if that is a frequent word, otherwise the most frequent reading; the others are
alternatives. Tones are left out; b, d and g of pinyin and Jyutping are voiced here, to distinguish
them from the aspirated p, t and k. `research/han_table.py` makes the table of readings from Unihan:
one line with all characters, and for each language one line of their readings.

Syllables of Hangul are read by their letters, which change beside others. Kana are
read in morae, with doubled consonants as one. Adjacent kanji have their Chinese readings (on); a
single one has a Japanese reading (kun), whose end the following kana may write. A table has
frequent words with other readings.
"""

from __future__ import annotations

import lzma
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from ctc_align.text.phone_sets import Phones
from ctc_align.text.sounds.pieces import Piece, unknown
from ctc_align.text.sounds.spelling_rules import phone_table, spelling_rules
from ctc_align.text.tables import text_table

_TABLES = "east-asia"

MANDARIN, CANTONESE, KOREAN, ON, KUN = COLUMNS = ("cmn", "yue", "ko", "ja-on", "ja-kun")
"""Pinyin, Jyutping, Hangul, and Japanese in Unihan's romanisation."""
JAPANESE = "ja"
FILE = Path(__file__).with_name("han-readings.txt.xz")
PARTED = " "
NOTICE = """Readings of Chinese characters, without tones. Made from the Unihan database of Unicode 15.0.
Copyright © 1991-2022 Unicode, Inc. All rights reserved. Used under the Unicode licence: UNICODE-LICENSE."""

_Readings = tuple[str, ...]
"""Romanised readings, the likeliest first."""


@lru_cache(maxsize=len(COLUMNS))
def readings(column: str) -> dict[str, _Readings]:
    """Return the readings of each character that has one, the likeliest first.

    >>> readings(MANDARIN)["行"], readings(CANTONESE)["行"], readings(ON)["行"]
    (('xing', 'hang'), ('hang',), ('kou', 'gyou', 'an'))
    """
    characters, *columns = _lines()
    written = columns[COLUMNS.index(column)].split(PARTED)[1:]
    return {
        character: tuple(each.split(",")) for character, each in zip(characters, written) if each
    }


@lru_cache(maxsize=1)
def _lines() -> list[str]:
    lines = lzma.decompress(FILE.read_bytes()).decode().split("\n")
    return [line for line in lines if not line.startswith("#")]


def korean_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> "".join(phone for piece in korean_pieces("한국어", "ko") for phone in piece.phones)
    'hanɡuɡə'
    """
    letters = [unicodedata.normalize("NFD", syllable) for syllable in text]
    owners = [index for index, each in enumerate(letters) for _ in each]
    phones: list[Phones] = [()] * len(text)
    for piece in spelling_rules(_TABLES, "ko").pieces("".join(letters)):
        phones[owners[piece.start]] += piece.phones
    return [Piece(index, index + 1, sounds) for index, sounds in enumerate(phones)]


_REPEATED = "々〻"


def chinese_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each character.

    >>> [" ".join(piece.phones) for piece in chinese_pieces("银行", "zh")]
    ['i n', 'x a ŋ']
    """
    if language == "ko":
        return _hanja(text)
    column = CANTONESE if language == "yue" else MANDARIN
    words = _chinese_words() if column == MANDARIN else {}
    found: list[Piece] = []
    while len(found) < len(text):
        index = len(found)
        for length in (3, 2):
            if word := words.get(text[index : index + length]):
                found += [Piece(at, at + 1, phones) for at, phones in enumerate(word, index)]
                break
        else:
            character = text[index]
            variants = found[-1] if character in _REPEATED and found else None
            phones, *others = (
                (variants.phones, *variants.others)
                if variants
                else _character_variants(character, column)
            )
            found.append(Piece(index, index + 1, phones, tuple(others)))
    return found


@lru_cache(maxsize=8192)
def _character_variants(character: str, column: str) -> tuple[Phones, ...]:
    """Return the pronunciations of a character."""
    known = readings(column).get(character, ()) or _unlisted(character, column)
    if not known and column == CANTONESE:
        return _character_variants(character, MANDARIN)
    variants = tuple(dict.fromkeys(roman_phones(reading, column) for reading in known))
    return variants or (phone_table(_TABLES, "bopomofo").get(character, unknown(character)),)


def _hanja(text: str) -> list[Piece]:
    known = readings(KOREAN)
    hangul = "".join(known.get(character, (character,))[0] for character in text)
    if len(hangul) == len(text):
        return korean_pieces(hangul, "ko")
    return chinese_pieces(text, "zh")


@lru_cache(maxsize=8192)
def roman_phones(roman: str, column: str) -> Phones:
    """Return the phones of pinyin or Jyutping without tones (v is ü), or of romanised Japanese.

    >>> roman_phones("xiong", MANDARIN), roman_phones("gwong", CANTONESE)
    (('ʃ', 'j', 'ʊ', 'ŋ'), ('ɡ', 'w', 'ɔ', 'ŋ'))
    >>> roman_phones("toukyou", JAPANESE), roman_phones("shinbun", JAPANESE)
    (('t', 'o', 'k', 'j', 'o'), ('ʃ', 'i', 'm', 'b', 'u', 'n'))
    """
    pieces = spelling_rules(_TABLES, column).pieces(roman)
    return tuple(phone for piece in pieces for phone in piece.phones)


def _unlisted(character: str, column: str) -> _Readings:
    """Return the readings of a character for which Unihan has none."""
    written = text_table(f"sounds/{_TABLES}", f"{column}:characters").get(character)
    if written:
        return (written,)
    return ()


@lru_cache(maxsize=1)
def _chinese_words() -> dict[str, list[Phones]]:
    """Return the phones of each character of words with a reading that is not the most frequent."""
    words = text_table(f"sounds/{_TABLES}", f"{MANDARIN}:words")
    return {
        word: [roman_phones(reading, MANDARIN) for reading in pinyin.split(".")]
        for word, pinyin in words.items()
    }


_LONG = text_table(f"sounds/{_TABLES}", "kana:long")
SOKUON = "っ"
LONG_MARK = "ー"
MORAIC_N = "ん"
_OTHER_WORD = text_table(f"sounds/{_TABLES}", "kana:other-word")
_ROMAN = text_table(f"sounds/{_TABLES}", "kana")
"""Kana, and pairs of them that are one mora, in Latin letters."""


def as_hiragana(text: str) -> str:
    """Return text with katakana as hiragana, one for one.

    >>> as_hiragana("カナー")
    'かなー'
    """
    return "".join(chr(ord(c) - 0x60) if "\u30a1" <= c <= "\u30f6" else c for c in text)


def kana_morae(kana: str) -> list[tuple[int, int, Phones]]:
    """Return the morae of kana, each as (start, end, phones).

    The kana that makes a vowel long has that vowel.

    >>> kana_morae("がっこう")
    [(0, 1, ('ɡ', 'a')), (1, 3, ('k', 'o')), (3, 4, ('o',))]
    """
    text = as_hiragana(kana)
    found: list[tuple[int, int, Phones]] = []
    index = 0
    while index < len(text):
        start = index
        while index < len(text) - 1 and text[index] == SOKUON:
            index += 1
        character = text[index]
        mora = text[index : index + 2]
        if mora not in _ROMAN:
            mora = character
        roman = _ROMAN.get(mora, "")
        index += len(mora)
        if character == MORAIC_N:
            following = _ROMAN.get(text[index : index + 1], "")
            phones = roman_phones(roman + following, JAPANESE)[:1]
        elif character == SOKUON:
            phones = ("ʔ",)
        elif character == LONG_MARK and found:
            phones = found[-1][2][-1:]
        elif roman:
            phones = roman_phones(roman, JAPANESE)
        else:
            phones = unknown(character)
        found.append((start, index, phones))
        while (
            phones and index < len(text) and _makes_long(phones[-1], text[index - 1], text[index])
        ):
            index += 1
            found.append((index - 1, index, phones[-1:]))
    return found


def _makes_long(vowel: str, before: str, character: str) -> bool:
    if character == LONG_MARK:
        return True
    is_vowel = character in "あいうえおぁぃぅぇぉ" and before not in _OTHER_WORD.get(character, "")
    return is_vowel and _ROMAN[character] in tuple(_LONG.get(vowel, ""))


_MOST_OTHERS = 3
_KANJI = re.compile(r"[々〆ヶ\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_HIRAGANA = re.compile("[ぁ-ゖ]")
_LAST_KANA = re.compile("[ぁ-ゖ]+$")
_MORA = re.compile("[^aiueo]*?[aiueo]|n(?![aiueoy])")
_PARTICLE_HA = re.compile(
    r"は(?!じめ|じま|ず[がだでも]|なし|なれ|なす|や[くい]|っきり|たら|るか|いっ|いる|いり|ずし)"
)
_BEFORE_HA = re.compile(
    r"(?:[^ぁ-ゖ]|で|に|と|の|て|れ|ここ|そこ|あそこ|から|まで|たち|さん|こんにち|こんばん|ものごと|こと)$"
)
_AFTER_HE = re.compile(r"(?:$|[^ぁ-ゖ]|の|と|は|も)")
_VOICELESS = tuple("kstchfp")


def japanese_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of kana and kanji.

    >>> [(text[p.start : p.end], " ".join(p.phones)) for text in ["学校へ行った"] for p in japanese_pieces(text, "ja")]
    [('学', 'ɡ a'), ('校', 'k o'), ('へ', 'e'), ('行', 'i'), ('った', 't a')]
    """
    found: list[Piece] = []
    start = 0
    while start < len(text):
        end = start + 1
        is_kanji = bool(_KANJI.match(text[start]))
        while end < len(text) and bool(_KANJI.match(text[end])) == is_kanji:
            end += 1
        found += _kanji(text, start, end) if is_kanji else _kana(text, start, end)
        start = max(end, found[-1].end)
    return found


def _kana(text: str, start: int, end: int) -> list[Piece]:
    """Return the pieces of kana, with the particles は and へ as wa and e."""
    found: list[Piece] = []
    at = start
    for index in range(start, end):
        phones = _particle(text, index)
        if phones:
            found += _morae(text, at, index)
            found.append(Piece(index, index + 1, phones))
            at = index + 1
    return found + _morae(text, at, end)


def _particle(text: str, index: int) -> Phones:
    if text[index] not in "はへ" or not index:
        return ()
    if text[index] == "は":
        is_particle = _PARTICLE_HA.match(text, index) and _BEFORE_HA.search(
            text[max(index - 4, 0) : index]
        )
        if is_particle:
            return ("w", "a")
        return ()
    if _AFTER_HE.match(text, index + 1) and text[index - 1] != "ー":
        return ("e",)
    return ()


def _morae(text: str, start: int, end: int) -> list[Piece]:
    return [
        Piece(start + low, start + high, phones)
        for low, high, phones in kana_morae(text[start:end])
    ]


def _kanji(text: str, start: int, end: int) -> list[Piece]:
    """Return the pieces of kanji side by side, and of the kana that a word of the table ends in."""
    found: list[Piece] = []
    index = start
    while index < end:
        for length in range(4, 0, -1):
            word = text[index : index + length]
            known = _japanese_words("ja:words").get(word)
            is_alone = index == start and index + length >= end
            if (
                known is not None
                and (length > 1 or is_alone)
                and (index + length <= end or index == start or end - index == 1)
            ):
                found += _read_word(word, known, index)
                break
        else:
            found.append(_single_kanji(text, index, start, end))
        index = found[-1].end
    return found


def _read_word(word: str, readings_of: _Readings, index: int) -> list[Piece]:
    """Return the pieces of the kanji in a word from the table."""
    kanji = _LAST_KANA.sub("", word)
    if len(readings_of) != len(kanji):
        return [Piece(index, index + len(kanji), roman_phones("".join(readings_of), JAPANESE))]
    if len(word) == 1:
        others = tuple(roman_phones(reading, JAPANESE) for reading in _chinese_readings(word)[:2])
    else:
        others = ()
    return [
        Piece(at, at + 1, roman_phones(part, JAPANESE), others)
        for at, part in enumerate(readings_of, index)
    ]


def _single_kanji(text: str, index: int, start: int, end: int) -> Piece:
    """Return the piece of a kanji, with its best reading beside these neighbours, and others."""
    character = text[index]
    if character == "々" and index:
        character = text[index - 1]
    on = _chinese_readings(character)
    kun = readings(KUN).get(character, ())
    following = _HIRAGANA.findall(text[end : end + 4]) if index + 1 == end else []
    following = [_ROMAN.get(kana, "") if kana != SOKUON else kana for kana in following]
    stems = _stems(kun, following)
    if end - start > 1:
        beside = (text[index + 1 : end][:1], text[start:index][-1:])
        neighbours = ["".join(_chinese_readings(each)[:1]) for each in beside]
        variants = [*(_assimilated(reading, *neighbours) for reading in on), *stems, *kun]
    else:
        variants = [*stems, *_nouns(kun), *on, *kun]
    said = tuple(dict.fromkeys(filter(None, (roman_phones(each, JAPANESE) for each in variants))))
    if not said:
        said = (
            (
                chinese_pieces(character, "ja")[0].phones
                if character not in "々〆ヶ"
                else unknown(character)
            ),
        )
    return Piece(index, index + 1, said[0], said[1 : 1 + _MOST_OTHERS])


def _assimilated(reading: str, following: str, before: str) -> str:
    """Return a Chinese reading as it changes beside others.

    gaku before kou is gak, hyou after hatsu is pyou.
    """
    if before.endswith(("tsu", "chi")) and len(before) > 3 and reading[:1] in ("h", "f"):
        reading = f"p{reading[1:]}"
    if (
        following.startswith((*_VOICELESS, "h"))
        and reading.endswith(("tsu", "chi"))
        and len(reading) > 3
    ):
        return reading[:-3]
    if following.startswith("k") and reading.endswith("ku") and len(reading) > 2:
        return reading[:-2]
    return reading


def _stems(kun: _Readings, following: list[str]) -> list[str]:
    """Return the parts of Japanese readings that belong to a kanji, the best first.

    Kana write the rest of the reading.
    """
    if not following:
        return []
    scored: list[tuple[int, str]] = []
    for reading in kun:
        morae = _MORA.findall(reading)
        for cut in range(1, len(morae)):
            score = _fit(morae[cut:], morae[cut - 1], following)
            if score:
                scored.append((score, "".join(morae[:cut])))
    scored.sort(key=lambda variant: -variant[0])
    return [stem for _, stem in scored]


def _fit(ending: list[str], before: str, following: list[str]) -> int:
    """Return how well the end of a reading matches the kana, 0 if not at all.

    The kana may be those of any form of a verb or adjective.
    """
    same = 0
    while same < min(len(ending), len(following)) and ending[same] == following[same]:
        same += 1
    if same:
        return same + (10 if same == len(ending) else 5)
    forms = text_table(f"sounds/{_TABLES}", "ja:inflections")
    if len(ending) == 1 and following[0] in forms.get(ending[0], "-").split(","):
        return 4
    if ending == ["ru"] and before[-1] in "ie" and following[0] in forms["ichidan"].split(","):
        return 3
    return 0


def _nouns(kun: _Readings) -> list[str]:
    """Return the readings except verbs in their dictionary form."""
    return [
        reading
        for reading in kun
        if not re.search("(?:[aiueo]|[kgsbmr]|ts)u$", reading) or len(reading) <= 4
    ]


def _chinese_readings(character: str) -> _Readings:
    """Return the Chinese readings of a kanji, the most frequent first."""
    return tuple(
        dict.fromkeys(
            (*_japanese_words("ja:on").get(character, ()), *readings(ON).get(character, ()))
        )
    )


@lru_cache(maxsize=2)
def _japanese_words(section: str) -> dict[str, _Readings]:
    return {
        word: tuple(roman.split("."))
        for word, roman in text_table(f"sounds/{_TABLES}", section).items()
    }
