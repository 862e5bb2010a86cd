"""Emissions and tokens to the best CTC path: which pronunciation, and roughly when each token sounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.errors import EmissionsError, TooShortError
from ctc_align.tokens import join
from ctc_align.types import Tokens, WordTokens

WINDOW_FRAMES = 60
"""How far beyond its own spikes a word's other pronunciations may look."""

GAP_FRAMES = 50
"""Between the spikes of two sounds of one word: more is a word torn apart."""

GAP_COST = 0.1
"""Nats that each frame between the spikes of a word costs when a word was torn apart."""

WINDOW_VALUES_AT_ONCE = 2**22
"""Log-probs of windows that are scored together: 16 MB of float32."""


@dataclass(frozen=True)
class Spikes:
    """Where the best CTC path is in each token: frames `first` (L,) to `last` (L,), exclusive; `score` its log-prob."""

    first: np.ndarray
    last: np.ndarray
    score: float
    backend: str


def best_spikes(log_probs: torch.Tensor, ids: Sequence[int], blank: int, *, backend: str = "auto") -> Spikes:
    """Best CTC path of one utterance.

    Args:
        log_probs: (T, C).
        ids: L token ids.
        blank: the class of the blank.

    Raises:
        TooShortError: L plus repeats is more than T.
        EmissionsError: every path has probability zero.
    """
    topology = lattice.ctc([np.asarray(ids, np.int64)], blank)
    check_fits(len(log_probs), int(topology.min_frames[0]), len(ids))
    path = kernels.best_path(log_probs[None], topology, backend=backend)
    score = float(path.scores[0])
    if score == float("-inf"):
        raise EmissionsError(
            "the log-probs give this transcript probability zero (every path meets -inf): nothing can be aligned; "
            "is it the right transcript?"
        )
    first, last = runs(path.states[0].numpy(), topology.token[0], len(ids))
    return Spikes(first, last, score, path.backend)


def word_spikes(
    log_probs: torch.Tensor, tokens: Tokens, blank: int, *, backend: str = "auto", gap_frames: int = GAP_FRAMES
) -> Spikes:
    """As `best_spikes`, but no word is torn apart: to CTC a second of blanks inside a word is as good as outside.

    In long pauses with noise, and where something is said that is not in the transcript, the best path leaves single
    sounds far from the rest of their word. Then the frames come from the best path on which blanks inside words cost
    something; the score stays that of the best path.
    """
    spikes = best_spikes(log_probs, tokens.ids, blank, backend=backend)
    owner = np.asarray(tokens.words)
    inside = (owner[1:] == owner[:-1]) & (owner[1:] >= 0)
    if not (inside & (spikes.first[1:] - spikes.last[:-1] > gap_frames)).any():
        return spikes
    topology = lattice.ctc([np.asarray(tokens.ids, np.int64)], blank)
    emit = topology.emit.copy()
    emit[0, 2:-1:2][inside] = log_probs.shape[1]
    costly = torch.cat((log_probs, log_probs[:, blank, None] - GAP_COST), 1)
    path = kernels.best_path(costly[None], replace(topology, emit=emit), backend=backend)
    first, last = runs(path.states[0].numpy(), topology.token[0], len(tokens.ids))
    return replace(spikes, first=first, last=last)


def check_fits(frames: int, needed: int, tokens: int) -> None:
    """Raises TooShortError when the shortest path is longer than the audio."""
    if needed > frames:
        raise TooShortError(
            f"the transcript is longer than the audio can hold: {tokens} tokens need at least {needed} frames, "
            f"the audio has {frames}; is it the right transcript, and the whole recording?"
        )


