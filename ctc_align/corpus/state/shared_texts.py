"""Texts that several utterances of a corpus share.

If each recording reads a part of one text, this module finds the passages that no recording reads,
and those that two recordings read. The journal has the part of each recording; the passages between
the parts are read from the text file, if it still exists. The module also finds transcripts that
several utterances have, by design (many speakers read one sentence) or by mistake.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctc_align.corpus.state.journal import DONE, Line
from ctc_align.errors import CtcAlignError
from ctc_align.reading import JsonObject
from ctc_align.text import split
from ctc_align.types import NONE, POOR

MOST_GAPS = 1000
"""The maximum number of gaps, and overlaps, that are listed for one text."""
_FEWEST_TWICE = 4
"""The fewest words in a row that count as an overlap: a few at an edge match by chance."""
_SHOWN_CHARS = 60
MOST_SAME = 1000
"""The maximum number of shared transcripts that a summary lists."""
MOST_NAMED = 10
"""The maximum number of utterances of a shared transcript that the summary names."""
_FEWEST_WORDS = 8
"""Shorter transcripts ("yes", "seven") are the same in many recordings."""


class _Stretch(NamedTuple):
    """A stretch of a text.

    `char_end` is None if it extends to the end of a text that can no longer be read. `utterances`:
    the recordings around a gap (None at the start and at the end of the text), or the two of an
    overlap.
    """

    char_start: int
    char_end: int | None
    utterances: tuple[str | None, str | None]


class TextCoverage:
    """The parts of texts that recordings read, collected from the lines of journals."""

    def __init__(self) -> None:
        self._read: dict[str, list[tuple[int, int, str]]] = {}
        """The stretches that recordings read, by the path of their text.

        A stretch is (first character, end, recording).
        """

    def add(self, line: Line) -> None:
        """Add the part that a recording reads, if it reads most of its words.

        Otherwise only its text is added.
        """
        if line.result.book is None:
            return
        read = self._read.setdefault(line.result.book, [])
        if line.result.part is None or 2 * (line.result.skipped or 0) > (line.result.words or 0):
            return
        start, stop = line.result.part
        for first, end in (*(line.result.left_out or ()), (stop, stop)):  # ascending
            if start < first:
                read.append((start, first, line.id))
            start = end

    def stretches(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the passages that no recording reads, and those that two read.

        They are as in `summary.json`. Texts are read one by one, in order. A gap has words that can
        be spoken, an overlap several of them.

        Gaps: `text` (path), `char_start`, `char_end` (code points, end exclusive; None: to the end
        of a text that can no longer be read), `after` and `before`: the recordings around it (the
        same one for a gap within a recording; None at the start and at the end), `words`: the
        number of words that can be spoken (None without the text), `begins`: its first words, or
        all; `ends`: its last words, "" if `begins` has all. Instead of the recordings around it, an
        overlap has `utterances`, the two that read it; a third one makes another overlap.
        """
        gaps: list[JsonObject] = []
        overlaps: list[JsonObject] = []
        for path in sorted(self._read):
            text = _text_of(path)
            read = sorted(self._read[path])
            for one, named in _named(
                list(_between(read, None if text is None else len(text))), text, fewest=1
            ):
                after, before = one.utterances
                gaps.append(
                    {"text": path, **_chars(one), "after": after, "before": before, **named}
                )
            for one, named in _named(list(_twice(read)), text, fewest=_FEWEST_TWICE):
                overlaps.append(
                    {"text": path, **_chars(one), "utterances": list(one.utterances), **named}
                )
        return gaps, overlaps


def _chars(stretch: _Stretch) -> dict[str, int | None]:
    return {"char_start": stretch.char_start, "char_end": stretch.char_end}


def _text_of(path: str) -> str | None:
    """Return a text, None if it cannot be read (or no longer)."""
    from ctc_align.files.transcripts import read_transcript

    try:
        return read_transcript(path)
    except (CtcAlignError, OSError):
        return None


def _named(
    stretches: Sequence[_Stretch], text: str | None, fewest: int
) -> list[tuple[_Stretch, JsonObject]]:
    """Return the first MOST_GAPS stretches of at least `fewest` words, with the words.

    Without the text, all stretches count.
    """
    if text is None:
        return [(each, {"words": None, "begins": "", "ends": ""}) for each in stretches[:MOST_GAPS]]
    starts = _spoken_in(stretches, text)
    found: list[tuple[_Stretch, JsonObject]] = []
    for each in stretches:
        end = len(text) if each.char_end is None else each.char_end
        words = bisect_left(starts, end) - bisect_left(starts, each.char_start)
        if words >= fewest and len(found) < MOST_GAPS:
            begins, ends = _named_by(text[each.char_start : end])
            found.append((each, {"words": words, "begins": begins, "ends": ends}))
    return found


def _spoken_in(stretches: Sequence[_Stretch], text: str) -> list[int]:
    """Return where the words in ascending stretches begin.

    Text that lies in several stretches is split only once.
    """
    joined: list[list[int]] = []
    for each in stretches:
        end = len(text) if each.char_end is None else each.char_end
        if joined and each.char_start < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([each.char_start, end])
    return [
        start + word.char_start
        for start, end in joined
        for word in split(text[start:end]).words
        if word.spoken
    ]


