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
_MOST_NAMED = 10
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
    """Finds the transcripts that several utterances have; memory grows by eight bytes for each utterance."""

    def __init__(self) -> None:
        self._prints = array("Q")

    def add(self, line: Line) -> None:
        if line.text is not None:
            self._prints.append(int(line.text, 16))

    def rows(self, lines: Iterable[Line]) -> list[dict[str, Any]]:
        """Return a row for each such transcript, as `same_texts` of a summary has it; `lines` are all once more.

        Those that fit one of their recordings poorly or not at all go first, then those of most utterances.
        """
        if not self._prints:
            return []
        values, counts = np.unique(np.frombuffer(self._prints, np.uint64), return_counts=True)
        several = values[counts > 1]
        found: dict[int, dict[str, Any]] = {}
        for line in lines if len(several) else ():
            if line.text is None or line.status != DONE:
                continue
            print = int(line.text, 16)
            place = int(np.searchsorted(several, np.uint64(print)))
            if place == len(several) or several[place] != print:
                continue
            row = found.setdefault(print, {"utterances": [], "count": 0, "words": line.words, "misfits": []})
            row["count"] += 1
            for name, is_one in (("utterances", True), ("misfits", line.fit in (POOR, NONE))):
                if is_one and len(row[name]) < _MOST_NAMED:
                    row[name].append(line.id)
        ranked = sorted(found.values(), key=lambda row: (not row["misfits"], -row["count"], row["utterances"]))
        return ranked[:MOST_SAME]
