"""Which pronunciation of each word was said: the one that fits the audio best between the word's neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.alignment.ctc_path import (
    GAP_FRAMES,
    NEAR_FRAMES,
    CtcPath,
    Spans,
    best_word_path,
    states_near,
    token_spans,
)
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, EmissionsError, InputError, TranscriptError
from ctc_align.kernels.requests import BestPath, CtcTargets, Forward, Steps
from ctc_align.text.languages import script_of
from ctc_align.text.speaker_labels import named_in_cues
from ctc_align.tokens.tokenizer import PrepareWords, Tokenizer, join, refuse_missing, tokenize
from ctc_align.types import SPEAKER, Emissions, OptionalWords, Tokens, Word, Words, WordTokens

WINDOW_FRAMES = 60
"""The other pronunciations of a word are scored at most so many frames beyond its spikes."""


def spell_words(words: Words, tokenizer: Tokenizer, settings: Settings) -> Steps[list[WordTokens]]:
    """Return the tokens of each word; the words of many utterances are prepared together.

    Raises:
        TranscriptError: the vocabulary lacks letters, and the settings make that an error.
    """
    yield PrepareWords(tokenizer, words)
    word_tokens = tokenize(words, tokenizer)
    if settings.unknown == "error":
        refuse_missing(words, word_tokens)
    return word_tokens


def nothing_to_align(word_tokens: Sequence[WordTokens], settings: Settings) -> TranscriptError:
    """Return the error of a transcript for whose words the vocabulary has nothing: the letters, and their script."""
    missing = "".join(letter for word in word_tokens for letter in word.missing)
    lacking = "".join(dict.fromkeys(missing))
    script = script_of(missing)
    written = f", which is written in {script} letters" if script not in ("", "Latin", "Unknown") else ""
    remedy = "" if settings.romanize else ", or --romanize (romanize = true) with a model that reads Latin letters"
    return TranscriptError(
        f"the model's vocabulary has nothing for any word of the transcript{written} (it lacks {lacking[:40]!r}); "
        f"give a model of its language: --model universal knows all (see ctc-align models){remedy}"
    )


def refuse_letter_as_blank(word_tokens: Sequence[WordTokens], emissions: Emissions, name: str) -> None:
    """Raise InputError where the token that was given as the blank is a letter or phone of the transcript `name`."""
    token = emissions.vocab[emissions.blank]
    needed = any(emissions.blank in said.ids for word in word_tokens for said in word.pronunciations)
    if not needed and token.isalpha():
        needed = any(token.casefold() == letter.casefold() for word in word_tokens for letter in word.missing)
    if needed:
        raise InputError(
            f"{name}: token {emissions.blank} of the vocabulary, {token!r}, is given as the blank, and the transcript "
            "needs it: which token is the blank (--blank)?"
        )


def choose_pronunciations(
    log_probs: torch.Tensor,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    blank: int,
    *,
    whole_words: bool = False,
    backend: str = "auto",
) -> Steps[tuple[Tokens, CtcPath]]:
    """Choose of several pronunciations of a word the one that the audio prefers; return the tokens and their path.

    Every word starts with its first pronunciation; of each word that has more, all are scored by CTC over the frames
    between the neighbouring words' spikes, and the best is taken (the earlier one on a tie).

    Args:
        log_probs: (T, C).
        word_tokens: the pronunciations of each word.
        separator: id of the token between words, None for none.
        blank: the class of the blank.
        whole_words: take the path of `best_word_path`: right where it only says roughly when; else the best CTC path.
        backend: see `ctc_align.kernels`.

    Raises:
        TooShortError: not even the shortest pronunciations fit.
        EmissionsError: every path has probability zero.
    """
    gap_frames = GAP_FRAMES if whole_words else len(log_probs)

    def find(choice: list[int]) -> Steps[tuple[Tokens, CtcPath]]:
        tokens = join(word_tokens, choice, separator)
        path = yield from best_word_path(log_probs, tokens, blank, gap_frames=gap_frames, backend=backend)
        return tokens, path

    choice = [0] * len(word_tokens)
    try:
        tokens, path = yield from find(choice)
    except InputError:
        lengths = [[len(way.ids) for way in word.pronunciations] for word in word_tokens]
        shortest = [int(np.argmin(each)) if each else 0 for each in lengths]
        if shortest == choice:
            raise
        choice = shortest
        tokens, path = yield from find(choice)
    fitting = yield from _fitting(log_probs, word_tokens, tokens, path, blank, backend)
    better = [fitting.get(word, way) for word, way in enumerate(choice)]
    if better != choice:
        with suppress(InputError):  # what is better word by word may not fit as a whole
            tokens, path = yield from find(better)
    return tokens, path


def _fitting(
    log_probs: torch.Tensor,
    word_tokens: Sequence[WordTokens],
    tokens: Tokens,
    path: CtcPath,
    blank: int,
    backend: str,
) -> Steps[dict[int, int]]:
    """Return, for each word with several pronunciations, the one that is best over the frames that are its own."""
    windows = list(_windows(len(log_probs), word_tokens, tokens, path))
    scores = yield [
        Forward(log_probs[low:high], CtcTargets(way.ids, blank), backend=backend)
        for word, low, high in windows
        for way in word_tokens[word].pronunciations
    ]
    fitting, scores = {}, iter(scores)
    for word, _, _ in windows:
        best = float("-inf")
        for way, score in zip(range(len(word_tokens[word].pronunciations)), scores):
            if score > best:
                best, fitting[word] = score, way
    return fitting


def _windows(
    frames: int, word_tokens: Sequence[WordTokens], tokens: Tokens, path: CtcPath
) -> Iterator[tuple[int, int, int]]:
    """Yield words with several pronunciations, and the frames `low` to `high`, exclusive, that are each one's own."""
    owner = np.asarray(tokens.words, np.int64)
    begins = np.flatnonzero(np.diff(owner, prepend=-2)).tolist()
    first, last = path.spans.start.tolist(), path.spans.end.tolist()
    for start, end in zip(begins, [*begins[1:], len(owner)]):
        word = tokens.words[start]
        if word < 0 or len(word_tokens[word].pronunciations) < 2:
            continue
        low = last[start - 1] if start else 0
        high = first[end] if end < len(owner) else frames
        yield word, max(low, first[start] - WINDOW_FRAMES), min(high, last[end - 1] + WINDOW_FRAMES)


