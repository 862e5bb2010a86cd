"""Written words that a dictionary has as one although signs divide them.

Also entries of it that are not used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ctc_align.text.characters import lower
from ctc_align.text.transcript import has_spaceless
from ctc_align.text.word_forms import outer_punctuation_stripped
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.types import SPEAKER, Word, Words

_MOST_PARTS = 6
"""The maximum number of words that a dictionary may have as one."""
_NAMED = 5

logger = logging.getLogger(__name__)


def join_entries(words: Words, tokenizer: PhoneTokenizer) -> Words:
    """Return words, joining those that the dictionary of a tokenizer has as one.

    Examples are `ka:ta` and `a?a`.

    Log a warning, once for each entry, that names those that match what is written and are not
    used: words of several characters of a script without spaces, and of what is not spoken.
    """
    joined: list[Word] = []
    places: list[int] = []
    unused: dict[str, None] = {}
    names: set[str] = set()
    for run in _adjacent(words.words):
        at = 0
        while at < len(run):
            count, entry = _longest_entry(words.text, run[at:], tokenizer)
            parts = run[at : at + count]
            is_spoken = not any(word.kind and word.kind != SPEAKER for word in parts)
            if entry and (not is_spoken or (count > 1 and has_spaceless(entry))):
                unused[entry] = None
                entry = ""
                count = 1
                parts = parts[:1]
            if entry:
                names |= {outer_punctuation_stripped(word.text) for word in parts if word.kind}
                parts = [_joined(words.text, parts, entry)]
            places += [len(joined)] * count
            joined += parts
            at += count
    _tell(unused, tokenizer)
    if names:
        joined = [replace(word, speaker="") if word.speaker in names else word for word in joined]
    if joined == list(words.words):
        return words
    optional = (
        replace(passage, first=places[passage.first], last=places[passage.last - 1] + 1)
        for passage in words.optional
    )
    return replace(words, words=tuple(joined), optional=tuple(optional))


def _longest_entry(text: str, run: Sequence[Word], tokenizer: PhoneTokenizer) -> tuple[int, str]:
    """Return how many words at the beginning of a run are an entry, and that entry.

    Return 1 and "" if none are.
    """
    for count in range(min(len(run), _MOST_PARTS), 0, -1):
        if count > 1 or run[0].kind:
            entry = tokenizer.entry_of(text[run[0].char_start : run[count - 1].char_end])
            if entry and not (count == 1 and entry.isalpha()):
                return count, entry
    return 1, ""


def _tell(unused: Iterable[str], tokenizer: PhoneTokenizer) -> None:
    new = [entry for entry in unused if entry not in tokenizer.told]
    tokenizer.told.update(new)
    if new:
        if len(new) > _NAMED:
            more = f" … ({len(new)} in all)"
        else:
            more = ""
        logger.warning(
            "%s: entries that match what is written are not used: %s%s; the transcript has them as"
            " several words, or as what is not spoken",
            tokenizer.lexicon_name,
            ", ".join(map(repr, new[:_NAMED])),
            more,
        )


def _adjacent(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the runs of words that have no space between them."""
    run: list[Word] = []
    for word in words:
        if run and run[-1].char_end != word.char_start:
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _joined(text: str, parts: Sequence[Word], entry: str) -> Word:
    start = parts[0].char_start
    end = parts[-1].char_end
    spoken = "".join(word.spoken for word in parts).replace(" ", "") or lower(
        "".join(filter(str.isalpha, entry))
    )
    return replace(parts[0], text=text[start:end], spoken=spoken, char_end=end, kind="", others=())
