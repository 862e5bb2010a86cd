"""The encoding of a text that is not UTF-8, from its letters and language.

It also notices texts that were decoded wrongly.

A byte is another letter in each of some thirty encodings, and nothing in a file names its own. All
of them are tried; the likeliest is the one whose text has the letters of a language that is written
in this encoding, and the commonest words or letters of this language. If two encodings with
different texts are about as likely, both are named: nothing is decoded by a guess. The languages
and their letters are in `encodings.txt`.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ctc_align.errors import TranscriptError, UsageError, WrongFileError
from ctc_align.reading import shown
from ctc_align.reading.file_kinds import is_utf8, marked_encoding, wide_encoding
from ctc_align.text.languages import name_of_language
from ctc_align.text.tables import sections, text_table, word_list

_MOST_BYTES = 1 << 14
"""The number of bytes that are examined."""
_LEAST = 0.6
_LEAD = 0.03
_LEAD_LETTERS = 0.5
"""The lowest score of a likely encoding, and its lead over others. Texts with
hundreds of letters outside ASCII need a smaller lead: half a letter. Of 1,376 texts of 2 to 15
lines in 25 languages, 98 % got the right encoding, 0.2 % a wrong one, and the others two or none
(charset-normalizer 3.5: 81 % and 19 %)."""
_MOST_ACCENTED = 0.5
"""The largest share of letters outside ASCII in a text of Latin letters."""
_LEAST_FOREIGN = 0.03
"""The least share of such letters in a text whose letters are all outside ASCII, with names and
lines in Latin letters: one "à" of Portuguese is a Russian word in Windows-1251."""
_COMMON_WEIGHT = 0.4
_COMMON_SHARE = 0.8
_WORDS_WEIGHT = 0.3
_WORDS_SHARE = 0.3
"""The weights of the commonest letters and words, and their shares in a text that has them as often
as any."""
_LONGEST_SHOWN = 20
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MARKS = frozenset("“”„‘’‚‹›«»–—…¿¡°§·•♪€£©№\xa0\u200e\u200f\ufeff،؛؟")
_MARK_IN_WORD = re.compile(
    r"(?<=[^\W\d_])(?:[¿¡°§•♪€£©№]|[“”„‘‚‹›«»،؛؟](?=[^\W\d_]))|(?<!\w)’(?=\w)"
)
"""Punctuation of any language, and where it hardly ever stands: within words, or as an apostrophe
before them."""
_WIDE_MARKS = re.compile("[\u3000-\u303f\uff00-\uff60]")
_KANA = re.compile("[\u3040-\u30ff]")
_IN_TWO_SCRIPTS = re.compile("[A-Za-z][^\x00-\x7f]|[^\x00-\x7f](?=[A-Za-z])")
_TWO_ALPHABETS = re.compile("[A-Za-z][\u0400-\u04ff]|[\u0400-\u04ff][A-Za-z]")
"""Letters of Russia's alphabet inside words of others: "fьr"."""
_SPACED = re.compile("(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")
"""Chinese and Japanese have no spaces between words, Korean has."""
_LEAST_KANA = 0.1
_FIRST_LEVEL = text_table("encodings", "first-level")
_WRONG = ("cp1252", "latin_1", "cp1251", "mac_roman", "cp437", "cp850")
"""The encodings by which texts are decoded wrongly: the defaults of systems."""
_DEFAULTS = ("cp1252", "cp1251")
"""Those by which texts in any other encoding are decoded: of Windows in the west and in Russia."""
_RARE = ("DOS", "Mac")
"""Names of encodings that are meant only if no other is as likely."""
_LANGUAGES = {
    codec: codes.split(",") for codec, codes in text_table("encodings", "languages").items()
}
_NAMES = text_table("encodings", "names")
_LETTERS = {
    code: frozenset(letters) for code, letters in text_table("encodings", "letters").items()
}
_COMMON = {code: frozenset(letters) for code, letters in text_table("encodings", "common").items()}


_WORDS = {
    code: word_list(name)
    for code in _LETTERS
    if (name := f"function-words:{code}") in sections("words")
}
_OF_UTF_8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_MOST_UTF_8 = 0.8
"""A larger share of UTF-8 among the bytes of a text outside ASCII shows that it was decoded
wrongly."""
_PROVEN = 0.7
_BETTER = 0.1
_MUCH_BETTER = 0.25
_FEWEST_WRONG = 6
"""So do the score of another encoding, its lead over the text as it is (a rare one needs more), and
the number of letters outside ASCII."""


class LikelyEncoding(NamedTuple):
    """An encoding that a text may have.

    Python's name of it, the language of the text, how likely it is (0 to 1), and a word of the
    text.
    """

    codec: str
    language: str
    score: float
    word: str

    @property
    def shown(self) -> str:
        """The encoding as people call it, with the word: 'Windows-1254 ("günler")'."""
        return f'{_NAMES.get(self.codec, self.codec)} ("{self.word}")'


