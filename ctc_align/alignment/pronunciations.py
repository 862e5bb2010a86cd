"""Emissions and words to the best CTC path: which pronunciation, and roughly when each token sounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.alignment.ctc_path import (
    GAP_COST,
    GAP_FRAMES,
    Spikes,
    best_spikes,
    best_spikes_batch,
    check_fits,
    ctc_score,
    ctc_scores,
    runs,
    word_spikes,
    word_spikes_batch,
)
from ctc_align.errors import InputError
from ctc_align.kernels.padding import pad
from ctc_align.tokens.tokenizer import join
from ctc_align.types import Tokens, WordTokens

__all__ = [
    "GAP_COST",
    "GAP_FRAMES",
    "Spikes",
    "best_spikes",
    "best_spikes_batch",
    "check_fits",
    "choose_pronunciations",
    "choose_pronunciations_batch",
    "ctc_score",
    "ctc_scores",
    "runs",
    "word_spikes",
    "word_spikes_batch",
]

WINDOW_FRAMES = 60
"""How far beyond its own spikes a word's other pronunciations may look."""

WINDOW_VALUES_AT_ONCE = 2**22
"""Log-probs of windows that are scored together: 16 MB of float32."""


def choose_pronunciations(
    log_probs: torch.Tensor,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    blank: int,
    *,
    whole_words: bool = False,
    backend: str = "auto",
) -> tuple[Tokens, Spikes]:
    """Of several pronunciations of a word, the one that the audio prefers: by CTC likelihood between its neighbours.

    Every word starts with its first pronunciation; around each word that has more, all are scored over the frames
    between the neighbouring words' spikes, and the best is taken (the earlier on a tie). With `whole_words` the spikes
    are those of `word_spikes`: right where they only say roughly when; without, they are the best CTC path's own.

    Raises:
        TooShortError: not even the shortest pronunciations fit.
        EmissionsError: every path has probability zero.
    """
    chosen = choose_pronunciations_batch(
        [log_probs], [word_tokens], separator, blank, whole_words=whole_words, backend=backend
    )[0]
    if isinstance(chosen, InputError):
        raise chosen
    return chosen


def choose_pronunciations_batch(
    log_probs: Sequence[torch.Tensor],
    word_tokens: Sequence[Sequence[WordTokens]],
    separator: int | None,
    blank: int,
    *,
    whole_words: bool = False,
    backend: str = "auto",
) -> list[tuple[Tokens, Spikes] | InputError]:
    """As `choose_pronunciations` of each of many utterances; an error stands in the place of the one it concerns."""
    utterances = [_Utterance(x, words) for x, words in zip(log_probs, word_tokens)]

    def find(these: Sequence[_Utterance], choices: Sequence[list[int]]) -> list[tuple[Tokens, Spikes] | InputError]:
        rows = [join(one.words, choice, separator) for one, choice in zip(these, choices)]
        gaps = [GAP_FRAMES if whole_words else len(one.log_probs) for one in these]
        found = word_spikes_batch([one.log_probs for one in these], rows, blank, gaps, backend=backend)
        return [spikes if isinstance(spikes, InputError) else (row, spikes) for row, spikes in zip(rows, found)]

    choices = [[0] * len(one.words) for one in utterances]
    results = find(utterances, choices)
    shortest = {i: _shortest(utterances[i]) for i, result in enumerate(results) if isinstance(result, InputError)}
    shortest = {i: choice for i, choice in shortest.items() if choice != choices[i]}
    for i, result in zip(shortest, find([utterances[i] for i in shortest], list(shortest.values()))):
        results[i], choices[i] = result, shortest[i]
    good = {i: result for i, result in enumerate(results) if not isinstance(result, InputError)}
    better = _rescore([utterances[i] for i in good], list(good.values()), [choices[i] for i in good], blank, backend)
    changed = {i: choice for i, choice in zip(good, better) if choice != choices[i]}
    for i, result in zip(changed, find([utterances[i] for i in changed], list(changed.values()))):
        if not isinstance(result, InputError):
            results[i] = result
    return results


class _Utterance(NamedTuple):
    log_probs: torch.Tensor
    words: Sequence[WordTokens]


class _Job(NamedTuple):
    """Pronunciation `way` of word `word` of an utterance, to be scored over frames `low` to `high`, exclusive."""

    utterance: int
    word: int
    way: int
    low: int
    high: int


def _shortest(utterance: _Utterance) -> list[int]:
    lengths = [[len(way.ids) for way in word.pronunciations] for word in utterance.words]
    return [int(np.argmin(each)) if each else 0 for each in lengths]


def _rescore(
    utterances: Sequence[_Utterance],
    found: Sequence[tuple[Tokens, Spikes]],
    choices: Sequence[list[int]],
    blank: int,
    backend: str,
) -> list[list[int]]:
    """For each utterance the pronunciation that scores best of each word; the choice where there is but one."""
    jobs = [job for i, (one, told) in enumerate(zip(utterances, found)) for job in _jobs(i, one, *told)]
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for part in _parts(jobs, utterances):
        for job, score in zip(part, _window_scores(utterances, part, blank, backend)):
            if score > best.get(job[:2], (float("-inf"), -1))[0]:
                best[job[:2]] = (score, job.way)
    return [[best.get((i, w), (0.0, k))[1] for w, k in enumerate(choice)] for i, choice in enumerate(choices)]


def _jobs(place: int, utterance: _Utterance, tokens: Tokens, spikes: Spikes) -> Iterator[_Job]:
    owner = np.asarray(tokens.words, np.int64)
    begins = np.flatnonzero(np.diff(owner, prepend=-2))
    first, last = spikes.first.tolist(), spikes.last.tolist()
    for start, end in zip(begins.tolist(), [*begins[1:].tolist(), len(owner)]):
        word = tokens.words[start]
        if word < 0 or len(utterance.words[word].pronunciations) < 2:
            continue
        low = last[start - 1] if start else 0
        high = first[end] if end < len(owner) else len(utterance.log_probs)
        low = max(low, first[start] - WINDOW_FRAMES)
        high = min(high, last[end - 1] + WINDOW_FRAMES)
        for way in range(len(utterance.words[word].pronunciations)):
            yield _Job(place, word, way, low, high)


def _parts(jobs: Sequence[_Job], utterances: Sequence[_Utterance]) -> Iterator[list[_Job]]:
    """Jobs of similar length, as many as fit into memory together; one alone always does."""
    kinds: dict[tuple[int, torch.dtype], list[_Job]] = {}
    for job in jobs:
        log_probs = utterances[job.utterance].log_probs
        kinds.setdefault((log_probs.shape[1], log_probs.dtype), []).append(job)
    for (classes, _), same in kinds.items():
        part: list[_Job] = []
        for job in sorted(same, key=lambda job: job.high - job.low):
            if part and (len(part) + 1) * (job.high - job.low) * classes > WINDOW_VALUES_AT_ONCE:
                yield part
                part = []
            part.append(job)
        yield part


def _window_scores(utterances: Sequence[_Utterance], jobs: Sequence[_Job], blank: int, backend: str) -> list[float]:
    windows, lengths = pad([utterances[job.utterance].log_probs[job.low : job.high] for job in jobs])
    topology = lattice.ctc(
        [utterances[job.utterance].words[job.word].pronunciations[job.way].ids for job in jobs], blank
    )
    return kernels.forward(windows, topology, lengths, backend=backend).scores.tolist()
