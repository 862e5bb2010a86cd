"""Phones of Chinese characters, Hangul, kana and kanji.

If a Chinese character has several readings (in Mandarin, Cantonese ("yue") or Korean), it gets the
reading of its word, if that is a frequent word, otherwise the most frequent reading; the others are
alternatives. Tones are left out; b, d and g of pinyin and Jyutping are voiced here, to distinguish
them from the aspirated p, t and k. `research/han_table.py` makes the table of readings from Unihan:
one line with all characters, and for each language one line of their readings.

Syllables of Hangul are computed from their jamo, with the sound changes between syllables. Kana are
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
from ctc_align.text.sounds.pieces import Piece, unknown, without_repeats
from ctc_align.text.sounds.spelling_rules import phone_table, split_phones
from ctc_align.text.tables import text_table

_TABLES = "east-asia"

MANDARIN, CANTONESE, KOREAN, ON, KUN = COLUMNS = ("cmn", "yue", "ko", "ja-on", "ja-kun")
"""Pinyin, Jyutping, Hangul, and Japanese in Unihan's romanisation."""
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


_Syllable = tuple[str, Phones, str]
_FIRST_SYLLABLE = 0xAC00
_LAST_SYLLABLE = 0xD7A3
_MEDIALS = 21
_FINALS = 28
_INITIAL_JAMO = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWEL_PHONES = "a e ja je ə e jə je o wa we we jo u wə we wi ju ɨ ɨi i"
_VOWELS = [split_phones(vowel) for vowel in _VOWEL_PHONES.split()]
_CLUSTERS = """
- ㄱ ㄲ ㄱㅅ ㄴ ㄴㅈ ㄴㅎ ㄷ ㄹ ㄹㄱ ㄹㅁ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅍ ㄹㅎ ㅁ ㅂ ㅂㅅ ㅅ ㅆ ㅇ ㅈ ㅊ ㅋ ㅌ ㅍ ㅎ
"""
_FINAL_JAMO = [jamo.strip("-") for jamo in _CLUSTERS.split()]
_INITIAL_PHONES = "k k n t t r m p p s s - tʃ tʃ tʃ k t p h"
_SOUNDS = {jamo: phone.strip("-") for jamo, phone in zip(_INITIAL_JAMO, _INITIAL_PHONES.split())}
_VOICED = text_table(f"sounds/{_TABLES}", "ko:voiced")
_CLOSED_PHONES = "- k k k n n n t l k m l l l p l m p p t t ŋ t t k t p t"
_CLOSED = {jamo: phone.strip("-") for jamo, phone in zip(_FINAL_JAMO, _CLOSED_PHONES.split())}
_NASAL_OF = text_table(f"sounds/{_TABLES}", "ko:nasals")
_I = ("i",)
_COMPATIBLE_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"