def _twice(read: Sequence[tuple[int, int, str]]) -> Iterator[_Stretch]:
    """Yield the stretches that a recording and an earlier one both read (`read` ascends)."""
    end = 0
    by = ""
    for start, stop, id in read:
        if start < min(stop, end) and id != by:
            yield _Stretch(start, min(stop, end), (by, id))
        if stop > end:
            end = stop
            by = id


def _named_by(stretch: str) -> tuple[str, str]:
    """Return the first words of a stretch and the last ones, or all of a short one and "".

    >>> _named_by("a b"), _named_by("first " + "long " * 40 + "last")[1]
    (('a b', ''), 'long long long long long last')
    """
    head = " ".join(stretch[: 4 * _SHOWN_CHARS].split())
    tail = " ".join(stretch[-4 * _SHOWN_CHARS :].split())
    if len(stretch) <= 4 * _SHOWN_CHARS and len(head) <= _SHOWN_CHARS:
        return head, ""
    first = head[:_SHOWN_CHARS]
    last = tail[-_SHOWN_CHARS // 2 :]
    return first.rpartition(" ")[0] or first, last.partition(" ")[2] or last


def gap_words(gap: Mapping[str, Any]) -> str:
    """Return the words that name a gap of `summary.json`.

    >>> gap_words({"begins": "All of", "ends": "it is."}), gap_words({"begins": "All"})
    ('All of … it is.', 'All')
    """
    if gap.get("ends"):
        return f"{gap['begins']} … {gap['ends']}"
    return str(gap["begins"])


def gap_place(gap: Mapping[str, Any]) -> str:
    """Return a description of where a gap is, in terms of the recordings around it.

    >>> gap_place({"after": None, "before": "01"}), gap_place({"after": "01", "before": "01"})
    ('between the start and 01', 'within 01')
    """
    if gap["after"] is not None and gap["after"] == gap["before"]:
        return f"within {gap['after']}"
    return f"between {gap['after'] or 'the start'} and {gap['before'] or 'the end'}"


def _between(read: Sequence[tuple[int, int, str]], length: int | None) -> Iterator[_Stretch]:
    """Yield the passages around the parts `read` (ascending).

    `length` is the length of the text, if it is known. A passage that one recording leaves out lies
    between two that it reads.
    """
    end = 0
    last: list[str | None] = [None]
    """The recordings whose parts extend to `end`."""
    for start, stop, id in read:
        if start > end:
            yield _Stretch(end, start, (id if id in last else last[-1], id))
        if stop > end:
            last.clear()
        if stop >= end:
            last.append(id)
        end = max(end, stop)
    if length is None or end < length:
        yield _Stretch(end, length, (last[-1], None))


def text_hash(text: str, words: int | None) -> str | None:
    """Return 64 bits of a hash of a transcript, in hexadecimal.

    It is None if the transcript is too short to tell texts apart.

    >>> text_hash("a b", 8) == text_hash(" a  b ", 8), text_hash("a b", 2)
    (True, None)
    """
    if (words or 0) < _FEWEST_WORDS:
        return None
    return hashlib.blake2b(
        " ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


class SameTexts:
    """Finds transcripts that several utterances share; memory grows by nine bytes per utterance."""

    def __init__(self) -> None:
        self._prints = array("Q")
        self._misfits = array("b")

    def add(self, line: Line) -> None:
        """Add the transcript of a completed utterance, and whether it fits."""
        if line.result.text is not None:
            self._prints.append(int(line.result.text, 16))
            self._misfits.append(_is_misfit(line))

    def counts(self) -> dict[str, int]:
        """Return the number of such `transcripts` and of their `utterances`; {} without any."""
        _, counts, _ = self._found()
        if len(counts):
            return {"transcripts": len(counts), "utterances": int(counts.sum())}
        return {}

    def rows(self, lines: Iterable[Line]) -> list[JsonObject]:
        """Return a row for each such transcript, as in `same_texts` of a summary.

        This takes a second pass over all `lines`. Transcripts that fit one of their recordings
        poorly or not at all come first, then those with the most utterances.
        """
        prints, counts, misfits = self._found()
        first = np.lexsort((-counts, misfits == 0))[:MOST_SAME]
        found: dict[int, JsonObject] = {
            int(prints[i]): (
                {"utterances": [], "count": int(counts[i])}
                | {"words": None, "misfits": [], "misfit_count": int(misfits[i])}
            )
            for i in first
        }
        for line in lines if found else ():
            if (
                line.result.text is None
                or line.status != DONE
                or (row := found.get(int(line.result.text, 16))) is None
            ):
                continue
            row["words"] = line.result.words
            for name, is_one in (("utterances", True), ("misfits", _is_misfit(line))):
                if is_one and len(row[name]) < MOST_NAMED:
                    row[name].append(line.id)
        return sorted(
            found.values(), key=lambda row: (not row["misfits"], -row["count"], row["utterances"])
        )

    def _found(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the transcripts that are used more than once.

        Each has its hash, its number of utterances, and that of misfits.
        """
        prints, indices, counts = np.unique(
            np.frombuffer(self._prints, np.uint64), return_inverse=True, return_counts=True
        )
        misfits = np.bincount(indices, np.frombuffer(self._misfits, np.int8), len(prints))
        several = counts > 1
        return prints[several], counts[several], misfits[several]


def _is_misfit(line: Line) -> bool:
    return line.result.fit in (POOR, NONE)