# Passages that may not be spoken: parentheses, and what may be a speaker's name. The sound decides.
#
# First the best CTC path is found on which each passage is kept as a whole or left out as a whole, so that nothing
# else is moved by words that are not there. Then each passage is scored by CTC over the frames from the word before
# it to the word after it, with and without it, and kept unless it is much less likely than nothing in its place.

BIAS = -2.5
"""Nats a token by which a passage must be likelier than nothing in its place; below 0, since most parentheses are read.
`tests/benchmarks/optional_passages.py`, the English model, passages of 1 to 12 words, seven speakers of read sentences
that did not choose it: of 790 that were said 0.1 % are left out, of 790 that were not none is kept. With 0 it would be
1.4 % and none; for the eight speakers that chose it, 0.9 % (one word: 1.9 %) and none."""
MOST_CELLS = 5 * 10**7
"""Longer recordings (frames times states) are searched only near the best path through all words: a search takes 10 ns
a cell, half a second for all of these."""


@dataclass(frozen=True)
class _Passage:
    """Tokens `first` to `last` (exclusive) of an optional passage, with a separator; `words` is the passage."""

    first: int
    last: int
    words: OptionalWords


def leave_out_unspoken(
    log_probs: torch.Tensor,
    words: Words,
    word_tokens: list[WordTokens],
    separator: int | None,
    blank: int,
    backend: str = "auto",
) -> Steps[tuple[Words, list[WordTokens]]]:
    """Return words and tokens without the optional passages that are not in the recording.

    Their words stay among the words, unspoken and of a kind. Where nothing can be decided, all are kept.

    Args:
        log_probs: (T, C).
        words: of the transcript.
        word_tokens: one per word; the first pronunciation of each is scored.
        separator: id of the token between words, None for none.
        blank: the class of the blank.
        backend: see `ctc_align.kernels`.
    """
    try:
        gains = yield from passage_gains(log_probs, words, word_tokens, separator, blank, backend)
    except CtcAlignError:  # it does not fit, or has no path: the alignment itself says so
        return words, word_tokens
    absent = [passage for passage, gain in gains if not gain > BIAS]
    left_out = {index for passage in absent for index in range(passage.first, passage.last)}
    kept = [WordTokens(()) if index in left_out else each for index, each in enumerate(word_tokens)]
    if not any(word.pronunciations for word in kept):
        return words, word_tokens
    return without_passages(words, absent), kept


