"""The choice of the spoken tokens: a pronunciation of each word, and which passages are read.

The choice for a word is the pronunciation that fits the audio best between the word's neighbours.
Parentheses and possible speaker names count as spoken, unless the audio is much likelier without
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from ctc_align import lattice
from ctc_align.alignment.ctc_path import (
    NEAR_FRAMES,
    Spans,
    best_word_path,
    spoken_indices,
    token_spans,
)
from ctc_align.alignment.wildcard import soundless
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, EmissionsError, InputError, TranscriptError
from ctc_align.kernels.batching import BestPath, CtcTargets, Forward, StageSteps
from ctc_align.models.array_checks import warn_of_unused
from ctc_align.text.languages import script_of
from ctc_align.tokens.tokenizer import (
    PrepareWords,
    Tokenizer,
    join,
    refuse_missing,
    tokenize,
    unit_tokenizer,
)
from ctc_align.types import (
    CUT_OFF,
    SPEAKER,
    Emissions,
    OptionalWords,
    Pronunciation,
    Tokens,
    Word,
    Words,
    WordTokens,
)

BESIDE_FRAMES = 60
"""The pronunciations of a word are scored over the frames of its spikes and at most this many
before and after them."""
BIAS, CUT_OFF_BIAS = -2.5, -4.0
"""A passage, or a word that breaks off, is kept if reading it is likelier than skipping it by this
many nats per token; below 0, since most are read. Chosen on eight speakers of read sentences and
tested on seven others by `research/optional_passages.py` (English model, passages of 1 to
12 words, words cut after two or three phones): of 848 spoken passages 0.8 % are left out, of 848
unspoken ones none is kept; of 58 words that break off none is left out, of 58 that are only written
1.7 % are kept."""
LANGUAGE_CHANGE = 6.0
"""The cost, in nats, of another language from one word to the next. Chosen on German, French and
Italian by `research/mixed_languages.py`: without it, two languages move the edges of a text in one
by 3.0 ms, with it by 0.3 ms; with 10, more single words of another language are missed."""
MOST_CELLS = 5 * 10**7
"""Longer recordings (frames times states) are searched only near the best path through all words: a
search takes 10 ns a cell, half a second for all of these."""


def prepared_word_tokens(
    words: Words, tokenizer: Tokenizer, settings: Settings
) -> StageSteps[list[WordTokens]]:
    """Return the tokens of each word; the words of many utterances are prepared together.

    Raises:
        TranscriptError: the vocabulary lacks letters, and the settings make that an error.
    """
    yield PrepareWords(tokenizer, words)
    word_tokens = tokenize(words, tokenizer)
    if settings.unknown == "error":
        refuse_missing(words, word_tokens)
    return word_tokens


def check_word_tokens(
    word_tokens: Sequence[WordTokens], emissions: Emissions, settings: Settings
) -> None:
    """Check that a transcript can be aligned.

    Log a warning about a class that the model often emits but no word contains: probably a
    separator or a silence.

    Raises:
        TranscriptError: the vocabulary cannot spell any of its words; the message names the letters
            and the script.
        InputError: the token that was given as the blank is a letter or phone of the transcript.
    """
    if not any(word.pronunciations for word in word_tokens):
        missing = "".join(letter for word in word_tokens for letter in word.missing)
        lacking = "".join(dict.fromkeys(missing))
        script = script_of(missing)
        if script not in ("", "Latin", "Unknown"):
            written = f", which is written in {script} letters"
        else:
            written = ""
        if settings.romanize:
            remedy = ""
        else:
            remedy = ", or --romanize (romanize = true) with a model that reads Latin letters"
        remedy = (
            "use a model for its language: --model universal covers all (see ctc-align"
            f" models){remedy}"
        )
        if unit_tokenizer(emissions.vocab, emissions.blank).unreadable:
            remedy = "give a dictionary of its words in the vocabulary's tokens (--lexicon FILE)"
        raise TranscriptError(
            f"the model cannot spell any word of the transcript{written} (it lacks"
            f" {lacking[:40]!r}); {remedy}"
        )
    token = emissions.vocab[emissions.blank]
    needed = any(
        emissions.blank in said.ids for word in word_tokens for said in word.pronunciations
    )
    if not needed and token.isalpha():
        needed = any(
            token.casefold() == letter.casefold() for word in word_tokens for letter in word.missing
        )
    if needed:
        raise InputError(
            f"token {emissions.blank} of the vocabulary, {token!r}, is given as the blank,"
            " and the transcript needs it: which token is the blank (--blank)?"
        )
    if emissions.state_array is None:  # what the classes of this project's models are is known
        usual = [said.ids for word in word_tokens for said in word.pronunciations[:1]]
        spoken = {
            index for word in word_tokens for said in word.pronunciations for index in said.ids
        }
        used = {emissions.blank, *soundless(emissions), *spoken}
        warn_of_unused(emissions, used, sum(map(len, usual)), len(usual))


def choose_pronunciations(
    emissions: Emissions,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    backend: str = "auto",
) -> StageSteps[tuple[Tokens, Spans, float]]:
    """Choose each word's best-fitting pronunciation.

    Return the tokens, and spikes and score of their `best_word_path`.

    Every word starts with its first pronunciation. All pronunciations of a word that has several
    are scored by CTC over the frames between the neighbouring words' spikes, and the best one is
    used (the earlier one on a tie).

    Args:
        emissions: of the utterance.
        word_tokens: the pronunciations of each word.
        separator: id of the token between words, None without one.
        backend: see `ctc_align.kernels`.

    Raises:
        TooShortError: not even the shortest pronunciations fit.
        EmissionsError: every path has probability zero.
    """

    def path_of(choice: list[int]) -> StageSteps[tuple[Tokens, Spans, float]]:
        tokens = join(word_tokens, choice, separator)
        return tokens, *(yield from best_word_path(emissions, tokens, backend=backend))

    choice = [0] * len(word_tokens)
    try:
        tokens, spikes, score = yield from path_of(choice)
    except InputError:
        lengths = [[len(said.ids) for said in word.pronunciations] for word in word_tokens]
        shortest = [int(np.argmin(each)) if each else 0 for each in lengths]
        if shortest == choice:
            raise
        choice = shortest
        tokens, spikes, score = yield from path_of(choice)
    windows = list(_windows(len(emissions), word_tokens, tokens, spikes))
    scores = yield [
        Forward(emissions.array[low:high], CtcTargets(said.ids, emissions.blank), backend=backend)
        for word, low, high in windows
        for said in word_tokens[word].pronunciations
    ]
    better = list(choice)
    each_score = iter(scores)
    scores_of = {
        word: list(islice(each_score, len(word_tokens[word].pronunciations)))
        for word, _, _ in windows
    }
    _prefer_one_language(word_tokens, scores_of)
    for word, of_word in scores_of.items():
        best = float("-inf")
        for number, of_one in enumerate(of_word):
            if of_one > best:
                best = of_one
                better[word] = number
    if better != choice:
        with suppress(InputError):  # what is better word by word may not fit as a whole
            tokens, spikes, score = yield from path_of(better)
    return tokens, spikes, score


def _prefer_one_language(
    word_tokens: Sequence[WordTokens], scores_of: dict[int, list[float]]
) -> None:
    """Lower the scores of pronunciations in other languages than the likeliest sequence has.

    Each change of the language between two words costs `LANGUAGE_CHANGE` nats. Nothing changes in
    a text of one language. `scores_of` maps words to the scores of their pronunciations.
    """
    languages = sorted(
        {code for own in word_tokens for way in own.pronunciations for code in way.languages}
    )
    if len(languages) < 2:
        return
    gains = np.full((len(scores_of), len(languages)), -np.inf)
    for row, (word, of_word) in zip(gains, scores_of.items()):
        for way, score in zip(word_tokens[word].pronunciations, of_word):
            for code in way.languages or languages:
                at = languages.index(code)
                row[at] = max(row[at], score)
    chosen = _likeliest_sequence(gains)
    for (word, of_word), at in zip(scores_of.items(), chosen):
        for number, way in enumerate(word_tokens[word].pronunciations):
            if way.languages and languages[at] not in way.languages:
                of_word[number] = float("-inf")


def _likeliest_sequence(gains: np.ndarray) -> list[int]:
    """Return the best column of each row, if a change between two rows costs `LANGUAGE_CHANGE`.

    >>> _likeliest_sequence(np.array([[9.0, 0.0], [0.0, 0.5], [9.0, 0.0]]))
    [0, 0, 0]
    """
    totals = np.zeros(gains.shape[1])
    sources = []
    for row in gains:
        best = int(totals.argmax())
        stays = totals >= totals[best] - LANGUAGE_CHANGE
        sources.append(np.where(stays, np.arange(len(totals)), best))
        totals = np.maximum(totals, totals[best] - LANGUAGE_CHANGE) + row
    at = int(totals.argmax())
    chosen = []
    for source in reversed(sources):
        chosen.append(at)
        at = int(source[at])
    return chosen[::-1]


def in_heard_order(
    emissions: Emissions,
    word_tokens: list[WordTokens],
    separator: int | None,
    backend: str = "auto",
) -> StageSteps[list[WordTokens]]:
    """Return the tokens of words, the pronunciations of the language that is heard first.

    The search for words mainly looks for first pronunciations. Nothing changes in a text of one
    language, or if the text does not fit.
    """
    if not any(way.languages for own in word_tokens for way in own.pronunciations):
        return word_tokens
    try:
        tokens, _, _ = yield from choose_pronunciations(emissions, word_tokens, separator, backend)
    except InputError:
        return word_tokens
    ordered = list(word_tokens)
    for index, chosen in _chosen_ways(word_tokens, tokens).items():
        others = (way for way in word_tokens[index].pronunciations if way is not chosen)
        ordered[index] = replace(word_tokens[index], pronunciations=(chosen, *others))
    return ordered


def _chosen_ways(word_tokens: Sequence[WordTokens], tokens: Tokens) -> dict[int, Pronunciation]:
    """Return the chosen pronunciation of each word that has tokens."""
    ids: dict[int, tuple[int, ...]] = {}
    for owner, token in zip(tokens.words, tokens.ids):
        if owner >= 0:
            ids[owner] = (*ids.get(owner, ()), token)
    return {
        index: next(way for way in word_tokens[index].pronunciations if way.ids == chosen)
        for index, chosen in ids.items()
    }


def with_chosen_readings(words: Words, word_tokens: Sequence[WordTokens], tokens: Tokens) -> Words:
    """Return the words with the spoken forms and languages of their chosen pronunciations.

    A word that sounds the same in several languages is in that of the word before it.
    """
    if not any(word.others for word in words.words):
        return words
    changed = list(words.words)
    before = ""
    for index, way in sorted(_chosen_ways(word_tokens, tokens).items()):
        if way.spoken and changed[index].others:
            changed[index] = replace(changed[index], spoken=way.spoken)
        if way.languages:
            if before not in way.languages:
                before = way.languages[0]
            changed[index] = replace(changed[index], language=before)
    return replace(words, words=tuple(changed))


def _windows(
    frames: int, word_tokens: Sequence[WordTokens], tokens: Tokens, spikes: Spans
) -> Iterator[tuple[int, int, int]]:
    """Yield each word with several pronunciations, and the frames [low, high) that score them."""
    owner = np.asarray(tokens.words, np.int64)
    begins = np.flatnonzero(np.diff(owner, prepend=-2)).tolist()
    first, last = spikes.start.tolist(), spikes.end.tolist()
    for start, end in zip(begins, [*begins[1:], len(owner)]):
        word = tokens.words[start]
        if word < 0 or len(word_tokens[word].pronunciations) < 2:
            continue
        low = last[start - 1] if start else 0
        high = first[end] if end < len(owner) else frames
        yield word, max(low, first[start] - BESIDE_FRAMES), min(high, last[end - 1] + BESIDE_FRAMES)


# Passages that may not be spoken
#
# First the best CTC path is found on which each passage is used or left out as a whole, so that
# words that are not there move nothing else. Then each passage is scored by CTC, with and without
# it, over the frames from the word before it to the word after it.

Passage = tuple[OptionalWords, int, int]
"""A passage, and its tokens [first, last), one separator included."""


def leave_out_unspoken(
    emissions: Emissions,
    words: Words,
    word_tokens: list[WordTokens],
    separator: int | None,
    backend: str = "auto",
) -> StageSteps[tuple[Words, list[WordTokens]]]:
    """Return words and tokens without the optional passages that are not in the recording.

    The words of these passages stay in the list, unspoken and with a kind. If no decision is
    possible, all passages stay.

    Args:
        emissions: of the utterance.
        words: of the transcript.
        word_tokens: one per word; the first pronunciation of each is scored.
        separator: id of the token between words, None without one.
        backend: see `ctc_align.kernels`.
    """
    try:
        gains = yield from passage_gains(emissions, words, word_tokens, separator, backend)
    except CtcAlignError:  # the text does not fit, or has no path: the alignment itself says so
        return words, word_tokens
    absent = [
        passage
        for passage, gain in gains
        if not gain > (CUT_OFF_BIAS if passage.kind == CUT_OFF else BIAS)
    ]
    left_out = {index for passage in absent for index in range(passage.first, passage.last)}
    remaining = [
        WordTokens(()) if index in left_out else each for index, each in enumerate(word_tokens)
    ]
    if not any(word.pronunciations for word in remaining):
        return words, word_tokens
    return without_passages(words, absent), remaining


def passage_gains(
    emissions: Emissions,
    words: Words,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    backend: str = "auto",
) -> StageSteps[list[tuple[OptionalWords, float]]]:
    """Return the gain of each passage: nats per token by which the audio is likelier with it.

    Arguments as `leave_out_unspoken`.

    Raises:
        CtcAlignError: no path, or too many states for the memory.
    """
    tokens = join(word_tokens, [0] * len(word_tokens), separator)
    passages = list(_passages(words.optional, tokens))
    if not passages:
        return []
    spans = yield from _find_path_with_passages(emissions, tokens, passages, backend)
    found = spans.start >= 0
    requests = []
    for _, first, last in passages:
        before, after = _find_neighbours(tokens, found, first, last)
        low = int(spans.start[before[0]]) if len(before) else 0
        if len(after):
            high = int(spans.end[after[-1]])
        else:
            high = len(emissions)
        for tried in (
            np.concatenate((before, np.arange(first, last), after)),
            np.concatenate((before, after)),
        ):
            ids = [tokens.ids[index] for index in tried.tolist()]
            requests.append(
                Forward(
                    emissions.array[low:high], CtcTargets(ids, emissions.blank), backend=backend
                )
            )
    scores = yield requests
    gains = [with_it - without_it for with_it, without_it in zip(scores[::2], scores[1::2])]
    return [
        (passage, gain / (last - first)) for (passage, first, last), gain in zip(passages, gains)
    ]


def _passages(optional: Sequence[OptionalWords], tokens: Tokens) -> Iterator[Passage]:
    """Yield the passages with tokens, each with the separator after it (the last: before it)."""
    owners = np.asarray(tokens.words, np.int64)
    spoken = spoken_indices(tokens)
    for words in optional:
        low, high = np.searchsorted(owners[spoken], [words.first, words.last]).tolist()
        if low == high:
            continue
        first = int(spoken[low])
        last = int(spoken[high - 1]) + 1
        if last < len(owners) and owners[last] < 0:
            last += 1
        elif last == len(owners) and first and owners[first - 1] < 0:
            first -= 1
        yield words, first, last


def _find_path_with_passages(
    emissions: Emissions, tokens: Tokens, passages: Sequence[Passage], backend: str
) -> StageSteps[Spans]:
    """Return the frames of the tokens on the best path, -1 in passages that it leaves out."""
    log_probs, blank = emissions.array, emissions.blank
    topology = lattice.ctc_passages(
        tokens.ids, [(first, last) for _, first, last in passages], blank
    )
    bands = None
    if len(log_probs) * len(topology.emit[0]) > MOST_CELLS:
        states, _, _ = yield BestPath(log_probs, CtcTargets(tokens.ids, blank), backend=backend)
        spans = token_spans(states, topology.token[0], len(tokens.ids))
        bands = states_near(spans, len(log_probs), NEAR_FRAMES)
    states, score, _ = yield BestPath(log_probs, topology, bands=bands, backend=backend)
    if score == float("-inf"):
        raise EmissionsError(
            "every path through this transcript has probability zero, with and without its passages"
        )
    return token_spans(states, topology.token[0], len(tokens.ids))


def states_near(spans: Spans, frames: int, near_frames: int) -> np.ndarray:
    """Return the first and last (exclusive) CTC state near a path at each frame (T, 2).

    >>> states_near(Spans(np.array([0, 4]), np.array([1, 5])), 5, 1).tolist()
    [[0, 3], [0, 3], [0, 3], [2, 3], [2, 5]]
    """
    at = np.arange(frames)
    low = 2 * np.searchsorted(spans.end, at - near_frames)
    high = 2 * np.searchsorted(spans.start, at + near_frames) + 1
    return np.stack((low, np.minimum(high, 2 * len(spans.start) + 1)), 1)


def _find_neighbours(
    tokens: Tokens, found: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of the words before and after the passage, with separators."""
    owners = np.asarray(tokens.words)
    before = np.flatnonzero(found[:first])
    after = last + np.flatnonzero(found[last:])
    spoken = owners[before][owners[before] >= 0]
    if len(spoken):
        before = before[np.flatnonzero(owners[before] == spoken[-1])[0] :]
    spoken = owners[after][owners[after] >= 0]
    if len(spoken):
        after = after[: np.flatnonzero(owners[after] == spoken[0])[-1] + 1]
    return before, after


def without_passages(words: Words, absent: Sequence[OptionalWords]) -> Words:
    """Return the words with the passages `absent` unspoken.

    An absent speaker's name is that of the words after it.
    """
    changed: list[Word] = list(words.words)
    for passage in absent:
        for index in range(passage.first, passage.last):
            if not changed[index].kind:
                changed[index] = replace(
                    changed[index], spoken="", roman=None, phones=None, kind=passage.kind
                )
    for passage in absent:
        index = passage.last
        while passage.kind == SPEAKER and index < len(changed) and changed[index].kind != SPEAKER:
            changed[index] = replace(changed[index], speaker=passage.speaker)
            index += 1
    if not absent:
        return words
    from ctc_align.text.captions import named_in_cues

    return replace(words, words=named_in_cues(changed, words.subtitles))
