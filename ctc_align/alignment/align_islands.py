"""The alignment of a transcript that is not exactly what is said: island by island, and what is in none is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import best_ctc_path
from ctc_align.alignment.edges import place_edges, share_out_wildcards
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import Island
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.alignment.wildcard import place_wildcards
from ctc_align.alignment.words import aligned_words
from ctc_align.errors import InputError
from ctc_align.kernels.requests import CtcTargets, Forward, Steps
from ctc_align.types import (
    ALIGNED,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedWord,
    OptionalWords,
    Tokens,
    Word,
    Words,
    WordTokens,
)

OTHER_SPEECH = "*"
"""The spoken form, and the letters, of a word that stands for speech which is not in the transcript."""


@dataclass(frozen=True)
class IslandWords:
    """The words of all islands (W of the transcript, None for those in no island), and their losses.

    Attributes:
        words: by their places in the transcript.
        loss, score: CTC's of all tokens in the order of time over the whole recording; inf where they do not fit it.
        tokens: how many.
        backend: of the kernels.
        judged: whether a confidence network has judged them.
    """

    words: Sequence[AlignedWord | None]
    loss: float
    score: float
    tokens: int
    backend: str
    judged: bool


def align_islands(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], islands: Sequence[Island]
) -> Steps[IslandWords]:
    """Align the words of each island with its part of the recording."""
    found: list[AlignedWord | None] = [None] * len(inputs.words.words)
    ids: list[int] = []
    judged = False
    backend = inputs.backend
    for island in islands:
        try:
            aligned, own, judged, backend = yield from _align_island(inputs, word_tokens, island)
        except InputError:  # more sounds than fit there, or no path at all: what is said there is something else
            continue
        ids += [inputs.tokenizer.separator] * bool(ids and inputs.tokenizer.separator is not None) + list(own)
        for place, word in zip(island.words.tolist(), aligned):
            found[place] = word
    loss, score = yield from _losses(inputs, ids)
    return IslandWords(found, loss, score, len(ids), backend, judged)


def _align_island(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island
) -> Steps[tuple[list[AlignedWord], Sequence[int], bool, str]]:
    """Return the aligned words of an island, their token ids, whether a network judged them, and the backend."""
    part = inputs.emissions.part(island.first_frame, island.last_frame)
    words, own_tokens, places = _with_other_speech(inputs.words, word_tokens, island)
    if inputs.settings.unknown == "skip":
        own_tokens = [
            each if word.spoken == OTHER_SPEECH else replace(each, missing=()) for word, each in zip(words, own_tokens)
        ]
    separator = inputs.tokenizer.separator
    tokens, path = yield from choose_pronunciations(
        part.log_probs,
        own_tokens,
        separator,
        part.blank,
        whole_words=part.states is not None,
        backend=inputs.backend,
    )
    ids = tokens.ids
    tokens = _without_inner_separators(tokens, separator)
    tokens, spikes = yield from place_wildcards(part, tokens, path.spans, own_tokens, separator, inputs.backend)
    edges = share_out_wildcards((yield from place_edges(part, tokens, spikes, inputs.edge_settings)), tokens)
    confidence = confidences(part, tokens, spikes, edges, inputs.calibration, inputs.confidence_network)
    aligned = aligned_words(Words(inputs.words.text, tuple(words)), tokens, edges, confidence, part)
    return [aligned[place] for place in places], ids, confidence.judged, path.backend


def _without_inner_separators(tokens: Tokens, separator: int | None) -> Tokens:
    """Return tokens whose separators belong to no word: a word of two spoken parts holds one."""
    return replace(tokens, words=tuple(-1 if token == separator else w for token, w in zip(tokens.ids, tokens.words)))


def _with_other_speech(
    words: Words, word_tokens: Sequence[WordTokens], island: Island
) -> tuple[list[Word], list[WordTokens], list[int]]:
    """Return an island's words and tokens with a wildcard wherever one may stand, and the places of its own words."""
    chosen: list[Word] = []
    tokens: list[WordTokens] = []
    places: list[int] = []
    for number in range(len(island.words) + 1):
        if island.wildcards[number]:
            chosen.append(Word("", OTHER_SPEECH, 0, 0))
            tokens.append(WordTokens((), (OTHER_SPEECH,)))
        if number < len(island.words):
            places.append(len(chosen))
            chosen.append(words.words[island.words[number]])
            tokens.append(word_tokens[island.words[number]])
    return chosen, tokens, places


def _losses(inputs: UtteranceInputs, ids: Sequence[int]) -> Steps[tuple[float, float]]:
    emissions = inputs.emissions
    try:
        path = yield from best_ctc_path(emissions.log_probs, ids, emissions.blank, backend=inputs.backend)
    except InputError:
        return float("inf"), float("-inf")
    total = yield Forward(emissions.log_probs, CtcTargets(ids, emissions.blank), backend=inputs.backend)
    return min(-total, -path.score), path.score


def in_transcript_order(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], found: IslandWords
) -> list[AlignedWord]:
    """Return every word of the transcript, in order: those that are in no island are skipped, if they can be spoken."""
    optional = {index: passage for passage in inputs.words.optional for index in range(passage.first, passage.last)}
    words = []
    for index, (word, tokens, aligned) in enumerate(zip(inputs.words.words, word_tokens, found.words)):
        if aligned is not None and aligned.status == ALIGNED:
            words.append(aligned)
            continue
        passage: OptionalWords | None = optional.get(index)
        kind = word.kind or (passage.kind if passage and word.said else "")
        status = SKIPPED if tokens.pronunciations and not kind else UNKNOWN if word.said and not kind else UNSPOKEN
        written = (word.text, word.spoken if not kind else "", word.char_start, word.char_end)
        words.append(AlignedWord(*written, status=status, kind=kind, speaker=word.speaker))
    return words
