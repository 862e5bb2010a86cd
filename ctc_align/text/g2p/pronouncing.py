"""Pronunciations of English words: CMUdict's for the words it has, a small CTC network's for all others.

The network alone gets most of CMUdict right; `g2p-exceptions.txt.gz` holds the rest, so that together they are the
whole dictionary. A line there is one of

    word<TAB>P P P[<TAB>P P P …]    its pronunciations, the most common first
    word                            the network's first pronunciation, and no other
"""

from __future__ import annotations

import gzip
import itertools
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from ctc_align.text.g2p.spelling import add_suffix, fold, is_initialism, split_suffix

if TYPE_CHECKING:
    from ctc_align.text.g2p.letter_network import LetterNetwork

Phones = tuple[str, ...]

FOLDER = Path(__file__).resolve().parents[2] / "models" / "english"
WEIGHTS = "g2p.safetensors"
EXCEPTIONS = "g2p-exceptions.txt.gz"
LEAST_RATIO = 0.2
"""Least likelihood of a pronunciation from the network, relative to its likeliest."""

_MOST_CACHED = 500_000
_CANDIDATES = 4
_BATCH_WORDS = 512
_PIECE_LETTERS = 40


class LetterToPhone:
    """Pronunciations of spoken English words. Threads that share one wait for each other.

    >>> speaker = LetterToPhone.load()
    >>> speaker.pronounce(["cat", "the"])
    [[('K', 'AE', 'T')], [('DH', 'AH'), ('DH', 'IY')]]
    """

    def __init__(self, folder: Path, exceptions: dict[str, str]) -> None:
        self._folder = folder
        self.exceptions = exceptions
        self.candidates: dict[str, list[tuple[Phones, float]]] = {}
        self._wanted: set[str] = set()
        self._turn = threading.Lock()

    @classmethod
    def load(cls, folder: Path = FOLDER) -> LetterToPhone:
        """Read the exceptions in `folder`; the network is read when a word first needs it."""
        lines = gzip.decompress((folder / EXCEPTIONS).read_bytes()).decode("utf-8").splitlines()
        parts = (line.partition("\t") for line in lines if not line.startswith("#"))
        return cls(folder, {word: pronunciations for word, _, pronunciations in parts})

    def pronounce(self, words: Sequence[str], best: int = 2) -> list[list[Phones]]:
        """Return the pronunciations of each word, best first, as phones without stress.

        Args:
            words: single spoken words (no spaces); accents are folded, letters that English lacks are left out.
            best: the most for a word that CMUdict lacks; of CMUdict's words all are returned.

        Returns:
            One list per word; empty where no letter of a-z is left.
        """
        folded = [fold(word)[0] for word in words]
        with self._turn:
            self.prepare(folded, best)
            return [self._pronunciations(word, best) for word in folded]

    def prepare(self, folded: Iterable[str], best: int) -> None:
        """Run the network once over all words that are needed to pronounce `folded`."""
        if len(self.candidates) > _MOST_CACHED:
            self.candidates.clear()
        for word in dict.fromkeys((*folded, *ascii_lowercase)):  # letters: a word may have to be spelt
            self._pronunciations(word, best)  # notes in `_wanted` what is missing
        wanted, self._wanted = sorted(self._wanted), set()
        self.candidates.update(self._run(wanted))

    def _pronunciations(self, word: str, best: int) -> list[Phones]:
        known = self.exceptions.get(word)
        if known:
            return [tuple(phones.split(" ")) for phones in known.split("\t")]
        if known is not None:
            best = 1
        return self.derive(word, best)[:best]

    def derive(self, word: str, best: int) -> list[Phones]:
        """Return the pronunciations of a word that is not an exception, by rules and the network."""
        if not word:
            return []
        if word.endswith("'") or word.startswith("'"):
            return self._pronunciations(word.removesuffix("'") if word.endswith("'") else word[1:], best)
        split = split_suffix(word)
        if split is not None:
            return [add_suffix(phones, split[1]) for phones in self._pronunciations(split[0], best)]
        if len(word) > _PIECE_LETTERS:
            pieces = (word[start : start + _PIECE_LETTERS] for start in range(0, len(word), _PIECE_LETTERS))
            return [tuple(itertools.chain(*(p for piece in pieces for p in self._pronunciations(piece, 1))))]
        phones = self.by_network(word)
        if is_initialism(word) or (word in self.candidates and not phones and len(word) > 1):
            names = tuple(itertools.chain(*(name for letter in word for name in self._pronunciations(letter, 1))))
            phones = [names, *(other for other in phones if other != names)]
        return phones

    def by_network(self, word: str) -> list[Phones]:
        """Return the network's pronunciations of a word, none before it was prepared."""
        candidates = self.candidates.get(word)
        if candidates is None:
            self._wanted.add(word)
            return []
        return [phones for phones, ratio in candidates if ratio >= LEAST_RATIO]

    def _run(self, words: Sequence[str]) -> dict[str, list[tuple[Phones, float]]]:
        """Return the network's candidates with their likelihood relative to the first, in batches of one length."""
        if not words:
            return {}
        import torch

        from ctc_align.text.g2p.letter_network import LABELS, encode, likeliest

        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        candidates: dict[str, list[tuple[Phones, float]]] = {}
        for same in by_length.values():
            for start in range(0, len(same), _BATCH_WORDS):
                batch = same[start : start + _BATCH_WORDS]
                with torch.inference_mode():
                    probs = self._network(encode(batch)).exp().numpy()
                for word, rows in zip(batch, probs):
                    best = [(ids, p) for ids, p in likeliest(rows, _CANDIDATES) if ids]
                    candidates[word] = [(tuple(LABELS[i] for i in ids), p / best[0][1]) for ids, p in best]
        return candidates

    @cached_property
    def _network(self) -> LetterNetwork:
        from ctc_align.text.g2p.letter_network import read_network

        return read_network(self._folder / WEIGHTS)


@lru_cache(maxsize=1)
def letter_to_phone() -> LetterToPhone:
    """Return the package's letter-to-phone: one for all, which remembers what it was asked."""
    return LetterToPhone.load()