_NO_ENCODINGS = frozenset(
    codecs.lookup(name).name
    for name in ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined")
)
"""Python's codecs that are no encodings of files."""


def known_encoding(name: str) -> str:
    """Return the name of an encoding as it is given.

    Raises:
        UsageError: there is no such encoding.

    >>> known_encoding("windows-1254"), known_encoding("Shift-JIS")
    ('windows-1254', 'Shift-JIS')
    """
    try:
        known = codecs.lookup(name).name not in _NO_ENCODINGS
        "".encode(name)  # LookupError for codecs of bytes, such as base64
    except (LookupError, ValueError):
        known = False
    if not known:
        expected = "the name of an encoding (utf-16, cp1254, shift_jis, gb18030)"
        raise UsageError(
            f"--encoding: expected {expected}, got {shown(name)}, which Python does not know"
        )
    return name


def decode_text(data: bytes, source: str, encoding: str | None = None) -> str:
    """Return the text in the bytes of a file, without its byte order mark.

    A byte order mark is obeyed; then text outside ASCII that is UTF-8 is UTF-8; all other text is
    in `encoding`.

    Args:
        data: the whole file.
        source: its name, for messages.
        encoding: as in `known_encoding`; "" means UTF-8, and None that the user cannot give one.

    Raises:
        TranscriptError: the bytes are in another encoding; the message says in which, as far as
            they show it.
        WrongFileError: the file is binary.

    >>> decode_text("\\ufeffSo be it.".encode("utf-16-le"), "a.txt"), decode_text("Iş".encode("cp1254"), "a", "cp1254")
    ('So be it.', 'Iş')
    """
    codec = marked_encoding(data)
    if not codec:
        codec = "utf-8"
        if encoding:
            is_wide = codecs.lookup(known_encoding(encoding)).name.startswith("utf-16")
            if is_wide or data.isascii() or not is_utf8(data):
                codec = encoding
    try:
        text = data.decode(codec)
    except (UnicodeDecodeError, UnicodeError) as error:
        _refuse_binary(data, source)
        advice = encoding_advice(data, has_option=encoding is not None)
        raise TranscriptError(f"{source}{_place(data, codec, error)}; {advice}") from None
    if "\0" in text:
        if wide_encoding(data):
            advice = encoding_advice(data, has_option=encoding is not None)
            raise TranscriptError(
                f"{source}: expected text, got zero bytes between the letters; {advice}"
            )
        _refuse_binary(data, source)
    return text


def _refuse_binary(data: bytes, source: str) -> None:
    """Raise WrongFileError for a file with zero bytes that is not UTF-16 or UTF-32."""
    if b"\0" in data and not marked_encoding(data) and not wide_encoding(data):
        line = data.count(b"\n", 0, data.index(0)) + 1
        raise WrongFileError(
            f"{source}: expected a transcript (a UTF-8 text file), got a binary file (a zero byte"
            f" in line {line}); is it the right file?"
        )


def _place(data: bytes, codec: str, error: UnicodeError) -> str:
    """Return the position of the first byte that a codec does not read."""
    expected = codec
    if codec.startswith("utf-8"):
        expected = "UTF-8"
    if not isinstance(error, UnicodeDecodeError):
        return f": expected {expected}"
    line = data.count(b"\n", 0, error.start) + 1
    return (
        f", line {line}: expected {expected}, got byte 0x{data[error.start]:02x} at offset"
        f" {error.start}"
    )


@lru_cache(maxsize=64)
def likely_encodings(data: bytes) -> tuple[LikelyEncoding, ...]:
    """Return the likely encodings of a text, the best first.

    Several if they are about as likely, () if none is.

    Of encodings that give the same text, the commonest is meant.

    >>> [found.codec for found in likely_encodings("Привет, как дела?".encode("koi8-r"))]
    ['koi8_u']
    """
    found: dict[str, LikelyEncoding] = {}
    for codec, languages in _LANGUAGES.items():
        text = _decoded(data, codec)
        if not text or text in found:
            continue
        score, language = max((_score(text, language, codec), language) for language in languages)
        found[text] = LikelyEncoding(codec, language, score, _example(text))
    texts = sorted(found, key=lambda text: -found[text].score)[:2]
    best = [found[text] for text in texts]
    if not best:
        return ()
    lead = min(_LEAD, _LEAD_LETTERS / max(1, sum(byte >= 0x80 for byte in data)))
    likely = [each for each in best if each.score >= max(_LEAST, best[0].score - lead)]
    likely = [each for each in likely if not _NAMES[each.codec].startswith(_RARE)] or likely
    if len(likely) < 2:
        return tuple(likely)
    words = next((pair for pair in zip(*(text.split() for text in texts)) if len({*pair}) > 1), ())
    return tuple(each._replace(word=_short(word)) for each, word in zip(likely, words))


