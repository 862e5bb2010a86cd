"""Pronunciations of English spellings, offline: CMUdict's for the words it has, a small CTC network for all others.

The network alone gets most of CMUdict right; `g2p-exceptions.txt.gz` beside it holds the rest of CMUdict, so that
together they are the whole dictionary. A line there is one of

    word<TAB>P P P[<TAB>P P P …]    its pronunciations, the most common first
    word                            the network's first pronunciation, and no other
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from ctc_align.text.g2p.spelling import add_suffix, fold, is_initialism, split_suffix

if TYPE_CHECKING:
    from ctc_align.text.g2p.letter_network import Network

Phones = tuple[str, ...]

FOLDER = Path(__file__).resolve().parents[2] / "models" / "english"
WEIGHTS = "g2p.safetensors"
EXCEPTIONS = "g2p-exceptions.txt.gz"
LEAST_RATIO = 0.2
"""A pronunciation of the network counts if it is at least so likely, relative to the likeliest."""

_MOST_CACHED = 500_000
_CANDIDATES = 4
_BATCH_WORDS = 512
_PIECE_LETTERS = 40


class LetterToPhone:
    """Pronounces spoken words.

    >>> speaker = LetterToPhone.load()
    >>> speaker.pronounce(["cat", "the"])
    [[('K', 'AE', 'T')], [('DH', 'AH'), ('DH', 'IY')]]
    """

    def __init__(self, folder: Path, exceptions: dict[str, str]) -> None:
        self._folder = folder
        self._exceptions = exceptions
        self._heard: dict[str, list[tuple[Phones, float]]] = {}
        self._wanted: set[str] = set()

    @classmethod
    def load(cls, folder: Path = FOLDER) -> LetterToPhone:
        """The letter-to-phone model in `folder`; the network itself is read when a word first needs it."""
        lines = gzip.decompress((folder / EXCEPTIONS).read_bytes()).decode("utf-8").splitlines()
        parts = (line.partition("\t") for line in lines if not line.startswith("#"))
        return cls(folder, {word: pronunciations for word, _, pronunciations in parts})

    def pronounce(self, words: Sequence[str], best: int = 2) -> list[list[Phones]]:
        """Pronunciations of each word, best first, as phones without stress.

        Args:
            words: single spoken words (no spaces); accents are folded, letters that English lacks are left out.
            best: at most so many for a word that CMUdict does not have; CMUdict's own all come.

        Returns:
            One list per word, in order; empty where no letter of a-z is left.
        """
        folded = [fold(word)[0] for word in words]
        self._hear(folded, best)
        return [self._say(word, best) for word in folded]

    def _hear(self, folded: Iterable[str], best: int) -> None:
        """Run the network once over all words that pronouncing `folded` will ask it for."""
        if len(self._heard) > _MOST_CACHED:
            self._heard.clear()
        for word in dict.fromkeys((*folded, *ascii_lowercase)):  # letters, in case a word must be spelt
            self._say(word, best)  # only notes in `_wanted` what it lacks
        wanted, self._wanted = sorted(self._wanted), set()
        self._heard.update(self._run(wanted))

    def _say(self, word: str, best: int) -> list[Phones]:
        known = self._exceptions.get(word)
        if known:
            return [tuple(phones.split(" ")) for phones in known.split("\t")]
        if known is not None:
            best = 1
        return self._derive(word, best)[:best]

    def _derive(self, word: str, best: int) -> list[Phones]:
        """What rules and network say of a word that is not an exception."""
        if not word:
            return []
        if word.endswith("'") or word.startswith("'"):
            return self._say(word.removesuffix("'") if word.endswith("'") else word[1:], best)
        split = split_suffix(word)
        if split is not None:
            return [add_suffix(phones, split[1]) for phones in self._say(split[0], best)]
        if len(word) > _PIECE_LETTERS:
            pieces = (word[start : start + _PIECE_LETTERS] for start in range(0, len(word), _PIECE_LETTERS))
            return [tuple(phone for piece in pieces for said in self._say(piece, 1) for phone in said)]
        said = self._network_says(word)
        if is_initialism(word) or (word in self._heard and not said and len(word) > 1):
            names = tuple(phone for letter in word for name in self._say(letter, 1) for phone in name)
            said = [names, *(phones for phones in said if phones != names)]
        return said

    def _network_says(self, word: str) -> list[Phones]:
        heard = self._heard.get(word)
        if heard is None:
            self._wanted.add(word)
            return []
        return [phones for phones, ratio in heard if ratio >= LEAST_RATIO]

    def _run(self, words: Sequence[str]) -> dict[str, list[tuple[Phones, float]]]:
        """The network's candidates with their likelihood relative to the first, in batches of words of one length."""
        if not words:
            return {}
        import torch

        from ctc_align.text.g2p.letter_network import LABELS, encode, likeliest

        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        found: dict[str, list[tuple[Phones, float]]] = {}
        for same in by_length.values():
            for start in range(0, len(same), _BATCH_WORDS):
                batch = same[start : start + _BATCH_WORDS]
                with torch.inference_mode():
                    probs = self._network(encode(batch)).exp().numpy()
                for word, rows in zip(batch, probs):
                    said = [(ids, p) for ids, p in likeliest(rows, _CANDIDATES) if ids]
                    found[word] = [(tuple(LABELS[i] for i in ids), p / said[0][1]) for ids, p in said]
        return found

    @cached_property
    def _network(self) -> Network:
        from ctc_align.text.g2p.letter_network import read_network

        return read_network(self._folder / WEIGHTS)
