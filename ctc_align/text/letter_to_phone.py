"""Pronunciations of English words.

From CMUdict if it has the word, otherwise from a small CTC network.

Words are folded to the letters a-z and apostrophes first; clitics ('s, 'll) are added by rules, and
initials are spelled out.
"""

from __future__ import annotations

import mmap
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from ctc_align.text.phone_sets import Phones
from ctc_align.text.tables import character_table, text_table

if TYPE_CHECKING:
    from ctc_align.text.letter_network import LetterNetwork

_FOLDED = character_table("words", "plain-letters")
_SUFFIXES = ("'s", "'ll", "'d", "'ve", "'re")
_LONGEST_INITIALS = 4


def fold(spoken: str) -> tuple[str, tuple[str, ...]]:
    """Return a word in a-z and apostrophes, and its letters that cannot be written so.

    The letters are in NFC.

    Accents are removed (é is e), ß is ss, æ is ae; anything but letters, digits and marks is
    dropped.

    >>> fold("Zoë's"), fold("straße"), fold("tschüß!")
    (("zoe's", ()), ('strasse', ()), ('tschuss', ()))
    >>> fold("wодa")
    ('wa', ('о', 'д'))
    """
    if spoken.isascii() and spoken.isalpha():
        return spoken.lower(), ()
    letters = []
    missing = []
    for character in unicodedata.normalize("NFC", spoken.lower()):
        folded = _folded(character)
        if folded is None:
            missing.append(character)
        else:
            letters.append(folded)
    return "".join(letters), tuple(missing)


@lru_cache(maxsize=16384)
def _folded(character: str) -> str | None:
    """Return one character in a-z and '.

    "" if it is not pronounced, None if English has no letters for it.
    """
    if "a" <= character <= "z" or character == "'":
        return character
    if character in _FOLDED:
        return _FOLDED[character]
    base = [
        part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part)
    ]
    folded = "".join(_FOLDED.get(part, part) for part in base).lower()
    if base and all("a" <= part <= "z" or part == "'" for part in folded):
        return folded
    category = unicodedata.category(character)
    # Marks with combining class 0 are vowel signs of Indic scripts and the like: letters, unlike
    # accents.
    is_sign = (
        category in ("Mc", "Mn")
        and unicodedata.combining(character) == 0
        and not _is_selector(character)
    )
    if category[0] in "LN" or is_sign:
        return None
    return ""


def _is_selector(character: str) -> bool:
    return (
        "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or character == "\u034f"
    )


def split_suffix(word: str) -> tuple[str, str] | None:
    """Return (base, clitic) of "john's", "they'll" …; None for a word without a clitic.

    >>> split_suffix("john's"), split_suffix("'s"), split_suffix("don't")
    (('john', "'s"), None, None)
    """
    for suffix in _SUFFIXES:
        base = word.removesuffix(suffix)
        if base != word and any(letter != "'" for letter in base):
            return base, suffix
    return None


def add_suffix(phones: Phones, suffix: str) -> Phones:
    """Return a pronunciation with a clitic of `split_suffix` after it.

    >>> add_suffix(("CH", "ER", "CH"), "'s"), add_suffix(("K", "AE", "T"), "'s"), add_suffix(("B", "IY"), "'s")
    (('CH', 'ER', 'CH', 'IH', 'Z'), ('K', 'AE', 'T', 'S'), ('B', 'IY', 'Z'))
    """
    for clitic, said in text_table("phones", "clitics").items():
        written, _, before = clitic.partition("/")
        if written == suffix and (not before or not {*phones[-1:]}.isdisjoint(before.split(","))):
            return (*phones, *said.split())
    raise KeyError(suffix)


def is_initialism(word: str) -> bool:
    """Return whether a word looks like initials that are spelled out.

    Two to four letters without a vowel.

    >>> is_initialism("bbc"), is_initialism("rhythm"), is_initialism("b")
    (True, False, False)
    """
    return 2 <= len(word) <= _LONGEST_INITIALS and not set(word) & set("aeiouy'")


FOLDER = Path(__file__).resolve().parents[1] / "models" / "english"
WEIGHTS = "g2p.safetensors"
DICTIONARY = "cmudict.tsv"
LEAST_RATIO = 0.2
"""The least likelihood of a pronunciation from the network, relative to the likeliest one."""

_MOST_CACHED = 500_000
_CANDIDATES = 4
_BATCH_WORDS = 512
_PIECE_LETTERS = 40