def runs(states: np.ndarray, token_of_state: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) frame of each token along a path of states (T,)."""
    token = token_of_state[states] if len(states) else np.empty(0, np.int32)
    frames = np.flatnonzero(token >= 0)
    first, last = np.full(tokens, -1, np.int64), np.full(tokens, -1, np.int64)
    # Written backwards the first frame stays, written forwards the last one.
    first[token[frames[::-1]]] = frames[::-1]
    last[token[frames]] = frames + 1
    return first, last


def ctc_score(log_probs: torch.Tensor, ids: Sequence[int], blank: int, *, backend: str = "auto") -> float:
    """The exact CTC loss -log p(ids | log_probs), natural log; inf where it does not fit."""
    topology = lattice.ctc([np.asarray(ids, np.int64)], blank)
    return -float(kernels.forward(log_probs[None], topology, backend=backend).scores[0])


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
    gap_frames = GAP_FRAMES if whole_words else len(log_probs)
    find = partial(word_spikes, log_probs, blank=blank, backend=backend, gap_frames=gap_frames)
    choice = [0] * len(word_tokens)
    tokens = join(word_tokens, choice, separator)
    try:
        spikes = find(tokens)
    except (TooShortError, EmissionsError):
        shortest = [_shortest(word) for word in word_tokens]
        if shortest == choice:
            raise
        choice = shortest
        tokens = join(word_tokens, choice, separator)
        spikes = find(tokens)
    better = _rescore(log_probs, word_tokens, tokens, spikes, choice, blank, backend)
    if better == choice:
        return tokens, spikes
    chosen = join(word_tokens, better, separator)
    try:
        return chosen, find(chosen)
    except (TooShortError, EmissionsError):
        return tokens, spikes


def _shortest(word: WordTokens) -> int:
    lengths = [len(p.ids) for p in word.pronunciations]
    return int(np.argmin(lengths)) if lengths else 0


def _rescore(
    log_probs: torch.Tensor,
    word_tokens: Sequence[WordTokens],
    tokens: Tokens,
    spikes: Spikes,
    choice: list[int],
    blank: int,
    backend: str,
) -> list[int]:
    jobs: list[tuple[int, int, int, int]] = []
    owner = np.asarray(tokens.words)
    said, starts = np.unique(owner, return_index=True)
    ends = len(owner) - 1 - np.unique(owner[::-1], return_index=True)[1]
    for w, start, end in zip(said.tolist(), starts.tolist(), ends.tolist()):
        if w < 0 or len(word_tokens[w].pronunciations) < 2:
            continue
        low = int(spikes.last[start - 1]) if start else 0
        high = int(spikes.first[end + 1]) if end + 1 < len(owner) else len(log_probs)
        low = max(low, int(spikes.first[start]) - WINDOW_FRAMES)
        high = min(high, int(spikes.last[end]) + WINDOW_FRAMES)
        jobs += [(w, k, low, high) for k in range(len(word_tokens[w].pronunciations))]
    best = dict.fromkeys((job[0] for job in jobs), (float("-inf"), -1))
    for part in _parts(jobs, log_probs.shape[1]):
        for (w, k, _, _), score in zip(part, _window_scores(log_probs, word_tokens, part, blank, backend)):
            if score > best[w][0]:
                best[w] = (score, k)
    return [best[w][1] if best.get(w, (0.0, -1))[1] >= 0 else k for w, k in enumerate(choice)]


def _parts(jobs: Sequence[tuple[int, int, int, int]], classes: int) -> Iterator[list[tuple[int, int, int, int]]]:
    """Jobs of similar length, as many as fit into memory together; one alone always does."""
    part: list[tuple[int, int, int, int]] = []
    for job in sorted(jobs, key=lambda job: job[3] - job[2]):
        if part and (len(part) + 1) * (job[3] - job[2]) * classes > WINDOW_VALUES_AT_ONCE:
            yield part
            part = []
        part.append(job)
    if part:
        yield part


def _window_scores(
    log_probs: torch.Tensor,
    word_tokens: Sequence[WordTokens],
    jobs: Sequence[tuple[int, int, int, int]],
    blank: int,
    backend: str,
) -> list[float]:
    lengths = [high - low for _, _, low, high in jobs]
    windows = log_probs.new_zeros(len(jobs), max(lengths), log_probs.shape[1])
    for row, (_, _, low, high) in enumerate(jobs):
        windows[row, : high - low] = log_probs[low:high]
    topology = lattice.ctc([word_tokens[w].pronunciations[k].ids for w, k, _, _ in jobs], blank)
    return kernels.forward(windows, topology, lengths, backend=backend).scores.tolist()