def passage_gains(
    log_probs: torch.Tensor,
    words: Words,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    blank: int,
    backend: str = "auto",
) -> Steps[list[tuple[OptionalWords, float]]]:
    """Return by how many nats a token each passage with tokens is likelier than nothing in its place.

    Arguments as `leave_out_unspoken`.

    Raises:
        CtcAlignError: no path, or too many states for the memory.
    """
    tokens = join(word_tokens, [0] * len(word_tokens), separator)
    passages = list(_passages(words.optional, tokens))
    if not passages:
        return []
    spans = yield from _path(log_probs, tokens, passages, blank, backend)
    gains = yield from _gains(log_probs, tokens, passages, spans, blank, backend)
    return [(each.words, gain / (each.last - each.first)) for each, gain in zip(passages, gains)]


def _passages(optional: Sequence[OptionalWords], tokens: Tokens) -> Iterator[_Passage]:
    """Yield the tokens of the passages that have any, each with the separator that goes with it."""
    owners = np.asarray(tokens.words, np.int64)
    spoken = np.flatnonzero(owners >= 0)
    for words in optional:
        low, high = np.searchsorted(owners[spoken], [words.first, words.last]).tolist()
        if low == high:
            continue
        first, last = int(spoken[low]), int(spoken[high - 1]) + 1
        if last < len(owners) and owners[last] < 0:
            last += 1
        elif last == len(owners) and first and owners[first - 1] < 0:
            first -= 1
        yield _Passage(first, last, words)


def _path(
    log_probs: torch.Tensor, tokens: Tokens, passages: Sequence[_Passage], blank: int, backend: str
) -> Steps[Spans]:
    """Return the frames of the tokens on the best path that keeps or leaves out whole passages; -1 for what is out."""
    topology = lattice.ctc_passages(tokens.ids, [(each.first, each.last) for each in passages], blank)
    bands = None
    if len(log_probs) * len(topology.emit[0]) > MOST_CELLS:
        every = yield BestPath(log_probs, CtcTargets(tokens.ids, blank), backend=backend)
        spans = token_spans(every.states, topology.token[0], len(tokens.ids))
        bands = states_near(spans, len(log_probs), NEAR_FRAMES)
    best = yield BestPath(log_probs, topology, bands=bands, backend=backend)
    if best.score == float("-inf"):
        raise EmissionsError("every path through this transcript has probability zero, with and without its passages")
    return token_spans(best.states, topology.token[0], len(tokens.ids))


def _gains(
    log_probs: torch.Tensor, tokens: Tokens, passages: Sequence[_Passage], spans: Spans, blank: int, backend: str
) -> Steps[list[float]]:
    """Return by how many nats each passage is likelier than nothing in its place, between its neighbours' words."""
    kept = spans.start >= 0
    requests = []
    for passage in passages:
        before, after = _neighbours(tokens, kept, passage)
        low = int(spans.start[before[0]]) if len(before) else 0
        high = int(spans.end[after[-1]]) if len(after) else len(log_probs)
        inside = np.arange(passage.first, passage.last)
        for places in (np.concatenate((before, inside, after)), np.concatenate((before, after))):
            ids = [tokens.ids[place] for place in places.tolist()]
            requests.append(Forward(log_probs[low:high], CtcTargets(ids, blank), backend=backend))
    scores = yield requests
    return [with_it - without_it for with_it, without_it in zip(scores[::2], scores[1::2])]


def _neighbours(tokens: Tokens, kept: np.ndarray, passage: _Passage) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of the kept word before a passage and of the one after it, with the separator between."""
    owners = np.asarray(tokens.words)
    before = np.flatnonzero(kept[: passage.first])
    after = passage.last + np.flatnonzero(kept[passage.last :])
    spoken = owners[before][owners[before] >= 0]
    if len(spoken):
        before = before[np.flatnonzero(owners[before] == spoken[-1])[0] :]
    spoken = owners[after][owners[after] >= 0]
    if len(spoken):
        after = after[: np.flatnonzero(owners[after] == spoken[0])[-1] + 1]
    return before, after


def without_passages(words: Words, absent: Sequence[OptionalWords]) -> Words:
    """Return the words with those of the passages `absent` unspoken; a speaker's name goes to the words after it."""
    changed: list[Word] = list(words.words)
    for passage in absent:
        for index in range(passage.first, passage.last):
            if not changed[index].kind:
                changed[index] = replace(changed[index], spoken="", roman=None, phones=None, kind=passage.kind)
    for passage in absent:
        index = passage.last
        while passage.kind == SPEAKER and index < len(changed) and changed[index].kind != SPEAKER:
            changed[index] = replace(changed[index], speaker=passage.speaker)
            index += 1
    return replace(words, words=named_in_cues(changed, words.subtitles)) if absent else words