class Dictionary:
    """A dictionary whose words are looked up in its file.

    Only the pages of the file that are needed are read.

    A line is `word<TAB>P P P[<TAB>P P P …]`, the most common pronunciation first; the lines are
    sorted by their bytes.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __contains__(self, word: str) -> bool:
        return bool(self.pronunciations(word))

    def pronunciations(self, word: str) -> list[Phones]:
        """Return the pronunciations of a word, best first, [] for a word that is not there."""
        lines = self._lines
        wanted = word.encode() + b"\t"
        low, high = 0, len(lines)
        while low < high:
            begin = lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = lines.find(b"\n", begin)
            line = lines[begin:end]
            if line.startswith(wanted):
                return [
                    tuple(phones.split(" "))
                    for phones in line[len(wanted) :].decode("ascii").split("\t")
                ]
            low, high = (end + 1, high) if line < wanted else (low, begin)
        return []


class LetterToPhone:
    """Pronunciations of spoken English words. Threads that share one wait for each other.

    >>> LetterToPhone().pronounce(["cat", "the"])
    [[('K', 'AE', 'T')], [('DH', 'AH'), ('DH', 'IY')]]

    Args:
        folder: of the dictionary and the network, which is read when a word first needs it.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self.dictionary = Dictionary(folder / DICTIONARY)
        self._candidates: dict[str, list[tuple[Phones, float]]] = {}
        self._wanted: set[str] = set()
        self._turn = threading.Lock()

    def pronounce(self, words: Sequence[str], best: int = 2) -> list[list[Phones]]:
        """Return the pronunciations of each word, best first, as phones without stress.

        Args:
            words: single spoken words (no spaces); accents are folded, letters that English lacks
                are left out.
            best: the most pronunciations of a word that CMUdict lacks; other words get all
                pronunciations of CMUdict.

        Returns:
            One list per word; empty if no letter of a-z remains.
        """
        folded = [fold(word)[0] for word in words]
        with self._turn:
            self._prepare(folded, best)
            return [self._pronunciations(word, best) for word in folded]

    def _prepare(self, folded: Sequence[str], best: int) -> None:
        """Run the network once over all words that are needed to pronounce `folded`."""
        if len(self._candidates) > _MOST_CACHED:
            self._candidates.clear()
        # adds to `_wanted` what the network must read; a word that it cannot read is spelled out,
        # letter by letter
        for words in (dict.fromkeys(folded), ascii_lowercase if self._wanted else ""):
            for word in words:
                self._pronunciations(word, best)
        wanted, self._wanted = sorted(self._wanted), set()
        self._candidates.update(self._run(wanted))

    def _pronunciations(self, word: str, best: int) -> list[Phones]:
        return self.dictionary.pronunciations(word) or self._derived(word, best)[:best]

    def _derived(self, word: str, best: int) -> list[Phones]:
        """Return the pronunciations of a word that the dictionary lacks.

        They come from rules and from the network.
        """
        if not word:
            return []
        if word.endswith("'") or word.startswith("'"):
            return self._pronunciations(
                word.removesuffix("'") if word.endswith("'") else word[1:], best
            )
        split = split_suffix(word)
        if split is not None:
            return [add_suffix(phones, split[1]) for phones in self._pronunciations(split[0], best)]
        if len(word) > _PIECE_LETTERS:
            pieces = (
                word[start : start + _PIECE_LETTERS]
                for start in range(0, len(word), _PIECE_LETTERS)
            )
            return [self._in_turn(pieces)]
        phones = self._by_network(word)
        if is_initialism(word) or (word in self._candidates and not phones and len(word) > 1):
            names = self._in_turn(word)
            phones = [names, *(other for other in phones if other != names)]
        return phones

    def _in_turn(self, words: Iterable[str]) -> Phones:
        """Return the best pronunciations of words, one after the other."""
        said = (phones for word in words for phones in self._pronunciations(word, 1))
        return tuple(phone for phones in said for phone in phones)

    def _by_network(self, word: str) -> list[Phones]:
        """Return the network's pronunciations of a word; [] before it was prepared."""
        candidates = self._candidates.get(word)
        if candidates is None:
            self._wanted.add(word)
            return []
        return [phones for phones, ratio in candidates if ratio >= LEAST_RATIO]

    def _run(self, words: Sequence[str]) -> dict[str, list[tuple[Phones, float]]]:
        """Return the network's candidates with their likelihood relative to the first.

        Words of one length are a batch.
        """
        if not words:
            return {}
        from ctc_align.text.letter_network import LABELS, encode, likeliest
        from ctc_align.threads import on_one_thread

        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        candidates: dict[str, list[tuple[Phones, float]]] = {}
        for same in by_length.values():
            for start in range(0, len(same), _BATCH_WORDS):
                batch = same[start : start + _BATCH_WORDS]
                probs = on_one_thread(partial(self._network, encode(batch)))
                for word, rows in zip(batch, probs):
                    best = [(ids, p) for ids, p in likeliest(rows, _CANDIDATES) if ids]
                    candidates[word] = [
                        (tuple(LABELS[i] for i in ids), p / best[0][1]) for ids, p in best
                    ]
        return candidates

    @cached_property
    def _network(self) -> LetterNetwork:
        from ctc_align.text.letter_network import read_network

        return read_network(self._folder / WEIGHTS)


@lru_cache(maxsize=1)
def letter_to_phone() -> LetterToPhone:
    """Return the letter-to-phone converter of the package: one for all callers, with a cache."""
    return LetterToPhone()


def english_words() -> Dictionary:
    """Return CMUdict; none of its words has a hyphen.

    >>> "comparatively" in english_words(), "compar" in english_words()
    (True, False)
    """
    return letter_to_phone().dictionary
