"""Transcripts that several utterances of a corpus have: by design (many read one sentence), or by mistake."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from ctc_align.corpus.state.journal_lines import DONE, Line
from ctc_align.types import NONE, POOR

MOST_SAME = 1000
"""Transcripts of several utterances that a summary lists."""
MOST_NAMED = 10
"""Utterances of one of them that it names."""
_FEWEST_WORDS = 8
"""Shorter transcripts ("yes", "seven") are the same in many recordings."""


def text_print(text: str, words: int | None) -> str | None:
    """Return 64 bits of a hash of a transcript, in hexadecimal; None of one of few words, which says nothing.

    >>> text_print("a b", 8) == text_print(" a  b ", 8), text_print("a b", 2)
    (True, None)
    """
    if (words or 0) < _FEWEST_WORDS:
        return None
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class SameTexts:
    """Finds the transcripts that several utterances have; memory grows by nine bytes for each utterance."""

    def __init__(self) -> None:
        self._prints = array("Q")
        self._misfits = array("b")

    def add(self, line: Line) -> None:
        """Take the transcript of an utterance that is done, and whether it fits."""
        if line.text is not None:
            self._prints.append(int(line.text, 16))
            self._misfits.append(_is_misfit(line))

    def counts(self) -> dict[str, int]:
        """Return how many such `transcripts` there are, and of how many `utterances`; {} where there are none."""
        _, counts, _ = self._found()
        return {"transcripts": len(counts), "utterances": int(counts.sum())} if len(counts) else {}

    def rows(self, lines: Iterable[Line]) -> list[dict[str, Any]]:
        """Return a row for each such transcript, as `same_texts` of a summary has it; `lines` are all once more.

        Those that fit one of their recordings poorly or not at all go first, then those of most utterances.
        """
        prints, counts, misfits = self._found()
        first = np.lexsort((-counts, misfits == 0))[:MOST_SAME]
        found: dict[int, dict[str, Any]] = {
            int(prints[i]): {"utterances": [], "count": int(counts[i])}
            | {"words": None, "misfits": [], "misfit_count": int(misfits[i])}
            for i in first
        }
        for line in lines if found else ():
            if line.text is None or line.status != DONE or (row := found.get(int(line.text, 16))) is None:
                continue
            row["words"] = line.words
            for name, is_one in (("utterances", True), ("misfits", _is_misfit(line))):
                if is_one and len(row[name]) < MOST_NAMED:
                    row[name].append(line.id)
        return sorted(found.values(), key=lambda row: (not row["misfits"], -row["count"], row["utterances"]))

    def _found(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the prints of such transcripts, the number of their utterances, and of those that they do not fit."""
        prints, places, counts = np.unique(
            np.frombuffer(self._prints, np.uint64), return_inverse=True, return_counts=True
        )
        misfits = np.bincount(places, np.frombuffer(self._misfits, np.int8), len(prints))
        several = counts > 1
        return prints[several], counts[several], misfits[several]


def _is_misfit(line: Line) -> bool:
    return line.fit in (POOR, NONE)
