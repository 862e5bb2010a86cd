"""Which pronunciation of each word was said: the one that fits the audio best between the word's neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import torch

from ctc_align.alignment.ctc_path import GAP_FRAMES, CtcPath, best_word_path
from ctc_align.config import Settings
from ctc_align.errors import InputError, TranscriptError
from ctc_align.kernels.requests import CtcTargets, Forward, Steps
from ctc_align.text.languages import script_of
from ctc_align.tokens.tokenizer import PrepareWords, Tokenizer, join, refuse_missing, tokenize
from ctc_align.types import Emissions, Tokens, Words, WordTokens

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
