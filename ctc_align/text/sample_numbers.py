"""Transcripts that begin with their first and last sample, as TIMIT's do: `0 63488 She had your dark suit …`."""

from __future__ import annotations

import re
from dataclasses import replace

from ctc_align.types import MARKUP, Words

_NUMBERS = re.compile(r"\s*0+[ \t]+([0-9]{1,12})(?=[ \t]+\S)")
_RATES = (8000, 16000, 22050, 44100, 48000)
"""Samples a second in which such numbers may count: those of the recording, or of what it was made from."""
_SLACK, _SLACK_S = 0.01, 0.03


def may_have_sample_numbers(text: str) -> bool:
    """Return whether the only line of a text begins with 0, the first sample of a recording, and a larger number.

    >>> may_have_sample_numbers("0 63488 She had it.\\n"), may_have_sample_numbers("1990 63488 had it.")
    (True, False)
    """
    return _last_sample(text) is not None


def _last_sample(text: str) -> re.Match[str] | None:
    """Return where a text has the numbers that it may begin with, the last sample as the first group."""
    found = _NUMBERS.match(text)
    is_one = found is not None and int(found[1]) > 0 and len(text[found.end() :].strip().splitlines()) == 1
    return found if is_one else None


def without_sample_numbers(words: Words, duration_s: float) -> Words:
    """Return the words of a transcript, its first and last sample unspoken (`MARKUP`) where it begins with them.

    They are what they seem to be where the last sample is where the recording ends, to a hundredth, at a usual rate.

    Args:
        words: of the whole transcript.
        duration_s: length of the recording.

    >>> from ctc_align.text import split
    >>> [word.spoken for word in without_sample_numbers(split("0 16000 Yes."), 1.0).words]
    ['', '', 'yes']
    """
    found = _last_sample(words.text)
    if found is None or duration_s <= 0:
        return words
    slack_s = max(_SLACK * duration_s, _SLACK_S)
    if not any(abs(int(found[1]) / rate - duration_s) <= slack_s for rate in _RATES):
        return words
    kept = [word for word in words.words if word.char_start >= found.end()]
    if not any(word.spoken for word in kept):
        return words
    numbers = words.words[: len(words.words) - len(kept)]
    unspoken = [replace(word, spoken="", roman=None, phones=None, reading=None, kind=MARKUP) for word in numbers]
    return replace(words, words=(*unspoken, *kept))