def encoding_advice(data: bytes, *, has_option: bool = True) -> str:
    """Return what the encoding of a text may be, and what to do about it.

    The words follow the text's name in a message.

    `has_option`: whether the user can name an encoding.

    >>> encoding_advice("Yarın akşam görüşürüz, değil mi?".encode("cp1254"))
    'it looks like Turkish in Windows-1254 ("Yarın"): give --encoding cp1254, or save it as UTF-8'
    """
    looks, names = _looks(data)
    options = " or ".join(f"--encoding {name}" for name in names) + (
        ", whichever spells it right" if len(names) > 1 else ""
    )
    if names and has_option:
        return f"{looks}: give {options}, or save it as UTF-8"
    return f"{looks}: save it as UTF-8"


def _looks(data: bytes) -> tuple[str, list[str]]:
    """Return what a text looks like, and the encodings that it may have."""
    if marked := marked_encoding(data):
        return (
            f"its byte order mark says {marked.upper().removesuffix('-SIG')}, and it is damaged",
            [],
        )
    if wide := wide_encoding(data):
        name = wide.upper().replace("-LE", " (little-endian)").replace("-BE", " (big-endian)")
        return f"it looks like {name} without a byte order mark", [wide]
    found = likely_encodings(data[:_MOST_BYTES])
    names = [each.codec for each in found]
    if not found:
        return "it is in an encoding older than Unicode, and its bytes do not show which", [
            "NAME (such as cp1252)"
        ]
    if len(found) > 1:
        return f"it may be {' or '.join(each.shown for each in found)}", names
    return f"it looks like {name_of_language(found[0].language)} in {found[0].shown}", names


def decoding_note(text: str) -> str:
    """Return a note on a transcript that was decoded by a wrong encoding, "" for any other.

    >>> decoding_note("GrÃ¼ÃŸe aus KÃ¶ln").partition(":")[0]
    'the transcript was decoded wrongly'
    """
    wrong = wrong_decoding(text)
    if not wrong:
        return ""
    return (
        f"the transcript was decoded wrongly: {wrong}; give the original file, with --encoding NAME"
        " if it is not UTF-8"
    )


def wrong_decoding(text: str) -> str:
    """Return why a text seems to have been decoded with a wrong encoding, for a message.

    "" if it does not seem so.

    >>> wrong_decoding("GrÃ¼ÃŸe aus KÃ¶ln")
    '"GrÃ¼ÃŸe" is "Grüße" in UTF-8 that was read as Windows-1252'
    >>> wrong_decoding("Grüße aus Köln"), wrong_decoding("NÃO É")
    ('', '')
    """
    if text.isascii():
        return ""
    if "\ufffd" in text:
        return (
            f'"{_example(text)}" has a replacement character (U+FFFD), which stands for a letter'
            " that is lost"
        )
    head = text[:_MOST_BYTES]
    for codec in _WRONG:
        data = _encoded(head, codec)
        right = _from_utf8(data, head, codec)
        name = "UTF-8"
        if not right and codec in _DEFAULTS:
            right, name = _from_other(data, head)
        if right:
            word = next(each for each in re.findall(r"\S+", right) if not each.isascii())
            at = right.split().index(word)
            wrong = _NAMES.get(codec, codec)
            return (
                f'"{_short(head.split()[at])}" is "{_short(word)}" in {name} that was read as'
                f" {wrong}"
            )
    return ""