def korean_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> "".join(phone for piece in korean_pieces("한국어", "ko") for phone in piece.phones)
    'hanɡuɡə'
    """
    cut = [_jamo(character) for character in text]
    found: list[Piece] = []
    carried = ""
    for index, (jamo, character) in enumerate(zip(cut, text)):
        if jamo is None:
            found.append(Piece(index, index + 1, _single_jamo(character)))
            carried = ""
            continue
        initial, vowel, final = jamo
        before = cut[index - 1] if index else None
        after = cut[index + 1] if index + 1 < len(cut) else None
        onset = _onset(carried or initial, vowel, before, bool(carried))
        coda, carried = _coda(final, after)
        found.append(
            Piece(index, index + 1, (*onset, *_vowel(initial, vowel, before is not None), *coda))
        )
    return without_repeats(found)


def _jamo(character: str) -> _Syllable | None:
    """Return (initial, vowel's phones, final) of a syllable; None for anything else."""
    index = ord(character) - _FIRST_SYLLABLE
    if not 0 <= index <= _LAST_SYLLABLE - _FIRST_SYLLABLE:
        return None
    # code point = 0xAC00 + (initial * 21 + vowel) * 28 + final
    initial, rest = divmod(index, _MEDIALS * _FINALS)
    return _INITIAL_JAMO[initial], _VOWELS[rest // _FINALS], _FINAL_JAMO[rest % _FINALS]


def _vowel(initial: str, vowel: Phones, is_later: bool) -> Phones:
    if vowel == ("ɨ", "i") and (is_later or initial != "ㅇ"):
        return _I  # 희망 himang
    if vowel[0] == "j" and initial in "ㅈㅉㅊ":
        return vowel[1:]
    return vowel


def _onset(initial: str, vowel: Phones, before: _Syllable | None, is_carried: bool) -> Phones:
    """Return the phones of an initial after the syllable before it."""
    final = ""
    if before:
        final = before[2]
    closed = _CLOSED[final]
    if is_carried and vowel == _I and initial in "ㄷㅌ":
        return ("dʒ",) if initial == "ㄷ" else ("tʃ",)  # 같이 kachi
    if initial == "ㄹ" and before and not is_carried:
        if closed in ("l", "n"):
            return ("l",)  # 신라 silla
        return ("n",) if closed else ("r",)  # 독립 tongnip
    if initial == "ㄴ" and closed == "l" and not is_carried:
        return ("l",)  # 칼날 kallal
    if initial == "ㅎ" and closed in ("k", "t", "p") and not is_carried:
        return (
            ("tʃ",) if final in ("ㅈ", "ㄴㅈ") else (closed,)
        )  # ㅎ aspirates the stop before it: 축하 chuka
    if initial in "ㅅㅆ" and vowel[0] in ("i", "j"):
        return ("ʃ",)
    is_aspirated = not is_carried and final.endswith("ㅎ")
    # plain stops are voiced between voiced sounds: 한국어 hangugeo
    if (
        initial in _VOICED
        and before
        and (is_carried or closed in ("", "n", "m", "ŋ", "l"))
        and not is_aspirated
    ):
        return (_VOICED[initial],)
    sound = _SOUNDS[initial]
    if sound:
        return (sound,)
    return ()


def _coda(final: str, after: _Syllable | None) -> tuple[Phones, str]:
    """Return the phones at the end of a syllable, and the jamo that moves to the next one."""
    closed = _CLOSED[final]
    if not final:
        return (), ""
    if after is None:
        return (closed,), ""
    initial = after[0]
    if initial == "ㅇ" and final != "ㅇ":
        # before a syllable that begins with a vowel the last jamo moves there: 한국어; ㅎ is lost: 좋아
        # choa
        stays, goes = (final[0], final[1:]) if len(final) > 1 else ("", final)
        if goes == "ㅎ":
            stays, goes = "", stays
        return ((_CLOSED[stays],) if stays else ()), goes
    if final.endswith("ㅎ") and initial in "ㄱㄷㅈㅅ":
        return (
            (_CLOSED[final[0]],) if len(final) > 1 else ()
        ), ""  # ㅎ aspirates the next stop: 좋다 chota
    if closed in _NASAL_OF and initial in "ㄴㅁㄹ":
        return (_NASAL_OF[closed],), ""  # 독립 tongnip
    if initial == "ㅎ" and closed in ("k", "t", "p"):
        return (), ""
    return (("l",) if closed == "n" and initial == "ㄹ" else (closed,)), ""  # 신라 silla


def _single_jamo(character: str) -> Phones:
    """Return the phones of a jamo outside any syllable."""
    jamo = unicodedata.normalize("NFKC", character)
    if character in _SOUNDS:
        return (_SOUNDS[character] or "ŋ",)
    if character in _COMPATIBLE_VOWELS:
        return _VOWELS[_COMPATIBLE_VOWELS.index(character)]
    if "\u1100" <= jamo <= "\u1112":
        return tuple(filter(None, (_SOUNDS[_INITIAL_JAMO[ord(jamo) - 0x1100]],)))
    if "\u1161" <= jamo <= "\u1175":
        return _VOWELS[ord(jamo) - 0x1161]
    if "\u11a8" <= jamo <= "\u11c2":
        return (_CLOSED[_FINAL_JAMO[ord(jamo) - 0x11A7]],)
    return unknown(character)


_RETROFLEX_I = re.compile("(zh|ch|sh|r|z|c|s)i")
_ZERO_INITIALS = text_table(f"sounds/{_TABLES}", "cmn:zero-initials")
_REPEATED = "々〻"


def chinese_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each character.

    >>> [" ".join(piece.phones) for piece in chinese_pieces("银行", "zh")]
    ['i n', 'x a ŋ']
    """
    if language == "ko":
        return _hanja(text)
    column = MANDARIN
    if language == "yue":
        column = CANTONESE
    if column == MANDARIN:
        words = _chinese_words()
    else:
        words = {}
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
    variants = tuple(dict.fromkeys(chinese_syllable(reading, column) for reading in known))
    return variants or (phone_table(_TABLES, "bopomofo").get(character, unknown(character)),)


def _hanja(text: str) -> list[Piece]:
    known = readings(KOREAN)
    hangul = "".join(known.get(character, (character,))[0] for character in text)
    if len(hangul) == len(text):
        return korean_pieces(hangul, "ko")
    return chinese_pieces(text, "zh")


@lru_cache(maxsize=4096)
def chinese_syllable(reading: str, column: str) -> Phones:
    """Return the phones of a syllable of pinyin or Jyutping without its tone; v is ü.

    >>> chinese_syllable("xiong", MANDARIN), chinese_syllable("gwong", CANTONESE)
    (('ʃ', 'j', 'ʊ', 'ŋ'), ('ɡ', 'w', 'ɔ', 'ŋ'))
    """
    initials, finals = (
        phone_table(_TABLES, f"{column}:initials"),
        phone_table(_TABLES, f"{column}:finals"),
    )
    if column == MANDARIN:
        if match := _RETROFLEX_I.fullmatch(reading):
            return (*initials[match[1]], "ɨ")
        reading = _with_plain_final(reading)
    for length in (2, 1, 0):
        initial, final = reading[:length], reading[length:]
        if (not length or initial in initials) and final in finals:
            return (*initials.get(initial, ()), *finals[final])
    if reading:
        return unknown(reading[:1])
    return ()


def _with_plain_final(reading: str) -> str:
    """Return pinyin as initial and final: you is iu, ju is jv."""
    for written, final in _ZERO_INITIALS.items():
        is_whole = written in ("you", "wei", "wen")
        if reading == written or (reading.startswith(written) and not is_whole):
            rest = reading[len(written) :]
            return final + rest
    return re.sub("^([jqx])u", r"\1v", reading)


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
        word: [chinese_syllable(reading, MANDARIN) for reading in pinyin.split(".")]
        for word, pinyin in words.items()
    }


_KANA_ONSET = "ky|gy|ny|hy|by|py|my|ry|sh|ch|ts|[kgsztdnhbpmyrwjfv]?"
_ROMAN = re.compile(f"(?:(?P<onset>{_KANA_ONSET})(?P<vowel>[aiueo]))|(?P<n>n)|(?P<other>.)")
_LONG = text_table(f"sounds/{_TABLES}", "kana:long")
SOKUON = "っ"
LONG_MARK = "ー"
MORAIC_N = "ん"
_OTHER_WORD = text_table(f"sounds/{_TABLES}", "kana:other-word")
_SMALL = "ぁぃぅぇぉゃゅょゎ"


@lru_cache(maxsize=512)
def roman_kana(character: str) -> str:
    """Return a kana in Latin letters.

    "shi" for し, "ya" for small ゃ; "" for anything else, the tones of Taiwanese, too.

    >>> roman_kana("シ"), roman_kana("ゃ"), roman_kana("ん")
    ('shi', 'ya', 'n')
    """
    words = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "").split()
    if words[:1] not in (["HIRAGANA"], ["KATAKANA"]) or "LETTER" not in words or "MINNAN" in words:
        return ""
    return text_table(f"sounds/{_TABLES}", "kana:names").get(words[-1], words[-1].lower())


def as_hiragana(text: str) -> str:
    """Return text with katakana as hiragana, one for one.

    >>> as_hiragana("カナー")
    'かなー'
    """
    return "".join(chr(ord(c) - 0x60) if "\u30a1" <= c <= "\u30f6" else c for c in text)


@lru_cache(maxsize=8192)
def roman_phones(roman: str) -> Phones:
    """Return the phones of Japanese in Latin letters.

    >>> roman_phones("toukyou"), roman_phones("gakkou"), roman_phones("shinbun")
    (('t', 'o', 'k', 'j', 'o'), ('ɡ', 'a', 'k', 'o'), ('ʃ', 'i', 'm', 'b', 'u', 'n'))
    """
    phones: list[str] = []
    for match in _ROMAN.finditer(roman):
        if match["n"]:
            phones.append(nasal(roman[match.end() : match.end() + 1]))
        elif match["vowel"] is not None:
            is_long = (
                not match["onset"] and phones[-1:] and match["vowel"] in _LONG.get(phones[-1], "")
            )
            phones += () if is_long else _kana_syllable(match["onset"], match["vowel"])
    return tuple(phone for at, phone in enumerate(phones) if not at or phone != phones[at - 1])


def nasal(following: str) -> str:
    """Return the phone of ん before a Latin letter.

    >>> nasal("b"), nasal("k"), nasal("")
    ('m', 'ŋ', 'n')
    """
    if following in tuple("pbm"):
        return "m"
    if following in tuple("kg"):
        return "ŋ"
    return "n"


def _kana_syllable(onset: str, vowel: str) -> Phones:
    """Return the phones of a consonant, palatal with a y after it, and a vowel."""
    if len(onset) == 2 and onset[1] in "yw":
        return (*_kana_onset(onset[0]), "j" if onset[1] == "y" else "w", vowel)
    return (*_kana_onset(onset), vowel)


def _kana_onset(onset: str) -> Phones:
    return phone_table(_TABLES, "kana:onsets").get(onset, ())


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
        roman = roman_kana(character)
        index += 1
        if character == MORAIC_N:
            phones: Phones = (nasal(roman_kana(text[index])[:1] if index < len(text) else ""),)
        elif character == SOKUON:
            phones = ("ʔ",)
        elif not roman:
            if character == LONG_MARK and found:
                phones = found[-1][2][-1:]
            else:
                phones = unknown(character)
        else:
            phones, index = _mora(text, roman, index)
        found.append((start, index, phones))
        while (
            phones and index < len(text) and _makes_long(phones[-1], text[index - 1], text[index])
        ):
            index += 1
            found.append((index - 1, index, phones[-1:]))
    return found


def _mora(text: str, roman: str, index: int) -> tuple[Phones, int]:
    """Return the phones of a kana, and the index of the next one.

    A small kana may follow at `index`.
    """
    onset = roman[:-1]
    vowel = roman[-1]
    small = ""
    if index < len(text) and text[index] in _SMALL:
        small = text[index]
    if not small:
        return _kana_syllable(onset, vowel), index
    glide = roman_kana(small)[:-1]
    other = roman_kana(small)[-1]
    if glide and vowel == "i":
        palatal = onset
        if onset not in ("sh", "ch", "j"):
            palatal = f"{onset}y"
        return _kana_syllable(palatal, other), index + 1
    before_small_vowels = text_table(f"sounds/{_TABLES}", "kana:before-small-vowels")
    if not glide and roman in before_small_vowels and (roman != "chi" or other == "e"):
        return (
            _kana_syllable("ch" if roman == "chi" else before_small_vowels[roman], other),
            index + 1,
        )
    if glide and roman in ("te", "de", "fu", "vu"):
        return (*_kana_onset(roman[0]), "j", other), index + 1
    return _kana_syllable(onset, vowel), index


def _makes_long(vowel: str, before: str, character: str) -> bool:
    if character == LONG_MARK:
        return True
    is_vowel = character in "あいうえおぁぃぅぇぉ" and before not in _OTHER_WORD.get(character, "")
    return is_vowel and roman_kana(character) in tuple(_LONG.get(vowel, ""))


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
        return [Piece(index, index + len(kanji), roman_phones("".join(readings_of)))]
    if len(word) == 1:
        others = tuple(map(roman_phones, _chinese_readings(word)[:2]))
    else:
        others = ()
    return [
        Piece(at, at + 1, roman_phones(part), others) for at, part in enumerate(readings_of, index)
    ]


def _single_kanji(text: str, index: int, start: int, end: int) -> Piece:
    """Return the piece of a kanji, with its best reading beside these neighbours, and others."""
    character = text[index]
    if character == "々" and index:
        character = text[index - 1]
    on = _chinese_readings(character)
    kun = readings(KUN).get(character, ())
    if index + 1 == end:
        following = _HIRAGANA.findall(text[end : end + 4])
    else:
        following = []
    following = [roman_kana(kana) if kana != "っ" else "っ" for kana in following]
    stems = _stems(kun, following)
    if end - start > 1:
        next_on = ""
        if index + 1 < end:
            next_on = (*_chinese_readings(text[index + 1]), "")[0]
        before = ""
        if index > start:
            before = (*_chinese_readings(text[index - 1]), "")[0]
        variants = [*(_assimilated(reading, next_on, before) for reading in on), *stems, *kun]
    else:
        variants = [*stems, *_nouns(kun), *on, *kun]
    said = tuple(dict.fromkeys(filter(None, map(roman_phones, variants))))
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
    if same == len(ending):
        return 10 + same
    if same:
        return 5 + same
    if len(ending) > 1:
        return 0
    last, first = ending[0], following[0]
    if last == "i":
        if first in ("ku", "ka", "ke", "sa", "so", "mi", "ge"):
            return 4
        return 0
    if not last.endswith("u"):
        return 0
    row = last[:-1].replace("ts", "t")
    if first[:-1].replace("ch", "t").replace("sh", "s").replace("ts", "t") == row and first != "っ":
        return 4
    is_changed = {
        "っ": ("u", "tsu", "ru", "ku"),
        "n": ("nu", "bu", "mu"),
        "i": ("ku", "gu"),
        "wa": ("u",),
    }.get(first, ())
    if last in is_changed:
        return 4
    is_ichidan = (
        last == "ru"
        and before[-1] in "ie"
        and first in ("ta", "te", "ma", "na", "ra", "re", "yo", "sa", "chi")
    )
    if is_ichidan:
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
