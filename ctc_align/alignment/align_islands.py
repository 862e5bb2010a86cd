"""The alignment of a transcript that is not exactly what is said: island by island; words of no island are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.alignment.ctc_path import best_ctc_path, ctc_loss
from ctc_align.alignment.fit import UNLIKELY
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import Island
from ctc_align.alignment.optional_passages import without_passages
from ctc_align.alignment.placed_words import PlacedWords, place_words, spell_as_said
from ctc_align.errors import InputError
from ctc_align.kernels.requests import Steps
from ctc_align.types import (
    ALIGNED,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedWord,
    Word,
    Words,
    WordTokens,
)

OTHER_SPEECH = "*"
"""The spoken form, and the letters, of a word that stands for speech which is not in the transcript."""


@dataclass(frozen=True)
class _IslandWords:
    """The aligned words of one island, the ids of their tokens, whether a network judged them, and the backend."""

    words: list[AlignedWord]
    ids: tuple[int, ...]
    judged: bool
    backend: str

    @property
    def is_likely(self) -> bool:
        """True if half of the words are likely where they were put: else it was found by chance."""
        chances = [word.confidence for word in self.words if word.confidence is not None]
        return 2 * sum(chance > UNLIKELY for chance in chances) >= len(chances)


def align_islands(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], islands: Sequence[Island]
) -> Steps[PlacedWords]:
    """Align the words of each island with its part of the recording."""
    found: dict[int, AlignedWord] = {}
    ids: list[int] = []
    separator = inputs.tokenizer.separator
    judged, backend = False, inputs.backend
    for number, island in enumerate(islands, start=1):
        inputs.begin(f"edges, part {number} of {len(islands)}")
        try:
            own = yield from _align_island(inputs, word_tokens, island)
        except InputError:  # more sounds than fit there, or no path: what is said there is something else
            continue
        judged, backend = own.judged, own.backend
        if judged and len(islands) > 1 and not own.is_likely:
            continue
        if ids and separator is not None:
            ids.append(separator)
        ids += own.ids
        found.update(zip(island.words.tolist(), own.words))
    loss, score = yield from losses(inputs, ids)
    return PlacedWords(_in_text_order(inputs.words, word_tokens, found), loss, score, ids, backend, judged)


def _align_island(inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island) -> Steps[_IslandWords]:
    part = inputs.emissions.part(island.first_frame, island.last_frame)
    words, own_tokens, places = _with_other_speech(inputs, word_tokens, island)
    # Wildcards stand for other speech there, whatever becomes of letters that the vocabulary lacks.
    own_inputs = replace(inputs, emissions=part, settings=replace(inputs.settings, unknown="wildcard"))
    spelled = yield from spell_as_said(own_inputs, Words(inputs.words.text, tuple(words)), own_tokens)
    aligned, judged = yield from place_words(own_inputs, spelled)
    return _IslandWords([aligned[place] for place in places], spelled.tokens.ids, judged, spelled.path.backend)


def _with_other_speech(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island
) -> tuple[list[Word], list[WordTokens], list[int]]:
    """Return an island's words and tokens with a wildcard wherever one may stand, and the places of its own words."""
    known_only = inputs.settings.unknown != "wildcard"
    chosen: list[Word] = []
    tokens: list[WordTokens] = []
    places: list[int] = []
    for number in range(len(island.words) + 1):
        if island.wildcards[number]:
            chosen.append(Word("", OTHER_SPEECH, 0, 0))
            tokens.append(WordTokens((), (OTHER_SPEECH,)))
        if number < len(island.words):
            own = word_tokens[island.words[number]]
            places.append(len(chosen))
            chosen.append(inputs.words.words[island.words[number]])
            tokens.append(replace(own, missing=()) if known_only and own.missing else own)
    return chosen, tokens, places


def losses(inputs: UtteranceInputs, ids: Sequence[int]) -> Steps[tuple[float, float]]:
    """Return the loss and the best path's score of tokens over the whole recording; infinite where there is none."""
    log_probs, blank = inputs.emissions.log_probs, inputs.emissions.blank
    try:
        path = yield from best_ctc_path(log_probs, ids, blank, backend=inputs.backend)
    except InputError:
        return float("inf"), float("-inf")
    return (yield from ctc_loss(log_probs, ids, blank, path, inputs.backend)), path.score


def _in_text_order(
    words: Words, word_tokens: Sequence[WordTokens], found: dict[int, AlignedWord]
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript: those that could be spoken and were not found are skipped.

    A passage that may be unspoken, and of which nothing was found, is of its kind.
    """
    absent = [passage for passage in words.optional if not found.keys() & set(range(passage.first, passage.last))]
    placed = []
    for index, (word, tokens) in enumerate(zip(without_passages(words, absent).words, word_tokens)):
        own = found.get(index)
        if own is not None and own.status == ALIGNED:
            placed.append(replace(own, speaker=word.speaker) if own.speaker != word.speaker else own)
            continue
        status = SKIPPED if tokens.pronunciations and word.said else UNKNOWN if word.said else UNSPOKEN
        written = (word.text, word.spoken, word.char_start, word.char_end)
        placed.append(AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker))
    return tuple(placed)
