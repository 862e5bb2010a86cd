"""Words fixed by a person: rules that they keep, with errors that name the word, and files that are never lost."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from ctc_align.errors import InputError, OutputError
from ctc_align.formats.whole_files import is_link
from ctc_align.reading import read_input
from ctc_align.text.elan_files import read_elan
from ctc_align.text.textgrid_files import read_textgrid
from ctc_align.types import HAND, AlignedToken, AlignedWord

SLACK_S = 1e-5
"""Times are rounded to so much."""
_LONGEST_NAME = 40
_BY_HAND = re.compile(rb'"by"\s*:\s*"hand"')
_LABEL_FILES: dict[str, Callable[[Path], object]] = {
    ".textgrid": read_textgrid,
    ".eaf": lambda path: read_elan(read_input(path, factor=1).decode("utf-8"), path.name),
}

logger = logging.getLogger(__name__)


def is_fixed(word: AlignedWord) -> bool:
    """Return whether a person has fixed the edges of a word."""
    return word.by == HAND


def fixes_of(words: Sequence[AlignedWord]) -> set[tuple[object, ...]]:
    """Return what a person has fixed: the spans and times, in seconds, of words, and the tokens in them."""
    return {
        (word.char_start, word.text, word.start_s, word.end_s, tuple(token for token in word.tokens if token.by))
        for word in words
        if is_fixed(word)
    }


def fixed_name(word: AlignedWord) -> str:
    """Return a word with its times, for messages.

    >>> fixed_name(AlignedWord("We", "we", 0, 2, start_s=0.1, end_s=0.25, by="hand"))
    "'We' (0.100–0.250 s, by hand)"
    """
    text = word.text if len(word.text) <= _LONGEST_NAME else word.text[:_LONGEST_NAME] + "…"
    if word.start_s is None or word.end_s is None:
        return repr(text)
    by = ", by hand" if is_fixed(word) else ""
    return f"{text!r} ({word.start_s:.3f}–{word.end_s:.3f} s{by})"


def check_fixed_words(words: Sequence[AlignedWord], text: str, duration_s: float, name: str) -> None:
    """Raise InputError, which begins with `name`, where corrected words cannot be as they are.

    Nothing is checked of an alignment that no person has corrected.

    Args:
        words: of the transcript, in its order, all that has times with both of them.
        text: the transcript.
        duration_s: length of the utterance.
        name: the file.
    """
    if not any(is_fixed(word) or any(token.by for token in word.tokens) for word in words):
        return
    faults = (_fault_of_spans(words, text), *(_fault_of_word(word, duration_s) for word in words), _crossing(words))
    fault = next((fault for fault in faults if fault is not None), None)
    if fault is not None:
        raise InputError(f"{name}: {fault}")


def is_corrected(path: Path) -> bool:
    """Return whether a file, no link, is the JSON of an alignment in which a person has fixed words."""
    try:
        if path.suffix != ".json" or is_link(path) or not path.is_file():
            return False
        return _BY_HAND.search(read_input(path, factor=1)) is not None
    except OSError:
        return False


def is_whole_label_file(path: Path) -> bool:
    """Return whether a file, no link, is a TextGrid or an ELAN file to its end: nothing is torn."""
    reader = _LABEL_FILES.get(path.suffix.casefold())
    if reader is None or is_link(path) or not path.is_file():
        return False
    try:
        reader(path)
    except (InputError, OSError, UnicodeDecodeError):
        return False
    return True


def keep_aside(path: Path) -> Path:
    """Move a file that others have changed out of the way, to NAME.hand.EXTENSION, and return where it is.

    Raises:
        OutputError: it cannot be moved.
    """
    kept = path.with_suffix(f".hand{path.suffix}")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = path.with_suffix(f".hand-{number}{path.suffix}")
    try:
        os.rename(path, kept)
    except OSError as error:
        raise OutputError(
            f"{path}: was changed by hand, and cannot be moved to {kept.name} ({error.strerror})"
        ) from error
    return kept


def keep_corrected(path: Path) -> None:
    """Move a file that a person has corrected out of the way, to NAME.hand.json, and warn; leave all others.

    Raises:
        OutputError: it cannot be moved.
    """
    if not is_corrected(path):
        return
    kept = keep_aside(path)
    logger.warning("%s has words by hand, and its utterance was done again: it is kept as %s", path, kept.name)


def _fault_of_spans(words: Sequence[AlignedWord], text: str) -> str | None:
    end = 0
    for number, word in enumerate(words, 1):
        own = f"word {number} {fixed_name(word)}"
        if word.char_start < end:
            return f"{own} begins at character {word.char_start}, before the word before it ends ({end}): move it"
        if text[word.char_start : word.char_end] != word.text:
            there = text[word.char_start : word.char_end][:_LONGEST_NAME]
            return (
                f"{own}: `text` has {there!r} at characters {word.char_start}:{word.char_end}; a word that is changed "
                "must be changed in `text`, too, and the spans after it moved"
            )
        end = word.char_end
    return None


def _fault_of_word(word: AlignedWord, duration_s: float) -> str | None:
    if not is_fixed(word):
        fixed = next((token for token in word.tokens if token.by), None)
        if fixed is None:
            return None
        return f'token {fixed.token!r} of {fixed_name(word)} is by hand, its word is not: give it "by", too'
    assert word.start_s is not None
    assert word.end_s is not None
    if word.start_s >= word.end_s:
        return f"{fixed_name(word)} is empty: give it an end after its start, or delete it"
    if word.end_s > duration_s + SLACK_S:
        return f"{fixed_name(word)} leaves the recording, which is {duration_s:.3f} s long: move it"
    times = [word.start_s, *(time_s for token in word.tokens for time_s in (token.start_s, token.end_s)), word.end_s]
    empty: AlignedToken | None = next((token for token in word.tokens if token.start_s >= token.end_s), None)
    if empty is None and all(before <= after + SLACK_S / 10 for before, after in pairwise(times)):
        return None
    which = f"its token {empty.token!r} is empty" if empty else "its tokens cross each other or its edges"
    return f'{fixed_name(word)}: {which}: move them, or give it "tokens": [] to have them placed'


def _crossing(words: Sequence[AlignedWord]) -> str | None:
    """Return the fault of a word by hand that overlaps another word."""
    timed = [word for word in words if word.start_s is not None and word.end_s is not None]
    timed.sort(key=lambda word: (word.start_s or 0.0, word.end_s or 0.0))
    latest: AlignedWord | None = None
    for word in timed:
        crosses = latest is not None and (word.start_s or 0.0) < (latest.end_s or 0.0) - SLACK_S / 10
        if crosses and latest is not None and (is_fixed(word) or is_fixed(latest)):
            return f"{fixed_name(latest)} and {fixed_name(word)} overlap: move the edges of one of them"
        if latest is None or (word.end_s or 0.0) > (latest.end_s or 0.0):
            latest = word
    return None