def _decoded(data: bytes, codec: str) -> str:
    """Return the text, whose last character may be cut; "" if it is not a text in this encoding."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(data)
    except UnicodeDecodeError:
        return ""
    if any("\x7f" <= character < "\xa0" for character in text):
        return ""
    return text


def _score(text: str, language: str, codec: str = "") -> float:
    """Return how likely a text is one in a language, from 0 to 1."""
    if codec in _FIRST_LEVEL:
        return _score_of_asian(text, codec)
    letters = _LETTERS[language]
    common = _COMMON.get(language, frozenset())
    reading = _read(text)
    known = sum(
        count
        for character, count in reading.high.items()
        if {character, character.lower()} & letters
    )
    known -= reading.turned + (reading.mixed if common else 0)
    total = reading.high.total() + reading.marks_in_words
    share = max(known, 0) / total if total else float(not common)  # quotation marks alone
    accented = reading.high.total() / max(
        1, sum(len(word) * count for word, count in reading.words.items())
    )
    if common:
        often = sum(
            count for character, count in reading.high.items() if character.lower() in common
        )
        typical = min(1.0, often / max(1, reading.high.total()) / _COMMON_SHARE)
        share *= min(1.0, accented / _LEAST_FOREIGN)
        return share * (1 - _COMMON_WEIGHT * (1 - typical))
    share *= min(1.0, _MOST_ACCENTED / max(accented, _MOST_ACCENTED))
    words = _WORDS.get(language, frozenset())
    often = sum(reading.words[word] for word in words)
    typical = min(1.0, often / max(1, reading.words.total()) / _WORDS_SHARE)
    return share * (1 - _WORDS_WEIGHT * (1 - typical))


class _Reading(NamedTuple):
    """The counts of a text, and its words in lower case.

    The counts are of characters outside ASCII that are no marks, of capitals after small letters,
    of characters outside ASCII beside letters of ASCII, and of marks inside words.
    """

    high: Counter[str]
    turned: int
    mixed: int
    marks_in_words: int
    words: Counter[str]


@lru_cache(maxsize=8)
def _read(text: str) -> _Reading:
    high = Counter(
        character for character in text if character >= "\x80" and character not in _MARKS
    )
    turned = 0
    mixed = sum(not set(pair) & _MARKS for pair in _IN_TWO_SCRIPTS.findall(text))
    words = Counter(_WORD.findall(unicodedata.normalize("NFC", text)))
    for word, count in words.items():
        if not word.isascii():
            turned += count * sum(
                b.isupper() and b >= "\x80" and a.islower() for a, b in pairwise(word)
            )
    lower = Counter[str]()
    for word, count in words.items():
        lower[word.lower().replace("’", "'")] += count
    return _Reading(high, turned, mixed, len(_MARK_IN_WORD.findall(text)), lower)


def _score_of_asian(text: str, codec: str) -> float:
    """Return the share of common characters in a text of East Asia; Japanese has kana, too."""
    high = Counter(character for character in _WIDE_MARKS.sub("", text) if character >= "\x80")
    kana = sum(count for character, count in high.items() if _KANA.match(character))
    common = sum(
        count
        for character, count in high.items()
        if _is_common(character, *_FIRST_LEVEL[codec].split(","))
    )
    total = sum(count for character, count in high.items() if character not in _MARKS)
    total += _read(text).mixed
    total += 0 if "ko" in _LANGUAGES[codec] else len(_SPACED.findall(text))
    if "ja" in _LANGUAGES[codec]:
        if kana > _LEAST_KANA * total:
            return (kana + common) / max(1, total)
        return 0.0
    return common / max(1, total)


def _is_common(character: str, codec: str, first: str, last: str) -> bool:
    data = character.encode(codec, "ignore")
    return len(data) == 2 and int(first, 16) <= data[0] <= int(last, 16)


def _example(text: str) -> str:
    """Return a word with characters outside ASCII: the first of several letters, else the first."""
    words = [word for word in re.findall(r"\S+", text) if not word.isascii()]
    found = [
        match[0]
        for word in words
        for match in [_WORD.search(word)]
        if match and not match[0].isascii()
    ]
    return _short(next((word for word in found if len(word) > 3), (found or words or [""])[0]))


def _short(word: str) -> str:
    if len(word) <= _LONGEST_SHOWN:
        return word
    return f"{word[: _LONGEST_SHOWN - 1]}…"


def _encoded(text: str, codec: str) -> bytes:
    """Return the bytes from which a text was decoded.

    "?" stands for characters that the encoding does not have.
    """
    try:
        return text.encode(codec)
    except UnicodeEncodeError:
        parts = (
            character.encode(codec, "ignore") or character.encode("latin_1", "replace")
            for character in text
        )
        return b"".join(parts)


def _from_utf8(data: bytes, text: str, codec: str) -> str:
    """Return the text in bytes of UTF-8, "" if they are not."""
    found = _OF_UTF_8.findall(data)
    outside = sum(character >= "\x80" for character in text)
    is_clear = len(found) > 1 or (found and codec == _WRONG[0])
    if is_clear and len(b"".join(found)) > _MOST_UTF_8 * outside:
        return data.decode("utf-8", "replace")
    return ""


def _from_other(data: bytes, text: str) -> tuple[str, str]:
    """Return the text in bytes of another encoding, and the name of that encoding.

    The name is "" if the other encoding is not proven to be better.
    """
    fewest = 2 if len(_TWO_ALPHABETS.findall(text)) > 1 else _FEWEST_WRONG
    is_whole = data.count(b"?") == text.count("?") and sum(byte >= 0x80 for byte in data) >= fewest
    found = likely_encodings(data) if is_whole else ()
    if len(found) != 1 or found[0].score < _PROVEN:
        return "", ""
    here = max(_score(text, language) for language in _LETTERS)
    right = _decoded(data, found[0].codec)
    name = _NAMES[found[0].codec]
    lead = _MUCH_BETTER if name.startswith(_RARE) else _BETTER
    if right != text and found[0].score > here + lead:
        return right, name
    return "", ""
